//! Accounting at the sending end of one stream, and the list of what it has to send.

use linerate_model::local_errors::{Errno, LocalSendErrors};
use linerate_model::plan::{End, TestPlan, Traffic, share};
use linerate_model::sample::{SendCounts, SendInterval, SendReport, TcpSample, ThreadUse};
use linerate_model::units::DatagramSize;
use linerate_stats::online::Latency;
use linerate_wire::native::datagram::HEADER_BYTES;

use crate::Surroundings;
use crate::pacer::Pacer;

/// What one stream has to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Stop at this time since the start.
    pub until_ns: Option<u64>,
    /// Datagrams of full size; `None` is no end.
    pub full: Option<u64>,
    /// Shorter datagrams at the end, so that a byte budget is met exactly; 0 is none.
    pub tail: [u16; 2],
}

impl Quota {
    /// The share of stream `index`. `--bytes` is met to the byte: the last datagram is shorter, and
    /// when that would not hold a header, the last but one gives up some of its own.
    pub fn datagrams(plan: &TestPlan, size: DatagramSize, index: u16) -> Self {
        let none = Self { until_ns: None, full: None, tail: [0; 2] };
        match plan.end {
            End::Time(time) => Self { until_ns: Some(time.0), ..none },
            End::Datagrams(n) => Self { full: Some(share(n, plan.streams, index)), ..none },
            End::Bytes(bytes) => {
                let bytes = share(bytes, plan.streams, index);
                let size = u64::from(size.bytes());
                let least = HEADER_BYTES as u64;
                let (full, rest) = (bytes / size, bytes % size);
                let narrow = |bytes: u64| u16::try_from(bytes).unwrap_or(u16::MAX);
                if rest == 0 {
                    Self { full: Some(full), ..none }
                } else if rest >= least || full == 0 {
                    Self { full: Some(full), tail: [narrow(rest), 0], ..none }
                } else if size + rest >= 2 * least {
                    let last_but_one = size + rest - least;
                    Self {
                        full: Some(full - 1),
                        tail: [narrow(last_but_one), narrow(least)],
                        ..none
                    }
                } else {
                    // Two headers do not fit: one datagram a little larger than asked.
                    Self { full: Some(full - 1), tail: [narrow(size + rest), 0], ..none }
                }
            }
        }
    }

    /// Transactions that one stream has to make, `None` when it ends by time.
    pub fn transactions(plan: &TestPlan, index: u16) -> Option<u64> {
        match (plan.end, &plan.traffic) {
            (End::Datagrams(n), _) => Some(share(n, plan.streams, index)),
            (End::Bytes(bytes), Traffic::Rr(rr)) => {
                let requests = bytes.div_ceil(u64::from(rr.request.max(1)));
                Some(share(requests, plan.streams, index))
            }
            _ => None,
        }
    }

    /// Bytes that one TCP stream has to send, `None` when it ends by time.
    pub fn bytes(plan: &TestPlan, index: u16) -> Option<u64> {
        match (plan.end, &plan.traffic) {
            (End::Bytes(bytes), _) => Some(share(bytes, plan.streams, index)),
            (End::Datagrams(blocks), Traffic::Tcp(tcp)) => {
                Some(share(blocks, plan.streams, index).saturating_mul(u64::from(tcp.block)))
            }
            _ => None,
        }
    }
}

/// The accounting of one sending stream.
#[derive(Debug)]
pub struct Sender {
    interval_ns: u64,
    intervals_planned: Option<u64>,
    next_boundary_ns: u64,
    current: SendCounts,
    total: SendCounts,
    intervals: Vec<SendInterval>,
    /// Of these, handed out.
    reported: usize,
    gaps: Latency,
    lateness: Latency,
    last_call_ns: Option<u64>,
    /// Slots taken before the last call.
    before_last_call: u64,
    slots: u64,
    late_seen: u64,
    given_up_seen: u64,
    /// Of the last call that failed as a whole.
    last_errno: Option<Errno>,
    thread_at_start: ThreadUse,
    thread_before: ThreadUse,
}

impl Sender {
    /// Before the start of the measured time, from which all times here count: this allocates, and
    /// the first datagram is due at the start.
    pub fn new(interval_ns: u64, intervals: Option<u64>) -> Self {
        Self {
            interval_ns,
            intervals_planned: intervals,
            next_boundary_ns: match intervals {
                Some(0 | 1) => u64::MAX,
                _ => interval_ns,
            },
            current: SendCounts::default(),
            total: SendCounts::default(),
            intervals: Vec::with_capacity(intervals.unwrap_or(64).min(100_000) as usize),
            reported: 0,
            gaps: Latency::default(),
            lateness: Latency::default(),
            last_call_ns: None,
            before_last_call: 0,
            slots: 0,
            late_seen: 0,
            given_up_seen: 0,
            last_errno: None,
            thread_at_start: ThreadUse::default(),
            thread_before: ThreadUse::default(),
        }
    }

    /// At the start.
    pub fn begin(&mut self, thread: ThreadUse) {
        self.thread_at_start = thread;
        self.thread_before = thread;
    }

    /// The next interval that is over, with its place, once.
    #[inline]
    pub fn row(&mut self) -> Option<(usize, SendInterval)> {
        let row = *self.intervals.get(self.reported)?;
        self.reported += 1;
        Some((self.reported - 1, row))
    }

    /// Datagrams taken by the kernel so far; the next one has this number.
    pub fn datagrams(&self) -> u64 {
        self.total.datagrams
    }

    /// Slots taken so far, by what the kernel took and by what it refused.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Bytes taken by the kernel so far.
    pub fn bytes(&self) -> u64 {
        self.total.bytes
    }

    /// The end of the current interval.
    #[inline]
    pub fn next_boundary_ns(&self) -> u64 {
        self.next_boundary_ns
    }

    /// The hot path: a call that began at `begun_ns` carried `datagrams` (or TCP bytes alone).
    #[inline]
    pub fn on_sent(&mut self, begun_ns: u64, datagrams: u64, bytes: u64, due_ns: Option<u64>) {
        self.on_call(begun_ns, datagrams);
        if let Some(due) = due_ns {
            self.lateness.record(begun_ns.saturating_sub(due));
        }
        for counts in [&mut self.current, &mut self.total] {
            counts.datagrams += datagrams;
            counts.bytes += bytes;
            counts.calls += 1;
        }
    }

    /// The host dropped `datagrams` in a call that began at `begun_ns`.
    pub fn on_refused(&mut self, begun_ns: u64, datagrams: u64, errno: Errno) {
        self.on_call(begun_ns, datagrams);
        // What cut a call short shows itself in the next one, nearly always. A closed interval is reported and
        // stays as it is.
        let untold = self.current.local_errors.of(Errno::Untold);
        for counts in [&mut self.current, &mut self.total] {
            counts.local_errors.explain(errno, untold);
        }
        self.last_errno = Some(errno);
        self.refuse(datagrams, errno);
    }

    /// The last call carried less than it should, because the host dropped `datagrams` of it, and the
    /// kernel does not say why: the errno reported last is taken for it.
    pub fn on_cut_short(&mut self, datagrams: u64) {
        self.slots += datagrams;
        self.refuse(datagrams, self.last_errno.unwrap_or(Errno::Untold));
    }

    /// What the host dropped so far.
    pub fn local_errors(&self) -> LocalSendErrors {
        self.total.local_errors
    }

    /// What the pacer has counted so far.
    #[inline]
    pub fn on_pacer(&mut self, late: u64, given_up: u64) {
        for counts in [&mut self.current, &mut self.total] {
            counts.late_wakeups += late - self.late_seen;
            counts.given_up += given_up - self.given_up_seen;
        }
        self.late_seen = late;
        self.given_up_seen = given_up;
    }

    /// Whether an interval is over, so that the caller fetches [`TcpSample`] only then.
    #[inline]
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_boundary_ns
    }

    /// Closes intervals that are over.
    pub fn roll(&mut self, now_ns: u64, mut tcp: Option<TcpSample>, around: &dyn Surroundings) {
        while now_ns >= self.next_boundary_ns {
            self.close(tcp, around.thread());
            // A sender that was held up closes several: what was gained is the first one's.
            tcp = tcp.map(|tcp| tcp.grown_since(&tcp));
            let last = self.intervals_planned.is_some_and(|n| self.intervals.len() as u64 + 1 >= n);
            self.next_boundary_ns = if last {
                u64::MAX
            } else {
                self.next_boundary_ns.saturating_add(self.interval_ns)
            };
        }
    }

    /// Parts per billion by which datagrams left faster than `pacer` asks. Until the last call, so that their
    /// number need not be a whole share of the time; until the end where more were due by then.
    pub fn pacing_error_ppb(&self, pacer: &Pacer, span_ns: u64) -> Option<i64> {
        let (slots, elapsed_ns) = if pacer.due_ns(self.slots) < span_ns {
            (self.slots, span_ns)
        } else {
            (self.before_last_call, self.last_call_ns?)
        };
        pacer.error_ppb(slots, elapsed_ns)
    }

    /// The end, after `span_ns` of measured time.
    pub fn finish(
        mut self,
        span_ns: u64,
        tcp: Option<TcpSample>,
        around: &dyn Surroundings,
    ) -> SendReport {
        let thread = around.thread();
        self.close(tcp, thread);
        SendReport {
            counts: self.total,
            intervals: self.intervals,
            span_ns,
            gaps: self.gaps.quantiles(),
            lateness: self.lateness.quantiles(),
            thread: thread.since(self.thread_at_start),
            tcp,
            ..Default::default()
        }
    }

    fn refuse(&mut self, datagrams: u64, errno: Errno) {
        for counts in [&mut self.current, &mut self.total] {
            counts.refused_locally += datagrams;
            counts.local_errors.count(errno, datagrams);
        }
    }

    #[inline]
    fn on_call(&mut self, begun_ns: u64, slots: u64) {
        if let Some(last_ns) = self.last_call_ns.replace(begun_ns) {
            self.gaps.record(begun_ns.saturating_sub(last_ns));
        }
        self.before_last_call = self.slots;
        self.slots += slots;
    }

    fn close(&mut self, tcp: Option<TcpSample>, thread: ThreadUse) {
        self.intervals.push(SendInterval {
            counts: std::mem::take(&mut self.current),
            thread: thread.since(self.thread_before),
            tcp,
        });
        self.thread_before = thread;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use linerate_model::plan::UdpPlan;
    use proptest::prelude::*;

    use super::*;
    use crate::Quiet;

    fn plan(end: End, streams: u16, size: u32) -> TestPlan {
        let size = DatagramSize::new(size).unwrap();
        TestPlan { streams, end, ..TestPlan::new(Traffic::Udp(UdpPlan::new(size))) }
    }

    /// Ten datagrams of 1 ms each are asked for, and those in `at_ms` leave.
    fn error_ppm(at_ms: &[u64], span_ms: u64) -> i64 {
        let pacer = Pacer::new(8_000_000, 8_000, 0, 1, 1, 0).unwrap();
        let mut sender = Sender::new(1_000_000_000, None);
        sender.begin(ThreadUse::default());
        for at in at_ms {
            sender.on_sent(at * 1_000_000, 1, 1_000, None);
        }
        sender.pacing_error_ppb(&pacer, span_ms * 1_000_000).unwrap() / 1_000
    }

    #[test]
    fn the_pacing_error_is_of_the_whole_time() {
        assert_eq!(error_ppm(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 10), 0);
        // A late last one; the end says nothing more, since the next would be due after it.
        assert_eq!(error_ppm(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 10], 10), -100_000);
        // A late start, caught up at twice the rate: half of what was asked for left.
        assert_eq!(error_ppm(&[8, 8, 9, 9, 9], 10), -500_000);
        // A stop before the end.
        assert_eq!(error_ppm(&[0, 1, 2], 10), -700_000);
        assert_eq!(error_ppm(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 10), 0);
    }

    #[test]
    fn rows_that_end_together_hold_what_was_gained_once() {
        let mut sender = Sender::new(100, Some(5));
        sender.begin(ThreadUse::default());
        let sample = TcpSample {
            retransmits: Some(7),
            busy_ns: Some(300),
            rtt_ns: Some(50),
            ..TcpSample::default()
        };
        sender.roll(310, Some(sample), &Quiet);
        let rows: Vec<_> =
            std::iter::from_fn(|| sender.row()).filter_map(|(_, row)| row.tcp).collect();
        let of = |field: fn(&TcpSample) -> Option<u64>| rows.iter().map(field).collect::<Vec<_>>();
        assert_eq!(of(|tcp| tcp.retransmits), [Some(7), Some(0), Some(0)]);
        assert_eq!(of(|tcp| tcp.busy_ns), [Some(300), Some(0), Some(0)]);
        assert_eq!(of(|tcp| tcp.rtt_ns), [Some(50); 3]);
        assert_eq!(of(|tcp| tcp.bytes_acked), [None; 3]);
    }

    #[test]
    fn what_a_call_was_cut_short_by_is_named_by_the_calls_beside_it() {
        let mut sender = Sender::new(100, Some(5));
        sender.on_cut_short(1);
        sender.roll(100, None, &Quiet);
        sender.on_cut_short(2);
        sender.on_refused(110, 3, Errno::Eperm);
        sender.on_cut_short(4);
        let report = sender.finish(200, None, &Quiet);
        let by_errno = |counts: SendCounts| {
            assert_eq!(counts.local_errors.total(), counts.refused_locally);
            counts.local_errors.to_string()
        };
        assert_eq!(by_errno(report.counts), "9 EPERM, 1 unknown");
        let rows: Vec<_> = report.intervals.iter().map(|row| by_errno(row.counts)).collect();
        assert_eq!(rows, ["1 unknown", "9 EPERM"], "an interval that was by_errno stays so");
        assert_eq!(report.counts.datagrams, 0, "no number was taken");
    }

    proptest! {
        #[test]
        fn a_byte_budget_is_met_to_the_byte(bytes in 4_096u64..100_000_000, streams in 1u16..128, size in 32u32..65_400) {
            let p = plan(End::Bytes(bytes), streams, size);
            let mut sum = 0;
            for stream in 0..streams {
                let quota = Quota::datagrams(&p, DatagramSize::new(size).unwrap(), stream);
                for tail in quota.tail {
                    prop_assert!(tail == 0 || tail >= 32);
                    sum += u64::from(tail);
                }
                sum += quota.full.unwrap() * u64::from(size);
            }
            prop_assert_eq!(sum, bytes);
        }

        #[test]
        fn datagrams_are_shared_exactly(n in 1u64..1_000_000, streams in 1u16..128) {
            let p = plan(End::Datagrams(n), streams, 100);
            let sum: u64 = (0..streams).map(|s| Quota::datagrams(&p, DatagramSize::new(100).unwrap(), s).full.unwrap()).sum();
            prop_assert_eq!(sum, n);
        }
    }
}
