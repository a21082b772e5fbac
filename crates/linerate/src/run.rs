//! Runs one test and shows it.

use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use linerate_ask::Asked;
use linerate_ask::common::Show;
use linerate_drive::keep::SavedFile;
use linerate_model::exit::Exit;
use linerate_model::record::{ErrorRecord, Interval, RunRecord, Status};
use linerate_report::error;
use linerate_report::run::json::{self, JsonLines};
use linerate_report::run::live::LiveText;
use linerate_runner::client::Request;
use linerate_runner::clock::Stopwatch;
use linerate_runner::controls::Controls;
use linerate_runner::signals::Stop;
use linerate_session::observer::Observer;

use crate::output::{self, Look, Output};
use crate::watch::running::Running;
use crate::web::Web;
use linerate_watch::web::page::Html;

/// Runs the test to its end and shows it while it runs.
pub fn run(asked: Asked, show: Show, look: Look) -> Result<Exit, ErrorRecord> {
    let kept = asked.save.as_deref().map(SavedFile::new).transpose()?;
    let mut request = Request { command: output::command(), ..asked.request };
    let stop = output::stop_at_signals()?;
    // Dropped last: whoever reads the page is waited for when all else is said.
    let mut page = show.web.map(|at| Web::bind(at, &Html::of_test())).transpose()?;
    let mut screen = Screen::new(show, look, stop.clone());
    let at = page.as_ref().map(Web::words);
    for note in at.iter().chain(&asked.notes) {
        screen.note(note);
    }
    if let Some(page) = &mut page {
        page.begin()?;
    }
    let mut running = show.watch.then(|| begin_watching(&mut request, &mut screen, look)).flatten();
    at.iter().for_each(|at| running.note(at));
    if let (Some(_), Some(page)) = (&running, &mut page) {
        page.leave_verdict();
    }
    let mut all = ((running, page), screen);
    let record = linerate_runner::run(&request, &mut all, &stop);
    let ((running, mut page), mut screen) = all;
    if let Some(mut running) = running {
        screen.let_go(running.leave());
    }
    screen.end(&record);
    page.end(&record);
    let kept = kept.map_or(Ok(()), |kept| kept.keep(json::document(&record)));
    if let Some(found) = &record.error
        && record.status != Status::Complete
        && !screen.closed
    {
        let paint = look.beside();
        // On a terminal the answer has said already why a test is partial, and stays the last word.
        let seen = screen.output == Output::Text
            && record.status != Status::Failed
            && stdout().is_terminal()
            && stderr().is_terminal();
        let text = if seen { error::hints(found, paint) } else { error::text(found, paint) };
        let _ = stderr().write_all(text.as_bytes());
    }
    kept?;
    match screen.failure {
        Some(why) => Err(output::failed(&why, &[])),
        // Whoever read the output had enough of it, and that is their right.
        None if screen.closed => Ok(Exit::Complete),
        None => Ok(Exit::of(&record)),
    }
}

/// Gives the terminal to a screen of the test while it runs; what lasts is shown when it is over. Without a terminal its
/// rows come as ever.
fn begin_watching(request: &mut Request, screen: &mut Screen, look: Look) -> Option<Running> {
    if screen.output == Output::JsonLines && stdout().is_terminal() {
        screen.note("--watch shows no screen here: the JSON lines have the terminal");
        return None;
    }
    let controls = Controls::default();
    request.controls = Some(controls.clone());
    match Running::begin(controls, &screen.stop, look.beside().colour) {
        Ok(running) => {
            screen.held = true;
            Some(running)
        }
        Err(why) => {
            screen.note(&format!("--watch shows no screen here: {why}"));
            None
        }
    }
}

type Text = LiveText<Box<dyn Write + Send>, io::Stderr>;
type SharedText = Arc<Mutex<Text>>;

/// How often the status line moves.
const TICK: Duration = Duration::from_secs(1);

/// A thread that moves the status line while no interval ends. Dropping it ends the thread.
struct Clock {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    /// None where the system gives no thread: then the line moves with the intervals only.
    fn start(text: &SharedText) -> Option<Self> {
        let (stop, stopped) = mpsc::channel();
        let text = Arc::clone(text);
        let start = Stopwatch::start();
        let run = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let elapsed = start.elapsed().as_secs_f64();
                text.lock().unwrap_or_else(PoisonError::into_inner).tick(elapsed);
            }
        };
        let thread = thread::Builder::new().name("status".into()).spawn(run).ok()?;
        Some(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Shows a test in the form that was asked for.
struct Screen {
    /// The table, or in the JSON forms only the progress beside it.
    text: SharedText,
    /// Moves the status line from the start on.
    clock: Option<Clock>,
    lines: JsonLines<io::Stdout>,
    output: Output,
    /// Standard output takes no more.
    closed: bool,
    /// It failed for another reason than that its reader left.
    failure: Option<io::Error>,
    ended: bool,
    /// Another screen has the terminal: rows and notes wait for the end.
    held: bool,
    /// Those that wait.
    notes: Vec<String>,
    stop: Stop,
}

impl Screen {
    fn new(show: Show, look: Look, stop: Stop) -> Self {
        let output = show.output.into();
        let out: Box<dyn Write + Send> = match output {
            Output::Text => Box::new(stdout()),
            Output::Json | Output::JsonLines => Box::new(io::sink()),
        };
        let text = LiveText::new(out, stderr(), look.layout(), output::progress());
        Self {
            text: Arc::new(Mutex::new(text.detail(output::detail(show)))),
            clock: None,
            lines: JsonLines::new(stdout()),
            output,
            closed: false,
            failure: None,
            ended: false,
            held: false,
            notes: Vec::new(),
            stop,
        }
    }

    fn text(&self) -> MutexGuard<'_, Text> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The terminal is free again.
    fn let_go(&mut self, left: io::Result<()>) {
        self.held = false;
        if let Err(why) = left {
            self.notes.push(format!("the screen of --watch ended early: {why}"));
        }
        for note in std::mem::take(&mut self.notes) {
            self.note(&note);
        }
    }

    /// Without a reader the test has no purpose: it is ended as by Ctrl-C, so that the server
    /// knows.
    fn check(&mut self, written: io::Result<()>) {
        let Err(error) = written else { return };
        if self.closed {
            return;
        }
        self.closed = true;
        if error.kind() != ErrorKind::BrokenPipe {
            self.failure = Some(error);
        }
        if !self.ended {
            self.stop.now();
        }
    }
}

impl Observer for Screen {
    fn start(&mut self, record: &RunRecord) {
        if self.closed {
            return;
        }
        let mut written = if self.held { Ok(()) } else { self.text().start(record) };
        if output::progress() && !self.held {
            self.clock = Clock::start(&self.text);
        }
        if self.output == Output::JsonLines {
            written = written.and(self.lines.start(record));
        }
        self.check(written);
    }

    fn interval(&mut self, interval: &Interval) {
        if self.closed {
            return;
        }
        let mut written = if self.held { Ok(()) } else { self.text().interval(interval) };
        if self.output == Output::JsonLines {
            written = written.and(self.lines.interval(interval));
        }
        self.check(written);
    }

    fn note(&mut self, text: &str) {
        if self.held {
            self.notes.push(text.to_owned());
        } else {
            self.text().note(text);
        }
    }

    fn end(&mut self, record: &RunRecord) {
        // Reported by the runner and once more by `run`, which cannot know whether it was.
        if self.ended || self.closed || self.held {
            return;
        }
        self.ended = true;
        self.clock = None;
        let mut written = self.text().end(record);
        written = written.and_then(|()| match self.output {
            Output::Text => Ok(()),
            Output::Json => {
                let text = json::document(record)?;
                stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush())
            }
            Output::JsonLines => self.lines.end(record),
        });
        self.check(written);
    }
}
