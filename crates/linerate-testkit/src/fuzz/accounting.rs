//! Accounting: any sequence of arrivals, against a plain model that cannot be wrong.

use std::collections::BTreeMap;
use std::num::NonZeroU8;

use linerate_model::sample::{RecvCounts, ThreadUse};
use linerate_session::Surroundings;
use linerate_session::receiver::{Message, Receiver, Setup};
use linerate_stats::online::sequence::WINDOW;
use linerate_stats::online::{Arrival, LARGEST, SequenceWindow};
use linerate_wire::framing::Framing;
use linerate_wire::native::datagram::{HEADER_BYTES, Header, Place};

use super::Input;

/// The numbers that have arrived, as ranges: start to one past the end.
#[derive(Debug, Default)]
struct Arrived {
    ranges: BTreeMap<u64, u64>,
    next: u64,
    unique: u64,
}

impl Arrived {
    fn has(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, end)| number < *end)
    }

    /// Adds numbers that are not there yet.
    fn add(&mut self, start: u64, end: u64) {
        if start == end {
            return;
        }
        self.unique += end - start;
        self.next = self.next.max(end);
        let mut end = end;
        if let Some(after) = self.ranges.remove(&end) {
            end = after;
        }
        if let Some((_, before)) = self.ranges.range_mut(..start).next_back()
            && *before == start
        {
            *before = end;
            return;
        }
        self.ranges.insert(start, end);
    }

    /// Runs of missing numbers below `end`.
    fn gaps(&self, end: u64) -> u64 {
        let mut gaps = 0;
        let mut at = 0;
        for (start, stop) in &self.ranges {
            gaps += u64::from(*start > at);
            at = *stop;
        }
        gaps + u64::from(end > at)
    }
}

/// Operations, and so ranges; too few to fill the window's spill, where the model knows more.
const MOST_STEPS: usize = 20_000;

/// [`SequenceWindow`] against a set of ranges.
pub fn sequence_window(data: &[u8]) {
    let mut input = Input(data);
    let mut window = SequenceWindow::default();
    let mut model = Arrived::default();
    for _ in 0..MOST_STEPS {
        if input.is_empty() {
            break;
        }
        let kind = input.byte();
        if kind % 4 == 0 {
            // Bounded: the time of the real thing is one bit a datagram, however far it goes.
            let count = input.number() % 300_000;
            window.in_order(count);
            // What would lead a window beyond the largest number does nothing.
            if let Some(end) = model.next.checked_add(count).filter(|e| *e <= LARGEST + WINDOW) {
                model.add(model.next, end);
            }
        } else {
            let distance = input.number();
            let number = match kind % 4 {
                1 => model.next.saturating_add(distance % 1_000),
                2 => model.next.saturating_sub(distance % 200_000),
                _ => distance,
            };
            let arrival = window.record(number);
            let expected_new = number >= model.next && number <= LARGEST;
            match arrival {
                Arrival::New { gap } => {
                    assert!(expected_new);
                    assert_eq!(gap, number - model.next);
                }
                Arrival::Reordered { .. } => assert!(number < model.next && !model.has(number)),
                Arrival::Duplicate => assert!(model.has(number)),
                Arrival::Unknown => assert!(number > LARGEST),
            }
            if number <= LARGEST && !model.has(number) {
                model.add(number, number + 1);
            }
        }
        assert_eq!(window.next(), model.next);
        assert_eq!(window.unique(), model.unique);
        assert_eq!(window.unique() + window.missing(), window.next());
    }
    let end = model.next.saturating_add(input.number() % 100);
    let (lost, runs) = window.loss_runs(end);
    assert_eq!(lost, end - model.unique);
    assert_eq!(runs.runs, model.gaps(end));
    assert_eq!(runs.lengths.iter().sum::<u64>(), runs.runs);
    assert!(runs.longest <= lost && runs.shortest <= runs.longest);
}

struct Still;

impl Surroundings for Still {
    fn origin(&self, first_arrival_ns: u64) -> u64 {
        first_arrival_ns
    }

    fn thread(&self) -> ThreadUse {
        ThreadUse::default()
    }
}

const TOKEN: u64 = 7;
const INTERVAL_NS: u64 = 1_000_000;

/// [`Receiver`], fed with messages of any shape: the accounting identities hold, and the numbers are
/// those of the model.
pub fn receiver(data: &[u8]) {
    let mut input = Input(data);
    let flags = input.byte();
    let first_number = if flags & 1 == 0 { 0 } else { input.word() };
    let setup = Setup {
        framing: Framing::Native { token: TOKEN, stream: 0 },
        first_number,
        interval_ns: INTERVAL_NS,
        intervals: (flags & 2 == 0).then(|| u64::from(flags >> 4)),
        merging: flags & 4 == 0,
    };
    let mut receiver = Receiver::new(setup, ThreadUse::default());
    let mut model = Arrived::default();
    let mut now_ns = 1_000u64;
    let mut drops = 0u32;
    let (mut duplicates, mut counted) = (0, 0);
    let mut bytes = Vec::new();
    let mut steps = 0;
    while !input.is_empty() && steps < 2_000 {
        steps += 1;
        let shape = input.byte();
        now_ns += u64::from(input.byte()) * 20_000;
        if shape & 3 == 3 {
            receiver.on_idle(now_ns, &Still);
            continue;
        }
        let size = HEADER_BYTES + usize::from(shape >> 4);
        let claimed = NonZeroU8::new(input.byte() & 0x7f).unwrap_or(NonZeroU8::MIN);
        let count = if shape & 4 == 0 { claimed.get() } else { claimed.get() / 2 + 1 };
        let warmup = shape & 8 != 0;
        let jump = input.byte();
        let mut number = match jump % 4 {
            0 => model.next,
            1 => model.next.wrapping_add(input.number() % 5_000),
            2 => model.next.saturating_sub(input.number() % 5_000),
            _ => input.number(),
        };
        let broken = (jump >> 2) % 64;
        // Once the numbers have come to their end, nothing is believed any more.
        let believed = model.next <= LARGEST;
        bytes.clear();
        for position in 0..count {
            let start = bytes.len();
            bytes.resize(start + size, 0x5a);
            let place = Place { stream: 0, warmup, position, train: claimed };
            let header = Header {
                token: if broken == 60 { TOKEN + 1 } else { TOKEN },
                number: first_number.wrapping_add(number),
                sent_ns: now_ns / 2,
                place,
            };
            header.write(&mut bytes[start..]);
            let is_broken = broken < 60 && broken > 0 && position == broken;
            if is_broken {
                bytes[start + 9] ^= 1;
            } else if believed && broken != 60 && !warmup {
                if number >= model.next && number > LARGEST && number != model.next {
                    // Counted as damaged.
                } else if model.has(number) {
                    duplicates += 1;
                } else if number <= LARGEST || number == model.next {
                    model.add(number, number + 1);
                    counted += size as u64;
                }
            }
            number = number.wrapping_add(1);
        }
        let flags = input.byte();
        drops = drops.wrapping_add(u32::from(flags & 0x3f));
        let message = Message {
            bytes: &bytes,
            segment: size,
            at_ns: now_ns,
            stamped: flags & 0x40 == 0,
            socket_drops: (flags & 0x80 == 0).then_some(drops),
        };
        receiver.on_call();
        receiver.on_message(&message, &Still);
    }
    let sent = (flags & 8 == 0).then(|| model.next.saturating_add(input.number() % 1_000));
    let report = receiver.finish(sent, Some(drops), &Still);
    let counts = report.counts;
    assert_eq!(counts.datagrams, model.unique);
    assert_eq!(counts.bytes, counted);
    assert_eq!(counts.duplicates, duplicates);
    assert_eq!(counts.expected, sent.unwrap_or(model.next));
    assert_eq!(counts.datagrams + counts.lost, counts.expected);
    let (path, dropped, unknown) = counts.loss_by_place();
    assert_eq!(path + dropped + unknown, counts.lost);
    assert!(counts.dropped_min <= counts.dropped_max);
    assert!(report.delay_variation.is_none_or(|delay| delay.count <= counts.datagrams));
    let mut sum = RecvCounts::default();
    report.intervals.iter().for_each(|interval| sum.add(&interval.counts));
    assert_eq!(sum, counts);
}
