use linerate_testkit::records;

use super::*;

fn terminal(record: &RunRecord, width: usize) -> String {
    let room = Room { width: Some(width), spark: true };
    render(record, Layout { room, paint: Paint { colour: false } })
}

#[test]
fn udp_with_drops_at_the_receiver() {
    insta::assert_snapshot!(terminal(&records::udp_receiver_drops(), 80), @"");
    insta::assert_snapshot!(terminal(&records::udp_receiver_drops(), 120), @"");
    insta::assert_snapshot!(render(&records::udp_receiver_drops(), PLAIN), @"");
}

#[test]
fn udp_both_ways() {
    insta::assert_snapshot!(terminal(&records::udp_both(), 80), @"");
}

#[test]
fn udp_of_several_streams() {
    insta::assert_snapshot!(terminal(&records::udp_streams(), 80), @"");
}

#[test]
fn tcp() {
    insta::assert_snapshot!(terminal(&records::tcp(), 80), @"");
    insta::assert_snapshot!(terminal(&records::tcp(), 120), @"");
}

#[test]
fn requests_and_responses() {
    insta::assert_snapshot!(terminal(&records::rr(), 80), @"");
}

#[test]
fn send_only() {
    insta::assert_snapshot!(terminal(&records::discard(), 80), @"");
}

#[test]
fn a_test_that_lost_its_server() {
    insta::assert_snapshot!(terminal(&records::partial(), 80), @"");
}

#[test]
fn a_test_that_contradicts_itself() {
    insta::assert_snapshot!(terminal(&records::invalid(), 80), @"");
}

#[test]
fn a_failed_test_has_no_text_but_its_error() {
    assert_eq!(render(&records::failed(), PLAIN), "");
}

#[test]
fn a_hostile_peer_cannot_speak_to_the_terminal() {
    let mut record = records::hostile();
    for layout in [PLAIN, Layout { room: Room { width: Some(80), spark: true }, ..PLAIN }] {
        record.command.clear();
        let text = render(&record, layout);
        let error = crate::error::text(record.error.as_ref().unwrap(), layout.paint);
        for shown in [text, error] {
            assert!(shown.contains("owned"), "{shown}");
            assert!(
                !shown.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')),
                "{shown:?}"
            );
        }
        record = records::hostile();
    }
}

#[test]
fn no_number_from_a_peer_makes_it_panic() {
    use linerate_model::record::{CpuFigures, Quantiles};
    for value in [f64::MAX, f64::MIN, -1.0, 1e-320, 0.0, f64::NAN, f64::INFINITY] {
        let mut record = records::udp_receiver_drops();
        record.asked.duration_s = Some(value);
        record.asked.interval_s = value;
        record.agreed = None;
        for interval in &mut record.intervals {
            interval.end_s = value;
            let receiver = interval.figures.receiver.as_mut().unwrap();
            receiver.bits_per_second = value;
            receiver.lost_ratio = Some(value);
            receiver.jitter_s = Some(value);
            receiver.lost_path = Some(u64::MAX);
            receiver.unattributed = Some(u64::MAX);
            receiver.cpu = Some(CpuFigures { thread_percent: value, ..Default::default() });
        }
        let totals = record.totals.receiver.as_mut().unwrap();
        totals.delay_variation_s = Some(Quantiles { p50: value, max: value, ..Default::default() });
        for width in [None, Some(0), Some(1), Some(80), Some(usize::MAX)] {
            let room = Room { width, spark: true };
            assert!(!render(&record, Layout { room, ..PLAIN }).is_empty());
        }
    }
}
