//! Verdicts of tests whose rate somebody changed, and of tests that still run.

use linerate_model::record::{DoubtKind, Limit, RunEvent};
use linerate_session::verdict::{judge, so_far};
use linerate_testkit::records;

const SIZE: u64 = 1_000;

/// A test of 10 s at 100 Mbit/s that sent so many datagrams, of which none was lost.
fn test(
    sent: u64,
    rate_bps: Option<u64>,
    events: Vec<RunEvent>,
) -> linerate_model::record::RunRecord {
    let mut record = records::empty("udp");
    record.asked.rate_bps = rate_bps;
    record.events = events;
    let mut sender = records::udp_sender(10.0, SIZE, sent, 0);
    sender.cpu = Some(records::cpu(1, 12.0, 13.0, 1.0));
    let mut receiver = records::udp_receiver(10.0, SIZE, sent, 0, 0, 0);
    receiver.cpu = Some(records::cpu(2, 12.0, 13.0, 1.0));
    (record.totals.sender, record.totals.receiver) = (Some(sender), Some(receiver));
    record
}

#[test]
fn a_lower_rate_that_was_chosen_is_no_limit() {
    // 4 s at 100 Mbit/s, 6 s at 20: 50,000 and 15,000 datagrams of 8,000 bits.
    let events = || vec![RunEvent::mark(1.0, 1), RunEvent::rate(4.0, 20_000_000)];
    let limit = |sent, rate, events| judge(&test(sent, rate, events), false).unwrap().limit;
    let asked = Some(100_000_000);
    assert_eq!(limit(65_000, asked, events()), Limit::RequestedRate);
    assert_eq!(limit(65_000, asked, vec![]), Limit::SenderHost, "the same without the choice");
    assert_eq!(limit(60_000, asked, events()), Limit::SenderHost, "less than was chosen");
    // Chosen in the warm-up.
    assert_eq!(limit(25_000, asked, vec![RunEvent::rate(0.0, 20_000_000)]), Limit::RequestedRate);
    assert_eq!(limit(25_000, None, vec![RunEvent::rate(0.0, 20_000_000)]), Limit::RequestedRate);
    // As fast as it goes at first.
    assert_eq!(limit(65_000, None, events()), Limit::Unknown);
}

#[test]
fn rows_of_a_test_that_runs_are_judged_like_the_whole() {
    let record = records::udp_receiver_drops();
    let mut start = records::empty("udp");
    start.asked = record.asked.clone();
    let rate = record.asked.rate_bps;
    assert_eq!(so_far(&start, &[], rate), None);
    let verdict = so_far(&start, &record.intervals[2..5], rate).unwrap();
    assert_eq!(verdict.limit, Limit::ReceiverBuffer, "its thread has time: {verdict:?}");
    let lost = verdict.evidence["dropped_receiver_datagrams"];
    assert_eq!(lost, f64::from(2_214 + 2_230 + 2_225));
    for record in [records::tcp(), records::rr(), records::udp_both(), records::udp_streams()] {
        let start = linerate_model::record::RunRecord {
            totals: Default::default(),
            verdict: None,
            ..record.clone()
        };
        let verdict = so_far(&start, &record.intervals, record.asked.rate_bps).unwrap();
        let whole = judge(&record, false).unwrap();
        assert_eq!(verdict.limit, whole.limit, "{verdict:?}\n{whole:?}");
    }
}

#[test]
fn a_last_row_without_an_answer_hides_no_median() {
    let mut record = records::rr();
    let last = record.intervals.last_mut().unwrap().figures.rr.as_mut().unwrap();
    (last.transactions, last.unanswered, last.latency_s) = (0, Some(0), None);
    let verdict = so_far(&record, &record.intervals, None).unwrap();
    assert!(verdict.because[0].starts_with("an answer takes 48.2 µs"), "{verdict:?}");
}

#[test]
fn rows_of_a_peer_that_lies_add_up_to_no_overflow() {
    let mut record = records::udp_both();
    for row in &mut record.intervals {
        let receiver = row.figures.reverse.as_mut().unwrap().receiver.as_mut().unwrap();
        receiver.unattributed = Some(u64::MAX);
    }
    assert!(so_far(&record, &record.intervals, record.asked.rate_bps).is_some());
    let mut record = records::tcp();
    for row in &mut record.intervals {
        let tcp = row.figures.sender.as_mut().unwrap().tcp.as_mut().unwrap();
        tcp.retransmits = Some(u64::MAX);
    }
    let verdict = so_far(&record, &record.intervals, record.asked.rate_bps).unwrap();
    assert_eq!(verdict.evidence["retransmits_segments"], u64::MAX as f64);
}

#[test]
fn the_kind_of_doubt_has_its_name() {
    assert_eq!(DoubtKind::RateChanged.name(), "rate-changed");
}
