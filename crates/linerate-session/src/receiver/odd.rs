//! Datagrams that are not the next ones: after a gap, out of order, again, or none of this test.

use linerate_stats::online::{Arrival, LARGEST};
use linerate_wire::framing::{Framing, Stray};

use super::{Message, Receiver};

impl Receiver {
    /// One datagram that no run holds, when `expected` would be next. Returns how many numbers it
    /// skipped.
    pub(super) fn odd_one(&mut self, datagram: &[u8], expected: u64) -> u64 {
        let framing = self.setup.framing;
        match framing.read(datagram) {
            Ok(mark) if mark.warmup => self.warmup += 1,
            Ok(mark) => {
                let number = framing.number(&mark, expected).wrapping_sub(self.setup.first_number);
                if matches!(framing, Framing::Iperf3 { .. }) && number as i64 <= -1 {
                    // Sent before the measured time; iperf3's numbers go on where its warm-up ended.
                    self.warmup += 1;
                } else {
                    return self.out_of_line(number, datagram.len() as u64);
                }
            }
            Err(_) if self.is_end(datagram) => {}
            Err(Stray::Foreign) => self.current.foreign += 1,
            Err(Stray::Damaged) => self.current.corrupt += 1,
        }
        0
    }

    /// A datagram that is not the next one. Returns how many numbers it skipped.
    fn out_of_line(&mut self, number: u64, bytes: u64) -> u64 {
        if number > LARGEST {
            // No sender counts so far: the number is made up.
            self.current.corrupt += 1;
            return 0;
        }
        match self.window.record(number) {
            Arrival::New { gap } => {
                self.current.datagrams += 1;
                self.current.bytes += bytes;
                self.current.lost += gap;
                return gap;
            }
            Arrival::Reordered { extent, late } => {
                self.current.datagrams += 1;
                self.current.bytes += bytes;
                self.current.reordered += 1;
                self.current.late += u64::from(late);
                self.reorder_extent_max = self.reorder_extent_max.max(extent);
                self.found_again(number);
            }
            Arrival::Duplicate => self.current.duplicates += 1,
            Arrival::Unknown => self.unknown_late += 1,
        }
        0
    }

    /// A number counted as lost has arrived: takes it back from the interval it belongs to.
    fn found_again(&mut self, number: u64) {
        let index = self.ends.partition_point(|end| *end <= number);
        let counts = match self.intervals.get_mut(index) {
            Some(interval) => &mut interval.counts,
            None => &mut self.current,
        };
        counts.lost = counts.lost.saturating_sub(1);
    }

    /// Whether it is the sender's word that no more comes; the first that is heard counts.
    pub(super) fn is_end(&mut self, datagram: &[u8]) -> bool {
        let end = self.setup.framing.end(datagram);
        self.peer_end = self.peer_end.or(end);
        end.is_some()
    }

    /// A datagram that stands before those of this test in a message: a stranger's, or a damaged one.
    pub(super) fn stray(&mut self, foreign: bool) {
        let counter = if foreign { &mut self.current.foreign } else { &mut self.current.corrupt };
        *counter += 1;
    }
}

/// Whether a message that begins with warm-up ends with it: one that spans the border holds both.
#[inline]
pub(super) fn is_warmup(framing: Framing, message: &Message<'_>, segment: usize) -> bool {
    message
        .bytes
        .chunks(segment)
        .next_back()
        .and_then(|last| framing.read(last).ok())
        .is_none_or(|mark| mark.warmup)
}
