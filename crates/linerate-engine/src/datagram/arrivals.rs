//! What a port received, and when.

use crate::clock::WallClock;

/// Where one message lies, and what came with it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    /// First byte in the memory.
    pub offset: usize,
    /// Bytes.
    pub length: usize,
    /// Bytes of each datagram in it, where it is more than one.
    pub segment: Option<usize>,
    /// When it arrived, on the port's clock.
    pub stamp_ns: Option<u64>,
    /// The port's drop counter when it was queued; absent before the first drop.
    pub drops: Option<u32>,
    /// It was longer than the room for it.
    pub truncated: bool,
}

/// The messages of one call, in the port's own memory until its next call.
#[derive(Debug, Clone, Copy)]
pub struct Arrivals<'a> {
    memory: &'a [u8],
    slots: &'a [Slot],
    is_full: bool,
}

impl<'a> Arrivals<'a> {
    /// Messages in `memory`; `is_full` when the call could not have brought more.
    pub fn new(memory: &'a [u8], slots: &'a [Slot], is_full: bool) -> Self {
        Self { memory, slots, is_full }
    }

    /// How many messages.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether more may be queued. Where not, nothing was left.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Each message.
    pub fn messages(&self) -> impl Iterator<Item = Message<'a>> + use<'a> {
        let memory = self.memory;
        self.slots.iter().map(move |slot| {
            let bytes = memory.get(slot.offset..).unwrap_or_default();
            let bytes = bytes.get(..slot.length).unwrap_or(bytes);
            Message {
                bytes,
                segment: slot.segment.unwrap_or(bytes.len().max(1)),
                stamp_ns: slot.stamp_ns,
                drops: slot.drops,
                truncated: slot.truncated,
            }
        })
    }
}

/// One message.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Payload: one datagram, or several of `segment` bytes with a shorter last one.
    pub bytes: &'a [u8],
    /// Bytes of each datagram in it.
    pub segment: usize,
    /// When it arrived, on the clock that the port's [`Stamps`] name, in nanoseconds.
    pub stamp_ns: Option<u64>,
    /// The port's drop counter when this message was queued; absent before the first drop.
    pub drops: Option<u32>,
    /// The message was longer than the room for it.
    pub truncated: bool,
}

/// Bytes of the longest UDP datagram, over IPv6.
const LONGEST: u64 = 65_527;

impl Message<'_> {
    /// Bytes that it had, or could have had at the most where the room for it was too small to know.
    #[inline]
    pub fn most_bytes(&self) -> u64 {
        if self.truncated { LONGEST } else { self.bytes.len() as u64 }
    }
}

/// With what a port stamps arrivals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stamps {
    /// The wall clock, as the kernel's network stack does.
    Realtime,
    /// The monotonic clock.
    Monotonic,
    /// Not at all, and why.
    Absent(String),
}

/// Puts arrivals on the monotonic clock, whatever the port stamps them with.
#[derive(Debug)]
pub struct ArrivalClock {
    stamps: Stamps,
    wall: WallClock,
}

impl ArrivalClock {
    /// For a port that stamps so.
    pub fn new(stamps: Stamps) -> Self {
        Self { stamps, wall: WallClock::default() }
    }

    /// Why arrivals are of the time at which they were read, if they are.
    pub fn is_of_reading(&self) -> Option<&str> {
        match &self.stamps {
            Stamps::Absent(why) => Some(why),
            Stamps::Realtime | Stamps::Monotonic => None,
        }
    }

    /// Looks at the clocks. To be called before the first message, and after messages were received and
    /// before they are placed; `now_ns` is the monotonic time.
    #[inline]
    pub fn look(&mut self, now_ns: u64) {
        if self.stamps == Stamps::Realtime {
            self.wall.look(now_ns);
        }
    }

    /// When a message arrived, on the monotonic clock; `None` when its stamp cannot be used. `now_ns` is
    /// the time given to the last look.
    #[inline]
    pub fn place(&self, stamp_ns: Option<u64>, now_ns: u64) -> Option<u64> {
        match self.stamps {
            Stamps::Realtime => self.wall.place(stamp_ns?, now_ns),
            Stamps::Monotonic => stamp_ns.filter(|at| *at <= now_ns),
            Stamps::Absent(_) => Some(now_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_placed_by_the_ports_own_clock() {
        let monotonic = ArrivalClock::new(Stamps::Monotonic);
        assert_eq!(monotonic.place(Some(7), 9), Some(7));
        assert_eq!(monotonic.place(Some(10), 9), None, "of the future");
        assert_eq!(monotonic.place(None, 9), None);
        let absent = ArrivalClock::new(Stamps::Absent("no clock".into()));
        assert_eq!(absent.place(None, 9), Some(9), "when it was read");
        assert_eq!(absent.is_of_reading(), Some("no clock"));
        let mut realtime = ArrivalClock::new(Stamps::Realtime);
        let stamp = crate::clock::realtime_ns();
        let now = crate::clock::monotonic_ns();
        realtime.look(now);
        let now = crate::clock::monotonic_ns();
        assert!(realtime.place(Some(stamp), now).is_none_or(|at| at <= now));
        assert_eq!(realtime.place(Some(1), now), None, "of long ago");
        assert_eq!(realtime.is_of_reading(), None);
    }

    #[test]
    fn a_slot_outside_of_the_memory_holds_nothing() {
        let slots = [(0, 2), (2, 9), (9, 1)].map(|(offset, length)| Slot {
            offset,
            length,
            ..Slot::default()
        });
        let arrivals = Arrivals::new(&[1, 2, 3], &slots, true);
        let bytes: Vec<&[u8]> = arrivals.messages().map(|message| message.bytes).collect();
        assert_eq!(bytes, [&[1, 2][..], &[3], &[]]);
    }
}
