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
}

impl Mail {
    /// With what was kept.
    pub fn new(outbox: Outbox) -> Self {
        Self { outbox, due: BTreeMap::new(), complained: false }
    }

    /// The highest lease that this host was ever given.
    pub fn epoch(&self) -> Result<Epoch, ErrorRecord> {
        self.outbox.epoch().map(Epoch).map_err(stored)
    }

    /// It was given a lease.
    pub fn raise(&mut self, epoch: Epoch) -> Result<(), ErrorRecord> {
        self.outbox.raise(epoch.0).map_err(stored)
    }

    /// A result is kept here before it is sent. One that no message can carry is kept as one that failed.
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

    /// A store has a result.
    pub fn forget(&mut self, turn: &str) -> Result<(), ErrorRecord> {
        self.due.remove(turn);
        self.outbox.remove(turn).map(|_| ()).map_err(stored)
    }

    /// How much waits, without what has waited for too long.
    pub fn waiting(&mut self, now_s: u64) -> Result<Waiting, ErrorRecord> {
        let before_s = now_s.saturating_sub(FORGET_S);
        let forgotten = self.outbox.forget_before(before_s).map_err(stored)?;
        if forgotten > 0 {
            log(&format!("{forgotten} results were wanted by no store for a week, and are gone"));
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
    pub fn note(&mut self, turn: &str, sent: Sent, now: Duration) -> Result<(), ErrorRecord> {
        let again = match sent {
            Sent::Confirmed => return self.forget(turn),
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
        Ok(())
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
