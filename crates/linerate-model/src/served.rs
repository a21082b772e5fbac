//! What a server knows of the tests it served: what was asked, what its own end measured, how it
//! ended. Its log and its JSON lines are made of this.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::figures::WallClockDelay;
use crate::kinds::named;
use crate::plan::{Dialect, Direction, TrafficKind};
use crate::setting::{Restoration, RestoreOutcome};

/// What of a client's test a server knows when it begins.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServedTest {
    /// As the client names it: the id of linerate's record, the cookie of iperf3. Absent where a
    /// client sent none.
    pub id: Option<String>,
    /// Address and port of the client's control connection.
    pub peer: String,
    /// The name of the client's own key, proven; absent where it has none.
    #[serde(default)]
    pub key: Option<String>,
    /// The protocol spoken.
    pub dialect: Dialect,
    /// What travels.
    pub kind: TrafficKind,
    /// Seen from the client.
    pub direction: Direction,
    /// Streams each way.
    pub streams: u16,
    /// Bits of payload per second that were asked of all streams of a direction together; absent without a limit. For rr
    /// see `asked_per_second`.
    pub asked_bps: Option<u64>,
    /// Transactions per second that were asked of rr; absent in a closed loop.
    pub asked_per_second: Option<u64>,
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It came to its end, and the client had its results and said goodbye.
    Done,
    /// The client ended it before its time, and said so.
    Stopped,
    /// This server ended it: one of its limits, or it shuts down.
    Cut,
    /// It was admitted, and then not wanted: too many wait for their turn.
    Refused,
    /// The client was gone without a word.
    Vanished,
    /// Something failed, or the client did not keep to the protocol.
    Failed,
}

named! {
    RefusalKind: Version = "version", Key = "key", OutOfRange = "out_of_range", Policy = "policy",
        Busy = "busy", Unable = "unable", Protocol = "protocol";
    Outcome: Done = "done", Stopped = "stopped", Cut = "cut", Refused = "refused",
        Vanished = "vanished", Failed = "failed";
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Done, Self::Stopped, Self::Cut, Self::Refused, Self::Vanished, Self::Failed];
}

/// What the server's end of a test received, warm-up not included.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServedReceived {
    /// Bytes of payload.
    pub bytes: u64,
    /// The agreed time, or from the first to the last arrival on any stream where that took longer,
    /// where no time was agreed and where the test ended early; seconds. Absent when nothing came.
    pub seconds: Option<f64>,
    /// `bytes` over `seconds`, bits per second.
    pub bits_per_second: Option<f64>,
    /// What came in the warm-up before that, where there was one: bytes of TCP, datagrams of UDP.
    pub warmup: Option<u64>,
    /// UDP: distinct datagrams that should have come, as far as this end can know.
    pub expected: Option<u64>,
    /// UDP: those of them that did not come.
    pub lost: Option<u64>,
    /// UDP: those of `lost` that are known to have been dropped in this host's receive buffers.
    pub rcvbuf_drops: Option<u64>,
    /// Delays by both hosts' wall clocks, where the client says that these agree (iperf 2's `--trip-times`).
    pub wall_clock_delay_s: Option<WallClockDelay>,
}

/// What the server's end of a test sent, warm-up not included.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServedSent {
    /// Bytes of payload that the kernel took.
    pub bytes: u64,
    /// The longest time of a stream, seconds; absent where nothing was sent.
    pub seconds: Option<f64>,
    /// `bytes` over `seconds`, bits per second.
    pub bits_per_second: Option<f64>,
    /// UDP: datagrams.
    pub datagrams: Option<u64>,
    /// TCP: segments sent again; absent where the kernel does not report it.
    pub retransmits: Option<u64>,
}

/// What a server knows of a test when it is over. Figures are absent where a test had none, and
/// where not all of its streams came to an end.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServedResult {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, in words; absent when it was done.
    pub why: Option<String>,
    /// The measured time at this end, seconds: the longest of what was received, sent and answered;
    /// absent when no data came or left.
    pub seconds: Option<f64>,
    /// What came here.
    pub received: Option<ServedReceived>,
    /// What left here.
    pub sent: Option<ServedSent>,
    /// rr: requests answered, warm-up included.
    pub answered: Option<u64>,
}

/// Why a server refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// No common version.
    Version,
    /// No key, another one, or a request that was sealed for another server.
    Key,
    /// A number outside the table of limits.
    OutOfRange,
    /// Against the server's policy.
    Policy,
    /// No room for another test now.
    Busy,
    /// The server's host cannot do it.
    Unable,
    /// The conversation went wrong.
    Protocol,
}

impl RefusalKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Version,
        Self::Key,
        Self::OutOfRange,
        Self::Policy,
        Self::Busy,
        Self::Unable,
        Self::Protocol,
    ];
}

/// How many settings of a host are, or are not, as they were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PutBack {
    /// As before.
    pub restored: u64,
    /// Left as somebody else set them meanwhile.
    pub changed_by_others: u64,
    /// Gone with their interface.
    pub gone: u64,
    /// Could not be put back; tried again at the next occasion.
    pub failed: u64,
}

impl PutBack {
    /// Of a host's answer.
    pub fn of(restoration: &Restoration) -> Self {
        let mut counts = Self::default();
        for knob in &restoration.knobs {
            *match knob.outcome {
                RestoreOutcome::Restored | RestoreOutcome::Already => &mut counts.restored,
                RestoreOutcome::ChangedByOthers => &mut counts.changed_by_others,
                RestoreOutcome::Gone => &mut counts.gone,
                RestoreOutcome::Failed => &mut counts.failed,
            } += 1;
        }
        counts
    }
}

/// Whether a server gave up what a facility of the kernel can take from it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restriction {
    /// It did.
    pub on: bool,
    /// Why not; where it did, what is missing of it.
    pub why: Option<String>,
}

impl Restriction {
    /// All of it.
    pub fn on() -> Self {
        Self { on: true, why: None }
    }

    /// Not all of it, with the reason.
    pub fn in_part(why: impl Into<String>) -> Self {
        Self { on: true, why: Some(why.into()) }
    }

    /// Nothing, with the reason.
    pub fn off(why: impl Into<String>) -> Self {
        Self { on: false, why: Some(why.into()) }
    }
}

/// What a server gave up at its start.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sandboxed {
    /// The user that it runs as from now on, as a number.
    pub uid: u32,
    /// The name of that user, where it is another than the one that started it.
    pub user: Option<String>,
    /// Files that it cannot reach, and TCP connections that it cannot open (Landlock).
    pub landlock: Restriction,
    /// System calls that it cannot make (seccomp).
    pub seccomp: Restriction,
}

/// A line of `serve --json-lines`: `event` says which.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ServerLine {
    /// The server listens.
    Listening {
        /// RFC 3339, UTC.
        time: String,
        /// Address and port, TCP and UDP.
        address: String,
        /// For whose clients, where not for linerate's own and iperf3's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dialect: Option<Dialect>,
    },
    /// What the server gave up before it takes connections.
    Sandboxed {
        /// RFC 3339, UTC.
        time: String,
        /// What.
        #[serde(flatten)]
        sandboxed: Sandboxed,
    },
    /// A test was admitted and its data will begin.
    Started {
        /// RFC 3339, UTC.
        time: String,
        /// What is asked, and by whom.
        #[serde(flatten)]
        test: ServedTest,
    },
    /// A test is over. Each has exactly one such line, also one that ended before its start.
    Ended {
        /// RFC 3339, UTC.
        time: String,
        /// What was asked, and by whom.
        #[serde(flatten)]
        test: ServedTest,
        /// How it ended, and what this end measured.
        #[serde(flatten)]
        result: Box<ServedResult>,
    },
    /// A connection was turned away before it had a test.
    Refused {
        /// RFC 3339, UTC.
        time: String,
        /// Address and port of the client.
        peer: String,
        /// The name of the client's own key, where it proved one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// On what ground.
        kind: RefusalKind,
        /// In words.
        why: String,
        /// The test that it asked for, as far as it came to ask for one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<Box<ServedTest>>,
    },
    /// More connections of a network were turned away, too many to have a line each.
    RefusedMore {
        /// RFC 3339, UTC.
        time: String,
        /// An IPv4 address, or the /64 of an IPv6 address.
        network: String,
        /// So many since the last line about it.
        count: u64,
    },
    /// So many events have no line, as whoever reads them read too slowly, or they could not be written.
    LogDropped {
        /// RFC 3339, UTC.
        time: String,
        /// Events of any kind.
        events: u64,
        /// Why they could not be written; absent where they were read, or in an audit log written, too slowly.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The file of `--keys` or `--budgets` was read, at the start and again when it has changed.
    KeysRead {
        /// RFC 3339, UTC.
        time: String,
        /// Keys that hold now: neither revoked nor expired.
        keys: u64,
        /// Networks with a budget.
        networks: u64,
        /// Why it could not be read, in words: what was read before goes on to hold.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// Where what keys and networks have carried in their days outlasts this server: at the start, and when that
    /// changes.
    BudgetState {
        /// RFC 3339, UTC.
        time: String,
        /// The file; absent where it is forgotten at the server's end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        /// Keys and networks with a day that goes on.
        days: u64,
        /// What is wrong, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// A controller did something with this host: changed settings, ran a test or a command, began a reboot.
    Controlled {
        /// RFC 3339, UTC.
        time: String,
        /// Address and port of the controller.
        peer: String,
        /// The name of its own key, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// What, and what came of it, in words.
        text: String,
    },
    /// A controller of campaigns took this host over.
    ControlStarted {
        /// RFC 3339, UTC.
        time: String,
        /// Address and port of the controller.
        peer: String,
        /// The name of its own key, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// It is gone, and settings were put back.
    ControlEnded {
        /// RFC 3339, UTC.
        time: String,
        /// Address and port of the controller.
        peer: String,
        /// The name of its own key, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// What became of the settings it had changed; absent where they are put back later.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<PutBack>,
        /// Why, and what was put back, in words.
        text: String,
    },
    /// Settings that an earlier server had left changed were put back.
    PutBack {
        /// RFC 3339, UTC.
        time: String,
        /// What became of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<PutBack>,
        /// What, in words.
        text: String,
    },
    /// No connection can be taken for now: too many are open. At most one such line in ten seconds.
    CannotAccept {
        /// RFC 3339, UTC.
        time: String,
        /// Why, in words.
        text: String,
    },
}
