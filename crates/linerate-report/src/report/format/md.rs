//! Words and tables as Markdown (CommonMark with tables), for issues and notes. The figures are not
//! in it; what they show is in their words.

use super::{COMMENT, Look};
use crate::report::run;
use crate::report::view::{Section, Table, View};

/// Rows of one table up to which it is whole.
const MOST_ROWS: usize = 200;

pub(super) fn render(view: &View, _: &Look) -> Result<Vec<u8>, String> {
    let mut out = format!("{COMMENT}{} -->\n\n# {}\n\n", view.version, text(&view.title));
    if !view.headline.rows.is_empty() {
        table(&mut out, &view.headline.columns, view.headline.rows.iter());
    }
    list(&mut out, &view.words);
    if !view.problems.is_empty() {
        out.push_str("## Not in this report\n\n");
        list(&mut out, &view.problems);
    }
    for section in &view.sections {
        self::section(&mut out, section);
    }
    if !view.runs.is_empty() {
        out.push_str("## Runs\n\n");
        table(&mut out, run::COLUMNS, view.runs.iter().map(|r| &r.cells));
    }
    if view.runs.len() <= crate::report::view::MOST_DRAWN_RUNS {
        for run in &view.runs {
            out.push_str(&format!("### {}\n\n{}\n\n", text(&run.label), text(&run.summary)));
            list(&mut out, &run.words);
            facts(&mut out, &run.facts);
            command(&mut out, &run.command);
        }
    }
    if !view.hosts.is_empty() {
        out.push_str("## Hosts\n\n");
        for host in &view.hosts {
            out.push_str(&format!("### {}\n\n", text(&host.name)));
            list(&mut out, &host.during);
            facts(&mut out, &host.facts);
        }
    }
    out.push_str("## This report\n\n");
    command(&mut out, &view.command);
    Ok(out.into_bytes())
}

fn section(out: &mut String, section: &Section) {
    out.push_str(&format!("## {}\n\n", text(&section.title)));
    list(out, &section.words);
    for (what, line) in &section.commands {
        out.push_str(&format!("{}:\n\n", text(what)));
        command(out, line);
    }
    for figure in &section.figures {
        let (title, alt) = figure.words();
        out.push_str(&format!("*{}.* {}\n\n", text(title), text(alt)));
    }
    for Table { title, columns, rows, .. } in &section.tables {
        out.push_str(&format!("**{}**\n\n", text(title)));
        table(out, columns, rows.iter());
    }
    facts(out, &section.facts);
    if let Some(line) = &section.command {
        command(out, line);
    }
}

fn list(out: &mut String, items: &[String]) {
    for item in items {
        out.push_str(&format!("- {}\n", text(item)));
    }
    if !items.is_empty() {
        out.push('\n');
    }
}

fn facts(out: &mut String, facts: &[(String, String)]) {
    let rows: Vec<Vec<String>> = facts.iter().map(|(a, b)| vec![a.clone(), b.clone()]).collect();
    if !rows.is_empty() {
        table(out, &["", ""], rows.iter());
    }
}

fn table<'a>(
    out: &mut String,
    columns: &[impl AsRef<str>],
    rows: impl ExactSizeIterator<Item = &'a Vec<String>>,
) {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push_str(&line(columns.iter().map(|c| text(c.as_ref())).collect()));
    out.push_str(&line(vec!["---".to_owned(); columns.len()]));
    let count = rows.len();
    for row in rows.take(MOST_ROWS) {
        out.push_str(&line(row.iter().map(|c| text(c)).collect()));
    }
    if count > MOST_ROWS {
        out.push_str(&format!("\n{} more rows are in the CSV report.\n", count - MOST_ROWS));
    }
    out.push('\n');
}

/// A command as an indented block, which knows no markup at all.
fn command(out: &mut String, line: &str) {
    out.push_str(&format!("    {}\n\n", crate::clean::clean_command(line)));
}

/// Foreign text without markup: what Markdown or the HTML in it would take for a sign is escaped.
fn text(raw: &str) -> String {
    let clean = crate::clean::clean(raw);
    let mut out = String::with_capacity(clean.len() + 8);
    for c in clean.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => {
                out.push('\\');
                out.push(c);
            }
            // Bare addresses become links in many readers; a zero-width entity parts the scheme.
            ':' if out.ends_with("http")
                || out.ends_with("https")
                || out.ends_with("javascript") =>
            {
                out.push_str("&#58;");
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_no_markup() {
        assert_eq!(text("<b>|*x*`[a](javascript:b)"), r"&lt;b&gt;\|\*x\*\`\[a\](javascript&#58;b)");
        assert_eq!(text("two\nlines # x"), r"two lines \# x");
    }
}
