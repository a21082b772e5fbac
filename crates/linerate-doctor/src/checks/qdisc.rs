//! What queues on the way out.

use std::cmp::Reverse;

use linerate_model::doctor::QdiscDetails;
use linerate_model::doctor::Severity::{Note, Problem, Warning};
use linerate_model::setting::SettingValue;

use crate::Check;
use crate::case::{Case, rate_words};
use crate::draft::{Draft, found};

pub(crate) const CHECKS: &[Check] = &[
    Check { id: "qdisc.shaper", judge: shaper },
    Check { id: "qdisc.emulator", judge: emulator },
    Check { id: "qdisc.short", judge: short },
    Check { id: "qdisc.kind", judge: kind },
    Check { id: "qdisc.pacing", judge: pacing },
    Check { id: "qdisc.drops", judge: drops },
];

/// The kernel's own queue has 1,000. One sendmmsg(2) of linerate's alone brings up to 64; a train of segmentation offload is one.
const FEW_PACKETS: u32 = 100;
/// Disciplines that hold a rate, by classes or a bucket of their own.
const SHAPERS: &[&str] = &["tbf", "htb", "hfsc", "cbs", "etf", "taprio"];
/// Disciplines for slow links: they keep few packets, or drop early at fixed lengths.
const SLOW: &[(&str, &str)] = &[
    ("sfq", "it keeps 127 packets for all flows, and its shuffling reorders"),
    ("red", "its fixed lengths drop early on a fast link"),
    ("gred", "its fixed lengths drop early on a fast link"),
    ("choke", "its fixed lengths drop early on a fast link"),
    ("sfb", "it drops early on a fast link"),
];

fn qdiscs<'a>(case: &Case<'a>) -> Result<&'a [QdiscDetails], String> {
    case.nic()?;
    Ok(case.host.device.qdiscs.get()?)
}

/// Disciplines that are nothing but themselves: no classes, and no queues with settings of their own.
const PLAIN: &[&str] = &[
    "noqueue",
    "pfifo",
    "bfifo",
    "pfifo_fast",
    "fq",
    "fq_codel",
    "codel",
    "pie",
    "fq_pie",
    "sfq",
    "red",
    "choke",
    "sfb",
    "tbf",
    "netem",
    "cake",
    "etf",
];

/// The root, where it is plain and nothing hangs below it: putting it back with its options undoes its change.
fn lone<'a>(case: &Case<'a>) -> Option<&'a QdiscDetails> {
    match qdiscs(case) {
        Ok([root]) if PLAIN.contains(&root.kind.as_str()) => Some(root),
        _ => None,
    }
}

/// How the root is changed by hand; the old one has to be noted first. With a root that goes, classes, filters and what
/// hangs below go too, and no command brings them back: there it is said what to look at.
fn by_hand(draft: Draft, case: &Case<'_>, change: &str) -> Draft {
    let name = case.host.interface();
    match lone(case) {
        Some(root) => draft.run(
            format!("tc qdisc show dev {name}  # note its options; then: {change}"),
            format!("tc qdisc replace dev {name} root {} OPTIONS", root.kind),
        ),
        None if is_mq(case) => draft.run(per_queue(name), ""),
        None => draft.run(
            format!(
                "tc qdisc show dev {name}; tc class show dev {name}; tc filter show dev {name}  # change the one that is \
                 meant: all of them go with the root"
            ),
            "",
        ),
    }
}

/// Another discipline in place of the root.
fn replaced(draft: Draft, case: &Case<'_>, then: &str) -> Draft {
    let change = format!("tc qdisc replace dev {} root {then}", case.host.interface());
    let draft = by_hand(draft, case, &change);
    match lone(case) {
        Some(_) => draft.set("qdisc", SettingValue::Text(then.to_owned())),
        None => draft,
    }
}

/// The kernel's usual discipline in place of this one. By its own kind a root is not replaced and keeps its settings.
fn usual<'a>(case: &Case<'a>, now: &str) -> &'a str {
    let better = |then: &&str| *then != now && SLOW.iter().all(|(kind, _)| kind != then);
    // Every kernel has pfifo_fast; others may be modules that are not there.
    let usual = case.host.sysctl("net.core.default_qdisc").ok();
    usual.filter(better).unwrap_or("pfifo_fast")
}

/// Each queue of the card has a discipline of its own: one for all of them would make them one queue.
fn is_mq(case: &Case<'_>) -> bool {
    qdiscs(case).is_ok_and(|all| all.first().is_some_and(|root| root.kind.starts_with("mq")))
}

fn per_queue(name: &str) -> String {
    format!(
        "tc qdisc show dev {name}  # each queue below mq has its own: tc qdisc replace dev {name} parent MQ:QUEUE …"
    )
}

fn shaper(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let holds = |q: &&QdiscDetails| q.rate_bps.is_some() || SHAPERS.contains(&q.kind.as_str());
    let of_flow = |q: &QdiscDetails| q.kind == "fq";
    let severity = |q: &QdiscDetails| match (q.rate_bps, case.goal.rate_bps) {
        // More flows carry more.
        (Some(rate), Some(goal)) if rate < goal && of_flow(q) => Warning,
        (Some(rate), Some(goal)) if rate < goal => Problem,
        (Some(_), Some(_)) => Note,
        _ => Warning,
    };
    // The gravest of them, and of those as grave the slowest that is known.
    let gravest = |q: &&QdiscDetails| (Reverse(severity(q)), q.rate_bps.unwrap_or(u64::MAX));
    let Some(shaper) = qdiscs(case)?.iter().filter(holds).min_by_key(gravest) else {
        return Ok(None);
    };
    let (name, kind) = (case.host.interface(), &shaper.kind);
    let at = shaper.rate_bps.map_or("a rate".to_owned(), rate_words);
    let (what, held) = match of_flow(shaper) {
        true => ("each flow on ", "no stream"),
        false => ("", "nothing"),
    };
    let draft = found(
        severity(shaper),
        format!("{kind} holds {what}{name} to {at}"),
        format!(
            "{held} that this host sends there is faster; what does not fit waits, then is dropped"
        ),
    );
    Ok(Some(replaced(draft, case, usual(case, kind)).source(&format!("tc-{kind}(8)"))))
}

fn emulator(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let netem = qdiscs(case)?.iter().any(|q| q.kind == "netem");
    let name = case.host.interface();
    Ok(netem.then(|| {
        let draft = found(
            Problem,
            format!("netem makes up delay, loss or order on {name}"),
            "what is measured over it is the emulation",
        );
        by_hand(draft, case, &format!("tc qdisc del dev {name} root")).source("tc-netem(8)")
    }))
}

fn short(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let Some(root) = qdiscs(case)?.first() else { return Ok(None) };
    let name = case.host.interface();
    let packets = match root.kind.as_str() {
        "pfifo" | "fq" | "fq_codel" | "codel" | "pie" | "fq_pie" => root.limit_packets,
        "pfifo_fast" => Some(*case.host.device.queue_length.get()?),
        _ => None,
    };
    let Some(packets) = packets.filter(|packets| *packets < FEW_PACKETS) else { return Ok(None) };
    let draft = found(
        Warning,
        format!("the queue of {name} ({}) has room for {packets} packets", root.kind),
        "one system call may bring 64 datagrams, and each sender its own; what does not fit is dropped before it leaves",
    );
    let draft = match root.kind.as_str() {
        "pfifo_fast" => draft.run(
            format!("ip link set dev {name} txqueuelen 1000"),
            format!("ip link set dev {name} txqueuelen {packets}"),
        ),
        kind => replaced(draft, case, usual(case, kind)),
    };
    Ok(Some(draft.source("tc-pfifo(8), tc-fq_codel(8)")))
}

fn kind(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let Some((kind, why)) =
        qdiscs(case)?.iter().find_map(|q| SLOW.iter().find(|(k, _)| *k == q.kind))
    else {
        return Ok(None);
    };
    let what = format!("the queue of {} is {kind}", case.host.interface());
    let draft = replaced(found(Warning, what, *why), case, usual(case, kind));
    Ok(Some(draft.source(&format!("tc-{kind}(8)"))))
}

fn pacing(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let control = case.host.sysctl("net.ipv4.tcp_congestion_control")?;
    let paced = qdiscs(case)?.iter().any(|q| q.kind == "fq");
    if !control.starts_with("bbr") || paced || case.is_local() {
        return Ok(None);
    }
    let name = case.host.interface();
    let draft = found(
        Note,
        format!("{control} is paced by TCP's own timers, not by fq on {name}"),
        "pacing by fq costs less CPU with many connections",
    );
    Ok(Some(replaced(draft, case, "fq").source("tc-fq(8)")))
}

fn drops(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let watched = case.host.watched.get()?;
    let Some(dropped) = watched.qdisc_dropped.filter(|dropped| *dropped > 0) else {
        return Ok(None);
    };
    let name = case.host.interface();
    Ok(Some(
        found(
            Warning,
            format!("the queue of {name} dropped {dropped} packets in {} ms", watched.for_ms),
            "this host sends more than the interface, or a shaper on it, takes",
        )
        .run(format!("tc -s qdisc show dev {name}"), "")
        .source("measured while it was watched"),
    ))
}
