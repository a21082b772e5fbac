//! What happened to an agent, on its way to the broker: its coming and going, and what it refused.
//!
//! Said once the broker has taken it, and not before a test that may be under way is over. What an agent had not said when
//! it was killed is lost.

use std::collections::VecDeque;
use std::time::Duration;

use linerate_broker::Broker;
use linerate_model::fleet_events::{FleetEvent, FleetSaid};
use linerate_runner::clock;
use linerate_runner::random::random;
use linerate_wire::native::auth::to_hex;
use tokio::task::JoinSet;

use super::words::log;

/// So many wait: of a coordinator that asks a thousand times for what is refused, the last are enough.
const MOST: usize = 1_000;
/// What the broker did not take is said again after this.
const SOON: Duration = Duration::from_secs(5);
/// So long an agent that ends waits for the broker to take its last words.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// Of a reason, and of the name of a result, that is longer only the beginning is said, in characters: what is larger than
/// the broker takes would be said again and again, and keep back all that comes after it.
const MOST_REASON: usize = 1_000;
const MOST_TURN: usize = 200;

/// An event that the broker has not taken.
struct Entry {
    /// The same however often it is said.
    id: String,
    said: FleetSaid,
}

/// Events that the broker has not taken.
#[derive(Default)]
pub struct Diary {
    waiting: VecDeque<Entry>,
    /// When the first is said again; at once where nothing is here.
    due: Option<Duration>,
    complained: bool,
}

impl Diary {
    /// Something happened.
    pub fn note(&mut self, event: FleetEvent) {
        let event = match event {
            FleetEvent::Refused { ground, why, lease, turn } => {
                let why = why.chars().take(MOST_REASON).collect();
                let turn = turn.map(|turn| turn.chars().take(MOST_TURN).collect());
                FleetEvent::Refused { ground, why, lease, turn }
            }
            event => event,
        };
        if self.waiting.len() >= MOST {
            self.waiting.pop_front();
            if !self.complained {
                log("events are lost: the broker takes none");
            }
            self.complained = true;
        }
        let said = FleetSaid { at: clock::wall().to_string(), event };
        self.waiting.push_back(Entry { id: to_hex(&random::<16>()), said });
    }

    /// Says the first, if it is its turn.
    pub fn send_next(
        &self,
        reporter: &mut JoinSet<(String, bool)>,
        broker: &Broker,
        now: Duration,
    ) {
        let Some(Entry { id, said }) = self.waiting.front() else { return };
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        let (broker, id, said) = (broker.clone(), id.clone(), said.clone());
        reporter.spawn(async move {
            let taken = broker.say("", &id, &said).await.is_ok();
            (id, taken)
        });
    }

    /// Whether the broker took it.
    pub fn sent(&mut self, id: &str, taken: bool, now: Duration) {
        if taken {
            self.complained = false;
            self.waiting.retain(|entry| entry.id != id);
        }
        self.due = (!taken).then(|| now.saturating_add(SOON));
    }

    /// Says all that waits, as far as the broker takes it soon.
    pub async fn finish(self, broker: &Broker) {
        let all = async {
            for Entry { id, said } in self.waiting {
                if broker.say("", &id, &said).await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, all).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_too_many_are_kept_and_what_was_taken_is_gone() {
        let mut diary = Diary::default();
        for lease in 0..1_005 {
            // As many bytes of JSON as characters can have.
            let (why, turn) = ("\u{1}".repeat(2_000), Some("\u{1}".repeat(10_000)));
            let ground = linerate_model::fleet_events::RefusalGround::Lease;
            diary.note(FleetEvent::Refused { ground, why, lease, turn });
        }
        // The broker takes events of 8 KiB.
        assert!(serde_json::to_vec(&diary.waiting[0].said).unwrap().len() < 8 << 10);
        let leases = |diary: &Diary| {
            let lease = |entry: &Entry| match &entry.said.event {
                FleetEvent::Refused { lease, why, .. } if why.chars().count() == MOST_REASON => {
                    *lease
                }
                other => panic!("{other:?}"),
            };
            diary.waiting.iter().map(lease).collect::<Vec<u64>>()
        };
        assert_eq!(leases(&diary), (5..1_005).collect::<Vec<u64>>());
        let first = diary.waiting[0].id.clone();
        diary.sent(&first, false, Duration::from_secs(7));
        assert_eq!((leases(&diary)[0], diary.due), (5, Some(Duration::from_secs(12))));
        diary.sent(&first, true, Duration::from_secs(12));
        assert_eq!((leases(&diary)[0], diary.due), (6, None));
    }
}
