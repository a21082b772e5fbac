//! Control messages. Unknown keys are ignored, so that a later version may add some; an unknown
//! message ends the connection.
//!
//! ```text
//! client                          server
//!   Hello            ─────────►
//!                    ◄─────────   Welcome
//!   Request          ─────────►
//!                    ◄─────────   Agreed │ Refused
//!   (data streams are opened)
//!                    ◄─────────   Ready
//!   Ping ×n          ─────────►
//!                    ◄─────────   Pong ×n
//!   Start            ─────────►
//!                    ◄─────────   Started
//!   Ping …           ─────────►   (each half second; a silent peer stops the server's senders)
//!                    ◄─────────   Pong …, Interval …
//!   Sent             ─────────►   (forward: what each of the client's streams sent)
//!                    ◄─────────   Sent (reverse)
//!   Stop             ─────────►   (Ctrl-C: end now, with what there is)
//!                    ◄─────────   Stopping (the server ends the test early)
//!                    ◄─────────   Stream ×n, Chunk ×n, HostChunk ×n, Results
//!   Ping ×n, Bye     ─────────►
//! ```

use std::net::SocketAddr;

use linerate_model::host::HostFacts;
use linerate_model::local_errors::LocalSendErrors;
use linerate_model::plan::{AgreedPlan, TestPlan, Way};
use linerate_model::sample::{
    HostSample, RecvInterval, RecvReport, SendInterval, SendReport, ThreadUse,
};
pub use linerate_model::served::RefusalKind;
use serde::{Deserialize, Serialize};

/// From the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientMessage {
    /// Opens the conversation.
    Hello(Hello),
    /// Asks for a test.
    Request(Box<Request>),
    /// Asks to take the host over, in place of a test; what follows is of [`super::agent`].
    Agent(Ends),
    /// Asks for the server's clock.
    Ping(Ping),
    /// Both may begin.
    Start,
    /// The client is there: a ping that wants no answer.
    Alive,
    /// The client's streams have sent all they will.
    Sent(Vec<StreamSent>),
    /// End now.
    Stop,
    /// Nothing more will come.
    Bye,
}

/// From the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerMessage {
    /// Answers [`Hello`].
    Welcome(Welcome),
    /// What both will run.
    Agreed(Box<Agreed>),
    /// The host is the controller's; what follows is of [`super::agent`].
    Opened,
    /// There will be no test.
    Refused(Refused),
    /// Answers [`Ping`].
    Pong(Pong),
    /// Every data stream has arrived.
    Ready,
    /// The measured time (or the warm-up) has begun.
    Started,
    /// An interval is over, all streams added up.
    Interval(Box<LiveInterval>),
    /// The server's streams have sent all they will.
    Sent(Vec<StreamSent>),
    /// One stream's result, without its intervals.
    Stream(Box<StreamResult>),
    /// Some of one stream's intervals.
    Chunk(Chunk),
    /// Some of the host's samples.
    HostChunk(HostChunk),
    /// All results have been sent.
    Results(Box<Results>),
    /// The server ends the test early; results follow.
    Stopping(String),
}

impl ServerMessage {
    /// Its name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Welcome(_) => "welcome",
            Self::Agreed(_) => "agreed",
            Self::Opened => "opened",
            Self::Refused(_) => "refused",
            Self::Pong(_) => "pong",
            Self::Ready => "ready",
            Self::Started => "started",
            Self::Interval(_) => "interval",
            Self::Sent(_) => "sent",
            Self::Stream(_) => "stream",
            Self::Chunk(_) => "chunk",
            Self::HostChunk(_) => "host_chunk",
            Self::Results(_) => "results",
            Self::Stopping(_) => "stopping",
        }
    }
}

/// Versions and features of the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Least version spoken.
    pub version_min: u16,
    /// Highest version spoken.
    pub version_max: u16,
    /// Features beyond the version's base.
    #[serde(default)]
    pub features: Vec<String>,
    /// Fresh random bytes, hexadecimal.
    pub nonce: String,
    /// The id of the key that the client will prove, where it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Program and version, for people.
    pub program: String,
}

/// The server's choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// Version that both will speak.
    pub version: u16,
    /// The server's features.
    #[serde(default)]
    pub features: Vec<String>,
    /// What a server with a key offers ([`super::auth::Offer`]), hexadecimal; else nothing.
    pub nonce: String,
    /// Whether a request must prove a key.
    pub key_required: bool,
    /// Program and version, for people.
    pub program: String,
}

/// Both ends of the control connection as the client sees them, so that what is sealed for one server
/// is not taken by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// The client's own.
    pub client: SocketAddr,
    /// The server's: what the client dialled.
    pub server: SocketAddr,
}

/// A test is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// What.
    pub plan: TestPlan,
    /// For which server it is, and from whom. With a key the server insists on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Ends>,
    /// The client's boot, so that a server on the same host can say so.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// The id of the client's record, for the server's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// A test is granted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agreed {
    /// What both will run.
    pub agreed: AgreedPlan,
    /// Names the test in every datagram.
    pub token: u64,
    /// Secret that opens data streams, hexadecimal.
    pub cookie: String,
    /// The server's host.
    pub host: HostFacts,
    /// With a key: where the server sees the client's end of this connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<SocketAddr>,
    /// Cores that the server's threads will use, in stream order.
    #[serde(default)]
    pub cores: Vec<u32>,
}

/// A test, or a connection, is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Why, for programs.
    pub kind: RefusalKind,
    /// Why, for people.
    pub why: String,
    /// What to try.
    #[serde(default)]
    pub hints: Vec<String>,
}

/// Clock question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// Client's monotonic clock in nanoseconds.
    pub client_ns: u64,
}

/// Clock answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    /// As asked.
    pub client_ns: u64,
    /// Server's monotonic clock in nanoseconds when the question was read.
    pub server_ns: u64,
}

/// What one stream sent in all: the receiver counts everything below `datagrams` that never came,
/// the tail too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSent {
    /// Stream.
    pub stream: u16,
    /// Datagrams of the measured time; the last number is one less.
    pub datagrams: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Measured time in nanoseconds.
    pub span_ns: u64,
}

/// One interval of the server, for the live view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveInterval {
    /// Counted from 0.
    pub index: u64,
    /// The server's senders, added up.
    #[serde(default)]
    pub send: Option<SendInterval>,
    /// The server's receivers, added up.
    #[serde(default)]
    pub recv: Option<RecvInterval>,
    /// The server's host.
    #[serde(default)]
    pub host: Option<HostSample>,
}

/// One stream's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Stream.
    pub stream: u16,
    /// Its direction.
    pub way: Way,
    /// What the server measured of it.
    pub report: StreamReport,
}

/// A sender's or a receiver's report, or that of a responder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamReport {
    /// The server sent.
    Send(Box<SendReport>),
    /// The server received.
    Recv(Box<RecvReport>),
    /// The server answered requests.
    Respond(RespondReport),
}

/// What a responder knows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RespondReport {
    /// Requests answered, warm-up included.
    pub answered: u64,
    /// Answers that this host itself dropped (UDP), warm-up included.
    #[serde(default, skip_serializing_if = "LocalSendErrors::is_empty")]
    pub local_errors: LocalSendErrors,
    /// CPU of its thread over the measured time.
    pub thread: ThreadUse,
    /// Measured time.
    pub span_ns: u64,
    /// The error that ended it early.
    #[serde(default)]
    pub error: Option<String>,
}

/// Some intervals of one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// Stream.
    pub stream: u16,
    /// Index of the first.
    pub first: u64,
    /// A sender's.
    #[serde(default)]
    pub send: Vec<SendInterval>,
    /// A receiver's.
    #[serde(default)]
    pub recv: Vec<RecvInterval>,
}

/// Some of the host's samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostChunk {
    /// Index of the first.
    pub first: u64,
    /// One an interval.
    pub samples: Vec<HostSample>,
}

/// The end of the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The server's host over the whole measured time.
    pub host: HostSample,
    /// Cores that took the interface's interrupts.
    #[serde(default)]
    pub irq_cores: Vec<u32>,
    /// Whether every stream came to its planned end.
    pub complete: bool,
}

/// Intervals in one [`Chunk`], so that it stays below
/// [`MAX_FRAME`](super::frame::MAX_FRAME): an interval takes at most about 1,300 bytes.
pub const CHUNK_INTERVALS: usize = 48;

#[cfg(test)]
mod tests {
    use linerate_model::host::CoreUse;
    use linerate_model::local_errors::Errno;
    use linerate_model::sample::{RecvCounts, SendCounts, TcpSample};

    use super::super::auth::tests::pair;
    use super::*;

    /// A sealed message is the longer one.
    fn fits(message: &ServerMessage) -> bool {
        pair().1.ours.seal(message).is_ok()
    }

    #[test]
    fn a_full_chunk_fits_one_frame() {
        let counts = RecvCounts {
            bytes: u64::MAX,
            datagrams: u64::MAX,
            expected: u64::MAX,
            lost: u64::MAX,
            duplicates: u64::MAX,
            reordered: u64::MAX,
            late: u64::MAX,
            corrupt: u64::MAX,
            foreign: u64::MAX,
            socket_drops: u64::MAX,
            dropped_min: u64::MAX,
            dropped_max: u64::MAX,
            calls: u64::MAX,
        };
        let thread = ThreadUse {
            cpu_ns: Some(u64::MAX),
            ready_ns: Some(u64::MAX),
            sleeps: Some(u64::MAX),
            core: Some(u32::MAX),
            others_ns: u64::MAX,
        };
        let all = Some(u64::MAX);
        let recv = RecvInterval {
            counts,
            jitter_ns: all,
            delay_mean_ns: all,
            delay_max_ns: all,
            thread,
            ..Default::default()
        };
        let tcp = TcpSample {
            bytes_acked: all,
            bytes_retransmitted: all,
            retransmits: all,
            rtt_ns: all,
            rtt_variation_ns: all,
            min_rtt_ns: all,
            cwnd_bytes: all,
            mss_bytes: all,
            pmtu_bytes: all,
            delivery_rate_bps: all,
            busy_ns: all,
            rwnd_limited_ns: all,
            sndbuf_limited_ns: all,
            unsent_bytes: all,
        };
        let counts = SendCounts {
            bytes: u64::MAX,
            datagrams: u64::MAX,
            refused_locally: u64::MAX,
            local_errors: Errno::ALL.map(|errno| (errno.name(), u64::MAX)).into_iter().collect(),
            late_wakeups: u64::MAX,
            given_up: u64::MAX,
            calls: u64::MAX,
        };
        let send = SendInterval { counts, thread, tcp: Some(tcp) };
        for (send, recv) in
            [(vec![send; CHUNK_INTERVALS], vec![]), (vec![], vec![recv; CHUNK_INTERVALS])]
        {
            let chunk =
                ServerMessage::Chunk(Chunk { stream: u16::MAX, first: u64::MAX, send, recv });
            assert!(fits(&chunk));
        }
    }

    #[test]
    fn the_host_sample_of_256_cores_fits_one_frame() {
        let core = CoreUse {
            core: 8_191,
            user: 10_000,
            system: 10_000,
            softirq: 10_000,
            steal: 10_000,
            idle: 10_000,
        };
        let host = HostSample { cores: vec![core; 256], ..Default::default() };
        let live = LiveInterval { index: 0, send: None, recv: None, host: Some(host) };
        assert!(fits(&ServerMessage::Interval(Box::new(live))));
    }
}
