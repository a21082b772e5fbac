//! Accounting at the receiving end of one stream.
//!
//! A [`Receiver`] takes in every message the kernel delivered, in the order of delivery, and knows
//! at the end which datagrams arrived, which did not, and where those were lost as far as the
//! kernel's drop counter can say. `docs/loss.md` explains the attribution.

mod bytes;
mod odd;
mod overdue;
mod tail;
mod trips;

use linerate_model::sample::{RecvCounts, RecvInterval, RecvReport, ThreadUse};
use linerate_stats::online::{DelayVariation, Jitter, LARGEST, SequenceWindow};
use linerate_wire::framing::{Framing, Stray};
use linerate_wire::native::datagram::MAX_TRAIN;

use crate::Surroundings;

pub use bytes::ByteReceiver;
use odd::is_warmup;
use overdue::Overdue;
pub use tail::add_tail;
use trips::Trips;

/// One message from the kernel: a datagram, or a train of them merged by `UDP_GRO`.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Payload of all datagrams, one after the other.
    pub bytes: &'a [u8],
    /// Bytes of each but the last, which may be shorter.
    pub segment: usize,
    /// Arrival on this host's monotonic clock.
    pub at_ns: u64,
    /// Whether that is the kernel's time stamp, or only the time at which it was read.
    pub stamped: bool,
    /// The socket's drop counter when this message was queued (`SO_RXQ_OVFL`), if it was reported. The
    /// kernel leaves it out until the first drop, and counts in 32 bits.
    pub socket_drops: Option<u32>,
}

/// What a receiver must know beforehand.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// What the datagrams begin with.
    pub framing: Framing,
    /// Number of the first measured datagram.
    pub first_number: u64,
    /// Report interval.
    pub interval_ns: u64,
    /// Number of intervals, when the test ends by time; the last one then holds what arrives after
    /// its end.
    pub intervals: Option<u64>,
    /// Whether the kernel may deliver several datagrams as one message.
    pub merging: bool,
}

/// The accounting of one stream.
#[derive(Debug)]
pub struct Receiver {
    setup: Setup,
    window: SequenceWindow,
    jitter: Jitter,
    delay: DelayVariation,
    trips: Trips,
    origin_ns: Option<u64>,
    next_boundary_ns: u64,
    current: RecvCounts,
    intervals: Vec<RecvInterval>,
    /// [`SequenceWindow::next`] at the end of each interval.
    ends: Vec<u64>,
    thread_at_start: ThreadUse,
    thread_before: ThreadUse,
    first_ns: Option<u64>,
    last_ns: u64,
    warmup: u64,
    drops_seen: u32,
    /// Drops reported with a message that could not be placed; they belong to the next that can.
    drops_carried: u64,
    train_max: u32,
    /// As the last message's sender made it.
    train: u64,
    /// Most datagrams that wait in the socket and will not be read.
    unread: u64,
    /// Every message so far was one whole train as its sender made it.
    trains_whole: bool,
    reorder_extent_max: Option<u64>,
    timestamp_faults: u64,
    unknown_late: u64,
    overdue: Overdue,
    /// How many datagrams the sender says that it sent, in a datagram after the last.
    peer_end: Option<u64>,
}

impl Receiver {
    /// Before the first datagram.
    pub fn new(setup: Setup, thread: ThreadUse) -> Self {
        let rows = setup.intervals.unwrap_or(64).min(100_000) as usize;
        Self {
            setup,
            window: SequenceWindow::default(),
            jitter: Jitter::default(),
            delay: DelayVariation::default(),
            trips: Trips::default(),
            origin_ns: None,
            next_boundary_ns: u64::MAX,
            current: RecvCounts::default(),
            intervals: Vec::with_capacity(rows),
            ends: Vec::with_capacity(rows),
            thread_at_start: thread,
            thread_before: thread,
            first_ns: None,
            last_ns: 0,
            warmup: 0,
            drops_seen: 0,
            drops_carried: 0,
            train_max: 0,
            train: 0,
            unread: 0,
            trains_whole: true,
            reorder_extent_max: None,
            timestamp_faults: 0,
            unknown_late: 0,
            overdue: Overdue { arrival_ns: u64::MAX, ..Overdue::default() },
            peer_end: None,
        }
    }

    /// The same, for a test that ends after `duration_ns` of measured time: what comes too late
    /// after that is counted as overdue. Needs [`Receiver::on_read`].
    #[must_use]
    pub fn ending_after(mut self, duration_ns: Option<u64>) -> Self {
        self.overdue.duration_ns = duration_ns;
        self
    }

    /// This account, which has seen nothing yet, goes on where `warmup` on the same socket ends: for
    /// dialects whose datagrams do not say that they belong to the warm-up. Takes no memory.
    pub fn follow(&mut self, warmup: &Self, thread: ThreadUse) {
        self.setup.first_number = warmup.seen();
        self.drops_seen = warmup.drops_seen;
        self.thread_at_start = thread;
        self.thread_before = thread;
    }

    /// Intervals that are over.
    pub fn intervals(&self) -> &[RecvInterval] {
        &self.intervals
    }

    /// One more than the highest number seen: how many the sender has sent at least.
    pub fn seen(&self) -> u64 {
        self.window.next()
    }

    /// Whether the measured time has begun.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.origin_ns.is_some()
    }

    /// The measured time begins at `at_ns`, whether anything arrives or not. Otherwise it begins
    /// with the first arrival.
    pub fn begin_at(&mut self, at_ns: u64, around: &dyn Surroundings) {
        if self.origin_ns.is_none() {
            self.begin(at_ns, around);
        }
    }

    /// Whether every one of `sent` datagrams has arrived.
    #[inline]
    pub fn has_all(&self, sent: u64) -> bool {
        self.window.unique() >= sent
    }

    /// Different datagrams that have arrived.
    #[inline]
    pub fn unique(&self) -> u64 {
        self.window.unique()
    }

    /// How many datagrams the sender has said, in a datagram after the last, that it sent.
    #[inline]
    pub fn peer_end(&self) -> Option<u64> {
        self.peer_end
    }

    /// Last arrival of the measured time.
    pub fn last_ns(&self) -> Option<u64> {
        self.first_ns.map(|_| self.last_ns)
    }

    /// A call into the kernel brought something.
    #[inline]
    pub fn on_call(&mut self) {
        self.current.calls += 1;
        self.overdue.before = (self.window.unique(), self.overdue.count);
    }

    /// All messages of that call were taken in; it returned at `now_ns`.
    #[inline]
    pub fn on_read(&mut self, now_ns: u64) {
        self.overdue.on_read(now_ns, self.window.unique());
    }

    /// The hot path: one message. Returns whether it was one of this test.
    #[inline]
    pub fn on_message(&mut self, message: &Message<'_>, around: &dyn Surroundings) -> bool {
        let mut drops =
            self.new_drops(message.socket_drops) + std::mem::take(&mut self.drops_carried);
        let segment = message.segment.max(1);
        let framing = self.setup.framing;
        let (mut bytes, mut is_ours) = (message.bytes, false);
        // One that is no data hides none of those which the kernel put behind it.
        let head = loop {
            let (first, rest) = bytes.split_at(segment.min(bytes.len()));
            match framing.read(first) {
                Ok(head) if self.window.next() <= LARGEST => break head,
                _ if self.is_end(first) => is_ours = true,
                other => self.stray(other.err() == Some(Stray::Foreign)),
            }
            if rest.is_empty() {
                self.drops_carried += drops;
                return is_ours;
            }
            bytes = rest;
        };
        let message = &Message { bytes, ..*message };
        if head.warmup && is_warmup(framing, message, segment) {
            // Drops of the warm-up explain no measured loss.
            self.warmup += message.bytes.len().div_ceil(segment) as u64;
            return true;
        }
        if self.first_ns.is_none() {
            if self.origin_ns.is_none() {
                self.begin(message.at_ns, around);
            }
            self.first_ns = Some(message.at_ns);
            self.last_ns = message.at_ns;
        }
        self.on_idle(message.at_ns, around);
        self.last_ns = self.last_ns.max(message.at_ns);

        if !framing.is_numbered() {
            // Only the end says how many are missing, which these explain.
            self.drops_carried = std::mem::take(&mut drops);
        }
        let unique_before = self.window.unique();
        let next_before = self.window.next();
        let count = u32::try_from(message.bytes.len().div_ceil(segment)).unwrap_or(u32::MAX);
        let mut gap = 0u64;
        let mut rest = message.bytes;
        let mut sent_ns = None;
        while !rest.is_empty() {
            let is_head = rest.len() == message.bytes.len();
            let first = self.setup.first_number.wrapping_add(self.window.next());
            let run = framing.in_order(rest, segment, first);
            let bytes = (run.max(1) * segment).min(rest.len());
            let (datagrams, after) = rest.split_at(bytes);
            rest = after;
            if run > 0 {
                self.window.in_order(run as u64);
                self.current.datagrams += run as u64;
                self.current.bytes += bytes as u64;
            } else {
                gap += self.odd_one(datagrams, first);
            }
            if sent_ns.is_none() && framing.is_timed() && self.window.unique() > unique_before {
                let mark = if is_head { Some(head) } else { framing.read(datagrams).ok() };
                sent_ns = mark.map(|mark| mark.sent_ns);
            }
        }
        self.time(message, sent_ns);
        self.train_max = self.train_max.max(count);
        if message.at_ns >= self.overdue.arrival_ns {
            self.overdue.count += self.window.unique() - unique_before;
        }

        // A train is whole when it came as its sender made it, so that one drop stands for exactly
        // as many datagrams as a train has.
        let whole = head.position == 0 && u32::from(head.train.get()) == count;
        self.trains_whole &= whole;
        let advanced = self.window.next() - next_before;
        self.current.expected += advanced;
        let train = u64::from(head.train.get());
        let before = std::mem::replace(&mut self.train, train);
        // What was dropped in between may be of either length.
        self.attribute(gap, drops, (before == train || before == 0).then_some(train));
        true
    }

    /// Reading ends while up to `datagrams` wait in the socket: they are lost, and neither the path nor
    /// the socket lost them.
    pub fn leave_unread(&mut self, datagrams: u64) {
        self.unread = datagrams;
    }

    /// Nothing is queued from before `now_ns`: closes intervals that are over.
    #[inline]
    pub fn on_idle(&mut self, now_ns: u64, around: &dyn Surroundings) {
        while now_ns >= self.next_boundary_ns {
            if let Some(origin_ns) = self.origin_ns.filter(|_| self.intervals.is_empty()) {
                // Another stream may have read an earlier arrival since.
                self.count_from(around.origin(origin_ns).min(origin_ns));
            }
            self.roll(around);
        }
    }

    /// The end. `sent` is what the sender says it sent, `None` if it never said;
    /// `socket_drops` is the socket's counter now.
    pub fn finish(
        mut self,
        sent: Option<u64>,
        socket_drops: Option<u32>,
        around: &dyn Surroundings,
    ) -> RecvReport {
        let seen = self.window.next();
        // A receiver that saw a higher number than the sender admits to must not lose it.
        let end = sent.unwrap_or(seen).max(seen);
        let drops = self.new_drops(socket_drops) + self.drops_carried;
        let tail = end - seen;
        self.current.expected += tail;
        self.current.lost += tail;
        let placed = self.current.dropped_max;
        self.attribute(tail, drops, Some(self.train.max(1)));
        let most = placed + tail;
        self.current.dropped_max = (self.current.dropped_max + self.unread.min(tail)).min(most);
        let thread = around.thread();
        if self.origin_ns.is_some() || self.current != RecvCounts::default() {
            self.close_interval(thread);
        }
        let numbered = self.setup.framing.is_numbered();
        let (lost, loss_runs) = self.window.loss_runs(end);
        let mut counts = RecvCounts::default();
        self.intervals.iter().for_each(|interval| counts.add(&interval.counts));
        // From the window itself, not from the sum: the two are compared in the record.
        counts.datagrams = self.window.unique();
        counts.expected = end;
        counts.lost = lost;
        RecvReport {
            counts,
            first_ns: self.first_ns,
            last_ns: self.first_ns.map(|_| self.last_ns),
            warmup: self.warmup,
            jitter_ns: self.jitter.nanos().map(|j| j as u64),
            delay_variation: self.delay.quantiles(),
            least_transit_ns: self.delay.least_transit_ns(),
            trips: self.trips.total(),
            loss_runs: (lost > 0 && numbered).then_some(loss_runs),
            reorder_extent_max: self.reorder_extent_max,
            merged: self.train_max > 1,
            train: self.train_max,
            timestamp_faults: self.timestamp_faults,
            unknown_late: self.unknown_late,
            unread: if sent.is_some() { self.unread.min(tail) } else { self.unread },
            overdue: self.overdue.duration_ns.map(|_| self.overdue.count),
            last_read_ns: Some(self.overdue.last_read_ns).filter(|ns| *ns > 0),
            thread: thread.since(self.thread_at_start),
            intervals: self.intervals,
            ..Default::default()
        }
    }

    fn begin(&mut self, at_ns: u64, around: &dyn Surroundings) {
        self.count_from(around.origin(at_ns));
        let thread = around.thread();
        self.thread_at_start = thread;
        self.thread_before = thread;
    }

    /// The measured time begins then.
    fn count_from(&mut self, origin_ns: u64) {
        self.origin_ns = Some(origin_ns);
        self.overdue.begin(origin_ns);
        self.next_boundary_ns = match self.setup.intervals {
            Some(0 | 1) => u64::MAX,
            _ => origin_ns.saturating_add(self.setup.interval_ns),
        };
    }

    /// The delay of a message; `sent_ns` is when the first of its datagrams that had not arrived before
    /// was sent. A second copy shows how long the network keeps copies, and nothing about delay.
    #[inline]
    fn time(&mut self, message: &Message<'_>, sent_ns: Option<u64>) {
        if !message.stamped {
            self.timestamp_faults += 1;
        } else if let Some(sent_ns) = sent_ns {
            // One time stamp a message: datagrams that share it have no delay of their own.
            let transit = message.at_ns.wrapping_sub(sent_ns) as i64;
            self.jitter.record(transit);
            self.delay.record(transit);
            if let Some(ahead_ns) = self.setup.framing.agreed_ahead_ns() {
                let bytes = message.bytes.len() as u64;
                self.trips.record(sent_ns, message.at_ns.saturating_add(ahead_ns), bytes);
            }
        }
    }

    #[inline]
    fn new_drops(&mut self, counter: Option<u32>) -> u64 {
        let Some(counter) = counter else { return 0 };
        let new = counter.wrapping_sub(self.drops_seen);
        self.drops_seen = counter;
        u64::from(new)
    }

    /// `gap` numbers are missing before this message, and the socket dropped `drops` messages
    /// between the last one and this.
    ///
    /// The kernel stamps its drop counter on each message as it is queued, so the two belong
    /// together. Without merging each drop is one datagram. With merging a drop is a train: if
    /// all trains came whole and of one length so far, and the gap is that of so many whole trains or
    /// more, they say how many; else between one datagram and a whole train each.
    #[inline]
    fn attribute(&mut self, gap: u64, drops: u64, train: Option<u64>) {
        self.current.socket_drops += drops;
        if drops == 0 {
            return;
        }
        let (least, most) = if !self.setup.merging {
            (drops.min(gap), drops.min(gap))
        } else if let Some(train) = train.filter(|train| gap.is_multiple_of(*train))
            && self.trains_whole
            && drops.saturating_mul(train) <= gap
        {
            (drops * train, drops * train)
        } else {
            (drops.min(gap), gap.min(drops.saturating_mul(MAX_TRAIN as u64)))
        };
        self.current.dropped_min += least;
        self.current.dropped_max += most;
    }

    fn roll(&mut self, around: &dyn Surroundings) {
        self.close_interval(around.thread());
        let last = self.setup.intervals.is_some_and(|n| self.intervals.len() as u64 + 1 >= n);
        self.next_boundary_ns = if last {
            u64::MAX
        } else {
            self.next_boundary_ns.saturating_add(self.setup.interval_ns)
        };
    }

    fn close_interval(&mut self, thread: ThreadUse) {
        let (delay_mean_ns, delay_max_ns) = self.delay.since_last().unzip();
        self.intervals.push(RecvInterval {
            counts: std::mem::take(&mut self.current),
            jitter_ns: self.jitter.nanos().map(|j| j as u64),
            delay_mean_ns,
            delay_max_ns,
            thread: thread.since(self.thread_before),
            reported: None,
            trips: self.trips.row(),
        });
        self.ends.push(self.window.next());
        self.thread_before = thread;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
mod tests;
