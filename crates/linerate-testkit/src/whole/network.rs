//! What the network does to data, and the truth about it.

use std::collections::BTreeSet;

use super::chance::Chance;

/// A path, the same both ways. Times are nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// Least delay of each way.
    pub delay_ns: u64,
    /// Up to this much more, each time anew: so datagrams overtake each other.
    pub jitter_ns: u64,
    /// One datagram in so many is lost; 0 is none.
    pub loses_one_in: u64,
    /// One in so many comes twice; 0 is none.
    pub doubles_one_in: u64,
}

impl Network {
    /// Of control bytes.
    pub fn delay(&self, chance: &mut Chance) -> u64 {
        self.delay_ns + chance.below(self.jitter_ns + 1)
    }

    pub(super) fn delay_of_data(&self, chance: &mut Chance) -> u64 {
        self.delay(chance)
    }

    /// How often a datagram arrives.
    pub(super) fn copies(&self, chance: &mut Chance) -> usize {
        if chance.one_in(self.loses_one_in) {
            0
        } else if chance.one_in(self.doubles_one_in) {
            2
        } else {
            1
        }
    }
}

/// A datagram of a stream's data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbered {
    measured: bool,
    number: u64,
}

/// What happened to the datagrams of one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Truth {
    /// Entered the network.
    pub sent: u64,
    /// Of the warm-up, entered the network …
    pub warm_sent: u64,
    /// … and were taken.
    pub warm_delivered: BTreeSet<u64>,
    /// Numbers of those that a receiver took.
    pub delivered: BTreeSet<u64>,
    /// Taken a second time.
    pub doubled: u64,
    /// Taken, for the first time, after one that was sent later.
    pub reordered: u64,
    /// Bytes of a TCP stream that entered the network, warm-up included …
    pub written: u64,
    /// … and that a receiver took.
    pub taken: u64,
}

impl Truth {
    /// The next datagram that enters the network, of the warm-up or measured.
    pub(super) fn send(&mut self, measured: bool) -> Numbered {
        let of = if measured { &mut self.sent } else { &mut self.warm_sent };
        let number = *of;
        *of += 1;
        Numbered { measured, number }
    }

    /// A datagram that a receiver took.
    pub(super) fn deliver(&mut self, taken: Numbered) {
        let Numbered { measured, number } = taken;
        if !measured {
            self.warm_delivered.insert(number);
            return;
        }
        let was_overtaken = self.delivered.last().is_some_and(|last| number < *last);
        let is_new = self.delivered.insert(number);
        self.doubled += u64::from(!is_new);
        self.reordered += u64::from(is_new && was_overtaken);
    }
}
