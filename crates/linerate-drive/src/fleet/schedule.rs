//! All pairs measured again and again, for months: when, what of it is kept, and to whom changes are reported.

use std::cmp::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

use jiff::Timestamp;
use linerate_fleet::schedule::{Due, Every, LATE_S, NoMoments, Schedule, Turn};
use linerate_model::fleet::FleetDocument;
use linerate_model::record::ErrorRecord;
use linerate_runner::signals::Stop;

use super::measure::Came;
use super::run::Run;
use super::test::{Wanted, refused};
use super::{Asked, Event, Reach, Webhook};
use crate::Clock;

/// While a moment is waited for, Ctrl-C and clocks that were set are looked for this often.
const WAKE_EVERY: Duration = Duration::from_millis(500);
/// Why moments were missed between which less passed than the clock on the wall says.
const SLEPT: &str = "this machine slept, or its clock was set";

/// When all pairs are measured, and what becomes of the results. Lengths are in seconds.
pub struct Scheduled {
    /// The moments.
    pub every: Every,
    /// Each of them is later by a part of this.
    pub jitter_s: u64,
    /// Ends after so long; when it is stopped where nothing is said.
    pub for_s: Option<u64>,
    /// Older results are deleted.
    pub keep_for_s: Option<u64>,
}

/// Measures every pair at each of the moments, until it is stopped or its time is over. What is kept is kept in the file
/// of `asked`, which there must be. What was under way when linerate ended is not measured again: its moment is over.
///
/// # Errors
/// As of [`super::run()`], and when the jitter is not shorter than what lies between two moments.
pub fn schedule(
    asked: &Asked,
    scheduled: &Scheduled,
    mut webhook: Option<Webhook<'_>>,
    (reach, clock, stop): (&dyn Reach, &dyn Clock, &Stop),
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<FleetDocument, ErrorRecord> {
    if asked.keep.is_none() {
        return Err(refused("a schedule has a file for its results", &["--keep FILE"]));
    }
    let wanted = Wanted::of(asked)?;
    let moments = |seed| Schedule::new(scheduled.every.clone(), scheduled.jitter_s, seed);
    let jitter =
        |why: NoMoments| refused(&format!("the jitter is too long: {why}"), &["--jitter 1m"]);
    moments(0).map_err(jitter)?;
    let mut run = Run::new(asked, &wanted, clock, reach)?;
    run.recall();
    let schedule = moments(seed(&run.head.id)).map_err(jitter)?;
    for note in &wanted.notes {
        on_event(&Event::Note(note));
    }
    let ends =
        scheduled.for_s.map(|for_s| clock.elapsed().saturating_add(Duration::from_secs(for_s)));
    std::thread::scope(|scope| {
        let (done, came) = channel::<Came>();
        run.say(webhook.as_mut(), on_event);
        let mut last_s = 0;
        while run.failed.is_none()
            && let Some(begun_s) = wait(&schedule, last_s, &mut run, (stop, ends), on_event)
        {
            last_s = begun_s;
            let (from_s, ticks) = (wall_s(clock), clock.elapsed());
            let time = run.results.all_times();
            run.results.make_room(time.saturating_add(1));
            run.begin(time, on_event);
            run.measure_all(scope, (&done, &came), stop, on_event);
            run.over(webhook.as_mut(), on_event);
            if let Some(keep_for_s) = scheduled.keep_for_s {
                let now_s = wall_s(clock);
                let oldest_s = now_s.saturating_sub(keep_for_s);
                run.delete_old(|begun| match seconds(begun) {
                    begun_s if begun_s < oldest_s => Ordering::Less,
                    begun_s if begun_s <= now_s => Ordering::Equal,
                    _ => Ordering::Greater,
                });
            }
            let (now_s, took) = (wall_s(clock), clock.elapsed().saturating_sub(ticks));
            let went_s = now_s.saturating_sub(from_s);
            let was_set = went_s > took.as_secs().saturating_add(LATE_S);
            let why = if was_set { SLEPT } else { "the time before took longer" };
            missed(schedule.between(begun_s, now_s), why, on_event);
        }
    });
    match run.failed {
        Some(error) => Err(error),
        None => Ok(run.results.document(&run.head, false)),
    }
}

/// Another one for each file.
fn seed(id: &str) -> u64 {
    // FNV-1a: of 64 bits, the same in every version.
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    id.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Seconds since 1970 of a date as RFC 3339 has it; 0 of anything else.
fn seconds(date: &str) -> u64 {
    let seconds = date.parse::<Timestamp>().map_or(0, Timestamp::as_second);
    u64::try_from(seconds).unwrap_or(0)
}

fn wall_s(clock: &dyn Clock) -> u64 {
    seconds(&clock.date())
}

fn missed(count: usize, why: &str, on_event: &mut dyn FnMut(&Event<'_>)) {
    let times = if count == 1 { "1 time was" } else { &format!("{count} times were") };
    if count > 0 {
        on_event(&Event::Note(&format!("{times} missed: {why}")));
    }
}

/// Waits for the next moment after the last, and returns it; `None` when all is over.
fn wait(
    schedule: &Schedule,
    last_s: u64,
    run: &mut Run<'_>,
    (stop, ends): (&Stop, Option<Duration>),
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Option<u64> {
    let clock = run.clock;
    let next = || {
        let now_s = wall_s(clock);
        Due::new(schedule.next(now_s, last_s), now_s, clock.elapsed().as_secs())
    };
    let mut due = next();
    loop {
        run.look(stop, on_event);
        run.close_left();
        if stop.seen() || ends.is_some_and(|ends| clock.elapsed() >= ends) {
            return None;
        }
        let now_s = wall_s(clock);
        match due.turn(now_s, clock.elapsed().as_secs()) {
            Turn::Wait => clock.sleep(WAKE_EVERY),
            Turn::Begin => return Some(schedule.begun(due, now_s)),
            Turn::Missed => {
                missed(schedule.between(due.at_s().saturating_sub(1), now_s), SLEPT, on_event);
                due = next();
            }
        }
    }
}
