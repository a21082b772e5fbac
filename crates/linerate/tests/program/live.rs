//! What is seen of sweeps and searches while they run: rows as they come, and on a terminal a line
//! below them that moves, none of it wider than the terminal.

use std::process::{Command, Stdio};

use crate::support::{alone, linerate, skip};

/// Runs linerate on a terminal of 80 columns and gives all that it wrote there.
fn on_terminal(test: &str, line: &str) -> Option<String> {
    let binary = env!("CARGO_BIN_EXE_linerate");
    let out = Command::new("script")
        .args(["-qc", &format!("stty rows 24 cols 80; timeout 60 {binary} {line}"), "/dev/null"])
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output();
    match out {
        Ok(out) if out.status.success() => Some(String::from_utf8_lossy(&out.stdout).into_owned()),
        found => {
            skip(test, &format!("no terminal from `script`: {found:?}"));
            None
        }
    }
}

/// Text without escape sequences, cut where the cursor goes to another place.
fn lines(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                let end = chars.by_ref().skip(1).find(char::is_ascii_alphabetic);
                plain.push_str(if end == Some('m') { "" } else { "\n" });
            }
            '\r' => plain.push('\n'),
            c => plain.push(c),
        }
    }
    let lines = plain.lines().map(|line| line.trim_end().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
#[ignore = "long"]
fn a_terminal_has_a_line_that_moves_and_nothing_wraps() {
    let _alone = alone();
    let test = "a_terminal_has_a_line_that_moves_and_nothing_wraps";
    for (line, unit) in [
        ("sweep --local --rates 1M..4M --both-ways --time 600ms", "trial 1/"),
        ("search --local --min 1M --max 8M --preset quick --max-time 6s", "trial 1 "),
    ] {
        let Some(text) = on_terminal(test, line) else { return };
        let lines = lines(&text);
        let moving: Vec<_> = lines.iter().filter(|l| l.starts_with(unit)).collect();
        let mut different = moving.clone();
        different.dedup();
        assert!(different.len() > 1, "{line}: it stands still: {lines:#?}");
        assert!(moving.iter().all(|line| line.ends_with(" left")), "{moving:?}");
        let wide: Vec<_> = lines.iter().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{line}: {wide:#?}");
    }
}

#[test]
fn without_a_terminal_rows_come_plain() {
    let _alone = alone();
    let sweep = ["sweep", "--local", "--rates", "1M..2M", "--time", "200ms"];
    let ran = linerate(None, &sweep);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.out.contains(['\u{1b}', '\r']) && !ran.err.contains(['\u{1b}', '\r']));
    let head = ran.out.lines().next().unwrap_or_default();
    assert!(head.trim_start().starts_with("trial "), "{}", ran.out);
    assert!(head.contains("cpu tx"), "all columns, where no width is known: {head}");
    for number in ["1", "2"] {
        let row = ran.out.lines().find(|line| line.split_whitespace().next() == Some(number));
        assert!(row.is_some(), "{number}: {}", ran.out);
    }
}
