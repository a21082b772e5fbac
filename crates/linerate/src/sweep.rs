//! `linerate sweep`: shows its way and its result.

mod progress;

use std::io::{Write as _, stderr};

use linerate_ask::sweep::SweepArgs;
use linerate_drive::Watcher;
use linerate_drive::sweep::{Course, Event};
use linerate_model::exit::Exit;
use linerate_model::lines::SweepLine;
use linerate_model::record::ErrorRecord;
use linerate_model::sweep::SweepDocument;
use linerate_report::clean::shell_word;
use linerate_report::run::json;
use linerate_report::sweep::text;

use crate::output::{self, Look, Output};
use crate::screen::Screen;
use progress::Progress;

const UNKEPT: &str = "the results cannot be written; the sweep goes on and shows them at its end";

/// Runs the command.
pub fn run(args: &SweepArgs, look: Look) -> Result<Exit, ErrorRecord> {
    // What is resumed may be a pipe that nobody writes: until it is read, Ctrl-C simply ends this process.
    let course = Course::new(args, output::command())?;
    let stop = output::stop_at_signals()?;
    let mut screen = Screen::new(args.output.into(), look, stop, Progress::new());
    let swept = screen.watch(|env| course.run(env))?;
    end(&mut screen, &swept.document, swept.place.as_deref());
    if let Some(found) = swept.unkept {
        screen.explain(&found);
        return Ok(Exit::Failed);
    }
    screen.exit(swept.document.error.as_ref(), &["--save DIR keeps it in files as well"])
}

impl Watcher for Screen<Progress> {
    fn sweep(&mut self, event: &Event<'_>) {
        match event {
            Event::Started(sweep) => self.line(&SweepLine::Start { sweep: sweep.plan() }),
            Event::Trial(job, sweep) => self.status.begin(self.state.begin(job, sweep)),
            Event::Ended(sweep) => {
                let row = self.state.end(sweep, self.layout);
                if self.output == Output::Text {
                    self.put(&row);
                }
                if let Some(trial) = sweep.trials().last() {
                    let (number, left) = (sweep.trials().len(), sweep.left());
                    self.line(&SweepLine::Trial { number, left, trial });
                }
            }
            Event::Unkept(_) => self.status.above(|| {
                let _ = writeln!(stderr(), "note: {UNKEPT}");
            }),
        }
    }
}

fn end(screen: &mut Screen<Progress>, document: &SweepDocument, place: Option<&str>) {
    match screen.output {
        Output::Text => {
            let gap = if document.trials.is_empty() { "" } else { "\n" };
            screen.put(&(gap.to_owned() + &text::render(document, screen.layout)));
        }
        Output::Json => screen.json(json::document(document)),
        Output::JsonLines => {
            screen.line(&SweepLine::End { document: Some(document), error: None });
        }
    }
    if let Some(found) = &document.error {
        let mut found = found.clone();
        let again = match place {
            Some(place) => format!("linerate sweep --resume {}", shell_word(place)),
            None if screen.output == Output::Text => {
                "with --save DIR a sweep that is cut short can be resumed".to_owned()
            }
            None => "linerate sweep --resume FILE, the JSON being in FILE".to_owned(),
        };
        found.hints.insert(0, again);
        screen.explain(&found);
    }
}
