//! A sweep: runs the trials its controller asks for, keeps what is known.

mod keep;

use std::path::Path;

use linerate_ask::sweep::{Grid, Open, SweepArgs};
use linerate_ask::usage;
use linerate_experiment::doubts;
use linerate_experiment::sweep::{self, Job, Sweep};
use linerate_experiment::trial::Trial;
use linerate_model::host::HostFacts;
use linerate_model::plan::{IpVersion, Traffic, Way};
use linerate_model::record::{
    ErrorKind, ErrorRecord, FORMAT, PlanRecord, ProgramFacts, RunRecord, Status,
};
use linerate_model::sweep::{SweepDocument, SweepPlan, Variable};
use linerate_model::units::{BitRate, DatagramSize, NANOS_PER_SECOND, Nanos};
use linerate_runner::client::Request;

use crate::trial::{self, Variation};
use crate::{Env, Watcher};
use keep::SweepFolder;

/// What a frame on Ethernet takes beside its payload of IP: header, check, preamble and gap.
const ETHERNET_BYTES: u64 = 14 + 4 + 8 + 12;
/// The first look at a host or path, where the grid's end depends on it.
const LOOK: Nanos = Nanos::from_millis(500);

/// A seed by chance: the random state that every hash map gets.
pub(crate) fn chance() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // Short enough to be typed again.
    std::collections::hash_map::RandomState::new().build_hasher().finish() % 1_000_000
}

/// The end of the grid that only a first look can show. Both directions have the same values, so rates
/// go up to what the faster of the two senders reaches, and sizes to what fits both ways.
fn looks(
    env: &mut Env<'_>,
    request: &Request,
    plan: &SweepPlan,
    grid: &Grid,
    open: Open,
) -> Result<u64, ErrorRecord> {
    let mut ends = Vec::with_capacity(plan.directions.len());
    for way in &plan.directions {
        ends.push(look(env, request, plan, grid, open, *way)?);
    }
    let end = if open == Open::PathMtu { ends.iter().min() } else { ends.iter().max() };
    Ok(end.copied().unwrap_or(0))
}

/// The rate that sends one datagram in the time of a look: of the largest size, where the path decides it.
fn one_datagram_bps(request: &Request) -> u64 {
    let size = match &request.plan.traffic {
        Traffic::Udp(udp) if !request.size_from_mtu => udp.size,
        _ => DatagramSize::MAX,
    };
    (size.bits() * NANOS_PER_SECOND).div_ceil(LOOK.0)
}

/// The same for one direction.
fn look(
    env: &mut Env<'_>,
    request: &Request,
    plan: &SweepPlan,
    grid: &Grid,
    open: Open,
    way: Way,
) -> Result<u64, ErrorRecord> {
    let least = grid.resolve(u64::MAX / 4).ok().and_then(|values| values.first().copied());
    let rate = match open {
        Open::Fastest => None,
        _ if plan.variable == Variable::Rate => least,
        _ => Some(1_000_000),
    };
    // A look is short, and its rate must let a datagram go in it.
    let rate = rate.and_then(|bps| BitRate::new(bps.max(one_datagram_bps(request))));
    let trial = Trial { way, rate, time: LOOK };
    let mut again = || trial::run(env, request, &trial, Variation::default()).map_err(|e| *e);
    let (mut record, mut outcome) = again()?;
    // How fast it can send shows only in a whole test; all else shows in any.
    if open == Open::Fastest && outcome.void {
        (record, outcome) = again()?;
        if outcome.void {
            return Err(ErrorRecord::new(
                ErrorKind::Unable,
                "cannot find how fast the sender is",
                outcome.invalid.unwrap_or_else(|| "no look was a whole test".to_owned()),
                &["give the last rate: --rates 1M..10G"],
            ));
        }
    }
    let agreed = record.agreed.as_ref().unwrap_or(&record.asked);
    let size = u64::from(agreed.datagram_bytes.unwrap_or(0));
    match open {
        Open::Known => Ok(0),
        Open::PathMtu => Ok(size),
        Open::Fastest => Ok(outcome.sent_bps as u64),
        Open::LineRate => {
            let sender =
                if way == Way::Forward { Some(&record.client) } else { record.server.as_ref() };
            let nic = sender.and_then(|host| host.nic.as_ref());
            let speed = nic.and_then(|nic| nic.speed_mbps).filter(|mbps| *mbps > 0);
            let Some(mbps) = speed else {
                let name = nic.map_or("the interface", |nic| &nic.name);
                return Err(usage::error(
                    "cannot sweep up to the line rate",
                    format!("{name} reports no speed"),
                    &["give the last rate: --rates 1M..10G", "--rates 1M..max"],
                ));
            };
            let ip = if agreed.ip == Some(6) { IpVersion::V6 } else { IpVersion::V4 };
            let frame = size + u64::from(ip.udp_overhead()) + ETHERNET_BYTES;
            Ok((u128::from(mbps) * 1_000_000 * u128::from(size) / u128::from(frame.max(1))) as u64)
        }
    }
}

fn blank(request: &Request, plan: &SweepPlan) -> SweepDocument {
    let (id, started) = linerate_runner::client::stamp();
    SweepDocument {
        format: FORMAT,
        kind: "sweep".into(),
        id,
        started,
        linerate: ProgramFacts { version: env!("CARGO_PKG_VERSION").into() },
        command: request.command.clone(),
        label: request.label.clone(),
        title: request.title.clone(),
        target: request.target.name().map(str::to_owned),
        sweep: plan.clone(),
        plan: None,
        client: None,
        server: None,
        points: Vec::new(),
        regimes: Vec::new(),
        bends: Vec::new(),
        trials: Vec::new(),
        because: Vec::new(),
        advice: Vec::new(),
        seconds: 0.0,
        doubts: Vec::new(),
        status: Status::Complete,
        error: None,
    }
}

/// How a sweep goes.
#[derive(Debug)]
pub enum Event<'a> {
    /// Its values are known.
    Started(&'a Sweep),
    /// A trial begins.
    Trial(&'a Job, &'a Sweep),
    /// It is over: the last of the sweep's trials.
    Ended(&'a Sweep),
    /// The results cannot be written; it goes on without.
    Unkept(&'a ErrorRecord),
}

/// A sweep on its way.
pub struct Course {
    request: Request,
    /// What its values are made of, until they are chosen.
    grid: Option<Grid>,
    sweep: Sweep,
    document: SweepDocument,
    keeper: Option<SweepFolder>,
}

/// What came of it.
#[derive(Debug)]
pub struct Swept {
    /// The result, also of a sweep that was cut short.
    pub document: SweepDocument,
    /// The directory of `--save`.
    pub place: Option<String>,
    /// Why not all of it is kept there.
    pub unkept: Option<ErrorRecord>,
}

impl Course {
    /// What is asked for by `command`, or where an earlier sweep ended.
    ///
    /// # Errors
    /// What makes no sense, and what cannot be kept or resumed.
    pub fn new(args: &SweepArgs, command: Vec<String>) -> Result<Self, ErrorRecord> {
        if let Some(path) = &args.resume {
            return Self::resume(args, path);
        }
        let asked = args.asked()?;
        let mut plan = asked.plan;
        if args.chooses_seed() {
            plan.seed = chance();
        }
        // Before any packet: a sweep whose result cannot be kept would be for nothing.
        let keeper = args.save.as_deref().map(|dir| SweepFolder::new(dir, None)).transpose()?;
        let request = Request { command, ..asked.test.request };
        let document = blank(&request, &plan);
        let (grid, sweep) = (Some(asked.grid), Sweep::new(plan));
        Ok(Self { request, grid, sweep, document, keeper })
    }

    fn resume(args: &SweepArgs, path: &Path) -> Result<Self, ErrorRecord> {
        let (document, from) = keep::read(path)?;
        let first = keep::arguments(&document, &from)?;
        let asked = first.asked()?;
        let known = document.trials.len();
        let sweep =
            Sweep::replay(document.sweep.clone(), document.trials.clone()).map_err(|other| {
                keep::unusable(
                    &from,
                    &format!("trial {} of {known} is not one that its plan leads to", other.trial),
                )
            })?;
        // What was kept in a directory goes on there, wherever that has come to.
        let own = from.parent().filter(|_| from.ends_with(keep::SWEEP));
        let own = own.map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
        let save = first.save.as_deref().map(|save| own.unwrap_or(save));
        let save = args.save.as_deref().or(save);
        let keeper = save.map(|dir| SweepFolder::new(dir, Some(&document.id))).transpose()?;
        let mut request = asked.test.request;
        request.command.clone_from(&document.command);
        let document = SweepDocument { status: Status::Complete, error: None, ..document };
        Ok(Self { request, grid: None, sweep, document, keeper })
    }

    /// The values of the grid, with first looks at the path where they depend on it.
    fn choose(&mut self, env: &mut Env<'_>) -> Result<(), ErrorRecord> {
        let Some(grid) = self.grid.take() else { return Ok(()) };
        let plan = &mut self.document.sweep;
        plan.values = match grid.open {
            Open::Known => grid.resolve(0)?,
            open => grid.resolve(looks(env, &self.request, plan, &grid, open)?)?,
        };
        self.sweep = Sweep::new(plan.clone());
        Ok(())
    }

    /// To its end, or to where it must stop.
    ///
    /// # Errors
    /// What failed in a first look; why nothing at all was measured.
    pub fn run(mut self, env: &mut Env<'_>) -> Result<Swept, ErrorRecord> {
        self.choose(env)?;
        env.watcher.sweep(&Event::Started(&self.sweep));
        let begun = env.clock.elapsed();
        let before = self.document.seconds;
        let mut trouble = None;
        while let Some(job) = self.sweep.next() {
            if env.stop.seen() {
                trouble = Some(interrupted());
                break;
            }
            env.watcher.sweep(&Event::Trial(&job, &self.sweep));
            match self.trial(env, &job) {
                Ok(record) => {
                    self.learn(&record);
                    let spent = env.clock.elapsed().saturating_sub(begun);
                    self.document.seconds = before + spent.as_secs_f64();
                    self.keep(&record, env.watcher);
                    env.watcher.sweep(&Event::Ended(&self.sweep));
                }
                Err(error) => {
                    trouble = Some(*error);
                    break;
                }
            }
        }
        if let Some(error) = &trouble
            && self.sweep.trials().is_empty()
        {
            // Nothing was measured, so there is nothing to show but why.
            return Err(error.clone());
        }
        self.fill(trouble);
        let Self { document, mut keeper, .. } = self;
        if let Some(keeper) = &mut keeper {
            keeper.sweep(&document);
        }
        let place = keeper.as_ref().map(SweepFolder::place);
        Ok(Swept { document, place, unkept: keeper.and_then(|keeper| keeper.failure) })
    }

    fn trial(&mut self, env: &mut Env<'_>, job: &Job) -> Result<RunRecord, Box<ErrorRecord>> {
        let plan = self.sweep.plan();
        let trial = Trial {
            way: job.way,
            rate: job.rate_bps(plan).and_then(BitRate::new),
            time: Nanos((plan.trial_s * 1e9).round() as u64),
        };
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let mut variation = Variation::default();
        match (plan.variable, job.value) {
            (Variable::Size, Some(size)) => variation.size = DatagramSize::new(narrow(size)),
            (Variable::Streams, Some(n)) => variation.streams = u16::try_from(n).ok(),
            (Variable::Window, Some(bytes)) => variation.window = Some(narrow(bytes)),
            _ => {}
        }
        let (record, outcome) = trial::run(env, &self.request, &trial, variation)?;
        self.sweep.take(outcome, record.doubts.clone());
        Ok(record)
    }

    /// What the runs say of the hosts and of themselves.
    fn learn(&mut self, record: &RunRecord) {
        let document = &mut self.document;
        let first = |known: &mut Option<HostFacts>, now: Option<&HostFacts>| {
            if known.is_none() {
                *known = now.cloned();
            }
        };
        first(&mut document.client, Some(&record.client));
        first(&mut document.server, record.server.as_ref());
        if document.plan.is_none() {
            let shared = record.agreed.as_ref().unwrap_or(&record.asked);
            document.plan = Some(PlanRecord { rate_bps: None, ..shared.clone() });
        }
    }

    fn keep(&mut self, record: &RunRecord, watcher: &mut dyn Watcher) {
        if self.keeper.is_none() {
            return;
        }
        self.fill(Some(unfinished()));
        if let Some(keeper) = &mut self.keeper
            && !(keeper.run(record) && keeper.sweep(&self.document))
            && let Some(why) = &keeper.failure
        {
            watcher.sweep(&Event::Unkept(why));
        }
    }

    /// The document as of now.
    fn fill(&mut self, trouble: Option<ErrorRecord>) {
        let (because, advice) = sweep::conclusion(&self.sweep);
        let document = &mut self.document;
        document.points = self.sweep.points();
        document.regimes = self.sweep.regimes();
        document.bends = self.sweep.bends();
        document.trials = self.sweep.trials().to_vec();
        document.doubts = doubts::summed(document.trials.iter().map(|t| t.doubts.as_slice()));
        document.because = because;
        // What was cut short is to be finished first.
        document.advice = if trouble.is_some() { Vec::new() } else { advice };
        document.status = if trouble.is_some() { Status::Partial } else { Status::Complete };
        document.error = trouble;
    }
}

fn interrupted() -> ErrorRecord {
    ErrorRecord::new(ErrorKind::Interrupted, "the sweep was ended early", "Ctrl-C or SIGTERM", &[])
}

/// What stands in sweep.json while the sweep runs, and for ever if it is killed.
fn unfinished() -> ErrorRecord {
    ErrorRecord::new(
        ErrorKind::Unfinished,
        "the sweep was not at its end when this was written",
        "it was still running, or it was killed",
        &[],
    )
}

#[cfg(test)]
mod tests {
    use linerate_ask::Measure;
    use linerate_model::record::{Doubt, DoubtKind};
    use linerate_runner::signals::Stop;
    use linerate_session::observer::Observer;
    use linerate_testkit::records;

    use super::*;
    use crate::{Executor, SystemClock};

    /// The link is lost in so many tests, and then no more; with the number of all.
    struct Cut(u32, u32);

    impl Executor for Cut {
        fn run(&mut self, _: &Request, _: &mut dyn Observer, _: &Stop) -> RunRecord {
            let cut = Doubt::new(DoubtKind::LinkLost, "no carrier");
            let doubts = if self.1 < self.0 { vec![cut] } else { Vec::new() };
            self.1 += 1;
            RunRecord { doubts, status: Status::Complete, ..records::udp_receiver_drops() }
        }
    }

    #[test]
    fn a_look_without_its_link_is_made_once_more_and_ends_no_grid() {
        let words = ["linerate", "sweep", "h", "--rates", "1M..max"].map(str::to_owned);
        for (cut, runs, found) in [(0, 1, true), (1, 2, true), (2, 2, false)] {
            let Ok(Measure::Sweep(args)) = Measure::from_words(&words) else { panic!("{words:?}") };
            let (mut executor, clock) = (Cut(cut, 0), SystemClock::default());
            let mut env = Env {
                executor: &mut executor,
                clock: &clock,
                stop: Stop::default(),
                watcher: &mut (),
            };
            let mut course = Course::new(&args, words.to_vec()).unwrap();
            let chosen = course.choose(&mut env);
            assert_eq!((executor.1, chosen.is_ok()), (runs, found), "{chosen:?}");
            let why = chosen.err().map(|error| format!("{}: {}", error.what, error.why));
            let told = "cannot find how fast the sender is: no carrier";
            assert_eq!(why.as_deref(), (!found).then_some(told));
        }
    }
}
