//! Orders of coordinators and reports of agents, as JSON.

pub use linerate_model::fleet_agents::Heartbeat;
use linerate_model::record::{ErrorRecord, RunRecord};
use linerate_model::setting::Setting;
use linerate_wire::native::agent::RemoteTest;
use serde::{Deserialize, Serialize};

use crate::lease::{Epoch, Term};

/// What a host is in a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It runs the test.
    Client,
    /// It answers it.
    Server,
}

/// What a host is to make ready for: from now on, by its own clock, until the lease is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// Of the lease. A host takes none that is not higher than all before it.
    pub epoch: u64,
    /// Length of the lease, in nanoseconds.
    pub length_ns: u64,
    /// The part at its end in which nothing is sent any more, in nanoseconds.
    pub guard_ns: u64,
    /// What this host is.
    pub role: Role,
    /// Name of the agent at the other end.
    pub peer: String,
    /// The key of this one test, which both its hosts are given: no other client is answered.
    pub token: String,
    /// What the result is called, `RUN.SLOT.ATTEMPT`: the same words are the same result.
    pub turn: String,
    /// The test. Where its server is, is said at the start.
    pub test: RemoteTest,
    /// What this host sets while it lasts.
    #[serde(default)]
    pub set: Vec<Setting>,
}

impl Prepare {
    /// The number of the lease.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.epoch)
    }

    /// Its length.
    pub fn term(&self) -> Term {
        Term { length_ns: self.length_ns, guard_ns: self.guard_ns }
    }
}

/// To an agent, which answers each of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Is it there?
    Ping,
    /// Makes ready. Answered by [`Answer::Ready`] of a server, [`Answer::Done`] of a client.
    Prepare(Box<Prepare>),
    /// The client begins.
    Start {
        /// Of the lease.
        epoch: u64,
        /// Host name or address of the server.
        address: String,
        /// Its port.
        port: u16,
    },
    /// What was begun under this lease is to end, if it has not.
    End {
        /// Of the lease.
        epoch: u64,
    },
}

/// From an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Done,
    /// A server listens.
    Ready {
        /// Host name or address at which others reach this host.
        address: String,
        /// TCP and UDP port.
        port: u16,
    },
    /// It is not done.
    Failed(Box<ErrorRecord>),
}

/// What came of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Came {
    /// Its record, however it ended.
    Record(Box<RunRecord>),
    /// There is none.
    Failed(Box<ErrorRecord>),
}

/// A result on its way to the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What it is called.
    pub turn: String,
    /// Of the lease under which it was measured.
    pub epoch: u64,
    /// What it is.
    pub came: Came,
}
