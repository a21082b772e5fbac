//! Known answers of the accounting, datagram by datagram.

use std::num::NonZeroU8;

use linerate_wire::iperf2::datagram as iperf2;
use linerate_wire::native::datagram::{Header, Place};
use proptest::prelude::*;

use super::overdue::READ_GRACE_NS;
use super::*;
use crate::Quiet;

const SIZE: usize = 64;

fn receiver(first_number: u64, merging: bool) -> Receiver {
    let setup = Setup {
        framing: Framing::Native { token: 7, stream: 0 },
        first_number,
        interval_ns: 1_000_000,
        intervals: None,
        merging,
    };
    Receiver::new(setup, ThreadUse::default())
}

fn train(first: u64, numbers: &[u64], length: u8) -> Vec<u8> {
    sent_at(0, first, numbers, length)
}

fn sent_at(sent_ns: u64, first: u64, numbers: &[u64], length: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (position, number) in numbers.iter().enumerate() {
        let mut datagram = [0u8; SIZE];
        let place = Place {
            stream: 0,
            warmup: false,
            position: position as u8,
            train: NonZeroU8::new(length).unwrap(),
        };
        Header { token: 7, number: first.wrapping_add(*number), sent_ns, place }
            .write(&mut datagram);
        bytes.extend_from_slice(&datagram);
    }
    bytes
}

fn feed(r: &mut Receiver, first: u64, numbers: &[u64], at_ns: u64, drops: Option<u32>) {
    let bytes = train(first, numbers, numbers.len() as u8);
    let message =
        Message { bytes: &bytes, segment: SIZE, at_ns, stamped: true, socket_drops: drops };
    r.on_message(&message, &Quiet);
}

fn single(numbers: &[u64], sent: u64, first: u64) -> RecvReport {
    let mut r = receiver(first, false);
    for (i, number) in numbers.iter().enumerate() {
        feed(&mut r, first, &[*number], i as u64 * 10_000, None);
    }
    r.finish(Some(sent), None, &Quiet)
}

fn sums(report: &RecvReport) -> RecvCounts {
    let mut sum = RecvCounts::default();
    report.intervals.iter().for_each(|i| sum.add(&i.counts));
    sum
}

/// Takes in one message that its sender stamped at `sent_ns`.
fn timed(r: &mut Receiver, sent_ns: u64, numbers: &[u64], at_ns: u64) {
    let bytes = sent_at(sent_ns, 0, numbers, numbers.len() as u8);
    let message =
        Message { bytes: &bytes, segment: SIZE, at_ns, stamped: true, socket_drops: None };
    r.on_message(&message, &Quiet);
}

#[test]
fn without_numbers_loss_is_what_was_sent_less_what_was_received() {
    let report = |sent| {
        let setup = Setup { framing: Framing::Bare, ..receiver(0, false).setup };
        let mut r = Receiver::new(setup, ThreadUse::default());
        // Of all that was lost, one found no room in the socket; the counter comes with a later message.
        for (at_ns, drops) in [(0, None), (10, Some(1)), (20, Some(1))] {
            let message = Message {
                bytes: &[0xff; 5],
                segment: 5,
                at_ns,
                stamped: true,
                socket_drops: drops,
            };
            assert!(r.on_message(&message, &Quiet));
        }
        r.finish(Some(sent), Some(1), &Quiet)
    };
    let some_lost = report(7);
    let counts = some_lost.counts;
    assert_eq!((counts.datagrams, counts.bytes, counts.lost, counts.expected), (3, 15, 4, 7));
    assert_eq!((counts.socket_drops, counts.loss_by_place()), (1, (3, 1, 0)));
    assert_eq!((some_lost.loss_runs, some_lost.jitter_ns), (None, None));
    assert_eq!((some_lost.delay_variation.map(|d| d.count), sums(&some_lost)), (None, counts));
    // A copy is one more arrival.
    assert_eq!((report(2).counts.lost, report(2).counts.expected), (0, 3));
}

#[test]
fn copies_have_no_delay() {
    let mut r = receiver(0, false);
    for n in 0..5_000u64 {
        timed(&mut r, n * 100_000, &[n], n * 100_000 + n % 31 * 1_000);
    }
    let jitter = r.jitter.nanos();
    // A switch that loops for a moment: copies of the last hundred, 200 ms later.
    for n in 4_900..5_000u64 {
        timed(&mut r, n * 100_000, &[n], n * 100_000 + 200_000_000);
    }
    assert_eq!(r.jitter.nanos(), jitter);
    let report = r.finish(Some(5_000), None, &Quiet);
    let delay = report.delay_variation.unwrap();
    assert_eq!((report.counts.duplicates, delay.count), (100, 5_000));
    assert_eq!((delay.p99_ns, delay.max_ns), (30_000, 30_000));
}

#[test]
fn every_interval_has_its_own_delays() {
    let mut r = receiver(0, false);
    // Intervals of 1 ms: a queue of 0.4 ms in the second, nothing in the third, two datagrams in the fourth.
    for (n, sent_ns, late_ns) in [
        (0, 0, 0),
        (1, 300_000, 100_000),
        (2, 900_000, 400_000),
        (3, 1_100_000, 400_000),
        (4, 3_100_000, 0),
        (5, 3_200_000, 20_000),
    ] {
        timed(&mut r, sent_ns, &[n], sent_ns + late_ns);
    }
    let report = r.finish(Some(6), None, &Quiet);
    let delays: Vec<_> =
        report.intervals.iter().map(|row| row.delay_mean_ns.zip(row.delay_max_ns)).collect();
    let expected =
        [Some((50_000, 100_000)), Some((400_000, 400_000)), None, Some((10_000, 20_000))];
    assert_eq!(delays, expected);
}

#[test]
fn a_first_arrival_has_its_delay_however_late() {
    let mut r = receiver(0, false);
    for n in (0..1_000u64).filter(|n| *n != 500) {
        timed(&mut r, n * 1_000, &[n], n * 1_000);
    }
    // One lost on its way round, and what cannot be a number of this test.
    timed(&mut r, 500_000, &[500], 70_500_000);
    timed(&mut r, 0, &[u64::MAX], 90_000_000);
    let report = r.finish(Some(1_000), None, &Quiet);
    let delay = report.delay_variation.unwrap();
    assert_eq!((delay.count, delay.max_ns), (1_000, 70_000_000));
    assert!(delay.p999_ns <= 8, "{delay:?}");
}

#[test]
fn a_message_has_the_delay_of_the_first_that_is_new_in_it() {
    let mut r = receiver(0, true);
    timed(&mut r, 0, &[0, 1, 2], 1_000);
    // Merged from a copy and what was sent after it.
    let mut bytes = sent_at(0, 0, &[1, 2], 2);
    bytes.extend(sent_at(500_000, 0, &[3, 4], 2));
    let message =
        Message { bytes: &bytes, segment: SIZE, at_ns: 501_500, stamped: true, socket_drops: None };
    r.on_message(&message, &Quiet);
    // The whole of it again.
    r.on_message(&Message { at_ns: 900_000, ..message }, &Quiet);
    let report = r.finish(Some(5), None, &Quiet);
    let delay = report.delay_variation.unwrap();
    assert_eq!((delay.count, delay.max_ns), (2, 500));
}

#[test]
fn the_tail_counts_as_lost() {
    let report = single(&[0, 1, 2, 3, 4], 10, 0);
    assert_eq!((report.counts.datagrams, report.counts.lost), (5, 5));
    assert_eq!(sums(&report), report.counts);
    assert_eq!(report.loss_runs.unwrap().runs, 1);
}

#[test]
fn what_a_queue_held_until_the_end_is_overdue() {
    let second = 1_000_000_000;
    // Arrival and return of the call that read it, and whether that is too late.
    for (at_ns, read_ns, late) in [
        (second, second, 0),
        (second + second / 20 - 1, second + second / 20, 0),
        (second + second / 20, second + second / 20, 2),
        // Came in time, read late: a moment is forgiven, a slow receiver is not.
        (second, second + second / 20 + READ_GRACE_NS - 1, 0),
        (second, second + second / 20 + READ_GRACE_NS, 2),
        (2 * second, 2 * second, 2),
    ] {
        let mut r = receiver(0, true).ending_after(Some(second));
        r.on_call();
        feed(&mut r, 0, &[0, 1, 2], 0, None);
        r.on_read(10);
        r.on_call();
        feed(&mut r, 0, &[3, 4], at_ns, None);
        feed(&mut r, 0, &[4], at_ns, None);
        r.on_read(read_ns);
        let report = r.finish(Some(5), None, &Quiet);
        assert_eq!(report.overdue, Some(late), "{at_ns} {read_ns}");
        assert_eq!(report.last_read_ns, Some(read_ns));
        assert_eq!(report.counts.datagrams, 5);
    }
    assert_eq!(single(&[0, 1], 2, 0).overdue, None, "a test by count has no end to miss");
}

/// Streams that tell each other their first arrival.
#[derive(Default)]
struct Earliest(std::cell::Cell<Option<u64>>);

impl Surroundings for Earliest {
    fn origin(&self, first_arrival_ns: u64) -> u64 {
        let origin = self.0.get().map_or(first_arrival_ns, |ns| ns.min(first_arrival_ns));
        self.0.set(Some(origin));
        origin
    }

    fn thread(&self) -> ThreadUse {
        ThreadUse::default()
    }
}

#[test]
fn the_earliest_arrival_begins_the_time_and_not_the_first_that_was_read() {
    let around = Earliest::default();
    let mut streams = [receiver(0, false), receiver(0, false)];
    let mut heard = |stream: usize, number: u64, at_ns: u64| {
        let bytes = train(0, &[number], 1);
        let message =
            Message { bytes: &bytes, segment: SIZE, at_ns, stamped: true, socket_drops: None };
        assert!(streams[stream].on_message(&message, &around));
        streams[stream].intervals().len()
    };
    // What came to the second stream first is read later.
    assert_eq!((heard(0, 0, 1_600_000), heard(1, 0, 1_200_000)), (0, 0));
    assert_eq!((heard(0, 1, 2_650_000), heard(1, 1, 2_250_000)), (1, 1));
    // The rows of both begin with the earlier arrival.
    assert_eq!((heard(0, 2, 3_150_000), heard(0, 3, 3_250_000)), (1, 2));
}

#[test]
fn nothing_at_all_arrived() {
    let report = single(&[], 10, 0);
    assert_eq!((report.counts.datagrams, report.counts.lost), (0, 10));
    assert_eq!(sums(&report), report.counts);
    assert_eq!(report.first_ns, None);
}

#[test]
fn wraps_like_it_counts_from_zero() {
    let numbers: Vec<u64> = (0..4_000).filter(|n| n % 7 != 3).chain([3, 3, 10]).collect();
    let plain = single(&numbers, 4_000, 0);
    for first in [(1u64 << 31) - 1_000, (1 << 32) - 1_000, (1 << 63) - 1_000, u64::MAX - 1_000] {
        assert_eq!(single(&numbers, 4_000, first), plain, "{first}");
    }
    assert_eq!((plain.counts.lost, plain.counts.duplicates, plain.counts.reordered), (569, 1, 2));
}

#[test]
fn a_late_datagram_is_taken_back_from_the_interval_that_lost_it() {
    let mut r = receiver(0, false);
    feed(&mut r, 0, &[0], 0, None);
    feed(&mut r, 0, &[2], 500_000, None);
    feed(&mut r, 0, &[3], 1_500_000, None);
    feed(&mut r, 0, &[1], 2_500_000, None);
    assert_eq!(r.intervals()[0].counts.lost, 0);
    let report = r.finish(Some(4), None, &Quiet);
    assert_eq!(report.intervals.len(), 3);
    assert_eq!(report.counts.lost, 0);
    assert_eq!(sums(&report), report.counts);
}

#[test]
fn drops_of_single_datagrams_are_exact() {
    let mut r = receiver(0, false);
    feed(&mut r, 0, &[0], 0, None);
    // Five missing, two of them dropped here.
    feed(&mut r, 0, &[6], 1, Some(2));
    // One missing on the path.
    feed(&mut r, 0, &[8], 2, Some(2));
    let report = r.finish(Some(12), Some(5), &Quiet);
    assert_eq!(report.counts.socket_drops, 5);
    assert_eq!(report.counts.loss_by_place(), (4, 5, 0));
}

#[test]
fn the_drop_counter_wraps() {
    let mut r = receiver(0, false);
    r.drops_seen = u32::MAX;
    feed(&mut r, 0, &[2], 0, Some(1));
    assert_eq!(r.finish(Some(3), Some(1), &Quiet).counts.loss_by_place(), (0, 2, 0));
}

#[test]
fn whole_trains_dropped_are_exact() {
    let mut r = receiver(0, true);
    feed(&mut r, 0, &[0, 1, 2, 3], 0, None);
    // Three trains missing, two drops counted: eight datagrams here, four on the path.
    feed(&mut r, 0, &[16, 17, 18, 19], 1, Some(2));
    let report = r.finish(Some(20), Some(2), &Quiet);
    assert_eq!(report.counts.loss_by_place(), (4, 8, 0));
    assert!(report.merged);
}

#[test]
fn torn_trains_give_bounds_and_no_guess() {
    let mut r = receiver(0, true);
    // Half a train: the path does not keep trains together.
    let bytes = train(0, &[0, 1], 4);
    let message =
        Message { bytes: &bytes, segment: SIZE, at_ns: 0, stamped: true, socket_drops: None };
    r.on_message(&message, &Quiet);
    feed(&mut r, 0, &[12, 13], 1, Some(2));
    let (path, receiver, unknown) = r.finish(Some(14), Some(2), &Quiet).counts.loss_by_place();
    assert_eq!((path, receiver, unknown), (0, 2, 8));
}

#[test]
fn trains_that_cannot_all_be_whole_give_bounds() {
    // Eight datagrams are missing and three trains of four were dropped: one of them was torn.
    let mut r = receiver(0, true);
    feed(&mut r, 0, &[0, 1, 2, 3], 0, None);
    feed(&mut r, 0, &[12, 13, 14, 15], 1, Some(3));
    assert_eq!(r.finish(Some(16), Some(3), &Quiet).counts.loss_by_place(), (0, 3, 5));
    // The sender went on with single datagrams: what was dropped before the first may be either ...
    let mut r = receiver(0, true);
    feed(&mut r, 0, &[0, 1, 2, 3], 0, None);
    feed(&mut r, 0, &[12], 1, Some(2));
    assert_eq!(r.current.dropped_min, 2);
    assert_eq!(r.current.dropped_max, 8);
    // ... and a drop after the last is one datagram.
    let (path, receiver, unknown) = r.finish(Some(20), Some(5), &Quiet).counts.loss_by_place();
    assert_eq!((path, receiver, unknown), (4, 5, 6));
}

#[test]
fn what_was_left_unread_is_not_the_paths() {
    // Sent, drops at the end, left unread; places of the loss.
    for (sent, drops, unread, places) in [
        (10, 0, 3, (5, 0, 3)),
        (10, 0, 100, (0, 0, 8)),
        (10, 2, 3, (3, 2, 3)),
        (10, 7, 3, (0, 7, 1)),
        (2, 0, 3, (0, 0, 0)),
    ] {
        let mut r = receiver(0, false);
        feed(&mut r, 0, &[0], 0, None);
        feed(&mut r, 0, &[1], 1, None);
        r.leave_unread(unread);
        let report = r.finish(Some(sent), Some(drops), &Quiet);
        assert_eq!(report.counts.loss_by_place(), places, "{sent} {drops} {unread}");
        assert_eq!((report.unread, sums(&report)), (unread.min(sent - 2), report.counts));
    }
    // The sender's word came later.
    let mut r = receiver(0, false);
    feed(&mut r, 0, &[0], 0, None);
    r.leave_unread(3);
    let mut report = r.finish(None, Some(0), &Quiet);
    add_tail(&mut report, 5);
    assert_eq!(report.counts.loss_by_place(), (2, 0, 3));
    assert_eq!(sums(&report), report.counts);
}

#[test]
fn made_up_numbers_near_the_end_of_u64_are_damage() {
    let mut r = receiver(0, true);
    feed(&mut r, 0, &[0, u64::MAX, u64::MAX - 1, u64::MAX - 63, 1], 0, None);
    assert_eq!(r.current.corrupt, 3);
    feed(&mut r, 0, &[LARGEST, LARGEST + 1], 1, None);
    feed(&mut r, 0, &[LARGEST + 2], 2, None);
    let report = r.finish(Some(2), None, &Quiet);
    assert_eq!(report.counts.datagrams + report.counts.lost, report.counts.expected);
    assert_eq!((report.counts.datagrams, report.counts.corrupt), (4, 4));
    assert_eq!(sums(&report), report.counts);
}

#[test]
fn strangers_and_damage_are_counted_apart() {
    let mut r = receiver(0, false);
    feed(&mut r, 0, &[0], 0, None);
    let mut bytes = train(0, &[1], 1);
    bytes[9] ^= 1;
    let message =
        Message { bytes: &bytes, segment: SIZE, at_ns: 0, stamped: true, socket_drops: None };
    assert!(!r.on_message(&message, &Quiet), "no sign of life");
    assert!(!r.on_message(&Message { bytes: &[], segment: 0, ..message }, &Quiet));
    assert!(r.on_message(&Message { bytes: &train(0, &[0], 1), ..message }, &Quiet));
    let report = r.finish(Some(2), None, &Quiet);
    assert_eq!((report.counts.corrupt, report.counts.lost), (2, 1));
    assert_eq!(report.counts.duplicates, 1);
}

#[test]
fn what_is_no_data_hides_none_that_came_behind_it_in_one_message() {
    let framing = Framing::Iperf2 { wide: true, ahead_ns: 0, agree: false };
    let mut r = Receiver::new(Setup { framing, ..receiver(0, true).setup }, ThreadUse::default());
    let mut at = |numbers: &[i64], at_ns| {
        let mut bytes = vec![0; numbers.len() * SIZE];
        for (datagram, number) in bytes.chunks_mut(SIZE).zip(numbers) {
            iperf2::Mark { number: *number, sent_ns: 0 }.write(datagram);
        }
        let message =
            Message { bytes: &bytes, segment: SIZE, at_ns, stamped: true, socket_drops: None };
        r.on_message(&message, &Quiet)
    };
    assert!(at(&[1, 2], 0));
    // The end overtook one; then it is said again.
    assert!(at(&[-5, 4, 3], 1));
    assert!(at(&[-6], 2));
    assert_eq!(r.peer_end(), Some(4));
    let ended = r.finish(Some(4), None, &Quiet);
    assert_eq!((ended.counts.datagrams, ended.counts.lost, ended.counts.reordered), (4, 0, 1));

    let mut r = receiver(0, true);
    feed(&mut r, 0, &[0], 0, None);
    let mut bytes = train(0, &[1, 2, 3], 3);
    bytes[9] ^= 1;
    let message =
        Message { bytes: &bytes, segment: SIZE, at_ns: 1, stamped: true, socket_drops: Some(1) };
    assert!(r.on_message(&message, &Quiet));
    let report = r.finish(Some(4), Some(1), &Quiet);
    let counts = report.counts;
    assert_eq!((counts.datagrams, counts.lost, counts.corrupt), (3, 1, 1));
    assert_eq!(sums(&report), counts);
}

proptest! {
    /// T16, T17 and T28 of the reliability targets: known lists of drops, duplicates, swaps and
    /// a lost tail, at any start, single or in trains; the error is exactly 0.
    #[test]
    fn known_lists_are_found_exactly(
        total in 1u64..3_000,
        lost in prop::collection::btree_set(0u64..3_000, 0..200),
        duplicated in prop::collection::btree_set(0u64..3_000, 0..100),
        swapped in prop::collection::btree_set(0u64..3_000, 0..100),
        tail in 0u64..50,
        first in prop::sample::select(
            vec![0u64, (1 << 31) - 1_000, (1 << 32) - 1_000, (1 << 63) - 1_000, u64::MAX - 1_000]
        ),
        train_length in 1usize..20,
    ) {
        let mut arriving: Vec<u64> = (0..total).filter(|n| !lost.contains(n) && *n < total.saturating_sub(tail)).collect();
        let unique = arriving.len() as u64;
        let mut swaps = 0;
        let mut i = 1;
        while i < arriving.len() {
            if swapped.contains(&arriving[i]) {
                arriving.swap(i - 1, i);
                swaps += 1;
                i += 1;
            }
            i += 1;
        }
        let mut copies = 0;
        let mut with_duplicates = Vec::new();
        for n in arriving {
            with_duplicates.push(n);
            if duplicated.contains(&n) {
                with_duplicates.push(n);
                copies += 1;
            }
        }
        let mut r = receiver(first, train_length > 1);
        for (i, numbers) in with_duplicates.chunks(train_length).enumerate() {
            feed(&mut r, first, numbers, i as u64 * 30_000, None);
        }
        let report = r.finish(Some(total), None, &Quiet);
        prop_assert_eq!(report.counts.datagrams, unique);
        prop_assert_eq!(report.counts.lost, total - unique);
        prop_assert_eq!(report.counts.duplicates, copies);
        let delays = report.delay_variation.map_or(0, |delay| delay.count);
        prop_assert!(delays <= unique && (delays == unique || train_length > 1));
        prop_assert_eq!(report.counts.reordered, swaps);
        prop_assert_eq!(report.counts.loss_by_place().0, total - unique);
        prop_assert_eq!(sums(&report), report.counts);
    }
}
