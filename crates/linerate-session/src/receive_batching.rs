//! When a receiver looks at its queue again.
//!
//! A thread that waits in the kernel for the next message is woken by the sender of that message, or
//! by the card's interrupt: each wake-up costs the core that delivers it, on virtual machines a fifth
//! of what a sender at full rate has. A receiver that sleeps for a set time instead costs nobody
//! anything, and takes what gathered in one call. It is what cards do to their hosts (`ethtool -c`).
//!
//! Arrival times of datagrams are the kernel's, so nothing that is measured changes. Of bytes of a stream the reading is all
//! that is known: they are seen up to one sleep later, which is a thousandth of the shortest stream whose receiver
//! sleeps.

/// How long a receiver sleeps while messages come quickly.
const NAP_NS: u64 = 100_000;
/// So many messages must be expected in that time, or waiting for the next one costs less.
const WORTH: u64 = 2;
/// What gathers in that time may take this part of the receive buffer, one in …
const BUFFER_SHARE: u64 = 8;
/// What the kernel charges a receive buffer for: `sk_buff` and its shared part with each message …
const MESSAGE_BYTES: u64 = 768;
/// … and at most so many bytes for each of payload, as pages are shared and never full.
const BYTES_CHARGED: u64 = 2;

/// Decides from what arrived lately.
#[derive(Debug)]
pub struct ReceiveBatching {
    buffer: u64,
    since_ns: u64,
    messages: u64,
    bytes: u64,
}

impl ReceiveBatching {
    /// For a socket with a receive buffer of `buffer` bytes, as `SO_RCVBUF` is read back. Counts from
    /// `now_ns`.
    pub fn new(buffer: u64, now_ns: u64) -> Self {
        Self { buffer, since_ns: now_ns, messages: 0, bytes: 0 }
    }

    /// A call that returned at `now_ns` brought `messages` with `bytes` of payload, and `is_full`
    /// when more may be queued. Returns until when to sleep before the next call, which waits by
    /// itself if nothing has come by then.
    #[inline]
    pub fn after_call(
        &mut self,
        now_ns: u64,
        messages: u64,
        bytes: u64,
        is_full: bool,
    ) -> Option<u64> {
        self.messages = self.messages.saturating_add(messages);
        self.bytes = self.bytes.saturating_add(bytes);
        if is_full {
            return None;
        }
        let elapsed = now_ns.saturating_sub(self.since_ns).max(1);
        let within_nap = |count: u64| count.saturating_mul(NAP_NS) / elapsed;
        let charged = self
            .bytes
            .saturating_mul(BYTES_CHARGED)
            .saturating_add(self.messages.saturating_mul(MESSAGE_BYTES));
        let pays = within_nap(self.messages) >= WORTH;
        let fits = within_nap(charged) <= self.buffer / BUFFER_SHARE;
        *self = Self::new(self.buffer, now_ns);
        (pays && fits).then(|| now_ns.saturating_add(NAP_NS))
    }
}

/// A stream's receiver is awake for so long after its first bytes, and so often the size of its buffer is looked at, in
/// nanoseconds.
const AWAKE_NS: u64 = 100_000_000;

/// The same for bytes of a stream, whose buffer the kernel lets grow.
#[derive(Debug)]
pub struct StreamBatching {
    sleeps: bool,
    /// `None` before the first bytes.
    awake_until_ns: Option<u64>,
    batching: ReceiveBatching,
    looks_ns: u64,
}

impl StreamBatching {
    /// Before the first bytes. Where single blocks are timed it never sleeps.
    pub fn new(sleeps: bool) -> Self {
        let batching = ReceiveBatching::new(0, 0);
        Self { sleeps, awake_until_ns: None, batching, looks_ns: 0 }
    }

    /// A read that returned at `now_ns` brought so many bytes, and `is_full` when more may be queued; `buffer` is asked now
    /// and then for the socket's `SO_RCVBUF`. Returns as [`ReceiveBatching::after_call`] does.
    #[inline]
    pub fn after_read(
        &mut self,
        now_ns: u64,
        bytes: u64,
        is_full: bool,
        buffer: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let awake_until_ns =
            *self.awake_until_ns.get_or_insert_with(|| now_ns.saturating_add(AWAKE_NS));
        if !self.sleeps || now_ns < awake_until_ns {
            return None;
        }
        if now_ns >= self.looks_ns {
            self.looks_ns = now_ns.saturating_add(AWAKE_NS);
            self.batching = ReceiveBatching::new(buffer(), now_ns);
            return None;
        }
        self.batching.after_call(now_ns, 1, bytes, is_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: u64 = 64 << 20;

    #[test]
    fn sleeps_only_where_messages_come_quickly() {
        let mut slow = ReceiveBatching::new(BUFFER, 0);
        assert_eq!(slow.after_call(1_000_000, 1, 1472, false), None);
        assert_eq!(slow.after_call(1_051_000, 1, 1472, false), None, "51 us apart");
        assert_eq!(slow.after_call(1_100_000, 1, 1472, false), Some(1_200_000), "49 us apart");
        assert_eq!(slow.after_call(1_205_000, 2, 2944, false), None, "less than two a nap");
    }

    #[test]
    fn takes_what_is_queued_first() {
        let mut m = ReceiveBatching::new(BUFFER, 0);
        assert_eq!(m.after_call(100_000, 4, 262_144, true), None);
        assert_eq!(m.after_call(110_000, 4, 262_144, true), None);
        assert_eq!(m.after_call(120_000, 1, 65_536, false), Some(220_000));
    }

    #[test]
    fn a_small_buffer_is_never_left_alone() {
        // 20 Gbit/s in trains of 65,000 bytes: 503,000 bytes charged in a nap.
        let nap = |buffer| ReceiveBatching::new(buffer, 0).after_call(104_000, 4, 260_000, false);
        assert_eq!(nap(4 << 20), Some(204_000));
        assert_eq!(nap(1 << 20), None);
        // Small datagrams are charged for more than they hold: 64 bytes a us.
        let nap = |buffer| ReceiveBatching::new(buffer, 0).after_call(100_000, 100, 6_400, false);
        assert_eq!(nap(1 << 20), Some(200_000));
        assert_eq!(nap(425_984), None);
    }

    #[test]
    fn a_streams_receiver_is_awake_at_first_and_knows_its_buffer() {
        const MS: u64 = 1_000_000;
        let read = |stream: &mut StreamBatching, now_ns, buffer| {
            stream.after_read(now_ns, 12_000, false, || buffer)
        };
        let mut stream = StreamBatching::new(true);
        // A stream of less than 100 ms is read as it comes.
        for at in 0..100 {
            assert_eq!(read(&mut stream, 5_000 * MS + at * MS, BUFFER), None);
        }
        let begun = 5_100 * MS;
        assert_eq!(read(&mut stream, begun, BUFFER), None, "it looks at its buffer");
        assert_eq!(read(&mut stream, begun + 10_000, 0), Some(begun + 110_000));
        assert_eq!(read(&mut stream, begun + 99 * MS, 0), None, "little comes");
        assert_eq!(read(&mut stream, begun + 100 * MS, 128 << 10), None, "it looks again");
        assert_eq!(read(&mut stream, begun + 100 * MS + 10_000, 0), None, "too much for it");
        let mut timed = StreamBatching::new(false);
        for at in 0..3 {
            assert_eq!(read(&mut timed, at * 100 * MS + at, BUFFER), None);
        }
    }

    #[test]
    fn bears_any_numbers() {
        let mut m = ReceiveBatching::new(u64::MAX, u64::MAX);
        let _ = m.after_call(0, u64::MAX, u64::MAX, true);
        let _ = m.after_call(u64::MAX, u64::MAX, u64::MAX, false);
        let _ = m.after_call(5, 1, 1, false);
    }
}
