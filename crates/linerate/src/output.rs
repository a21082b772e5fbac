//! Where results and errors go: data to standard output, everything else to standard error.

use std::ffi::OsString;
use std::io::{IsTerminal, Write, stderr, stdout};

use linerate_model::exit::Exit;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_report::run::json::JsonLines;
use linerate_report::run::table::Room;
use linerate_report::run::text::{Layout, PLAIN};
use linerate_report::style::Paint;
use linerate_report::{clean, error};

use linerate_ask::Color;
use linerate_ask::common::{OutputArgs, Show};
use linerate_report::run::headline::Detail;
use linerate_runner::signals::Stop;

#[cfg(feature = "full")]
use crate::watch::terminal::give_back_at_once;

/// There is no terminal to give back.
#[cfg(not(feature = "full"))]
fn give_back_at_once() {}

/// Form of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// A table for people.
    Text,
    /// One record at the end.
    Json,
    /// One object a line while it runs.
    JsonLines,
}

impl From<OutputArgs> for Output {
    fn from(args: OutputArgs) -> Self {
        match (args.json, args.json_lines) {
            (true, _) => Self::Json,
            (_, true) => Self::JsonLines,
            _ => Self::Text,
        }
    }
}

/// How much is said beside the headline.
pub fn detail(show: Show) -> Detail {
    match (show.verbose, show.quiet) {
        (true, _) => Detail::All,
        (_, true) => Detail::Headline,
        _ => Detail::Some,
    }
}

/// The command line for records, with the program by its name and not by its path.
pub fn command() -> Vec<String> {
    let words = std::env::args_os().skip(1).map(|w| w.to_string_lossy().into_owned());
    std::iter::once("linerate".to_owned()).chain(words).collect()
}

/// Ends what runs at Ctrl-C; the third one ends this program, which gives the terminal back first.
pub fn stop_at_signals() -> Result<Stop, ErrorRecord> {
    Stop::at_signals_or(give_back_at_once).map_err(|e| {
        ErrorRecord::new(ErrorKind::Unable, "cannot listen for Ctrl-C", e.to_string(), &[])
    })
}

/// Writes to standard output. Whoever closed it has read enough.
pub fn print(text: &[u8]) -> Result<Exit, ErrorRecord> {
    match stdout().write_all(text).and_then(|()| stdout().flush()) {
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
            let what = "cannot write to standard output";
            Err(ErrorRecord::new(ErrorKind::Output, what, why.to_string(), &[]))
        }
        _ => Ok(Exit::Complete),
    }
}

/// Standard output failed, for another reason than that its reader left.
pub fn failed(why: &std::io::Error, hints: &[&str]) -> ErrorRecord {
    ErrorRecord::new(
        ErrorKind::Output,
        "cannot write the result to standard output",
        why.to_string(),
        hints,
    )
}

/// What the command line wishes, read before it is understood: an error in it takes the same form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputMode {
    output: Output,
    look: Look,
}

impl OutputMode {
    /// For people alone.
    #[cfg(feature = "full")]
    pub const TEXT: Self = Self { output: Output::Text, look: Look::PLAIN };

    /// From the raw words.
    pub fn of(argv: &[OsString]) -> Self {
        let words: Vec<&str> = argv
            .iter()
            .skip(1)
            .map_while(|w| w.to_str().or(Some("")))
            .take_while(|w| *w != "--")
            .collect();
        let has = |names: &[&str]| words.iter().any(|w| names.contains(w));
        let output = if has(&["--json", "-J"]) {
            Output::Json
        } else if has(&["--json-lines"]) {
            Output::JsonLines
        } else {
            Output::Text
        };
        let after = |name: &str| words.windows(2).any(|w| w[0] == "--color" && w[1] == name);
        let color = if has(&["--color=never"]) || after("never") {
            Color::Never
        } else if has(&["--color=always"]) || after("always") {
            Color::Always
        } else {
            Color::Auto
        };
        Self { output, look: Look { color } }
    }
}

/// How text looks to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// When to use colour.
    pub color: Color,
}

impl Look {
    /// Where everything is plain.
    pub const PLAIN: Self = Self { color: Color::Never };

    /// Whether escape sequences go to a stream.
    fn paint(self, is_terminal: bool) -> Paint {
        let colour = match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                is_terminal
                    && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
                    && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
            }
        };
        Paint { colour }
    }

    /// How text is laid out on standard output.
    pub fn layout(self) -> Layout {
        let terminal = stdout().is_terminal();
        let paint = self.paint(terminal);
        if !terminal {
            return Layout { paint, ..PLAIN };
        }
        let width = terminal_size::terminal_size_of(stdout()).map(|(w, _)| usize::from(w.0));
        // A terminal that does not report its width has the width that all had.
        Layout { room: Room { width: width.filter(|&w| w > 0).or(Some(80)), spark: true }, paint }
    }

    /// How standard error is painted.
    pub fn beside(self) -> Paint {
        self.paint(stderr().is_terminal())
    }
}

/// Whether standard error can carry a line that changes.
pub fn progress() -> bool {
    stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// An error for people on standard error and, where JSON was wished for, as an object on standard
/// output. Neither stream's own error is of use to anyone.
pub fn report_error(found: &ErrorRecord, wish: OutputMode) {
    let _ = stderr().write_all(error::text(found, wish.look.beside()).as_bytes());
    let _ = match wish.output {
        Output::Text => Ok(()),
        Output::Json => {
            let text = format!("{:#}\n", error::json(found));
            stdout().write_all(clean::clean_json(&text).as_bytes())
        }
        Output::JsonLines => JsonLines::new(stdout()).no_record(found),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(words: &[&str]) -> OutputMode {
        OutputMode::of(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_wish_is_known_before_the_rest_is() {
        assert_eq!(wish(&["linerate", "udp", "--json", "--nonsense"]).output, Output::Json);
        assert_eq!(wish(&["linerate", "udp", "-J"]).output, Output::Json);
        assert_eq!(wish(&["linerate", "udp", "--json-lines"]).output, Output::JsonLines);
        assert_eq!(wish(&["linerate", "udp", "--", "--json"]).output, Output::Text);
        assert_eq!(wish(&["linerate", "--color", "never"]).look, Look::PLAIN);
        assert_eq!(wish(&["linerate", "--color=always"]).look.color, Color::Always);
    }
}
