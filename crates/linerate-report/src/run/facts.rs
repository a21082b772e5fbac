//! Everything that is known of a test when it is over, a labelled line each.

use linerate_analysis::metric::{Flow, flows};
use linerate_model::plan::{EngineChoice, Receiving, Sending};
use linerate_model::record::{
    CpuFigures, Quantiles, ReceiverFigures, RrFigures, RunRecord, SenderFigures, TcpFigures,
};

use super::words::plural;
use crate::clean::clean;
use crate::number;

/// Label and text.
pub type Facts = Vec<(String, String)>;

pub(super) fn facts(record: &RunRecord) -> Facts {
    let mut facts = Facts::new();
    let totals = &record.totals;
    for flow in flows(totals) {
        let prefix = flow.way.map_or(String::new(), |way| format!("{} ", way.name()));
        direction(&mut facts, &prefix, &flow);
    }
    if let Some(rr) = &totals.rr {
        transactions(&mut facts, rr);
    }
    facts.extend(sockets(record, true));
    facts
}

fn direction(facts: &mut Facts, prefix: &str, flow: &Flow<'_>) {
    let (sender, receiver) = (flow.sender, flow.receiver);
    let mut add = |label: &str, text: String| {
        if !text.is_empty() {
            facts.push((format!("{prefix}{label}"), text));
        }
    };
    add("datagrams", datagrams(flow, true));
    if let Some(receiver) = receiver {
        if let Some(runs) = receiver.loss_runs.as_ref().filter(|r| r.count > 0) {
            add(
                "loss runs",
                format!(
                    "{}, mean {:.1} and longest {}",
                    number::integer(runs.count),
                    runs.mean,
                    plural(runs.longest, "datagram")
                ),
            );
        }
        if let Some(jitter) = receiver.jitter_s {
            add("jitter", number::seconds(jitter));
        }
        if let Some(variation) = &receiver.delay_variation_s {
            add("delay variation", quantiles(variation));
        }
        if let Some(delay) = &receiver.one_way_delay_s {
            add(
                "one-way delay",
                format!(
                    "{} · clocks known to {} either way",
                    quantiles(&delay.quantiles),
                    number::seconds(delay.clock_error_s)
                ),
            );
        }
    }
    if let Some(sender) = sender {
        add("pacing", pacing(sender));
        if let Some(tcp) = &sender.tcp {
            add("tcp", tcp_words(tcp));
        }
        add("sender", sender.cpu.as_ref().map(cpu).unwrap_or_default());
    }
    if let Some(receiver) = receiver {
        add("receiver", receiver.cpu.as_ref().map(cpu).unwrap_or_default());
    }
    add("kernel counters", counters(sender, receiver, true));
}

/// What the kernel counted at both ends; `all`: harmless counts too.
pub(super) fn counters(
    sender: Option<&SenderFigures>,
    receiver: Option<&ReceiverFigures>,
    all: bool,
) -> String {
    let mut counters = Vec::new();
    for (end, host) in [
        ("sender", sender.and_then(|s| s.host.as_ref())),
        ("receiver", receiver.and_then(|r| r.host.as_ref())),
    ] {
        let Some(host) = host else { continue };
        let mut words = Vec::new();
        if end == "sender" {
            let packets = host.nic_tx_packets.filter(|_| all);
            words.extend(packets.map(|n| format!("NIC sent {}", plural(n, "packet"))));
            harm(&mut words, host.nic_tx_dropped, "dropped by the NIC");
            harm(&mut words, host.qdisc_dropped, "dropped by its queue");
            harm(&mut words, host.udp_send_buffer_errors, "UDP SndbufErrors");
        } else {
            harm(&mut words, host.nic_rx_dropped, "dropped by the NIC");
            harm(&mut words, host.udp_receive_buffer_errors, "UDP RcvbufErrors");
            harm(&mut words, host.udp_checksum_errors, "bad checksums");
            harm(&mut words, host.softnet_dropped, "dropped from the backlog");
        }
        if !words.is_empty() {
            counters.push(format!("{end}: {}", words.join(", ")));
        }
    }
    counters.join(" · ")
}

fn harm(words: &mut Vec<String>, value: Option<u64>, what: &str) {
    if let Some(value) = value.filter(|&v| v > 0) {
        words.push(format!("{} {what}", number::integer(value)));
    }
}

/// Datagrams by what became of them; `all`: what the headline has said too.
pub(super) fn datagrams(flow: &Flow<'_>, all: bool) -> String {
    let mut parts = Vec::new();
    if let Some(sender) = flow.sender {
        parts.extend(sender.datagrams.map(|n| format!("{} sent", number::integer(n))));
        harm(&mut parts, sender.refused_locally.filter(|_| all), "more were local send errors");
    }
    if let Some(receiver) = flow.receiver {
        parts.extend(receiver.datagrams.map(|n| format!("{} received", number::integer(n))));
        parts.extend(receiver.lost.filter(|_| all).map(|lost| losses(receiver, lost)));
        harm(&mut parts, receiver.duplicates, "dup");
        harm(&mut parts, receiver.reordered, "reordered");
        harm(&mut parts, receiver.late, "late");
        harm(&mut parts, receiver.corrupt, "corrupt");
    }
    harm(&mut parts, flow.sender.and_then(|s| s.given_up), "skipped slots");
    parts.join(" · ")
}

fn losses(receiver: &ReceiverFigures, lost: u64) -> String {
    let places = [
        (receiver.lost_path, "on the path"),
        (receiver.dropped_receiver, "in the receiver's rcvbuf"),
        (receiver.unattributed.filter(|&u| u > 0), "in one of the two"),
    ];
    let of = |(n, place): (Option<u64>, &str)| Some(format!("{} {place}", number::integer(n?)));
    let places: Vec<String> = places.into_iter().filter_map(of).filter(|_| lost > 0).collect();
    let lost = number::integer(lost);
    match places.is_empty() {
        true => format!("{lost} lost"),
        false => format!("{lost} lost ({})", places.join(", ")),
    }
}

fn quantiles(q: &Quantiles) -> String {
    let known = [
        ("min", q.min),
        ("p50", Some(q.p50)),
        ("p90", Some(q.p90)),
        ("p99", Some(q.p99)),
        ("p99.9", Some(q.p999)),
        ("p99.99", q.p9999),
        ("max", Some(q.max)),
        ("mean", q.mean),
    ];
    let words = |(name, value): (&str, Option<f64>)| {
        value.map(|value| format!("{name} {}", number::seconds(value)))
    };
    known.into_iter().filter_map(words).collect::<Vec<_>>().join(" · ")
}

fn pacing(sender: &SenderFigures) -> String {
    let Some(pacing) = &sender.pacing else { return String::new() };
    let nanos = |ns: u64| number::seconds(ns as f64 / 1e9);
    let mut parts = Vec::new();
    let mean = |error| format!("mean rate {} from the asked", number::ppm(error));
    parts.extend(pacing.mean_error_ppm.map(mean));
    let mut gaps = format!(
        "gaps p50 {}, p99 {}, max {}",
        nanos(pacing.gap_p50_ns),
        nanos(pacing.gap_p99_ns),
        nanos(pacing.gap_max_ns)
    );
    if let Some(nominal) = pacing.gap_nominal_ns {
        gaps.push_str(&format!(" (nominal {})", nanos(nominal)));
    }
    parts.push(gaps);
    parts.extend(sender.late_wakeups.filter(|&l| l > 0).map(|late| plural(late, "late wake-up")));
    parts.join(" · ")
}

fn tcp_words(tcp: &TcpFigures) -> String {
    let mut parts = Vec::new();
    parts.extend(tcp.congestion.as_deref().map(|name| clean(name).into_owned()));
    parts.extend(tcp.mss_bytes.map(|mss| format!("MSS {mss} B")));
    parts.extend(tcp.bytes_acked.map(|acked| format!("{} acknowledged", number::bytes(acked))));
    parts.extend(tcp.retransmits.map(|n| format!("{} retransmitted", plural(n, "segment"))));
    if let Some(rtt) = tcp.rtt_s {
        let end = |word: &str, value: Option<f64>| {
            value.map_or(String::new(), |value| format!(", {word} {}", number::seconds(value)))
        };
        let (least, most) = (end("min", tcp.min_rtt_s), end("max", tcp.rtt_max_s));
        // Records of older versions hold the last moment's, without a largest one.
        let mean = if tcp.rtt_max_s.is_some() { "mean " } else { "" };
        parts.push(format!("RTT {mean}{}{least}{most}", number::seconds(rtt)));
    }
    if let (Some(mean), Some(least), Some(most)) =
        (tcp.cwnd_bytes, tcp.cwnd_min_bytes, tcp.cwnd_max_bytes)
    {
        let [mean, least, most] = [mean, least, most].map(number::bytes);
        parts.push(format!("cwnd mean {mean}, min {least}, max {most}"));
    }
    parts.extend(held_back(tcp));
    parts.join(" · ")
}

/// What kept a sender from sending more, for more than a hundredth of the time.
pub(super) fn held_back(tcp: &TcpFigures) -> impl Iterator<Item = String> {
    let limits = [
        (tcp.rwnd_limited_ratio, "the receiver's window"),
        (tcp.sndbuf_limited_ratio, "the send buffer"),
    ];
    limits.into_iter().filter_map(|(ratio, by)| {
        let percent = number::cpu(ratio.filter(|&r| r >= 0.01)? * 100.0);
        Some(format!("{percent} of the time limited by {by}"))
    })
}

fn cpu(cpu: &CpuFigures) -> String {
    let mut text = match cpu.core {
        Some(core) => format!("thread {} of core {core}", number::cpu(cpu.thread_percent)),
        None => format!("its process {} of one core", number::cpu(cpu.thread_percent)),
    };
    if let Some(ready) = cpu.ready_percent.filter(|ready| *ready >= 1.0) {
        text.push_str(&format!(", waiting for a core {}", number::cpu(ready)));
    }
    if cpu.threads_percent > cpu.thread_percent {
        text.push_str(&format!(", all its threads {}", number::cpu(cpu.threads_percent)));
    }
    if let Some(busy) = cpu.core_percent {
        text.push_str(&format!(" · that core {} busy", number::cpu(busy)));
        let parts: Vec<String> = [
            ("user", cpu.user_percent),
            ("system", cpu.system_percent),
            ("softirq", cpu.softirq_percent),
            ("steal", cpu.steal_percent),
        ]
        .into_iter()
        .filter_map(|(name, p)| p.map(|p| format!("{name} {}", number::cpu(p))))
        .collect();
        if !parts.is_empty() {
            text.push_str(&format!(" ({})", parts.join(", ")));
        }
    }
    if !cpu.irq_cores.is_empty() {
        let cores: Vec<String> = cpu
            .irq_cores
            .iter()
            .take(8)
            .map(|c| format!("{} {}", c.core, number::cpu(c.core_percent)))
            .collect();
        text.push_str(&format!(" · interrupts on core {}", cores.join(", ")));
    }
    text
}

fn transactions(facts: &mut Facts, rr: &RrFigures) {
    let mut text = plural(rr.transactions, "transaction");
    if let Some(unanswered) = rr.unanswered {
        text.push_str(&format!(" · {} never answered", number::integer(unanswered)));
    }
    // A few are always on their way.
    if let Some(unfinished) = rr.unfinished.filter(|n| n.saturating_mul(100) > rr.transactions) {
        text.push_str(&format!(" · {} not answered by the end", number::integer(unfinished)));
    }
    facts.push(("done".to_owned(), text));
    facts.extend(rr.latency_s.as_ref().map(|q| ("latency".to_owned(), quantiles(q))));
    facts.extend(rr.cpu.as_ref().map(|figures| ("client".to_owned(), cpu(figures))));
    facts.extend(rr.server_cpu.as_ref().map(|figures| ("server".to_owned(), cpu(figures))));
}

/// Engine and socket buffers: known for certain only when the test is over. `all`: what is usual too.
pub(super) fn sockets(record: &RunRecord, all: bool) -> Option<(String, String)> {
    let plan = record.agreed.as_ref()?;
    let mut parts = Vec::new();
    if let Some(engine) = &plan.engine {
        let train = match plan.train_datagrams {
            Some(n) if n > 1 => format!(", up to {n} datagrams at once"),
            Some(_) if all && *engine == EngineChoice::Mmsg => ", many datagrams a call".to_owned(),
            Some(_) if all => ", one datagram at a time".to_owned(),
            _ => String::new(),
        };
        parts.push(format!("{}{train}", clean(engine.name())));
    }
    if let Some(granted) = plan.window_granted {
        let size = |b: Option<u64>| number::or_absent(b, number::bytes);
        let (send, receive) = (size(granted.send_bytes), size(granted.receive_bytes));
        let asked = record.asked.window_bytes.filter(|_| all);
        let asked = asked.map(|asked| format!(" (asked {})", number::bytes(asked)));
        parts.push(format!("sndbuf {send} · rcvbuf {receive}{}", asked.unwrap_or_default()));
    }
    if all {
        let receive = plan.receive.as_ref().filter(|&way| *way != Receiving::Copy);
        parts.extend(receive.map(|way| format!("received by {}", clean(way.name()))));
        let send = plan.send.as_ref().filter(|&way| *way != Sending::Copy);
        parts.extend(send.map(|way| format!("sent by {}", clean(way.name()))));
    }
    (!parts.is_empty()).then(|| ("sockets".to_owned(), parts.join(" · ")))
}
