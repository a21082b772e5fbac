//! Agents that run nothing, and say what agents say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use linerate_broker::{Broker, Credentials};
use linerate_fleet::message::{Answer, Came, Order, Outcome, Prepare, Role};
use linerate_model::plan::{TcpPlan, TestPlan, Traffic};
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_testkit::plans;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::world::patiently;

/// Agents that connect at the same time: others wait for their turn.
const AT_ONCE: usize = 256;

/// A result of so many bytes as a short test has.
pub fn outcome(turn: &str, epoch: u64) -> Vec<u8> {
    let why = "x".repeat(2_000);
    let error = ErrorRecord::new(ErrorKind::Refused, "cannot measure", why, &[]);
    let came = Came::Failed(Box::new(error));
    serde_json::to_vec(&Outcome { turn: turn.to_owned(), epoch, came }).expect("JSON")
}

/// What a host is to make ready for.
pub fn prepare(epoch: u64, role: Role, peer: &str, turn: &str) -> Order {
    let test = plans::remote(peer, 0, TestPlan::new(Traffic::Tcp(TcpPlan::new(1 << 17))));
    Order::Prepare(Box::new(Prepare {
        epoch,
        length_ns: 60_000_000_000,
        guard_ns: 10_000_000_000,
        role,
        peer: peer.to_owned(),
        token: "a token of one test, 32 bytes long".to_owned(),
        turn: turn.to_owned(),
        test,
        set: Vec::new(),
    }))
}

/// A host that is in one test at a time, and takes so long for each.
struct Host {
    broker: Broker,
    length: Duration,
    /// The highest lease that it was told of.
    epoch: u64,
    /// What it is at.
    prepared: Option<Box<Prepare>>,
    /// How often a host was told of a test while it was at another.
    twice: Arc<AtomicU64>,
}

impl Host {
    fn obey(&mut self, order: Order) -> Answer {
        match order {
            Order::Ping => Answer::Done,
            Order::Prepare(prepare) if prepare.epoch <= self.epoch => {
                let why = "its lease is not later than all before";
                let error = ErrorRecord::new(ErrorKind::Busy, "cannot make ready", why, &[]);
                Answer::Failed(Box::new(error))
            }
            Order::Prepare(prepare) => {
                self.epoch = prepare.epoch;
                let role = prepare.role;
                if self.prepared.replace(prepare).is_some() {
                    self.twice.fetch_add(1, Ordering::SeqCst);
                }
                match role {
                    Role::Client => Answer::Done,
                    Role::Server => Answer::Ready { address: "127.0.0.1".to_owned(), port: 9 },
                }
            }
            Order::Start { epoch, .. } => {
                if let Some(prepare) = self.prepared.as_ref().filter(|is| is.epoch == epoch) {
                    let (broker, length, turn) =
                        (self.broker.clone(), self.length, prepare.turn.clone());
                    tokio::spawn(async move {
                        tokio::time::sleep(length).await;
                        patiently(|| broker.hand_over(&turn, outcome(&turn, epoch))).await;
                    });
                }
                Answer::Done
            }
            Order::End { epoch } => {
                self.prepared.take_if(|prepare| prepare.epoch == epoch);
                Answer::Done
            }
        }
    }
}

/// Connects them all, and has each listen. Returns how often one was told of a test while it was at another.
pub async fn connect(all: Vec<Credentials>, length: Duration) -> Arc<AtomicU64> {
    let (room, twice) = (Arc::new(Semaphore::new(AT_ONCE)), Arc::new(AtomicU64::new(0)));
    let mut connecting = JoinSet::new();
    for credentials in all {
        let (room, twice) = (Arc::clone(&room), Arc::clone(&twice));
        connecting.spawn(async move {
            let _place = room.acquire_owned().await.expect("it stays open");
            let broker = patiently(|| Broker::connect(&credentials)).await;
            let mut told = patiently(|| broker.orders()).await;
            let mut host = Host { broker, length, epoch: 0, prepared: None, twice };
            tokio::spawn(async move {
                while let Some((order, asker)) = told.next().await {
                    let answer = host.obey(order);
                    let _ = host.broker.answer(asker, &answer).await;
                }
            });
        });
    }
    connecting.join_all().await;
    twice
}
