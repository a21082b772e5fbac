//! A pair of hosts over the times it was measured: the chart of its figures, with changes of its level.

use linerate_model::fleet::{FleetChange, FleetDocument, FleetPair};
use linerate_model::fleet_now::FleetNow;

use super::change;
use crate::draw::chart::{Axis, Band, Chart, Kind, Series, Unit};

/// Units of a horizontal axis, in seconds, each from so many seconds on.
const SPANS: [(f64, f64, &str); 4] = [
    (0.0, 1.0, "seconds"),
    (300.0, 60.0, "minutes"),
    (3.0 * 3_600.0, 3_600.0, "hours"),
    (3.0 * 86_400.0, 86_400.0, "days"),
];

/// Changes that are named where all pairs are shown.
const MOST_NAMED: usize = 10;

/// Changes of the level of a pair, in their order.
pub fn changes<'a>(
    document: &'a FleetDocument,
    pair: &'a FleetPair,
) -> impl Iterator<Item = &'a FleetChange> {
    document.changes.iter().filter(|change| change.from == pair.from && change.to == pair.to)
}

/// Changes to a worse level that stand, of each pair the newest: a line each, and how many more there are.
pub fn standing(document: &FleetDocument) -> String {
    let named = document.worse().take(MOST_NAMED).map(|worse| change(worse, &document.unit));
    let mut lines: String = named.collect();
    let more = document.worse().count().saturating_sub(MOST_NAMED);
    if more > 0 {
        lines.push_str(&format!("changed: {more} more\n"));
    }
    lines
}

/// The figures of a pair over time, a gap where one is missing; none where it has no figure at two times.
pub fn chart(now: &FleetNow, pair: &FleetPair) -> Option<Chart> {
    let document = &now.document;
    let (x_axis, x) = moments(now);
    let y: Vec<Option<f64>> = pair.values.iter().take(x.len()).copied().collect();
    let known = y.iter().flatten().count();
    if known < 2 {
        return None;
    }
    let unit = match document.unit.as_str() {
        "bit/s" => Unit::BitRate,
        "s" => Unit::Seconds,
        "%" => Unit::Percent,
        _ => Unit::Count,
    };
    let left = Axis::from_zero(&format!("{}, {}", document.metric, document.unit), unit);
    let changes: Vec<&FleetChange> = changes(document, pair).collect();
    let mut series = vec![Series::line("this pair", 0, y)];
    if let Some(first) = changes.first() {
        let level = |time: usize| {
            let before = changes.iter().rfind(|change| time_of(document, change) <= time);
            Some(before.map_or(first.before, |change| change.after))
        };
        series
            .push(Series::line("its level", 1, (0..x.len()).map(level).collect()).kind(Kind::Thin));
    }
    if let Some(usual) = document.verdict.usual {
        let usual = vec![Some(usual); x.len()];
        series.push(Series::line("usual of all pairs", 0, usual).kind(Kind::Ideal));
    }
    let title = format!("{} of each time", document.metric);
    let alt = format!("{known} figures of {} times, {} changes of level", x.len(), changes.len());
    let bands = bands(document, &x, &changes);
    Chart::new(title, alt, (x_axis, left), x, series).bands(bands).tidy()
}

/// The first time after a change, from 0, of those that are not deleted; 0 as well of one before them.
fn time_of(document: &FleetDocument, change: &FleetChange) -> usize {
    change.time.saturating_sub(1).saturating_sub(document.deleted) as usize
}

/// When the times began. Where that is not known, or the clock was set back, their numbers.
fn moments(now: &FleetNow) -> (Axis, Vec<f64>) {
    let begun: Vec<f64> = now.begun_s.iter().map_while(|at| *at).collect();
    let began = now.document.begun.iter().take_while(|date| date.is_some()).count();
    let first = begun.first().zip(now.document.begun.first().and_then(Option::as_deref));
    if let Some((first, date)) = first
        && begun.len() == began
        && begun.is_sorted_by(|a, b| a < b)
    {
        let span = begun.last().map_or(0.0, |last| last - first);
        let (_, size, name) = *SPANS.iter().rfind(|(from, ..)| span >= *from).unwrap_or(&SPANS[0]);
        let x = begun.iter().map(|at| (at - first) / size).collect();
        return (Axis::from_zero(&format!("{name} since {date}"), Unit::Count), x);
    }
    let deleted = f64::from(now.document.deleted);
    let times = u32::try_from(began).unwrap_or(u32::MAX);
    let numbers = (1..=times).map(|time| deleted + f64::from(time));
    (Axis::fitted("time", Unit::Whole), numbers.collect())
}

/// A stretch for each level, from one change to the next.
fn bands(document: &FleetDocument, x: &[f64], changes: &[&FleetChange]) -> Vec<Band> {
    let (Some(begin), Some(end)) = (x.first(), x.last()) else { return Vec::new() };
    if changes.is_empty() {
        return Vec::new();
    }
    let at = |change: &&FleetChange| x.get(time_of(document, change)).copied().unwrap_or(*end);
    let label = |change: &&FleetChange| format!("since time {}", change.time);
    let from = std::iter::once(*begin).chain(changes.iter().map(at));
    let to = changes.iter().map(at).chain([*end]);
    let labels = std::iter::once(String::new()).chain(changes.iter().map(label));
    from.zip(to).zip(labels).map(|((from, to), label)| Band { from, to, label }).collect()
}

#[cfg(test)]
mod tests {
    use linerate_testkit::fleet;

    use super::*;

    fn change(from: &str, to: &str, time: u32, (before, after): (f64, f64)) -> FleetChange {
        let (from, to) = (from.to_owned(), to.to_owned());
        let worse = after < before;
        FleetChange { from, to, since: None, time, before, after, low: None, high: None, worse }
    }

    #[test]
    fn changes_stand_until_a_later_one_is_better() {
        let mut now = fleet::now(&["a", "b", "c"], 5, |_, _, _| Some(94e6));
        now.document.changes = vec![
            change("a", "b", 2, (94e6, 80e6)),
            change("a", "c", 2, (94e6, 80e6)),
            change("a", "c", 4, (80e6, 94e6)),
        ];
        assert_eq!(standing(&now.document), "changed: a -> b, 94 -> 80 Mbit/s since time 2\n");
        let many = (0..12).map(|to| change("a", &to.to_string(), 2, (94e6, 80e6)));
        now.document.changes = many.collect();
        assert!(standing(&now.document).ends_with("\nchanged: 2 more\n"));
    }

    #[test]
    fn time_is_on_the_axis_in_a_fitting_unit_or_as_the_number() {
        let mut now = fleet::now(&["a", "b"], 4, |_, _, time| Some(94e6 + f64::from(time)));
        let drawn = |now: &FleetNow| chart(now, &now.document.pairs[0]).expect("a chart");
        let hours = drawn(&now);
        assert_eq!(
            (hours.x_axis.label.as_str(), hours.x),
            ("hours since 2026-01-02T03:00:00Z", vec![0.0, 1.0, 2.0, 3.0])
        );
        now.begun_s = [0.0, 60.0, 86_400.0, 5.0 * 86_400.0].map(Some).to_vec();
        assert_eq!(drawn(&now).x, [0.0, 60.0 / 86_400.0, 1.0, 5.0]);
        // A clock that was set back.
        now.begun_s[3] = Some(50.0);
        let numbers = drawn(&now);
        assert_eq!((numbers.x_axis.label.as_str(), numbers.x), ("time", vec![1.0, 2.0, 3.0, 4.0]));
        // Times that are still to come have no place.
        now.document.begun[3] = None;
        now.begun_s[3] = None;
        assert_eq!(drawn(&now).x.len(), 3);
        now.document.begun[1..].fill(None);
        assert!(chart(&now, &now.document.pairs[0]).is_none(), "one figure is no history");
    }
}
