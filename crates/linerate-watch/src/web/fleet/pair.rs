//! The page of a pair: its figures over the times as a chart, and every test of it.

use std::collections::BTreeMap;

use linerate_model::fleet::FleetPair;
use linerate_model::fleet_now::FleetTest;
use linerate_report::clean::clean;
use linerate_report::draw;
use linerate_report::fleet::heat::{Head, Heat};
use linerate_report::fleet::{self, history};
use linerate_report::number;

use super::body::Body;
use super::{Shown, time_of_day};

/// Times of the table.
const MOST_TIMES: usize = 500;

pub(super) fn body(shown: &Shown<'_>, place: usize, pair: &FleetPair) -> String {
    let document = &shown.now.document;
    let mut body = Body::default();
    body.push("<header>");
    body.element("h1", &clean(&format!("{} -> {}", pair.from, pair.to)));
    body.push("<p class=\"head\"><a href=\"./\">all pairs</a>");
    let back = |other: &FleetPair| other.from == pair.to && other.to == pair.from;
    if let Some(back) = document.pairs.iter().position(back) {
        body.push(" · ");
        let words = format!("{} -> {}", pair.to, pair.from);
        body.element(&format!("a href=\"pair-{back}\""), &clean(&words));
    }
    body.push(&format!("</p></header>\n{} data-pair=\"{place}\">\n", shown.main()));
    let fault = shown.fault().unwrap_or_default();
    body.element("p id=\"state\" role=\"status\" class=\"bad\"", &fault);
    words(&mut body, shown, place);
    if let Some(chart) = history::chart(shown.now, pair) {
        let mut drawing = String::new();
        let height = chart.draw(&mut drawing, 0.0);
        let drawing = draw::embedded(height, &format!("{}. {}", chart.title, chart.alt), &drawing);
        body.push(&format!("<figure>{drawing}</figure>\n"));
    }
    tests(&mut body, shown, place);
    body.push("</main>\n");
    body.out
}

/// All figures, and which level changed when.
fn words(body: &mut Body, shown: &Shown<'_>, place: usize) {
    let document = &shown.now.document;
    let heat = Heat::new(document);
    let cell = heat.rows.iter().flatten().find(|cell| cell.pair == Some(place));
    body.push("<div class=\"words\">");
    if let Some(cell) = cell {
        body.element("p", &cell.words);
    }
    if let Some(pair) = document.pairs.get(place) {
        let named = |heads: &[Head], host: &str| {
            heads.iter().find(|head| head.name == clean(host)).and_then(|head| head.bad.clone())
        };
        let said = [named(&heat.clients, &pair.from), named(&heat.servers, &pair.to)];
        said.into_iter().flatten().for_each(|words| body.element("p", &words));
        for change in history::changes(document, pair) {
            body.element("p", fleet::change(change, &document.unit).trim_end());
        }
    }
    body.push("</div>\n");
}

/// A row for each test, and one for each time that had none, the newest time first.
fn tests(body: &mut Body, shown: &Shown<'_>, place: usize) {
    let document = &shown.now.document;
    let mut by_time: BTreeMap<u32, Vec<&FleetTest>> = BTreeMap::new();
    for test in shown.now.tests_of(place) {
        by_time.entry(test.time).or_default().push(test);
    }
    body.push("<div class=\"scroll\"><table class=\"tests\"><thead><tr>");
    for name in ["time", document.metric.as_str(), "test", "began, UTC", "took", "try"] {
        body.element("th scope=\"col\"", name);
    }
    body.push("</tr></thead>\n<tbody>\n");
    let first = document.deleted.saturating_add(1);
    let last = document.deleted.saturating_add(document.times);
    for time in (first..=last).rev().take(MOST_TIMES) {
        let Some(tests) = by_time.get_mut(&time) else {
            body.push(&format!("<tr><td>{time}</td><td class=\"long\">its turn did not come</td>"));
            body.push("<td></td><td></td><td></td><td></td></tr>\n");
            continue;
        };
        tests.sort_by_key(|test| test.attempt);
        tests.iter().rev().for_each(|test| row(body, shown, test));
    }
    body.push("</tbody></table></div>\n");
    let older = (document.times as usize).saturating_sub(MOST_TIMES);
    if older > 0 {
        let words =
            format!("{older} older times are in the chart and in `linerate fleet results --json`.");
        body.element("p class=\"note\"", &words);
    }
}

fn row(body: &mut Body, shown: &Shown<'_>, test: &FleetTest) {
    body.push(&format!("<tr><td>{}</td>", test.time));
    match test.end.as_ref().map(|end| &end.result) {
        Some(Ok(value)) => {
            body.element("td", &number::measured(*value, Some(&shown.now.document.unit)));
        }
        Some(Err(why)) => body.element("td class=\"long\"", &clean(why)),
        None if shown.now.running => body.element("td class=\"long\"", "under way"),
        None => body.element("td class=\"long\"", "under way when linerate ended"),
    }
    body.push("<td>");
    if let Some(end) = test.end.as_ref().filter(|end| end.recorded) {
        let number = end.number;
        body.push(&format!(
            "<a href=\"report-{number}\">report</a> · <a href=\"record-{number}\">record</a>"
        ));
    }
    body.push("</td>");
    let day = test.began.get(..10).unwrap_or_default();
    body.element("td", &clean(&format!("{day} {}", time_of_day(&test.began))));
    let took = test.end.as_ref().map(|end| number::chosen_seconds(end.seconds));
    body.element("td", &took.unwrap_or_default());
    body.push(&format!("<td>{}</td></tr>\n", test.attempt));
}
