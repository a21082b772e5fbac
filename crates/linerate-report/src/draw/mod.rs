//! The one layer of SVG: colours, type, escaping and the frame of a drawing. What is drawn is
//! decided by [`crate::compare::svg`] (lanes of dots), [`chart`] (curves over axes), [`bars`] and [`flame`].

pub mod bars;
pub mod chart;
pub mod flame;
pub mod scale;

use std::fmt::{Display, Write};

/// Width of every drawing in its own units.
pub const WIDTH: f64 = 960.0;

/// Distinct colours of series and boots; with more they come round again.
pub const COLOURS: usize = 6;

/// A colour's name, on light and on dark. Text and lines keep a contrast of at least 4.5 to 1
/// against the background, fills of 3 to 1 (WCAG 2.1, 1.4.3 and 1.4.11), but for `line`, `box`,
/// `card` and the grey of bands, which carry nothing that is not written as well.
const PALETTE: &[(&str, &str, &str)] = &[
    ("ink", "#1b1f24", "#e8edf2"),
    ("soft", "#59636e", "#a3adb8"),
    ("line", "#d1d9e0", "#3b434c"),
    ("bg", "#ffffff", "#12161b"),
    ("card", "#f4f6f8", "#1b2129"),
    ("box", "#dfe5ec", "#333c47"),
    ("mean", "#b3261e", "#ff8a80"),
    ("different", "#0b62c4", "#6cb0ff"),
    ("equivalent", "#15803d", "#62d98b"),
    ("inconclusive", "#8a5a00", "#e6c15a"),
    ("b0", "#0b62c4", "#6cb0ff"),
    ("b1", "#c2410c", "#ffa26b"),
    ("b2", "#15803d", "#62d98b"),
    ("b3", "#7e22ce", "#cf9bff"),
    ("b4", "#0e7490", "#5fd0e6"),
    ("b5", "#a16207", "#e6c15a"),
];

/// Rules of everything that is drawn.
const RULES: &str = "
  svg.lr{background:var(--bg)} .lr .bg{fill:var(--bg)} .lr text{fill:var(--ink);font:13px system-ui,sans-serif}
  .lr .soft{fill:var(--soft);font-size:12px} .lr .grid{stroke:var(--line);stroke-width:1}
  .lr .edge{stroke:var(--soft);stroke-width:1.5;fill:none} .lr .box{fill:var(--box);stroke:var(--soft);stroke-width:1.2}
  .lr .median{stroke:var(--ink);stroke-width:2.5} .lr .ci{stroke:var(--mean);stroke-width:3}
  .lr .mean{fill:var(--mean)} .lr .name{font-weight:600} .lr .title{font-size:15px;font-weight:600}
  .lr .b0{fill:var(--b0)} .lr .b1{fill:var(--b1)} .lr .b2{fill:var(--b2)} .lr .b3{fill:var(--b3)}
  .lr .b4{fill:var(--b4)} .lr .b5{fill:var(--b5)} .lr circle{fill-opacity:.85}
  .lr .l0{stroke:var(--b0)} .lr .l1{stroke:var(--b1)} .lr .l2{stroke:var(--b2)} .lr .l3{stroke:var(--b3)}
  .lr .l4{stroke:var(--b4)} .lr .l5{stroke:var(--b5)} .lr .curve{fill:none;stroke-width:2;stroke-linejoin:round}
  .lr .thin{stroke-width:1.2} .lr .dash{stroke-dasharray:6 5} .lr .dots{stroke-dasharray:2 4} .lr .ideal{stroke:var(--soft)}
  .lr .band{fill:var(--box);fill-opacity:.45} .lr .ring{fill:none;stroke:var(--mean);stroke-width:1.8}
  .lr .n{fill:var(--box)} .lr .frame rect{rx:1.5px} .lr .frame .b0,.lr .frame .b1,.lr .frame .b2,.lr .frame .b3,.lr .frame .b4,.lr .frame .b5,.lr .frame .mean{fill-opacity:.4}
  .lr .frame text{font-size:11px} .lr .mark{fill:var(--mean);font-weight:600;font-size:12px}
";

/// On what a drawing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// As the reader prefers, by CSS variables.
    Reader,
    /// On white, with the colours written out.
    Light,
    /// On near black, with the colours written out.
    Dark,
}

/// The custom properties for a selector, light and dark, as the reader prefers. Paper is light, and so is an element of
/// the class `paper`: a script that draws for the printer does so while the screen is still what counts.
pub fn variables(selector: &str) -> String {
    let list = |dark: bool| -> String {
        PALETTE
            .iter()
            .map(|(name, light, night)| format!("--{name}:{};", if dark { night } else { light }))
            .collect()
    };
    format!(
        "{selector}{{{}}}\n@media screen and (prefers-color-scheme: dark){{{selector}:not(.paper){{{}}}}}\n",
        list(false),
        list(true)
    )
}

/// The style sheet of drawings.
pub fn style(theme: Theme) -> String {
    if theme == Theme::Reader {
        return format!("{}{RULES}", variables(".lr"));
    }
    // The renderer of pixels has no CSS variables and gets the colours themselves; texts are paths of the class `text` there.
    let mut rules = RULES.replace(".lr text{", ".lr text,.lr .text{");
    for (name, light, dark) in PALETTE {
        let colour = if theme == Theme::Dark { dark } else { light };
        rules = rules.replace(&format!("var(--{name})"), colour);
    }
    rules
}

/// The rules without the variables, for a page that has set those.
pub fn rules() -> &'static str {
    RULES
}

/// A drawing that stands in a page which has the style: as high as what was drawn.
pub fn embedded(height: f64, label: &str, body: &str) -> String {
    frame(height, label, "", body)
}

/// A drawing that stands alone.
pub fn document(theme: Theme, height: f64, label: &str, body: &str) -> String {
    let style = format!("<style>{}</style>\n", style(theme));
    let head = format!("{style}<rect class=\"bg\" width=\"{WIDTH}\" height=\"{height}\"/>\n");
    frame(height, label, &head, body)
}

fn frame(height: f64, label: &str, head: &str, body: &str) -> String {
    let mut out = String::with_capacity(body.len() + head.len() + 300);
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"lr\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"{}\">\n{head}{body}</svg>\n",
        escape(label)
    );
    out
}

/// A line of foreign text that begins at a point; `class` may be empty.
pub fn text(out: &mut String, class: &str, x: impl Display, y: f64, text: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = writeln!(out, "<text{class} x=\"{x}\" y=\"{y:.1}\">{}</text>", escape(text));
}

/// The same beside an axis; `anchor` is what of it stands at the point: start, middle or end.
pub fn beside_axis(out: &mut String, anchor: &str, x: f64, y: f64, text: &str) {
    let _ = writeln!(
        out,
        "<text class=\"soft\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        escape(text)
    );
}

/// Text for an element or an attribute.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not allowed in XML, whatever the file name was.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A long name without its middle: names of settings differ at their ends.
pub fn shortened(label: &str, most: usize) -> String {
    let length = label.chars().count();
    if length <= most {
        return label.to_owned();
    }
    let head: String = label.chars().take(most / 2).collect();
    let tail: String = label.chars().skip(length - most / 2).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_out_colours_leave_no_variable() {
        for theme in [Theme::Light, Theme::Dark] {
            let style = style(theme);
            assert!(!style.contains("var("), "{style}");
            assert!(style.contains(".lr text,.lr .text{fill:#"), "{style}");
        }
        assert!(style(Theme::Reader).contains("(prefers-color-scheme: dark){.lr:not(.paper){"));
    }

    /// Relative luminance and contrast, WCAG 2.1.
    #[test]
    fn colours_can_be_read_on_their_ground() {
        let luminance = |colour: &str| {
            let part = |at: usize| {
                let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        let contrast = |a: &str, b: &str| {
            let (a, b) = (luminance(a), luminance(b));
            (a.max(b) + 0.05) / (a.min(b) + 0.05)
        };
        let ground = PALETTE.iter().find(|p| p.0 == "bg").unwrap();
        for (name, light, dark) in PALETTE {
            if ["bg", "card", "line", "box"].contains(name) {
                continue;
            }
            assert!(
                contrast(light, ground.1) >= 4.5,
                "{name} on light: {}",
                contrast(light, ground.1)
            );
            assert!(
                contrast(dark, ground.2) >= 4.5,
                "{name} on dark: {}",
                contrast(dark, ground.2)
            );
        }
    }

    #[test]
    fn markup_and_controls_are_text() {
        assert_eq!(escape("<a b='\"&\u{1b}\u{0}"), "&lt;a b=&#39;&quot;&amp;\u{fffd}\u{fffd}");
        assert_eq!(shortened("a_setting_with_a_long_name", 12), "a_sett…g_name");
    }
}
