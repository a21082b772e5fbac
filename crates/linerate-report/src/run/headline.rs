//! The answer in a few lines: what arrived, what limited it and the one best thing to try; and the
//! few details that stand before it when nobody asked for all of them.

use linerate_analysis::metric::{Flow, flows};
use linerate_model::plan::{PlanDirection, Receiving, Sending, TrafficKind, Way};
use linerate_model::record::{
    CpuFigures, DoubtKind, PlanRecord, ReceiverFigures, RrFigures, RunRecord, Status,
};

use super::facts::{Facts, counters, datagrams, held_back, sockets};
use super::words::{headline, plural, sentence};
use crate::clean::clean;
use crate::number;

/// How much is said beside the headline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Nothing: no table either.
    Headline,
    /// The table and a few lines: with the headline they fit a terminal of 24 lines.
    #[default]
    Some,
    /// Everything.
    All,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headline {
    /// What was measured: a line a direction.
    pub results: Vec<String>,
    /// What limited it, with the first reason only.
    pub limit: Option<String>,
    /// The one best thing to try.
    pub advice: Option<String>,
}

impl Headline {
    /// From a finished record.
    pub fn new(record: &RunRecord) -> Self {
        let verdict = record.verdict.as_ref();
        let because = |v: &linerate_model::record::Verdict| v.because.first().cloned();
        Self {
            results: results(record),
            limit: verdict.map(|v| sentence(headline(v.limit), because(v).as_slice())),
            advice: verdict.and_then(|v| v.advice.first()).map(|a| clean(a).into_owned()),
        }
    }
}

/// What the ends of a direction are called: by their roles, which users know.
fn ends(plan: &PlanRecord, flow: &Flow<'_>) -> (&'static str, &'static str) {
    if flow.way.map_or(plan.direction == PlanDirection::Reverse, |way| way == Way::Reverse) {
        ("server", "client")
    } else {
        ("client", "server")
    }
}

fn results(record: &RunRecord) -> Vec<String> {
    // Figures that contradict each other are no result.
    if matches!(record.status, Status::Invalid | Status::Failed) {
        return Vec::new();
    }
    let mut plan = record.agreed.as_ref().unwrap_or(&record.asked).clone();
    if record.events.iter().any(|event| event.chosen_bps().is_some()) {
        // The plan's was not asked for all the time.
        plan.rate_bps = None;
    }
    if let Some(rr) = &record.totals.rr {
        return vec![transactions(rr)];
    }
    flows(&record.totals).iter().map(|flow| result(&plan, flow)).collect()
}

fn result(plan: &PlanRecord, flow: &Flow<'_>) -> String {
    let mut parts = vec![rates(plan, flow)];
    parts.extend(flow.receiver.and_then(|receiver| loss(receiver, ends(plan, flow).1)));
    if let Some(sender) = flow.sender {
        let errors = sender.refused_locally.filter(|&n| n > 0);
        parts.extend(errors.map(|n| plural(n, "local send error")));
        if let Some(tcp) = &sender.tcp {
            parts.extend(tcp.retransmits.map(|n| plural(n, "retransmit")));
            parts.extend(tcp.rtt_s.map(|rtt| {
                let min = tcp
                    .min_rtt_s
                    .map_or(String::new(), |min| format!(" (min {})", number::seconds_short(min)));
                format!("RTT {}{min}", number::seconds_short(rtt))
            }));
        }
    }
    let name = flow.way.map_or(String::new(), |way| format!("{}: ", way.name()));
    format!("{name}{}", parts.join(" · "))
}

/// `135.6 Mbit/s received of 160.0 offered`.
fn rates(plan: &PlanRecord, flow: &Flow<'_>) -> String {
    let udp = plan.protocol == TrafficKind::Udp;
    let asked = plan.rate_bps.map(|bps| bps as f64);
    let Some(received) = flow.received_bps() else {
        let sent = flow.sent_bps().unwrap_or(0.0);
        let unknown = if plan.direction == PlanDirection::Discard {
            ""
        } else {
            ", what arrived of it is not known"
        };
        return format!("{} sent{unknown}", number::rate(sent));
    };
    let sent = flow.sent_bps();
    let mut text = format!("{} received", number::rate(received));
    if let Some(sent) = sent.filter(|_| udp) {
        text.push_str(&format!(" of {} offered", beside(received, sent)));
    }
    // What was asked for is said where the sender fell short of it.
    let left = sent.unwrap_or(received);
    if let Some(asked) = asked.filter(|asked| left < asked * 0.99) {
        text.push_str(&format!(" ({} asked)", beside(received, asked)));
    }
    text
}

/// A rate after another one: its unit only where it differs.
fn beside(first: f64, second: f64) -> String {
    let (first, second) = (number::rate(first), number::rate(second));
    match (first.split_once(' '), second.split_once(' ')) {
        (Some((_, one)), Some((value, other))) if one == other => value.to_owned(),
        _ => second,
    }
}

/// `15.26 % lost (20 737: all dropped by the server's rcvbuf)`.
fn loss(receiver: &ReceiverFigures, to: &str) -> Option<String> {
    let lost = receiver.lost?;
    if lost == 0 {
        return Some("nothing lost".to_owned());
    }
    let places: Vec<(u64, String)> = [
        (receiver.lost_path, "lost on the path".to_owned()),
        (receiver.dropped_receiver, format!("dropped by the {to}'s rcvbuf")),
        (receiver.unattributed, "at one of the two".to_owned()),
    ]
    .into_iter()
    .filter_map(|(n, place)| Some((n.filter(|&n| n > 0)?, place)))
    .collect();
    let place = match places.as_slice() {
        [] => String::new(),
        [(n, place)] if *n == lost => format!(": all {place}"),
        places => {
            let words: Vec<String> = places
                .iter()
                .map(|(n, place)| format!("{} {place}", number::integer(*n)))
                .collect();
            format!(": {}", words.join(", "))
        }
    };
    let share = receiver.lost_ratio.map_or(String::new(), |r| format!("{} ", number::loss(r)));
    Some(format!("{share}lost ({}{place})", number::integer(lost)))
}

fn transactions(rr: &RrFigures) -> String {
    let mut parts = vec![format!("{} transactions/s", whole(rr.transactions_per_second))];
    if let Some(latency) = &rr.latency_s {
        parts.push(format!("p50 {}", number::seconds_short(latency.p50)));
        parts.push(format!("p99 {}", number::seconds_short(latency.p99)));
    }
    if let Some(lost) = rr.unanswered {
        parts.push(match lost {
            0 => "nothing lost".to_owned(),
            lost => format!("{} never answered", number::integer(lost)),
        });
    }
    parts.join(" · ")
}

/// A rate of events as people count: `15 055`, and with a prefix from a million on.
pub(crate) fn whole(per_second: f64) -> String {
    if (10.0..1e6).contains(&per_second) {
        // In range, so the cast cannot cut.
        return number::integer(per_second.round() as u64);
    }
    number::short(per_second)
}

/// The details worth a line each where not all of them were asked for.
pub(super) fn details(record: &RunRecord) -> Facts {
    let plan = record.agreed.as_ref().unwrap_or(&record.asked);
    let mut facts = Facts::new();
    for flow in flows(&record.totals) {
        let mut add = |label: &str, text: String| {
            if !text.is_empty() {
                let way = flow.way.map_or("", Way::name);
                facts.push((format!("{way} {label}").trim().to_owned(), text));
            }
        };
        add("datagrams", datagrams(&flow, false));
        add("delay", flow.receiver.map(delay).unwrap_or_default());
        add("tcp", flow.tcp().map(tcp).unwrap_or_default());
        // With both directions the table has room for the shares only, and that is enough.
        if flow.way.is_none() {
            let (from, to) = ends(plan, &flow);
            add("cpu", cpus([(from, flow.sender_cpu()), (to, flow.receiver_cpu())]));
        }
        add("kernel counters", counters(flow.sender, flow.receiver, false));
    }
    if let Some(rr) = &record.totals.rr {
        facts.extend(rr.latency_s.as_ref().map(|q| ("latency".to_owned(), quantiles(q))));
        let cpu = cpus([("client", rr.cpu.as_ref()), ("server", rr.server_cpu.as_ref())]);
        if !cpu.is_empty() {
            facts.push(("cpu".to_owned(), cpu));
        }
    }
    facts.extend(sockets(record, false));
    facts
}

fn quantiles(q: &linerate_model::record::Quantiles) -> String {
    let [p50, p99, max] = [q.p50, q.p99, q.max].map(number::seconds_short);
    format!("p50 {p50} · p99 {p99} · max {max}")
}

/// One way where the clocks allow it, else its variation.
fn delay(receiver: &ReceiverFigures) -> String {
    let jitter = receiver.jitter_s.map(|j| format!("jitter {}", number::seconds_short(j)));
    let delay = match (&receiver.one_way_delay_s, &receiver.delay_variation_s) {
        (Some(delay), _) => Some(format!("one way {}", quantiles(&delay.quantiles))),
        (None, Some(variation)) => Some(format!("variation {}", quantiles(variation))),
        (None, None) => None,
    };
    let parts: Vec<String> = delay.into_iter().chain(jitter).collect();
    parts.join(" · ")
}

fn tcp(tcp: &linerate_model::record::TcpFigures) -> String {
    let mut parts: Vec<String> = tcp.congestion.iter().map(|c| clean(c).into_owned()).collect();
    parts.extend(tcp.rtt_max_s.map(|max| format!("RTT max {}", number::seconds_short(max))));
    parts.extend(tcp.cwnd_bytes.map(|cwnd| format!("cwnd {}", number::bytes(cwnd))));
    parts.extend(held_back(tcp));
    parts.join(" · ")
}

/// `client 12 % of core 1 · server 28 % of core 2 (71 % softirq)`.
fn cpus(ends: [(&str, Option<&CpuFigures>); 2]) -> String {
    let words = |(name, cpu): (&str, Option<&CpuFigures>)| {
        let cpu = cpu?;
        let core = cpu.core.map_or("one core".to_owned(), |core| format!("core {core}"));
        let mut text = format!("{name} {} of {core}", number::cpu(cpu.thread_percent));
        if let Some(ready) = cpu.ready_percent.filter(|&p| p >= 1.0) {
            text.push_str(&format!(", {} waiting for it", number::cpu(ready)));
        }
        if let Some(softirq) = cpu.softirq_percent.filter(|&p| p >= 10.0) {
            text.push_str(&format!(" ({} softirq)", number::cpu(softirq)));
        }
        Some(text)
    };
    let parts: Vec<String> = ends.into_iter().filter_map(words).collect();
    parts.join(" · ")
}

/// Doubts that are shown in full where not everything was asked for.
const MOST_DOUBTS: usize = 2;

/// The doubts of `record` as the default screen shows them, in full, and those that every test of
/// its kind has, in a line.
pub(super) fn doubts(record: &RunRecord) -> (Vec<String>, Option<String>) {
    let plan = record.agreed.as_ref().unwrap_or(&record.asked);
    // What the ends do with the bytes unless they are asked otherwise.
    let usual_bytes = plan.send.as_ref().is_none_or(|way| *way == Sending::Copy)
        && plan.receive.as_ref().is_some_and(|way| *way != Receiving::Copy);
    let mut usual = Vec::new();
    let mut full = Vec::new();
    for doubt in &record.doubts {
        match doubt.kind {
            DoubtKind::SharedHost => usual.push("both ends on one host: no network"),
            DoubtKind::BytesNotCopied if usual_bytes => {
                usual.push("bytes not copied (--rx copy does)");
            }
            _ => full.push(clean(&doubt.text).into_owned()),
        }
    }
    let more = full.len().saturating_sub(MOST_DOUBTS);
    if more > 0 {
        full.truncate(MOST_DOUBTS);
        full.push(format!("{more} more, see -v"));
    }
    usual.dedup();
    (full, (!usual.is_empty()).then(|| usual.join(" · ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::record::Doubt;
    use linerate_testkit::records;

    fn doubt(kind: DoubtKind, text: &str) -> Doubt {
        Doubt::new(kind, text)
    }

    #[test]
    fn doubts_of_every_local_test_are_one_short_line() {
        let mut record = records::tcp();
        let plan = record.agreed.as_mut().unwrap();
        plan.receive = Some(Receiving::Discard.into());
        record.doubts = vec![
            doubt(DoubtKind::BytesNotCopied, "the receiver discarded the bytes"),
            doubt(DoubtKind::HostBusy, "other work"),
            doubt(DoubtKind::SharedHost, "one kernel"),
        ];
        let (full, usual) = doubts(&record);
        assert_eq!(full, ["other work"]);
        let usual = usual.unwrap();
        assert!(usual.contains("one host") && usual.contains("--rx copy"), "{usual}");
        assert!("note: ".len() + usual.chars().count() <= 80, "{usual}");
        // Asked for, so it is worth its sentence.
        record.agreed.as_mut().unwrap().send = Some(Sending::Sendfile.into());
        assert_eq!(doubts(&record).0, ["the receiver discarded the bytes", "other work"]);
        record.doubts = (0..9).map(|n| doubt(DoubtKind::HostBusy, &format!("{n}"))).collect();
        assert_eq!(doubts(&record).0, ["0", "1", "7 more, see -v"]);
    }

    #[test]
    fn places_of_loss_are_named_by_the_end_that_lost() {
        let mut record = records::udp_receiver_drops();
        let first = |record: &RunRecord| Headline::new(record).results.remove(0);
        assert_eq!(
            first(&record),
            "135.6 Mbit/s received of 160.0 offered · \
             15.26 % lost (20 737: all dropped by the server's rcvbuf)"
        );
        record.agreed.as_mut().unwrap().direction = PlanDirection::Reverse.into();
        assert!(first(&record).contains("the client's rcvbuf"));
        let receiver = record.totals.receiver.as_mut().unwrap();
        (receiver.lost_path, receiver.dropped_receiver) = (Some(737), Some(20_000));
        assert!(
            first(&record)
                .contains("(20 737: 737 lost on the path, 20 000 dropped by the client's rcvbuf)")
        );
        record.totals.receiver.as_mut().unwrap().lost = None;
        assert_eq!(first(&record), "135.6 Mbit/s received of 160.0 offered");
    }

    #[test]
    fn a_sender_that_falls_short_is_shown_with_what_was_asked() {
        let mut record = records::udp_receiver_drops();
        for plan in [Some(&mut record.asked), record.agreed.as_mut()].into_iter().flatten() {
            plan.rate_bps = Some(1_000_000_000);
        }
        let first = Headline::new(&record).results.remove(0);
        assert!(first.contains("of 160.0 offered (1.000 Gbit/s asked) ·"), "{first}");
    }

    #[test]
    fn a_test_without_a_verdict_or_figures_has_no_headline() {
        assert_eq!(Headline::new(&records::failed()), Headline::default());
        assert!(Headline::new(&records::invalid()).results.is_empty());
    }
}
