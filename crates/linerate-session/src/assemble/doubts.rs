//! What takes from the trust in a record.

use linerate_model::local_errors::LocalSendErrors;
use linerate_model::plan::{Dialect, EngineChoice, Traffic, Way};
use linerate_model::record::{Doubt, DoubtKind, RunRecord, TestEnd};
use linerate_model::sample::SendCounts;

use super::Outcome;
use super::coarse::coarse_rate;
use super::figures::{added, hundredths, percent, seconds};
use super::totals::{is_udp, streams_of};
use crate::verdict::local_errors::{main_failure, told};

/// Engines that an end could not use, and clocks that it lacks.
fn of_engines(outcome: &Outcome) -> Vec<(DoubtKind, String)> {
    let mut doubts = Vec::new();
    for (way, sender, receiver) in
        [(Way::Forward, "client", "server"), (Way::Reverse, "server", "client")]
    {
        let sends = streams_of(outcome, way).filter_map(|s| s.send.as_ref());
        if let Some((why, report)) = sends.filter_map(|s| Some((s.fallback.as_ref()?, s))).next() {
            let used = report.engines.join(", then ");
            let text = format!("the {sender}'s {why}; engines used: {used}");
            doubts.push((DoubtKind::EngineFallback, text));
        }
        let recvs = || streams_of(outcome, way).filter_map(|s| s.recv.as_ref());
        if let Some((why, used)) = recvs().find_map(|r| Some((r.fallback.as_ref()?, &r.engine))) {
            let text = format!("the {receiver}'s {why}; it received with {used}");
            doubts.push((DoubtKind::EngineFallback, text));
        }
        if let Some(why) = recvs().find_map(|r| r.unstamped.as_ref()) {
            let text = format!(
                "the {receiver}'s system stamps no arrivals ({why}): jitter and delay are of the times at which datagrams were read"
            );
            doubts.push((DoubtKind::Degraded, text));
        }
    }
    doubts
}

pub(super) fn doubts(record: &mut RunRecord, outcome: &Outcome) {
    let mut add = |kind, text: String| record.doubts.push(Doubt::new(kind, text));
    let sends = || outcome.streams.iter().filter_map(|s| s.send.as_ref());
    let recvs = || outcome.streams.iter().filter_map(|s| s.recv.as_ref());
    for (kind, text) in of_engines(outcome) {
        add(kind, text);
    }
    if let Traffic::Udp(udp) = &outcome.plan.traffic
        && udp.engine == EngineChoice::Gso
        && let Some(used) =
            sends().find_map(|s| s.engines.first()).filter(|used| *used != EngineChoice::Gso.name())
    {
        let why = if udp.checksum {
            "one packet holds no two datagrams of this size"
        } else {
            "the kernel segments no datagrams without checksum"
        };
        add(DoubtKind::EngineFallback, format!("gso was asked for and {used} used: {why}"));
    }
    if let Some(mtu) = sends().find_map(|s| s.small_mtu).filter(|_| !outcome.fragments) {
        add(
            DoubtKind::Degraded,
            format!(
                "the path's MTU turned out to be {mtu} bytes while the test ran, and the datagrams do not fit: each travels in fragments, and one lost fragment loses it"
            ),
        );
    }
    if recvs().any(|r| r.merged) && is_udp(outcome) {
        let train = recvs().map(|r| r.train).max().unwrap_or(0);
        let unknown = added(recvs().map(|r| r.counts.loss_by_place().2));
        let mut text = format!(
            "the kernel delivered up to {train} datagrams as one packet with one time stamp: jitter and delay have one sample a packet"
        );
        if unknown > 0 {
            text.push_str(&format!(
                "; {unknown} lost datagrams could not be placed, because a drop counts once for a packet of unknown length"
            ));
        }
        add(DoubtKind::OffloadMerging, text);
    }
    let faults = added(recvs().map(|r| r.timestamp_faults));
    if faults > 0 && is_udp(outcome) {
        add(
            DoubtKind::ClockStepped,
            format!(
                "{faults} packets had no usable kernel time stamp; they are in no delay figure"
            ),
        );
    }
    let unknown = added(recvs().map(|r| r.unknown_late));
    if unknown > 0 {
        add(
            DoubtKind::CountersDisagree,
            format!(
                "{unknown} datagrams came too late to be told from duplicates; they count as lost"
            ),
        );
    }
    let unread = added(recvs().map(|r| r.unread));
    if unread > 0 {
        add(
            DoubtKind::HostBusy,
            format!(
                "the receiver was so far behind that up to {unread} datagrams waited unread in its socket when it had to end; they count as lost, at no known place"
            ),
        );
    }
    let foreign = added(recvs().map(|r| r.counts.foreign));
    if foreign > 0 {
        add(
            DoubtKind::CountersDisagree,
            format!("{foreign} datagrams of another test arrived and were ignored"),
        );
    }
    let ends = [(TestEnd::Client, &outcome.client), (TestEnd::Server, &outcome.server)];
    for (end, host) in ends {
        let Some(total) = &host.total else { continue };
        let name = end.name();
        let mut add = |kind, text: String| {
            record.doubts.push(Doubt { host: Some(end), ..Doubt::new(kind, text) });
        };
        if total.clock_step_ns.unsigned_abs() > 1_000_000 {
            add(
                DoubtKind::ClockStepped,
                format!(
                    "the {name}'s wall clock moved by {:.3} s against its monotonic clock; spans are unharmed",
                    total.clock_step_ns as f64 / 1e9
                ),
            );
        }
        if let Some(stopped_ns) = total.stopped_ns.filter(|ns| *ns > 0) {
            add(
                DoubtKind::Stopped,
                format!(
                    "the {name} did not run for {:.1} s during the test: its process was stopped, or its whole machine",
                    seconds(stopped_ns)
                ),
            );
        }
        if let Some(core) =
            total.cores.iter().max_by_key(|core| core.steal).filter(|core| core.steal >= 500)
        {
            add(
                DoubtKind::HostBusy,
                format!(
                    "the hypervisor took {:.0} % of the {name}'s core {}",
                    hundredths(core.steal),
                    core.core
                ),
            );
        }
        // Tasks that wait elsewhere took nothing from a test whose own threads did not.
        let waited = longest_wait_percent(outcome, end == TestEnd::Client, total.span_ns);
        if let Some(pressure) = total.cpu_pressure.filter(|p| *p >= 2_000)
            && waited.is_none_or(|percent| percent >= 1.0)
        {
            let own = waited.map_or(String::new(), |percent| {
                format!(", this test's busiest thread {percent:.0} %")
            });
            add(
                DoubtKind::HostBusy,
                format!(
                    "on the {name}, some task waited for a core {:.0} % of the time (PSI){own}: other work ran beside this test",
                    hundredths(pressure)
                ),
            );
        }
        if let Some(throttled_ns) = total.counters.throttled_ns.filter(|ns| *ns > 0) {
            add(
                DoubtKind::HostBusy,
                format!(
                    "the {name} was throttled by its cgroup's CPU limit for {:.3} s",
                    seconds(throttled_ns)
                ),
            );
        }
        if let Some(wrong) = total.counters.udp_checksum_errors.filter(|n| *n > 0)
            && is_udp(outcome)
        {
            add(
                DoubtKind::CountersDisagree,
                format!(
                    "the {name}'s kernel dropped {wrong} UDP datagrams with a wrong checksum, this test's or others'"
                ),
            );
        }
    }
    let mut add = |kind, text: String| record.doubts.push(Doubt::new(kind, text));
    // The sockets' own counters against the host's, where it tells them: the host's must not be smaller.
    for (way, host) in [(Way::Forward, &outcome.server), (Way::Reverse, &outcome.client)] {
        let drops = added(
            streams_of(outcome, way).filter_map(|s| s.recv.as_ref()).map(|r| r.counts.socket_drops),
        );
        let counters = host.total.as_ref().map(|total| total.counters).unwrap_or_default();
        if let Some(rose) = counters.udp_receive_buffer_errors
            && is_udp(outcome)
            && drops > rose.saturating_add(counters.udp_checksum_errors.unwrap_or(0))
        {
            add(
                DoubtKind::CountersDisagree,
                format!(
                    "the receiving sockets counted {drops} drops, the host's RcvbufErrors rose by {rose} only"
                ),
            );
        }
    }
    for (name, errors) in local_errors(outcome) {
        if let Some(errno) = main_failure(&errors) {
            let look_at = errno.look_at().map_or(String::new(), |look| format!("; look at {look}"));
            let text = told(&errors, errno);
            add(
                DoubtKind::LocalSendErrors,
                format!("local send errors of the {name}'s host, {text}{look_at}"),
            );
        }
    }
    // A message for which the kernel had no room is one SndbufError, and at most a train.
    for (way, host) in [(Way::Forward, &outcome.client), (Way::Reverse, &outcome.server)] {
        let sends = || streams_of(outcome, way).filter_map(|s| s.send.as_ref());
        let refused = added(sends().map(|s| no_room(&s.counts)));
        let train = u64::from(sends().map(|s| s.train).max().unwrap_or(1).max(1));
        if let Some(rose) = host.total.as_ref().and_then(|h| h.counters.udp_send_buffer_errors)
            && is_udp(outcome)
            && sends().all(|s| s.fallback.is_none())
            && refused > rose.saturating_mul(train)
        {
            add(
                DoubtKind::CountersDisagree,
                format!(
                    "the sending sockets counted {refused} datagrams refused, the host's SndbufErrors rose by {rose} only"
                ),
            );
        }
    }
    if let Traffic::Tcp(tcp) = &outcome.plan.traffic {
        if tcp.discard {
            add(DoubtKind::BytesNotCopied, "the receiver discarded the bytes inside the kernel (MSG_TRUNC); an application that reads them needs more CPU".into());
        }
        if tcp.zerocopy {
            add(DoubtKind::BytesNotCopied, "the sender sent the same pages again and again (sendfile); an application that writes its data needs more CPU".into());
        }
    }
    if let Some(text) = coarse_rate(outcome) {
        add(DoubtKind::Degraded, text);
    }
    let late = added(sends().map(|s| s.counts.late_wakeups));
    let calls = added(sends().map(|s| s.counts.calls));
    if late.saturating_mul(100) > calls && calls > 0 {
        add(
            DoubtKind::TimerLate,
            format!(
                "{late} of {calls} send calls came later than the burst limit: the host kept the schedule badly"
            ),
        );
    }
    if outcome.dialect == Dialect::Iperf3 {
        add(DoubtKind::PeerValuesMissing, iperf3_doubt(outcome));
    }
    if outcome.same_host && !outcome.discard {
        add(DoubtKind::SharedHost, "both ends ran under one kernel and share its cores: this measures the host, not a network".into());
    }
    if outcome.clock.is_some()
        && !outcome.same_host
        && outcome.plan.duration().is_some_and(|d| d.0 > 1_000_000_000)
        && is_udp(outcome)
    {
        // Said in docs, and in numbers where the drift could be seen.
        if let Some(clock) = outcome.clock.filter(|c| c.error_ns > 1_000_000) {
            add(
                DoubtKind::ClockStepped,
                format!(
                    "the two hosts' clocks are known to {:.3} ms only",
                    clock.error_ns as f64 / 1e6
                ),
            );
        }
    }
}

/// How long the data thread of one end that waited longest for a core did so, in percent of `span_ns`.
fn longest_wait_percent(outcome: &Outcome, is_client: bool, span_ns: u64) -> Option<f64> {
    let threads = outcome.streams.iter().flat_map(|s| {
        let sends = s.send.as_ref().filter(|_| s.reverse != is_client).map(|r| r.thread);
        let receives = s.recv.as_ref().filter(|_| s.reverse == is_client).map(|r| r.thread);
        let asks = s.rr.as_ref().filter(|_| is_client).map(|r| r.thread);
        let answers = s.respond.as_ref().filter(|_| !is_client).map(|r| r.thread);
        [sends, receives, asks, answers].into_iter().flatten()
    });
    // A thread that reads what is left waits on after the measured time.
    threads.filter_map(|thread| thread.ready_ns).max().map(|ns| percent(ns.min(span_ns), span_ns))
}

/// What each end's host dropped of what this test sent.
fn local_errors(outcome: &Outcome) -> [(&'static str, LocalSendErrors); 2] {
    let mut ends = [("client", LocalSendErrors::default()), ("server", LocalSendErrors::default())];
    let [(_, client), (_, server)] = &mut ends;
    for stream in &outcome.streams {
        let end = if stream.reverse { &mut *server } else { &mut *client };
        stream.send.iter().for_each(|send| end.add(&send.counts.local_errors));
        stream.rr.iter().for_each(|rr| client.add(&rr.local_errors));
        stream.respond.iter().for_each(|respond| server.add(&respond.local_errors));
    }
    ends
}

/// Of what a host dropped, what it had no room for. An older peer tells of nothing else.
fn no_room(counts: &SendCounts) -> u64 {
    if counts.local_errors.is_empty() {
        return counts.refused_locally;
    }
    added(counts.local_errors.each().filter(|(errno, _)| errno.is_no_room()).map(|(_, n)| n))
}

/// What iperf3's dialect cannot carry.
pub(super) fn iperf3_doubt(outcome: &Outcome) -> String {
    let mut missing = vec!["its intervals", "its host"];
    let udp = is_udp(outcome);
    if udp && outcome.plan.direction.has_forward() {
        missing.push("where datagrams were lost");
        missing.push("reordered, late and damaged datagrams");
        missing.push("delay");
    }
    let mut text =
        format!("the server speaks iperf3's protocol, which does not tell {}", missing.join(", "));
    if udp && outcome.plan.direction.has_forward() {
        text.push_str("; its receiver counts duplicates as arrivals, so they hide loss");
    }
    if outcome.plan.warmup.0 > 0 {
        text.push_str("; the border between warm-up and measured time is each end's own");
    }
    text
}
