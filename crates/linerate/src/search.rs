//! `linerate search`: shows its way and its result.

use std::io::{self, ErrorKind, Write, stderr, stdout};

use linerate_ask::Color;
use linerate_ask::search::SearchArgs;
use linerate_drive::keep::SavedFile;
use linerate_drive::search::{Event, Search};
use linerate_drive::{Env, FromHere, SystemClock, Watcher};
use linerate_experiment::search::repeat::Repeated;
use linerate_experiment::trial::Trial;
use linerate_model::exit::Exit;
use linerate_model::lines::SearchLine;
use linerate_model::record::{ErrorRecord, Interval, RunRecord};
use linerate_model::search::{SearchDocument, TrialPurpose, TrialRecord};
use linerate_report::live::Live;
use linerate_report::run::json;
use linerate_report::{error, number, search as text};
use linerate_runner::signals::Stop;
use linerate_session::observer::Observer;

use crate::output::{self, Output};
use crate::status::StatusLine;

/// Runs the command.
pub fn run(args: &SearchArgs, color: Color) -> Result<Exit, ErrorRecord> {
    let saved = args.save.as_deref().map(SavedFile::new).transpose()?;
    let search = Search::new(args, output::command())?;
    let stop = output::stop_at_signals()?;
    let mut screen = Screen::new(args.output.into(), color, stop.clone());
    let document = {
        let (clock, executor) = (SystemClock::default(), &mut FromHere);
        search.run(&mut Env { executor, clock: &clock, stop, watcher: &mut screen })
    };
    screen.end(&document);
    if let Some(saved) = &saved {
        saved.keep(json::document(&document))?;
    }
    match screen.failure.take() {
        Some(why) => Err(output::failed(&why, &[])),
        None if screen.closed => Ok(Exit::Complete),
        None => Ok(document.error.map_or(Exit::Complete, |e| Exit::from_code(e.exit_code))),
    }
}

impl Observer for Screen {
    fn start(&mut self, record: &RunRecord) {
        (&self.status).start(record);
    }
    fn interval(&mut self, interval: &Interval) {
        (&self.status).interval(interval);
    }
}

impl Watcher for Screen {
    fn search(&mut self, event: &Event<'_>) {
        match *event {
            Event::Note(note) => {
                let _ = writeln!(stderr(), "note: {note}");
            }
            Event::Started => self.head(),
            Event::Trial { search, number, trial, purpose } => {
                self.begin(search, number, trial, purpose);
            }
            Event::Ended { number, trial } => self.trial(number, trial),
        }
    }
}

/// Shows a search in the form that was asked for.
struct Screen {
    output: Output,
    layout: linerate_report::run::text::Layout,
    side: linerate_report::style::Paint,
    status: StatusLine,
    closed: bool,
    failure: Option<io::Error>,
    stop: Stop,
}

impl Screen {
    fn new(output: Output, color: Color, stop: Stop) -> Self {
        Self {
            output,
            layout: output::layout(color),
            side: output::side_paint(color),
            status: StatusLine::new(),
            closed: false,
            failure: None,
            stop,
        }
    }

    /// Without a reader the search has no purpose.
    fn put(&mut self, text: &str) {
        if self.closed {
            return;
        }
        let write = || stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
        let written = self.status.above(write);
        if let Err(error) = written {
            self.closed = true;
            self.stop.now();
            if error.kind() != ErrorKind::BrokenPipe {
                self.failure = Some(error);
            }
        }
    }

    fn head(&mut self) {
        if self.output == Output::Text {
            self.put(&text::head(self.layout.room.width, self.layout.paint));
        }
    }

    fn begin(&self, search: &Repeated, number: usize, trial: &Trial, purpose: TrialPurpose) {
        if !self.status.is_shown() {
            return;
        }
        let goals = search.searches().last().map(|s| s.goals()).unwrap_or_default();
        let rate =
            trial.rate.map_or("max".to_owned(), |r| number::rate(r.bits_per_second() as f64));
        let what = match purpose {
            TrialPurpose::WarmUp => "warm-up".to_owned(),
            _ => rate,
        };
        self.status.begin(Live {
            unit: "trial",
            number,
            what,
            length_s: Some(trial.time.as_secs_f64()),
            bounds: text::bounds(&goals),
            left_s: Some(search.left_s()),
            ..Live::default()
        });
    }

    fn trial(&mut self, number: usize, trial: &TrialRecord) {
        match self.output {
            Output::Text => {
                let layout = self.layout;
                self.put(&text::row(number, trial, layout.room.width, layout.paint));
            }
            Output::Json => {}
            Output::JsonLines => {
                let line = json::line(&SearchLine::Trial { trial });
                self.put(&line.unwrap_or_default());
            }
        }
    }

    fn end(&mut self, document: &SearchDocument) {
        self.status.clear();
        let shown = match self.output {
            Output::Text => {
                format!("\n{}", text::end(document, self.layout.room.width, self.layout.paint))
            }
            Output::Json => json::document(document).unwrap_or_default(),
            Output::JsonLines => {
                let line = json::line(&SearchLine::End { search: Some(document), error: None });
                line.unwrap_or_default()
            }
        };
        self.put(&shown);
        if let Some(found) = &document.error
            && !self.closed
        {
            let _ = stderr().write_all(error::text(found, self.side).as_bytes());
        }
    }
}
