//! `docs/reliability.md`, made of `proofs/targets.toml`: what is promised, which test proves it, what is short of it.
//! A test that measures prints lines `FIGURE T12: words`; the last of a log for each target become its figure.

use std::fmt::Write;
use std::path::Path;

use toml::{Table, Value};

const DATA: &str = "proofs/targets.toml";
const PAGE: &str = "docs/reliability.md";
const TARGETS: usize = 36;
const HEAD: &str = "# Targets of reliability

What is promised of programs that face strangers, lose power or must not lie, and what proves it. Made of
[proofs/targets.toml](../proofs/targets.toml) by `cargo xtask proofs`; `cargo xtask tidy` fails where a test that is named
here does not exist, or where this page is not of that file. A figure is the last that was measured, with the command that
did; `LINERATE_LONG=1` and `-- --include-ignored` make long runs of the tests, as `./test --long` does. **In part** says what is
proven of the target, and what is not.
";

/// Writes the page; with a log, its figures into the data first.
pub fn run(root: &Path, log: Option<&str>) -> Result<String, Vec<String>> {
    let fault = |what: &str, e: &dyn std::fmt::Display| vec![format!("{what}: {e}")];
    let path = root.join(DATA);
    let mut data = std::fs::read_to_string(&path).map_err(|e| fault(DATA, &e))?;
    if let Some(log) = log {
        let text = std::fs::read(log).map_err(|e| fault(log, &e))?;
        data = with_figures(&data, &String::from_utf8_lossy(&text));
        std::fs::write(&path, &data).map_err(|e| fault(DATA, &e))?;
    }
    let rows = rows(&data).map_err(|e| vec![e])?;
    let faults: Vec<String> = rows.iter().flat_map(|row| row.faults(root)).collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    std::fs::write(root.join(PAGE), page(&rows)).map_err(|e| fault(PAGE, &e))?;
    Ok(format!("{PAGE} is written: {}", summary(&rows)))
}

/// What is wrong with the data or the page.
pub fn faults(root: &Path) -> Vec<String> {
    let data = std::fs::read_to_string(root.join(DATA)).unwrap_or_default();
    let rows = match rows(&data) {
        Ok(rows) => rows,
        Err(fault) => return vec![fault],
    };
    let mut faults: Vec<String> = rows.iter().flat_map(|row| row.faults(root)).collect();
    if std::fs::read_to_string(root.join(PAGE)).unwrap_or_default() != page(&rows) {
        faults.push(format!("{PAGE} is not of {DATA}: cargo xtask proofs writes it"));
    }
    faults
}

#[derive(Default)]
struct Row {
    id: String,
    /// The target in a sentence.
    what: String,
    /// `FILE::NAME` of tests.
    tests: Vec<String>,
    /// What runs at length.
    command: Option<String>,
    figure: Option<String>,
    /// What is missing.
    short: Option<String>,
}

fn rows(data: &str) -> Result<Vec<Row>, String> {
    let table: Table = data.parse().map_err(|e| format!("{DATA}: {e}"))?;
    let listed = table.get("target").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let rows = listed.iter().map(Row::read).collect::<Result<Vec<_>, String>>()?;
    let ids = (1..=TARGETS).map(|n| format!("T{n}"));
    if !rows.iter().map(|row| row.id.clone()).eq(ids) {
        return Err(format!("{DATA} must list T1 to T{TARGETS}, each once and in this order"));
    }
    Ok(rows)
}

impl Row {
    fn read(value: &Value) -> Result<Self, String> {
        let mut row = Self::default();
        for (key, value) in value.as_table().into_iter().flatten() {
            let text = value.as_str().map(str::to_owned);
            match (key.as_str(), text) {
                ("id", Some(text)) => row.id = text,
                ("what", Some(text)) => row.what = text,
                ("command", text @ Some(_)) => row.command = text,
                ("figure", text @ Some(_)) => row.figure = text,
                ("short", text @ Some(_)) => row.short = text,
                ("tests", None) => {
                    let tests = value.as_array().into_iter().flatten();
                    row.tests = tests.filter_map(|test| Some(test.as_str()?.to_owned())).collect();
                }
                _ => return Err(format!("{DATA}: {} has a {key} that is none", row.id)),
            }
        }
        Ok(row)
    }

    fn proven(&self) -> bool {
        !self.tests.is_empty() || self.command.is_some()
    }

    fn state(&self) -> &'static str {
        match (self.proven(), &self.short) {
            (true, None) => "kept",
            (true, Some(_)) => "in part",
            (false, _) => "not kept",
        }
    }

    fn faults(&self, root: &Path) -> Vec<String> {
        let missing = self.tests.iter().filter(|test| !exists(root, test));
        let mut faults: Vec<String> =
            missing.map(|test| format!("{DATA}: {}: there is no test {test}", self.id)).collect();
        let program = self.command.as_deref().and_then(|line| line.split(' ').next());
        if let Some(script) = program.filter(|word| word.contains('/') && !root.join(word).exists())
        {
            faults.push(format!("{DATA}: {}: there is no {script}", self.id));
        }
        if self.what.is_empty() || !self.proven() && self.short.is_none() {
            faults.push(format!("{DATA}: {} says neither what proves it nor why not", self.id));
        }
        faults
    }
}

/// Whether the file has a function of that name, marked as a test.
fn exists(root: &Path, test: &str) -> bool {
    let Some((file, name)) = test.split_once("::") else { return false };
    let Ok(source) = std::fs::read_to_string(root.join(file)) else { return false };
    let head = format!("fn {name}(");
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    lines.iter().enumerate().any(|(at, line)| {
        let above = lines.iter().take(at).rev().take_while(|l| l.starts_with("#["));
        line.starts_with(&head) && above.into_iter().any(|l| *l == "#[test]")
    })
}

/// The data with the last figure that the log has of each target.
fn with_figures(data: &str, log: &str) -> String {
    // Within a test's output the line may follow others that did not end.
    let figure = |id: &str| {
        let of_it = |line: &str| Some(line.split_once(&format!("FIGURE {id}: "))?.1.to_owned());
        log.lines().rev().find_map(of_it)
    };
    let mut out = String::new();
    let mut renewed = false;
    for line in data.lines() {
        if let Some(id) = line.strip_prefix("id = ") {
            let new = figure(id.trim_matches('"'));
            let _ = writeln!(out, "{line}");
            renewed = new.is_some();
            new.iter().for_each(|new| {
                let _ = writeln!(out, "figure = {}", Value::from(new.as_str()));
            });
        } else if !(renewed && line.starts_with("figure = ")) {
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

fn summary(rows: &[Row]) -> String {
    let count = |state| rows.iter().filter(|row| row.state() == state).count();
    let (kept, part, not) = (count("kept"), count("in part"), count("not kept"));
    format!("{kept} of {} kept, {part} in part, {not} not", rows.len())
}

fn page(rows: &[Row]) -> String {
    let mut page = format!("{HEAD}\n{}.\n", summary(rows));
    for row in rows {
        let _ = write!(page, "\n## {}: {}\n\n{}\n", row.id, row.state(), row.what);
        if let Some(short) = &row.short {
            let _ = write!(page, "\n**{}:** {short}\n", capital(row.state()));
        }
        if let Some(figure) = &row.figure {
            let _ = write!(page, "\nLast figure: {figure}\n");
        }
        if row.proven() {
            page.push('\n');
        }
        for (file, name) in row.tests.iter().filter_map(|test| test.split_once("::")) {
            let of = file.strip_prefix("crates/").unwrap_or(file);
            let _ = writeln!(page, "- [{of}](../{file}) `{name}`");
        }
        if let Some(command) = &row.command {
            let _ = writeln!(page, "- `{command}`");
        }
    }
    page
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_log_replace_the_old() {
        let data = "[[target]]\nid = \"T1\"\nfigure = \"old\"\nwhat = \"x\"\n[[target]]\nid = \"T2\"\nfigure = \"stays\"\n";
        let log = "FIGURE T1: 1\ntest x ... FIGURE T1: 2 \"times\"\nFIGURE T11: 3";
        let new = with_figures(data, log);
        let figures: Vec<&str> = new.lines().filter(|l| l.starts_with("figure")).collect();
        assert_eq!(figures, ["figure = '2 \"times\"'", "figure = \"stays\""]);
        assert_eq!(with_figures(&new, log), new);
    }

    #[test]
    fn only_tests_are_proofs() {
        let root = crate::root();
        assert!(exists(&root, "xtask/src/proofs.rs::only_tests_are_proofs"));
        assert!(!exists(&root, "xtask/src/proofs.rs::exists"), "no test");
        assert!(!exists(&root, "xtask/src/proofs.rs::gone"), "no function");
        assert!(!exists(&root, "xtask/src/gone.rs::x"), "no file");
    }

    #[test]
    fn a_row_without_proof_or_reason_is_a_fault() {
        let faults = |row: Row| row.faults(&crate::root()).len();
        let row = || Row { id: "T1".into(), what: "x".into(), ..Row::default() };
        assert_eq!(faults(row()), 1);
        assert_eq!(faults(Row { short: Some("y".into()), ..row() }), 0);
        assert_eq!(faults(Row { command: Some("proofs/fuzz 10".into()), ..row() }), 0);
        assert_eq!(faults(Row { command: Some("proofs/gone".into()), ..row() }), 1);
        assert!(rows("[[target]]\nid = \"T2\"\n").is_err(), "not all");
    }
}
