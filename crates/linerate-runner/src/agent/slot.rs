//! The place of the one controller that a host may have.

use std::sync::{Mutex, MutexGuard, PoisonError};

use linerate_model::record::ErrorRecord;
use linerate_model::served::PutBack;
use linerate_model::setting::{Restoration, RestoreOutcome};

use super::Options;
use super::helper::Privileged;
use crate::event::Event;

/// The one place of a controller at this server.
pub(crate) struct AgentSlot {
    pub(super) options: Option<Options>,
    /// The helper while no controller has it.
    helper: Mutex<Option<Privileged>>,
}

impl AgentSlot {
    /// Starts the helper, if controllers are let in. Says what an earlier process had left changed.
    pub(crate) fn open(options: Option<&Options>) -> Result<(Self, Option<Event>), ErrorRecord> {
        let Some(options) = options else {
            return Ok((Self { options: None, helper: Mutex::new(None) }, None));
        };
        let (helper, left) = Privileged::start(&options.program, &options.state)?;
        let put_back = (left != Restoration::default())
            .then(|| Event::PutBack { settings: PutBack::of(&left), text: words(&left) });
        let helper = Mutex::new(Some(helper));
        Ok((Self { options: Some(options.clone()), helper }, put_back))
    }

    pub(super) fn helper(&self) -> MutexGuard<'_, Option<Privileged>> {
        // The value is moved in or out by one call, so a panic elsewhere leaves it whole.
        self.helper.lock().unwrap_or_else(PoisonError::into_inner)
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
