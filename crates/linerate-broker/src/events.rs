//! What happened, kept by the broker for 90 days: who had which host, what was refused, who came and went.
//!
//! A subject says who speaks, and the broker lets an agent publish to its own alone.

use async_nats::HeaderMap;
use linerate_model::fleet_events::{FleetEntry, FleetSaid};
use linerate_model::record::ErrorRecord;

use crate::connect::Broker;
use crate::subject::{EVENTS, OPERATOR, event};
use crate::walk::Stored;

impl Broker {
    /// Says that something happened. `about` is the agent that the operator speaks of, and `id` of this event alone: said
    /// twice it is kept once.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn say(&self, about: &str, id: &str, said: &FleetSaid) -> Result<(), ErrorRecord> {
        let what = "say what happened";
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", id);
        let body = serde_json::to_vec(said).unwrap_or_default();
        let kept = self.keep(what, event(&self.name, about), headers, body).await;
        kept.map(|_| ()).map_err(|trouble| trouble.record(what))
    }

    /// Hands over what happened from `since` on (RFC 3339), the oldest first. Says how many were not understood, or not
    /// for whoever said them to say.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn events(
        &self,
        since: &str,
        mut take: impl FnMut(FleetEntry),
    ) -> Result<u64, ErrorRecord> {
        let mut unread: u64 = 0;
        let each = |Stored { subject, at, body }: Stored| {
            let by = subject.split('.').nth(2).unwrap_or_default().to_owned();
            match serde_json::from_slice::<FleetSaid>(&body) {
                Ok(said) if said.event.is_of_an_agent() == (by != OPERATOR) => {
                    take(FleetEntry { kept: at, by, said });
                }
                _ => unread = unread.saturating_add(1),
            }
        };
        self.walk("read what happened", (EVENTS, "lr.event.>"), Some(since), each).await?;
        Ok(unread)
    }
}
