//! Why a result may not mean what it seems to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::kinds;

/// Why a result may not mean what it seems to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Doubt {
    /// Which.
    pub kind: DoubtKind,
    /// Whose host or process it is about, where it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<TestEnd>,
    /// In words, with its numbers.
    pub text: String,
}

impl Doubt {
    /// Of no host alone.
    pub fn new(kind: DoubtKind, text: impl Into<String>) -> Self {
        Self { kind, host: None, text: text.into() }
    }
}

/// An end of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TestEnd {
    /// The client's.
    Client,
    /// The server's.
    Server,
}

impl TestEnd {
    /// As in JSON and in words for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

kinds! {
    /// Kinds of [`Doubt`]. Names never change, and each has a row in `docs/errors.md`.
    DoubtKind {
        /// The wall clock stepped; spans are monotonic and unharmed, time stamps of the kernel are not.
        ClockStepped = "clock-stepped", "let nothing set the clock while a test runs";
        /// Other work, the hypervisor or a cgroup took time from the data threads.
        HostBusy = "host-busy", "end other work there; `--cpu` names idle cores";
        /// The peer did not report something.
        PeerValuesMissing = "peer-values-missing", "`linerate serve` of this release there";
        /// One kernel packet stood for several datagrams, so a figure has bounds or fewer samples.
        OffloadMerging = "offload-merging", "`--engine send` or `mmsg` for delay; a lower rate";
        /// The sender kept its schedule badly.
        TimerLate = "timer-late", "an idle core by `--cpu`; a longer `--burst`";
        /// The kernel refused an engine during the run.
        EngineFallback = "engine-fallback", "the engine that was used, by `--engine`";
        /// An end, or its whole machine, did not run for a part of the test.
        Stopped = "stopped", "repeat the test";
        /// An interface of the test was down or had no carrier for a part of it.
        LinkLost = "link-lost", "the cable, the other port, and what else sets this interface; then repeat the test";
        /// A sending host itself dropped datagrams, and not because its queue was full.
        LocalSendErrors = "local-send-errors", "the errno that its words name";
        /// Two counters that should agree do not.
        CountersDisagree = "counters-disagree", "end other traffic of the same hosts, and repeat the test";
        /// Something the plan asked for was granted only in part.
        Degraded = "degraded", "its words name what was granted";
        /// The receiver or sender did not touch the bytes, as an application would.
        BytesNotCopied = "bytes-not-copied", "`--rx copy` and `--tx copy` cost what an application pays";
        /// The rate was changed by hand while the test ran, so that the totals are of more than one rate.
        RateChanged = "rate-changed", "the same rate throughout, by `--rate`";
        /// Sender and receiver shared a host or a core.
        SharedHost = "shared-host", "a server on another machine";
    }
}
