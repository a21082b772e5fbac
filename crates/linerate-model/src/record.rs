//! The run record, format 1: the JSON that others rely on. Keys are `snake_case` and end in their
//! unit; what was not or could not be measured is absent, never zero.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

pub use crate::doubt::{Doubt, DoubtKind, TestEnd};
pub use crate::error::{ErrorKind, ErrorRecord};
use crate::exit::Exit;
pub use crate::figures::*;
use crate::host::HostFacts;
use crate::kinds::named;
use crate::plan::{Cut, Way};
pub use crate::plan_record::*;
pub use crate::run_event::{RunEvent, RunEventKind};
use crate::word::Word;

/// Number of the format described here.
pub const FORMAT: u32 = 1;

/// One test, whole.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Always 1.
    pub format: u32,
    /// Unique, and sorts by time.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The program.
    pub linerate: ProgramFacts,
    /// The command line that repeats this test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Host name or address as the user gave it.
    pub target: Option<String>,
    /// Name of the run in reports and comparisons, as its user gave it.
    pub label: Option<String>,
    /// Title in place of the command line, as its user gave it.
    pub title: Option<String>,
    /// The profile that options of it came from, by its name; `asked` has what they were.
    pub profile: Option<String>,
    /// Addresses and ports of both ends.
    pub addresses: Option<Addresses>,
    /// The figures that are asked for first.
    pub summary: Option<Summary>,
    /// What was asked.
    pub asked: PlanRecord,
    /// How it was found out what the server speaks, where the user did not say and it is not linerate's.
    pub found: Option<String>,
    /// What both ends ran.
    pub agreed: Option<PlanRecord>,
    /// Nothing writes them; what differs is a doubt [`Degraded`](DoubtKind::Degraded).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<Cut>,
    /// The client's host.
    pub client: HostFacts,
    /// The server's host.
    pub server: Option<HostFacts>,
    /// One entry an interval.
    pub intervals: Vec<Interval>,
    /// What whoever watched it did while it ran, by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<RunEvent>,
    /// The whole measured time.
    pub totals: Figures,
    /// The same per stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamRecord>,
    /// What limited the test.
    pub verdict: Option<Verdict>,
    /// Why the result may not mean what it seems to.
    pub doubts: Vec<Doubt>,
    /// Whether it came to its end.
    pub status: Status,
    /// What went wrong, when it is not complete.
    pub error: Option<ErrorRecord>,
}

/// Addresses and ports of both ends, as the client's sockets have them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Addresses {
    /// The control connection.
    pub control: AddressPair,
    /// Each stream's, over both directions; in the order of `streams`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<AddressPair>,
}

/// `ADDRESS:PORT` of two sockets; IPv6 in brackets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddressPair {
    /// The client's.
    pub client: String,
    /// The server's.
    pub server: String,
}

/// The figures that are asked for first, flat, with the same keys for every kind of test; each is one of
/// `totals` again. What a kind does not have is absent. Of a test of both directions the plain keys are the
/// forward direction's.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Summary {
    /// Payload received, bit/s.
    pub received_bps: Option<f64>,
    /// Payload sent, bit/s.
    pub sent_bps: Option<f64>,
    /// Lost datagrams as a share of those that fell into the measured time.
    pub lost_ratio: Option<f64>,
    /// 99th percentile of delay variation (udp) or of latency (rr), seconds.
    pub p99_s: Option<f64>,
    /// Segments retransmitted (tcp).
    pub retransmits_segments: Option<u64>,
    /// Transactions completed per second (rr).
    pub transactions_per_second: Option<f64>,
    /// The same as `received_bps`, of the reverse direction of a test of both.
    pub reverse_received_bps: Option<f64>,
    /// The same as `sent_bps`.
    pub reverse_sent_bps: Option<f64>,
    /// The same as `lost_ratio`.
    pub reverse_lost_ratio: Option<f64>,
    /// The same as `p99_s`.
    pub reverse_p99_s: Option<f64>,
    /// The same as `retransmits_segments`.
    pub reverse_retransmits_segments: Option<u64>,
    /// Own CPU of the client: its busiest data thread, percent of a core.
    pub client_cpu_percent: Option<f64>,
    /// Own CPU of the server, likewise.
    pub server_cpu_percent: Option<f64>,
    /// What limited the test.
    pub limit: Option<Limit>,
}

/// The program that made a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramFacts {
    /// Semantic version.
    pub version: String,
}

/// One interval of the test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Since the start of the measured time.
    pub start_s: f64,
    /// Since the start of the measured time.
    pub end_s: f64,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// One stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamRecord {
    /// Counted from 0 within its direction.
    pub stream: u16,
    /// forward or reverse.
    pub direction: Word<Way>,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What limited a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Everything asked for arrived: the rate that was asked for.
    RequestedRate,
    /// The sending thread had no time left: its own work filled its core, or its cgroup's CPU limit
    /// throttled it.
    SenderCpu,
    /// The sending host refused or held back datagrams.
    SenderHost,
    /// Something between the two hosts' sockets.
    Path,
    /// The receiving thread had no time left, likewise.
    ReceiverCpu,
    /// The receiver's socket buffer overflowed while its core was not full.
    ReceiverBuffer,
    /// TCP: the receiver's window or the send buffer.
    TcpWindow,
    /// TCP: loss and congestion control.
    TcpCongestion,
    /// rr: the time of one round trip.
    RoundTrip,
    /// Other programs or the hypervisor took the cores that this test's threads stood ready for.
    OtherWork,
    /// None of these could be shown.
    Unknown,
}

named! {
    Limit:
        RequestedRate = "requested-rate",
        SenderCpu = "sender-cpu",
        SenderHost = "sender-host",
        Path = "path",
        ReceiverCpu = "receiver-cpu",
        ReceiverBuffer = "receiver-buffer",
        TcpWindow = "tcp-window",
        TcpCongestion = "tcp-congestion",
        RoundTrip = "round-trip",
        OtherWork = "other-work",
        Unknown = "unknown";
}

/// What limited a test, with the evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The limit; of two directions, that of the one which falls further short.
    pub limit: Limit,
    /// Which of two directions it is of; absent in a test of one, and in records of before it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Word<Way>>,
    /// Why, in sentences.
    pub because: Vec<String>,
    /// Up to three things to try, each a flag or a command that exists.
    pub advice: Vec<String>,
    /// The numbers behind it; each name ends in its unit.
    pub evidence: BTreeMap<String, f64>,
}

/// Whether a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It did.
    Complete,
    /// It was cut short; what was measured is here.
    Partial,
    /// Nothing was measured.
    Failed,
    /// An accounting identity does not hold: do not use these numbers.
    Invalid,
}

impl Exit {
    /// How the command that made this record ended.
    pub fn of(record: &RunRecord) -> Self {
        match (record.status, &record.error) {
            (Status::Complete, _) => Self::Complete,
            (Status::Invalid, _) => Self::Invalid,
            (_, Some(error)) => Self::from_code(error.exit_code),
            (_, None) => Self::Failed,
        }
    }
}
