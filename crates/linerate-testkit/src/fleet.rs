//! Results of fleets that nobody measured.

use linerate_model::fleet::{FleetAnswer, FleetDocument, FleetPair, FleetVerdict};
use linerate_model::fleet_now::{FleetNow, FleetTest, FleetTestEnd};
use linerate_model::record::ProgramFacts;
use linerate_stats::offline::summary::{median, sorted};

/// When the first time begins, seconds since 1970: 2026-01-02T03:00:00Z. Each other one is an hour later.
const BEGIN_S: u32 = 1_767_322_800;
const WHY: &str = "no route";

/// What a file says of all pairs of these hosts each way, measured so many times, with the figure in bit/s of the hosts
/// by their places at each time, from 0; none failed. Nobody is bad.
pub fn now(
    hosts: &[&str],
    times: u32,
    figure: impl Fn(usize, usize, u32) -> Option<f64>,
) -> FleetNow {
    let count = hosts.len();
    let ends = (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b);
    let (mut pairs, mut tests) = (Vec::new(), Vec::new());
    for (place, (from, to)) in ends.enumerate() {
        let values: Vec<Option<f64>> = (0..times).map(|time| figure(from, to, time)).collect();
        tests.extend((0..times).zip(&values).map(|(time, value)| (time, place, *value)));
        let value = median(&sorted(&values.iter().flatten().copied().collect::<Vec<_>>()));
        let name = |host: usize| hosts.get(host).copied().unwrap_or_default().to_owned();
        let missing = value.is_none().then(|| WHY.to_owned());
        pairs.push(FleetPair {
            from: name(from),
            to: name(to),
            tries: times,
            value,
            values,
            missing,
        });
    }
    tests.sort_by_key(|(time, place, _)| (*time, *place));
    let tests = (1..).zip(tests).map(|(number, (time, pair, value))| FleetTest {
        pair,
        time: time + 1,
        attempt: 1,
        began: date(time),
        began_s: Some(f64::from(BEGIN_S + 3_600 * time)),
        end: Some(FleetTestEnd {
            number,
            seconds: 5.25,
            result: value.ok_or_else(|| WHY.to_owned()),
            recorded: value.is_some(),
        }),
    });
    let usual: Vec<f64> = pairs.iter().filter_map(|pair| pair.value).collect();
    let judged = FleetAnswer::Judged;
    let verdict =
        FleetVerdict { hosts: judged, links: judged, usual: median(&sorted(&usual)), bad: vec![] };
    let document = FleetDocument {
        format: 1,
        kind: "fleet".into(),
        id: "019b7d2f".into(),
        started: date(0),
        linerate: ProgramFacts { version: "0.1.0".into() },
        command: ["linerate", "fleet", "run"].map(str::to_owned).to_vec(),
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        metric: "received_bps".into(),
        unit: "bit/s".into(),
        times,
        deleted: 0,
        begun: (0..times).map(|time| Some(date(time))).collect(),
        at_once: false,
        set: vec![],
        rounds: times as usize,
        interrupted: false,
        pairs,
        verdict,
        changes: vec![],
    };
    let begun_s = (0..times).map(|time| Some(f64::from(BEGIN_S + 3_600 * time))).collect();
    FleetNow { document, begun_s, tests: tests.collect(), running: false }
}

/// Of a time, from 0.
fn date(time: u32) -> String {
    format!("2026-01-{:02}T{:02}:00:00Z", 2 + (3 + time) / 24, (3 + time) % 24)
}
