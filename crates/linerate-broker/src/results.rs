//! Results: from the agent to the broker, from there to the store, and back that the store has them.
//!
//! Nothing is dropped on the way because something was sent: an agent keeps a result until the store's word for it has
//! come, whatever the broker says; the broker keeps it until the store has it. So each may come more than once, and
//! what it is called says that it is the same.

use async_nats::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use linerate_fleet::message::Outcome;
use linerate_model::record::ErrorRecord;
use serde_json::json;

use crate::api::Trouble;
use crate::connect::{Broker, Listener};
use crate::error::unable;
use crate::streams::NO_STREAM;
use crate::subject::{CONFIRMED, RESULTS, confirmed, result, run_of, token};

/// JetStream's word for a consumer that is not there.
const NO_CONSUMER: u32 = 10_014;
/// And for a subject that has no message.
const NO_MESSAGE: u32 = 10_037;
/// What was handed out and not acknowledged is handed out again after this, in nanoseconds: half a minute.
const AGAIN_NS: u64 = 30 * 1_000_000_000;
/// A reader that is gone for so long is forgotten, in nanoseconds: an hour.
const FORGOTTEN_NS: u64 = 3_600 * 1_000_000_000;
/// Results that are handed out before the first is acknowledged.
const MOST_OUT: u64 = 4_096;

/// A result that has come.
pub struct Arrived {
    /// What it is.
    pub outcome: Outcome,
    /// Name of the agent that measured it.
    pub agent: String,
    /// Where the broker is told that it need not come again.
    ack: String,
}

/// The results of one run, as they come.
pub struct Ingest {
    broker: Broker,
    run: String,
    listener: Listener,
    /// How many of them were there when it began.
    pub waiting: u64,
}

impl Ingest {
    /// The next; nothing once the connection is given up. What is no result of this run is passed over for good: what is
    /// handed out and never acknowledged would keep others back.
    pub async fn next(&mut self) -> Option<Arrived> {
        loop {
            let message = self.listener.next().await?;
            self.waiting = self.waiting.saturating_sub(1);
            let agent = message.subject.split('.').nth(2).unwrap_or_default().to_owned();
            let outcome = serde_json::from_slice(&message.payload).ok();
            let Some(ack) = message.reply.map(|ack| ack.to_string()) else { continue };
            match outcome.filter(|outcome: &Outcome| run_of(&outcome.turn) == self.run) {
                Some(outcome) => return Some(Arrived { outcome, agent, ack }),
                None => self.broker.pass_over(ack).await,
            }
        }
    }
}

/// What a run is called as the reader of its results.
fn reader(run: &str) -> String {
    run.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

impl Broker {
    /// Hands a result over: when this returns it is kept by the broker, and not yet by the store.
    ///
    /// # Errors
    /// When the broker does not answer, or refuses it.
    pub async fn hand_over(&self, turn: &str, outcome: Vec<u8>) -> Result<(), ErrorRecord> {
        let what = "hand a result over to the broker";
        let mut headers = HeaderMap::new();
        // The other host of a test knows its turn: by that alone it could make this one be taken for what came before.
        let id = format!("{}.{}", self.secret, token(turn));
        headers.insert("Nats-Msg-Id", id.as_str());
        let kept = self.keep(what, result(&self.name, run_of(turn)), headers, outcome).await;
        kept.map(|_| ()).map_err(|trouble| trouble.record(what))
    }

    /// The results of a run, those first that are there. One process at a time reads them.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn ingest(&self, run: &str) -> Result<Ingest, ErrorRecord> {
        let what = "read results from the broker";
        let name = reader(run);
        let gone = self.api(what, format!("CONSUMER.DELETE.{RESULTS}.{name}"), &json!({})).await;
        match gone {
            Ok(_) => {}
            Err(Trouble::Against(against)) if against.err_code == NO_CONSUMER => {}
            Err(trouble) => return Err(trouble.record(what)),
        }
        let inbox = self.client.new_inbox();
        let listener = self.listen(inbox.clone()).await?;
        // A new one each time: what was handed out to a reader that has died would not come for a while.
        let consumer = json!({ "stream_name": RESULTS, "config": {
            "durable_name": name, "deliver_subject": inbox, "deliver_policy": "all", "ack_policy": "explicit",
            "ack_wait": AGAIN_NS, "max_ack_pending": MOST_OUT, "inactive_threshold": FORGOTTEN_NS,
            "filter_subject": result("*", run),
        }});
        let made =
            self.api(what, format!("CONSUMER.DURABLE.CREATE.{RESULTS}.{name}"), &consumer).await;
        let made = made.map_err(|trouble| trouble.record(what))?;
        let number = |at: &str| made.pointer(at).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let waiting = number("/num_pending").saturating_add(number("/num_ack_pending"));
        Ok(Ingest { broker: self.clone(), run: run.to_owned(), listener, waiting })
    }

    /// Whether the broker knows that somebody reads the results of a run: it forgets a reader that was away for long, and
    /// everything where its files were lost.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn is_read(&self, run: &str) -> Result<bool, ErrorRecord> {
        let what = "ask who reads results";
        match self.api(what, format!("CONSUMER.INFO.{RESULTS}.{}", reader(run)), &json!({})).await {
            Ok(_) => Ok(true),
            Err(Trouble::Against(against))
                if [NO_CONSUMER, NO_STREAM].contains(&against.err_code) =>
            {
                Ok(false)
            }
            Err(trouble) => Err(trouble.record(what)),
        }
    }

    /// This reader does not take a result, and the broker need not hand it out again; its agent still has it.
    pub async fn leave(&self, arrived: Arrived) {
        self.pass_over(arrived.ack).await;
    }

    /// Where it does not arrive, the message comes again, and is passed over again.
    async fn pass_over(&self, ack: String) {
        let _ = self.client.publish(ack, "+TERM".into()).await;
    }

    /// The store has a result, or never wants it: tells its agent, and then the broker.
    ///
    /// # Errors
    /// When the broker does not answer: the result comes again then.
    pub async fn confirm(&self, arrived: &Arrived) -> Result<(), ErrorRecord> {
        let what = "confirm a result";
        let subject = confirmed(&arrived.agent, &arrived.outcome.turn);
        let turn = arrived.outcome.turn.clone().into_bytes();
        let kept = self.keep(what, subject, HeaderMap::new(), turn).await;
        kept.map_err(|trouble| trouble.record(what))?;
        let acked = self.client.publish(arrived.ack.clone(), "+ACK".into()).await;
        acked.map_err(|why| unable(what, &why))
    }

    /// Hears which results of this agent a store has, from now on.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn confirmations(&self) -> Result<Confirmations, ErrorRecord> {
        self.listen(format!("lr.confirmed.{}.>", self.name)).await.map(Confirmations)
    }

    /// Whether a store has had this result for some time: what is said while an agent is away it does not hear.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn is_confirmed(&self, turn: &str) -> Result<bool, ErrorRecord> {
        let what = "ask whether a store has a result";
        let subject = confirmed(&self.name, turn);
        let ask = json!({ "last_by_subj": subject });
        match self.api(what, format!("STREAM.MSG.GET.{CONFIRMED}"), &ask).await {
            // Whatever else stands there was said by nobody who has a store.
            Ok(last) => Ok(last.pointer("/message/data") == Some(&json!(STANDARD.encode(turn)))),
            Err(Trouble::Against(against)) if against.err_code == NO_MESSAGE => Ok(false),
            Err(trouble) => Err(trouble.record(what)),
        }
    }
}

/// Which results of an agent a store has.
pub struct Confirmations(Listener);

impl Confirmations {
    /// The next; nothing once the connection is given up.
    pub async fn next(&mut self) -> Option<String> {
        let message = self.0.next().await?;
        Some(String::from_utf8_lossy(&message.payload).into_owned())
    }
}
