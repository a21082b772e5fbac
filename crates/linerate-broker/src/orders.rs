//! What agents are told and say: core messages, of which JetStream keeps the last heartbeat of each agent.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::Message;
use linerate_model::record::{ErrorKind, ErrorRecord};
use serde_json::json;

use crate::api::Trouble;
use crate::connect::{Broker, Listener};
use crate::error::unable;
use crate::message::{Answer, Heartbeat, Order};
use crate::subject::{AGENTS, heartbeat, orders};

/// An agent of before its first heartbeat, or of another account, is not there.
const NO_AGENT: &str = "`linerate fleet hosts` shows which agents are there";

/// What an agent is told.
pub struct Told(Listener);

impl Told {
    /// The next order, and by what it is answered; nothing once the connection is given up. What is no order, or awaits
    /// no answer, is passed over.
    pub async fn next(&mut self) -> Option<(Order, Asker)> {
        loop {
            let Message { payload, reply, .. } = self.0.next().await?;
            if let (Ok(order), Some(reply)) = (serde_json::from_slice(&payload), reply) {
                return Some((order, Asker(reply.to_string())));
            }
        }
    }
}

/// Who asked.
pub struct Asker(String);

/// An agent as it was when it last spoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// When, by the clock of the broker; RFC 3339.
    pub at: String,
    /// What it said.
    pub heartbeat: Heartbeat,
}

impl Broker {
    /// Hears what this agent is told.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn told(&self) -> Result<Told, ErrorRecord> {
        self.listen(orders(&self.name)).await.map(Told)
    }

    /// Answers an order.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn answer(&self, asker: Asker, answer: &Answer) -> Result<(), ErrorRecord> {
        let what = "answer an order";
        let body = serde_json::to_vec(answer).map_err(|why| unable(what, &why))?;
        self.client.publish(asker.0, body.into()).await.map_err(|why| unable(what, &why))
    }

    /// Tells an agent something, and waits for its answer for so long.
    ///
    /// # Errors
    /// What the agent says against it; `host_gone` where none of this name is connected, `timed_out` where it does not
    /// answer.
    pub async fn tell(
        &self,
        agent: &str,
        order: &Order,
        patience: Duration,
    ) -> Result<Answer, ErrorRecord> {
        let what = format!("tell the agent {agent} what to do");
        let body = serde_json::to_vec(order).map_err(|why| unable(&what, &why))?;
        let request = async_nats::Request::new().payload(body.into()).timeout(Some(patience));
        let answer = self.client.send_request(orders(agent), request).await.map_err(|error| {
            use async_nats::client::RequestErrorKind as Kind;
            let (kind, why) = match error.kind() {
                Kind::NoResponders => (ErrorKind::HostGone, "it is not connected".to_owned()),
                Kind::TimedOut => (ErrorKind::TimedOut, "it does not answer".to_owned()),
                _ => (ErrorKind::Unable, error.to_string()),
            };
            ErrorRecord::new(kind, format!("cannot {what}"), why, &[NO_AGENT])
        })?;
        match serde_json::from_slice(&answer.payload) {
            Ok(Answer::Failed(error)) => Err(*error),
            Ok(answer) => Ok(answer),
            Err(why) => Err(unable(&what, &why)),
        }
    }

    /// Says that this agent is there.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn beat(&self, beat: &Heartbeat) -> Result<(), ErrorRecord> {
        let what = "say that this agent is there";
        let body = serde_json::to_vec(beat).map_err(|why| unable(what, &why))?;
        let sent = self.client.publish(heartbeat(&self.name), body.into()).await;
        sent.map_err(|why| unable(what, &why))
    }

    /// The agents that have spoken since the broker was started, by name.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn seen(&self) -> Result<Vec<Seen>, ErrorRecord> {
        let what = "read which agents are there";
        let filter = json!({ "subjects_filter": "lr.hb.>" });
        let info = self.api(what, format!("STREAM.INFO.{AGENTS}"), &filter).await;
        let info = info.map_err(|trouble| trouble.record(what))?;
        let subjects = info.pointer("/state/subjects").cloned().unwrap_or_default();
        let subjects: BTreeMap<String, u64> = serde_json::from_value(subjects).unwrap_or_default();
        let mut seen = Vec::new();
        for subject in subjects.into_keys() {
            seen.extend(self.last(what, &subject).await?);
        }
        Ok(seen)
    }

    async fn last(&self, what: &str, subject: &str) -> Result<Option<Seen>, ErrorRecord> {
        let call = format!("$JS.API.DIRECT.GET.{AGENTS}.{subject}");
        let last = self.exchange(what, call, None, Vec::new()).await;
        let last = last.map_err(|trouble: Trouble| trouble.record(what))?;
        let Some(name) = subject.rsplit('.').next().map(str::to_owned) else { return Ok(None) };
        let at = last.headers.as_ref().and_then(|headers| headers.get("Nats-Time-Stamp"));
        let at = at.map(ToString::to_string).unwrap_or_default();
        // An agent of another release may say something else.
        let heartbeat = serde_json::from_slice(&last.payload).ok();
        Ok(heartbeat.map(|heartbeat| Seen { name, at, heartbeat }))
    }
}
