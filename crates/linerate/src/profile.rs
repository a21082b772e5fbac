//! `linerate profile`.

use linerate_ask::profile::ProfileArgs;
use linerate_drive::keep::SavedFile;
use linerate_drive::profile;
use linerate_model::exit::Exit;
use linerate_model::record::ErrorRecord;
use linerate_report::profile::Much;
use linerate_report::run::headline::Detail;
use linerate_report::run::json;

use crate::output::{self, Look, Output};
use crate::screen::Screen;

/// Samples, and shows what was seen.
pub fn run(args: &ProfileArgs, look: Look) -> Result<Exit, ErrorRecord> {
    let asked = args.test.as_ref().map(|test| test.asked()).transpose()?;
    let saved = asked.and_then(|asked| asked.save).or_else(|| args.save.clone());
    let saved = saved.as_deref().map(SavedFile::new).transpose()?;
    let show = args.test.as_ref().map(|test| test.show());
    let json = args.json || show.is_some_and(|show| show.output.json);
    let much = match show.map(output::detail) {
        Some(Detail::Headline) => Much::Layers,
        Some(Detail::All) => Much::All,
        Some(Detail::Some) | None => Much::Some,
    };
    let output = if json { Output::Json } else { Output::Text };
    let mut screen = Screen::new(output, look, output::stop_at_signals()?, ());
    let document = screen.watch(|env| profile::run(args, output::command(), env))?;
    match output {
        Output::Text => {
            screen.put(&linerate_report::profile::text(&document, screen.layout, much));
        }
        _ => screen.json(json::document(&document)),
    }
    if let Some(found) = document.error.as_ref().filter(|_| !screen.closed) {
        screen.explain(found);
    }
    if let Some(saved) = &saved {
        saved.keep(json::document(&document))?;
    }
    screen.exit(document.error.as_ref(), &[])
}
