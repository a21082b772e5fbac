//! What is asked to change, and what did.

use linerate_model::setting::SideEffect;
use linerate_model::undo::{Held, Knob, Turn, Turned};

use super::reading::{Now, Reading, Values};

/// What is asked to be other than it is.
pub(super) fn wishes(before: &Values, asked: &[(Knob, String)]) -> Vec<Turn> {
    let wish = |(knob, asked): &(Knob, String)| {
        let before = before.get(knob)?;
        (before != asked && !already(knob, before, asked)).then(|| Turn {
            knob: knob.clone(),
            before: before.clone(),
            asked: asked.clone(),
        })
    };
    asked.iter().filter_map(wish).collect()
}

/// Whether a knob is as asked: with features, that it is so and not only wanted so.
pub(super) fn already(knob: &Knob, now: &str, asked: &str) -> bool {
    match knob {
        Knob::Feature(..) => now == asked,
        _ => knob.became(asked, now),
    }
}

/// What may move with a change beside what is asked for.
pub(super) fn beside(before: &Values, wishes: &[Turn]) -> Vec<Held> {
    before
        .iter()
        .filter(|(knob, _)| !wishes.iter().any(|wish| wish.knob == **knob))
        .map(|(knob, value)| Held { knob: knob.clone(), value: value.clone() })
        .collect()
}

/// What is other than before. What was there and is not now is [`ABSENT`]; what cannot be read is
/// left out; what is new has no way back and goes with what made it.
pub(super) fn differences(before: &Values, after: &Reading) -> Vec<Turned> {
    before
        .iter()
        .filter_map(|(knob, before)| match after.now(knob) {
            Now::Value(now) if now != *before => {
                Some(Turned { knob: knob.clone(), before: before.clone(), now })
            }
            _ => None,
        })
        .collect()
}

/// What changed that nobody had asked for.
pub(super) fn also(turned: &[Turned], wishes: &[Turn]) -> Vec<SideEffect> {
    turned
        .iter()
        .filter(|turned| !wishes.iter().any(|wish| wish.knob == turned.knob))
        .map(|turned| SideEffect {
            what: turned.knob.to_string(),
            before: turned.before.clone(),
            after: turned.now.clone(),
        })
        .collect()
}
