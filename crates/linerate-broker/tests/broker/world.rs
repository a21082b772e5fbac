//! A broker with a fleet's account, in a folder of its own.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use linerate_broker::config::Server;
use linerate_broker::keys::{Authority, found};
use linerate_broker::{Broker, Credentials, enrol};
use linerate_fleet::plan::Resource;
use linerate_testkit::nats::{Nats, program};
use linerate_testkit::peer::LONG;
use linerate_testkit::port::free_port;
use serde_json::Value;

/// Seconds since 1970, of some day: what is signed has to be of before now.
pub const NOW_S: u64 = 1_700_000_000;
/// Of a day that no test sees.
pub const LATE_S: u64 = 4_000_000_000;

pub struct World {
    pub nats: Nats,
    pub authority: Authority,
    pub operator: Credentials,
    folder: PathBuf,
}

impl World {
    /// Nothing where there is no nats-server.
    pub fn new(test: &str) -> Option<Self> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = program(test, target)?;
        let folder = target.join(format!("broker-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let founded = found(&format!("nats://{listen}"), NOW_S).unwrap();
        let (store, accounts) = (folder.join("store"), folder.join("accounts"));
        let server = Server { listen, store, accounts, tls: None };
        let config = folder.join("broker.conf");
        std::fs::write(&config, server.config(&founded.config)).unwrap();
        let operator = founded.authority.operator(NOW_S).unwrap();
        let nats = Nats::start(&program, &config, listen);
        Some(Self { nats, authority: founded.authority, operator, folder })
    }

    /// The operator, once JetStream is ready.
    pub async fn operator(&self) -> Broker {
        let broker = Broker::connect(&self.operator).await.unwrap();
        until(|| async { broker.make_streams(NOW_S * 1_000).await.is_ok() }).await;
        broker
    }

    /// A host that has become an agent.
    pub async fn agent(&self, operator: &Broker, name: &str) -> Credentials {
        let invitation = operator.invite(&self.authority, name, NOW_S, LATE_S).await.unwrap();
        let token = invitation.token.clone();
        let admit = async {
            let guest = invitation.guest().await.unwrap();
            operator.admit(&self.authority, guest, NOW_S, None).await.unwrap();
        };
        let (credentials, ()) = tokio::join!(enrol(&token, None), admit);
        credentials.unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.nats.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A connection of nobody's program.
pub async fn raw(credentials: &Credentials) -> Client {
    let pair = Arc::new(nkeys::KeyPair::from_seed(&credentials.seed).unwrap());
    let sign = move |nonce: Vec<u8>| {
        let pair = Arc::clone(&pair);
        async move { pair.sign(&nonce).map_err(async_nats::AuthError::new) }
    };
    let name = credentials.agent.as_deref().unwrap_or("operator");
    let options = async_nats::ConnectOptions::with_jwt(credentials.jwt.clone(), sign);
    let options = options.custom_inbox_prefix(format!("_INBOX.{name}"));
    options.connect(&credentials.url).await.unwrap()
}

/// Asks JetStream something; `call` is what follows `$JS.API.`.
pub async fn api(client: &Client, call: &str) -> Value {
    let answer = client.request(format!("$JS.API.{call}"), "".into()).await.unwrap();
    serde_json::from_slice(&answer.payload).unwrap()
}

/// Runs a test in a runtime of its own, as coordinators do.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LONG, test).await.expect("it hangs") })
}

/// Waits until something holds.
pub async fn until<F: Future<Output = bool>>(holds: impl Fn() -> F) {
    while !holds().await {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub fn set(names: &[&str]) -> BTreeSet<Resource> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}
