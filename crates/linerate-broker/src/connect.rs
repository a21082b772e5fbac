//! The connection to a broker.

use std::future::poll_fn;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{
    AuthError, Client, ClientError, ConnectError, ConnectErrorKind, ConnectOptions, Event, Message,
    ServerAddr, ServerError, Subscriber,
};
use futures_core::Stream;
use linerate_fleet::health::{TESTED, release};
use linerate_model::record::{ErrorKind, ErrorRecord};
use serde::{Deserialize, Serialize};

use crate::error::{silent, unable};
use crate::subject::OPERATOR;

/// Oldest release that has atomic batches and times to live of single messages.
pub const LEAST_VERSION: [u64; 3] = [2, 12, 0];
/// A dead connection is noticed after twice this; beside a test its pings are the only bytes.
const PING_EVERY: Duration = Duration::from_secs(60);
/// Longest wait between two attempts to connect.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A broker that is restarted is back after fewer attempts than this, which take about a minute; until then nobody waits longer
/// than the time in which it takes 10,000 of them.
const RESTART_TRIES: usize = 24;
const RESTART_WAIT: Duration = Duration::from_secs(6);

/// An answer comes after an fsync at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// A connection that is away is waited for this long: a broker that is restarted has it back by then.
const AWAY: Duration = Duration::from_secs(10);
/// It is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// First words of the broker's against something that the credentials do not allow; the subject follows in quotes.
const DENIED: &str = "Permissions Violation";
/// How the client calls it that the broker does not let somebody in.
const REFUSED: ConnectErrorKind = ConnectErrorKind::AuthorizationViolation;

/// By what somebody is let in by a broker. The seed is a secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct Credentials {
    /// `tls://HOST:PORT`, or `nats://127.0.0.1:PORT`.
    pub url: String,
    /// Name of the agent; nothing for the operator, who may do everything.
    pub agent: Option<String>,
    /// What the account has signed: who may do what.
    pub jwt: String,
    /// The private half of the NKey that it is for.
    pub seed: String,
    /// File with the certificates that are believed, in PEM; those of the system where there is none.
    pub ca: Option<PathBuf>,
}

/// A connection to a broker, which is made anew whenever it ends.
#[derive(Clone)]
pub struct Broker {
    pub(crate) client: Client,
    /// As subjects have it.
    pub(crate) name: String,
    said: Arc<Said>,
    /// What nobody else knows.
    pub(crate) secret: String,
}

/// What a broker says of a connection that is no answer to anything.
#[derive(Default)]
struct Said {
    /// It let these credentials in before, and does not any more.
    refused: AtomicBool,
    /// What it said last that they do not allow.
    denied: Mutex<String>,
}

impl Broker {
    /// Connects; one attempt.
    ///
    /// # Errors
    /// When it cannot be reached, lets nobody in by these credentials, is too old, or is elsewhere and without TLS.
    pub async fn connect(credentials: &Credentials) -> Result<Self, ErrorRecord> {
        let url = &credentials.url;
        check_url(url)?;
        let name = credentials.agent.clone().unwrap_or_else(|| OPERATOR.to_owned());
        let said = Arc::new(Said::default());
        let options = options(credentials, &name, &said)?;
        let client = options.connect(url).await.map_err(|error| unreachable(url, &error))?;
        let version = client.server_info().version;
        if !is_recent(&version) {
            return Err(too_old(url, &version));
        }
        let inbox = client.new_inbox();
        let secret = inbox.rsplit('.').next().unwrap_or_default().to_owned();
        Ok(Self { client, name, said, secret })
    }

    /// Hears what comes for a subject.
    pub(crate) async fn listen(&self, subject: String) -> Result<Listener, ErrorRecord> {
        let what = format!("listen to {subject}");
        let listening = async {
            let subscriber = self.client.subscribe(subject).await;
            let subscriber = subscriber.map_err(|why| unable(&what, &why))?;
            // It is on its way to the broker then, which knows it a little later.
            self.client.flush().await.map_err(|why| unable(&what, &why))?;
            Ok(Listener(subscriber))
        };
        self.within(PATIENCE, listening).await.unwrap_or_else(|| Err(silent(&what)))
    }

    /// Has something done within this long, once there is a connection, which is waited for as well, for some time. What is
    /// said without one the client keeps, and where that is much, whoever says more waits for the broker without an end.
    pub(crate) async fn within<T>(
        &self,
        patience: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let connected = async {
            while !self.is_connected() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(patience.min(AWAY), connected).await.ok()?;
        tokio::time::timeout(patience, work).await.ok()
    }

    /// Waits for it that the broker does not let these credentials say or hear something of one of these subjects, and
    /// returns its words: whoever was to answer never hears the question.
    pub(crate) async fn denied(&self, subjects: &[&str]) -> String {
        loop {
            let said = self.said.denied.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if subjects.iter().any(|subject| said.contains(&format!("\"{subject}\""))) {
                return said;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Has said everything.
    ///
    /// # Errors
    /// When the broker does not answer, or the connection is gone.
    pub async fn flush(&self) -> Result<(), ErrorRecord> {
        let what = "send to the broker";
        let flushed = self.within(PATIENCE, self.client.flush()).await;
        flushed.ok_or_else(|| silent(what))?.map_err(|why| unable(what, &why))
    }

    /// Whether there is a connection now. Without one what is said waits in memory for the next.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Whether there is none because the broker lets these credentials in no more.
    pub fn is_refused(&self) -> bool {
        self.said.refused.load(Ordering::Relaxed)
    }

    /// By which address the broker sees this connection; nothing where it does not say.
    pub fn seen_as(&self) -> Option<IpAddr> {
        self.client.server_info().client_ip.parse().ok()
    }

    /// Release of the broker.
    pub fn version(&self) -> String {
        self.client.server_info().version
    }

    /// Bytes of the largest message.
    pub fn most_bytes(&self) -> usize {
        self.client.max_payload()
    }
}

/// What comes for a subject.
pub(crate) struct Listener(Subscriber);

impl Listener {
    /// The next of it; nothing once the connection is given up.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        poll_fn(|context| Pin::new(&mut self.0).poll_next(context)).await
    }
}

fn options(
    credentials: &Credentials,
    name: &str,
    said: &Arc<Said>,
) -> Result<ConnectOptions, ErrorRecord> {
    let pair = nkeys::KeyPair::from_seed(&credentials.seed)
        .map_err(|why| refused(&credentials.url, &format!("its seed is none: {why}")))?;
    let pair = Arc::new(pair);
    let sign = move |nonce: Vec<u8>| {
        let pair = Arc::clone(&pair);
        async move { pair.sign(&nonce).map_err(AuthError::new) }
    };
    let said = Arc::clone(said);
    let note = move |event| {
        match event {
            Event::Connected => {
                said.refused.store(false, Ordering::Relaxed);
                said.denied.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
            Event::ClientError(ClientError::Other(why)) if why == REFUSED.to_string() => {
                said.refused.store(true, Ordering::Relaxed);
            }
            Event::ServerError(ServerError::Other(why)) if why.starts_with(DENIED) => {
                *said.denied.lock().unwrap_or_else(PoisonError::into_inner) = why;
            }
            _ => {}
        }
        std::future::ready(())
    };
    let mut options = ConnectOptions::with_jwt(credentials.jwt.clone(), sign)
        .name(name)
        .custom_inbox_prefix(format!("_INBOX.{name}"))
        .require_tls(credentials.url.starts_with("tls://"))
        .ping_interval(PING_EVERY)
        .reconnect_delay_callback(wait)
        .event_callback(note);
    if let Some(ca) = &credentials.ca {
        options = options.add_root_certificates(ca.clone());
    }
    Ok(options)
}

/// Longer each time, and of all who were cut off at once each at another moment.
fn wait(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.min(16)).unwrap_or(16);
    let longest = if attempts > RESTART_TRIES { LONGEST_WAIT } else { RESTART_WAIT };
    let most = Duration::from_millis(50).saturating_mul(1 << doublings).min(longest);
    most.mul_f64(chance())
}

/// From 0 to 1, another one each time.
fn chance() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let bits = RandomState::new().hash_one(0_u8) >> 32;
    bits as f64 / f64::from(u32::MAX)
}

/// What is said in clear text stays on this host.
fn check_url(url: &str) -> Result<(), ErrorRecord> {
    match url.split_once("://") {
        Some(("tls", _)) => return Ok(()),
        Some(("nats", _)) => {}
        _ => return Err(refused(url, "it is none of tls://HOST:PORT and nats://127.0.0.1:PORT")),
    }
    // As the client reads it: what looks like a host to others may be a user's name.
    let address = url.parse::<ServerAddr>().map_err(|why| refused(url, &why.to_string()))?;
    let host = address.host();
    let near = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if near { Ok(()) } else { Err(refused(url, "without TLS only a broker on this host is used")) }
}

/// Whether a release has all that is needed. One that is no release has not; the client's own look at it would panic.
fn is_recent(version: &str) -> bool {
    release(version).is_some_and(|release| release >= LEAST_VERSION)
}

/// How the newest that was tried is built, where a distribution has none.
fn how() -> String {
    format!("go install github.com/nats-io/nats-server/v2@v{TESTED}")
}

fn refused(url: &str, why: &str) -> ErrorRecord {
    let what = format!("cannot use the broker {url}");
    ErrorRecord::new(ErrorKind::Connect, what, why, &["tls://HOST:4222"])
}

fn too_old(url: &str, version: &str) -> ErrorRecord {
    let [major, minor, _] = LEAST_VERSION;
    let why = format!(
        "it is nats-server {version}, and leases need {major}.{minor} or later: atomic batches, times to live"
    );
    let what = format!("cannot use the broker {url}");
    ErrorRecord::new(ErrorKind::Version, what, why, &[&how()])
}

fn unreachable(url: &str, error: &ConnectError) -> ErrorRecord {
    let what = format!("cannot connect to the broker {url}");
    let (kind, hint) = match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            (ErrorKind::Authentication, "`linerate fleet enrol` this host again")
        }
        ConnectErrorKind::Tls => {
            (ErrorKind::Connect, "--ca FILE names whose certificates are believed")
        }
        _ => (ErrorKind::Connect, "nats-server --config FILE there; firewalls on the way"),
    };
    ErrorRecord::new(kind, what, error.to_string(), &[hint])
}

impl Credentials {
    /// Of a file that [`Credentials::text`] was written to.
    ///
    /// # Errors
    /// When it holds no credentials.
    pub fn read(path: &Path, text: &str) -> Result<Self, ErrorRecord> {
        serde_json::from_str(text).map_err(|why| {
            let what = format!("cannot use the credentials in {}", path.display());
            let hint = "`linerate fleet init` and `linerate fleet enrol` write them";
            ErrorRecord::new(ErrorKind::Authentication, what, why.to_string(), &[hint])
        })
    }

    /// As text of a file, which is for its owner alone.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_encrypted_stays_on_this_host() {
        for good in [
            "tls://b:4222",
            "nats://127.0.0.1:1",
            "nats://127.0.0.2",
            "nats://[::1]:4222",
            "nats://[::1]",
            "nats://localhost",
        ] {
            assert!(check_url(good).is_ok(), "{good}");
        }
        for bad in [
            "nats://b:4222",
            "nats://127.0.0.1.b:1",
            "nats://127.0.0.1:4222@b",
            "nats://[::1]@b",
            "nats://[::2]",
            "nats://[::1",
            "nats://",
            "b:4222",
            "",
            "http://127.0.0.1",
        ] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn waits_get_longer_and_have_a_limit() {
        assert!((0..100).all(|_| wait(0) <= Duration::from_millis(50)));
        assert!((0..100).all(|at| wait(at * 1_000) <= LONGEST_WAIT));
        let waits: std::collections::BTreeSet<Duration> = (0..100).map(|_| wait(10)).collect();
        assert!(waits.len() > 50, "{waits:?}");
    }

    #[test]
    fn an_old_server_is_told_by_its_version() {
        let error = too_old("tls://b:4222", "2.9.10");
        assert!(
            error.why.starts_with("it is nats-server 2.9.10, and leases need 2.12"),
            "{error:?}"
        );
        assert_eq!(error.hints, [how()]);
        for (version, recent) in [
            ("2.12.0", true),
            ("2.12.0-RC.3", true),
            ("3.0.0", true),
            ("2.11.9", false),
            ("2", false),
            ("2.13", false),
            ("99999999999999999999.0.0", false),
            ("", false),
        ] {
            assert_eq!(is_recent(version), recent, "{version}");
        }
    }
}
