//! `linerate fleet serve`: the page of a file of results, who may see it, and what a browser makes of it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use linerate_model::fleet::{FleetBad, FleetRole};
use linerate_model::fleet_now::FleetNow;
use linerate_testkit::fleet;
use linerate_testkit::records;
use linerate_watch::web::events;
use linerate_watch::web::fleet::Shown as Page;
use linerate_wire::http;
use serde_json::Value;

use crate::support::{Browser, FleetFile, alone, linerate};
use crate::web::{Shown, framed, plain_html, said};

/// A new file of a test's own.
fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fleet-page-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder.join("fleet.db")
}

/// The body of what was found.
fn body(answer: &str) -> &str {
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").expect("a body").1
}

const HOSTILE: &str = "b<img src=x onerror=alert(1)>\"'&amp;";

#[test]
fn a_file_is_shown_to_who_knows_the_token_and_names_stay_text() {
    let _alone = alone();
    let path = scratch("shown");
    let mut file = FleetFile::new(&path, &["a", HOSTILE, "c"], 3);
    file.measured(3, |from, to, _| if (from, to) == (1, 0) { None } else { Some(94e6) });
    drop(file);
    let shown = Shown::start(&["fleet", "serve", path.to_str().expect("text")]);
    let answer = shown.get("/TOKEN/");
    let page = body(&answer);
    for field in ["Cache-Control: no-store", "frame-ancestors 'none'", "nosniff"] {
        assert!(answer.contains(field), "{field}");
    }
    assert!(page.contains("3 of 18 results are missing"), "{page}");
    assert!(page.contains("every pair has had its turn"), "{page}");
    assert!(!page.contains("<img"), "{page}");
    let places: Value = serde_json::from_str(body(&shown.get("/TOKEN/places"))).expect("JSON");
    assert_eq!((places[0].as_str(), places[1].as_u64()), (Some("019b7d2f"), Some(1)));

    // b -> a is the third pair, and has no result; a -> b the first.
    let answer = shown.get("/TOKEN/pair-2");
    assert!(body(&answer).matches("no route").count() == 4 && !answer.contains("<img"), "{answer}");
    let answer = shown.get("/TOKEN/pair-0");
    assert_eq!(body(&answer).matches("<a href=\"report-").count(), 3, "{answer}");
    let record: Value = serde_json::from_str(body(&shown.get("/TOKEN/record-1"))).expect("JSON");
    let made: Value = serde_json::to_value(records::tcp()).expect("JSON");
    assert_eq!(record, made);
    let answer = shown.get("/TOKEN/report-1");
    let report = body(&answer);
    assert!(report.contains("<title>linerate report: "), "{report}");
    assert!(report.contains("a -&gt; b&lt;img") && !report.contains("<img"), "{report}");

    // The third test had no record.
    for path in ["record-3", "report-3", "record-19", "report-0", "record-18446744073709551616"] {
        assert_eq!(shown.get(&format!("/TOKEN/{path}")), http::NOT_FOUND, "{path}");
    }
    let long = format!("pair-{}", "1".repeat(7_000));
    let others = ["pair-6", "pair-", "pair-+1", "pair--1", "pair-1/", "pair-0?a", "places/", "?a"];
    let traps = ["../../etc/passwd", "record-1/../1", "%2e%2e", "record-%31", "<script>", &long];
    for path in others.iter().chain(&traps) {
        assert_eq!(shown.get(&format!("/TOKEN/{path}")), http::NOT_FOUND, "{path}");
    }
    for path in ["/", "/pair-0", "/record-1", "//TOKEN/", &format!("/{}/", "0".repeat(32))] {
        assert_eq!(shown.get(path), http::NOT_FOUND, "{path}");
    }
    assert_eq!(shown.answer(b"POST / HTTP/1.1\r\n\r\n"), http::NOT_FOUND);
    shown.interrupt();
    assert_eq!(shown.end().0, 0);
}

#[test]
fn what_a_run_writes_is_told_while_it_does() {
    let _alone = alone();
    let path = scratch("told");
    let mut file = FleetFile::new(&path, &["a", "b"], 2);
    let shown = Shown::start(&["fleet", "serve", path.to_str().expect("text")]);
    let page = || body(&shown.get("/TOKEN/")).to_owned();
    assert!(page().contains(">running<") && page().contains("0 of 2 pairs"), "{}", page());
    let mut events = shown.events().expect("events");
    file.begin(1, 0);
    let (name, first) = events.next().expect("an event");
    assert_eq!((name.as_str(), &first[1]), ("fleet", &serde_json::json!([1])), "{first}");
    let words = "under way: b -&gt; a since 03:00:00 UTC";
    assert!(page().contains(words) && page().contains("time 1 of 2, 0 of 2"), "{}", page());
    file.end(1, 0, Ok(5e6));
    let (_, second) = events.next().expect("an event");
    assert!(second[0].as_u64() > first[0].as_u64(), "{second}");
    assert!(page().contains("time 1 of 2, 1 of 2"), "{}", page());
    // Who comes late is told the newest look alone.
    let mut late = shown.events().expect("events");
    assert_eq!(late.next().expect("an event").1, second);
    // The run ends before all is measured.
    drop(file);
    let (_, third) = events.next().expect("an event");
    assert_eq!(third[1], serde_json::json!([0, 1]), "{third}");
    assert!(page().contains("no run writes this file"), "{}", page());
    // What cannot be read is told, and what was known stands.
    let good = std::fs::read(&path).expect("a file");
    // At once: half of it would be another fault, whenever it is looked at.
    let replace = |bytes: &[u8]| {
        let new = path.with_extension("new");
        std::fs::write(&new, bytes).expect("written");
        std::fs::rename(&new, &path).expect("it takes its place");
    };
    replace("no database, but long enough to look at it as one".as_bytes());
    events.next().expect("an event");
    let words = "What stands here was read before";
    assert!(page().contains(words) && page().contains(">5<"), "{}", page());
    assert!(shown.get("/TOKEN/record-1").starts_with("HTTP/1.1 500 "));
    replace(&good);
    events.next().expect("an event");
    assert!(!page().contains(words), "{}", page());
    shown.interrupt();
    while events.next().is_some() {}
    assert_eq!(shown.end().0, 0);
}

#[test]
fn what_is_no_file_of_a_fleet_is_refused() {
    let path = scratch("refused");
    let name = path.to_str().expect("text");
    assert_eq!(linerate(None, &["fleet", "serve", name]).code, 1);
    std::fs::write(&path, "text").expect("a file");
    let ran = linerate(None, &["fleet", "serve", name]);
    assert!(ran.code == 1 && ran.err.contains("cannot use the results in"), "{}", ran.err);
}

/// Eight hosts, measured six times: the third is bad as a server.
fn eight() -> FleetNow {
    let hosts = ["ams", "ber", "cph", "dub", HOSTILE, "fra", "gva", "hel"];
    let figure = |_, to, time| Some(if to == 2 { 690e6 } else { 941e6 } + f64::from(time));
    let mut now = fleet::now(&hosts, 6, figure);
    now.document.verdict.bad = vec![FleetBad {
        host: Some("cph".into()),
        role: Some(FleetRole::Server),
        from: None,
        to: None,
        worse_by: 251e6,
        low: Some(249e6),
        high: Some(253e6),
    }];
    now
}

/// A page that looks at another one in a frame of its own size, and says as JSON what it finds.
const LOOKS: &str = r##"<!doctype html><style>body{margin:0} iframe{border:0;width:100vw;height:900px}</style>
<iframe src="page/"></iframe><output></output><script>
const frame = document.querySelector("iframe");
if (location.hash) frame.style.width = location.hash.slice(1) + "px";
frame.onload = async () => {
  const [page, window] = [frame.contentDocument, frame.contentWindow];
  const state = () => page.getElementById("state").textContent;
  while (!state().startsWith("running")) await new Promise((done) => setTimeout(done, 100));
  const cells = [...page.querySelectorAll(".heat a")];
  const before = cells.filter((cell) => cell.tabIndex === 0).length;
  cells[0].focus();
  for (const key of ["ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft"]) {
    page.activeElement.dispatchEvent(new window.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  }
  const style = (element) => window.getComputedStyle(element);
  const box = page.querySelector(".box");
  document.querySelector("output").textContent = JSON.stringify({
    state: state(), before, focused: page.activeElement.getAttribute("href"), cells: cells.length,
    wide: page.documentElement.scrollWidth - page.documentElement.clientWidth, scrolls: box.scrollWidth > box.clientWidth,
    ground: style(page.body).backgroundColor, usual: style(cells[0]).backgroundColor, bad: style(cells[1]).backgroundColor,
    text: cells[0].textContent, images: page.images.length, head: page.querySelector("th .bad").title,
  });
  fetch("done");
};
</script><!-- end -->"##;

/// Answers with the page as it was at the first look, and with what its script asks for as it is at the second.
fn answer(path: &str, stream: &mut TcpStream) {
    let before = eight();
    let mut now = before.clone();
    now.running = true;
    let page = |now, look| Page { now, look, fault: None };
    let _ = match path {
        "" => stream.write_all(plain_html(page(&before, 1).matrix().as_str()).as_bytes()),
        "places" => stream.write_all(http::json(&page(&now, 2).places()).as_bytes()),
        "events" => {
            let told = http::events() + &events::fleet(2, &[0]).text;
            let _ = stream.write_all(told.as_bytes());
            stream.read(&mut [0]).map(drop)
        }
        _ => stream.write_all(http::NOT_FOUND.as_bytes()),
    };
}

#[test]
fn a_browser_shows_the_matrix_in_any_width_light_and_dark() {
    let _alone = alone();
    let Some(browser) = Browser::new("a_browser_shows_the_matrix_in_any_width_light_and_dark")
    else {
        return;
    };
    let address = framed(LOOKS, answer);
    let found = |options: &[&str], width: &str| {
        said(&browser.opens(&format!("{address}{width}"), options), "state")
    };
    let size = "--window-size=1280,900";
    let wide = found(&[size], "");
    let narrow = found(&[size], "#390");
    let dark = found(&[size, "--blink-settings=preferredColorScheme=0"], "");
    for shown in [&wide, &narrow, &dark] {
        // What came after the page, by its script.
        assert_eq!(
            shown["state"], "running: time 6 of 6, 56 of 56 pairs measured in it",
            "{shown}"
        );
        assert_eq!(
            (&shown["cells"], &shown["before"]),
            (&Value::from(56), &Value::from(1)),
            "{shown}"
        );
        // From ams -> ber to the right, down twice, and to the left past the one that is not there.
        assert_eq!(shown["focused"], "pair-22", "{shown}");
        assert_eq!(
            (&shown["wide"], &shown["images"]),
            (&Value::from(0), &Value::from(0)),
            "{shown}"
        );
        assert_ne!(shown["usual"], shown["bad"], "{shown}");
        let head = shown["head"].as_str().expect("words");
        assert!(head.starts_with("bad host: cph as server, 251.0 Mbit/s less"), "{shown}");
    }
    assert_eq!((&wide["scrolls"], &narrow["scrolls"]), (&Value::from(false), &Value::from(true)));
    assert_eq!(
        (&wide["ground"], &dark["ground"]),
        (&Value::from("rgb(255, 255, 255)"), &Value::from("rgb(18, 22, 27)"))
    );
}
