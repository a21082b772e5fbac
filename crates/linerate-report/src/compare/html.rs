//! The view as one page that needs nothing else: no script, no font, no other file.

use super::analysis::Verdict;
use super::svg;
use super::view::View;
use crate::draw::escape;
use crate::page::{self, Page};

/// Lays the view out as a page.
pub fn render(view: &View) -> String {
    let title = match (view.sets.first(), view.sets.len()) {
        (Some(base), n) if n > 1 => format!("{} and {} more", base.label, n - 1),
        (Some(base), _) => base.label.clone(),
        _ => String::new(),
    };
    let mut out =
        format!("<h1>linerate compare</h1>\n<p class=\"head\">{}</p>\n", escape(&view.headline));
    out.push_str("<div class=\"words\">\n");
    for sentence in &view.words {
        out.push_str(&format!("<p>{}</p>\n", escape(sentence)));
    }
    out.push_str("</div>\n<figure>\n");
    out.push_str(&svg::embedded(view));
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
    out.push_str(&format!("<p class=\"note\">linerate {}</p>\n", escape(view.linerate.version)));
    let title = format!("linerate compare: {title}");
    page::render(&Page { title: &title, body: &out, ..Page::default() })
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
