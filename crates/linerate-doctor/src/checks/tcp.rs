//! TCP's own switches.

use linerate_model::doctor::Severity::{self, Note, Problem, Warning};

use crate::Check;
use crate::case::Case;
use crate::draft::{Draft, found};

pub(crate) const CHECKS: &[Check] = &[
    Check {
        id: "tcp.window-scaling",
        judge: |case| {
            let why =
                "no window can be larger than 64 KiB: 5 Mbit/s over 100 ms, 500 Mbit/s over 1 ms";
            switch(case, "net.ipv4.tcp_window_scaling", Problem, why, "RFC 7323 section 2")
        },
    },
    Check {
        id: "tcp.sack",
        judge: |case| {
            let why = "after several losses in one window TCP finds them one round trip at a time";
            switch(case, "net.ipv4.tcp_sack", Warning, why, "RFC 2018")
        },
    },
    Check {
        id: "tcp.timestamps",
        judge: |case| {
            let why = "round trips of retransmitted segments are not measured";
            switch(case, "net.ipv4.tcp_timestamps", Note, why, "RFC 7323 section 3")
        },
    },
    Check {
        id: "tcp.autotuning",
        judge: |case| {
            let why = "receive windows stay at their first size, whatever the path could carry";
            let source = "Documentation/networking/ip-sysctl.rst, tcp_moderate_rcvbuf";
            switch(case, "net.ipv4.tcp_moderate_rcvbuf", Warning, why, source)
        },
    },
    Check { id: "tcp.congestion-control", judge: congestion_control },
    Check { id: "tcp.mtu-probing", judge: mtu_probing },
];

/// A parameter that is on in every kernel unless somebody switched it off.
fn switch(
    case: &Case<'_>,
    name: &str,
    severity: Severity,
    why: &str,
    source: &str,
) -> Result<Option<Draft>, String> {
    let off = case.number(name)? == 0;
    Ok(off.then(|| {
        found(severity, format!("{name} is off"), why).sysctl(name, "0", "1").source(source)
    }))
}

/// Those that give way to others on purpose, or need what a path seldom has.
const MODEST: &[(&str, &str)] = &[
    ("lp", "it gives way to all other traffic (TCP-LP)"),
    ("vegas", "it gives way to whoever fills the queue"),
    ("nv", "it gives way to whoever fills the queue"),
    ("cdg", "it gives way when delay grows"),
    ("dctcp", "it needs switches that mark at a low threshold (RFC 8257), and is unfair without"),
    ("reno", "it needs a round trip for each segment that a long fat path lacks after a loss"),
];

fn congestion_control(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let name = "net.ipv4.tcp_congestion_control";
    let now = case.host.sysctl(name)?;
    let Some((_, why)) = MODEST.iter().find(|(known, _)| *known == now) else { return Ok(None) };
    // Of those that the kernel has at hand; it may load cubic where it has neither.
    let there = case.host.sysctl("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
    let has = |name: &&str| there.split_whitespace().any(|known| known == *name);
    let usual = ["cubic", "bbr"].into_iter().find(has).unwrap_or("cubic");
    Ok(Some(
        found(Warning, format!("TCP's congestion control is {now}"), *why)
            .sysctl(name, now, usual)
            .source("RFC 9438 section 1"),
    ))
}

fn mtu_probing(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let name = "net.ipv4.tcp_mtu_probing";
    let (now, nic) = (case.number(name)?, case.nic()?);
    if now != 0 || case.is_local() || nic.mtu.is_none_or(|mtu| mtu <= 1_500) {
        return Ok(None);
    }
    Ok(Some(
        found(
            Note,
            format!("{} has jumbo frames, and TCP does not probe what the path takes", nic.name),
            "where a router's \"packet too big\" is filtered, connections hang instead of using smaller segments",
        )
        .sysctl(name, "0", "1")
        .source("RFC 4821"),
    ))
}
