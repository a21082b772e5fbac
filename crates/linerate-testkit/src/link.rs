//! A made-up clock and a simulated link: ten minutes of test in milliseconds, the same every time.

use std::collections::BTreeSet;
use std::num::NonZeroU8;

use linerate_model::sample::{RecvReport, ThreadUse};
use linerate_session::Surroundings;
use linerate_session::pacer::{Pace, Pacer};
use linerate_session::receiver::{Message, Receiver, Setup};
use linerate_wire::framing::Framing;
use linerate_wire::native::datagram::{Header, Place};

/// What the link does to datagrams, by their number.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Never arrive.
    pub dropped: BTreeSet<u64>,
    /// Arrive twice.
    pub duplicated: BTreeSet<u64>,
    /// Arrive after their successor.
    pub swapped: BTreeSet<u64>,
    /// Arrive damaged.
    pub damaged: BTreeSet<u64>,
    /// Dropped by the receiver's socket, which counts them.
    pub no_room: BTreeSet<u64>,
}

/// One test over the link.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// Payload rate.
    pub bits_per_second: u64,
    /// Bytes of each datagram.
    pub bytes: usize,
    /// Length.
    pub duration_ns: u64,
    /// Number of the first datagram.
    pub first_number: u64,
    /// Delay of the link, without its jitter.
    pub delay_ns: u64,
    /// Delay varies uniformly by up to this either way.
    pub jitter_ns: u64,
    /// Delay of a queue that stands at the start and drains evenly until the end.
    pub queue_ns: u64,
    /// Receiver's clock less sender's clock, at the start.
    pub clock_offset_ns: i64,
    /// Parts in a million by which the receiver's clock is the faster one.
    pub clock_drift_ppm: i64,
    /// What goes wrong.
    pub faults: Faults,
}

/// What went in and what the receiver makes of it.
#[derive(Debug)]
pub struct Simulated {
    /// Datagrams that the pacer let out.
    pub sent: u64,
    /// Arrival on the receiver's clock less send time on the sender's, of each first arrival.
    pub transits: Vec<i64>,
    /// The receiver's report.
    pub report: RecvReport,
}

struct Quiet;

impl Surroundings for Quiet {
    fn origin(&self, first_arrival_ns: u64) -> u64 {
        first_arrival_ns
    }
    fn thread(&self) -> ThreadUse {
        ThreadUse::default()
    }
}

impl Simulation {
    /// A minute at 10 Mbit/s with 1,250-byte datagrams: 60,000 of them, one a millisecond.
    pub fn minute() -> Self {
        Self {
            bits_per_second: 10_000_000,
            bytes: 1_250,
            duration_ns: 60_000_000_000,
            first_number: 0,
            delay_ns: 5_000_000,
            jitter_ns: 0,
            queue_ns: 0,
            clock_offset_ns: 0,
            clock_drift_ppm: 0,
            faults: Faults::default(),
        }
    }

    /// Runs it.
    pub fn run(&self) -> Simulated {
        let Some(mut pacer) =
            Pacer::new(self.bits_per_second, self.bytes as u64 * 8, 0, 1, 1, 100_000)
        else {
            return Simulated { sent: 0, transits: Vec::new(), report: RecvReport::default() };
        };
        let mut arrivals: Vec<(u64, u64, u64)> = Vec::new();
        let (mut now, mut sent, mut chance) = (0u64, 0u64, 0x9e37_79b9_7f4a_7c15u64);
        while now < self.duration_ns {
            match pacer.next(now) {
                Pace::WaitUntil(at) => now = at,
                Pace::Send { .. } => {
                    pacer.taken(1, now);
                    chance = chance
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let spread = (chance >> 33) % (2 * self.jitter_ns + 1);
                    let arrival = now + self.delay_ns + self.queue_at(now) + spread;
                    arrivals.push((sent, now, arrival));
                    sent += 1;
                }
            }
        }
        let mut order = arrivals.clone();
        let mut index = 1;
        while index < order.len() {
            if self.faults.swapped.contains(&order[index - 1].0) {
                order.swap(index - 1, index);
                // Not again, or one datagram would wander to the end.
                index += 1;
            }
            index += 1;
        }
        let mut receiver = Receiver::new(
            Setup {
                framing: Framing::Native { token: 7, stream: 0 },
                first_number: self.first_number,
                interval_ns: 1_000_000_000,
                intervals: Some(self.duration_ns.div_ceil(1_000_000_000)),
                merging: false,
            },
            ThreadUse::default(),
        );
        let mut drops = 0u32;
        let mut at_ns = 0;
        let mut transits = Vec::new();
        for (number, sent_ns, arrival) in order {
            if self.faults.dropped.contains(&number) {
                continue;
            }
            if self.faults.no_room.contains(&number) {
                drops += 1;
                continue;
            }
            at_ns = self.receivers_clock(arrival).max(at_ns);
            let mut datagram = vec![0; self.bytes];
            let place = Place { stream: 0, warmup: false, position: 0, train: NonZeroU8::MIN };
            Header { token: 7, number: self.first_number.wrapping_add(number), sent_ns, place }
                .write(&mut datagram);
            if self.faults.damaged.contains(&number)
                && let Some(byte) = datagram.get_mut(9)
            {
                *byte ^= 0x10;
            } else {
                transits.push(at_ns.wrapping_sub(sent_ns) as i64);
            }
            let message = Message {
                bytes: &datagram,
                segment: self.bytes,
                at_ns,
                stamped: true,
                socket_drops: (drops > 0).then_some(drops),
            };
            let times = if self.faults.duplicated.contains(&number) { 2 } else { 1 };
            for _ in 0..times {
                receiver.on_message(&message, &Quiet);
            }
        }
        let report = receiver.finish(Some(sent), (drops > 0).then_some(drops), &Quiet);
        Simulated { sent, transits, report }
    }

    /// What is left of the queue.
    fn queue_at(&self, now_ns: u64) -> u64 {
        let left = u128::from(self.duration_ns.saturating_sub(now_ns));
        let queue = u128::from(self.queue_ns) * left / u128::from(self.duration_ns.max(1));
        u64::try_from(queue).unwrap_or(u64::MAX)
    }

    fn receivers_clock(&self, now_ns: u64) -> u64 {
        let drift = i128::from(now_ns) * i128::from(self.clock_drift_ppm) / 1_000_000;
        now_ns.wrapping_add_signed(self.clock_offset_ns).wrapping_add_signed(drift as i64)
    }
}
