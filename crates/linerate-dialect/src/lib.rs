//! Conversations of the dialects without I/O: bytes, ends of connections and times go in, actions come
//! out. A driver owns sockets, threads and the clock, performs the actions and reports what came of
//! them; under a made-up clock a test does the same.
//!
//! Times are nanoseconds of one monotonic clock of this end.
//!
//! ```
//! use linerate_dialect::stream::{Role, role, streams};
//! use linerate_model::plan::{Direction, TcpPlan, Traffic, Way};
//!
//! // Both ways, two streams each: the client sends on the first two.
//! let all = streams(Direction::Both, 2);
//! let traffic = Traffic::Tcp(TcpPlan::new(1_000));
//! let roles: Vec<Role> = all.iter().map(|id| role(&traffic, id.way, true)).collect();
//! assert_eq!(roles, [Role::Send, Role::Send, Role::Receive, Role::Receive]);
//! assert_eq!((all[2].stream, all[2].index, all[2].way), (2, 0, Way::Reverse));
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

pub mod control;
pub mod ending;
pub mod idle;
pub mod iperf2;
pub mod iperf3;
pub mod lease;
mod lookout;
pub mod native;
pub mod netperf;
pub mod nuttcp;
pub mod rate_meter;
mod rows;
pub mod stream;
pub mod ticks;
mod vigil;

use std::num::NonZeroU16;

use linerate_model::record::Interval;
use linerate_model::sample::HostSample;
use linerate_model::test_event::{Cpu, TestEvent};
use linerate_session::assemble::HostSamples;

use control::ControlError;
pub use linerate_session::habits;
use stream::{DataEvent, Role, StreamId};

/// One end of one test in one dialect, without I/O. Its driver gives it an input, does what it asks for and
/// sends what waits, until it is over.
pub trait Conversation {
    /// Takes an input at `now_ns`. Actions and bytes may have come of it.
    fn input(&mut self, now_ns: u64, seen: &Seen, input: Input<'_>);

    /// The next thing to do.
    fn action(&mut self) -> Option<Action>;

    /// Bytes that wait to be sent on the control connection.
    fn outgoing(&self) -> &[u8];

    /// Whether it wants to know what the peer says. Where it does not, the peer's bytes stay in the kernel.
    fn reads(&self) -> bool;

    /// When it wants an input, at the latest.
    fn deadline_ns(&self) -> Option<u64>;

    /// Whether it has ended: nothing is asked for any more, and nothing sent.
    fn is_over(&self) -> bool;
}

/// What a conversation is given.
pub enum Input<'a> {
    /// Bytes came on the control connection.
    Bytes(&'a [u8]),
    /// So many of the bytes that waited were handed to the kernel.
    Carried(usize),
    /// Nothing more comes from the control connection, or nothing more goes to it.
    Lost(ControlError),
    /// A data stream is waited for on this port.
    Listening(u16, NonZeroU16),
    /// The socket of a data stream arrived, or was opened.
    Arrived(u16),
    /// A data thread's word. The host's sample of an interval is asked for where it is of use.
    Data(DataEvent, &'a dyn Fn(u64) -> Option<HostSample>),
    /// No data thread is left.
    NoMoreData,
    /// What [`Action::Prepare`] asked for is there; and the congestion control of TCP streams.
    Prepared(Option<String>),
    /// The host's counters over the test, as [`Action::FinishHost`] asked, and what share of a core this
    /// process took.
    Host(HostSamples, Cpu),
    /// This end could not do what an action asked of it.
    Failed(String),
    /// This end shall stop, and why: its process shuts down, its user has seen enough, or whoever it serves may
    /// do so no longer.
    Shutdown(&'a str),
    /// A datagram came to the socket of a stream whose thread has ended.
    Datagram(u16, &'a [u8]),
    /// Nothing but time has passed.
    Time,
}

/// What a conversation asks of its driver, to be done in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Open this data stream to the port that the peer has named for it, or else to the one that both know;
    /// [`Input::Arrived`] follows. Where the peer opens it, take it.
    Open(StreamId, Option<NonZeroU16>),
    /// Wait for this data stream on a port of its own; [`Input::Listening`] follows, and [`Input::Arrived`]
    /// when the peer has opened it.
    Listen(StreamId),
    /// What is being opened is: the peer has said so in another way.
    TakeOpen,
    /// Start the data thread of the stream whose socket arrived, and say so to the peer.
    Spawn(StreamId, Role),
    /// Make ready what a running test needs: the host's counters, the watch over the peer.
    Prepare,
    /// Senders begin at this time.
    Begin(u64),
    /// Senders end now.
    Stop,
    /// Receivers end at this time at the latest.
    DrainUntil(u64),
    /// The peer sent so many datagrams on a stream.
    PeerSent(u16, u64),
    /// What the host counted so far belongs to the warm-up.
    HostWarm,
    /// Nothing more is sent, at neither end.
    HostOver,
    /// Read the host's counters a last time.
    FinishHost,
    /// Send this datagram from the socket of a stream whose thread has not begun to send, or has ended.
    SendDatagram(u16, Vec<u8>),
    /// Ask the peer's kernel whether it is there.
    AskPeer,
    /// All streams are there: their addresses are known.
    Announce,
    /// Data connections that outlive their threads may close.
    Release,
    /// An interval is over at both ends.
    Show(Box<Interval>),
    /// What both hosts did in an interval, before the interval itself: the client's, and the server's.
    ShowHosts(Box<[Option<HostSample>; 2]>),
    /// Something that users of iperf3 see.
    Event(Box<TestEvent>),
    /// Something that whoever watches shall know.
    Note(String),
}

/// What the driver knows of the data and of this end at the moment of an input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Bytes that arrived, warm-up included.
    pub arrived: u64,
    /// Bytes of the measured time that arrived.
    pub received: u64,
    /// Bytes that were carried, both ways, warm-up included.
    pub moved: u64,
    /// How long no data has come, in nanoseconds.
    pub data_silence_ns: u64,
    /// How long this end has run without being held up: no peer can have been silent for longer.
    pub ran_ns: u64,
    /// The owner's limit at which the data threads ended the test.
    pub over: Option<Over>,
    /// A data thread found the peer gone, and ended the test.
    pub peer_gone: bool,
    /// How long nothing came from the peer's kernel, where this one knows, in nanoseconds.
    pub answer_silence_ns: Option<u64>,
    /// Of the control connection by now; 0 where unknown, in nanoseconds.
    pub round_trip_ns: u64,
    /// What the kernel granted the last data port that was opened, in bytes.
    pub granted: Option<Granted>,
}

/// Buffers of a data socket, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// `SO_SNDBUF`.
    pub send: u32,
    /// `SO_RCVBUF`.
    pub receive: u32,
}

/// Limits that data threads keep by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Of the bytes of one test.
    Bytes,
    /// Of the time of one test.
    Time,
    /// Of the bytes of a day.
    Day(Whose),
}

impl Over {
    /// What the peer and the log are told.
    pub fn words(self) -> &'static str {
        match self {
            Self::Bytes => "the test carried more bytes than this server's --max-bytes allows",
            Self::Time => TOO_LONG,
            Self::Day(Whose::Address) => {
                "its address has carried what this server's --max-bytes-per-day allows"
            }
            Self::Day(Whose::Network) => "its network's budget of bytes a day is used up",
            Self::Day(Whose::Key) => "its key's budget of bytes a day is used up",
        }
    }
}

/// Whose bytes of a day are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Of one address, or one /64 of IPv6.
    Address,
    /// Of a network with a budget.
    Network,
    /// Of a key with a budget.
    Key,
}

/// Why a server that ends cuts its tests.
pub const SHUTTING_DOWN: &str = "the server is shutting down";
/// Why a server cuts a test that goes on for longer than its owner allows.
pub(crate) const TOO_LONG: &str = "the server's longest test time is over";
