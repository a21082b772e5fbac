//! `cargo xtask picture`: runs the program in a terminal and draws what stands there, with its colours, into
//! `docs/pictures/`. Nothing in a picture is made up: what is not as the program printed it is a fault.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::root;

/// Name of the file, and the lines that are typed.
const PICTURES: &[(&str, &[&str])] = &[
    ("udp", &["linerate udp --local -t 3s"]),
    ("tcp", &["linerate tcp --local -t 3s"]),
    ("rr", &["linerate rr --local -t 3s"]),
    ("search", &["linerate search --local --engine send --preset quick"]),
    (
        "compare",
        &[
            "for run in 1 2 3 4 5; do linerate udp --local -t 1s --json; done > plain.json",
            "for run in 1 2 3 4 5; do linerate udp --local -t 1s --engine send --json; done > send.json",
            "linerate compare plain.json send.json --boots none",
        ],
    ),
    ("doctor", &["linerate doctor"]),
];
/// Exit code of a doctor that found something (docs/doctor.md).
const FOUND: i32 = 5;
/// Columns of the terminal: as many as the table of `udp` asks for.
const COLUMNS: usize = 124;
/// Width and height of a cell, and what is around them.
const CELL: (usize, usize) = (8, 18);
const EDGE: usize = 16;
/// A font whose letters are 0.6 of its size wide, as most of the fixed width are; each piece is laid out to its cells.
const STYLE: &str = ":root{--ink:#1f2328;--paper:#f6f8fa;--red:#cf222e;--green:#116329;--yellow:#7d4e00}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--red:#ff7b72;--green:#7ee787;--yellow:#e3b341}}
rect{fill:var(--paper)} text{fill:var(--ink);font:13.33px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}
.bold{font-weight:700} .dim{opacity:.62} .red{fill:var(--red)} .green{fill:var(--green)} .yellow{fill:var(--yellow)}";

/// With the program at `binary`, or one that is built for it.
pub fn run(binary: Option<&str>) -> Result<String, Vec<String>> {
    let fault = |why: String| vec![why];
    let root = root().canonicalize().map_err(|e| fault(format!("{}: {e}", root().display())))?;
    let built = root.join("target/release/linerate");
    let binary = match binary {
        Some(binary) => Path::new(binary).canonicalize(),
        None => {
            let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
            let mut build = Command::new(cargo);
            build.args(["build", "--release", "--target-dir", "target"]).current_dir(&root);
            made_by(&mut build, &built)
        }
    };
    let binary = binary.map_err(|e| fault(format!("the program: {e}")))?;
    let folder = root.join("docs/pictures");
    std::fs::create_dir_all(&folder).map_err(|e| fault(format!("{}: {e}", folder.display())))?;
    let place = std::env::temp_dir().join(format!("linerate-pictures-{}", std::process::id()));
    let made = all(&binary, &place, &folder);
    let _ = std::fs::remove_dir_all(&place);
    made.map(|()| folder.display().to_string()).map_err(fault)
}

/// The program that a build has made, and none that lay there before when it fails.
fn made_by(build: &mut Command, program: &Path) -> std::io::Result<PathBuf> {
    let status = build.status()?;
    if status.success() {
        program.canonicalize()
    } else {
        Err(std::io::Error::other(format!("{build:?}: {status}")))
    }
}

/// Makes every picture; what the lines leave stays in `place`.
fn all(binary: &Path, place: &Path, folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(place).map_err(|e| format!("{}: {e}", place.display()))?;
    let link = place.join("linerate");
    std::os::unix::fs::symlink(binary, &link).map_err(|e| format!("{}: {e}", link.display()))?;
    for (name, typed) in PICTURES {
        let mut text = String::new();
        for line in *typed {
            let seen = seen(place, line).map_err(|why| format!("{line}: {why}"))?;
            let _ = write!(text, "\x1b[2m$\x1b[0m {line}\n{seen}");
        }
        let to = folder.join(name).with_extension("svg");
        std::fs::write(&to, draw(&typed.join("; "), &text)?)
            .map_err(|e| format!("{}: {e}", to.display()))?;
    }
    Ok(())
}

/// What a line leaves on a terminal. What moves while a test runs is on standard error, and gone in the end.
fn seen(place: &Path, line: &str) -> Result<String, String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let line = format!("stty cols {COLUMNS} rows 50 && exec 2>/dev/null && {line}");
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(place);
    script.env("PATH", format!("{}:{path}", place.display()));
    script.env("TERM", "xterm-256color").env("SHELL", "/bin/sh").env_remove("NO_COLOR");
    let out = script.output().map_err(|e| format!("script: {e} (Debian's package bsdutils)"))?;
    let said = String::from_utf8_lossy(&out.stdout).replace("\r\n", "\n");
    if matches!(out.status.code(), Some(0 | FOUND)) {
        Ok(said)
    } else {
        Err(format!("{}\n{said}", out.status))
    }
}

/// A terminal with this text, whose only control sequences are colours, as SVG.
fn draw(title: &str, text: &str) -> Result<String, String> {
    let mut pieces = String::new();
    let mut class = Class::default();
    let lines: Vec<_> = text.trim_end().lines().collect();
    for (row, line) in lines.iter().enumerate() {
        let mut column = 0;
        for (number, part) in line.split("\x1b[").enumerate() {
            let mut shown = part;
            if number > 0 {
                let (codes, rest) =
                    part.split_once('m').ok_or_else(|| format!("no colour: ESC [ {part:?}"))?;
                codes.split(';').try_for_each(|code| class.take(code))?;
                shown = rest;
            }
            if let Some(control) = shown.chars().find(|c| c.is_control()) {
                return Err(format!("line {row}: {control:?} is no text"));
            }
            for cell in cells(shown) {
                let (at, wide) = (column + cell.0, cell.1.chars().count());
                let _ = writeln!(
                    pieces,
                    r#"<text class="{}" x="{}" y="{}" textLength="{}">{}</text>"#,
                    class.names(),
                    EDGE + at * CELL.0,
                    EDGE + row * CELL.1 + CELL.1 * 3 / 4,
                    wide * CELL.0,
                    escaped(cell.1),
                );
            }
            column += shown.chars().count();
        }
    }
    let (width, height) = (2 * EDGE + COLUMNS * CELL.0, 2 * EDGE + lines.len() * CELL.1);
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n{pieces}</svg>\n",
        escaped(title)
    ))
}

/// The pieces of a text between two or more spaces, with the column of each: so a letter that some font has wider moves
/// nothing but its own word.
fn cells(text: &str) -> Vec<(usize, &str)> {
    let mut cells = vec![];
    let mut column = 0;
    for part in text.split("  ") {
        let indent = part.chars().count() - part.trim_start().chars().count();
        if !part.trim().is_empty() {
            cells.push((column + indent, part.trim()));
        }
        column += part.chars().count() + 2;
    }
    cells
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// How text looks.
#[derive(Default)]
struct Class {
    weight: &'static str,
    colour: &'static str,
}

impl Class {
    /// One code of SGR (ECMA-48, 8.3.117), of those that the program uses.
    fn take(&mut self, code: &str) -> Result<(), String> {
        match code {
            "" | "0" => *self = Self::default(),
            "1" => self.weight = "bold",
            "2" => self.weight = "dim",
            "31" => self.colour = "red",
            "32" => self.colour = "green",
            "33" => self.colour = "yellow",
            code => return Err(format!("the colour {code} has no class in the picture")),
        }
        Ok(())
    }

    fn names(&self) -> String {
        format!("{} {}", self.weight, self.colour).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_in_its_cells_with_its_colours() {
        let drawn = draw("a & b", "\x1b[1mrate\x1b[0m    5 <µs>\n\n  \x1b[1m\x1b[31mlost 3\x1b[0m")
            .unwrap();
        let texts: Vec<_> = drawn.lines().filter(|line| line.starts_with("<text")).collect();
        assert_eq!(
            texts,
            [
                r#"<text class="bold" x="16" y="29" textLength="32">rate</text>"#,
                r#"<text class="" x="80" y="29" textLength="48">5 &lt;µs&gt;</text>"#,
                r#"<text class="bold red" x="32" y="65" textLength="48">lost 3</text>"#,
            ]
        );
        assert!(
            drawn.contains("<title>a &amp; b</title>")
                && drawn.contains("prefers-color-scheme:dark")
        );
    }

    #[test]
    fn what_is_no_colour_is_no_picture() {
        for text in ["a\x1b[2Kb", "a\x1b[35mb", "a\rb", "a\x1b]0;b"] {
            assert!(draw("", text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_build_that_fails_leaves_no_older_program_to_be_shown() {
        let here = Path::new("/");
        assert!(made_by(&mut Command::new("true"), here).is_ok());
        assert!(made_by(&mut Command::new("false"), here).is_err());
    }

    #[test]
    fn spaces_part_the_pieces() {
        assert_eq!(cells("a b   c    d "), [(0, "a b"), (6, "c"), (11, "d")]);
        assert!(cells("     ").is_empty());
    }
}
