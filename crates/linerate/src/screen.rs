//! What a sweep and a search show: rows on standard output, below them a line that moves, then the result.

use std::io::{self, ErrorKind, Write, stderr, stdout};

use linerate_drive::{Env, FromHere, SystemClock, Watcher};
use linerate_model::exit::Exit;
use linerate_model::record::{ErrorRecord, Interval, RunRecord};
use linerate_report::error;
use linerate_report::run::json;
use linerate_report::run::text::Layout;
use linerate_runner::signals::Stop;
use linerate_session::observer::Observer;
use serde::Serialize;

use crate::output::{self, Look, Output};
use crate::status::StatusLine;

/// Shows an experiment in the form that was asked for; `S` is what its rows need beside.
pub struct Screen<S> {
    pub output: Output,
    pub layout: Layout,
    pub status: StatusLine,
    pub state: S,
    look: Look,
    /// Nobody reads any more.
    pub closed: bool,
    failure: Option<io::Error>,
    stop: Stop,
}

impl<S> Screen<S> {
    /// `stop` ends the experiment.
    pub fn new(output: Output, look: Look, stop: Stop, state: S) -> Self {
        Self {
            output,
            layout: look.layout(),
            status: StatusLine::new(),
            state,
            look,
            closed: false,
            failure: None,
            stop,
        }
    }

    /// Runs an experiment from this host.
    pub fn watch<T>(&mut self, run: impl FnOnce(&mut Env<'_>) -> T) -> T
    where
        Self: Watcher,
    {
        let (clock, stop) = (SystemClock::default(), self.stop.clone());
        let done = run(&mut Env { executor: &mut FromHere, clock: &clock, stop, watcher: self });
        self.status.clear();
        done
    }

    /// Without a reader the experiment has no purpose.
    pub fn put(&mut self, text: &str) {
        if self.closed {
            return;
        }
        let write = || stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
        if let Err(error) = self.status.above(write) {
            self.closed = true;
            self.stop.now();
            if error.kind() != ErrorKind::BrokenPipe {
                self.failure = Some(error);
            }
        }
    }

    /// A line, where lines are wanted.
    pub fn line(&mut self, line: &impl Serialize) {
        if self.output == Output::JsonLines {
            self.json(json::line(line));
        }
    }

    /// Text that had to be made.
    pub fn json(&mut self, text: io::Result<String>) {
        match text {
            Ok(text) => self.put(&text),
            Err(error) => self.failure = Some(error),
        }
    }

    /// Says on standard error what went wrong.
    pub fn explain(&self, found: &ErrorRecord) {
        let text = error::text(found, self.look.beside());
        let _ = stderr().write_all(text.as_bytes());
    }

    /// How the program ends, after an experiment that ended with this error.
    pub fn exit(self, error: Option<&ErrorRecord>, hints: &[&str]) -> Result<Exit, ErrorRecord> {
        match self.failure {
            Some(why) => Err(output::failed(&why, hints)),
            // Whoever read the output had enough of it, and that is their right.
            None if self.closed => Ok(Exit::Complete),
            None => Ok(error.map_or(Exit::Complete, |e| Exit::from_code(e.exit_code))),
        }
    }
}

impl<S> Observer for Screen<S> {
    fn start(&mut self, record: &RunRecord) {
        (&self.status).start(record);
    }
    fn interval(&mut self, interval: &Interval) {
        (&self.status).interval(interval);
    }
}
