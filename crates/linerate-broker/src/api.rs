//! JetStream's own requests and answers.
use async_nats::client::RequestErrorKind;
use async_nats::{HeaderMap, Message, Request};
use linerate_model::record::ErrorRecord;
use serde::Deserialize;
use serde_json::Value;

use crate::connect::{Broker, PATIENCE};
use crate::error::{silent, unable};

/// What JetStream says against something.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Against {
    #[serde(default)]
    pub(crate) err_code: u32,
    #[serde(default)]
    description: String,
}

/// A message was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Kept {
    /// Its place in the stream.
    pub(crate) seq: u64,
}

/// Why a request has no good answer.
pub(crate) enum Trouble {
    /// JetStream is against it.
    Against(Against),
    /// It could not be asked.
    Broken(ErrorRecord),
}

impl Trouble {
    /// In words.
    pub(crate) fn record(self, what: &str) -> ErrorRecord {
        match self {
            Self::Against(against) => {
                unable(what, &format!("{} ({})", against.description, against.err_code))
            }
            Self::Broken(error) => error,
        }
    }
}

fn broken(what: &str, kind: RequestErrorKind, why: &dyn std::fmt::Display) -> Trouble {
    Trouble::Broken(match kind {
        RequestErrorKind::TimedOut => silent(what),
        RequestErrorKind::NoResponders => {
            unable(what, &"JetStream is not enabled there, or has not begun yet")
        }
        _ => unable(what, why),
    })
}

impl Broker {
    /// Asks, and waits for the whole answer.
    pub(crate) async fn exchange(
        &self,
        what: &str,
        subject: String,
        headers: Option<HeaderMap>,
        body: Vec<u8>,
    ) -> Result<Message, Trouble> {
        let mut request = Request::new().payload(body.into()).timeout(Some(PATIENCE));
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        let asked = self.client.send_request(subject.clone(), request);
        let subjects = [subject.as_str()];
        let answer = tokio::select! {
            answer = self.within(PATIENCE, asked) => answer,
            why = self.denied(&subjects) => return Err(Trouble::Broken(unable(what, &why))),
        };
        let answer = answer.ok_or_else(|| Trouble::Broken(silent(what)))?;
        answer.map_err(|error| broken(what, error.kind(), &error))
    }

    /// Asks JetStream; `call` is what follows `$JS.API.`.
    pub(crate) async fn api(
        &self,
        what: &str,
        call: String,
        body: &Value,
    ) -> Result<Value, Trouble> {
        let subject = format!("$JS.API.{call}");
        let answer = self.exchange(what, subject, None, body.to_string().into_bytes()).await?;
        read(what, &answer)
    }

    /// Has a message kept, with these headers.
    pub(crate) async fn keep(
        &self,
        what: &str,
        subject: String,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Kept, Trouble> {
        let answer = self.exchange(what, subject, Some(headers), body).await?;
        let answer = read(what, &answer)?;
        serde_json::from_value(answer).map_err(|why| Trouble::Broken(unable(what, &why)))
    }
}

fn read(what: &str, answer: &Message) -> Result<Value, Trouble> {
    let answer: Value = serde_json::from_slice(&answer.payload)
        .map_err(|why| Trouble::Broken(unable(what, &why)))?;
    match answer.get("error") {
        None => Ok(answer),
        Some(error) => Err(match Against::deserialize(error) {
            Ok(against) => Trouble::Against(against),
            Err(why) => Trouble::Broken(unable(what, &why)),
        }),
    }
}
