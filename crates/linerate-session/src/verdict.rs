//! What limited a test: one limit, the evidence in a sentence, and what to try.
//!
//! Decided from the finished record, in an order that never blames the path for what a host did:
//! where the loss was (the receiver's socket, its backlog, only then the path), then what the
//! sender's host refused, then whether the asked rate was met, then the CPUs. `docs/verdict.md` has
//! the whole order.

use std::collections::BTreeMap;

use linerate_model::limits;
use linerate_model::plan::Way;
use linerate_model::record::{
    CpuFigures, DoubtKind, HostFigures, Limit, Pair, ReceiverFigures, RrFigures, RunRecord,
    SenderFigures, Status, Verdict,
};
use linerate_model::units::si;

/// A core or thread this busy, in percent, has no time left: a scheduler's tick of the hundred may be
/// others'.
const FULL_PERCENT: f64 = 90.0;
/// Loss below this is not what limits a test.
const LOSS_THAT_COUNTS: f64 = 0.001;
/// A sender without a rate that has no time left is the limit up to this loss: a receiver that just
/// keeps up loses a little whenever its host stalls.
const LOSS_BESIDE_A_FULL_SENDER: f64 = 0.01;
/// A sender this close to the asked rate met it.
const RATE_MET: f64 = 0.995;
/// More things to try are not read.
const MOST_ADVICE: usize = 3;
/// A control group that held an end back for this share of the time, or longer, is a CPU without time
/// left.
const HELD_BACK: f64 = 0.1;
/// Share of the time in which TCP was held by a window.
const WINDOW_HELD: f64 = 0.3;

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

    fn udp(&mut self, pair: &Pair, discard: bool) -> Option<Verdict> {
        let sender = pair.sender.as_ref();
        let receiver = pair.receiver.as_ref();
        self.note("sent_bps", sender.map(|s| s.bits_per_second));
        self.note("received_bps", receiver.map(|r| r.bits_per_second));
        self.note("lost_ratio", receiver.and_then(|r| r.lost_ratio));
        self.note("lost_path_datagrams", receiver.and_then(|r| r.lost_path).map(|n| n as f64));
        self.note(
            "dropped_receiver_datagrams",
            receiver.and_then(|r| r.dropped_receiver).map(|n| n as f64),
        );
        self.note(
            "refused_locally_datagrams",
            sender.and_then(|s| s.refused_locally).map(|n| n as f64),
        );
        let queue = sender.and_then(|s| s.host.as_ref());
        let dropped = queue.and_then(|h| h.qdisc_dropped).map(|n| n as f64);
        let waited = queue.and_then(|h| h.qdisc_backlog_bytes).map(|n| n as f64);
        self.note("sender_qdisc_dropped_packets", dropped);
        self.note("sender_qdisc_backlog_bytes", waited);
        self.note_held_back(sender, receiver);
        let tx = sender.and_then(|s| s.cpu.as_ref());
        let rx = receiver.and_then(|r| r.cpu.as_ref());
        self.note_cpu("sender", tx);
        self.note_cpu("receiver", rx);
        let flooding = self.record.asked.rate_bps.is_none() && full(tx) && !full(rx);
        let threshold = if flooding { LOSS_BESIDE_A_FULL_SENDER } else { LOSS_THAT_COUNTS };
        if let Some(verdict) = receiver.and_then(|r| self.udp_loss(sender, r, rx, threshold)) {
            return Some(verdict);
        }
        let sender = sender?;
        if let Some(verdict) = receiver.and_then(|r| self.udp_overdue(sender, r, rx)) {
            return Some(verdict);
        }
        self.udp_sender(sender, receiver, tx, rx, discard)
    }

    /// Nothing was lost, but much came when the test was over: a queue took what the path or the
    /// receiver did not carry.
    fn udp_overdue(
        &mut self,
        sender: &SenderFigures,
        receiver: &ReceiverFigures,
        rx: Option<&CpuFigures>,
    ) -> Option<Verdict> {
        let overdue = receiver.overdue?;
        let datagrams = receiver.datagrams.filter(|n| *n > 0)?;
        self.note("overdue_datagrams", Some(overdue as f64));
        if (overdue as f64) < datagrams as f64 * LOSS_THAT_COUNTS {
            return None;
        }
        let name = self.receiver_name;
        let excess = |span: f64| (span - sender.seconds).max(0.0);
        let drained = receiver.seconds.max(receiver.read_seconds.unwrap_or(0.0));
        let rate = if drained > 0.0 { receiver.bytes as f64 * 8.0 / drained } else { 0.0 };
        let facts = format!(
            "{overdue} of {datagrams} datagrams came only after the test was over, the last {:.1} s after sending ended; it drained at {}",
            excess(drained),
            si(rate, "bit/s")
        );
        let advice = vec![format!("--rate {}: near what it drains at", rate_below(rate))];
        // Kernel time stamps tell when they came; if that was in time, they waited to be read.
        if excess(receiver.seconds) * 2.0 < excess(drained) {
            let because =
                vec![format!("the {name}'s socket buffer held them, {}: {facts}", core_text(rx))];
            let mut more = advice;
            more.extend(self.other_core(name, rx));
            more.push(self.more_streams());
            return Some(self.verdict(Limit::ReceiverCpu, because, more));
        }
        let plan = self.record.agreed.as_ref().unwrap_or(&self.record.asked);
        let late = overdue.saturating_mul(u64::from(plan.datagram_bytes.unwrap_or(0)));
        let waited = sender.host.as_ref().and_then(|h| h.qdisc_backlog_bytes).unwrap_or(0);
        if late > 0 && waited.saturating_mul(2) > late {
            let end = self.sender_name;
            let because = vec![format!(
                "the {end}'s own queueing discipline held them, up to {waited} bytes at once: {facts}"
            )];
            let mut more = advice;
            more.push(format!("tc -s qdisc show on the {end}: which queue holds them"));
            return Some(self.verdict(Limit::SenderHost, because, more));
        }
        let because = vec![format!("a queue between the two sockets held them: {facts}")];
        Some(self.verdict(Limit::Path, because, advice))
    }

    fn udp_loss(
        &mut self,
        sender: Option<&SenderFigures>,
        receiver: &ReceiverFigures,
        rx: Option<&CpuFigures>,
        threshold: f64,
    ) -> Option<Verdict> {
        let lost = receiver.lost?;
        if receiver.lost_ratio.is_none_or(|ratio| ratio < threshold) {
            return None;
        }
        if receiver.lost_path.is_none() && receiver.dropped_receiver.is_none() {
            return Some(self.udp_loss_somewhere(lost, rx));
        }
        let dropped = receiver.dropped_receiver.unwrap_or(0);
        let unplaced = receiver.unattributed.unwrap_or(0);
        let path = receiver.lost_path.unwrap_or(0);
        let name = self.receiver_name;
        if dropped + unplaced > path {
            let mut places = format!(
                "{dropped} of {lost} lost datagrams were dropped by the {name}'s socket buffer (SO_RXQ_OVFL)"
            );
            if unplaced > 0 {
                places.push_str(&format!(", {unplaced} more by it or by the path"));
            }
            places.push_str(&format!(", {path} on the path"));
            if let Some(held) = held_back(receiver.host.as_ref(), receiver.seconds) {
                let lower = "--rate: below what it takes".to_owned();
                let (because, advice) =
                    held_back_text(name, held, receiver.seconds, &places, Some(lower));
                return Some(self.verdict(Limit::ReceiverCpu, because, advice));
            }
            if full(rx) {
                let mut advice = vec![];
                advice.extend(self.other_core(name, rx));
                advice.push(self.more_streams());
                advice.extend(self.window_advice(name));
                let because = vec![format!("{}; {places}", core_text(rx))];
                return Some(self.verdict(Limit::ReceiverCpu, because, advice));
            }
            let because = vec![format!("it overflowed though {}; {places}", core_text(rx))];
            let mut advice = self.window_advice(name);
            advice.extend(self.other_core(name, rx));
            return Some(self.verdict(Limit::ReceiverBuffer, because, advice));
        }
        // The receiving host may drop before the socket: the backlog of a core, or its card.
        let host = receiver.host.as_ref();
        let nic = host.and_then(|h| h.nic_rx_dropped).unwrap_or(0);
        let backlog = host.map_or(0, |h| h.softnet_dropped);
        let qdisc = sender.and_then(|s| s.host.as_ref()).and_then(|h| h.qdisc_dropped).unwrap_or(0);
        if backlog > 0 && backlog.saturating_mul(2) > path {
            let because = vec![format!(
                "its kernel dropped {backlog} packets from a core's backlog (softnet_stat) before the socket; {}",
                core_text(rx)
            )];
            let advice = vec![
                format!("sysctl -w net.core.netdev_max_backlog=10000 on the {name}"),
                self.more_streams(),
            ];
            return Some(self.verdict(Limit::ReceiverCpu, because, advice));
        }
        // What the socket was told of (refused) is in the device's count as well, and was never sent. A
        // train that is dropped whole counts as one packet.
        let refused = sender.and_then(|s| s.refused_locally).unwrap_or(0);
        let plan = self.record.agreed.as_ref().unwrap_or(&self.record.asked);
        let trains = plan.engine.as_deref() == Some("gso");
        let train = plan.train_datagrams.filter(|_| trains).map_or(1, u64::from);
        let queue = qdisc.saturating_mul(train).saturating_sub(refused);
        if queue.saturating_mul(2) > path {
            let because = vec![format!(
                "{path} of {lost} lost datagrams never reached the {name}'s socket, and the {}'s own queueing discipline dropped {qdisc} packets (the host's count)",
                self.sender_name
            )];
            let advice = vec![
                format!("--rate {}: near what arrived", rate_below(receiver.bits_per_second)),
                format!(
                    "tc -s qdisc show on the {}: what shapes or limits its interface",
                    self.sender_name
                ),
            ];
            return Some(self.verdict(Limit::SenderHost, because, advice));
        }
        let mut text = format!(
            "{path} of {lost} lost datagrams never reached the {name}'s socket, {dropped} were dropped by its buffer"
        );
        if nic > 0 {
            text.push_str(&format!("; the {name}'s interface dropped {nic} packets"));
        }
        if qdisc > 0 {
            text.push_str(&format!(
                "; the sender's queueing discipline dropped {qdisc} packets (the host's count)"
            ));
        }
        let advice = vec![
            format!("--rate {}: near what arrived", rate_below(receiver.bits_per_second)),
            "--reverse: shows whether one direction alone loses".to_owned(),
            "tcp: a sender that adapts".to_owned(),
        ];
        Some(self.verdict(Limit::Path, vec![text], advice))
    }

    /// Loss of which the receiver does not tell where it was (iperf3's): only its CPU is evidence.
    fn udp_loss_somewhere(&mut self, lost: u64, rx: Option<&CpuFigures>) -> Verdict {
        let name = self.receiver_name;
        if full(rx) {
            let because = vec![format!(
                "{}: it had no time left; where the {lost} lost datagrams went, its iperf3 does not tell",
                core_text(rx)
            )];
            let advice = vec![
                format!(
                    "run `linerate serve` on the {name}: it tells where each datagram was lost"
                ),
                "--rate: below what the receiver takes".to_owned(),
            ];
            return self.verdict(Limit::ReceiverCpu, because, advice);
        }
        let because = vec![format!(
            "{lost} datagrams were lost on the path or in the {name}'s host ({}); its iperf3 does not tell where",
            core_text(rx)
        )];
        let advice =
            vec![format!("run `linerate serve` on the {name}: it tells where each was lost")];
        self.verdict(Limit::Unknown, because, advice)
    }

    fn udp_sender(
        &mut self,
        sender: &SenderFigures,
        receiver: Option<&ReceiverFigures>,
        tx: Option<&CpuFigures>,
        rx: Option<&CpuFigures>,
        discard: bool,
    ) -> Option<Verdict> {
        let name = self.sender_name;
        let attempted = sender.attempted.unwrap_or(0);
        let refused = sender.refused_locally.unwrap_or(0);
        if attempted > 0 && refused as f64 / attempted as f64 >= LOSS_THAT_COUNTS {
            let because = vec![format!(
                "the {name} refused {refused} of {attempted} datagrams (ENOBUFS, EAGAIN): its own queue or interface is the bottleneck, and nothing of this was lost on the path"
            )];
            let advice = vec![
                format!(
                    "--rate {}: near what the interface takes",
                    rate_below(sender.bits_per_second)
                ),
                "--window 8Mi: a larger send buffer".to_owned(),
            ];
            return Some(self.verdict(Limit::SenderHost, because, advice));
        }
        let asked = self.record.asked.rate_bps.map(|bps| bps as f64);
        let sent = sender.bits_per_second;
        let shown = si(sent, "bit/s");
        let met = asked.is_some_and(|asked| sent >= asked * RATE_MET);
        if !met && let Some(held) = held_back(sender.host.as_ref(), sender.seconds) {
            let of = asked.map_or(String::new(), |bps| format!(" of {} asked", si(bps, "bit/s")));
            let sent = format!("{shown}{of} were sent");
            let (because, advice) = held_back_text(name, held, sender.seconds, &sent, None);
            return Some(self.verdict(Limit::SenderCpu, because, advice));
        }
        // A run by count has no rate to miss.
        match asked {
            Some(_) if met => {
                let arrived = match receiver {
                    Some(r) => format!(" and {} of it arrived", si(r.bits_per_second, "bit/s")),
                    None => String::new(),
                };
                let because = vec![format!("{shown} was sent{arrived}")];
                let advice = vec!["--rate max: what this path and its hosts can carry".to_owned()];
                Some(self.verdict(Limit::RequestedRate, because, advice))
            }
            _ if full(tx) => {
                let what = match asked {
                    Some(asked) => format!("{shown} of {} asked were sent", si(asked, "bit/s")),
                    None => format!("{shown} were sent as fast as it could"),
                };
                let where_to = match receiver.and_then(|r| r.lost_ratio).filter(|_| !discard) {
                    None => String::new(),
                    Some(ratio) if ratio > 0.0 => {
                        format!(", {:.2} % of it was lost", ratio * 100.0)
                    }
                    Some(_) => " and nothing was lost".to_owned(),
                };
                let because = vec![format!("{}; {what}{where_to}", core_text(tx))];
                let mut advice = vec![];
                let agreed = self.record.agreed.as_ref();
                let one_at_a_time =
                    agreed.and_then(|a| a.engine.as_deref()).is_some_and(|e| e != "gso");
                let gave_up =
                    self.record.doubts.iter().any(|d| d.kind == DoubtKind::EngineFallback);
                if one_at_a_time && !gave_up && self.record.asked.checksum != Some(false) {
                    advice.push(match asked {
                        Some(_) => "--burst 1ms: more datagrams a call".to_owned(),
                        None => "--engine gso: one call for a whole train".to_owned(),
                    });
                }
                advice.push(self.more_streams());
                advice.extend(self.other_core(name, tx));
                Some(self.verdict(Limit::SenderCpu, because, advice))
            }
            _ if full(rx) && asked.is_none() => {
                let because = vec![format!("{}; the sender waited for it", core_text(rx))];
                let advice = [self.other_core(self.receiver_name, rx), Some(self.more_streams())]
                    .into_iter()
                    .flatten()
                    .collect();
                Some(self.verdict(Limit::ReceiverCpu, because, advice))
            }
            Some(asked) => {
                let because = vec![format!(
                    "{shown} of {} asked were sent though {}; its send buffer, queue or timer held it back",
                    si(asked, "bit/s"),
                    core_text(tx)
                )];
                let mut advice = vec![
                    "--window 8Mi: a larger send buffer".to_owned(),
                    "--burst 1ms: fewer wake-ups".to_owned(),
                ];
                advice.extend(self.other_core(name, tx));
                Some(self.verdict(Limit::SenderHost, because, advice))
            }
            None => {
                let because = vec![format!(
                    "{shown} left though {}; its interface or queue takes no more, and the sender waited for it",
                    core_text(tx)
                )];
                let advice =
                    vec![self.more_streams(), "--window 8Mi: a larger send buffer".to_owned()];
                Some(self.verdict(Limit::SenderHost, because, advice))
            }
        }
    }

    fn tcp(&mut self, pair: &Pair) -> Option<Verdict> {
        let sender = pair.sender.as_ref()?;
        let receiver = pair.receiver.as_ref();
        let tx = sender.cpu.as_ref();
        let rx = receiver.and_then(|r| r.cpu.as_ref());
        let tcp = sender.tcp.clone().unwrap_or_default();
        self.note("sent_bps", Some(sender.bits_per_second));
        self.note("received_bps", receiver.map(|r| r.bits_per_second));
        self.note("retransmits_segments", tcp.retransmits.map(|n| n as f64));
        self.note("rwnd_limited_ratio", tcp.rwnd_limited_ratio);
        self.note("sndbuf_limited_ratio", tcp.sndbuf_limited_ratio);
        self.note("rtt_s", tcp.rtt_s);
        self.note_cpu("sender", tx);
        self.note_cpu("receiver", rx);
        self.note_held_back(pair.sender.as_ref(), receiver);
        let rate = receiver.map_or(sender.bits_per_second, |r| r.bits_per_second);
        let shown = si(rate, "bit/s");
        if let Some(asked) = self.record.asked.rate_bps
            && rate >= asked as f64 * 0.98
        {
            let because = vec![format!("{shown} arrived")];
            return Some(self.verdict(
                Limit::RequestedRate,
                because,
                vec!["leave out --rate".to_owned()],
            ));
        }
        let rwnd = tcp.rwnd_limited_ratio.unwrap_or(0.0);
        let sndbuf = tcp.sndbuf_limited_ratio.unwrap_or(0.0);
        if self.record.asked.window_bytes.is_some() && rwnd.max(sndbuf) >= WINDOW_HELD {
            let because = vec![format!(
                "for {:.0} % of the time the receiver's window held the sender, for {:.0} % its own send buffer; {shown} arrived",
                rwnd * 100.0,
                sndbuf * 100.0
            )];
            let advice = vec![
                "leave out --window: the kernel sizes the buffers itself".to_owned(),
                "--window 8Mi".to_owned(),
            ];
            return Some(self.verdict(Limit::TcpWindow, because, advice));
        }
        // A receiver that may not run closes its window: that is no window too small. Nor is a core that
        // others fill the limit of an end that may not use it.
        let tx_held = held_back(sender.host.as_ref(), sender.seconds);
        let rx_held = receiver.and_then(|r| held_back(r.host.as_ref(), r.seconds));
        let (limit, name, held) = if rx_held > tx_held {
            (Limit::ReceiverCpu, self.receiver_name, rx_held)
        } else {
            (Limit::SenderCpu, self.sender_name, tx_held)
        };
        if let Some(held) = held {
            let arrived = format!("{shown} arrived");
            let (because, advice) = held_back_text(name, held, sender.seconds, &arrived, None);
            return Some(self.verdict(limit, because, advice));
        }
        let (tx_busy, rx_busy) = (busy(tx), busy(rx));
        if tx_busy >= FULL_PERCENT && tx_busy >= rx_busy {
            let because = vec![format!("{}; {shown} arrived", core_text(tx))];
            let advice = [
                Some("--tx sendfile: sends without copying".to_owned()),
                Some(self.more_streams()),
                self.other_core(self.sender_name, tx),
            ];
            return Some(self.verdict(
                Limit::SenderCpu,
                because,
                advice.into_iter().flatten().collect(),
            ));
        }
        if rx_busy >= FULL_PERCENT {
            let because = vec![format!("{}; {shown} arrived", core_text(rx))];
            let advice = [
                self.discard_advice(),
                Some(self.more_streams()),
                self.other_core(self.receiver_name, rx),
            ];
            return Some(self.verdict(
                Limit::ReceiverCpu,
                because,
                advice.into_iter().flatten().collect(),
            ));
        }
        if rwnd.max(sndbuf) >= WINDOW_HELD {
            let because = vec![format!(
                "for {:.0} % of the time the receiver's window held the sender, for {:.0} % its own send buffer; {shown} arrived",
                rwnd * 100.0,
                sndbuf * 100.0
            )];
            let advice = vec!["--window 8Mi".to_owned(), self.more_streams()];
            return Some(self.verdict(Limit::TcpWindow, because, advice));
        }
        let retransmits = tcp.retransmits.unwrap_or(0);
        if retransmits > 0 {
            let because = vec![format!(
                "{retransmits} segments were sent again, the congestion window ended at {} bytes; {shown} arrived",
                tcp.cwnd_bytes.unwrap_or(0)
            )];
            let advice = vec![
                self.more_streams(),
                "--congestion bbr: reacts to delay, not to single losses (where the kernel has it)"
                    .to_owned(),
                "udp --rate: shows the loss itself".to_owned(),
            ];
            return Some(self.verdict(Limit::TcpCongestion, because, advice));
        }
        if tcp.busy_ratio.is_some_and(|b| b > 0.9) {
            let because = vec![format!(
                "the sender had data queued {:.0} % of the time, no CPU was full, nothing was lost; {shown} arrived",
                tcp.busy_ratio.unwrap_or(0.0) * 100.0
            )];
            return Some(self.verdict(
                Limit::Path,
                because,
                vec![
                    self.more_streams(),
                    "udp --rate max: the same path without congestion control".to_owned(),
                ],
            ));
        }
        let because = vec![format!("{shown} arrived, and nothing shows what held it")];
        Some(self.verdict(
            Limit::Unknown,
            because,
            vec!["--time 30s: a longer look".to_owned(), self.more_streams()],
        ))
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
