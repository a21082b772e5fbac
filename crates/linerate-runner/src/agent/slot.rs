//! The place of the one controller that a host may have.

use std::sync::Arc;

use linerate_model::record::ErrorRecord;
use linerate_model::served::PutBack;
use linerate_model::setting::{Restoration, RestoreOutcome};
use tokio::sync::Mutex;

use super::Options;
use super::monitor::Life;
use super::privileged::Privileged;
use super::sampling::Sampling;
use crate::event::Event;

/// A server's place for a controller, before the server has begun.
pub(crate) struct Begun {
    pub(crate) slot: AgentSlot,
    /// What an earlier process had left changed.
    pub(crate) put_back: Option<Event>,
    /// Of the process with rights.
    pub(crate) life: Life,
}

/// The one place of a controller at this server.
pub(crate) struct AgentSlot {
    pub(super) options: Options,
    /// Who changes settings, held by whoever has the host.
    pub(super) privileged: Arc<Mutex<Privileged>>,
    /// What samples its CPUs, where that is permitted.
    pub(super) sampling: Arc<std::sync::Mutex<Sampling>>,
}

impl AgentSlot {
    /// Starts the process with rights.
    pub(crate) fn open(options: &Options) -> Result<Begun, ErrorRecord> {
        let (privileged, left, life) = Privileged::apart(options)?;
        let put_back = (left != Restoration::default())
            .then(|| Event::PutBack { settings: PutBack::of(&left), text: words(&left) });
        let privileged = Arc::new(Mutex::new(privileged));
        // While there are the rights for it: a server may give them up.
        let sampling = Arc::new(std::sync::Mutex::new(Sampling::open(options.profile)));
        let slot = Self { options: options.clone(), privileged, sampling };
        Ok(Begun { slot, put_back, life })
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
