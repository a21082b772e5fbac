//! `--watch`: a test on a screen of its own while it runs.

use std::io::{self, IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use linerate_model::record::{Interval, RunRecord};
use linerate_model::sample::HostSample;
use linerate_runner::controls::Controls;
use linerate_runner::signals::Stop;
use linerate_session::observer::Observer;
use linerate_session::verdict::so_far;
use linerate_watch::test::{TestView, Turn};
use linerate_watch::{Look, screen};

use super::terminal::{Key, On, Tty};
use super::{LOOK_UP, save};

/// A thread that shows a test and takes keys, until [`Running::leave`].
pub struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

struct Shared {
    view: Mutex<TestView>,
    over: AtomicBool,
    controls: Controls,
}

impl Running {
    /// Takes the terminal of standard error, so that standard output is free for what lasts.
    ///
    /// # Errors
    /// There is no terminal, or it cannot be taken.
    pub fn begin(controls: Controls, stop: &Stop, colour: bool) -> io::Result<Self> {
        if !stderr().is_terminal() || std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
            return Err(io::Error::other("standard error is no terminal"));
        }
        let shared =
            Arc::new(Shared { view: Mutex::default(), over: AtomicBool::new(false), controls });
        let tty = Tty::take(On::Stderr, stop)?;
        let seen = Arc::clone(&shared);
        let run = move || seen.show(tty, Look { colour });
        let thread = thread::Builder::new().name("watch".into()).spawn(run)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Gives the terminal back.
    pub fn leave(&mut self) -> io::Result<()> {
        self.shared.over.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(shown)) => shown,
            // What it said of itself stands on the terminal.
            Some(Err(_)) | None => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}

impl Shared {
    fn view(&self) -> MutexGuard<'_, TestView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until the test is over.
    fn show(&self, mut tty: Tty, look: Look) -> io::Result<()> {
        while !self.over.load(Ordering::Relaxed) {
            self.tell_time();
            // Drawn before it is written, so that nobody waits for a terminal.
            let (columns, rows) = tty.size()?;
            let drawn = screen::draw(columns, rows, |buffer| self.view().draw(buffer, look));
            // The terminal may have been made smaller since.
            tty.draw(|buffer| {
                for place in buffer.area.intersection(drawn.area).positions() {
                    if let (Some(cell), Some(new)) = (buffer.cell_mut(place), drawn.cell(place)) {
                        *cell = new.clone();
                    }
                }
            })?;
            let Some(key) = tty.key(LOOK_UP)? else { continue };
            self.view().say(None);
            match key {
                // Whoever read the key has ended the test.
                Key::Quit => self.view().end(),
                Key::Save => {
                    let saved = save(&drawn);
                    self.view().say(Some(saved));
                }
                Key::Mark => {
                    let mark = self.controls.mark();
                    self.view().marked(mark);
                }
                Key::Faster => self.turn(Turn::Up),
                Key::Slower => self.turn(Turn::Down),
                Key::Pause => self.view().pause(),
                Key::Help => self.view().toggle_help(),
                Key::Next | Key::Other => {}
            }
        }
        Ok(())
    }

    /// How far the test is.
    fn tell_time(&self) {
        if let Some(measured_s) = self.controls.measured_s() {
            self.view().elapsed(measured_s);
        }
    }

    fn turn(&self, turn: Turn) {
        self.tell_time();
        if let Some(bps) = self.view().turn(turn) {
            self.controls.turn(bps);
        }
    }
}

impl Observer for Running {
    fn start(&mut self, record: &RunRecord) {
        self.shared.view().start(record);
    }

    fn hosts(&mut self, client: Option<&HostSample>, server: Option<&HostSample>) {
        self.shared.view().hosts(client, server);
    }

    fn interval(&mut self, interval: &Interval) {
        let mut view = self.shared.view();
        view.interval(interval);
        let verdict = view.judged().and_then(|(record, rows, bps)| so_far(record, rows, bps));
        view.judge(verdict);
    }

    fn note(&mut self, text: &str) {
        self.shared.view().say(Some(text.to_owned()));
    }
}
