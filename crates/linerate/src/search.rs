//! `linerate search`: shows its way and its result.

use std::io::{Write, stderr};

use linerate_ask::search::SearchArgs;
use linerate_drive::keep::SavedFile;
use linerate_drive::search::{Event, Search};
use linerate_drive::{SystemClock, Watcher};
use linerate_experiment::search::repeat::Repeated;
use linerate_experiment::trial::Trial;
use linerate_model::exit::Exit;
use linerate_model::lines::SearchLine;
use linerate_model::record::ErrorRecord;
use linerate_model::search::{SearchDocument, TrialPurpose};
use linerate_report::live::Live;
use linerate_report::run::json;
use linerate_report::{number, search as text};

use crate::output::{self, Look, Output};
use crate::screen::Screen;
use crate::status::StatusLine;

/// Runs the command.
pub fn run(args: &SearchArgs, look: Look) -> Result<Exit, ErrorRecord> {
    let saved = args.save.as_deref().map(SavedFile::new).transpose()?;
    let search = Search::new(args, output::command(), &SystemClock::default())?;
    let mut screen = Screen::new(args.output.into(), look, output::stop_at_signals()?, ());
    let document = screen.watch(|env| search.run(env));
    end(&mut screen, &document);
    if let Some(saved) = &saved {
        saved.keep(json::document(&document))?;
    }
    screen.exit(document.error.as_ref(), &[])
}

impl Watcher for Screen<()> {
    fn search(&mut self, event: &Event<'_>) {
        let (width, paint) = (self.layout.room.width, self.layout.paint);
        match *event {
            Event::Note(note) => {
                let _ = writeln!(stderr(), "note: {note}");
            }
            Event::Started if self.output == Output::Text => self.put(&text::head(width, paint)),
            Event::Started => {}
            Event::Trial { search, number, trial, purpose } => {
                begin(&self.status, search, number, trial, purpose);
            }
            Event::Ended { number, trial } if self.output == Output::Text => {
                self.put(&text::row(number, trial, width, paint));
            }
            Event::Ended { trial, .. } => self.line(&SearchLine::Trial { trial }),
        }
    }
}

fn begin(
    status: &StatusLine,
    search: &Repeated,
    number: usize,
    trial: &Trial,
    purpose: TrialPurpose,
) {
    if !status.is_shown() {
        return;
    }
    let goals = search.searches().last().map(|s| s.goals()).unwrap_or_default();
    let rate = trial.rate.map_or("max".to_owned(), |r| number::rate(r.bits_per_second() as f64));
    let what = match purpose {
        TrialPurpose::WarmUp => "warm-up".to_owned(),
        _ => rate,
    };
    status.begin(Live {
        unit: "trial",
        number,
        what,
        length_s: Some(trial.time.as_secs_f64()),
        bounds: text::bounds(&goals),
        left_s: Some(search.left_s()),
        ..Live::default()
    });
}

fn end(screen: &mut Screen<()>, document: &SearchDocument) {
    let layout = screen.layout;
    match screen.output {
        Output::Text => {
            let end = text::end(document, layout);
            screen.put(&format!("\n{end}"));
        }
        Output::Json => screen.json(json::document(document)),
        Output::JsonLines => {
            screen.line(&SearchLine::End { search: Some(document), error: None });
        }
    }
    if let Some(found) = document.error.as_ref().filter(|_| !screen.closed) {
        screen.explain(found);
    }
}
