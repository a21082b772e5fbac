//! `linerate tune`: shows its way and its result.

use std::io::{Write, stderr};

use linerate_ask::tune::TuneArgs;
use linerate_drive::Watcher;
use linerate_drive::tune::{Course, Event};
use linerate_model::exit::Exit;
use linerate_model::lines::TuneLine;
use linerate_model::record::ErrorRecord;
use linerate_report::live::Live;
use linerate_report::run::json;
use linerate_report::tune as text;
use linerate_runner::clock::Stopwatch;

use crate::output::{self, Look, Output};
use crate::screen::Screen;

/// What its line below the rows needs: since when it runs, and how long it may, seconds.
struct Since(Stopwatch, f64);

/// Runs the command.
pub fn run(args: &TuneArgs, look: Look) -> Result<Exit, ErrorRecord> {
    // What is resumed may be a pipe that nobody writes: until it is read, Ctrl-C simply ends this process.
    let course = Course::new(args, output::command())?;
    let since = Since(Stopwatch::start(), course.left_s());
    let stop = output::stop_at_signals()?;
    let mut screen = Screen::new(args.output().into(), look, stop, since);
    let document = screen.watch(|env| course.run(env, &mut crate::doctor::take_over))?;
    match screen.output {
        Output::Text => screen.put(&format!("\n{}", text::text(&document, screen.layout))),
        Output::Json => screen.json(json::document(&document)),
        Output::JsonLines => screen.line(&TuneLine::End { document: Some(&document), error: None }),
    }
    if let Some(found) = document.error.as_ref().filter(|_| !screen.closed) {
        screen.explain(found);
    }
    screen.exit(document.error.as_ref(), &[])
}

impl Watcher for Screen<Since> {
    fn tune(&mut self, event: &Event<'_>) {
        let (width, paint) = (self.layout.room.width, self.layout.paint);
        match *event {
            Event::Note(note) => self.status.above(|| {
                let _ = writeln!(stderr(), "note: {note}");
            }),
            Event::Started(document) if self.output != Output::Text => {
                self.line(&TuneLine::Start { factors: &document.factors });
            }
            Event::Started(_) => self.put(&text::head(width, paint)),
            Event::Trial(number, purpose, what) => self.status.begin(Live {
                unit: "trial",
                number,
                what: format!("{}: {what}", purpose.name()),
                left_s: Some(self.state.1 - self.state.0.elapsed().as_secs_f64()),
                ..Live::default()
            }),
            Event::Ended(document, what) if self.output == Output::Text => {
                self.put(&text::row(document, what, width, paint));
            }
            Event::Ended(document, _) => {
                if let Some(trial) = document.trials.last() {
                    self.line(&TuneLine::Trial { number: document.trials.len(), trial });
                }
            }
        }
    }
}
