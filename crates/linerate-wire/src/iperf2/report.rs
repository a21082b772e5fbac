//! What a server reports of a UDP stream, once it has heard its end.

use super::datagram::MARK_BYTES;
use super::{clock, put, word};

/// Bytes of the datagram that carries it.
pub const REPORT_BYTES: usize = 128;

const IS_REPORT: u32 = 0x8000_0000;
/// The words from 56 on mean what they should.
const IS_EXTENDED: u32 = 0x4000_0000;
/// Counts have 64 bits.
const IS_WIDE: u32 = 0x0800_0000;

/// What lies farther apart are no two clocks that agree, in nanoseconds: its servers leave delays out as well.
pub const MOST_NS: u64 = 600_000_000_000;

/// Totals of one stream, as iperf 2 counts: the datagram that ends it is one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Bytes that arrived.
    pub bytes: u64,
    /// From the first arrival to the last, in nanoseconds; microseconds travel.
    pub span_ns: u64,
    /// Numbers that are missing, less those that came out of order.
    pub lost: u64,
    /// Numbers below the largest that had come before: late ones, and second copies.
    pub out_of_order: u64,
    /// The largest number: how many were sent at least.
    pub datagrams: u64,
    /// Jitter after RFC 1889, in nanoseconds; microseconds travel.
    pub jitter_ns: u64,
    /// Its later words are valid. Clients of 2.2 show no loss without them, those of 2.1 a delay that nobody measured with
    /// them; 2.2 leaves delays out if the smallest is beyond 60 million seconds (its `UNREALISTIC_LATENCYMINMAX`).
    pub extended: bool,
    /// Among those words, where they are known.
    pub delays: Option<Delays>,
}

/// Delays from one wall clock to the other, in nanoseconds; microseconds travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delays {
    /// Of so many datagrams; at least 1.
    pub count: u32,
    /// Mean.
    pub mean_ns: u64,
    /// Least.
    pub least_ns: u64,
    /// Largest.
    pub most_ns: u64,
    /// Standard deviation, of one more than it is divided by.
    pub deviation_ns: u64,
}

impl Delays {
    /// What its readers divide by one less than the count: the sum of the squares of what they differ by from the mean,
    /// in square microseconds, of which 32 bits travel. With the count that goes with it: where it would be too large,
    /// both are smaller, and what is shown stays right, up to a deviation of 65.5 ms.
    fn squares(&self) -> (u32, u32) {
        let deviation_us = self.deviation_ns as f64 / 1e3;
        let each = deviation_us * deviation_us;
        let most = (f64::from(u32::MAX) / each).clamp(1.0, f64::from(u32::MAX)) as u32;
        let others = self.count.saturating_sub(1).min(most);
        ((each * f64::from(others)) as u32, others.saturating_add(1))
    }
}

fn whole_and_micros(ns: u64) -> (u32, u32) {
    let seconds = u32::try_from(ns / 1_000_000_000).unwrap_or(u32::MAX);
    (seconds, (ns % 1_000_000_000 / 1_000) as u32)
}

impl Report {
    /// The whole datagram.
    pub fn encode(&self) -> [u8; REPORT_BYTES] {
        let mut bytes = [0; REPORT_BYTES];
        let high = |value: u64| (value >> 32) as u32;
        let (seconds, micros) = whole_and_micros(self.span_ns);
        let (jitter_s, jitter_us) = whole_and_micros(self.jitter_ns);
        let extended = if self.extended { IS_EXTENDED } else { 0 };
        // Clients of release 2.2 show no loss where this is 0.
        let per_second = u128::from(self.datagrams) * 1_000_000_000
            / u128::from(self.span_ns.max(1_000_000_000));
        let per_second = u32::try_from(per_second).unwrap_or(u32::MAX).max(1);
        let delays = self.delays.filter(|delays| delays.count > 0);
        for (offset, value) in [
            (16, IS_REPORT | IS_WIDE | extended),
            (20, high(self.bytes)),
            (24, self.bytes as u32),
            (28, seconds),
            (32, micros),
            (36, self.lost as u32),
            (40, self.out_of_order as u32),
            (44, self.datagrams as u32),
            (48, jitter_s),
            (52, jitter_us),
            // Seconds of the smallest delay, where nobody measured any.
            (56, if self.extended { u32::MAX } else { 0 }),
            (108, per_second),
            (112, 1),
            (116, high(self.lost)),
            (120, high(self.out_of_order)),
            (124, high(self.datagrams)),
        ] {
            put(&mut bytes, offset, value);
        }
        if let Some(delays) = delays {
            let sum_ns = delays.mean_ns.saturating_mul(delays.count.into());
            let times = [delays.least_ns, delays.most_ns, sum_ns, delays.mean_ns];
            for (offset, time_ns) in (56..).step_by(8).zip(times) {
                let (seconds, micros) = whole_and_micros(time_ns);
                put(&mut bytes, offset, seconds);
                put(&mut bytes, offset + 4, micros);
            }
            let (squares, count) = delays.squares();
            put(&mut bytes, 88, squares);
            put(&mut bytes, 104, count);
        }
        bytes
    }

    /// From a datagram. `None` when it is none: servers' second reports are the client's own datagram, whose header has
    /// other flags. What is before them is blank, or of that datagram as well in reports of 2.0.13.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let flags = word(datagram, MARK_BYTES)?;
        if flags & IS_REPORT == 0 || flags & !(IS_REPORT | IS_EXTENDED | IS_WIDE) != 0 {
            return None;
        }
        let at = |offset: usize| word(datagram, offset).map(u64::from);
        // Where they are not valid, the high words are other releases' and not there at all.
        let high = |offset: usize| {
            let valid = flags & IS_EXTENDED != 0;
            at(offset).filter(|_| valid).unwrap_or(0) << 32
        };
        let time = |offset: usize| {
            let micros = at(offset + 4)?.min(999_999);
            Some(at(offset)? * 1_000_000_000 + micros * 1_000)
        };
        Some(Self {
            bytes: at(20)? << 32 | at(24)?,
            span_ns: time(28)?,
            lost: high(116) | at(36)?,
            out_of_order: high(120) | at(40)?,
            datagrams: high(124) | at(44)?,
            jitter_ns: time(48)?,
            extended: flags & IS_EXTENDED != 0,
            delays: delays(datagram).filter(|_| flags & IS_EXTENDED != 0),
        })
    }
}

/// `None` where nobody measured any, or the words contradict each other.
fn delays(datagram: &[u8]) -> Option<Delays> {
    let time = |offset: usize| clock(datagram, offset);
    let (least_ns, most_ns, mean_ns) = (time(56)?, time(64)?, time(80)?);
    let count = word(datagram, 104).filter(|count| *count > 0)?;
    let squares =
        f64::from(word(datagram, 88)?) + f64::from(word(datagram, 92)?.min(999_999)) / 1e6;
    let deviation_us = (squares / f64::from(count.saturating_sub(1).max(1))).sqrt();
    let fits = least_ns <= mean_ns && mean_ns <= most_ns && most_ns < MOST_NS;
    let deviation_ns = (deviation_us * 1e3) as u64;
    fits.then_some(Delays { count, mean_ns, least_ns, most_ns, deviation_ns })
}
