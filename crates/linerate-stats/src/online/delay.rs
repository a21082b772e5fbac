//! Packet delay variation.
//!
//! A value is reported as its distance from the least of all, which is known only at the end: while a queue
//! drains or clocks drift apart it falls with nearly every datagram. So values are counted in cells that
//! do not depend on it: the cells of a level are equal parts of the line of transit times, and a wider
//! cell is made of whole narrower ones.
//!
//! ```text
//!  │       │       │       │       │       │       │   level 3, 64 ns: 32.8 µs to 65.5 µs above the least
//!  │   │   │   │   │   │   │   │   │   │   │   │   │   level 2, 32 ns: 16.4 µs to 32.8 µs
//!  │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │   level 1, 16 ns: 8.2 µs to 16.4 µs
//!  │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │ │   level 0, 16 ns: the least to 8.2 µs above it
//! ```
//!
//! When the least falls, every value's distance grows, so that its cell may be wider but need not be
//! finer: counts move to wider cells whole, and nothing is ever rounded twice. Each level is a ring of
//! 1,024 cells, half of them for its values and half of them room for the least to fall.

use linerate_model::sample::DelayQuantiles;

/// Width of the finest cells: 2^4 ns, less than what the kernel's stamps are good for.
const FINEST_BITS: u32 = 4;
/// A level has values in 2^9 of its cells. Those of level 0 begin at the least; those of the others are at
/// least as many widths above it, so that half a cell is no more than 1/1,024 of the distance.
const REACH_BITS: u32 = 9;
const REACH: i64 = 1 << REACH_BITS;
/// Cells of a level's ring: as many again for the least to fall.
const CELLS: i64 = 2 * REACH;
/// Enough for the distance of any two `i64`.
const LEVELS: usize = (u64::BITS - FINEST_BITS - REACH_BITS + 1) as usize;
/// The least may fall this far before the rings must turn, 8 µs.
const ROOM_NS: u64 = ((REACH - 1) << FINEST_BITS) as u64;

/// Packet delay variation as RFC 5481 section 4.2 defines it: each datagram's delay less the least
/// delay of all. Needs no synchronised clocks; a drift between them adds itself (50 ppm are 0.5 ms in
/// 10 s).
///
/// Quantiles (nearest rank) are within 8 ns or 1/1,024 of the true ones, whichever is more, in whatever
/// order the values come and however often the least falls; count, mean, least and largest are exact.
/// Recording neither allocates nor fails. 416 KiB, of which only the pages in use are ever touched.
#[derive(Debug, Clone)]
pub struct DelayVariation {
    /// Level after level. Made of plain numbers, which come as zero pages that nobody has touched; an array
    /// of arrays would be written.
    cells: Box<[u64]>,
    count: u64,
    sum: i128,
    least: i64,
    most: i64,
    /// The least when the rings were last turned.
    anchor: i64,
    /// Count and sum when [`DelayVariation::since_last`] was last asked, and the most since.
    told: (u64, i128),
    recent: i64,
}

impl Default for DelayVariation {
    fn default() -> Self {
        Self {
            cells: vec![0; LEVELS * CELLS as usize].into_boxed_slice(),
            count: 0,
            sum: 0,
            least: i64::MAX,
            most: i64::MIN,
            anchor: i64::MAX,
            told: (0, 0),
            recent: i64::MIN,
        }
    }
}

impl DelayVariation {
    /// One arrival: arrival less send time, each on its own host's clock.
    #[inline]
    pub fn record(&mut self, transit_ns: i64) {
        self.count += 1;
        self.sum += i128::from(transit_ns);
        self.most = self.most.max(transit_ns);
        self.recent = self.recent.max(transit_ns);
        if transit_ns < self.least {
            self.least = transit_ns;
            if self.anchor.abs_diff(transit_ns) > ROOM_NS {
                self.turn();
            }
        }
        self.add(transit_ns, self.least, 1);
    }

    /// Quantiles of delay less least delay; `None` while nothing was recorded.
    pub fn quantiles(&self) -> Option<DelayQuantiles> {
        if self.count == 0 {
            return None;
        }
        let max_ns = self.most.abs_diff(self.least);
        let ranked = self.ranked();
        let at = |per_10_000: u128| {
            let rank = (u128::from(self.count) * per_10_000).div_ceil(10_000);
            let cell = ranked.partition_point(|(_, upto)| u128::from(*upto) < rank);
            // The largest is known better than by its cell.
            let inner = ranked.get(cell).filter(|_| rank < u128::from(self.count));
            inner.map_or(max_ns, |(distance, _)| *distance)
        };
        let count = i128::from(self.count);
        let mean = (self.sum - i128::from(self.least) * count) / count;
        Some(DelayQuantiles {
            count: self.count,
            min_ns: 0,
            p50_ns: at(5_000),
            p90_ns: at(9_000),
            p99_ns: at(9_900),
            p999_ns: at(9_990),
            p9999_ns: at(9_999),
            max_ns,
            mean_ns: u64::try_from(mean).unwrap_or(max_ns),
        })
    }

    /// Of what was recorded since this was last asked, mean and largest in nanoseconds above the least of all so far;
    /// `None` where that is nothing.
    pub fn since_last(&mut self) -> Option<(u64, u64)> {
        let (count, sum) = (self.count - self.told.0, self.sum - self.told.1);
        self.told = (self.count, self.sum);
        let most = std::mem::replace(&mut self.recent, i64::MIN);
        if count == 0 {
            return None;
        }
        let max_ns = most.abs_diff(self.least);
        let mean = (sum - i128::from(self.least) * i128::from(count)) / i128::from(count);
        Some((u64::try_from(mean).unwrap_or(max_ns), max_ns))
    }

    /// Arrival less send time of the fastest datagram.
    pub fn least_transit_ns(&self) -> Option<i64> {
        (self.count > 0).then_some(self.least)
    }

    /// Counts a value at the level that its distance from `least` asks for.
    #[inline]
    fn add(&mut self, transit_ns: i64, least: i64, times: u64) {
        let level = level(transit_ns.abs_diff(least));
        if let Some(count) = self.cells.get_mut(place(level, transit_ns >> bits(level))) {
            *count += times;
        }
    }

    /// The least has fallen too far for the rings: what is out of reach at each level moves to a level
    /// above, whose cells hold it whole. From the top, so that there is room. A cell is visited once for
    /// each time the least falls by its width, and at most all of them at once.
    #[cold]
    fn turn(&mut self) {
        let least = self.least;
        for level in (0..=level(self.most.abs_diff(least))).rev() {
            let (was, is) = (end(self.anchor, level), end(least, level));
            for cell in is.max(was - CELLS)..was {
                let count = std::mem::take(&mut self.cells[place(level, cell)]);
                if count > 0 {
                    self.add(cell << bits(level), least, count);
                }
            }
        }
        self.anchor = least;
    }

    /// The middle of each cell in use as distance from the least, in order, and how many values lie there
    /// or below. Cells of different levels may cover the same values: by their middles no value is
    /// farther from its place than half the width that it may have there.
    fn ranked(&self) -> Vec<(u64, u64)> {
        let most = self.most.abs_diff(self.least);
        let mut ranked = Vec::new();
        for level in 0..=level(most) {
            let end = end(self.anchor, level);
            for cell in end - CELLS..end {
                let count = self.cells[place(level, cell)];
                if count > 0 {
                    let middle = (cell << bits(level)) + (1 << (bits(level) - 1));
                    // The first and the last cell reach beyond the values in them.
                    let distance = middle.max(self.least).abs_diff(self.least).min(most);
                    ranked.push((distance, count));
                }
            }
        }
        ranked.sort_unstable();
        let mut below = 0;
        for (_, count) in &mut ranked {
            below += *count;
            *count = below;
        }
        ranked
    }
}

/// Level for values `distance` above the least.
#[inline]
fn level(distance: u64) -> usize {
    (u64::BITS - (distance >> (FINEST_BITS + REACH_BITS)).leading_zeros()) as usize
}

/// Width of a level's cells as a power of two.
#[inline]
fn bits(level: usize) -> u32 {
    FINEST_BITS + level.saturating_sub(1) as u32
}

/// Place of a cell: its level's ring, and the place in that.
#[inline]
fn place(level: usize, cell: i64) -> usize {
    level * CELLS as usize + (cell & (CELLS - 1)) as usize
}

/// One past the highest cell that a level has room for. The values of level 0 begin at the least, those
/// of the others 2^9 cells above it.
fn end(anchor: i64, level: usize) -> i64 {
    let reach = if level == 0 { REACH } else { 2 * REACH };
    (anchor >> bits(level)) + reach + 1
}

#[cfg(test)]
mod tests;
