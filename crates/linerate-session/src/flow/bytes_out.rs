//! A sender of bytes over TCP.

use linerate_model::plan::{TestPlan, Traffic};
use linerate_model::sample::{SendInterval, SendReport, TcpSample, ThreadUse};

use crate::Surroundings;
use crate::habits::Habits;
use crate::pacer::{Pace, Pacer};
use crate::sender::{Quota, Sender};

/// The warm-up of a stream of bytes, or its measured time. All times count from its start.
#[derive(Debug)]
pub struct BytesOut {
    until_ns: Option<u64>,
    wanted: Option<u64>,
    account: Sender,
}

impl BytesOut {
    /// A warm-up, before its start.
    pub fn warmup(plan: &TestPlan) -> Self {
        let intervals = super::warm_intervals(plan.warmup.0, plan.interval.0);
        Self {
            until_ns: Some(plan.warmup.0),
            wanted: None,
            account: Sender::new(plan.interval.0, Some(intervals)),
        }
    }

    /// The measured time of stream `index`, before its start.
    pub fn measured(plan: &TestPlan, index: u16, intervals: Option<u64>) -> Self {
        Self {
            until_ns: plan.duration().map(|d| d.0),
            wanted: Quota::bytes(plan, index),
            account: Sender::new(plan.interval.0, intervals),
        }
    }

    /// At its start.
    pub fn begin(&mut self, thread: ThreadUse) {
        self.account.begin(thread);
    }

    /// Closes intervals that are over at `now_ns`; `tcp` is asked only then.
    #[inline]
    pub fn look(
        &mut self,
        now_ns: u64,
        tcp: impl FnOnce() -> Option<TcpSample>,
        around: &dyn Surroundings,
    ) {
        if self.account.is_due(now_ns) {
            self.account.roll(now_ns, tcp(), around);
        }
    }

    /// The next interval that is over, with its place, once.
    #[inline]
    pub fn row(&mut self) -> Option<(usize, SendInterval)> {
        self.account.row()
    }

    /// Most bytes that may leave at `now_ns`; absent once its time is up or all has left.
    #[inline]
    pub fn most(&self, now_ns: u64) -> Option<u64> {
        if self.until_ns.is_some_and(|until| now_ns >= until) {
            return None;
        }
        let left = self.wanted.map_or(u64::MAX, |all| all.saturating_sub(self.account.bytes()));
        Some(left).filter(|left| *left > 0)
    }

    /// When something ends next: an interval, or its time.
    #[inline]
    pub fn next_end_ns(&self) -> u64 {
        self.until_ns.unwrap_or(u64::MAX).min(self.account.next_boundary_ns())
    }

    /// A call that began at `begun_ns` took so many bytes.
    #[inline]
    pub fn on_sent(&mut self, bytes: u64, begun_ns: u64) {
        self.account.on_sent(begun_ns, 0, bytes, None);
    }

    /// Bytes that left.
    pub fn bytes(&self) -> u64 {
        self.account.bytes()
    }

    /// The end, after `span_ns`.
    pub fn finish(
        self,
        span_ns: u64,
        tcp: Option<TcpSample>,
        around: &dyn Surroundings,
    ) -> SendReport {
        self.account.finish(span_ns, tcp, around)
    }
}

/// Blocks at the asked rate, where it is this end's to keep (iperf3's): the kernel's own pacing takes
/// a whole send buffer at once, which would show as a rate that was never on the wire.
#[derive(Debug)]
pub struct BlockPacer {
    pacer: Option<Pacer>,
    /// Rates are kept here: of this stream of so many.
    keeps: Option<(u16, u16)>,
    block: u64,
    /// Bytes of the block that was begun.
    part: u64,
    begun_ns: Option<u64>,
    /// End of the last write.
    last_ns: u64,
}

impl BlockPacer {
    /// Of stream `index`. So many blocks leave at once where a `burst` was asked for; 0 is none.
    pub fn new(plan: &TestPlan, habits: Habits, index: u16, burst: u32) -> Self {
        let mut paced =
            Self { pacer: None, keeps: None, block: 1, part: 0, begun_ns: None, last_ns: 0 };
        if let (Traffic::Tcp(tcp), true) = (&plan.traffic, habits.whole_blocks) {
            paced.block = u64::from(tcp.block.max(1));
            paced.keeps = Some((index, plan.streams));
            let rate = tcp.rate.and_then(|rate| paced.at(rate.bits_per_second()));
            paced.pacer = rate.map(|pacer| pacer.in_bursts(burst.into()));
        }
        paced
    }

    fn at(&self, bits_per_second: u64) -> Option<Pacer> {
        let (index, streams) = self.keeps?;
        Pacer::new(bits_per_second, self.block * 8, index, streams, 1, 1_000_000)
    }

    /// Another rate for all streams together from now on, in bit/s; whether it is kept here.
    pub fn turn(&mut self, bits_per_second: u64) -> bool {
        match &mut self.pacer {
            Some(pacer) => pacer.turn(bits_per_second),
            None => self.pacer = self.at(bits_per_second),
        }
        self.keeps.is_some()
    }

    /// Whether no rate is kept here.
    pub fn is_unlimited(&self) -> bool {
        self.pacer.is_none()
    }

    /// Most bytes to write at `now_ns`.
    ///
    /// # Errors
    /// Nothing is due before the time within.
    #[inline]
    pub fn most(&mut self, now_ns: u64) -> Result<u64, u64> {
        let Some(pacer) = &mut self.pacer else { return Ok(u64::MAX) };
        let begun = *self.begun_ns.get_or_insert(now_ns);
        let left = self.block - self.part;
        if self.part > 0 {
            return Ok(left);
        }
        match pacer.next(now_ns.saturating_sub(begun)) {
            Pace::Send { .. } => Ok(left),
            Pace::WaitUntil(at) => Err(begun.saturating_add(at)),
        }
    }

    /// A write of so many bytes has ended, `now`.
    #[inline]
    pub fn sent(&mut self, bytes: u64, now: impl FnOnce() -> u64) {
        let Some(pacer) = &mut self.pacer else { return };
        self.part += bytes;
        self.last_ns = now();
        if self.part >= self.block {
            self.part = 0;
            let begun = self.begun_ns.unwrap_or(0);
            pacer.taken(1, self.last_ns.saturating_sub(begun));
        }
    }

    /// The end of sending that was noticed at `now_ns`, where it was ended at `stopped_ns`: a thread that waits for its
    /// next block sees later that it was stopped.
    pub fn ended_ns(&self, stopped_ns: Option<u64>, now_ns: u64) -> u64 {
        match (&self.pacer, stopped_ns) {
            (Some(_), Some(stopped)) if self.part == 0 => stopped.max(self.last_ns).min(now_ns),
            _ => now_ns,
        }
    }
}
