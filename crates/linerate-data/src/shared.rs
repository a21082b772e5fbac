//! What the control side and the data threads of one end of one test know of each other.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use linerate_dialect::Whose;
use linerate_dialect::stream::LAST_DATA_NS;
use linerate_engine::clock;
use linerate_model::units::BitRate;

use super::LOOK_UP;
use super::peer::{PeerWatch, Sign};
use super::throttle::Throttle;
use super::toll::Toll;
use crate::budget::DayBudget;

const WAITING: u8 = 0;
const RUNNING: u8 = 1;
const STOPPING: u8 = 2;

/// Not yet known.
const UNKNOWN: u64 = u64::MAX;

/// What a server's owner allows one test, whatever its plan says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Most bytes that it may carry, both ways together.
    pub bytes: Option<u64>,
    /// Largest rate of one direction.
    pub rate: Option<BitRate>,
    /// The most of a window, in bytes, that is forced beyond the kernel's limits.
    pub window: Option<u32>,
    /// Longest time, warm-up included, in nanoseconds.
    pub span_ns: Option<u64>,
}

/// What the control side says to the data threads.
#[derive(Debug)]
pub struct Shared {
    phase: AtomicU8,
    /// Monotonic time at which senders begin.
    start_ns: AtomicU64,
    /// Monotonic time at which senders were stopped; [`UNKNOWN`] is not yet.
    stopped_ns: AtomicU64,
    /// Earliest measured arrival on any of this end's streams; [`UNKNOWN`] is none.
    origin_ns: AtomicU64,
    /// Datagrams that the peer sent on each stream.
    sent: Vec<AtomicU64>,
    /// Last time that data came, over UDP or TCP: a peer whose control connection is held up by its
    /// own flood is not silent.
    heard_ns: AtomicU64,
    /// Monotonic time after which receivers give up waiting; [`UNKNOWN`] is not yet.
    drain_until_ns: AtomicU64,
    /// Bytes that this end has received in the measured time.
    received: AtomicU64,
    /// Bytes that this end has received before it.
    received_warm: AtomicU64,
    /// Bytes that this end has received and that are none of a stream's data, as words that open it. Each byte is in one
    /// of these four.
    received_apart: AtomicU64,
    /// Bytes that this end has sent, warm-up included.
    pub(super) carried_away: AtomicU64,
    limits: Limits,
    /// What arrives for threads that answer, and what they or senders of datagrams send.
    tolls: Option<[Toll; 2]>,
    /// It carried more.
    over_budget: AtomicBool,
    /// Monotonic time after which no data is taken or sent; [`UNKNOWN`] is no such time.
    last_data_ns: AtomicU64,
    /// Data came after it.
    over_time: AtomicBool,
    /// Where this test's bytes count as well.
    days: OnceLock<Vec<DayBudget>>,
    /// The first of these in which they were too many, counted from 1; 0 is none.
    over_day: AtomicUsize,
    peer: PeerWatch,
    /// By which whoever watches the test chooses its rate.
    throttle: OnceLock<Throttle>,
}

impl Shared {
    /// A test of so many streams, which nobody but its plan limits.
    pub fn new(streams: usize) -> Arc<Self> {
        Self::within(Limits::default(), streams)
    }

    /// What the owner allows.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// A test whose threads keep to the owner's limits.
    pub fn within(limits: Limits, streams: usize) -> Arc<Self> {
        Arc::new(Self {
            phase: AtomicU8::new(WAITING),
            start_ns: AtomicU64::new(UNKNOWN),
            stopped_ns: AtomicU64::new(UNKNOWN),
            origin_ns: AtomicU64::new(UNKNOWN),
            sent: (0..streams).map(|_| AtomicU64::new(UNKNOWN)).collect(),
            heard_ns: AtomicU64::new(0),
            drain_until_ns: AtomicU64::new(UNKNOWN),
            received: AtomicU64::new(0),
            received_warm: AtomicU64::new(0),
            received_apart: AtomicU64::new(0),
            carried_away: AtomicU64::new(0),
            limits,
            tolls: limits.rate.map(|rate| [Toll::new(rate), Toll::new(rate)]),
            over_budget: AtomicBool::new(false),
            last_data_ns: AtomicU64::new(UNKNOWN),
            over_time: AtomicBool::new(false),
            days: OnceLock::new(),
            over_day: AtomicUsize::new(0),
            peer: PeerWatch::default(),
            throttle: OnceLock::new(),
        })
    }

    /// Senders begin at `at_ns`.
    pub fn start(&self, at_ns: u64) {
        self.start_ns.store(at_ns, Ordering::Relaxed);
        if let Some(span_ns) = self.limits.span_ns {
            let last = at_ns.saturating_add(span_ns).saturating_add(LAST_DATA_NS);
            self.last_data_ns.store(last, Ordering::Relaxed);
        }
        // Release: whoever sees the phase sees the start.
        let _ = self.phase.compare_exchange(WAITING, RUNNING, Ordering::Release, Ordering::Relaxed);
    }

    /// Senders end now, requesters too.
    pub fn stop(&self) {
        self.stopped_ns.fetch_min(clock::monotonic_ns(), Ordering::Relaxed);
        // Release: whoever sees the phase sees the time.
        self.phase.store(STOPPING, Ordering::Release);
    }

    /// When senders were stopped.
    pub(super) fn stopped_ns(&self) -> Option<u64> {
        Some(self.stopped_ns.load(Ordering::Relaxed)).filter(|at| *at != UNKNOWN)
    }

    /// The peer says how much it sent.
    pub fn peer_sent(&self, stream: u16, datagrams: u64) {
        if let Some(slot) = self.sent.get(usize::from(stream)) {
            // The largest value means "unknown"; nobody can have sent as many.
            slot.store(datagrams.min(UNKNOWN - 1), Ordering::Release);
        }
    }

    /// Receivers give up at `at_ns`, or when everything has arrived.
    pub fn drain_until(&self, at_ns: u64) {
        self.drain_until_ns.fetch_min(at_ns, Ordering::Release);
    }

    /// Bytes that this end has received, for dialects in which the receiver says when it has
    /// enough.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Bytes that have arrived here, with those of the warm-up and those that are no data.
    pub fn arrived(&self) -> u64 {
        let others = [&self.received_warm, &self.received_apart];
        let add = |sum: u64, bytes: &AtomicU64| sum.saturating_add(bytes.load(Ordering::Relaxed));
        others.into_iter().fold(self.received(), add)
    }

    /// Whether the test was ended because it carried more than it may.
    pub fn over_budget(&self) -> bool {
        self.over_budget.load(Ordering::Relaxed)
    }

    /// Whether the test was ended because data went on after the longest time.
    pub fn over_time(&self) -> bool {
        self.over_time.load(Ordering::Relaxed)
    }

    pub(super) fn is_late(&self, now_ns: u64) -> bool {
        now_ns > self.last_data_ns.load(Ordering::Relaxed)
    }

    /// Ends a test in which data came, or was about to leave, at `now_ns` after the longest time.
    #[inline]
    pub(super) fn keep_time(&self, now_ns: u64) {
        if self.is_late(now_ns) {
            self.over_time.store(true, Ordering::Relaxed);
            self.stop();
            self.drain_until(0);
        }
    }

    pub(super) fn add_received(&self, bytes: u64) {
        self.charge(bytes);
        self.received.fetch_add(bytes, Ordering::Relaxed);
        self.keep_budget();
    }

    pub(super) fn add_received_warm(&self, bytes: u64) {
        self.charge(bytes);
        self.received_warm.fetch_add(bytes, Ordering::Relaxed);
        self.keep_budget();
    }

    pub(super) fn add_received_apart(&self, bytes: u64) {
        self.charge(bytes);
        self.received_apart.fetch_add(bytes, Ordering::Relaxed);
        self.keep_budget();
    }

    /// Bytes that came at `now_ns` to a stream whose thread has ended: nothing measures them, and the owner's limits hold.
    /// Returns how long to read no more, for the rate.
    pub fn add_late(&self, bytes: u64, now_ns: u64) -> Option<Duration> {
        self.add_sent(bytes);
        let [arrive, _] = self.tolls.as_ref()?;
        let wait_ns = arrive.pass(bytes, now_ns).saturating_sub(now_ns);
        Some(Duration::from_nanos(wait_ns)).filter(|wait| !wait.is_zero())
    }

    pub(super) fn add_sent(&self, bytes: u64) {
        self.charge(bytes);
        self.carried_away.fetch_add(bytes, Ordering::Relaxed);
        self.keep_budget();
    }

    /// From now on its bytes count towards these days, too.
    pub fn charge_to(&self, days: Vec<DayBudget>) {
        let _ = self.days.set(days);
    }

    /// Its senders go by this, before they start.
    pub fn follow(&self, throttle: Throttle) {
        let _ = self.throttle.set(throttle);
    }

    pub(super) fn throttle(&self) -> Option<&Throttle> {
        self.throttle.get()
    }

    /// Whose day had no bytes left, where the test was ended because of that.
    pub fn over_day(&self) -> Option<Whose> {
        let index = self.over_day.load(Ordering::Relaxed).checked_sub(1)?;
        self.days.get()?.get(index).map(DayBudget::whose)
    }

    /// Bytes that were carried so far, both ways, warm-up included.
    pub fn moved(&self) -> u64 {
        self.arrived().saturating_add(self.carried_away.load(Ordering::Relaxed))
    }

    #[inline]
    fn charge(&self, bytes: u64) {
        for (index, day) in (1..).zip(self.days.get().map_or(&[][..], Vec::as_slice)) {
            if day.charge(bytes) {
                let relaxed = Ordering::Relaxed;
                let _ = self.over_day.compare_exchange(0, index, relaxed, relaxed);
                self.stop();
                self.drain_until(0);
            }
        }
    }

    /// Ends the test at the first batch above the budget.
    #[inline]
    fn keep_budget(&self) {
        if let Some(most) = self.limits.bytes {
            let carried = self.arrived().saturating_add(self.carried_away.load(Ordering::Relaxed));
            if carried > most {
                self.over_budget.store(true, Ordering::Relaxed);
                self.stop();
                self.drain_until(0);
            }
        }
    }

    /// Waits until the owner's limit lets more through after `bytes` that a thread which answers has
    /// read, or is about to send (`sends`); ends with the test.
    pub(super) fn keep_rate(&self, bytes: u64, sends: bool) {
        let Some([arrive, leave]) = &self.tolls else { return };
        let toll = if sends { leave } else { arrive };
        let mut now = clock::monotonic_ns();
        let until = toll.pass(bytes, now);
        while now < until && !self.stopping() {
            clock::sleep_until(until.min(now.saturating_add(LOOK_UP.as_nanos() as u64)));
            now = clock::monotonic_ns();
            self.look_after_peer(now);
            self.keep_time(now);
        }
    }

    /// Until when a sender of datagrams waits at `now_ns`, by the owner's limit; nothing where its plan keeps to it.
    #[inline]
    pub(super) fn holds_back(&self, now_ns: u64) -> Option<u64> {
        let [_, leave] = self.tolls.as_ref()?;
        Some(leave.paid_ns()).filter(|paid| *paid > now_ns)
    }

    /// It has sent so many bytes at `now_ns`. What was due before was let through whole: with large datagrams at
    /// low rates one alone may take longer than the limit's credit.
    #[inline]
    pub(super) fn pays(&self, bytes: u64, now_ns: u64) {
        if let Some([_, leave]) = &self.tolls {
            let _ = leave.pass(bytes, now_ns);
        }
    }

    /// Data came at `now_ns`.
    pub(super) fn hear(&self, now_ns: u64) {
        self.keep_time(now_ns);
        self.heard_ns.store(now_ns, Ordering::Relaxed);
    }

    /// How long no data has come, counted from `since_ns` of the monotonic clock at the earliest.
    pub fn silence(&self, since_ns: u64) -> Duration {
        let heard = self.heard_ns.load(Ordering::Relaxed).max(since_ns);
        Duration::from_nanos(clock::monotonic_ns().saturating_sub(heard))
    }

    /// A stream's first measured arrival was at `at_ns`: the earliest of all streams that is known, and whether it is the
    /// first that is.
    pub(super) fn arrived_first(&self, at_ns: u64) -> (u64, bool) {
        let earliest = self.origin_ns.fetch_min(at_ns, Ordering::Relaxed);
        (earliest.min(at_ns), earliest == UNKNOWN)
    }

    /// When the measured time began here: with the earliest arrival, or, where nothing has come, after the warm-up.
    pub(super) fn measured_from(&self, warmup_ns: u64) -> Option<u64> {
        let known = |at: &AtomicU64| Some(at.load(Ordering::Relaxed)).filter(|at| *at != UNKNOWN);
        let planned = || Some(known(&self.start_ns)?.saturating_add(warmup_ns));
        known(&self.origin_ns).or_else(planned)
    }

    pub(super) fn running(&self) -> Option<u64> {
        (self.phase.load(Ordering::Acquire) == RUNNING)
            .then(|| self.start_ns.load(Ordering::Relaxed))
    }

    pub(super) fn stopping(&self) -> bool {
        self.phase.load(Ordering::Acquire) == STOPPING
    }

    pub(super) fn sent(&self, stream: u16) -> Option<u64> {
        let slot = self.sent.get(usize::from(stream))?;
        Some(slot.load(Ordering::Acquire)).filter(|sent| *sent != UNKNOWN)
    }

    /// From now on the data threads end by themselves when the peer is gone, as `sign` shows it.
    ///
    /// # Errors
    /// When there is no descriptor for a copy of the connection.
    pub fn watch_peer(&self, control: &impl AsFd, sign: Sign, limit: Duration) -> io::Result<()> {
        self.peer.watch(control, sign, limit)
    }

    /// The test is over: its control connection may close.
    pub fn let_peer_go(&self) {
        self.peer.let_go();
    }

    /// Whether a data thread found the peer gone.
    pub fn peer_gone(&self) -> bool {
        self.peer.is_gone()
    }

    /// Called wherever a data thread looks whether it shall stop.
    #[inline]
    pub(super) fn look_after_peer(&self, now_ns: u64) {
        if self.peer.is_due(now_ns) && self.peer.look(now_ns, self.silence(0)) {
            self.stop();
            self.drain_until(0);
        }
    }

    pub(super) fn drained_at(&self, now_ns: u64) -> bool {
        now_ns >= self.drain_until_ns.load(Ordering::Acquire)
    }
}

/// Ends the data threads of a test with it.
pub struct StopOnDrop(pub Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
        self.0.drain_until(0);
        self.0.let_peer_go();
    }
}
