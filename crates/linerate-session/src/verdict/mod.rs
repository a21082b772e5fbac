//! What limited a test: one limit, the evidence in a sentence, and what to try.
//!
//! Decided from the finished record, in an order that never blames the path for what a host did:
//! where the loss was (the receiver's socket, its backlog, only then the path), then what the
//! sender's host refused, then whether the asked rate was met, then the CPUs. `docs/verdict.md` has
//! the whole order.

mod advice;
mod chosen;
mod cpu;
pub(crate) mod local_errors;
mod rr;
mod so_far;
mod tcp;
mod udp;

use std::collections::BTreeMap;

use linerate_model::plan::{PlanDirection, TrafficKind, Way};
use linerate_model::record::{
    HostFigures, Limit, Pair, ReceiverFigures, RunRecord, SenderFigures, Status, Verdict,
};

use chosen::Asked;
use cpu::{End, Lack};
pub use so_far::so_far;

/// More things to try are not read.
const MOST_ADVICE: usize = 3;

struct Case<'a> {
    record: &'a RunRecord,
    evidence: BTreeMap<String, f64>,
    sender_name: &'static str,
    receiver_name: &'static str,
    /// Of this direction, over the measured time.
    asked: Asked,
}

/// Judges a record; `None` when nothing was measured. Both directions of a record are judged, each with
/// its own ends; the limit is that of the one that fell short, the forward one's where both did.
pub fn judge(record: &RunRecord, discard: bool) -> Option<Verdict> {
    if record.status == Status::Failed {
        return None;
    }
    let figures = &record.totals;
    if let Some(rr) = &figures.rr {
        return Some(Case::new(record, Way::Forward).rr(rr));
    }
    let (forward, reverse) = (figures.forward.as_ref(), figures.reverse.as_ref());
    if forward.is_none() && reverse.is_none() {
        let way = if record.asked.direction == PlanDirection::Reverse {
            Way::Reverse
        } else {
            Way::Forward
        };
        let pair = Pair { sender: figures.sender.clone(), receiver: figures.receiver.clone() };
        return Case::new(record, way).pair(&pair, discard);
    }
    let judged =
        |way, pair: Option<&Pair>| pair.and_then(|pair| Case::new(record, way).pair(pair, discard));
    both(judged(Way::Forward, forward), judged(Way::Reverse, reverse))
}

/// One verdict of two directions: every sentence says whose it is, also where nothing is known of the other.
fn both(mut forward: Option<Verdict>, mut reverse: Option<Verdict>) -> Option<Verdict> {
    for (way, verdict) in [(Way::Forward, &mut forward), (Way::Reverse, &mut reverse)] {
        let Some(verdict) = verdict else { continue };
        let name = way.name();
        verdict.direction = Some(way.into());
        for text in &mut verdict.because {
            *text = format!("{name}: {text}");
        }
    }
    if let Some(reverse) = &mut reverse {
        let evidence = std::mem::take(&mut reverse.evidence).into_iter();
        reverse.evidence =
            evidence.map(|(name, value)| (format!("reverse_{name}"), value)).collect();
    }
    let (mut forward, mut reverse) = match (forward, reverse) {
        (Some(forward), Some(reverse)) => (forward, reverse),
        (one, other) => return one.or(other),
    };
    let shortfall = |verdict: &Verdict| match verdict.limit {
        Limit::RequestedRate => 0,
        Limit::Unknown => 1,
        _ => 2,
    };
    forward.evidence.append(&mut reverse.evidence);
    let evidence = std::mem::take(&mut forward.evidence);
    let (mut verdict, mut other) = if shortfall(&reverse) > shortfall(&forward) {
        (reverse, forward)
    } else {
        (forward, reverse)
    };
    verdict.because.append(&mut other.because);
    // What to do about a direction that has all it was asked for is no advice.
    if shortfall(&other) == shortfall(&verdict) {
        let more = other.advice.into_iter().filter(|advice| !verdict.advice.contains(advice));
        let more: Vec<String> = more.collect();
        verdict.advice.extend(more);
        verdict.advice.truncate(MOST_ADVICE);
    }
    verdict.evidence = evidence;
    Some(verdict)
}

/// A rate for `--rate` a little below one that was measured, as it is typed: `940M`, `9.8M`, `290k`. Rounded down to three
/// digits, so that it is not above.
fn rate_below(bits_per_second: f64) -> String {
    let rate = (bits_per_second * 0.98).max(1_000.0);
    let (scaled, unit) = if rate >= 1e6 { (rate / 1e6, 'M') } else { (rate / 1e3, 'k') };
    let parts = match scaled {
        s if s >= 100.0 => 1.0,
        s if s >= 10.0 => 10.0,
        _ => 100.0,
    };
    format!("{}{unit}", (scaled * parts).floor() / parts)
}

impl<'a> Case<'a> {
    fn new(record: &'a RunRecord, way: Way) -> Self {
        let (sender_name, receiver_name) = match way {
            Way::Forward => ("client", "server"),
            Way::Reverse => ("server", "client"),
        };
        let asked = Asked::of(record, way);
        Self { record, evidence: BTreeMap::new(), sender_name, receiver_name, asked }
    }

    fn pair(&mut self, pair: &Pair, discard: bool) -> Option<Verdict> {
        if self.record.asked.protocol == TrafficKind::Tcp {
            self.tcp(pair)
        } else {
            self.udp(pair, discard)
        }
    }

    fn verdict(&mut self, limit: Limit, because: Vec<String>, mut advice: Vec<String>) -> Verdict {
        advice.truncate(MOST_ADVICE);
        let evidence = std::mem::take(&mut self.evidence);
        Verdict { limit, direction: None, because, advice, evidence }
    }

    /// The asked rate was sent, and no receiver tells what came of it.
    fn sent_as_asked(&mut self, sent: &str) -> Verdict {
        let because = vec![format!(
            "{sent} was sent as asked; how much of it arrived, the {} has not reported",
            self.receiver_name
        )];
        self.verdict(Limit::Unknown, because, vec![])
    }

    /// `moved` at rates that somebody chose, and without any.
    fn no_one_limit(&mut self, moved: &str) -> Verdict {
        let because = vec![format!(
            "{moved}, as fast as it goes for a while and at rates chosen by hand for the rest: no one limit holds for both"
        )];
        let advice = vec!["the same rate throughout, by --rate".to_owned()];
        self.verdict(Limit::Unknown, because, advice)
    }

    fn note(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            self.evidence.insert(name.to_owned(), value);
        }
    }

    fn note_count(&mut self, name: &str, value: Option<u64>) {
        self.note(name, value.map(|n| n as f64));
    }

    fn note_cpu(&mut self, role: &str, end: &End<'_>) {
        let cpu = end.cpu;
        self.note(&format!("{role}_thread_percent"), cpu.map(|c| c.thread_percent));
        self.note(&format!("{role}_ready_percent"), cpu.and_then(|c| c.ready_percent));
        self.note(&format!("{role}_interrupted_percent"), cpu.and_then(|c| c.interrupted_percent));
        self.note(&format!("{role}_others_percent"), cpu.and_then(|c| c.others_percent));
        self.note(&format!("{role}_core_percent"), cpu.and_then(|c| c.core_percent));
        self.note(&format!("{role}_softirq_percent"), cpu.and_then(|c| c.softirq_percent));
    }

    fn note_throttled(
        &mut self,
        sender: Option<&SenderFigures>,
        receiver: Option<&ReceiverFigures>,
    ) {
        let throttled = |host: Option<&HostFigures>| host.and_then(|host| host.throttled_s);
        self.note("sender_throttled_s", throttled(sender.and_then(|s| s.host.as_ref())));
        self.note("receiver_throttled_s", throttled(receiver.and_then(|r| r.host.as_ref())));
    }

    /// The verdict on an end that lacked CPU. `own` is what to try where its own work filled its core.
    fn lacked_cpu(
        &mut self,
        end: &End<'_>,
        lack: Lack,
        result: &str,
        own: impl IntoIterator<Item = Option<String>>,
    ) -> Verdict {
        let because = vec![format!("{}; {result}", end.lack_text(lack))];
        let advice = match lack {
            Lack::Own => own.into_iter().flatten().collect(),
            Lack::Throttled(_) => vec![format!(
                "on the {}, a larger cpu.max (or cpu.cfs_quota_us) of its cgroup",
                end.name
            )],
            Lack::Programs => {
                self.other_core(end).into_iter().chain([end.what_else_runs()]).collect()
            }
            Lack::Hypervisor => vec![format!(
                "another time, or a virtual machine with cores of its own: the {}'s are shared",
                end.name
            )],
        };
        self.verdict(end.blamed(lack), because, advice)
    }
}
