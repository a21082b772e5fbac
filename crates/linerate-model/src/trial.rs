//! One trial of a sweep or a search: what is offered, and what came of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::Way;
use crate::record::Limit;
use crate::units::{BitRate, Nanos};

/// One trial to run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Which way the data goes.
    pub way: Way,
    /// Offered rate of payload; `None` is as fast as the sender can.
    pub rate: Option<BitRate>,
    /// Measured time of the trial.
    pub time: Nanos,
}

/// What came of a [`Trial`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Id of the run's record.
    pub run: Option<String>,
    /// Rate of payload that the sender's kernel took, bits per second.
    pub sent_bps: f64,
    /// Rate of unique payload that arrived, bits per second. The time is that until the last datagram
    /// arrived (or, at a receiver that fell behind, was read), so that no queue flatters it.
    pub received_bps: f64,
    /// Datagrams that the asked rate called for and were never sent, or never arrived, or came only
    /// when the trial was over, of all that it called for: 0 to 1. With no asked rate, of those that
    /// were sent.
    pub undelivered_ratio: f64,
    /// Datagrams lost of those sent, 0 to 1.
    pub lost_ratio: f64,
    /// Lost on the path, datagrams.
    pub lost_path: Option<u64>,
    /// Dropped in the receiver's socket, datagrams.
    pub dropped_receiver: Option<u64>,
    /// Lost on the path or in the receiver's socket, datagrams: the kernel counts a merged train as
    /// one, so it cannot say which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattributed: Option<u64>,
    /// RFC 3550 jitter, seconds.
    pub jitter_s: Option<f64>,
    /// 99th percentile of the delay above its least, seconds.
    pub delay_p99_s: Option<f64>,
    /// Sender's busiest data thread, percent of a core.
    pub cpu_sender_percent: Option<f64>,
    /// Receiver's busiest data thread, percent of a core.
    pub cpu_receiver_percent: Option<f64>,
    /// What limited the run, by its verdict.
    pub limit: Option<Limit>,
    /// What that verdict advised.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// Received rates of its intervals, bits per second.
    pub intervals_bps: Vec<f64>,
    /// Wall time that the trial took, set-up and drain included, seconds.
    pub took_s: f64,
    /// Why the trial says nothing about the path (generator at fault, run cut into, invalid record), if so.
    pub invalid: Option<String>,
    /// Whether not even what was sent counts then: the counts contradict each other, or the test did not run as asked
    /// from its begin to its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub void: bool,
}
