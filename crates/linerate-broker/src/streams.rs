//! What a broker keeps for a fleet.

use linerate_model::record::ErrorRecord;
use serde_json::{Value, json};

use crate::api::Trouble;
use crate::connect::Broker;
use crate::subject::{AGENTS, CONFIRMED, ENROLLED, EVENTS, LEASES, RESULTS};

/// JetStream's word for a stream that is not there.
pub(crate) const NO_STREAM: u32 = 10_059;
/// Seven days in nanoseconds: as long results, and that a store has them, are kept.
const WEEK_NS: u64 = 7 * 86_400 * 1_000_000_000;
/// A result that is sent again within this long is not kept again, in nanoseconds: ten minutes.
const SAME_NS: u64 = 600 * 1_000_000_000;

/// Ninety days in nanoseconds: as long what happened is kept.
const QUARTER_NS: u64 = 90 * 86_400 * 1_000_000_000;
/// Events of an agent, and as many that the operator says of it: a lease every three minutes for ninety days.
const MOST_EVENTS: u64 = 100_000;
/// Of the largest event, in bytes.
const MOST_EVENT_BYTES: u64 = 8 << 10;
/// Two days in nanoseconds: longer than any test, and its lease. What is no lease is gone by then.
const LEASE_NS: u64 = 2 * 86_400 * 1_000_000_000;
/// Of the largest heartbeat, in bytes: many times what an agent says.
const MOST_HEARTBEAT_BYTES: u64 = 64 << 10;

impl Broker {
    /// Makes the streams that are not there. `now_ms` are milliseconds since 1970: the numbers of leases begin with
    /// them, so that they go on rising where a broker's files were lost.
    ///
    /// # Errors
    /// When the broker does not answer, or lets nobody make streams by these credentials.
    pub async fn make_streams(&self, now_ms: u64) -> Result<(), ErrorRecord> {
        for (name, config) in streams(now_ms) {
            let what = format!("make the stream {name}");
            match self.api(&what, format!("STREAM.INFO.{name}"), &json!({})).await {
                Ok(_) => {}
                Err(Trouble::Against(against)) if against.err_code == NO_STREAM => {
                    let made = self.api(&what, format!("STREAM.CREATE.{name}"), &config).await;
                    made.map_err(|trouble| trouble.record(&what))?;
                }
                Err(trouble) => return Err(trouble.record(&what)),
            }
        }
        Ok(())
    }
}

/// What a broker keeps for a fleet.
pub(crate) const ALL: [&str; 6] = [LEASES, RESULTS, CONFIRMED, ENROLLED, EVENTS, AGENTS];

/// The broker's answers go where whoever asks says, also to its own interface (`docs/agents.md`): what those that an agent
/// gets could do there is denied to all (`deny_purge`, `deny_delete`), where nobody needs it.
fn streams(now_ms: u64) -> [(&'static str, Value); 6] {
    [
        (
            LEASES,
            // Without markers of what was deleted or is over: a resource that is free has no message at all.
            json!({
                "name": LEASES, "subjects": ["lr.lease.>"], "storage": "file", "retention": "limits",
                "num_replicas": 1, "max_msgs_per_subject": 1, "first_seq": now_ms.max(1),
                "allow_atomic": true, "allow_msg_ttl": true, "max_age": LEASE_NS, "deny_purge": true,
            }),
        ),
        (
            RESULTS,
            json!({
                "name": RESULTS, "subjects": ["lr.result.>"], "storage": "file", "retention": "limits",
                "num_replicas": 1, "max_age": WEEK_NS, "duplicate_window": SAME_NS,
                "deny_purge": true, "deny_delete": true,
            }),
        ),
        (
            CONFIRMED,
            json!({
                "name": CONFIRMED, "subjects": ["lr.confirmed.>"], "storage": "file", "retention": "limits",
                "num_replicas": 1, "max_age": WEEK_NS, "max_msgs_per_subject": 1,
                "deny_purge": true, "deny_delete": true,
            }),
        ),
        (
            ENROLLED,
            // As long as the fleet is: whoever is to be taken away is found here.
            json!({
                "name": ENROLLED, "subjects": ["lr.enrolled.>"], "storage": "file", "retention": "limits",
                "num_replicas": 1, "allow_direct": true, "deny_purge": true, "deny_delete": true,
            }),
        ),
        (
            EVENTS,
            // What each may say is bounded, so that none can push out what others said.
            json!({
                "name": EVENTS, "subjects": ["lr.event.>"], "storage": "file", "retention": "limits",
                "num_replicas": 1, "max_age": QUARTER_NS, "max_msgs_per_subject": MOST_EVENTS,
                "max_msg_size": MOST_EVENT_BYTES, "duplicate_window": SAME_NS, "allow_direct": true,
                "deny_purge": true, "deny_delete": true,
            }),
        ),
        (
            AGENTS,
            // In memory: what was is of no use, and an fsync for each would be.
            json!({
                "name": AGENTS, "subjects": ["lr.hb.>"], "storage": "memory", "retention": "limits",
                "num_replicas": 1, "max_msgs_per_subject": 1, "max_msg_size": MOST_HEARTBEAT_BYTES, "allow_direct": true,
            }),
        ),
    ]
}
