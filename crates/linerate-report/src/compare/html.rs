//! The view as one page that needs nothing else: no script, no font, no other file.

use super::analysis::Verdict;
use super::svg::{self, escape};
use super::view::View;

const STYLE: &str = "
  :root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--line:#d1d9e0;--bg:#ffffff;--card:#f4f6f8;
    --different:#0b62c4;--equivalent:#15803d;--inconclusive:#8a5a00}
  @media (prefers-color-scheme: dark){:root{--ink:#e8edf2;--soft:#a3adb8;--line:#3b434c;--bg:#12161b;
    --card:#1b2129;--different:#6cb0ff;--equivalent:#62d98b;--inconclusive:#e6c15a}}
  body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--bg);max-width:1000px;
    margin:2rem auto;padding:0 1rem} h1{font-size:1.4rem;margin:0} h2{font-size:1.1rem;margin:2rem 0 .5rem}
  .head,.note,.flag{color:var(--soft)} .words{background:var(--card);border-radius:8px;padding:.6rem 1rem;margin:1rem 0}
  .words p{margin:.4rem 0;font-size:1.05rem} .scroll{overflow-x:auto}
  table{border-collapse:collapse;font-variant-numeric:tabular-nums} th,td{padding:.3rem .9rem .3rem 0;text-align:right;
    border-bottom:1px solid var(--line);white-space:nowrap} th{font-weight:600;color:var(--soft)}
  th:first-child,td:first-child{text-align:left} dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:0}
  dt{color:var(--soft)} dd{margin:0} .verdict{font-weight:700} .different{color:var(--different)}
  .equivalent{color:var(--equivalent)} .inconclusive,.none{color:var(--inconclusive)} figure{margin:1rem 0}
  figure svg{width:100%;height:auto}
";

/// Lays the view out as a page.
pub fn render(view: &View) -> String {
    let title = match (view.sets.first(), view.sets.len()) {
        (Some(base), n) if n > 1 => format!("{} and {} more", base.label, n - 1),
        (Some(base), _) => base.label.clone(),
        _ => String::new(),
    };
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\">\n<title>linerate compare: {}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>linerate compare</h1>\n<p class=\"head\">{}</p>\n",
        escape(&title),
        escape(&view.headline)
    );
    out.push_str("<div class=\"words\">\n");
    for sentence in &view.words {
        out.push_str(&format!("<p>{}</p>\n", escape(sentence)));
    }
    out.push_str("</div>\n<figure>\n");
    out.push_str(&svg::render(view));
    out.push_str(&format!(
        "<figcaption class=\"note\">Every dot is a run{}. Box: quartiles and median, line from least to \
         largest. Diamond and red bar: mean and its {} % interval.</figcaption>\n</figure>\n",
        if view.sets.iter().any(|s| s.boots.is_some()) { ", its colour the boot" } else { "" },
        view.level
    ));
    sets(&mut out, view);
    for comparison in &view.comparisons {
        let (class, verdict) = match comparison.verdict {
            Some(Verdict::Different) => ("different", "different"),
            Some(Verdict::Equivalent) => ("equivalent", "equivalent"),
            Some(Verdict::Inconclusive) => ("inconclusive", "inconclusive"),
            None => ("none", "no verdict"),
        };
        out.push_str(&format!(
            "<h2>{} against {}: <span class=\"verdict {class}\">{verdict}</span></h2>\n<dl>\n",
            escape(&comparison.label),
            escape(&comparison.baseline)
        ));
        for (name, text) in &comparison.lines {
            out.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(text)));
        }
        out.push_str("</dl>\n");
    }
    out.push_str("<h2>Notes</h2>\n");
    for note in &view.notes {
        out.push_str(&format!("<p class=\"note\">{}</p>\n", escape(note)));
    }
    out.push_str(&format!(
        "<p class=\"note\">linerate {}</p>\n</body>\n</html>\n",
        escape(view.linerate.version)
    ));
    out
}

fn sets(out: &mut String, view: &View) {
    let boots = view.sets.iter().any(|s| s.boots.is_some());
    let interval = format!("{} % interval", view.level);
    let names = [
        "set",
        if boots { "boots x runs" } else { "runs" },
        "mean",
        interval.as_str(),
        "median",
        "sd",
        "between",
        "within",
        "icc",
    ];
    let columns = if boots { names.len() } else { 6 };
    out.push_str("<h2>Sets</h2>\n<div class=\"scroll\"><table>\n<tr>");
    for name in names.iter().take(columns) {
        out.push_str(&format!("<th>{}</th>", escape(name)));
    }
    out.push_str("</tr>\n");
    for set in &view.sets {
        out.push_str("<tr>");
        for cell in set.cells.iter().take(columns) {
            out.push_str(&format!("<td>{}</td>", escape(cell)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
    for set in &view.sets {
        for flag in &set.flags {
            let text = escape(&flag.text);
            out.push_str(&format!("<p class=\"flag\">{}: {text}</p>\n", escape(&set.label)));
        }
    }
}
