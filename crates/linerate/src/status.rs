//! Rows that stay, and below them one line that moves: on a terminal only.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use linerate_model::record::{Interval, RunRecord};
use linerate_report::live::{self, Live};
use linerate_runner::clock::Stopwatch;
use linerate_session::observer::Observer;

use crate::output;

/// Often enough that nobody takes the line for a still one.
const MOVES_EVERY: Duration = Duration::from_millis(250);
/// Where a terminal does not report its width.
const USUAL_WIDTH: usize = 80;

/// What is under way, and since when.
struct Now {
    live: Live,
    since: Stopwatch,
    /// Its data flows.
    running: Option<Stopwatch>,
}

/// The line, or nothing where standard error is no terminal.
pub struct StatusLine {
    bar: Option<ProgressBar>,
    now: Arc<Mutex<Now>>,
}

impl StatusLine {
    /// Nothing is under way yet, and nothing is shown.
    pub fn new() -> Self {
        let since = Stopwatch::start();
        let now = Arc::new(Mutex::new(Now { live: Live::default(), since, running: None }));
        let bar = output::progress().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let seen = Arc::clone(&now);
            let draw = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
                let now = lock(&seen);
                let running = now.running.map(|begun| begun.elapsed().as_secs_f64());
                let since = now.since.elapsed().as_secs_f64();
                let _ = out.write_str(&live::line(&now.live, since, running, width()));
            };
            let style = ProgressStyle::with_template("{now}");
            bar.set_style(
                style.unwrap_or_else(|_| ProgressStyle::default_spinner()).with_key("now", draw),
            );
            bar
        });
        Self { bar, now }
    }

    /// Another one is under way.
    pub fn begin(&self, live: Live) {
        *lock(&self.now) = Now { live, since: Stopwatch::start(), running: None };
        if let Some(bar) = &self.bar {
            bar.enable_steady_tick(MOVES_EVERY);
            bar.tick();
        }
    }

    /// It cannot be seen when its data begins: from now on it counts as flowing.
    pub fn flows(&self) {
        let mut now = lock(&self.now);
        now.running.get_or_insert_with(Stopwatch::start);
    }

    /// Writes what stays above the line.
    pub fn above<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Whether there is a line.
    pub fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    /// Leaves the screen as it was.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Sees how far the trial under way is.
impl Observer for &StatusLine {
    fn start(&mut self, _record: &RunRecord) {
        self.flows();
    }

    fn interval(&mut self, interval: &Interval) {
        let received = interval.figures.receiver.as_ref().map(|got| got.bits_per_second);
        lock(&self.now).live.now_bps = received;
    }
}

fn lock(now: &Mutex<Now>) -> MutexGuard<'_, Now> {
    now.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Columns of the terminal now, less the one in which many wrap.
fn width() -> usize {
    let columns = terminal_size::terminal_size_of(std::io::stderr()).map(|(w, _)| usize::from(w.0));
    columns.filter(|&width| width > 0).unwrap_or(USUAL_WIDTH).saturating_sub(1)
}
