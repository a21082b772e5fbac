//! `linerate sweep`: shows its way and its result.

mod progress;

use std::io::{ErrorKind, Write, stderr, stdout};

use linerate_ask::Color;
use linerate_ask::sweep::SweepArgs;
use linerate_drive::sweep::{Course, Event};
use linerate_drive::{Env, FromHere, SystemClock, Watcher};
use linerate_model::exit::Exit;
use linerate_model::lines::SweepLine;
use linerate_model::record::{ErrorRecord, Interval, RunRecord};
use linerate_model::sweep::SweepDocument;
use linerate_report::error;
use linerate_report::run::json;
use linerate_report::sweep::text;
use linerate_runner::signals::Stop;
use linerate_session::observer::Observer;

use crate::output::{self, Output};
use progress::Progress;

/// Runs the command.
pub fn run(args: &SweepArgs, color: Color) -> Result<Exit, ErrorRecord> {
    // What is resumed may be a pipe that nobody writes: until it is read, Ctrl-C simply ends this process.
    let course = Course::new(args, output::command())?;
    let stop = output::stop_at_signals()?;
    let output = Output::from(args.output);
    let layout = (output == Output::Text).then(|| output::layout(color));
    let mut screen = Screen {
        out: Out { output, color, closed: false, failure: None },
        progress: Progress::new(layout),
        stop: stop.clone(),
    };
    let swept = {
        let (clock, executor) = (SystemClock::default(), &mut FromHere);
        course.run(&mut Env { executor, clock: &clock, stop, watcher: &mut screen })
    };
    let Screen { mut out, progress, .. } = screen;
    progress.status.clear();
    let swept = swept?;
    if out.output == Output::Text && !swept.document.trials.is_empty() {
        out.write("\n");
    }
    out.show(&swept.document, swept.place.as_deref());
    if let Some(found) = swept.unkept {
        out.explain(&found);
        return Ok(Exit::Failed);
    }
    if let Some(why) = out.failure {
        let hints = &["--save DIR keeps it in files as well"];
        return Err(output::failed(&why, hints));
    }
    Ok(match &swept.document.error {
        // Whoever read the output had enough of it, and that is their right.
        _ if out.closed => Exit::Complete,
        Some(error) => Exit::from_code(error.exit_code),
        None => Exit::Complete,
    })
}

/// What is seen while it runs.
struct Screen {
    out: Out,
    progress: Progress,
    stop: Stop,
}

impl Observer for Screen {
    fn start(&mut self, record: &RunRecord) {
        (&self.progress.status).start(record);
    }
    fn interval(&mut self, interval: &Interval) {
        (&self.progress.status).interval(interval);
    }
}

impl Watcher for Screen {
    fn sweep(&mut self, event: &Event<'_>) {
        match event {
            Event::Started(sweep) => self.out.line(&SweepLine::Start { sweep: sweep.plan() }),
            Event::Trial(job, sweep) => self.progress.begin(job, sweep),
            Event::Ended(sweep) => {
                let row = self.progress.end(sweep);
                self.progress.status.above(|| self.out.write(&row));
                if let Some(trial) = sweep.trials().last() {
                    let (number, left) = (sweep.trials().len(), sweep.left());
                    self.out.line(&SweepLine::Trial { number, left, trial });
                }
            }
            Event::Unkept(_) => self
                .progress
                .note("the results cannot be written; the sweep goes on and shows them at its end"),
        }
        if self.out.closed {
            // Without a reader the sweep has no purpose.
            self.stop.now();
        }
    }
}

/// Standard output, in the form that was asked for.
struct Out {
    output: Output,
    color: Color,
    /// Nobody reads any more.
    closed: bool,
    failure: Option<std::io::Error>,
}

impl Out {
    fn line(&mut self, line: &SweepLine<'_>) {
        if self.output == Output::JsonLines {
            self.result(json::line(line));
        }
    }

    fn result(&mut self, text: std::io::Result<String>) {
        match text {
            Ok(text) => self.write(&text),
            Err(error) => self.failure = Some(error),
        }
    }

    fn write(&mut self, text: &str) {
        if self.closed {
            return;
        }
        let written = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
        if let Err(error) = written {
            self.closed = true;
            if error.kind() != ErrorKind::BrokenPipe {
                self.failure = Some(error);
            }
        }
    }

    fn show(&mut self, document: &SweepDocument, place: Option<&str>) {
        match self.output {
            Output::Text => self.write(&text::render(document, output::layout(self.color))),
            Output::Json => self.result(json::document(document)),
            Output::JsonLines => {
                self.line(&SweepLine::End { document: Some(document), error: None })
            }
        }
        if let Some(found) = &document.error {
            let mut found = found.clone();
            let again = match place {
                Some(place) => format!("linerate sweep --resume {place}"),
                None if self.output == Output::Text => {
                    "with --save DIR a sweep that is cut short can be resumed".to_owned()
                }
                None => "linerate sweep --resume FILE, the JSON being in FILE".to_owned(),
            };
            found.hints.insert(0, again);
            self.explain(&found);
        }
    }

    fn explain(&self, found: &ErrorRecord) {
        let text = error::text(found, output::side_paint(self.color));
        let _ = stderr().write_all(text.as_bytes());
    }
}
