//! The results of an agent on their way to the store.

use std::collections::BTreeMap;
use std::time::Duration;

use linerate_broker::Broker;
use linerate_fleet::lease::Epoch;
use linerate_fleet::message::{Came, Outcome};
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_store::outbox::{Outbox, Waiting};
use tokio::task::JoinSet;

use super::words::{log, seconds, stored};

/// What the broker has and no store has confirmed is asked for, and sent again, after this.
const AGAIN: Duration = Duration::from_secs(600);
/// What the broker did not take is sent again after this.
const SOON: Duration = Duration::from_secs(5);
/// A result that no store wants is forgotten after so many seconds: a week, as long as a broker has it.
const FORGET_S: u64 = 7 * 86_400;
/// And when it was so old at all looks for as long: a day, in which a clock that was set wrong is likely set right.
const SURE: Duration = Duration::from_secs(86_400);
/// Of a message beside the result itself, in bytes.
const MARGIN_BYTES: usize = 4_096;

/// What became of a result that was sent.
pub enum Sent {
    /// A store has it.
    Confirmed,
    /// The broker has it.
    HandedOver,
    /// Nobody has it but this host.
    Failed(ErrorRecord),
}

/// Results that no store has.
pub struct Mail {
    outbox: Outbox,
    /// When each is sent again; at once where nothing is said.
    due: BTreeMap<String, Duration>,
    /// That results cannot be handed over was said.
    complained: bool,
    /// What was put in before is old, in seconds since 1970, by all looks since.
    old: Option<(u64, Duration)>,
}

impl Mail {
    /// With what was kept.
    pub fn new(outbox: Outbox) -> Self {
        Self { outbox, due: BTreeMap::new(), complained: false, old: None }
    }

    /// The highest lease that this host was ever given.
    pub fn epoch(&self) -> Result<Epoch, ErrorRecord> {
        self.outbox.epoch().map(Epoch).map_err(stored)
    }

    /// It was given a lease.
    pub fn raise(&mut self, epoch: Epoch) -> Result<(), ErrorRecord> {
        self.outbox.raise(epoch.0).map_err(stored)
    }

    /// A result is kept here before it is sent, in memory alone where it cannot be written. One that no message can carry is
    /// kept as one that failed.
    pub fn keep(&mut self, outcome: Outcome, most_bytes: usize) -> Result<(), ErrorRecord> {
        let most = most_bytes.saturating_sub(MARGIN_BYTES);
        let mut body = serde_json::to_vec(&outcome).unwrap_or_default();
        if body.len() > most {
            let why = format!("its record has {} bytes, and a message at most {most}", body.len());
            let (what, hint) = ("cannot hand a result over", "longer intervals: -i 10s");
            let error = ErrorRecord::new(ErrorKind::OutOfRange, what, why, &[hint]);
            let failed = Outcome { came: Came::Failed(Box::new(error)), ..outcome.clone() };
            body = serde_json::to_vec(&failed).unwrap_or_default();
        }
        self.outbox.put(&outcome.turn, seconds(), &body).map_err(stored)
    }

    /// Writes what could not be written before.
    pub fn settle(&mut self) -> Result<(), ErrorRecord> {
        if self.outbox.settle().map_err(stored)? > 0 {
            log("what could not be written is in the outbox now");
        }
        Ok(())
    }

    /// A store has a result. Where that cannot be written a store is asked again later.
    pub fn forget(&mut self, turn: &str, now: Duration) {
        self.due.remove(turn);
        if let Err(error) = self.outbox.remove(turn) {
            log(&format!("a store has {turn}, and its copy here stays: {error}"));
            self.due.insert(turn.to_owned(), now.saturating_add(AGAIN));
        }
    }

    /// How much waits, without what has waited for too long. The clock on the wall, in seconds since 1970, may have been set;
    /// `now` may not.
    pub fn waiting(&mut self, now_s: u64, now: Duration) -> Result<Waiting, ErrorRecord> {
        let before_s = now_s.saturating_sub(FORGET_S);
        let (old_s, since) = self.old.unwrap_or((before_s, now));
        let old_s = old_s.min(before_s);
        self.old = Some((old_s, since));
        if now.saturating_sub(since) >= SURE {
            self.old = None;
            // Without room for that they go another day.
            let forgotten = self.outbox.forget_before(old_s).unwrap_or(0);
            if forgotten > 0 {
                // With when they are sent again; of the others that is now.
                self.due.clear();
                let why = "were wanted by no store for a week, and are gone";
                log(&format!("{forgotten} results {why}"));
            }
        }
        self.outbox.waiting().map_err(stored)
    }

    /// Sends the first result whose turn it is.
    pub fn send_next(
        &mut self,
        courier: &mut JoinSet<(String, Sent)>,
        broker: &Broker,
        now: Duration,
    ) -> Result<(), ErrorRecord> {
        let turns = self.outbox.turns().map_err(stored)?;
        let is_due = |turn: &String| self.due.get(turn).is_none_or(|due| *due <= now);
        let Some(turn) = turns.into_iter().find(is_due) else { return Ok(()) };
        let Some(body) = self.outbox.body(&turn).map_err(stored)? else { return Ok(()) };
        let broker = broker.clone();
        courier.spawn(async move {
            let sent = send(&broker, &turn, body).await;
            (turn, sent)
        });
        Ok(())
    }

    /// What became of it.
    pub fn note(&mut self, turn: &str, sent: Sent, now: Duration) {
        let again = match sent {
            Sent::Confirmed => return self.forget(turn, now),
            Sent::HandedOver => {
                self.complained = false;
                AGAIN
            }
            Sent::Failed(error) => {
                if !self.complained {
                    log(&format!("results wait here: {}: {}", error.what, error.why));
                }
                self.complained = true;
                SOON
            }
        };
        self.due.insert(turn.to_owned(), now.saturating_add(again));
    }
}

/// Hands a result over, where no store has it: that is not heard by an agent that is away.
async fn send(broker: &Broker, turn: &str, body: Vec<u8>) -> Sent {
    if broker.is_confirmed(turn).await.unwrap_or(false) {
        return Sent::Confirmed;
    }
    match broker.hand_over(turn, body).await {
        Ok(()) => Sent::HandedOver,
        Err(error) => Sent::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_forth_for_a_while_takes_nothing() {
        let folder = std::env::temp_dir().join(format!("linerate-mail-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut mail = Mail::new(Outbox::open(&folder.join("outbox.db")).unwrap());
        let put_s = 1_800_000_000;
        mail.outbox.put("run.0.1", put_s, b"{}").unwrap();
        mail.note("run.0.1", Sent::HandedOver, Duration::ZERO);
        let mut look = |after_s, hours: u64| {
            let now = Duration::from_secs(hours * 3_600);
            mail.waiting(put_s + after_s, now).unwrap().count
        };
        let (day_s, forth_s) = (86_400, 8 * FORGET_S);
        assert_eq!((look(0, 0), look(forth_s, 1), look(forth_s, 23)), (1, 1, 1));
        assert_eq!((look(forth_s, 24), look(forth_s, 25)), (1, 1), "it was right before");
        assert_eq!((look(day_s, 30), look(forth_s, 49)), (1, 1), "it was right meanwhile");
        let week_s = FORGET_S + 1;
        assert_eq!((look(week_s, 50), look(week_s, 73)), (1, 1));
        assert_eq!(look(week_s + day_s, 74), 0, "it is a week old, whenever it is looked");
        assert!(mail.due.is_empty(), "nothing of it is left");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
