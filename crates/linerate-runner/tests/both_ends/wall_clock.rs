//! A wall clock that is set in the middle of a test changes no figure: kernel stamps are placed by
//! the engine's clock, and the accounting must not see that anything happened.

use std::num::NonZeroU8;

use linerate_engine::clock::{Reading, WallClock};
use linerate_model::sample::{RecvReport, ThreadUse};
use linerate_session::Surroundings;
use linerate_session::receiver::{Message, Receiver, Setup};
use linerate_wire::framing::Framing;
use linerate_wire::native::datagram::{Header, Place};

struct Nobody;

impl Surroundings for Nobody {
    fn origin(&self, first_arrival_ns: u64) -> u64 {
        first_arrival_ns
    }

    fn thread(&self) -> ThreadUse {
        ThreadUse::default()
    }
}

const SECOND: u64 = 1_000_000_000;
const GAP_NS: u64 = 1_000_000;
const DATAGRAMS: u64 = 20_000;
/// When the wall clock is set: in the middle, and between two looks.
const SET_AT_NS: u64 = 20 * SECOND + 300_123;

/// 20 s of a stream at 1,000 datagrams per second with 3 % loss and up to 2 ms of delay, read every
/// 4.3 ms; the wall clock is set by `step_ns`.
fn received(step_ns: i64) -> RecvReport {
    let ahead = |at_ns: u64| {
        let before = 1_700_000_000 * SECOND;
        if at_ns < SET_AT_NS { before } else { before.wrapping_add_signed(step_ns) }
    };
    let setup = Setup {
        framing: Framing::Native { token: 7, stream: 0 },
        first_number: 0,
        interval_ns: SECOND,
        intervals: Some(20),
        merging: false,
    };
    let mut account = Receiver::new(setup, ThreadUse::default());
    let mut clock = WallClock::default();
    // Made-up delays of a fixed sequence; no two datagrams change places.
    let delay = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 & 0xf_ffff;
    let mut arrivals = (0..DATAGRAMS)
        .filter(|number| number.wrapping_mul(0xd134_2543_de82_ef95) >> 32 & 0xff > 8)
        .map(|number| {
            let sent_ns = 10 * SECOND + number * GAP_NS;
            (number, sent_ns, sent_ns + 500_000 + delay(number))
        })
        .peekable();
    let mut now_ns = 10 * SECOND;
    while arrivals.peek().is_some() {
        clock.observe(Reading { at_ns: now_ns, ahead_ns: ahead(now_ns), took_ns: 60 });
        while let Some((number, sent_ns, at_ns)) = arrivals.next_if(|(_, _, at)| *at <= now_ns) {
            let mut bytes = [0u8; 100];
            let place = Place { stream: 0, warmup: false, position: 0, train: NonZeroU8::MIN };
            Header { token: 7, number, sent_ns, place }.write(&mut bytes);
            let stamp = clock.place(at_ns.wrapping_add(ahead(at_ns)), now_ns);
            let message = Message {
                bytes: &bytes,
                segment: bytes.len(),
                at_ns: stamp.unwrap_or(now_ns),
                stamped: stamp.is_some(),
                socket_drops: None,
            };
            account.on_message(&message, &Nobody);
        }
        now_ns += 4_300_000;
    }
    account.finish(Some(DATAGRAMS), Some(0), &Nobody)
}

#[test]
fn a_wall_clock_that_is_set_changes_no_figure() {
    let still = received(0);
    assert!(still.counts.lost > 500 && still.timestamp_faults == 0, "{still:?}");
    for step in [-3_600, -5, 5, 3_600] {
        let set = received(step * SECOND as i64);
        assert!(set == still, "set by {step} s");
    }
    for step_ns in [50_000_000, 1_000_000_000, 4_900_000_000] {
        assert!(received(step_ns) == still, "set by {step_ns} ns");
    }
}

#[test]
fn what_may_be_of_either_setting_costs_samples_and_says_so() {
    let still = received(0);
    for step_ns in [500_000i64, -500_000, -50_000_000, -1_000_000_000, -4_900_000_000] {
        let set = received(step_ns);
        // As many as came while a stamp could have meant two times, and those of one reading.
        let most = step_ns.unsigned_abs() / GAP_NS + 10;
        let faults = set.timestamp_faults;
        assert!(faults <= most, "{step_ns} ns: {faults} stamps were not used");
        assert_eq!(set.counts, still.counts, "{step_ns}");
        assert_eq!(set.loss_runs, still.loss_runs);
        assert_eq!((set.first_ns, set.last_ns), (still.first_ns, still.last_ns));
        let jitter = |report: &RecvReport| report.jitter_ns.expect("jitter") as f64;
        let change = jitter(&set) / jitter(&still) - 1.0;
        assert!(change.abs() < 0.001, "{step_ns} ns: jitter changed by {change}");
        let most = |report: &RecvReport| report.delay_variation.expect("delays").max_ns;
        assert_eq!(most(&set), most(&still), "{step_ns}");
    }
}
