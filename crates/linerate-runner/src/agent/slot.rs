//! The place of the one controller that a host may have.

use std::sync::Arc;

use linerate_model::record::ErrorRecord;
use linerate_model::served::PutBack;
use linerate_model::setting::{Restoration, RestoreOutcome};
use tokio::sync::Mutex;

use super::Options;
use super::helper::Privileged;
use crate::event::Event;

/// The one place of a controller at this server.
pub(crate) struct AgentSlot {
    pub(super) options: Options,
    /// The helper, held by whoever has the host.
    pub(super) helper: Arc<Mutex<Privileged>>,
}

impl AgentSlot {
    /// Starts the helper. Says what an earlier process had left changed.
    pub(crate) fn open(options: &Options) -> Result<(Self, Option<Event>), ErrorRecord> {
        let (helper, left) = Privileged::start(&options.program, &options.state)?;
        let put_back = (left != Restoration::default())
            .then(|| Event::PutBack { settings: PutBack::of(&left), text: words(&left) });
        let helper = Arc::new(Mutex::new(helper));
        Ok((Self { options: options.clone(), helper }, put_back))
    }
}

/// What was put back, in words.
pub(super) fn words(restoration: &Restoration) -> String {
    let counts = PutBack::of(restoration);
    let mut parts = vec![format!("{} settings put back", counts.restored)];
    for (outcome, count, what) in [
        (
            RestoreOutcome::ChangedByOthers,
            counts.changed_by_others,
            "left as somebody else set them",
        ),
        (RestoreOutcome::Gone, counts.gone, "gone with their interface"),
        (RestoreOutcome::Failed, counts.failed, "could not be put back"),
    ] {
        if count > 0 {
            let names: Vec<&str> = restoration
                .knobs
                .iter()
                .filter(|knob| knob.outcome == outcome)
                .map(|knob| knob.what.as_str())
                .take(5)
                .collect();
            parts.push(format!("{count} {what} ({})", names.join(", ")));
        }
    }
    parts.extend(restoration.notes.iter().cloned());
    parts.join("; ")
}
