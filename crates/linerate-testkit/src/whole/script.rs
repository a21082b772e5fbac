//! What a story is about: the two ends, what they run, and what goes wrong.

use linerate_dialect::Over;
use linerate_dialect::habits::Habits;
use linerate_model::plan::TestPlan;
use linerate_wire::framing::Framing;

use super::network::Network;

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Who asks.
    Client,
    /// Who answers.
    Server,
}

impl Place {
    /// The other one.
    pub fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What goes wrong, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing does.
    None,
    /// The process of an end is gone, and its kernel says so.
    Killed(Place),
    /// The host of an end is gone, and nobody says so.
    Gone(Place),
    /// Nothing gets through any more.
    Cut,
    /// The control connection ends at both ends; data goes on.
    Reset,
    /// A data connection is reset, and the threads of both its ends live.
    DataReset,
    /// An end is stopped.
    Stopped(Place),
    /// Bytes that are no message reach an end.
    Garbage(Place),
    /// A data thread of an end dies without a word.
    DeadThread(Place),
    /// The first stream never reaches the server.
    NoStream,
    /// A limit of the server's owner is met.
    Over(Over),
    /// An end takes no control bytes any more.
    Unread(Place),
    /// An end takes a few control bytes at a time.
    Slow(Place),
}

/// What the ends run, and how datagrams of a stream are marked.
pub struct Script {
    /// What the threads of the client do, and those of the server.
    pub plans: [TestPlan; 2],
    /// The marks of a stream's datagrams.
    pub framing: fn(u16) -> Framing,
    /// What the threads do differently in this dialect.
    pub habits: Habits,
    /// The server answers a stream as it comes, and not when its thread starts.
    pub answers_at_once: bool,
    /// What the network does.
    pub network: Network,
    /// What goes wrong, and when.
    pub fault: (u64, Fault),
}
