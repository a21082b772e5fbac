//! The document of `linerate search`, format 1: the highest rate that meets each goal, the trials
//! behind it, and what the search could not settle. Rates are bits of payload per second.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::host::HostFacts;
use crate::plan::Way;
use crate::record::{Doubt, ErrorRecord, Limit, PlanRecord, ProgramFacts, Status};

/// Whole searches, and what they found.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchDocument {
    /// Always 1.
    pub format: u32,
    /// Always `search`.
    pub kind: String,
    /// Unique, and sorts by time.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The program.
    pub linerate: ProgramFacts,
    /// The command line that repeats this search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Host name or address as the user gave it; absent with `--local`.
    pub target: Option<String>,
    /// Name in reports, as its user gave it.
    pub label: Option<String>,
    /// Title in reports, as its user gave it.
    pub title: Option<String>,
    /// What every trial shares: size, streams, window … Its rate and duration change from trial to
    /// trial and stand there.
    pub plan: Option<PlanRecord>,
    /// Which way the data went.
    pub direction: Way,
    /// The client's host.
    pub client: Option<HostFacts>,
    /// The server's host.
    pub server: Option<HostFacts>,
    /// Least rate that was allowed.
    pub min_bps: f64,
    /// Largest rate that was allowed or, without a limit by the user, twice what the sender sent
    /// when it sent as fast as it could. Absent when not even that trial came to its end.
    pub max_bps: Option<f64>,
    /// Most that the sender sent in any trial.
    pub generator_bps: Option<f64>,
    /// One entry a goal, of the search whose lower bound is the median one when there were several;
    /// those that settled the goal go before those that did not.
    pub goals: Vec<GoalRecord>,
    /// Whole searches, when there was more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<RepeatRecord>,
    /// Every trial, in the order they ran.
    pub trials: Vec<TrialRecord>,
    /// Time of all trials with what surrounds them: set-up and drain.
    pub seconds: f64,
    /// What limits, in sentences, for a person.
    pub because: Vec<String>,
    /// What to try.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
    /// Why the result may not mean what it seems to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// Whether it came to its end: `partial` when it was interrupted, out of time or lost its server.
    pub status: Status,
    /// What went wrong, when it is not complete.
    pub error: Option<ErrorRecord>,
}

/// One goal and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalRecord {
    /// The preset's name, or the goal as it was given.
    pub name: String,
    /// Share of the datagrams that a good trial may leave undelivered, 0 to 1.
    pub loss: f64,
    /// A good trial's 99th percentile of delay above the least is at most this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_p99_s: Option<f64>,
    /// Share of the time at a load that bad trials may take, 0 to 1.
    pub exceed: f64,
    /// Length of a trial that counts in full.
    pub trial_s: f64,
    /// Time at one load after which its class is settled.
    pub sum_s: f64,
    /// The two bounds are at most this far apart, as a share of the upper one.
    pub width: f64,
    /// Relevant lower bound: the largest load below the upper bound at which the goal holds.
    pub lower_bps: Option<f64>,
    /// Relevant upper bound: the smallest load at which it does not.
    pub upper_bps: Option<f64>,
    /// Conditional throughput: the lower bound less the loss of its trial at the (1 - exceed)
    /// quantile of duration.
    pub throughput_bps: Option<f64>,
    /// Trials of this search that this goal judged.
    pub trials: u64,
    /// Their time, with set-up and drain.
    pub seconds: f64,
    /// Whether both bounds are settled and no farther apart than `width` (with `--ci`: whether the
    /// interval is as narrow as asked and reaches no end of the range).
    pub settled: bool,
    /// What did not go by the book, in words; null if all did.
    pub irregular: Option<String>,
    /// The load that fails half of its trials, with its interval (`--ci`); absent where that reaches an end of the
    /// range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee_bps: Option<KneeRecord>,
    /// The trials at the lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_lower: Option<BoundRecord>,
    /// The trials at the upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_upper: Option<BoundRecord>,
    /// What limits at the upper bound: the verdict that most of the bad trials there share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Over whole searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<RepeatedRecord>,
}

/// A trial's arrivals may lag by this share of its time without a word: the host's own pauses do that.
const LAG_UNTOLD: f64 = 0.01;

impl GoalRecord {
    /// What arrived at the lower bound, bits per second, where that is clearly less than the goal's loss
    /// explains: nothing more was lost, so a queue held the rest, and the rate is met only because a datagram
    /// may be late.
    pub fn holds_by_delay_alone(&self) -> Option<f64> {
        let received =
            self.at_lower.filter(|at| self.lower_bps == Some(at.load_bps))?.received_bps?;
        (received < self.lower_bps? * (1.0 - self.loss - LAG_UNTOLD)).then_some(received)
    }
}

/// The load at which half of the trials fail.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KneeRecord {
    /// Median of the posterior.
    pub median: f64,
    /// 2.5 % quantile.
    pub low: f64,
    /// 97.5 % quantile.
    pub high: f64,
    /// Share of trials that fail well below the knee, for reasons that the load does not decide.
    pub background: f64,
}

/// The trials at one load, as a goal judges them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BoundRecord {
    /// Load.
    pub load_bps: f64,
    /// Trials of full length.
    pub trials: u64,
    /// Of those, bad.
    pub bad: u64,
    /// What arrived in their time, the median of them: from the first arrival to the last, and no shorter than
    /// sending took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bps: Option<f64>,
    /// Whether the duration sum settled its class.
    pub settled: bool,
    /// Probability that a trial is bad: lower end of the 95 % interval (Jeffreys).
    pub fail_low: f64,
    /// Upper end.
    pub fail_high: f64,
}

/// A goal over whole searches.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatedRecord {
    /// Searches that were asked for.
    pub asked: u64,
    /// Of those: came to their end.
    pub finished: u64,
    /// Of those: settled this goal, with a bound on both sides (with `--ci`: with an interval as narrow as
    /// asked). Only these are in the mean.
    pub searches: u64,
    /// Geometric mean of their lower bounds (with `--ci`: of their knees); absent without any.
    pub mean_bps: Option<f64>,
    /// Lower end of the 95 % interval: t on the logarithm, one value a search, and no nearer to the mean than the
    /// farthest lower end of a search's own interval is to its knee.
    pub low_bps: Option<f64>,
    /// Upper end: the same, or without `--ci` no nearer than the farthest upper bound of a search is to its lower one.
    pub high_bps: Option<f64>,
}

/// One of several whole searches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatRecord {
    /// Counted from 1.
    pub search: u64,
    /// Its answers.
    pub goals: Vec<GoalRecord>,
    /// Its time.
    pub seconds: f64,
}

/// What a trial was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialPurpose {
    /// The first one: wakes the hosts up and finds what arrives of the most; judged by no goal.
    WarmUp,
    /// The largest load.
    MaxLoad,
    /// Bounds.
    Search,
    /// The knee's interval.
    Fit,
    /// The curve beside the limit.
    Shape,
}

/// One trial.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRecord {
    /// Which whole search, counted from 1.
    pub search: u64,
    /// What for.
    pub purpose: TrialPurpose,
    /// Offered; null is as fast as the sender can.
    #[serialize_always]
    pub asked_bps: Option<f64>,
    /// Taken by the sender's kernel.
    pub sent_bps: f64,
    /// Unique payload that arrived.
    pub received_bps: f64,
    /// Measured time.
    pub seconds: f64,
    /// Wall time, with set-up and drain.
    pub took_s: f64,
    /// Lost of those sent, 0 to 1.
    pub lost_ratio: f64,
    /// Not sent, lost, or later than the trial, of those that the asked rate calls for, 0 to 1.
    pub undelivered_ratio: f64,
    /// Lost on the path, datagrams.
    pub lost_path: Option<u64>,
    /// Dropped by the receiver's socket, datagrams.
    pub dropped_receiver: Option<u64>,
    /// RFC 3550 jitter.
    pub jitter_s: Option<f64>,
    /// 99th percentile of the delay above its least.
    pub delay_p99_s: Option<f64>,
    /// Sender's busiest data thread.
    pub cpu_sender_percent: Option<f64>,
    /// Receiver's busiest data thread.
    pub cpu_receiver_percent: Option<f64>,
    /// What limited it.
    pub limit: Option<Limit>,
    /// Whether it met every goal; null where no goal judged it.
    #[serialize_always]
    pub good: Option<bool>,
    /// Names of the goals it met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meets: Vec<String>,
    /// Why it says nothing about the path; null if it does.
    #[serialize_always]
    pub invalid: Option<String>,
    /// Id of its run record.
    pub run: Option<String>,
}
