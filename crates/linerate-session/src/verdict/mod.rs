//! What limited a test: one limit, the evidence in a sentence, and what to try.
//!
//! Decided from the finished record, in an order that never blames the path for what a host did:
//! where the loss was (the receiver's socket, its backlog, only then the path), then what the
//! sender's host refused, then whether the asked rate was met, then the CPUs. `docs/verdict.md` has
//! the whole order.

mod tcp;
mod udp;

use std::collections::BTreeMap;

use linerate_model::limits;
use linerate_model::plan::Way;
use linerate_model::record::{
    CpuFigures, HostFigures, Limit, Pair, ReceiverFigures, RrFigures, RunRecord, SenderFigures,
    Status, Verdict,
};

/// A core or thread this busy, in percent, has no time left: a scheduler's tick of the hundred may be
/// others'.
const FULL_PERCENT: f64 = 90.0;
/// More things to try are not read.
const MOST_ADVICE: usize = 3;
/// A control group that held an end back for this share of the time, or longer, is a CPU without time
/// left.
const HELD_BACK: f64 = 0.1;

struct Case<'a> {
    record: &'a RunRecord,
    evidence: BTreeMap<String, f64>,
    sender_name: &'static str,
    receiver_name: &'static str,
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
        let way = if record.asked.direction == "reverse" { Way::Reverse } else { Way::Forward };
        let pair = Pair { sender: figures.sender.clone(), receiver: figures.receiver.clone() };
        return Case::new(record, way).pair(&pair, discard);
    }
    let judged =
        |way, pair: Option<&Pair>| pair.and_then(|pair| Case::new(record, way).pair(pair, discard));
    both(judged(Way::Forward, forward), judged(Way::Reverse, reverse))
}

/// One verdict of two directions: every sentence says whose it is.
fn both(forward: Option<Verdict>, reverse: Option<Verdict>) -> Option<Verdict> {
    let (mut forward, mut reverse) = match (forward, reverse) {
        (Some(forward), Some(reverse)) => (forward, reverse),
        (one, other) => return one.or(other),
    };
    for (name, verdict) in [("forward", &mut forward), ("reverse", &mut reverse)] {
        for text in &mut verdict.because {
            *text = format!("{name}: {text}");
        }
    }
    let shortfall = |verdict: &Verdict| match verdict.limit {
        Limit::RequestedRate => 0,
        Limit::Unknown => 1,
        _ => 2,
    };
    let evidence = std::mem::take(&mut reverse.evidence)
        .into_iter()
        .map(|(name, value)| (format!("reverse_{name}"), value));
    forward.evidence.extend(evidence);
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

/// A rate for `--rate` a little below one that was measured, as it is typed: `940M`, `9.8M`, `290k`.
fn rate_below(bits_per_second: f64) -> String {
    let rate = (bits_per_second * 0.98).max(1_000.0);
    match rate {
        r if r >= 10e6 => format!("{:.0}M", r / 1e6),
        r if r >= 1e6 => format!("{:.1}M", r / 1e6),
        r => format!("{:.0}k", r / 1e3),
    }
}

fn full(cpu: Option<&CpuFigures>) -> bool {
    cpu.is_some_and(|cpu| {
        cpu.thread_percent >= FULL_PERCENT || cpu.core_percent.is_some_and(|p| p >= FULL_PERCENT)
    })
}

fn busy(cpu: Option<&CpuFigures>) -> f64 {
    cpu.map_or(0.0, |cpu| cpu.thread_percent.max(cpu.core_percent.unwrap_or(0.0)))
}

/// How long a control group held an end back, of `seconds` in all, if that is what left it no time.
fn held_back(host: Option<&HostFigures>, seconds: f64) -> Option<f64> {
    let held = host?.throttled_s?;
    (seconds > 0.0 && held >= seconds * HELD_BACK).then_some(held)
}

/// Evidence and advice where a control group held an end back.
fn held_back_text(
    name: &str,
    held: f64,
    seconds: f64,
    result: &str,
    more: Option<String>,
) -> (Vec<String>, Vec<String>) {
    let because =
        format!("a control group held the {name} back for {held:.2} s of {seconds:.2} s; {result}");
    let larger =
        format!("on the {name}, a larger cpu.max (or cpu.cfs_quota_us) of its control group");
    (vec![because], [Some(larger), more].into_iter().flatten().collect())
}

/// "core 2 was 99 % busy (71 % softirq)".
fn core_text(cpu: Option<&CpuFigures>) -> String {
    let Some(cpu) = cpu else { return "its CPU is not known".to_owned() };
    let share = cpu.core_percent.unwrap_or(cpu.thread_percent);
    let Some(core) = cpu.core else {
        return format!("its process took {:.0} % of a core", cpu.thread_percent);
    };
    let mut text = format!("core {core} was {share:.0} % busy");
    match (cpu.softirq_percent, cpu.core_percent) {
        (Some(softirq), _) if softirq >= 10.0 => {
            text.push_str(&format!(" ({softirq:.0} % softirq)"))
        }
        (_, Some(core)) if core >= FULL_PERCENT && cpu.thread_percent < core - 20.0 => {
            text.push_str(&format!(", the data thread had {:.0} % of it", cpu.thread_percent));
        }
        _ => {}
    }
    text
}

impl<'a> Case<'a> {
    fn new(record: &'a RunRecord, way: Way) -> Self {
        let (sender_name, receiver_name) = match way {
            Way::Forward => ("client", "server"),
            Way::Reverse => ("server", "client"),
        };
        Self { record, evidence: BTreeMap::new(), sender_name, receiver_name }
    }

    fn pair(&mut self, pair: &Pair, discard: bool) -> Option<Verdict> {
        if self.record.asked.protocol == "tcp" { self.tcp(pair) } else { self.udp(pair, discard) }
    }

    fn verdict(&mut self, limit: Limit, because: Vec<String>, mut advice: Vec<String>) -> Verdict {
        advice.truncate(MOST_ADVICE);
        Verdict { limit, because, advice, evidence: std::mem::take(&mut self.evidence) }
    }

    fn note(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            self.evidence.insert(name.to_owned(), value);
        }
    }

    fn note_cpu(&mut self, end: &str, cpu: Option<&CpuFigures>) {
        self.note(&format!("{end}_thread_percent"), cpu.map(|c| c.thread_percent));
        self.note(&format!("{end}_core_percent"), cpu.and_then(|c| c.core_percent));
        self.note(&format!("{end}_softirq_percent"), cpu.and_then(|c| c.softirq_percent));
    }

    fn note_held_back(
        &mut self,
        sender: Option<&SenderFigures>,
        receiver: Option<&ReceiverFigures>,
    ) {
        let held = |host: Option<&HostFigures>| host.and_then(|host| host.throttled_s);
        self.note("sender_throttled_s", held(sender.and_then(|s| s.host.as_ref())));
        self.note("receiver_throttled_s", held(receiver.and_then(|r| r.host.as_ref())));
    }

    /// `--cpu` for one end, in the order client/server.
    fn other_core(&self, name: &str, cpu: Option<&CpuFigures>) -> Option<String> {
        let host =
            if name == "client" { Some(&self.record.client) } else { self.record.server.as_ref() };
        let cores = host.and_then(|h| h.cores)?;
        let now = cpu?.core?;
        let nic: Vec<u32> =
            host.and_then(|h| h.nic.as_ref()).map(|n| n.irq_cores.clone()).unwrap_or_default();
        // Where both ends share a host, the far end's core is no other core.
        let shared = self.record.server.as_ref().and_then(|s| s.boot_id.as_ref())
            == self.record.client.boot_id.as_ref();
        let plan = self.record.agreed.as_ref().and_then(|a| a.cpu.as_ref());
        let taken: Vec<u32> = plan
            .filter(|_| shared)
            .map(|cpu| cpu.sender.iter().chain(&cpu.receiver).copied().collect())
            .unwrap_or_default();
        let free = |core: &u32| *core != now && !taken.contains(core);
        let other = (0..cores)
            .filter(free)
            .find(|core| !nic.contains(core))
            .or_else(|| (0..cores).find(free))?;
        let option =
            if name == "client" { format!("--cpu {other}") } else { format!("--cpu /{other}") };
        let why = if nic.contains(&now) {
            format!(" (core {now} also takes the NIC's interrupts)")
        } else {
            String::new()
        };
        Some(format!("{option}{why}"))
    }

    fn discard_advice(&self) -> Option<String> {
        (self.record.asked.receive.as_deref() != Some("discard"))
            .then(|| "--rx discard: what the path carries without the copy".to_owned())
    }

    fn more_streams(&self) -> String {
        format!(
            "--streams {}: another thread on another core",
            self.record.asked.streams.saturating_mul(2)
        )
    }

    fn window_advice(&self, end: &str) -> Vec<String> {
        let granted = self
            .record
            .agreed
            .as_ref()
            .and_then(|a| a.window_granted)
            .and_then(|w| w.receive_bytes)
            .unwrap_or(0);
        let host =
            if end == "client" { Some(&self.record.client) } else { self.record.server.as_ref() };
        let most = host.and_then(|h| h.rmem_max_bytes);
        // Never more than --window takes, whatever the far end says it was granted.
        let most_legal = limits::WINDOW_OCTETS.max;
        let wanted = granted.clamp(212_992, most_legal / 2).saturating_mul(2).next_power_of_two();
        let mut advice = vec![format!(
            "--window {}Mi (the receive buffer is {} bytes now)",
            (wanted >> 20).max(1),
            granted
        )];
        if let Some(most) = most.filter(|most| *most < wanted) {
            advice.push(format!("sysctl -w net.core.rmem_max={wanted} on the {end} ({most} now), which --window needs"));
        }
        advice
    }

    fn rr(&mut self, rr: &RrFigures) -> Verdict {
        self.note("transactions_per_second", Some(rr.transactions_per_second));
        self.note("latency_p50_s", rr.latency_s.as_ref().map(|l| l.p50));
        self.note_cpu("client", rr.cpu.as_ref());
        self.note_cpu("server", rr.server_cpu.as_ref());
        let shown = format!("{:.0} transactions/s", rr.transactions_per_second);
        // What no server could have answered by the end is no shortfall.
        let least = rr.latency_s.as_ref().and_then(|l| l.min).unwrap_or(0.0);
        if let Some(asked) = self.record.asked.rate_tps.map(|asked| asked as f64)
            && let on_the_way = (asked * least).min(rr.unfinished.unwrap_or(0) as f64)
            && rr.transactions as f64 + on_the_way >= asked * rr.seconds * 0.99
        {
            let because = vec![format!("{shown}")];
            return self.verdict(
                Limit::RequestedRate,
                because,
                vec!["leave out --rate: as fast as the answers come".to_owned()],
            );
        }
        let threads = |cpu: Option<&CpuFigures>| cpu.map_or(0.0, |c| c.thread_percent);
        let (client, server) = (threads(rr.cpu.as_ref()), threads(rr.server_cpu.as_ref()));
        if client >= FULL_PERCENT && client >= server {
            let because =
                vec![format!("the asking thread was busy {client:.0} % of the time; {shown}")];
            let advice = vec![self.more_streams()];
            return self.verdict(Limit::SenderCpu, because, advice);
        }
        if server >= FULL_PERCENT {
            let because =
                vec![format!("the answering thread was busy {server:.0} % of the time; {shown}")];
            let advice = vec![self.more_streams()];
            return self.verdict(Limit::ReceiverCpu, because, advice);
        }
        let p50 = rr.latency_s.as_ref().map_or(0.0, |l| l.p50);
        let because = vec![format!(
            "an answer takes {:.1} us in the median, with {} in flight; {shown}",
            p50 * 1e6,
            u64::from(self.record.asked.outstanding.unwrap_or(1))
                * u64::from(self.record.asked.streams)
        )];
        let more = self.record.asked.outstanding.unwrap_or(1).saturating_mul(8);
        let advice =
            vec![format!("--outstanding {more}: more requests in flight"), self.more_streams()];
        self.verdict(Limit::RoundTrip, because, advice)
    }
}
