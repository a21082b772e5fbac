//! What data threads decide between their calls into the kernel: what leaves when, what is counted where, when a stream
//! is over. The threads of `linerate-data` do it with sockets, those of the testkit under a made-up clock.

mod bytes_in;
mod bytes_out;
mod incoming;
mod outgoing;

use linerate_model::sample::{RecvInterval, ThreadUse};

use crate::Surroundings;

pub use bytes_in::BytesIn;
pub use bytes_out::{BlockPacer, BytesOut};
pub use incoming::{Apart, Incoming};
pub use outgoing::{Call, Next, Outgoing};

/// An interval of a receiver that is over.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Of a warm-up that only time distinguishes.
    pub warm: bool,
    /// Within the warm-up, or the measured time.
    pub index: usize,
    /// What it counted.
    pub counted: RecvInterval,
}

/// Rows that were handed out, of a warm-up and after it.
#[derive(Debug, Default)]
struct Rows {
    warm: usize,
    measured: usize,
}

impl Rows {
    /// The next that is over, once.
    #[inline]
    fn next(&mut self, warm: &[RecvInterval], measured: &[RecvInterval]) -> Option<Row> {
        let is_warm = self.warm < warm.len();
        let (rows, at) =
            if is_warm { (warm, &mut self.warm) } else { (measured, &mut self.measured) };
        let (index, counted) = (*at, *rows.get(*at)?);
        *at += 1;
        Some(Row { warm: is_warm, index, counted })
    }
}

/// Surroundings in which no other stream has a say, for the account of a warm-up.
struct Alone<'a>(&'a dyn Surroundings);

impl Surroundings for Alone<'_> {
    fn origin(&self, first_arrival_ns: u64) -> u64 {
        first_arrival_ns
    }

    fn thread(&self) -> ThreadUse {
        self.0.thread()
    }
}

/// Intervals of a warm-up, of which there is one at least.
pub fn warm_intervals(warmup_ns: u64, interval_ns: u64) -> u64 {
    warmup_ns.div_ceil(interval_ns.max(1)).max(1)
}
