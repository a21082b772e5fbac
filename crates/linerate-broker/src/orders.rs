//! Orders to agents and their reports: core messages, of which JetStream keeps the last heartbeat of each agent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_nats::Message;
use linerate_fleet::message::{Answer, Heartbeat, Order};
use linerate_model::record::{ErrorKind, ErrorRecord};
use serde_json::{Value, json};

use crate::connect::{Broker, Listener};
use crate::error::{silent, unable};
use crate::subject::{AGENTS, LEASES, heartbeat, orders};
use crate::walk::Stored;

/// An agent of before its first heartbeat, or of another account, is not there.
const NO_AGENT: &str = "`linerate fleet hosts` shows which agents are there";

/// An order to an agent.
pub struct Orders(Listener);

impl Orders {
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

/// Who is leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    /// Names of hosts.
    pub hosts: BTreeSet<String>,
    /// By the clock of the broker; RFC 3339.
    pub now: String,
}

impl Broker {
    /// The orders to this agent, as they come.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn orders(&self) -> Result<Orders, ErrorRecord> {
        self.listen(orders(&self.name)).await.map(Orders)
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
    pub async fn send_order(
        &self,
        agent: &str,
        order: &Order,
        patience: Duration,
    ) -> Result<Answer, ErrorRecord> {
        let what = format!("tell the agent {agent} what to do");
        let body = serde_json::to_vec(order).map_err(|why| unable(&what, &why))?;
        let request = async_nats::Request::new().payload(body.into()).timeout(Some(patience));
        let asked = self.within(patience, self.client.send_request(orders(agent), request)).await;
        let against =
            |kind, why: &str| ErrorRecord::new(kind, format!("cannot {what}"), why, &[NO_AGENT]);
        let answer = asked.ok_or_else(|| match self.is_connected() {
            true => against(ErrorKind::TimedOut, "it does not answer"),
            false => silent(&what),
        })?;
        let answer = answer.map_err(|error| {
            use async_nats::client::RequestErrorKind as Kind;
            match error.kind() {
                Kind::NoResponders => against(ErrorKind::HostGone, "it is not connected"),
                Kind::TimedOut => against(ErrorKind::TimedOut, "it does not answer"),
                _ => against(ErrorKind::Unable, &error.to_string()),
            }
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

    /// Returns once this agent says, from now on, that it has had this lease and that no result waits on it. In a test it says
    /// nothing, and what came of one waits until a store has it: so nothing comes of that lease any more. Where the agent
    /// cannot be heard this does not return.
    pub async fn comes_back(&self, agent: &str, epoch: u64) {
        if let Ok(mut beats) = self.listen(heartbeat(agent)).await {
            while let Some(Message { payload, .. }) = beats.next().await {
                let beat = serde_json::from_slice::<Heartbeat>(&payload);
                if beat.is_ok_and(|beat| beat.epoch >= epoch && beat.waiting == 0) {
                    return;
                }
            }
        }
        std::future::pending().await
    }

    /// The agents that have spoken since the broker was started, by name.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn seen(&self) -> Result<Vec<Seen>, ErrorRecord> {
        let mut seen = BTreeMap::new();
        let take = |Stored { subject, at, body }: Stored| {
            let name = subject.rsplit('.').next().unwrap_or_default().to_owned();
            // An agent of another release may say something else.
            if let Ok(heartbeat) = serde_json::from_slice(&body) {
                seen.insert(name.clone(), Seen { name, at, heartbeat });
            }
        };
        self.walk("read which agents are there", (AGENTS, "lr.hb.>"), None, take).await?;
        Ok(seen.into_values().collect())
    }

    /// The hosts of which somebody has a lease now, and what time it is at the broker.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn leased(&self) -> Result<Leased, ErrorRecord> {
        let what = "read which agents are in a test";
        let filter = json!({ "subjects_filter": "lr.lease.host.>" });
        let info = self.api(what, format!("STREAM.INFO.{LEASES}"), &filter).await;
        let info = info.map_err(|trouble| trouble.record(what))?;
        let subjects = info.pointer("/state/subjects").and_then(Value::as_object);
        let hosts = subjects.into_iter().flatten();
        let hosts = hosts.filter_map(|(subject, _)| subject.rsplit('.').next());
        let now = info.get("ts").and_then(Value::as_str).unwrap_or_default();
        Ok(Leased { hosts: hosts.map(str::to_owned).collect(), now: now.to_owned() })
    }
}
