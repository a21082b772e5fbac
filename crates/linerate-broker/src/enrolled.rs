//! Which hosts became agents: kept by the broker, so that whoever runs the fleet knows who should be there, and whom to
//! take away.

use std::collections::BTreeMap;

use async_nats::HeaderMap;
use linerate_model::record::ErrorRecord;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::connect::Broker;
use crate::subject::{AGENTS, ENROLLED, enrolled, heartbeat};
use crate::walk::Stored;

/// In the place of a host: those before it are no agents any more. Nothing is taken out of the stream, so that nobody can.
const FORGOTTEN: &[u8] = b"\"forgotten\"";

/// A host that became an agent. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolled {
    /// The public half of its key.
    pub key: String,
    /// When.
    pub at_s: u64,
    /// When the broker lets it in no more; nothing for no end.
    pub expires_s: Option<u64>,
}

impl Broker {
    /// Notes that a host becomes the agent `agent`.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn note_enrolled(&self, agent: &str, host: &Enrolled) -> Result<(), ErrorRecord> {
        let what = format!("note that {agent} is enrolled");
        let body = serde_json::to_vec(host).unwrap_or_default();
        let kept = self.keep(&what, enrolled(agent), HeaderMap::new(), body).await;
        kept.map(|_| ()).map_err(|trouble| trouble.record(&what))
    }

    /// The hosts that became each agent and were not revoked, the last one last.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn enrolled(&self) -> Result<BTreeMap<String, Vec<Enrolled>>, ErrorRecord> {
        let mut all: BTreeMap<String, Vec<Enrolled>> = BTreeMap::new();
        let take = |Stored { subject, body, .. }: Stored| {
            let name = subject.rsplit('.').next().unwrap_or_default().to_owned();
            match serde_json::from_slice(&body) {
                Ok(host) => all.entry(name).or_default().push(host),
                Err(_) if body == FORGOTTEN => drop(all.remove(&name)),
                Err(_) => {}
            }
        };
        self.walk("read who is enrolled", (ENROLLED, "lr.enrolled.>"), None, take).await?;
        Ok(all)
    }

    /// Forgets who became this agent, and what it said last.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn forget(&self, agent: &str) -> Result<(), ErrorRecord> {
        let what = format!("forget {agent}");
        let said = self.keep(&what, enrolled(agent), HeaderMap::new(), FORGOTTEN.to_vec()).await;
        said.map_err(|trouble| trouble.record(&what))?;
        let filter = json!({ "filter": heartbeat(agent) });
        let gone = self.api(&what, format!("STREAM.PURGE.{AGENTS}"), &filter).await;
        gone.map(drop).map_err(|trouble| trouble.record(&what))
    }
}
