//! What a broker reports of itself.

use linerate_model::fleet_doctor::{FleetBroker, FleetStorage, FleetStream};
use linerate_model::record::ErrorRecord;
use serde_json::{Value, json};

use crate::connect::{Broker, Credentials};
use crate::streams::ALL;

impl Broker {
    /// What there is to judge of the broker. `asked` is how it is asked of itself, or why that cannot be.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn facts(
        &self,
        own: &Credentials,
        asked: Result<Credentials, String>,
    ) -> Result<FleetBroker, ErrorRecord> {
        let info = self.client.server_info();
        let jetstream = match asked {
            Ok(credentials) => jetstream(&credentials, &info.server_id).await,
            Err(why) => Err(why),
        };
        let mut streams = Vec::new();
        for name in ALL {
            streams.push(self.stream(name).await?);
        }
        Ok(FleetBroker {
            url: own.url.clone(),
            version: info.version,
            listens: info.host,
            tls: info.tls_required,
            sync_always: jetstream.as_ref().map(is_synced).map_err(String::clone).into(),
            storage: jetstream.and_then(|found| room(&found)).into(),
            streams,
        })
    }

    async fn stream(&self, name: &str) -> Result<FleetStream, ErrorRecord> {
        let what = format!("read how full {name} is");
        let info = self.api(&what, format!("STREAM.INFO.{name}"), &json!({})).await;
        let info = info.map_err(|trouble| trouble.record(&what))?;
        let number = |at: &str| info.pointer(at).and_then(Value::as_u64);
        Ok(FleetStream {
            name: name.to_owned(),
            messages: number("/state/messages").unwrap_or(0),
            bytes: number("/state/bytes").unwrap_or(0),
            // -1 is no limit, and none of `as_u64`.
            most_bytes: number("/config/max_bytes").filter(|most| *most > 0),
            consumers: number("/state/consumer_count").unwrap_or(0),
        })
    }
}

/// What the server says of its JetStream, to whoever is of its own account.
async fn jetstream(credentials: &Credentials, server: &str) -> Result<Value, String> {
    let words = |error: ErrorRecord| format!("{}: {}", error.what, error.why);
    let broker = Broker::connect(credentials).await.map_err(words)?;
    let what = "ask the broker how it keeps what it is given";
    let answer = broker.exchange(what, format!("$SYS.REQ.SERVER.{server}.JSZ"), None, Vec::new());
    let answer = answer.await.map_err(|trouble| words(trouble.record(what)))?;
    let answer: Value = serde_json::from_slice(&answer.payload).map_err(|why| why.to_string())?;
    answer.get("data").cloned().ok_or_else(|| "the broker says nothing of its JetStream".to_owned())
}

/// Left out where it is not so.
fn is_synced(found: &Value) -> bool {
    found.pointer("/config/sync_always").and_then(Value::as_bool).unwrap_or(false)
}

fn room(found: &Value) -> Result<FleetStorage, String> {
    let bytes = found.get("storage").and_then(Value::as_u64).unwrap_or(0);
    let most = found.pointer("/config/max_storage").and_then(Value::as_u64);
    let most_bytes = most.ok_or("the broker does not say how much it may keep")?;
    Ok(FleetStorage { bytes, most_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer_of_a_server() {
        // As 2.15.2 answers, shortened.
        let always = json!({
            "memory": 0, "storage": 1_234, "config": { "max_memory": 1, "max_storage": 5_000, "sync_interval": 120_000_000_000_u64, "sync_always": true },
        });
        assert!(is_synced(&always));
        assert_eq!(room(&always), Ok(FleetStorage { bytes: 1_234, most_bytes: 5_000 }));
        let lazy = json!({ "storage": 1, "config": { "sync_interval": 120_000_000_000_u64 } });
        assert!(!is_synced(&lazy));
        assert!(room(&lazy).is_err());
    }
}
