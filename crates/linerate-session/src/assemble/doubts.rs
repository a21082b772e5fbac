//! What takes from the trust in a record.

use linerate_model::local_errors::LocalSendErrors;
use linerate_model::plan::{EngineChoice, Traffic, Transport, Way};
use linerate_model::record::{Doubt, DoubtKind, RunEvent, RunRecord, TestEnd};
use linerate_model::sample::{HostSample, LostLink, SendCounts};
use linerate_model::units::si;

use super::Outcome;
use super::coarse::coarse_rate;
use super::figures::{added, hundredths, percent, seconds};
use crate::verdict::local_errors::{in_words, main_failure};

/// A doubt that is worth reporting.
fn add(doubts: &mut Vec<Doubt>, kind: DoubtKind, text: impl Into<String>) {
    doubts.push(Doubt::new(kind, text.into()));
}

pub(super) fn doubts(record: &mut RunRecord, outcome: &Outcome) {
    let doubts = &mut record.doubts;
    of_engines(doubts, outcome);
    if let Some(mtu) = outcome.sends().find_map(|s| s.small_mtu).filter(|_| !outcome.fragments) {
        add(
            doubts,
            DoubtKind::Degraded,
            format!(
                "the path's MTU turned out to be {mtu} bytes while the test ran, and the datagrams do not fit: each travels in fragments, and one lost fragment loses it"
            ),
        );
    }
    of_arrivals(doubts, outcome);
    for (end, host) in [(TestEnd::Client, &outcome.client), (TestEnd::Server, &outcome.server)] {
        if let Some(total) = &host.total {
            let mut of_end = Vec::new();
            of_host(&mut of_end, outcome, end, total);
            doubts.extend(of_end.into_iter().map(|doubt| Doubt { host: Some(end), ..doubt }));
        }
    }
    if outcome.is_udp() {
        of_drops(doubts, outcome);
    }
    of_local_errors(doubts, outcome);
    if outcome.is_udp() {
        of_refusals(doubts, outcome);
    }
    of_bytes(doubts, outcome);
    of_warmup(doubts, outcome);
    of_pace(doubts, outcome);
    of_choice(doubts, &record.events, record.asked.rate_bps);
    if let Some(missing) = (outcome.habits.missing)(&outcome.plan) {
        add(doubts, DoubtKind::PeerValuesMissing, missing);
    }
    of_hosts(doubts, outcome);
}

/// Rates that somebody chose while it ran.
fn of_choice(doubts: &mut Vec<Doubt>, events: &[RunEvent], planned: Option<u64>) {
    let chosen: Vec<u64> = events.iter().filter_map(RunEvent::chosen_bps).collect();
    let (Some(least), Some(most)) = (chosen.iter().min(), chosen.iter().max()) else { return };
    let times =
        if chosen.len() == 1 { "once".to_owned() } else { format!("{} times", chosen.len()) };
    let planned = planned.map_or("as fast as it goes".to_owned(), |bps| si(bps as f64, "bit/s"));
    let to = if least == most {
        si(*least as f64, "bit/s")
    } else {
        format!("{} to {}", si(*least as f64, "bit/s"), si(*most as f64, "bit/s"))
    };
    add(
        doubts,
        DoubtKind::RateChanged,
        format!(
            "the rate was changed by hand {times} while the test ran, from {planned} to {to}: the totals are over all of them"
        ),
    );
}

/// Whether the ends are on one host, or know too little of each other's clocks.
fn of_hosts(doubts: &mut Vec<Doubt>, outcome: &Outcome) {
    if outcome.same_host && !outcome.discard {
        add(
            doubts,
            DoubtKind::SharedHost,
            "both ends ran under one kernel and share its cores: this measures the host, not a network",
        );
    }
    // Said in docs, and in numbers where the drift could be seen.
    if let Some(clock) = outcome.clock.filter(|c| c.error_ns > 1_000_000)
        && !outcome.same_host
        && outcome.plan.duration().is_some_and(|d| d.0 > 1_000_000_000)
        && outcome.is_udp()
    {
        add(
            doubts,
            DoubtKind::ClockStepped,
            format!(
                "the two hosts' clocks are known to {:.3} ms only",
                clock.error_ns as f64 / 1e6
            ),
        );
    }
}

/// Engines that an end could not use, and clocks that it lacks.
fn of_engines(doubts: &mut Vec<Doubt>, outcome: &Outcome) {
    for (way, sender, receiver) in
        [(Way::Forward, "client", "server"), (Way::Reverse, "server", "client")]
    {
        let sent = outcome.sends_of(way).find_map(|s| Some((s.fallback.as_ref()?, &s.engines)));
        if let Some((why, engines)) = sent {
            let used = engines.join(", then ");
            let text = format!("the {sender}'s {why}; engines used: {used}");
            add(doubts, DoubtKind::EngineFallback, text);
        }
        let received = outcome.recvs_of(way).find_map(|r| Some((r.fallback.as_ref()?, &r.engine)));
        if let Some((why, used)) = received {
            let text = format!("the {receiver}'s {why}; it received with {used}");
            add(doubts, DoubtKind::EngineFallback, text);
        }
        if let Some(why) = outcome.recvs_of(way).find_map(|r| r.unstamped.as_ref()) {
            let text = format!(
                "the {receiver}'s system stamps no arrivals ({why}): jitter and delay are of the times at which datagrams were read"
            );
            add(doubts, DoubtKind::Degraded, text);
        }
    }
    if let Traffic::Udp(udp) = &outcome.plan.traffic
        && udp.engine == EngineChoice::Gso
        && let Some(used) = outcome
            .sends()
            .find_map(|s| s.engines.first())
            .filter(|e| *e != EngineChoice::Gso.name())
    {
        let why = if udp.checksum {
            "one packet holds no two datagrams of this size"
        } else {
            "the kernel segments no datagrams without checksum"
        };
        let text = format!("gso was asked for and {used} used: {why}");
        add(doubts, DoubtKind::EngineFallback, text);
    }
}

/// What the receivers could not say of what arrived.
fn of_arrivals(doubts: &mut Vec<Doubt>, outcome: &Outcome) {
    let recvs = || outcome.recvs();
    if recvs().any(|r| r.merged) && outcome.is_udp() {
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
        add(doubts, DoubtKind::OffloadMerging, text);
    }
    let faults = added(recvs().map(|r| r.timestamp_faults));
    if faults > 0 && outcome.is_udp() {
        let text = format!(
            "{faults} packets had no usable kernel time stamp; they are in no delay figure"
        );
        add(doubts, DoubtKind::ClockStepped, text);
    }
    let unknown = added(recvs().map(|r| r.unknown_late));
    if unknown > 0 {
        let text = format!(
            "{unknown} datagrams came too late to be distinguished from duplicates; they count as lost"
        );
        add(doubts, DoubtKind::CountersDisagree, text);
    }
    let unread = added(recvs().map(|r| r.unread));
    if unread > 0 {
        let text = format!(
            "the receiver was so far behind that up to {unread} datagrams waited unread in its socket when it had to end; they count as lost, at no known place"
        );
        add(doubts, DoubtKind::HostBusy, text);
    }
    let foreign = added(recvs().map(|r| r.counts.foreign));
    if foreign > 0 {
        let text = format!("{foreign} datagrams of another test arrived and were ignored");
        add(doubts, DoubtKind::CountersDisagree, text);
    }
}

/// What a host was busy with beside the test, and what its clock did.
fn of_host(doubts: &mut Vec<Doubt>, outcome: &Outcome, end: TestEnd, total: &HostSample) {
    let name = end.name();
    if total.clock_step_ns.unsigned_abs() > 1_000_000 {
        let text = format!(
            "the {name}'s wall clock moved by {:.3} s against its monotonic clock; spans are unharmed",
            total.clock_step_ns as f64 / 1e9
        );
        add(doubts, DoubtKind::ClockStepped, text);
    }
    if let Some(stopped_ns) = total.stopped_ns.filter(|ns| *ns > 0) {
        let text = format!(
            "the {name} did not run for {:.1} s during the test: its process was stopped, or its whole machine",
            seconds(stopped_ns)
        );
        add(doubts, DoubtKind::Stopped, text);
    }
    if let Some(LostLink { times, least_ns }) = total.lost_link {
        let often = if times > 1 { format!(", {times} times") } else { String::new() };
        let text = format!(
            "the {name}'s interface was down or had no carrier for at least {:.2} s of the test{often}",
            seconds(least_ns)
        );
        add(doubts, DoubtKind::LinkLost, text);
    }
    let stolen = total.cores.iter().max_by_key(|core| core.steal);
    if let Some(core) = stolen.filter(|core| core.steal >= 500) {
        let text = format!(
            "the hypervisor took {:.0} % of the {name}'s core {}",
            hundredths(core.steal),
            core.core
        );
        add(doubts, DoubtKind::HostBusy, text);
    }
    // Tasks that wait elsewhere took nothing from a test whose own threads did not.
    let waited = longest_wait_percent(outcome, end == TestEnd::Client, total.span_ns);
    if let Some(pressure) = total.cpu_pressure.filter(|p| *p >= 2_000)
        && waited.is_none_or(|percent| percent >= 1.0)
    {
        let own = waited.map_or(String::new(), |percent| {
            format!(", this test's busiest thread {percent:.0} %")
        });
        let text = format!(
            "on the {name}, some task waited for a core {:.0} % of the time (PSI){own}: other work ran beside this test",
            hundredths(pressure)
        );
        add(doubts, DoubtKind::HostBusy, text);
    }
    if let Some(throttled_ns) = total.counters.throttled_ns.filter(|ns| *ns > 0) {
        let text = format!(
            "the {name} was throttled by its cgroup's CPU limit for {:.3} core-seconds in {:.3} s",
            seconds(throttled_ns),
            seconds(total.span_ns)
        );
        add(doubts, DoubtKind::HostBusy, text);
    }
    if let Some(wrong) = total.counters.udp_checksum_errors.filter(|n| *n > 0)
        && outcome.is_udp()
    {
        let text = format!(
            "the {name}'s kernel dropped {wrong} UDP datagrams with a wrong checksum, this test's or others'"
        );
        add(doubts, DoubtKind::CountersDisagree, text);
    }
}

/// The sockets' own counters against the host's, where it reports them: the host's must not be smaller.
fn of_drops(doubts: &mut Vec<Doubt>, outcome: &Outcome) {
    for way in [Way::Forward, Way::Reverse] {
        let drops = added(outcome.recvs_of(way).map(|r| r.counts.socket_drops));
        let (_, host) = outcome.ends(way);
        let counters = host.total.as_ref().map(|total| total.counters).unwrap_or_default();
        if let Some(rose) = counters.udp_receive_buffer_errors
            && drops > rose.saturating_add(counters.udp_checksum_errors.unwrap_or(0))
        {
            let text = format!(
                "the receiving sockets counted {drops} drops, the host's RcvbufErrors rose by {rose} only"
            );
            add(doubts, DoubtKind::CountersDisagree, text);
        }
    }
}

fn of_local_errors(doubts: &mut Vec<Doubt>, outcome: &Outcome) {
    for (name, errors) in local_errors(outcome) {
        if let Some(errno) = main_failure(&errors) {
            let look_at = errno.look_at().map_or(String::new(), |look| format!("; look at {look}"));
            let text = in_words(&errors, errno);
            add(
                doubts,
                DoubtKind::LocalSendErrors,
                format!("local send errors of the {name}'s host, {text}{look_at}"),
            );
        }
    }
}

/// A message for which the kernel had no room is one SndbufError, and at most a train.
fn of_refusals(doubts: &mut Vec<Doubt>, outcome: &Outcome) {
    for way in [Way::Forward, Way::Reverse] {
        let refused = added(outcome.sends_of(way).map(|s| no_room(&s.counts)));
        let train = u64::from(outcome.sends_of(way).map(|s| s.train).max().unwrap_or(1).max(1));
        let (host, _) = outcome.ends(way);
        if let Some(rose) = host.total.as_ref().and_then(|h| h.counters.udp_send_buffer_errors)
            && outcome.sends_of(way).all(|s| s.fallback.is_none())
            && refused > rose.saturating_mul(train)
        {
            let text = format!(
                "the sending sockets counted {refused} datagrams refused, the host's SndbufErrors rose by {rose} only"
            );
            add(doubts, DoubtKind::CountersDisagree, text);
        }
    }
}

/// Bytes that cost less than an application's.
fn of_bytes(doubts: &mut Vec<Doubt>, outcome: &Outcome) {
    let Traffic::Tcp(tcp) = &outcome.plan.traffic else { return };
    if tcp.discard {
        add(
            doubts,
            DoubtKind::BytesNotCopied,
            "the receiver discarded the bytes inside the kernel (MSG_TRUNC); an application that reads them needs more CPU",
        );
    }
    if tcp.zerocopy {
        add(
            doubts,
            DoubtKind::BytesNotCopied,
            "the sender sent the same pages again and again (sendfile); an application that writes its data needs more CPU",
        );
    }
}

/// What was under way when a warm-up ended: over TCP each end begins to count by its own clock.
fn of_warmup(doubts: &mut Vec<Doubt>, outcome: &Outcome) {
    if outcome.plan.traffic.transport() != Transport::Tcp || outcome.plan.warmup.0 == 0 {
        return;
    }
    let ends = outcome.streams.iter().filter_map(|s| s.send.as_ref().zip(s.recv.as_ref()));
    let more = added(ends.map(|(send, recv)| recv.counts.bytes.saturating_sub(send.counts.bytes)));
    if more > 0 {
        let text = format!(
            "{more} bytes of the warm-up arrived after it had ended: they count as received in the measured time, and not as sent"
        );
        add(doubts, DoubtKind::Degraded, text);
    }
}

/// A rate that was kept badly.
fn of_pace(doubts: &mut Vec<Doubt>, outcome: &Outcome) {
    if let Some(text) = coarse_rate(outcome) {
        add(doubts, DoubtKind::Degraded, text);
    }
    let late = added(outcome.sends().map(|s| s.counts.late_wakeups));
    let calls = added(outcome.sends().map(|s| s.counts.calls));
    if late.saturating_mul(100) > calls && calls > 0 {
        let text = format!(
            "{late} of {calls} send calls came later than the burst limit: the host kept the schedule badly"
        );
        add(doubts, DoubtKind::TimerLate, text);
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

/// Of what a host dropped, what it had no room for. An older peer reports nothing else.
fn no_room(counts: &SendCounts) -> u64 {
    if counts.local_errors.is_empty() {
        return counts.refused_locally;
    }
    added(counts.local_errors.each().filter(|(errno, _)| errno.is_no_room()).map(|(_, n)| n))
}
