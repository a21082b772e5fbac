//! Which sequence numbers have arrived: the base of every loss figure.
//!
//! ```text
//!  0 … forgotten │ spill: missing ranges, sorted │ window: one bit a number │ next … not seen yet
//!                └ forgotten_below               └ base (multiple of 64)    └ next
//! ```
//!
//! Everything below `next` is either set in the window, listed as missing in the spill, or (not
//! listed, below the window) arrived. So `lost = next - unique` always, and a duplicate can never
//! hide a loss. The spill is bounded; when it is full its oldest half is folded into the loss runs
//! and forgotten, and a datagram that still arrives from there can no longer be distinguished from a
//! duplicate: it is counted as [`Arrival::Unknown`].

use linerate_model::sample::LossRunCounts;

use super::LossRuns;

/// Numbers the window distinguishes. At 1 M datagrams/s these are 65 ms of reordering; the spill goes
/// further back.
pub const WINDOW: u64 = 65_536;
/// Largest number that is believed. Two windows below the end of `u64`, so that no sum here can pass
/// it; at a thousand million datagrams a second it is 584 years away.
pub const LARGEST: u64 = u64::MAX - 2 * WINDOW;
const WORDS: usize = (WINDOW / 64) as usize;
/// Missing ranges remembered below the window: 1 MiB, untouched unless there is that much loss.
const SPILL_RANGES: usize = 65_536;
/// Gaps remembered for the reordering extent.
const GAPS: usize = 1_024;

/// What a datagram is, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The highest so far; `gap` numbers before it were skipped.
    New {
        /// How many.
        gap: u64,
    },
    /// Missing until now, though a later one had come.
    Reordered {
        /// RFC 4737 section 4.2: how many datagrams arrived since the first with a higher number.
        /// `None` when that is too long ago to know.
        extent: Option<u64>,
        /// Its place had already left the window.
        late: bool,
    },
    /// Had arrived before.
    Duplicate,
    /// Below everything remembered (a duplicate or a very late arrival), or above [`LARGEST`]. Counts
    /// as nothing.
    Unknown,
}

/// The receive window of one stream. See the module for its shape. Numbers are offsets from the
/// stream's first, so that a stream may start anywhere in `u64`.
#[derive(Debug)]
pub struct SequenceWindow {
    bits: Box<[u64]>,
    base: u64,
    next: u64,
    unique: u64,
    arrivals: u64,
    spill: Vec<(u64, u64)>,
    forgotten_below: u64,
    forgotten: LossRuns,
    gaps: Vec<Gap>,
    gaps_next: usize,
}

#[derive(Debug, Clone, Copy)]
struct Gap {
    start: u64,
    end: u64,
    /// Arrivals before the one that jumped over the gap.
    arrivals: u64,
}

impl Default for SequenceWindow {
    fn default() -> Self {
        Self {
            bits: vec![0; WORDS].into_boxed_slice(),
            base: 0,
            next: 0,
            unique: 0,
            arrivals: 0,
            spill: Vec::with_capacity(SPILL_RANGES),
            forgotten_below: 0,
            forgotten: LossRuns::default(),
            gaps: Vec::with_capacity(GAPS),
            gaps_next: 0,
        }
    }
}

impl SequenceWindow {
    /// One past the highest number seen.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Numbers seen at least once.
    #[inline]
    pub fn unique(&self) -> u64 {
        self.unique
    }

    /// Numbers below [`Self::next`] not seen.
    pub fn missing(&self) -> u64 {
        self.next - self.unique
    }

    /// `count` datagrams arrived in order, the first being number [`Self::next`]. The hot path: a
    /// few operations for 64 datagrams. Does nothing where that would lead a window beyond
    /// [`LARGEST`].
    #[inline]
    pub fn in_order(&mut self, count: u64) {
        let end = self.next.checked_add(count).filter(|end| *end <= LARGEST + WINDOW);
        let Some(end) = end else { return };
        while self.next < end {
            // What leaves the window must have been set before: a word less than a window a step.
            let until = end.min(self.next + (WINDOW - 64));
            self.slide(until);
            self.set(self.next, until);
            self.next = until;
        }
        self.unique += count;
        self.arrivals += count;
    }

    /// One datagram with any number arrived.
    pub fn record(&mut self, number: u64) -> Arrival {
        if number > LARGEST {
            return Arrival::Unknown;
        }
        if number >= self.next {
            let end = number + 1;
            let gap = number - self.next;
            if gap > 0 {
                self.remember_gap(Gap { start: self.next, end: number, arrivals: self.arrivals });
            }
            self.slide(end);
            self.set(number, end);
            self.next = end;
            self.unique += 1;
            self.arrivals += 1;
            return Arrival::New { gap };
        }
        if number >= self.base {
            let (word, bit) = place(number);
            let Some(slot) = self.bits.get_mut(word) else { return Arrival::Unknown };
            if *slot & bit != 0 {
                return Arrival::Duplicate;
            }
            *slot |= bit;
            return self.reordered(number, false);
        }
        if number < self.forgotten_below {
            return Arrival::Unknown;
        }
        if self.take_from_spill(number) { self.reordered(number, true) } else { Arrival::Duplicate }
    }

    /// Every missing number below `end`, which is what the sender sent, as runs. `end` must not lie
    /// below [`Self::next`]; numbers beyond `next` are missing too.
    pub fn loss_runs(&self, end: u64) -> (u64, LossRunCounts) {
        let mut runs = self.forgotten;
        for &(start, end) in &self.spill {
            runs.add(start, end);
        }
        let mut number = self.base;
        while number < self.next {
            let (word, _) = place(number);
            let until = (number + 64).min(self.next);
            let arrived = self.bits.get(word).copied().unwrap_or(0);
            zero_runs(arrived, number, until, |start, end| runs.add(start, end));
            number = until;
        }
        runs.add(self.next, end);
        (runs.lost(), runs.finish())
    }

    fn reordered(&mut self, number: u64, late: bool) -> Arrival {
        self.unique += 1;
        let arrivals = self.arrivals;
        self.arrivals += 1;
        let extent = self
            .gaps
            .iter()
            .find(|gap| (gap.start..gap.end).contains(&number))
            .map(|gap| arrivals - gap.arrivals);
        Arrival::Reordered { extent, late }
    }

    fn remember_gap(&mut self, gap: Gap) {
        match self.gaps.get_mut(self.gaps_next) {
            Some(slot) => *slot = gap,
            None => self.gaps.push(gap),
        }
        self.gaps_next = (self.gaps_next + 1) % GAPS;
    }

    /// Moves the window up until numbers below `end` fit in it.
    #[inline]
    fn slide(&mut self, end: u64) {
        let Some(over) = (end - self.base).checked_sub(WINDOW).filter(|over| *over > 0) else {
            return;
        };
        // A jump far beyond the window empties it once and lists the rest as one range.
        let words = over.div_ceil(64);
        for _ in 0..words.min(WORDS as u64) {
            let (word, _) = place(self.base);
            let Some(slot) = self.bits.get_mut(word) else { return };
            let arrived = std::mem::take(slot);
            if arrived != u64::MAX {
                let base = self.base;
                zero_runs(arrived, base, base + 64, |start, end| self.push_spill(start, end));
            }
            self.base += 64;
        }
        if words > WORDS as u64 {
            let base = self.base + (words - WORDS as u64) * 64;
            self.push_spill(self.base, base);
            self.base = base;
        }
    }

    #[inline]
    fn set(&mut self, start: u64, end: u64) {
        let mut number = start;
        while number < end {
            let until = ((number | 63) + 1).min(end);
            let count = until - number;
            let mask = if count == 64 { u64::MAX } else { ((1 << count) - 1) << (number % 64) };
            let (word, _) = place(number);
            if let Some(slot) = self.bits.get_mut(word) {
                *slot |= mask;
            }
            number = until;
        }
    }

    fn push_spill(&mut self, start: u64, end: u64) {
        if let Some(last) = self.spill.last_mut()
            && last.1 == start
        {
            last.1 = end;
            return;
        }
        if self.spill.len() >= SPILL_RANGES {
            for (start, end) in self.spill.drain(..SPILL_RANGES / 2) {
                self.forgotten.add(start, end);
                self.forgotten_below = end;
            }
        }
        self.spill.push((start, end));
    }

    fn take_from_spill(&mut self, number: u64) -> bool {
        let after = self.spill.partition_point(|range| range.0 <= number);
        let Some(index) = after.checked_sub(1) else { return false };
        let Some(&(start, end)) = self.spill.get(index) else { return false };
        if number >= end {
            return false;
        }
        match (number == start, number + 1 == end) {
            (true, true) => drop(self.spill.remove(index)),
            (true, false) => self.spill[index].0 = number + 1,
            (false, true) => self.spill[index].1 = number,
            (false, false) => {
                if self.spill.len() >= SPILL_RANGES {
                    // No room to split: forgets up to here, which keeps every count right.
                    for (start, end) in self.spill.drain(..index) {
                        self.forgotten.add(start, end);
                    }
                    self.forgotten.add(start, number);
                    self.forgotten_below = number;
                    self.spill[0].0 = number + 1;
                } else {
                    self.spill[index].1 = number;
                    self.spill.insert(index + 1, (number + 1, end));
                }
            }
        }
        true
    }
}

/// Word of the ring and bit within it.
fn place(number: u64) -> (usize, u64) {
    (((number / 64) % WORDS as u64) as usize, 1 << (number % 64))
}

/// Calls `each` with every run of zeros of `word`, whose lowest bit is number `start` (a multiple
/// of 64), below `end`.
fn zero_runs(word: u64, start: u64, end: u64, mut each: impl FnMut(u64, u64)) {
    let width = (end - start) as u32;
    let mut bit = 0;
    while bit < width {
        bit += (word >> bit).trailing_ones();
        if bit >= width {
            return;
        }
        let zeros = (word >> bit).trailing_zeros().min(width - bit);
        each(start + u64::from(bit), start + u64::from(bit + zeros));
        bit += zeros;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn duplicates_hide_nothing() {
        // 1,4,4,4,5 with 0..6 sent: what iperf3 counts as no loss.
        let mut w = SequenceWindow::default();
        for n in [1, 4, 4, 4, 5] {
            w.record(n);
        }
        assert_eq!((w.unique(), w.missing()), (3, 3));
        let (lost, runs) = w.loss_runs(6);
        assert_eq!((lost, runs.runs), (3, 2));
    }

    #[test]
    fn reordering_extent_is_that_of_rfc_4737() {
        // Arrivals 0 1 2 4 5 3: number 3 has extent 2.
        let mut w = SequenceWindow::default();
        w.in_order(3);
        assert_eq!(w.record(4), Arrival::New { gap: 1 });
        assert_eq!(w.record(5), Arrival::New { gap: 0 });
        assert_eq!(w.record(3), Arrival::Reordered { extent: Some(2), late: false });
        assert_eq!(w.missing(), 0);
    }

    #[test]
    fn later_than_the_window_is_still_exact() {
        let mut w = SequenceWindow::default();
        w.record(1);
        w.in_order(10 * WINDOW);
        assert_eq!(w.record(0), Arrival::Reordered { extent: Some(10 * WINDOW + 1), late: true });
        assert_eq!(w.record(0), Arrival::Duplicate);
        assert_eq!(w.missing(), 0);
    }

    #[test]
    fn a_jump_over_most_of_the_space_is_cheap_and_exact() {
        let mut w = SequenceWindow::default();
        w.in_order(100);
        assert_eq!(w.record(1 << 62), Arrival::New { gap: (1 << 62) - 100 });
        assert_eq!(w.missing(), (1 << 62) - 100);
        assert_eq!(w.record(5_000_000), Arrival::Reordered { extent: Some(1), late: true });
        assert_eq!(w.loss_runs((1 << 62) + 1).0, (1 << 62) - 101);
        assert_eq!(w.record(u64::MAX), Arrival::Unknown);
    }

    #[test]
    fn the_end_of_the_numbers_is_refused_and_not_walked_to() {
        // Numbers this high made the bit arithmetic wrap and walk through all of `u64`.
        for number in [u64::MAX, u64::MAX - 1, u64::MAX - 63, LARGEST + 1] {
            let mut w = SequenceWindow::default();
            assert_eq!(w.record(number), Arrival::Unknown, "{number}");
            assert_eq!((w.next(), w.unique()), (0, 0));
        }
        let mut w = SequenceWindow::default();
        assert_eq!(w.record(LARGEST), Arrival::New { gap: LARGEST });
        w.in_order(WINDOW - 1);
        assert_eq!((w.next(), w.unique()), (LARGEST + WINDOW, WINDOW));
        w.in_order(1);
        assert_eq!(w.unique(), WINDOW);
        assert_eq!(w.loss_runs(u64::MAX).0, u64::MAX - WINDOW);
    }

    #[test]
    fn a_full_spill_forgets_the_oldest_and_keeps_the_counts() {
        let mut w = SequenceWindow::default();
        let rounds = 3 * SPILL_RANGES as u64;
        for n in 0..rounds {
            w.record(2 * n + 1);
        }
        assert_eq!(w.missing(), rounds);
        assert_eq!(w.record(0), Arrival::Unknown);
        let (lost, runs) = w.loss_runs(2 * rounds);
        assert_eq!((lost, runs.runs, runs.longest), (rounds, rounds, 1));
    }

    #[test]
    fn splitting_a_range_in_a_full_spill_keeps_the_counts() {
        let mut w = SequenceWindow::default();
        // 65,536 ranges of three missing numbers each.
        for n in 0..SPILL_RANGES as u64 {
            w.record(4 * n + 3);
        }
        w.in_order(4 * WINDOW);
        let before = w.missing();
        assert_eq!(w.spill.len(), SPILL_RANGES);
        assert!(matches!(w.record(4 * 1_000 + 1), Arrival::Reordered { late: true, .. }));
        assert_eq!(w.missing(), before - 1);
        assert_eq!(w.loss_runs(w.next()).0, before - 1);
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(
            steps in prop::collection::vec((0u64..400, 1u64..200), 1..300),
            scale in prop::sample::select(vec![1u64, 700, 40_000]),
        ) {
            let mut w = SequenceWindow::default();
            let mut seen = BTreeSet::new();
            for (value, run) in steps {
                if value % 3 == 0 {
                    seen.extend(w.next()..w.next() + run);
                    w.in_order(run);
                } else {
                    let n = value * scale;
                    let fresh = seen.insert(n);
                    let got = w.record(n);
                    prop_assert_eq!(fresh, !matches!(got, Arrival::Duplicate));
                }
            }
            prop_assert_eq!(w.unique(), seen.len() as u64);
            let end = seen.last().unwrap() + 1;
            prop_assert_eq!(w.next(), end);
            let (lost, runs) = w.loss_runs(end + 10);
            prop_assert_eq!(lost, end + 10 - seen.len() as u64);
            // A run begins before every arrival whose predecessor is missing, and at the end.
            let begins = |n: &&u64| **n > 0 && !seen.contains(&(**n - 1));
            prop_assert_eq!(runs.runs, seen.iter().filter(begins).count() as u64 + 1);
        }
    }
}
