//! Hosts measured with each other: has one host of each pair test with the other, round by round, from here and
//! without a service between. Each host runs `linerate serve`; the client's end of a test is run by the host's
//! agent, and nothing of the data comes by this machine.

mod followed;
mod keep;
mod measure;
mod results;
mod run;
mod schedule;
mod test;
#[cfg(test)]
mod tests;

use std::sync::mpsc::channel;
use std::time::Duration;

use linerate_fleet::matrix::Cell;
use linerate_fleet::plan::{Fleet, Pair};
use linerate_model::fleet::{FleetChange, FleetDocument, FleetNotice};
use linerate_model::record::{ErrorRecord, RunRecord};
use linerate_model::setting::Setting;
use linerate_runner::agent::{Access, HostAgent, Remote};
use linerate_runner::signals::Stop;

pub use self::followed::{Followed, record};
pub use self::keep::{Keep, audit, end, is_kept, is_under_way, results};
use self::measure::Came;
use self::run::Run;
pub use self::schedule::{Scheduled, schedule};
use self::test::Wanted;
use crate::Clock;

/// What a test may take beyond its time: connecting, its greeting, its last reports.
const SETUP: Duration = Duration::from_secs(20);
/// A host that was lost may be at its test for as long: it ends it itself when it has heard nothing of the controller
/// for 15 s, which it looks for once a second.
const GUARD: Duration = Duration::from_secs(20);
/// Ctrl-C and leases that end are looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A place is asked this often whether the end of a run was asked for there, and whether it has come.
const ASK_EVERY: Duration = Duration::from_millis(500);
const NO_TURN: &str = "its turn did not come";
const NO_ANSWER: &str = "no answer came in its time";

/// What is asked for.
pub struct Asked {
    /// The hosts, and what they share.
    pub fleet: Fleet,
    /// Which of them are measured with each other.
    pub pairs: Vec<Pair>,
    /// How each host is reached, in the order of the fleet's.
    pub hosts: Vec<Access>,
    /// The test as on the command line, without a host: `tcp -t 5s`.
    pub test: Vec<String>,
    /// What is set on both hosts of a test while it lasts.
    pub set: Vec<Setting>,
    /// The figure that is kept of each test; that of its kind where nothing is said.
    pub metric: Option<String>,
    /// How often a test without a result is tried again.
    pub retries: u32,
    /// How often every pair is measured, one time after the other; at least once, and 0 in a schedule.
    pub times: u32,
    /// Where results are kept, each before the next test of its hosts begins.
    pub keep: Option<Keep>,
    /// The command line.
    pub command: Vec<String>,
}

/// How it goes.
pub enum Event<'a> {
    /// What the user should know.
    Note(&'a str),
    /// All pairs are measured once more.
    Time {
        /// From 1.
        number: u32,
        /// How often in all.
        of: u32,
    },
    /// One time of a schedule is over.
    Over {
        /// From 1.
        number: u32,
        /// When it began, RFC 3339.
        begun: &'a str,
        /// How many pairs have a figure.
        measured: usize,
        /// Of so many.
        of: usize,
    },
    /// The level of a pair has changed.
    Changed {
        /// How.
        change: &'a FleetChange,
        /// The unit of its levels.
        unit: &'a str,
    },
    /// A test has ended.
    Ended {
        /// The host that was the client.
        from: &'a str,
        /// The host whose server answered.
        to: &'a str,
        /// Its place among the pairs that are measured, those of earlier times before it.
        number: usize,
        /// What came of it.
        cell: &'a Cell,
        /// The unit of a value.
        unit: &'a str,
        /// Whole, if there is one.
        record: Option<&'a RunRecord>,
    },
}

/// To whom changes are reported.
pub struct Webhook<'a> {
    /// The address.
    pub to: &'a str,
    /// Tells, or says why it could not.
    pub post: &'a mut dyn FnMut(&FleetNotice) -> Result<(), String>,
}

/// How hosts are reached. A test of a run is its turn, `RUN.SLOT.ATTEMPT`: of a run that was gone on with the same
/// words are the same test.
pub trait Reach: Sync {
    /// A run begins, or goes on.
    ///
    /// # Errors
    /// Why it cannot.
    fn begin(&self, _run: &str) -> Result<(), ErrorRecord> {
        Ok(())
    }

    /// Takes a host over.
    ///
    /// # Errors
    /// Why it cannot be reached, or lets nobody control it.
    fn connect(&self, access: &Access, stop: &Stop) -> Result<Box<dyn HostAgent>, ErrorRecord>;

    /// What came of a turn with this host as the client, which was under way when linerate ended; nothing while it is not
    /// known.
    fn came(&self, _turn: &str, _client: &str) -> Option<Result<RunRecord, ErrorRecord>> {
        None
    }

    /// What came of a turn is kept for good, or is of no use any more.
    fn kept(&self, _turn: &str) {}

    /// A turn has ended without a record, and its pair is tried again now, or no more. What still comes of it is of no use.
    fn given_up(&self, turn: &str) {
        self.kept(turn);
    }

    /// Slots below this are over, or deleted: nobody asks for anything of them any more.
    fn passed(&self, _below: u64) {}
}

impl<F> Reach for F
where
    F: Fn(&Access, &Stop) -> Result<Box<dyn HostAgent>, ErrorRecord> + Sync,
{
    fn connect(&self, access: &Access, stop: &Stop) -> Result<Box<dyn HostAgent>, ErrorRecord> {
        self(access, stop)
    }
}

/// By the network.
///
/// # Errors
/// Why it cannot be reached, or lets nobody control it.
pub fn by_network(access: &Access, stop: &Stop) -> Result<Box<dyn HostAgent>, ErrorRecord> {
    Ok(Box::new(Remote::connect_until(access, stop)?))
}

/// How long each test is, warm-up included.
///
/// # Errors
/// When the test makes no sense between hosts.
pub fn time_of_test(asked: &Asked) -> Result<Duration, ErrorRecord> {
    Wanted::of(asked).map(|wanted| wanted.time)
}

/// Measures every pair as often as is asked for, as far as can be.
///
/// # Errors
/// When the test makes no sense between hosts, the file of results cannot be used, or the run cannot begin: nothing was
/// sent then. When a result cannot be kept, which ends all.
pub fn run(
    asked: &Asked,
    reach: &dyn Reach,
    clock: &dyn Clock,
    stop: &Stop,
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<FleetDocument, ErrorRecord> {
    let wanted = Wanted::of(asked)?;
    let mut run = Run::new(asked, &wanted, clock, reach)?;
    for note in &wanted.notes {
        on_event(&Event::Note(note));
    }
    std::thread::scope(|scope| {
        let (done, came) = channel::<Came>();
        for time in run.results.deleted().times..asked.times as usize {
            run.begin(time, on_event);
            run.measure_all(scope, (&done, &came), stop, on_event);
            if stop.seen() || run.failed.is_some() {
                break;
            }
        }
    });
    match run.failed {
        Some(error) => Err(error),
        None => {
            let interrupted = stop.seen() && !run.results.complete();
            Ok(run.results.document(&run.head, interrupted))
        }
    }
}
