//! Runs experiments: a sweep, a search, a tuning, a campaign, hosts with each other. Each is given what the user asks for, an
//! [`Env`] to run it with, and a [`Watcher`] for its progress; it comes back with its document.
//!
//! Nothing here prints. Tests, hosts and time come through traits, so that a whole experiment can
//! be run with made-up ones (`tests/`). All of it waits in the thread that calls: tests of one
//! experiment never overlap, and the runner has threads of its own.
//!
//! ```
//! use std::sync::Mutex;
//! use std::time::Duration;
//!
//! use linerate_drive::Clock;
//!
//! /// Under this one an experiment's pauses pass at once.
//! #[derive(Default)]
//! struct MadeUp(Mutex<Duration>);
//!
//! impl Clock for MadeUp {
//!     fn elapsed(&self) -> Duration {
//!         *self.0.lock().expect("nothing fails with it")
//!     }
//!     fn date(&self) -> String {
//!         "2026-01-05T12:00:00Z".into()
//!     }
//!     fn sleep(&self, time: Duration) {
//!         *self.0.lock().expect("nothing fails with it") += time;
//!     }
//! }
//!
//! let clock = MadeUp::default();
//! clock.sleep(Duration::from_secs(86_400));
//! assert_eq!(clock.elapsed(), Duration::from_secs(86_400));
//! ```

#![forbid(unsafe_code)]

pub mod campaign;
pub mod doctor;
pub mod fleet;
pub mod keep;
pub mod profile;
pub mod search;
pub mod sweep;
pub mod trial;
pub mod tune;

use std::time::Duration;

use linerate_model::clean::clean_json;
use linerate_model::record::RunRecord;
use linerate_runner::client::Request;
use linerate_runner::clock::{self, Stopwatch};
use linerate_runner::signals::Stop;
use linerate_session::observer::Observer;

/// Runs one test.
pub trait Executor {
    /// To its end, or until `stop` ends it early. A test that fails is a record that says so.
    fn run(&mut self, request: &Request, observer: &mut dyn Observer, stop: &Stop) -> RunRecord;
}

/// From this host, by the runner.
#[derive(Debug, Clone, Copy, Default)]
pub struct FromHere;

impl Executor for FromHere {
    fn run(&mut self, request: &Request, observer: &mut dyn Observer, stop: &Stop) -> RunRecord {
        linerate_runner::run(request, observer, stop)
    }
}

/// Time, as experiments use it.
pub trait Clock: Sync {
    /// Since some moment that stays the same.
    fn elapsed(&self) -> Duration;
    /// The date, RFC 3339 in UTC.
    fn date(&self) -> String;
    /// Waits.
    fn sleep(&self, time: Duration);
}

/// That of this host.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock(Stopwatch);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Stopwatch::start())
    }
}

impl Clock for SystemClock {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
    fn date(&self) -> String {
        clock::wall().to_string()
    }
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// What an experiment is run with.
pub struct Env<'a> {
    /// Runs its tests.
    pub executor: &'a mut dyn Executor,
    /// Gives the time.
    pub clock: &'a dyn Clock,
    /// Ends it early, with what is known by then.
    pub stop: Stop,
    /// Sees how it goes.
    pub watcher: &'a mut dyn Watcher,
}

/// Sees how an experiment goes: its own events, and as an [`Observer`] those of the test under way.
pub trait Watcher: Observer {
    /// Of a sweep.
    fn sweep(&mut self, _event: &sweep::Event<'_>) {}
    /// Of a search.
    fn search(&mut self, _event: &search::Event<'_>) {}
    /// Of a tuning.
    fn tune(&mut self, _event: &tune::Event<'_>) {}
    /// Of a campaign.
    fn campaign(&mut self, _event: &campaign::Event<'_>) {}
}

impl Watcher for () {}

/// A document for a file: indented, with a line end, harmless on a terminal.
pub(crate) fn document(document: &impl serde::Serialize) -> std::io::Result<String> {
    Ok(format!("{}\n", clean_json(&serde_json::to_string_pretty(document)?)))
}
