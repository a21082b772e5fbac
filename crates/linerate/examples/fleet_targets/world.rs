//! A broker and a database, each in a folder of its own that goes with it.

use std::future::Future;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use linerate_broker::config::Server;
use linerate_broker::keys::{Authority, found};
use linerate_broker::{Broker, Credentials};
use linerate_store::Meta;
use linerate_testkit::nats::{Nats, program};
use linerate_testkit::port::free_port;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Seconds since 1970 of some day: what is signed has to be of before now.
const NOW_S: u64 = 1_700_000_000;
/// A connection is a descriptor at both ends; other processes have a limit of their own.
const DESCRIPTORS: u64 = 65_536;

/// As many as are wanted, or as there may be.
pub fn raise_descriptors() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    if setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS.max(hard), DESCRIPTORS.max(hard)).is_err() {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("the hard limit");
    }
}

/// How often the disk of what is written here keeps 8 KiB in a second, one after the other.
pub fn syncs() -> u64 {
    let path = std::env::temp_dir().join(format!("linerate-syncs-{}", std::process::id()));
    let mut file = std::fs::File::create(&path).expect("a file");
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(1) {
        file.write_all(&[0; 8_192]).and_then(|()| file.sync_data()).expect("a disk");
        count += 1;
    }
    let _ = std::fs::remove_file(path);
    count
}

/// A broker.
pub struct World {
    pub nats: Nats,
    pub folder: PathBuf,
    authority: Authority,
    pub operator: Credentials,
}

impl World {
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("linerate-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let own = std::env::current_exe().expect("this program");
        // TARGET/PROFILE/examples/PROGRAM; tests build it there as well.
        let target = own.ancestors().nth(3).expect("a target folder").join("tmp");
        let program = program(name, &target).expect("a nats-server");
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let founded = found(&format!("nats://{listen}"), NOW_S).expect("keys");
        let (store, accounts) = (folder.join("store"), folder.join("accounts"));
        let server = Server { listen, store, accounts, tls: None };
        let config = folder.join("broker.conf");
        std::fs::write(&config, server.config(&founded.config)).expect("a file");
        let operator = founded.authority.operator(NOW_S).expect("keys");
        let nats = Nats::start(&program, &config, listen);
        Self { nats, folder, authority: founded.authority, operator }
    }

    /// The operator, once JetStream is ready.
    pub async fn operator(&self) -> Broker {
        let broker = patiently(|| Broker::connect(&self.operator)).await;
        patiently(|| broker.make_streams(NOW_S * 1_000)).await;
        broker
    }

    /// What the account signs for an agent.
    pub fn agent(&self, name: &str) -> Credentials {
        let pair = nkeys::KeyPair::new_user();
        let jwt = self.authority.agent(name, &pair.public_key(), NOW_S, None).expect("a key");
        let (url, seed) = (self.authority.url.clone(), pair.seed().expect("a seed"));
        Credentials { url, agent: Some(name.to_owned()), jwt, seed, ca: None }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.nats.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Tries until it is done.
pub async fn patiently<T, E, F: Future<Output = Result<T, E>>>(mut work: impl FnMut() -> F) -> T {
    loop {
        match work().await {
            Ok(done) => return done,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// A runtime for one thread.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// MiB that a process has in memory.
pub fn rss_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1_024
}

/// Of a store that is new.
pub fn meta() -> Meta {
    Meta {
        name: "fleet".into(),
        plan: String::new(),
        plan_path: PathBuf::new(),
        seed: 0,
        created: String::new(),
        version: String::new(),
    }
}
