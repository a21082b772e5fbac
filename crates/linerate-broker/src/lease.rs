//! Leases that all coordinators of a broker share: what a test takes, granted as one and for some time.
//!
//! A resource that somebody has is a message of its subject, which ends by itself (`Nats-TTL`). A grant is one atomic
//! batch in which each message is taken only if its subject has none: all or nothing, whoever asks at the same time.
//! The epoch is the place of the batch's last message in the stream, which only rises. What is given back is deleted by
//! its place, so that nobody can free what is another's by then.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::HeaderMap;
use linerate_fleet::lease::Epoch;
use linerate_fleet::plan::Resource;
use linerate_model::record::ErrorRecord;
use serde_json::json;

use crate::api::Trouble;
use crate::connect::{Broker, PATIENCE};
use crate::error::{silent, unable};
use crate::streams::NO_STREAM;
use crate::subject::{LEASES, lease};

/// JetStream's words for a subject that has another message than was expected.
const WRONG_LAST: [u32; 2] = [10_071, 10_164];
/// JetStream's word for a message that cannot be deleted: it is not there any more.
const NO_MESSAGE: u32 = 10_057;
const WHAT: &str = "get a lease from the broker";

/// All that a test takes, for some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its number; of two the later has the higher, on all coordinators.
    pub epoch: Epoch,
    /// How many messages it is.
    messages: u64,
}

impl Broker {
    /// Grants all of `resources` until they are given back, for `ttl` at most (whole seconds, rounded up), or none of
    /// them: nothing where somebody has one. `holder` is who, for people who look into the stream.
    ///
    /// # Errors
    /// When the broker does not answer. Whether it has granted them is not known then; if so, it is over after `ttl`.
    pub async fn grant(
        &self,
        resources: &BTreeSet<Resource>,
        ttl: Duration,
        holder: &str,
    ) -> Result<Option<Lease>, ErrorRecord> {
        let Some(last) = resources.last() else {
            return Err(unable(WHAT, &"a test without hosts takes nothing"));
        };
        let messages = u64::try_from(resources.len()).unwrap_or(u64::MAX);
        let seconds = ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0)).max(1);
        let batch = self.client.new_inbox();
        let batch = batch.rsplit('.').next().unwrap_or(&batch);
        let headers = |number: u64| {
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Batch-Id", batch);
            headers.insert("Nats-Batch-Sequence", number.to_string().as_str());
            headers.insert("Nats-Expected-Last-Subject-Sequence", "0");
            headers.insert("Nats-TTL", format!("{seconds}s").as_str());
            headers
        };
        let body = json!({ "holder": holder, "seconds": seconds }).to_string().into_bytes();
        let all_but_the_last = async {
            for (number, resource) in (1..messages).zip(resources) {
                let (to, body) = (lease(resource), body.clone().into());
                self.client.publish_with_headers(to, headers(number), body).await?;
            }
            Ok::<_, async_nats::PublishError>(())
        };
        let sent = self.within(PATIENCE, all_but_the_last).await;
        sent.ok_or_else(|| silent(WHAT))?.map_err(|why| unable(WHAT, &why))?;
        let mut commit = headers(messages);
        commit.insert("Nats-Batch-Commit", "1");
        match self.keep(WHAT, lease(last), commit, body).await {
            Ok(kept) => Ok(Some(Lease { epoch: Epoch(kept.seq), messages })),
            Err(Trouble::Against(against)) if WRONG_LAST.contains(&against.err_code) => Ok(None),
            Err(trouble) => Err(trouble.record(WHAT)),
        }
    }

    /// Frees what was granted, when nothing uses it any more. Says whether all of it was still leased: what is over before its
    /// time, since the broker's clock was set or its files are lost, may have been another's as well.
    ///
    /// # Errors
    /// When the broker does not answer: it is over by itself then.
    pub async fn give_back(&self, lease: &Lease) -> Result<bool, ErrorRecord> {
        let what = "give a lease back to the broker";
        let mut held = true;
        let first = lease.epoch.0.saturating_add(1).saturating_sub(lease.messages);
        for seq in first..=lease.epoch.0 {
            // Without overwriting it: nobody minds who had a host.
            let message = json!({ "seq": seq, "no_erase": true });
            match self.api(what, format!("STREAM.MSG.DELETE.{LEASES}"), &message).await {
                Ok(_) => {}
                Err(Trouble::Against(against))
                    if [NO_MESSAGE, NO_STREAM].contains(&against.err_code) =>
                {
                    held = false;
                }
                Err(trouble) => return Err(trouble.record(what)),
            }
        }
        Ok(held)
    }
}
