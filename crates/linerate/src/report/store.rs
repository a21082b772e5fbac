//! A campaign's store as labelled sets of runs.

use std::path::Path;

use linerate_report::report::input::Input;
use linerate_report::report::input::campaign::CampaignNotes;
use linerate_store::Reader;

/// How every SQLite file begins.
pub const MAGIC: &[u8] = linerate_store::MAGIC;

/// Adds the campaign of a store. Rows that are not as they were written are damage like any other,
/// and hide no other row.
pub fn read(input: &mut Input, name: &str, path: &Path) {
    let reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(error) => return input.damage(name, error.to_string()),
    };
    let (meta, bad_meta) = reader.readable_meta();
    let (events, bad_events) = reader.readable_events();
    let (runs, bad_runs) = reader.readable_runs();
    for damage in [&bad_meta, &bad_events, &bad_runs].into_iter().flatten() {
        input.damage(name, damage.to_string());
    }
    let mut notes = CampaignNotes {
        name: meta.get("name").cloned().unwrap_or_default(),
        ..CampaignNotes::default()
    };
    let plan = meta.get("plan");
    match plan.and_then(|plan| linerate_drive::campaign::names(plan)) {
        Some((settings, baseline)) => {
            notes.settings = settings;
            notes.baseline = Some(baseline);
        }
        // A damaged row has been reported.
        None if plan.is_none() && !bad_meta.is_empty() => {}
        None => input.damage(name, "its plan cannot be read, so no baseline is known".to_owned()),
    }
    notes.runs = runs;
    notes.events = events.into_iter().map(|(_, event)| event).collect();
    input.sets(name, notes.sets());
}
