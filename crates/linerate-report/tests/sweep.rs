//! A sweep on the screen: what stands there at any width, and what a hostile peer's words may do.

use linerate_model::host::HostFacts;
use linerate_model::plan::Way;
use linerate_model::record::{Limit, ProgramFacts, Status};
use linerate_model::sweep::{
    RegimeKind, SweepDocument, SweepPlan, SweepPoint, SweepRegime, Variable,
};
use linerate_report::report::{format, input::Input, view::View};
use linerate_report::run::table::Room;
use linerate_report::run::text::{Layout, PLAIN};
use linerate_report::style::Paint;
use linerate_report::sweep::text::render;

fn point(asked: f64, received: f64, regime: RegimeKind, limit: Limit) -> SweepPoint {
    SweepPoint {
        direction: Way::Forward,
        value: Some((asked * 1e6) as u64),
        asked_bps: Some((asked * 1e6) as u64),
        trials: 1,
        sent_bps: received * 1e6,
        received_bps: received * 1e6,
        received_sd_bps: None,
        interval_sd_bps: Some(received * 1e4),
        interval_min_bps: Some(received * 0.99e6),
        interval_max_bps: Some(received * 1.01e6),
        undelivered_ratio: 1.0 - received / asked,
        lost_ratio: 0.0,
        lost_path: Some(0),
        unattributed: None,
        dropped_receiver: Some(0),
        jitter_s: Some(5e-6),
        delay_p99_s: None,
        cpu_sender_percent: Some(99.6),
        cpu_receiver_percent: Some(30.0),
        limit,
        regime,
        invalid: None,
        runs: vec![],
    }
}

/// The published board as sender.
fn board() -> SweepDocument {
    use RegimeKind::{Collapse, Plateau, Sustained};
    let rows = [
        (32.0, 32.0, Sustained),
        (64.0, 64.0, Sustained),
        (128.0, 88.6, Plateau),
        (256.0, 89.1, Plateau),
        (512.0, 66.5, Collapse),
        (1000.0, 64.3, Collapse),
    ];
    let limit = |kind| if kind == Sustained { Limit::RequestedRate } else { Limit::SenderCpu };
    let regime = |kind, from: u64, to: u64, text: &str| SweepRegime {
        direction: Way::Forward,
        kind,
        from: Some(from * 1_000_000),
        to: Some(to * 1_000_000),
        from_bps: Some(from * 1_000_000),
        to_bps: Some(to * 1_000_000),
        limit: limit(kind),
        text: text.into(),
    };
    SweepDocument {
        format: 1,
        kind: "sweep".into(),
        id: "0".into(),
        started: "2026-11-22T00:00:00Z".into(),
        linerate: ProgramFacts { version: "0.1.0".into() },
        command: ["linerate", "sweep", "board"].map(String::from).to_vec(),
        target: Some("board".into()),
        label: None,
        title: None,
        sweep: SweepPlan {
            variable: Variable::Rate,
            values: rows.iter().map(|(asked, ..)| (asked * 1e6) as u64).collect(),
            then_max: false,
            rate_bps: None,
            directions: vec![Way::Forward],
            repeat: 1,
            trial_s: 10.0,
            zoom_width: None,
            seed: 1,
        },
        plan: None,
        client: None,
        server: None,
        points: rows.iter().map(|(a, r, kind)| point(*a, *r, *kind, limit(*kind))).collect(),
        regimes: vec![
            regime(Sustained, 32, 64, "from 32 to 64 Mbit/s what is asked for arrives"),
            regime(Plateau, 128, 256, "88.6 to 89.1 Mbit/s arrives, whatever is asked"),
            regime(Collapse, 512, 1000, "less arrives"),
        ],
        bends: vec![],
        trials: vec![],
        because: vec!["client to server: 64 Mbit/s is sustained, 128 Mbit/s no longer".into()],
        advice: vec!["--zoom: finer points around every bend".into()],
        seconds: 65.0,
        doubts: vec![],
        status: Status::Complete,
        error: None,
    }
}

fn at(width: usize) -> Layout {
    let room = Room { width: Some(width), spark: false };
    Layout { room, paint: Paint { colour: false } }
}

#[test]
fn eighty_columns_hold_what_matters() {
    let text = render(&board(), at(80));
    let row = text.lines().find(|l| l.trim_start().starts_with("128.0 M")).expect("a row");
    for cell in ["88.60 M", "30.78 %", "100 %", "30 %", "sender CPU"] {
        assert!(row.contains(cell), "{cell}: {row}");
    }
    for words in [
        "asked",
        "received",
        "limited by",
        "●",
        "collapse  less arrives",
        "client to server: 64 Mbit/s is sustained",
        "try: --zoom",
        "took 1 min 05 s",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn one_core_is_one() {
    let host = |name: &str, cores| {
        Some(HostFacts { hostname: name.into(), cores: Some(cores), ..HostFacts::default() })
    };
    let document = SweepDocument { client: host("a", 1), server: host("b", 2), ..board() };
    let text = render(&document, PLAIN);
    assert!(text.contains("a, 1 core → b, 2 cores\n"), "{text}");
}

#[test]
fn no_line_is_wider_than_the_screen_but_for_a_title() {
    for width in [60, 80, 100, 140] {
        for line in render(&board(), at(width)).lines().skip(1) {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
    let plain = render(&board(), PLAIN);
    for column in ["trials", "spread", "missing", "path", "host", "jitter", "p99", "regime"] {
        assert!(plain.contains(column), "{column}");
    }
}

#[test]
fn the_sentence_of_a_report_is_of_no_point_that_is_invalid() {
    let report = |document: &SweepDocument| {
        let mut input = Input::default();
        input.read("s.json", serde_json::to_string(document).unwrap().as_bytes());
        let look = format::Look::default();
        let bytes = (format::by_name("md").unwrap().render)(&View::new(&input, ""), &look);
        String::from_utf8(bytes.unwrap()).unwrap()
    };
    let mut document = board();
    let text = report(&document);
    assert!(text.contains("Most was received at 256.0 Mbit/s: 89.10 Mbit/s."), "{text}");
    document.points[3].invalid = Some("its figures contradict each other".into());
    let text = report(&document);
    assert!(text.contains("Most was received at 128.0 Mbit/s: 88.60 Mbit/s."), "{text}");
}

#[test]
fn odd_numbers_and_foreign_words_do_no_harm() {
    for odd in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
        let mut document = board();
        for point in &mut document.points {
            (point.received_bps, point.sent_bps, point.lost_ratio) = (odd, odd, odd);
            (point.delay_p99_s, point.interval_sd_bps) = (Some(odd), Some(odd));
        }
        document.seconds = odd;
        assert!(!render(&document, at(80)).is_empty());
    }
    let mut document = board();
    document.because = vec!["\u{1b}[2Jgone".into()];
    document.regimes[0].text = "\u{202e}backward".into();
    document.command = vec!["linerate".into(), "\u{7}sweep".into()];
    let text = render(&document, at(80));
    assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text}");
    document.points.clear();
    document.regimes.clear();
    assert!(!render(&document, PLAIN).is_empty());
}
