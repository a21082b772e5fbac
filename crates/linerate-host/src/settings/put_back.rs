//! Putting knobs back, and what became of each.

use std::collections::BTreeMap;

use linerate_model::setting::{RestoreOutcome, RestoredKnob};
use linerate_model::undo::{Decision, Device, Knob, Undo};

use super::kernel::Kernel;
use super::reading::{ABSENT, Now};

/// One knob can need another: features, queues, the MTU of what is below, and that of IPv6 its interface's. More rounds
/// would change nothing.
const ROUNDS: usize = 4;

/// Puts knobs back, in this order. Who set what is decided once, before anything is changed.
pub(super) fn put_back(kernel: &mut Kernel, undos: &[Undo]) -> Vec<RestoredKnob> {
    if undos.is_empty() {
        return Vec::new();
    }
    let knobs: Vec<Knob> = undos.iter().map(|undo| undo.knob.clone()).collect();
    let found = kernel.values(&knobs);
    let value =
        |of: &BTreeMap<Knob, Now>, undo: &Undo| of.get(&undo.knob)?.value().map(str::to_owned);
    // What is as before may move with what is put back.
    let ours =
        |undo: &Undo| value(&found, undo).is_some_and(|now| undo.decide(&now) != Decision::Leave);
    let mut refused: Vec<(Knob, String)> = Vec::new();
    let mut now = found.clone();
    for _ in 0..ROUNDS {
        let back = |undo: &Undo| value(&now, undo).as_ref() == Some(&undo.before);
        let orders: Vec<(&Knob, &str)> = undos
            .iter()
            .filter(|undo| ours(undo) && !back(undo))
            .map(|undo| (&undo.knob, undo.before.as_str()))
            .collect();
        if orders.is_empty() {
            break;
        }
        refused = kernel.turn(&orders);
        now = kernel.values(&knobs);
    }
    undos
        .iter()
        .map(|undo| {
            let refused = refused.iter().find(|(knob, _)| *knob == undo.knob);
            let (outcome, why) = outcome(
                undo,
                found.get(&undo.knob).unwrap_or(&Now::Gone),
                now.get(&undo.knob).unwrap_or(&Now::Gone),
                refused.map(|(_, why)| why.as_str()),
            );
            RestoredKnob {
                what: undo.knob.to_string(),
                before: undo.before.clone(),
                set: undo.set().to_owned(),
                now: value(&now, undo),
                outcome,
                why,
            }
        })
        .collect()
}

/// What becomes of a knob that another process has.
pub(super) fn untouched(undo: &Undo, why: &str) -> RestoredKnob {
    RestoredKnob {
        what: undo.knob.to_string(),
        before: undo.before.clone(),
        set: undo.set().to_owned(),
        now: None,
        outcome: RestoreOutcome::Failed,
        why: Some(format!("{why}, so it was not touched")),
    }
}

/// What became of a knob that was `found` so and is `now` so.
fn outcome(
    undo: &Undo,
    found: &Now,
    now: &Now,
    refused: Option<&str>,
) -> (RestoreOutcome, Option<String>) {
    let decision = match found {
        Now::Value(value) => undo.decide(value),
        Now::Gone => return (RestoreOutcome::Gone, Some(gone(undo.knob.device()))),
        Now::Unreadable(why) => {
            let why = format!("it cannot be read, so it was not touched: {why}");
            return (RestoreOutcome::Failed, Some(why));
        }
    };
    match (decision, now) {
        (Decision::Nothing, Now::Value(value)) if *value == undo.before => {
            (RestoreOutcome::Already, None)
        }
        (Decision::Leave, _) if found.value() == Some(ABSENT) => {
            (RestoreOutcome::Gone, Some("there is no such thing any more".into()))
        }
        (Decision::Leave, _) => (
            RestoreOutcome::ChangedByOthers,
            Some("it is not what linerate had set, so somebody else did; left as it is".into()),
        ),
        (_, Now::Value(value)) if *value == undo.before => (RestoreOutcome::Restored, None),
        (_, Now::Gone) => (RestoreOutcome::Gone, Some(gone(undo.knob.device()))),
        (_, Now::Unreadable(why)) => {
            (RestoreOutcome::Failed, Some(format!("it cannot be read back: {why}")))
        }
        (_, Now::Value(_)) => {
            let why = refused.unwrap_or("the driver made another value of it");
            (RestoreOutcome::Failed, Some(why.to_owned()))
        }
    }
}

fn gone(device: Option<&Device>) -> String {
    match device {
        Some(device) => format!("{} is gone, or is another interface now", device.name),
        None => "it is gone".into(),
    }
}
