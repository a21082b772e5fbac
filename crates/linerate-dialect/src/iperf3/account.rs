//! What both ends report of their streams, and what the peer's few totals mean for the record.

use std::collections::BTreeMap;

use linerate_model::plan::{TestPlan, Transport};
use linerate_model::sample::{RecvReport, SendReport, TcpSample, ThreadUse};
use linerate_model::test_event::{Cpu, FarStream};
use linerate_session::assemble::StreamOutcome;
use linerate_session::receiver::add_tail;
use linerate_wire::iperf3::{Results, StreamResults, stream_id};

use crate::stream::{Report, StreamId};

pub(super) fn clipped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// What this end measured, and when: nanoseconds of its clock.
pub(super) struct Measured<'a> {
    pub(super) plan: &'a TestPlan,
    pub(super) reports: &'a BTreeMap<u16, Report>,
    /// When the server said that the test begins: its clock runs from then on.
    pub(super) word_ns: u64,
    /// Of the control connection, before the test; 0 where unknown.
    pub(super) rtt_ns: u64,
    pub(super) start_ns: u64,
    /// When the end was said, or else now.
    pub(super) ended_ns: u64,
}

impl Measured<'_> {
    /// How much earlier than this end's the server's clock began, and how much later it ends: a round trip
    /// in all, and what passed here between its word and the start.
    fn head_ns(&self) -> u64 {
        self.start_ns.saturating_sub(self.word_ns).saturating_add(self.rtt_ns)
    }

    /// Measured time of this end.
    pub(super) fn span_ns(&self) -> u64 {
        let sent = self.reports.values().filter_map(|report| match report {
            Report::Send(report) => Some(report.span_ns),
            _ => None,
        });
        let measured = self.start_ns.saturating_add(self.plan.warmup.0);
        let ended = self.ended_ns.saturating_sub(measured);
        if !self.plan.direction.has_reverse() {
            return sent.max().unwrap_or(ended);
        }
        // A receiver counts until the end was said, and what was under way then as long as it came.
        let last = self.reports.values().filter_map(|report| match report {
            Report::Recv(report) => report.last_ns,
            _ => None,
        });
        last.max().unwrap_or(0).saturating_sub(measured).max(ended)
    }
}

/// What this end reports of its streams.
pub(super) fn our_results(
    measured: &Measured<'_>,
    ids: &[StreamId],
    (cpu, span_ns): (Cpu, u64),
    congestion: Option<String>,
) -> Results {
    let end_s = Some(span_ns as f64 / 1e9);
    let tcp = measured.plan.traffic.transport() == Transport::Tcp;
    let streams = ids.iter().map(|id| {
        let mut stream = StreamResults {
            id: stream_id(id.stream),
            retransmits: -1,
            jitter_s: Some(0.0),
            start_s: Some(0.0),
            end_s,
            omitted_errors: Some(0),
            omitted_packets: Some(0),
            ..StreamResults::default()
        };
        match measured.reports.get(&id.stream) {
            Some(Report::Send(report)) => {
                stream.bytes = report.counts.bytes;
                if tcp {
                    let sent_again = report.tcp.and_then(|tcp| tcp.retransmits);
                    stream.retransmits = sent_again.map_or(-1, clipped);
                } else {
                    stream.packets = clipped(report.counts.datagrams.saturating_add(report.warmup));
                    stream.omitted_packets = Some(clipped(report.warmup));
                }
            }
            Some(Report::Recv(report)) => {
                stream.bytes = report.counts.bytes;
                stream.jitter_s = Some(report.jitter_ns.map_or(0.0, |ns| ns as f64 / 1e9));
                if !tcp {
                    let lost = report.counts.lost.saturating_add(report.warmup_lost);
                    stream.errors = clipped(lost);
                    stream.omitted_errors = Some(clipped(report.warmup_lost));
                    let seen = report.counts.expected.saturating_add(report.warmup_expected);
                    stream.packets = clipped(seen);
                    stream.omitted_packets = Some(clipped(report.warmup_expected));
                }
            }
            _ => {}
        }
        stream
    });
    let has_retransmits = match (measured.plan.direction.has_forward(), tcp) {
        (false, _) => -1,
        (true, tcp) => i64::from(tcp),
    };
    Results {
        cpu_total: Some(cpu.total),
        cpu_user: Some(cpu.user),
        cpu_system: Some(cpu.system),
        sender_has_retransmits: has_retransmits,
        congestion_used: congestion,
        streams: streams.collect(),
        ..Results::default()
    }
}

/// The peer's process as a thread of `streams`: iperf3 reports no more of its CPU.
pub(super) fn far_thread(results: &Results, span_ns: u64, streams: usize) -> ThreadUse {
    let share = |percent: f64| span_ns as f64 * percent.max(0.0) / 100.0 / streams.max(1) as f64;
    ThreadUse {
        cpu_ns: results.cpu_total.map(|percent| share(percent) as u64),
        ..ThreadUse::default()
    }
}

/// Measured time of a stream as the peer's clock has it, nanoseconds.
pub(super) fn far_span_ns(far: &StreamResults) -> Option<u64> {
    far.end_s.filter(|s| s.is_finite() && *s > 0.0 && *s < 1e6).map(|s| (s * 1e9) as u64)
}

/// How long the forward streams arrived, from the first byte to the last, nanoseconds.
///
/// A far iperf3's clock runs from its word that the test begins until it hears of the end, and so counts
/// the start of the threads here, two ways and what is waited for stragglers as well. What is known here
/// is closer: datagrams arrive for as long as they were sent, and bytes until the acknowledgement of the
/// last, less a round trip. Only where the word of the end came later than it can have by more than all
/// that was waited, did datagrams stand in a queue before it, and arrived until then.
pub(super) fn received_ns(measured: &Measured<'_>, results: Option<&Results>) -> u64 {
    let sent = || {
        measured.reports.values().filter_map(|report| match report {
            Report::Send(report) => Some(report),
            _ => None,
        })
    };
    let span_ns = sent().map(|report| report.span_ns).max().unwrap_or(0);
    if let Some(all_ns) = sent().filter_map(|report| report.acknowledged_ns).max() {
        return all_ns.saturating_sub(measured.rtt_ns).max(span_ns);
    }
    let begun_ns = measured.start_ns.saturating_add(measured.plan.warmup.0);
    // What the peer sent itself may have gone on through the wait.
    let is_sent = |far: &&StreamResults| {
        let mut reports = measured.reports.iter();
        reports.any(|(id, report)| matches!(report, Report::Send(_)) && stream_id(*id) == far.id)
    };
    let far_ns =
        results.and_then(|r| r.streams.iter().filter(is_sent).filter_map(far_span_ns).max());
    let Some(far_ns) = far_ns else { return span_ns };
    if results.is_some_and(|results| results.ends_with_last_arrival) {
        return far_ns.saturating_sub(measured.head_ns()).max(span_ns);
    }
    queued_ns(span_ns, measured.ended_ns.saturating_sub(begun_ns), far_ns, measured.head_ns())
}

/// `span_ns` of sending whose end was said after `reported_ns`, while the far clock, which had begun
/// `ahead_ns` earlier, ran `far_ns`.
fn queued_ns(span_ns: u64, reported_ns: u64, far_ns: u64, ahead_ns: u64) -> u64 {
    let heard_ns = reported_ns.saturating_add(ahead_ns);
    let waited_ns = reported_ns.saturating_sub(span_ns);
    let late_ns = far_ns.saturating_sub(heard_ns);
    if late_ns > waited_ns { reported_ns.saturating_add(late_ns) } else { span_ns }
}

pub(super) fn counted(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// What an iperf3 receiver's totals say of the datagrams of one stream. It counts arrivals and the
/// highest number; what it did not see of the end is lost too.
pub(super) fn far_receiver(
    sent: &SendReport,
    far: &StreamResults,
    datagram: Option<u64>,
    warmup: bool,
) -> RecvReport {
    let mut report = RecvReport::default();
    let Some(size) = datagram else {
        report.counts.bytes = far.bytes;
        return report;
    };
    let measured = sent.counts.datagrams;
    let all = measured.saturating_add(sent.warmup);
    let arrived = counted(far.packets).saturating_sub(counted(far.errors));
    let lost_in_all = all.saturating_sub(arrived);
    let lost = match (warmup, far.omitted_errors) {
        (false, _) => lost_in_all,
        (true, Some(omitted)) => lost_in_all.saturating_sub(counted(omitted)),
        // Releases before 3.14 do not report the warm-up's part: what is missing in the bytes.
        (true, None) => measured.saturating_sub(far.bytes / size.max(1)).min(lost_in_all),
    }
    .min(measured);
    let counts = &mut report.counts;
    counts.expected = measured;
    counts.lost = lost;
    counts.datagrams = measured - lost;
    counts.bytes = counts.datagrams.saturating_mul(size);
    counts.dropped_max = lost;
    report.jitter_ns =
        far.jitter_s.filter(|j| j.is_finite() && *j >= 0.0).map(|j| (j * 1e9) as u64);
    report
}

/// What an iperf3 sender's totals say; completes the near receiver by what was lost at the end.
pub(super) fn far_sender(
    received: &mut RecvReport,
    far: &StreamResults,
    datagram: Option<u64>,
    span_ns: u64,
) -> SendReport {
    let mut report = SendReport { span_ns, ..SendReport::default() };
    match datagram {
        Some(size) => {
            let sent = counted(far.packets).saturating_sub(received.warmup_expected);
            add_tail(received, sent.saturating_sub(received.counts.expected));
            report.counts.datagrams = received.counts.expected;
            report.counts.bytes = report.counts.datagrams.saturating_mul(size);
        }
        None => {
            report.counts.bytes = far.bytes;
            report.tcp = (far.retransmits >= 0).then(|| TcpSample {
                retransmits: Some(counted(far.retransmits)),
                ..TcpSample::default()
            });
        }
    }
    report
}

pub(super) fn far_stream(far: &StreamResults, seconds: Option<f64>) -> FarStream {
    FarStream {
        reordered: None,
        bytes: far.bytes,
        retransmits: (far.retransmits >= 0).then(|| counted(far.retransmits)),
        jitter_s: far.jitter_s.unwrap_or(0.0),
        errors: far.errors,
        omitted_errors: far.omitted_errors,
        packets: counted(far.packets),
        omitted_packets: far.omitted_packets.map(counted),
        seconds,
        trips: None,
    }
}

/// Both ends under one kernel and in one network namespace: datagrams that its UDP counters show as
/// dropped for want of buffer were dropped by the receiver. They are the namespace's, not a
/// socket's, so they place no more than was lost, and not what this end's own sockets dropped of the
/// reverse streams.
pub(super) fn place_drops(streams: &mut [StreamOutcome], errors: u64) {
    let own = streams
        .iter()
        .filter(|s| s.reverse)
        .filter_map(|s| s.recv.as_ref())
        .map(|recv| recv.counts.socket_drops)
        .fold(0, u64::saturating_add);
    let mut left = errors.saturating_sub(own);
    for recv in streams.iter_mut().filter(|s| !s.reverse).filter_map(|s| s.recv.as_mut()) {
        let here = recv.counts.lost.min(left);
        left -= here;
        if here > 0 {
            recv.counts.dropped_min = here;
            recv.counts.dropped_max = here;
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::sample::SendCounts;

    use super::*;

    fn sent(datagrams: u64, warmup: u64) -> SendReport {
        SendReport {
            counts: SendCounts { datagrams, bytes: datagrams * 100, ..Default::default() },
            warmup,
            ..Default::default()
        }
    }

    fn far(packets: i64, errors: i64, omitted: Option<i64>, bytes: u64) -> StreamResults {
        StreamResults { packets, errors, omitted_errors: omitted, bytes, ..Default::default() }
    }

    #[test]
    fn a_receivers_totals_become_an_account_that_adds_up() {
        // Sent, warm-up, highest seen, errors, their omitted part, bytes: lost in the measured time.
        for (datagrams, warmup, results, lost) in [
            (10, 0, far(10, 0, Some(0), 1_000), 0),
            // The tail that the receiver never saw.
            (10, 0, far(5, 0, Some(0), 500), 5),
            (10, 0, far(10, 2, Some(0), 800), 2),
            // Three of five lost before the measured time.
            (10, 10, far(20, 5, Some(3), 800), 2),
            // The same from a release that does not divide them.
            (10, 10, far(20, 5, None, 800), 2),
            (10, 10, far(20, 0, None, 990), 0),
            // Nothing that a peer may say breaks the sum.
            (10, 0, far(-5, i64::MAX, Some(-1), u64::MAX), 10),
            (10, 0, far(i64::MAX, i64::MIN, None, 0), 0),
        ] {
            let report = far_receiver(&sent(datagrams, warmup), &results, Some(100), warmup > 0);
            assert_eq!(report.counts.lost, lost, "{results:?}");
            assert_eq!(report.counts.datagrams + report.counts.lost, datagrams);
        }
    }

    #[test]
    fn drops_of_the_reverse_streams_are_not_the_forward_ones() {
        let stream = |reverse, lost, drops| {
            let mut recv = RecvReport::default();
            (recv.counts.lost, recv.counts.socket_drops) = (lost, drops);
            StreamOutcome { reverse, recv: Some(recv), ..StreamOutcome::default() }
        };
        let forward = |streams: &[StreamOutcome]| {
            streams[0].recv.as_ref().map(|recv| recv.counts.dropped_min)
        };
        let mut both = [stream(false, 50, 0), stream(true, 30, 30)];
        place_drops(&mut both, 40);
        assert_eq!(forward(&both), Some(10));
        // A counter of the namespace that was read before the last drops.
        let mut both = [stream(false, 50, 0), stream(true, 30, 30)];
        place_drops(&mut both, 20);
        assert_eq!(forward(&both), Some(0));
        let mut one = [stream(false, 50, 0)];
        place_drops(&mut one, 400);
        assert_eq!(forward(&one), Some(50));
    }

    #[test]
    fn a_wait_for_stragglers_is_no_receiving_time() {
        const MS: u64 = 1_000_000;
        for (span, said, far, arriving) in [
            // 2 s and the wait; the far clock began 3 ms earlier.
            (2_000, 2_052, 2_055, 2_000),
            // A server that was slow to hear it.
            (2_000, 2_052, 2_100, 2_000),
            // One megabyte at once.
            (1, 53, 57, 1),
            // The word of the end stood in a queue of 300 ms, behind the last datagrams.
            (2_000, 2_052, 2_303, 2_300),
            // A clock that ran too short, or not at all, changes nothing.
            (2_000, 2_052, 1_900, 2_000),
            (2_000, 0, 0, 2_000),
        ] {
            assert_eq!(queued_ns(span * MS, said * MS, far * MS, 3 * MS), arriving * MS);
        }
        assert_eq!(queued_ns(u64::MAX, u64::MAX, u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn what_the_far_end_cannot_tell_is_unknown() {
        let results = |cpu_total| Results { cpu_total, ..Results::default() };
        assert_eq!(far_thread(&results(Some(50.0)), 1_000, 2).cpu_ns, Some(250));
        assert_eq!(far_thread(&results(None), 1_000, 2).cpu_ns, None);
    }

    #[test]
    fn a_senders_totals_complete_the_receiver() {
        let mut received = RecvReport { warmup_expected: 10, ..Default::default() };
        received.counts.expected = 8;
        received.counts.datagrams = 8;
        let report = far_sender(&mut received, &far(20, 0, None, 0), Some(100), 1);
        assert_eq!((report.counts.datagrams, received.counts.lost), (10, 2));
        // A sender that admits to less than arrived is not believed.
        let report = far_sender(&mut received, &far(3, 0, None, 0), Some(100), 1);
        assert_eq!(report.counts.datagrams, 10);
    }
}
