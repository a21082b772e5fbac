//! `linerate watch`, and what it shares with `--watch` of tests.

pub mod running;
pub mod terminal;

use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use clap::Args;
use linerate_ask::{help, usage};
use linerate_drive::keep::SavedFile;
use linerate_host::activity::{ActivityReader, Moment};
use linerate_host::facts::facts;
use linerate_host::roots::Roots;
use linerate_model::activity::HostActivity;
use linerate_model::exit::Exit;
use linerate_model::lines::WatchLine;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::units::Nanos;
use linerate_report::run::json;
use linerate_runner::clock::{self, Stopwatch};
use linerate_runner::signals::Stop;
use linerate_watch::host::HostView;
use linerate_watch::{plain, screen};
use ratatui_core::buffer::Buffer;

use crate::output::{self, Look};
use terminal::{Key, On, Tty};

/// What this host does now: cores, interfaces, drops and interrupts, without a test.
///
/// On a terminal it is a screen that moves, with keys that it names; elsewhere rows come as text. It changes nothing
/// and sends nothing.
#[derive(Debug, Args)]
#[command(after_help = help::watch())]
pub struct WatchArgs {
    /// Time between two looks, 100ms at least.
    #[arg(short, long, value_name = "TIME", default_value = "1s")]
    interval: Nanos,
    /// End after so many looks.
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,
    /// Print one JSON object a line: start, activity …
    #[arg(long)]
    json_lines: bool,
}

/// Reading takes a core of a large host some milliseconds, and its ticks are ten of them.
const LEAST_INTERVAL: Nanos = Nanos(100_000_000);
/// How late a signal is noticed at most.
const LOOK_UP: Duration = Duration::from_millis(100);

/// Shows this host until somebody has seen enough.
pub fn run(args: &WatchArgs, look: Look) -> Result<Exit, ErrorRecord> {
    if args.interval < LEAST_INTERVAL {
        return Err(usage::error(
            format!("cannot use `--interval {}`", args.interval),
            "the kernel counts the time of cores in hundredths of a second",
            &["--interval 100ms"],
        ));
    }
    let stop = output::stop_at_signals()?;
    let looks = Looks::new(args);
    if args.json_lines || !on_terminal() {
        return rows(args, looks, &stop);
    }
    view(looks, look, &stop).map_err(|why| no_terminal(&why))?;
    Ok(Exit::Complete)
}

/// Whether standard output can hold a screen.
fn on_terminal() -> bool {
    stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The screen could not be shown.
fn no_terminal(why: &std::io::Error) -> ErrorRecord {
    let hints = ["without a terminal: linerate watch | cat"];
    ErrorRecord::new(ErrorKind::Output, "cannot show a screen", why.to_string(), &hints)
}

/// Keeps a screen as text in a new file, and says so.
pub fn save(drawn: &Buffer) -> String {
    let text = screen::text(drawn);
    let name = format!("linerate-watch-{}.txt", clock::wall().strftime("%Y%m%dT%H%M%SZ"));
    let kept = SavedFile::new(name.as_ref()).and_then(|file| file.keep(Ok(text)));
    match kept {
        Ok(()) => format!("saved as {name}"),
        Err(why) => format!("{}: {}", why.what, why.why),
    }
}

/// The host's counters, from one look to the next.
struct Looks {
    reader: ActivityReader,
    since: Stopwatch,
    interval: Duration,
    last: Moment,
    /// Looks that are over.
    number: u32,
    most: Option<u64>,
}

impl Looks {
    fn new(args: &WatchArgs) -> Self {
        let mut reader = ActivityReader::at(Roots::host());
        let since = Stopwatch::start();
        let last = reader.read(0);
        let interval = Duration::from_nanos(args.interval.0);
        Self { reader, since, interval, last, number: 0, most: args.count }
    }

    /// Until the next one is due.
    fn left(&self) -> Duration {
        let due = self.interval.saturating_mul(self.number.saturating_add(1));
        due.saturating_sub(self.since.elapsed())
    }

    /// What the host did since the last one, and when that was, if the next one is due.
    fn next(&mut self) -> Option<(HostActivity, jiff::Timestamp)> {
        if !self.left().is_zero() {
            return None;
        }
        let elapsed = self.since.elapsed();
        let now = self.reader.read(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        let activity = now.since(&self.last);
        self.last = now;
        // Looks that were missed, because the process was stopped, are not made up for.
        let whole = elapsed.as_nanos() / self.interval.as_nanos().max(1);
        self.number = u32::try_from(whole).unwrap_or(u32::MAX);
        self.most = self.most.map(|most| most.saturating_sub(1));
        Some((activity, clock::wall()))
    }

    fn over(&self) -> bool {
        self.most == Some(0)
    }
}

/// Rows of text, or of JSON.
fn rows(args: &WatchArgs, mut looks: Looks, stop: &Stop) -> Result<Exit, ErrorRecord> {
    let host = facts(None);
    let line = |line: &WatchLine<'_>| json::line(line);
    let first =
        if args.json_lines { line(&WatchLine::Start { host: &host }) } else { Ok(plain::head()) };
    let mut text = first;
    loop {
        let written = text
            .and_then(|text| stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush()));
        match written {
            // Whoever closed it has read enough.
            Err(why) if why.kind() == std::io::ErrorKind::BrokenPipe => return Ok(Exit::Complete),
            Err(why) => return Err(output::failed(&why, &[])),
            Ok(()) => {}
        }
        let (activity, at) = loop {
            if stop.seen() || looks.over() {
                return Ok(Exit::Complete);
            }
            match looks.next() {
                Some(next) => break next,
                None => std::thread::sleep(looks.left().min(LOOK_UP)),
            }
        };
        let at = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        text = if args.json_lines {
            line(&WatchLine::Activity { at: &at, activity: &activity })
        } else {
            Ok(plain::rows(&activity, &at))
        };
    }
}

/// A screen that moves.
fn view(mut looks: Looks, look: Look, stop: &Stop) -> std::io::Result<()> {
    let colours = linerate_watch::Look { colour: look.layout().paint.colour };
    let mut view = HostView::new(facts(None), looks.interval.as_secs_f64());
    let mut tty = Tty::take(On::Stdout, stop)?;
    while !stop.seen() && !looks.over() {
        if let Some((activity, at)) = looks.next() {
            let at = at.to_zoned(jiff::tz::TimeZone::system());
            view.push(activity, &at.strftime("%H:%M:%S").to_string());
        }
        tty.draw(|buffer| view.draw(buffer, colours))?;
        let Some(key) = tty.key(looks.left().min(LOOK_UP))? else { continue };
        view.say(None);
        match key {
            Key::Quit => break,
            Key::Pause => view.pause(),
            Key::Help => view.toggle_help(),
            Key::Next => view.next_interface(),
            Key::Save => {
                let (columns, rows) = tty.size()?;
                let drawn = screen::draw(columns, rows, |buffer| view.draw(buffer, colours));
                view.say(Some(save(&drawn)));
            }
            Key::Mark | Key::Faster | Key::Slower | Key::Other => {}
        }
    }
    Ok(())
}
