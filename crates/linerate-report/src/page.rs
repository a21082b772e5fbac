//! The one shell of every page: complete in one file, closed by a content security policy that
//! lets nothing in but the style and the scripts which the page itself was made with.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::draw::{self, escape};
use crate::packed::packed;

/// Who made a page; a program may look for it before it writes over a file.
pub const GENERATOR: &str = "linerate";

const UPLOT_LICENCE: &str = include_str!("../assets/uplot/LICENSE");
/// The style of what [`uplot`] draws.
pub const UPLOT_STYLE: &str = include_str!("../assets/uplot/uPlot.min.css");

/// The script that draws charts, uPlot 1.6.32, with its licence (MIT): `assets/README.md` has where it is from, and its
/// hashes.
pub fn uplot() -> String {
    let licence = UPLOT_LICENCE.replace("*/", "* /");
    format!("/* uPlot 1.6.32\n{licence}*/\n{}", packed!("uPlot.iife.min.js"))
}

/// Type and tables, the same on all pages.
const STYLE: &str = "
  :root{color-scheme:light dark} @media print{:root{color-scheme:light}}
  body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--bg);max-width:1000px;
    margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere} h1{font-size:1.4rem;margin:0} h2{font-size:1.1rem;margin:2rem 0 .5rem}
  .head,.note{color:var(--soft)} .words{background:var(--card);border-radius:8px;padding:.6rem 1rem;margin:1rem 0}
  .words p{margin:.4rem 0;font-size:1.05rem} .scroll{overflow-x:auto}
  table{border-collapse:collapse;font-variant-numeric:tabular-nums} th,td{padding:.3rem .9rem .3rem 0;text-align:right;
    border-bottom:1px solid var(--line);white-space:nowrap} th{font-weight:600;color:var(--soft)}
  th:first-child,td:first-child{text-align:left} dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:0}
  dt{color:var(--soft)} dd{margin:0} figure{margin:1rem 0}
  figure svg{width:100%;height:auto}
";

/// How every page begins.
pub const BEGIN: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                         <meta http-equiv=\"Content-Security-Policy\" content=\"";

/// Whether what follows [`BEGIN`] is the head of a page of ours, up to its title.
pub fn is_head(rest: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(rest) else { return false };
    let mut lines = text.lines();
    lines.next().is_some_and(|policy| policy.ends_with("\">"))
        && lines.next().is_some_and(|l| {
            l.starts_with(&format!("<meta name=\"generator\" content=\"{GENERATOR} "))
        })
        && lines.all(|l| l.starts_with("<meta name=\""))
}

/// What a page consists of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Page<'a> {
    /// Foreign text is allowed: it is escaped here.
    pub title: &'a str,
    /// Added to the common style; our own text only.
    pub style: &'a str,
    /// Markup, everything foreign in it already escaped.
    pub body: &'a str,
    /// Scripts, run in this order when the body is there; our own text only.
    pub scripts: &'a [&'a str],
    /// Data for them: element ids and JSON. Not run, so the policy does not cover them; whatever
    /// could end the element early is written as an escape.
    pub data: &'a [(&'a str, &'a str)],
    /// Whether scripts may ask for more where the page came from.
    pub connects: bool,
}

/// Lays the page out.
pub fn render(page: &Page<'_>) -> String {
    let style = format!("{}{}{STYLE}{}", draw::variables(":root"), draw::rules(), page.style);
    let size = page.body.len() + style.len() + page.scripts.iter().map(|s| s.len()).sum::<usize>();
    let mut out = String::with_capacity(size + 4_096);
    let scripts: Vec<String> = page.scripts.iter().map(|s| source(s)).collect();
    let scripts = if scripts.is_empty() { "'none'".to_owned() } else { scripts.join(" ") };
    let connects = if page.connects { " connect-src 'self';" } else { "" };
    out.push_str(&format!(
        "{BEGIN}default-src 'none'; style-src {}; script-src \
         {scripts};{connects} base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'\">\n<meta \
         name=\"generator\" content=\"{GENERATOR} {}\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{}</title>\n\
         <style>{style}</style>\n</head>\n<body>\n{}",
        source(&style),
        env!("CARGO_PKG_VERSION"),
        escape(page.title),
        page.body
    ));
    for (id, json) in page.data {
        out.push_str(&format!("<script type=\"application/json\" id=\"{id}\">"));
        // JSON has a `<` in strings alone, where an escape means the same.
        out.push_str(&json.replace('<', "\\u003c"));
        out.push_str("</script>\n");
    }
    for script in page.scripts {
        out.push_str("<script>");
        out.push_str(script);
        out.push_str("</script>\n");
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// A source of the policy: the digest of a text.
fn source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_names_what_is_there_and_data_cannot_break_out() {
        let page = Page {
            title: "<b>",
            body: "<p>x</p>",
            scripts: &["let a = 1;"],
            data: &[("d", r#"{"a":"</script><script>alert(1)<!--"}"#)],
            ..Default::default()
        };
        let text = render(&page);
        assert!(text.contains("<title>&lt;b&gt;</title>"));
        assert!(text.contains(&source("let a = 1;")));
        let style = text.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        assert!(text.contains(&format!("style-src {};", source(style))));
        assert_eq!(text.matches("</script>").count(), 2);
        let data = text.split_once("id=\"d\">").unwrap().1.split_once("</script>").unwrap().0;
        let value: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(value["a"], "</script><script>alert(1)<!--");
        assert!(!text.contains("style=\"") && !text.contains("onload"));
    }
}
