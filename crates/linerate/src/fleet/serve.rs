//! `linerate fleet serve`: what a file or database of results says, as a page and as metrics, also while a run writes it.

use std::io::{Write, stderr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use linerate_ask::value::WebAddress;
use linerate_drive::fleet::{Followed, record};
use linerate_model::exit::Exit;
use linerate_model::fleet_agents::FleetHosts;
use linerate_model::fleet_now::FleetNow;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_report::report::format::{self, Look};
use linerate_report::report::input::Input;
use linerate_report::report::view::View;
use linerate_runner::clock::Stopwatch;
use linerate_runner::signals::Stop;
use linerate_store::Place;
use linerate_watch::web::events;
use linerate_watch::web::fleet::{Shown, changed};
use linerate_wire::http;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::args::ServeArgs;
use super::metrics;
#[cfg(not(feature = "nats"))]
use crate::agent::unbuilt;
use crate::output;
use crate::web::{Answer, Feed, Site, Web};

/// The file is looked at this often.
const PAUSE: Duration = Duration::from_secs(1);
/// Thousands of pairs take seconds to judge: of the time between two looks they may take a quarter.
const SHARE: u32 = 3;
/// Answers of a port that are made at once. Whoever asked may be gone before one is, and comes again.
const MOST_MADE: usize = 2;

/// What the file said at a look.
struct Seen {
    now: Arc<FleetNow>,
    /// Grows with each look that found something new.
    look: u64,
    /// Why it cannot be read.
    fault: Option<ErrorRecord>,
}

/// The newest.
#[derive(Clone)]
struct Newest(Arc<Mutex<Arc<Seen>>>);

impl Newest {
    fn get(&self) -> Arc<Seen> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, seen: Seen) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(seen);
    }
}

/// Asks a broker about its agents; nothing where it does not answer.
type Asks = Arc<dyn Fn() -> Option<FleetHosts> + Send + Sync>;

#[cfg(feature = "nats")]
fn asks(dir: &Path) -> Result<Asks, ErrorRecord> {
    let credentials = super::broker::credentials(dir)?;
    Ok(Arc::new(move || super::hosts::asked(&credentials)))
}

#[cfg(not(feature = "nats"))]
fn asks(_: &Path) -> Result<Asks, ErrorRecord> {
    Err(unbuilt("linerate fleet serve --nats"))
}

/// Serves until Ctrl-C.
pub fn serve(args: &ServeArgs) -> Result<Exit, ErrorRecord> {
    let (followed, now) = Followed::open(&args.file)?;
    let newest =
        Newest(Arc::new(Mutex::new(Arc::new(Seen { now: Arc::new(now), look: 1, fault: None }))));
    let free = || WebAddress::DEFAULT.parse().ok();
    let web = args.web.or_else(|| free().filter(|_| args.metrics.is_none()));
    let page = |at| Web::page(at, page(newest.clone(), args.file.clone()));
    let mut page = web.map(page).transpose()?;
    let asks = args.nats.as_deref().map(asks).transpose()?;
    let figures = |at| {
        let what = ("metrics", "--metrics", "metrics");
        Web::site(at, what, figures(newest.clone(), asks))
    };
    let mut figures = args.metrics.map(|at| figures(at.0)).transpose()?;
    let stop = output::stop_at_signals()?;
    for web in page.iter_mut().chain(&mut figures) {
        web.begin()?;
        let _ = writeln!(stderr(), "{}", web.words());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|e| {
        ErrorRecord::new(ErrorKind::Unable, "cannot wait for Ctrl-C", e.to_string(), &[])
    })?;
    follow(&runtime, followed, &newest, page.as_ref().map(Web::feed), &stop);
    Ok(Exit::Complete)
}

/// Looks at the file until it is to stop. A look is no part of what the runtime does: one at a database has another.
fn follow(
    runtime: &Runtime,
    mut followed: Followed,
    newest: &Newest,
    feed: Option<Arc<Feed>>,
    stop: &Stop,
) {
    let mut pause = PAUSE;
    while runtime.block_on(async { timeout(pause, stop.asked()).await }).is_err() {
        let watch = Stopwatch::start();
        if let Some(seen) = seen(&mut followed, &newest.get()) {
            let pairs = changed(&newest.get().now, &seen.now);
            let look = seen.look;
            newest.set(seen);
            if let Some(feed) = &feed {
                feed.publish(events::fleet(look, &pairs));
            }
        }
        pause = PAUSE.max(watch.elapsed().saturating_mul(SHARE));
    }
}

/// What is new since `last`.
fn seen(followed: &mut Followed, last: &Seen) -> Option<Seen> {
    let look = last.look.saturating_add(1);
    match followed.look() {
        Ok(Some(now)) => Some(Seen { now: Arc::new(now), look, fault: None }),
        Ok(None) => None,
        Err(error) if last.fault.as_ref() == Some(&error) => None,
        Err(error) => Some(Seen { now: Arc::clone(&last.now), look, fault: Some(error) }),
    }
}

/// Metrics, for everybody who reaches their port.
fn figures(newest: Newest, asks: Option<Asks>) -> Site {
    let room = Arc::new(Semaphore::new(MOST_MADE));
    Box::new(move |path: &str| -> Answer {
        if path != "/metrics" {
            return Box::pin(std::future::ready(http::NOT_FOUND.to_owned()));
        }
        let asks = asks.clone();
        whole(newest.clone(), Arc::clone(&room), move |seen| match &seen.fault {
            None => match metrics::text(&seen.now, asks.map(|asks| asks())) {
                Ok(text) => http::metrics(&text),
                Err(error) => failed(&error.to_string()),
            },
            // What was read before would pass for what is.
            Some(fault) => failed(&format!("{}: {}", fault.what, fault.why)),
        })
    })
}

/// The page and what belongs to it.
fn page(newest: Newest, file: Place) -> Site {
    let room = Arc::new(Semaphore::new(MOST_MADE));
    Box::new(move |path| {
        let (path, file) = (path.to_owned(), file.clone());
        whole(newest.clone(), Arc::clone(&room), move |seen| answer(seen, &file, &path))
    })
}

/// An answer that is made in a thread of its own: large pages take their time, and a file is read. That goes on where
/// whoever asked is gone, and keeps its place in the room so long.
fn whole(
    newest: Newest,
    room: Arc<Semaphore>,
    make: impl FnOnce(&Seen) -> String + Send + 'static,
) -> Answer {
    Box::pin(async move {
        let place = room.acquire_owned().await;
        let make = move || {
            let _place = place;
            make(&newest.get())
        };
        let made = tokio::task::spawn_blocking(make).await;
        made.unwrap_or_else(|error| failed(&error.to_string()))
    })
}

fn failed(why: &str) -> String {
    http::refused("500 Internal Server Error", &format!("{why}\n"))
}

fn answer(seen: &Seen, file: &Place, path: &str) -> String {
    let shown = Shown { now: &seen.now, look: seen.look, fault: seen.fault.as_ref() };
    let number = |kind: &str| path.strip_prefix(kind).and_then(digits);
    let not_found = || Ok(http::NOT_FOUND.to_owned());
    let answer = match path {
        "" => Ok(http::page(shown.matrix().as_str())),
        "places" => Ok(http::json(&shown.places())),
        _ => match [number("pair-"), number("record-"), number("report-")] {
            [Some(pair), ..] => {
                let page = usize::try_from(pair).ok().and_then(|pair| shown.pair(pair));
                page.map_or_else(not_found, |page| Ok(http::page(page.as_str())))
            }
            [_, Some(test), _] => record(file, test)
                .map(|record| record.map_or(http::NOT_FOUND.to_owned(), |json| http::json(&json))),
            [.., Some(test)] => report(&seen.now, file, test)
                .map(|page| page.map_or(http::NOT_FOUND.to_owned(), |page| http::page(&page))),
            _ => not_found(),
        },
    };
    answer.unwrap_or_else(|error| failed(&format!("{}: {}", error.what, error.why)))
}

/// A number as our links have it.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The report of a test, as `linerate report` makes it of its record; none where there is no record.
fn report(now: &FleetNow, file: &Place, number: u64) -> Result<Option<String>, ErrorRecord> {
    let Some(json) = record(file, number)? else { return Ok(None) };
    let of = |test: &&linerate_model::fleet_now::FleetTest| {
        test.end.as_ref().is_some_and(|end| end.number == number)
    };
    let test = now.tests.iter().find(of);
    let pair = test.and_then(|test| now.document.pairs.get(test.pair).zip(Some(test)));
    let name = pair.map_or_else(
        || format!("test {number}"),
        |(pair, test)| format!("{} -> {}, time {}", pair.from, pair.to, test.time),
    );
    let failed = |why: String| {
        let what = format!("cannot report on {name}");
        ErrorRecord::new(ErrorKind::Report, what, why, &[])
    };
    let mut document: Value = serde_json::from_str(&json).map_err(|e| failed(e.to_string()))?;
    if let Some(record) = document.as_object_mut() {
        record.insert("label".to_owned(), Value::from(name.as_str()));
    }
    let mut input = Input::default();
    input.read(&name, document.to_string().as_bytes());
    let view = View::new(&input, &format!("linerate fleet serve {file}"));
    let html = format::by_name("html").ok_or_else(|| failed("there are no pages".to_owned()))?;
    let page = (html.render)(&view, &Look::default()).map_err(failed)?;
    String::from_utf8(page).map(Some).map_err(|e| failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn answers_that_nobody_waits_for_are_no_more_than_there_is_room_for() {
        // One thread for all of them: what was begun has been made before what begins last.
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build();
        let runtime = runtime.unwrap();
        let now = Arc::new(linerate_testkit::fleet::now(&["a", "b"], 1, |_, _, _| None));
        let newest = Newest(Arc::new(Mutex::new(Arc::new(Seen { now, look: 1, fault: None }))));
        let room = Arc::new(Semaphore::new(MOST_MADE));
        let (gate, made) = (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)));
        let shut = gate.lock().unwrap();
        runtime.block_on(async {
            for _ in 0..100 {
                let (gate, made) = (Arc::clone(&gate), Arc::clone(&made));
                let answer = whole(newest.clone(), Arc::clone(&room), move |_| {
                    drop(gate.lock());
                    made.fetch_add(1, Ordering::SeqCst);
                    String::new()
                });
                tokio::select! {
                    biased;
                    _ = answer => panic!("the gate is shut"),
                    () = std::future::ready(()) => {}
                }
            }
        });
        drop(shut);
        runtime.block_on(async { tokio::task::spawn_blocking(|| ()).await }).unwrap();
        assert_eq!(made.load(Ordering::SeqCst), MOST_MADE);
        assert_eq!(room.available_permits(), MOST_MADE);
    }
}
