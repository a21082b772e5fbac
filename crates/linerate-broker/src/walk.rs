//! Reads what a stream keeps, from its beginning or a time on, without a consumer.

use std::time::Duration;

use async_nats::{HeaderMap, Message};
use linerate_model::record::ErrorRecord;
use serde_json::json;

use crate::connect::{Broker, Listener};
use crate::error::{silent, unable};

/// So many messages are asked for at a time: fewer bytes than the broker lets wait for a slow reader.
const BATCH: u64 = 256;
/// The next message of a batch comes within this long.
const PATIENCE: Duration = Duration::from_secs(10);
/// JetStream's status where there is nothing more.
const NOTHING: u16 = 404;
/// Its status after the last message of a batch.
const END_OF_BATCH: u16 = 204;
/// The broker's status where nobody takes a request.
const NOBODY: u16 = 503;

/// A message that a stream keeps.
pub(crate) struct Stored {
    pub(crate) subject: String,
    /// When it was kept, by the broker's clock; RFC 3339.
    pub(crate) at: String,
    pub(crate) body: Vec<u8>,
}

/// Where to go on.
enum Next {
    From(u64),
    Over,
}

impl Broker {
    /// Hands over all that a stream keeps of a subject, which may have wildcards, the oldest first; from `since` on
    /// (RFC 3339) if that is said.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub(crate) async fn walk(
        &self,
        what: &str,
        (stream, subject): (&str, &str),
        since: Option<&str>,
        mut take: impl FnMut(Stored),
    ) -> Result<(), ErrorRecord> {
        let inbox = self.client.new_inbox();
        let mut listener = self.listen(inbox.clone()).await?;
        let mut ask = match since {
            Some(since) => json!({ "next_by_subj": subject, "batch": BATCH, "start_time": since }),
            None => json!({ "next_by_subj": subject, "batch": BATCH, "seq": 1 }),
        };
        let call = format!("$JS.API.DIRECT.GET.{stream}");
        let subjects = [call.as_str(), inbox.as_str()];
        loop {
            let (to, body) = (call.clone(), ask.to_string().into_bytes());
            let asked = self.client.publish_with_reply(to, inbox.clone(), body.into()).await;
            asked.map_err(|why| unable(what, &why))?;
            let came = tokio::select! {
                came = batch(what, &mut listener, &mut take) => came,
                why = self.denied(&subjects) => Err(unable(what, &why)),
            };
            match came? {
                Next::Over => return Ok(()),
                Next::From(seq) => {
                    ask = json!({ "next_by_subj": subject, "batch": BATCH, "seq": seq });
                }
            }
        }
    }
}

/// Takes what comes, up to the word that no more does.
async fn batch(
    what: &str,
    listener: &mut Listener,
    take: &mut impl FnMut(Stored),
) -> Result<Next, ErrorRecord> {
    loop {
        let message = tokio::time::timeout(PATIENCE, listener.next()).await;
        let message = message.map_err(|_| silent(what))?;
        let Message { status, headers, payload, description, .. } =
            message.ok_or_else(|| unable(what, &"the connection was given up"))?;
        let header = |name: &str| text(headers.as_ref(), name);
        let number = |name: &str| header(name).parse::<u64>().ok();
        match status.map(|status| status.as_u16()) {
            None => take(Stored {
                subject: header("Nats-Subject"),
                at: header("Nats-Time-Stamp"),
                body: payload.to_vec(),
            }),
            Some(NOTHING) => return Ok(Next::Over),
            Some(END_OF_BATCH) => {
                let (left, last) = (number("Nats-Num-Pending"), number("Nats-Last-Sequence"));
                return Ok(match (left, last) {
                    (Some(1..), Some(last)) => Next::From(last.saturating_add(1)),
                    _ => Next::Over,
                });
            }
            Some(NOBODY) => {
                return Err(unable(
                    what,
                    &"the broker has no such stream, or it has not begun yet",
                ));
            }
            Some(status) => {
                let why = description.unwrap_or_default();
                return Err(unable(what, &format!("{status} {why}")));
            }
        }
    }
}

fn text(headers: Option<&HeaderMap>, name: &str) -> String {
    headers.and_then(|headers| headers.get(name)).map(ToString::to_string).unwrap_or_default()
}
