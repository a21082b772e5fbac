//! When datagrams are due.

/// Backlog that a sender may work off after a stall. Older datagrams are given up and counted.
pub const MAX_BACKLOG_NS: u64 = 250_000_000;

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Send this many; the first was due at `due_ns` of the test.
    Send {
        /// At most the batch given to [`Pacer::new`].
        datagrams: u64,
        /// Since the start.
        due_ns: u64,
    },
    /// Nothing is due before this much of the test has passed.
    WaitUntil(u64),
}

/// A rate, constant until somebody chooses another one, kept by deadlines counted from the start of the test and never by a rounded
/// gap: datagram k of a stream is due at `phase + k x bits x streams / rate`, in exact integers, so
/// the error does not grow with time (a gap of 5 ns instead of 5.12 ns would be 2.4 % too fast).
///
/// Reads no clock and sends nothing: the caller does both. A batch leaves when its first datagram is
/// due, that is at most one burst early for its last. After a stall the backlog is worked off at no
/// more than twice the asked rate; backlog older than [`MAX_BACKLOG_NS`] is given up and counted.
#[derive(Debug, Clone)]
pub struct Pacer {
    /// Nanoseconds a datagram of this stream, as a fraction.
    gap: (u128, u128),
    /// When the slot `epoch` is due: earlier ones were at another rate.
    phase_ns: u64,
    epoch: u64,
    turned: bool,
    batch: u64,
    /// Slots that are due together, with the first of them.
    burst: u64,
    /// Lateness that is still on time.
    tolerance_ns: u64,
    slot: u64,
    last_sent_ns: Option<u64>,
    given_up: u64,
    late: u64,
}

impl Pacer {
    /// Stream `stream` of `streams` that share `bits_per_second`, each datagram `bits_per_datagram`
    /// long, `batch` of them handed to the kernel at once. Streams take turns: stream i starts
    /// i / streams of a gap later. `None` when rate, length or streams are zero.
    pub fn new(
        bits_per_second: u64,
        bits_per_datagram: u64,
        stream: u16,
        streams: u16,
        batch: u64,
        tolerance_ns: u64,
    ) -> Option<Self> {
        if bits_per_second == 0 || bits_per_datagram == 0 || streams == 0 {
            return None;
        }
        let one = u128::from(bits_per_datagram) * 1_000_000_000;
        let phase_ns =
            u64::try_from(u128::from(stream) * one / u128::from(bits_per_second)).ok()?;
        Some(Self {
            gap: (one * u128::from(streams), u128::from(bits_per_second)),
            phase_ns,
            epoch: 0,
            turned: false,
            batch: batch.max(1),
            burst: 1,
            tolerance_ns,
            slot: 0,
            last_sent_ns: None,
            given_up: 0,
            late: 0,
        })
    }

    /// Every `burst` slots are due together, with the first of them, in as many batches as that takes.
    #[must_use]
    pub fn in_bursts(mut self, burst: u64) -> Self {
        self.burst = burst.max(1);
        self
    }

    /// The schedule of a stream that has sent `slots` without one until `at_ns` since the start.
    #[must_use]
    pub fn going_on(mut self, slots: u64, at_ns: u64) -> Self {
        (self.slot, self.epoch, self.phase_ns, self.turned) = (slots, slots, at_ns, true);
        self
    }

    /// Another rate for all streams together, from the next slot on, which is due as it was: so what is late stays
    /// late, and the schedule has no gap. Zero is no rate and changes nothing.
    pub fn turn(&mut self, bits_per_second: u64) {
        if bits_per_second == 0 {
            return;
        }
        self.phase_ns = self.due_ns(self.slot);
        self.epoch = self.slot;
        self.gap.1 = u128::from(bits_per_second);
        self.turned = true;
    }

    /// From now on this many datagrams at once, because another engine goes on.
    pub fn set_batch(&mut self, batch: u64) {
        self.batch = batch.max(1);
    }

    /// Nominal time between batches, or between bursts where these are longer; none where there was more than one
    /// rate.
    pub fn nominal_gap_ns(&self) -> Option<u64> {
        (!self.turned).then(|| self.gap_ns())
    }

    fn gap_ns(&self) -> u64 {
        saturate(u128::from(self.batch.max(self.burst)) * self.gap.0 / self.gap.1)
    }

    /// When the slot with this number is due, since the start; rounded up, so never early.
    #[inline]
    pub fn due_ns(&self, slot: u64) -> u64 {
        let since = u128::from(slot.saturating_sub(self.epoch));
        saturate((since * self.gap.0).div_ceil(self.gap.1)).saturating_add(self.phase_ns)
    }

    /// How many slots are due before this time since the start.
    pub fn slots_before(&self, at_ns: u64) -> u64 {
        let Some(last) = at_ns.checked_sub(self.phase_ns).and_then(|at| at.checked_sub(1)) else {
            return self.epoch;
        };
        saturate(u128::from(last) * self.gap.1 / self.gap.0 + 1).saturating_add(self.epoch)
    }

    /// The first slot not yet taken.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// Slots given up, because the backlog had grown too old.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Batches sent later than the tolerance.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Parts per billion by which `slots` slots, without those given up, in the first `elapsed_ns` were more than were
    /// due then at all rates that held. `None` before the last of these: earlier ones are not kept.
    pub fn error_ppb(&self, slots: u64, elapsed_ns: u64) -> Option<i64> {
        if slots == 0 {
            return None;
        }
        // Both in shares of a slot: numbers go on over all rates, and over what is given up.
        let since = u128::from(elapsed_ns.checked_sub(self.phase_ns)?).checked_mul(self.gap.1)?;
        let due = u128::from(self.epoch).checked_mul(self.gap.0)?.checked_add(since)?;
        let due = i128::try_from(due).ok()?;
        let taken = i128::try_from(u128::from(slots).checked_mul(self.gap.0)?).ok()?;
        let share = (taken - due).checked_mul(1_000_000_000)?.checked_div(due)?;
        i64::try_from(share).ok()
    }

    /// What to do when `elapsed_ns` of the test have passed.
    #[inline]
    pub fn next(&mut self, elapsed_ns: u64) -> Pace {
        let mut due_ns = self.due_ns(self.slot - self.slot % self.burst);
        if elapsed_ns < due_ns {
            return Pace::WaitUntil(due_ns);
        }
        if elapsed_ns - due_ns > MAX_BACKLOG_NS {
            let kept_from =
                elapsed_ns - MAX_BACKLOG_NS - self.phase_ns.min(elapsed_ns - MAX_BACKLOG_NS);
            let since = saturate(u128::from(kept_from) * self.gap.1 / self.gap.0);
            let slot = since.saturating_add(self.epoch);
            if slot > self.slot {
                self.given_up += slot - self.slot;
                self.slot = slot;
                due_ns = self.due_ns(slot - slot % self.burst);
                if elapsed_ns < due_ns {
                    return Pace::WaitUntil(due_ns);
                }
            }
        }
        let begins = self.slot.is_multiple_of(self.burst);
        if begins
            && elapsed_ns - due_ns > self.tolerance_ns
            && let Some(last) = self.last_sent_ns
        {
            let allowed = last.saturating_add(self.gap_ns() / 2);
            if elapsed_ns < allowed {
                return Pace::WaitUntil(allowed);
            }
        }
        let left = if self.burst == 1 { u64::MAX } else { self.burst - self.slot % self.burst };
        Pace::Send { datagrams: self.batch.min(left), due_ns }
    }

    /// `datagrams` of what [`Self::next`] allowed left (or were refused) at `elapsed_ns`.
    #[inline]
    pub fn taken(&mut self, datagrams: u64, elapsed_ns: u64) {
        if elapsed_ns.saturating_sub(self.due_ns(self.slot)) > self.tolerance_ns {
            self.late += 1;
        }
        self.slot = self.slot.saturating_add(datagrams);
        self.last_sent_ns = Some(elapsed_ns);
    }
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn pacer(rate: u64, bytes: u64, batch: u64) -> Pacer {
        Pacer::new(rate, bytes * 8, 0, 1, batch, 100_000).unwrap()
    }

    /// Runs a made-up clock to `end_ns`; each send takes `cost_ns`, each wait ends exactly.
    fn run(pacer: &mut Pacer, from_ns: u64, end_ns: u64, cost_ns: u64) -> u64 {
        let (mut now, mut sent) = (from_ns, 0);
        while now < end_ns {
            match pacer.next(now) {
                Pace::WaitUntil(at) => now = at,
                Pace::Send { datagrams, .. } => {
                    pacer.taken(datagrams, now);
                    sent += datagrams;
                    now += cost_ns;
                }
            }
        }
        sent
    }

    #[test]
    fn bursts_leave_together_and_keep_the_rate() {
        // Ten at once, in calls of four: the calls end with the burst.
        let mut p = pacer(8_000_000, 1_000, 4).in_bursts(10);
        assert_eq!(p.nominal_gap_ns(), Some(10 * MS));
        for burst in 0..3 {
            for datagrams in [4, 4, 2] {
                let due_ns = burst * 10 * MS;
                assert_eq!(p.next(due_ns), Pace::Send { datagrams, due_ns });
                p.taken(datagrams, due_ns);
            }
            assert_eq!(p.next(burst * 10 * MS), Pace::WaitUntil((burst + 1) * 10 * MS));
        }
        // The whole burst goes at once, late or not.
        let mut p = pacer(8_000_000, 1_000, 1).in_bursts(10);
        assert_eq!(run(&mut p, 5 * MS, 15 * MS, 0), 20);
        for rate in [1_000_000, 8_000_000] {
            let mut p = pacer(rate, 1_000, 8).in_bursts(100);
            let sent = run(&mut p, 0, 10_000 * MS, 1_000);
            assert_eq!(sent, (rate * 10 / 8_000).next_multiple_of(100));
        }
    }

    #[test]
    fn one_every_millisecond() {
        let mut p = pacer(8_000_000, 1_000, 1);
        assert_eq!(p.next(0), Pace::Send { datagrams: 1, due_ns: 0 });
        p.taken(1, 0);
        assert_eq!(p.next(0), Pace::WaitUntil(MS));
        assert_eq!(p.next(MS), Pace::Send { datagrams: 1, due_ns: MS });
    }

    proptest! {
        #[test]
        fn slots_before_a_time_are_due_before_it(
            rate in 1u64..10_000_000_000, stream in 0u16..4, at_ns in 0u64..100_000_000_000,
        ) {
            let p = Pacer::new(rate, 1, stream, 4, 1, 0).unwrap();
            let slots = p.slots_before(at_ns);
            prop_assert!(slots == 0 || p.due_ns(slots - 1) < at_ns);
            prop_assert!(p.due_ns(slots) >= at_ns);
        }
    }

    #[test]
    fn the_error_does_not_grow() {
        // 64 bytes at 100 Gbit/s are due every 5.12 ns; a whole second must hold exactly as many
        // as the rate says.
        let mut p = pacer(100_000_000_000, 64, 128);
        let sent = run(&mut p, 0, 1_000 * MS, 1);
        assert_eq!(sent, (100_000_000_000u64 / 512).div_ceil(128) * 128);
    }

    #[test]
    fn a_stall_is_caught_up_at_twice_the_rate_and_no_faster() {
        let mut p = pacer(8_000_000, 1_000, 1);
        run(&mut p, 0, 100 * MS, 0);
        // 100 ms asleep: 100 datagrams behind. In the next 100 ms at most 201 may leave.
        let sent = run(&mut p, 200 * MS, 300 * MS, 0);
        assert!((199..=201).contains(&sent), "{sent}");
        assert_eq!(p.given_up(), 0);
        let sent = run(&mut p, 300 * MS, 400 * MS, 0);
        assert!((99..=102).contains(&sent), "{sent}");
    }

    #[test]
    fn another_rate_holds_from_the_next_slot_on() {
        let mut p = pacer(8_000_000, 1_000, 1);
        let sent = run(&mut p, 0, 1_000 * MS, 0);
        p.turn(4_000_000);
        assert_eq!(
            (sent, p.slot(), p.due_ns(1_000), p.due_ns(1_001)),
            (1_000, 1_000, 1_000 * MS, 1_002 * MS)
        );
        assert_eq!(run(&mut p, 1_000 * MS, 2_000 * MS, 0), 500);
        p.turn(80_000_000);
        assert_eq!(run(&mut p, 2_000 * MS, 3_000 * MS, 0), 10_000);
        assert_eq!(p.error_ppb(11_500, 3_000 * MS), Some(0));
        assert_eq!((p.nominal_gap_ns(), p.given_up()), (None, 0));
        p.turn(0);
        assert_eq!(p.next(3_000 * MS), Pace::Send { datagrams: 1, due_ns: 3_000 * MS });
        // What was asleep catches up with what was due at the new rate, and gives up what is older.
        assert_eq!(run(&mut p, 4_000 * MS, 5_000 * MS, 0) + p.given_up(), 20_000);
        assert!((7_499..=7_501).contains(&p.given_up()), "{}", p.given_up());
    }

    #[test]
    fn a_sender_without_a_schedule_gets_one() {
        let mut p = pacer(8_000_000, 1_000, 1).going_on(123_456, 700 * MS);
        assert_eq!(p.next(699 * MS), Pace::WaitUntil(700 * MS));
        assert_eq!(run(&mut p, 700 * MS, 1_000 * MS, 0), 300);
        assert_eq!(p.nominal_gap_ns(), None);
    }

    #[test]
    fn an_old_backlog_is_given_up_and_counted() {
        let mut p = pacer(8_000_000, 1_000, 1);
        run(&mut p, 0, 1, 0);
        let sent = run(&mut p, 1_000 * MS, 2_000 * MS, 0);
        assert_eq!(p.given_up(), 749);
        assert_eq!(sent, 2_000 - 1 - 749);
    }

    #[test]
    fn streams_share_the_rate_exactly_and_take_turns() {
        let mut sent = 0;
        for stream in 0..3 {
            let mut p = Pacer::new(8_000_000, 8_000, stream, 3, 1, 100_000).unwrap();
            assert_eq!(p.due_ns(0), u64::from(stream) * MS);
            sent += run(&mut p, 0, 1_000 * MS, 0);
        }
        assert_eq!(sent, 1_000);
    }

    #[test]
    fn a_slow_sender_gives_up_what_it_cannot_send() {
        let mut p = pacer(8_000_000, 1_000, 1);
        let sent = run(&mut p, 0, 10_000 * MS, 2 * MS);
        assert_eq!(sent, 5_000);
        assert!((4_740..=4_751).contains(&p.given_up()), "{}", p.given_up());
    }

    #[test]
    fn error_in_parts_per_billion() {
        let p = pacer(8_000_000, 1_000, 1);
        assert_eq!(p.error_ppb(1_000, 1_000 * MS), Some(0));
        assert_eq!(p.error_ppb(1_000, 1_000_050_000), Some(-49_997));
        assert_eq!(p.error_ppb(0, 5), None);
    }

    #[test]
    fn the_error_after_another_rate_counts_what_was_given_up_before() {
        // 1,000 a second for 5 s, of which one stood still; then 10 a second for 5 s.
        let mut p = pacer(8_000_000, 1_000, 1);
        let mut sent = run(&mut p, 0, 2_000 * MS, 0);
        sent += run(&mut p, 3_000 * MS, 5_000 * MS, 0);
        assert_eq!((sent, p.given_up()), (4_250, 750));
        p.turn(80_000);
        sent += run(&mut p, 5_000 * MS, 10_000 * MS, 0);
        assert_eq!(sent, 4_300);
        // 750 of 5,050.
        assert_eq!(p.error_ppb(sent, 10_000 * MS), Some(-148_514_851));
        assert_eq!(p.error_ppb(sent, 4_000 * MS), None);
    }

    proptest! {
        #[test]
        fn never_ahead_of_the_rate(
            rate in 1_000u64..400_000_000_000,
            bytes in 32u64..65_507,
            batch in 1u64..1_024,
            costs in prop::collection::vec(0u64..5_000_000, 1..100),
        ) {
            let mut p = Pacer::new(rate, bytes * 8, 0, 1, batch, 100_000).unwrap();
            let (mut now, mut sent) = (0u64, 0u64);
            for cost in costs {
                match p.next(now) {
                    Pace::WaitUntil(at) => { prop_assert!(at > now); now = at; }
                    Pace::Send { datagrams, due_ns } => {
                        prop_assert!(due_ns <= now);
                        p.taken(datagrams, now);
                        sent += datagrams;
                        // Whatever happened, no more than the rate allows plus one batch.
                        let allowed = u128::from(now) * u128::from(rate) / (u128::from(bytes) * 8_000_000_000) + 1;
                        prop_assert!(u128::from(sent) < allowed + u128::from(batch) + 1);
                        now += cost;
                    }
                }
            }
        }
    }
}
