//! What happens at a server.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use linerate_model::plan::Dialect;
use linerate_model::served::{PutBack, Sandboxed, ServedResult, ServedTest};
use linerate_model::test_event::TestEvent;
use linerate_wire::native::message::RefusalKind;

use crate::network::Network;

/// What a server reports to its owner.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It listens; at the first address for linerate's own clients and iperf3's.
    Listening(Dialect, SocketAddr),
    /// It gave up what it does not need.
    Sandboxed(Box<Sandboxed>),
    /// A test was admitted.
    TestStarted(Box<ServedTest>),
    /// A test ended; reported of one that did not start as well.
    TestEnded(Box<ServedTest>, Box<ServedResult>),
    /// The file of keys and budgets was read.
    KeysRead {
        /// Keys that hold.
        keys: usize,
        /// Networks with a budget.
        networks: usize,
        /// Why it could not be read: what was read before goes on to hold.
        why: Option<String>,
    },
    /// Where the bytes of the day of keys and networks are kept.
    BudgetState {
        /// The file; nothing where they are not.
        file: Option<String>,
        /// Of so many keys and networks.
        days: usize,
        /// What is wrong.
        why: Option<String>,
    },
    /// A controller took this host over.
    ControlStarted {
        /// The controller.
        peer: SocketAddr,
        /// The name of its own key.
        key: Option<String>,
    },
    /// It did something with this host.
    Controlled {
        /// The controller.
        peer: SocketAddr,
        /// The name of its own key.
        key: Option<String>,
        /// What, and what came of it.
        text: String,
    },
    /// It is gone, and settings were put back.
    ControlEnded {
        /// The controller.
        peer: SocketAddr,
        /// The name of its own key.
        key: Option<String>,
        /// What became of the settings it had changed; absent where they are put back later.
        settings: Option<PutBack>,
        /// Why, and what was put back, in words.
        text: String,
    },
    /// Settings that an earlier server had left changed were put back.
    PutBack {
        /// How many.
        settings: PutBack,
        /// What, in words.
        text: String,
    },
    /// No connection can be taken for now. Reported at most once in ten seconds.
    CannotAccept(String),
    /// What a test in iperf3's or iperf 2's dialect reports while it runs.
    Test {
        /// The client's end of its connection.
        peer: SocketAddr,
        /// This end of it. Of iperf 2's tests both together say which one it is.
        local: SocketAddr,
        /// What.
        event: TestEvent,
    },
    /// A connection was turned away or dropped before a test.
    Refused {
        /// The client.
        peer: SocketAddr,
        /// The name of its own key, where it proved one.
        key: Option<String>,
        /// What it asked for, as far as it came to ask.
        asked: Option<Box<ServedTest>>,
        /// On what ground.
        kind: RefusalKind,
        /// Why, in words.
        why: String,
    },
    /// More of a network were, too many to be reported one by one.
    RefusedMore {
        /// Of whom.
        network: Network,
        /// So many.
        count: u64,
    },
    /// So many events were not reported, as the owner took those before them too slowly.
    LogDropped {
        /// Of any kind.
        events: u64,
    },
    /// What the [`Keeper`] says of its own work.
    Keeper(String),
}

/// Characters of a reason, which may have words of a peer: what is longer says nothing more to anybody.
const MOST_WHY: usize = 300;

impl Event {
    /// Cuts what a stranger may have made long, and frees it: thousands wait in a log's queue.
    pub(crate) fn cut(&mut self) {
        let why = match self {
            Self::Refused { why, .. } => why,
            Self::TestEnded(_, result) => match &mut result.why {
                Some(why) => why,
                None => return,
            },
            _ => return,
        };
        if why.chars().nth(MOST_WHY).is_some() {
            *why = why.chars().take(MOST_WHY).chain(['…']).collect();
        }
    }
}

/// Counts each event at once, also those that a log leaves out. It is told where tests are served: it must neither wait
/// nor take long.
#[derive(Clone)]
pub struct Counts(Arc<dyn Fn(&Event) + Send + Sync>);

impl Counts {
    /// Calls it with each.
    pub fn new(take: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub(crate) fn take(&self, event: &Event) {
        (self.0)(event);
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counts")
    }
}

type Keep = dyn FnMut(SystemTime, Event) -> Option<String> + Send;

/// Is given each event, and when it happened, in a thread of its own: it goes on while nobody reads the log. Words that it
/// returns are said in the log.
#[derive(Clone)]
pub struct Keeper(Arc<Mutex<Keep>>);

impl Keeper {
    /// Calls it with each.
    pub fn new(keep: impl FnMut(SystemTime, Event) -> Option<String> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(keep)))
    }

    pub(crate) fn take(&self, at: SystemTime, event: Event) -> Option<String> {
        // One thread takes it, and after a panic there is none.
        (self.0.lock().unwrap_or_else(PoisonError::into_inner))(at, event)
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keeper")
    }
}
