//! Pages of made-up results.

use linerate_model::fleet::{FleetBad, FleetChange, FleetRole};
use linerate_model::record::ErrorKind;
use linerate_testkit::fleet;

use super::*;

const HOSTS: [&str; 4] = ["a", "b<img src=x onerror=alert(1)>", "c", "d\"' \u{1b}[2J"];

/// Of four hosts: c is bad as a client, a -> b a bad link, d -> a has no result.
fn now() -> FleetNow {
    let mut now = fleet::now(&HOSTS, 4, |from, to, time| match (from, to) {
        (0, 1) => Some(60e6),
        (2, _) => Some(70e6 + f64::from(time)),
        (3, 0) => None,
        _ => Some(94e6),
    });
    let host = FleetBad {
        host: Some("c".into()),
        role: Some(FleetRole::Client),
        from: None,
        to: None,
        worse_by: 24e6,
        low: Some(23e6),
        high: Some(25e6),
    };
    let (from, to) = (Some(HOSTS[0].to_owned()), Some(HOSTS[1].to_owned()));
    let link = FleetBad { host: None, role: None, from, to, worse_by: 34e6, ..host.clone() };
    now.document.verdict.bad = vec![host, link];
    now.document.verdict.usual = Some(94e6);
    now
}

fn shown(now: &FleetNow) -> Shown<'_> {
    Shown { now, look: 7, fault: None }
}

/// The element with a link to this pair.
fn cell(page: &str, pair: usize) -> &str {
    let (_, rest) = page.split_once(&format!("<a href=\"pair-{pair}\"")).expect("a cell");
    rest.split_once("</a>").expect("its end").0
}

#[test]
fn the_matrix_says_who_is_bad_and_what_is_missing() {
    let (now, html) = (now(), shown(&now()).matrix());
    let page = html.as_str();
    assert!(page.contains("bad host: c as client, 24.00 Mbit/s less than others"), "{page}");
    // a -> b, of the bad link; c -> a, of the bad host; d -> a, without a result; a -> c, as usual.
    let words = "title=\"bad link: a -&gt; b&lt;img src=x onerror=alert(1)&gt;: 60.00 Mbit/s; 36.2 % less than the \
                 usual 94.00 Mbit/s; median of 4 of 4 times, 60.00 Mbit/s to 60.00 Mbit/s\"";
    let link = cell(page, 0);
    assert!(link.contains("class=\"w4 link\"") && link.contains(words), "{link}");
    assert!(link.ends_with(">60"), "{link}");
    let of_host = cell(page, 6);
    assert!(of_host.contains("class=\"w4 of\"") && of_host.ends_with(">70"), "{of_host}");
    let missing = cell(page, 9);
    assert!(missing.contains("class=\"missing\"") && missing.ends_with(">-"), "{missing}");
    assert!(missing.contains("no result, no route"), "{missing}");
    let usual = cell(page, 1);
    assert!(
        usual.contains("class=\"w0\"") && usual.contains("; as usual, 94.00 Mbit/s;"),
        "{usual}"
    );
    assert!(
        page.contains(
            "<th scope=\"row\"><span data-part class=\"bad\" title=\"bad host: c as client"
        )
    );
    assert_eq!(page.matches("class=\"bad\" title=").count(), 1, "c is bad as client alone");
    assert!(
        page.contains("every pair has had its turn")
            && page.contains("4 of 48 results are missing")
    );
    assert_eq!(page.matches("<a href=\"pair-").count(), now.document.pairs.len());
    // Names of hosts stay text.
    assert!(!page.contains("<img") && !page.contains('\u{1b}'), "{page}");
    assert!(page.contains("connect-src 'self';") && !page.contains("style=\""));
}

#[test]
fn the_places_of_the_page_are_those_of_its_script() {
    let now = now();
    let (page, places) = (shown(&now).matrix(), shown(&now).places());
    assert!(places.starts_with("[\"019b7d2f\",7,[["), "{places}");
    let parts = matrix::body(&shown(&now)).parts;
    let (head, body) = page.as_str().split_once("<main").expect("a body");
    assert_eq!(
        (head.matches(" data-part ").count(), body.matches(" data-part ").count()),
        (0, parts.len())
    );
    // Twelve cells, eight heads, eight medians; four lines, the caption and six steps of the legend.
    assert_eq!(parts.len(), 12 + 8 + 8 + 4 + 1 + 6);
    for [class, text, _] in &parts {
        assert!(body.contains(&format!("class=\"{class}\"")), "{class}");
        let lines: Vec<String> = text.lines().map(linerate_report::draw::escape).collect();
        assert!(body.contains(&format!(">{}</", lines.join("\n"))), "{text}");
    }
}

#[test]
fn a_run_under_way_is_told_with_its_tests() {
    let mut now = now();
    now.running = true;
    now.document.begun[3] = None;
    let open = |pair: usize| FleetTest { pair, end: None, ..now.tests[0].clone() };
    let tests = [open(0), open(9)];
    now.tests.extend(tests);
    let html = shown(&now).matrix();
    let page = html.as_str();
    assert!(page.contains("running: time 3 of 4, 11 of 12 pairs measured in it"), "{page}");
    assert!(
        page.contains(
            "under way: a -&gt; b&lt;img src=x onerror=alert(1)&gt; since 03:00:00 UTC, d"
        ),
        "{page}"
    );
    assert!(
        cell(page, 9).contains("class=\"missing busy\"")
            && cell(page, 9).contains("; under way now")
    );
    // A run that is gone leaves none under way.
    now.running = false;
    now.document.interrupted = true;
    let html = shown(&now).matrix();
    assert!(!html.as_str().contains("under way now") && html.as_str().contains("--resume goes on"));
    // Of a schedule that was ended in the middle of a time.
    now.document.interrupted = false;
    now.tests.retain(|test| (test.pair, test.time) != (9, 4) && test.end.is_some());
    let page = shown(&now).matrix();
    let words = "no run writes this file, and not every pair has had its turn<";
    assert!(page.as_str().contains(words), "{}", page.as_str());
    let fault = ErrorRecord::new(ErrorKind::Store, "cannot use the results", "it is <gone>", &[]);
    let html = Shown { fault: Some(&fault), ..shown(&now) }.matrix();
    let words = "cannot use the results: it is &lt;gone&gt;. What stands here was read before";
    assert!(html.as_str().contains(words), "{}", html.as_str());
}

#[test]
fn a_pair_has_its_history_its_changes_and_every_test() {
    let mut now = now();
    // b -> a: it falls at the third time, and has no result at the second.
    let place = 3;
    now.document.pairs[place].values = vec![Some(94e6), None, Some(80e6), Some(80e6)];
    now.document.changes.push(FleetChange {
        from: HOSTS[1].into(),
        to: "a".into(),
        since: Some("2026-01-02T05:00:00Z".into()),
        time: 3,
        before: 94e6,
        after: 80e6,
        low: Some(-15e6),
        high: Some(-13e6),
        worse: true,
    });
    now.tests.retain(|test| (test.pair, test.time) != (place, 4));
    for test in now.tests.iter_mut().filter(|test| (test.pair, test.time) == (place, 2)) {
        let end = test.end.as_mut().expect("an end");
        (end.result, end.recorded) = (Err("<b>no</b> route".into()), false);
    }
    let html = shown(&now).pair(place).expect("a page");
    let page = html.as_str();
    assert!(page.contains("<h1>b&lt;img src=x onerror=alert(1)&gt; -&gt; a</h1>"), "{page}");
    assert!(page.contains("<a href=\"pair-0\">a -&gt; b&lt;img"), "the other way");
    assert!(page.contains(
        "changed: b&lt;img src=x onerror=alert(1)&gt; -&gt; a, 94 -&gt; 80 Mbit/s (-15 to -13) since 2026-01-02T05:00:00Z"
    ));
    let path = page.split("class=\"curve l0\" d=\"").nth(1).expect("a curve");
    let path = path.split('"').next().unwrap_or_default();
    assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "a gap: {path}");
    assert!(
        page.contains("hours since 2026-01-02T03:00:00Z") && page.contains(">since time 3</text>")
    );
    assert!(
        page.contains("<td class=\"long\">&lt;b&gt;no&lt;/b&gt; route</td><td></td><td>"),
        "{page}"
    );
    assert!(page.contains("<td class=\"long\">its turn did not come</td>"));
    assert!(page.contains("<td>2026-01-02 05:00:00</td><td>5.25 s</td><td>1</td>"), "{page}");
    assert_eq!(page.matches("<a href=\"record-").count(), 2);
    assert!(page.contains(&format!("data-pair=\"{place}\"")));
    assert!(shown(&now).pair(12).is_none() && shown(&now).pair(usize::MAX).is_none());
}

#[test]
fn pages_are_others_where_something_came_or_what_is_said_of_all_changed() {
    let before = now();
    assert!(changed(&before, &before).is_empty());
    let mut now = before.clone();
    let ended = FleetTest { attempt: 2, ..now.tests[5].clone() };
    now.tests.push(ended);
    assert_eq!(changed(&before, &now), [5]);
    now.document.verdict.bad.clear();
    assert_eq!(changed(&before, &now).len(), 12);
}

#[test]
fn a_hundred_hosts_are_one_page() {
    let names: Vec<String> = (0..100).map(|host| format!("host-{host}.example:5201")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let now = fleet::now(&names, 2, |from, to, time| {
        Some(1e9 + (from * 100 + to) as f64 + f64::from(time))
    });
    let html = shown(&now).matrix();
    assert!(html.as_str().contains("<div class=\"box tiny upright\""));
    assert_eq!(html.as_str().matches("<a href=\"pair-").count(), 9_900);
    assert!(html.as_str().len() < 3_000_000, "{}", html.as_str().len());
}
