//! Runs one test and shows it.

use std::io::{self, ErrorKind, Write, stderr, stdout};

use linerate_model::record::{ErrorRecord, Interval, RunRecord, Status};
use linerate_report::error;
use linerate_report::run::json::{self, JsonLines};
use linerate_report::run::live::LiveText;
use linerate_runner::client;
use linerate_session::observer::Observer;

use crate::args::common::OutputArgs;
use crate::args::{Asked, Color};
use crate::exit::Exit;
use crate::output::{self, Output};

/// Runs the test to its end and shows it while it runs.
pub fn run(asked: &Asked, output: OutputArgs, color: Color) -> Result<Exit, ErrorRecord> {
    let mut screen = Screen::new(output.into(), color);
    for note in &asked.notes {
        screen.note(note);
    }
    let record = client::run(&asked.request, &mut screen);
    screen.end(&record);
    if let Some(found) = &record.error
        && record.status != Status::Complete
        && !screen.closed
    {
        // The text has said already why a test is partial; its hints are here.
        let text = error::text(found, output::side_paint(color));
        let _ = stderr().write_all(text.as_bytes());
    }
    match screen.failure {
        Some(why) => Err(ErrorRecord {
            kind: "output".into(),
            what: "cannot write the result to standard output".into(),
            why: why.to_string(),
            hints: Vec::new(),
            exit_code: Exit::Failed as u8,
        }),
        // Whoever read the output had enough of it, and that is their right.
        None if screen.closed => Ok(Exit::Complete),
        None => Ok(Exit::of(&record)),
    }
}

/// Shows a test in the form that was asked for.
struct Screen {
    /// The table, or in the JSON forms only the progress beside it.
    text: LiveText<Box<dyn Write>, io::Stderr>,
    lines: JsonLines<io::Stdout>,
    output: Output,
    /// Standard output takes no more.
    closed: bool,
    /// It failed for another reason than that its reader left.
    failure: Option<io::Error>,
    ended: bool,
}

impl Screen {
    fn new(output: Output, color: Color) -> Self {
        let out: Box<dyn Write> = match output {
            Output::Text => Box::new(stdout()),
            Output::Json | Output::JsonLines => Box::new(io::sink()),
        };
        Self {
            text: LiveText::new(out, stderr(), output::layout(color), output::progress()),
            lines: JsonLines::new(stdout()),
            output,
            closed: false,
            failure: None,
            ended: false,
        }
    }

    /// Without a reader the test has no purpose: it is ended as by Ctrl-C, so that the far end is
    /// told.
    fn check(&mut self, written: io::Result<()>) {
        let Err(error) = written else { return };
        if self.closed {
            return;
        }
        self.closed = true;
        if error.kind() != ErrorKind::BrokenPipe {
            self.failure = Some(error);
        }
        if !self.ended {
            let _ = nix::sys::signal::kill(nix::unistd::getpid(), nix::sys::signal::SIGINT);
        }
    }
}

impl Observer for Screen {
    fn start(&mut self, record: &RunRecord) {
        if self.closed {
            return;
        }
        let mut written = self.text.start(record);
        if self.output == Output::JsonLines {
            written = written.and(self.lines.start(record));
        }
        self.check(written);
    }

    fn interval(&mut self, interval: &Interval) {
        if self.closed {
            return;
        }
        let mut written = self.text.interval(interval);
        if self.output == Output::JsonLines {
            written = written.and(self.lines.interval(interval));
        }
        self.check(written);
    }

    fn note(&mut self, text: &str) {
        self.text.note(text);
    }

    fn end(&mut self, record: &RunRecord) {
        // Told by the runner and once more by `run`, which cannot know whether it was.
        if self.ended || self.closed {
            return;
        }
        self.ended = true;
        let mut written = self.text.end(record);
        written = written.and_then(|()| match self.output {
            Output::Text => Ok(()),
            Output::Json => {
                let text = json::record(record)?;
                stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush())
            }
            Output::JsonLines => self.lines.end(record),
        });
        self.check(written);
    }
}
