//! What the records of a journal say together of each knob.

use std::collections::{BTreeMap, BTreeSet};

use super::{Knob, Place, Record};

/// What is known of one knob that was turned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    /// Which.
    pub knob: Knob,
    /// Its value before the first change, or what somebody else had set before a later one.
    pub before: String,
    /// What it became last, read back.
    pub now: Option<String>,
    /// What was asked last, when what came of it is not known.
    pub pending: Option<String>,
    /// It may have moved with another knob, and nobody could read back whether it did.
    pub swept: bool,
}

/// What is to be done with a knob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is as before.
    Nothing,
    /// It is as it was set here: put it back.
    Restore,
    /// Somebody else has set it since: leave it.
    Leave,
}

impl Undo {
    /// What to do, the knob having this value.
    pub fn decide(&self, current: &str) -> Decision {
        if current == self.before {
            Decision::Nothing
        } else if self.explains(current) {
            Decision::Restore
        } else {
            Decision::Leave
        }
    }

    /// What was set, in words.
    pub fn set(&self) -> &str {
        self.pending.as_deref().or(self.now.as_deref()).unwrap_or("unknown")
    }

    /// Whether it was turned, not only beside what was.
    pub fn was_turned(&self) -> bool {
        self.now.is_some() || self.pending.is_some()
    }

    /// Whether the knob can have this value by what was done here, and by nobody else.
    fn explains(&self, value: &str) -> bool {
        value == self.before
            || self.now.as_deref() == Some(value)
            || self.swept
            || self.pending.as_deref().is_some_and(|asked| {
                // The driver may have rounded it before anyone could read it back.
                self.knob.became(asked, value) || self.knob.rounds()
            })
    }
}

/// A knob while the records are gone through.
struct State {
    undo: Undo,
    /// The change whose result is awaited.
    awaits: Option<u64>,
    /// Its place in the order of turning.
    order: usize,
}

impl State {
    /// Whether anything of it is ours to undo.
    fn active(&self) -> bool {
        self.undo.was_turned() || self.undo.swept
    }

    /// It was found with this value, about to be turned or already turned.
    fn found(&mut self, value: &str, order: usize) {
        if !self.active() {
            self.order = order;
        }
        if !self.active() || !self.undo.explains(value) {
            // Nothing of it was ours, or somebody else has set it since: that value comes back.
            value.clone_into(&mut self.undo.before);
        }
        self.undo.now = (value != self.undo.before).then(|| value.to_owned());
        (self.undo.pending, self.undo.swept, self.awaits) = (None, false, None);
    }
}

/// All knobs so far, by their order of turning.
#[derive(Default)]
struct States<'a> {
    of: BTreeMap<&'a Knob, State>,
    met: usize,
}

impl<'a> States<'a> {
    /// A knob that is met; one that was not yet is made, with its value before.
    fn meet(&mut self, knob: &'a Knob, before: &str) -> &mut State {
        self.met = self.met.saturating_add(1);
        let order = self.met;
        self.of.entry(knob).or_insert_with(|| State {
            undo: Undo {
                knob: knob.clone(),
                before: before.to_owned(),
                now: None,
                pending: None,
                swept: false,
            },
            awaits: None,
            order,
        })
    }

    fn take(&mut self, record: &'a Record) {
        match record {
            Record::Change { id, wishes, around, .. } => {
                for wish in wishes {
                    let order = self.met;
                    let state = self.meet(&wish.knob, &wish.before);
                    state.found(&wish.before, order);
                    state.undo.pending = Some(wish.asked.clone());
                    state.awaits = Some(*id);
                }
                for held in around {
                    let order = self.met;
                    let state = self.meet(&held.knob, &held.value);
                    // What somebody else has set is not ours again by standing beside a change.
                    if state.active() && !state.undo.explains(&held.value) {
                        continue;
                    }
                    state.found(&held.value, order);
                    state.undo.swept = true;
                    state.awaits = Some(*id);
                }
            }
            Record::Done { id, turned, unread, .. } => {
                let unread: BTreeSet<&Knob> = unread.iter().collect();
                for (knob, state) in &mut self.of {
                    // What was asked for and did not change is as it was before this change.
                    if state.awaits == Some(*id) && !unread.contains(knob) {
                        (state.undo.pending, state.undo.swept, state.awaits) = (None, false, None);
                    }
                }
                for turned in turned {
                    let order = self.met;
                    let state = self.meet(&turned.knob, &turned.before);
                    state.found(&turned.before, order);
                    state.undo.now = Some(turned.now.clone());
                }
            }
            Record::Settled { knobs, .. } => {
                for knob in knobs {
                    self.of.remove(knob);
                }
            }
        }
    }
}

/// Every knob that was turned at `place`, the one turned first last: that is the order to put them
/// back in.
pub fn undos(records: &[Record], place: &Place) -> Vec<Undo> {
    let mut states = States::default();
    for record in records.iter().filter(|record| record.place() == place) {
        states.take(record);
    }
    let mut states: Vec<State> = states.of.into_values().filter(State::active).collect();
    states.sort_by_key(|state| std::cmp::Reverse(state.order));
    states.into_iter().map(|state| state.undo).collect()
}
