//! `linerate sweep`: drives the controller, shows its way, keeps what is known.

mod keep;
mod progress;

use std::io::{ErrorKind, Write, stderr, stdout};
use std::time::Instant;

use linerate_experiment::doubts;
use linerate_experiment::sweep::{self, Job, Sweep};
use linerate_experiment::trial::Trial;
use linerate_model::host::HostFacts;
use linerate_model::lines::SweepLine;
use linerate_model::plan::{IpVersion, Traffic, Way};
use linerate_model::record::{ErrorRecord, FORMAT, PlanRecord, ProgramFacts, RunRecord, Status};
use linerate_model::sweep::{SweepDocument, SweepPlan, Variable};
use linerate_model::units::{BitRate, DatagramSize, NANOS_PER_SECOND, Nanos};
use linerate_report::error;
use linerate_report::run::json;
use linerate_report::sweep::text;
use linerate_runner::client::{Request, Target};
use linerate_runner::signals::Interrupts;

use crate::args::Color;
use crate::args::common::OutputArgs;
use crate::args::sweep::{Grid, Open, SweepArgs};
use crate::exit::Exit;
use crate::output::{self, Output};
use crate::status::StatusLine;
use crate::trial::{self, Variation};
use crate::usage;
use keep::Keeper;
use progress::Progress;

/// What a frame on Ethernet takes beside its payload of IP: header, check, preamble and gap.
const ETHERNET_BYTES: u64 = 14 + 4 + 8 + 12;
/// The first look at a host or path, where the grid's end depends on it.
const LOOK: Nanos = Nanos::from_millis(500);

/// Runs the command.
pub fn run(args: &SweepArgs, color: Color) -> Result<Exit, ErrorRecord> {
    match &args.resume {
        None => start(args, color),
        Some(path) => resume(args, path, color),
    }
}

fn start(args: &SweepArgs, color: Color) -> Result<Exit, ErrorRecord> {
    let asked = args.asked()?;
    let mut plan = asked.plan;
    if args.chooses_seed() {
        plan.seed = chance();
    }
    // Before any packet: a sweep whose result cannot be kept would be for nothing.
    let keeper = args.save.as_deref().map(|dir| Keeper::new(dir, None)).transpose()?;
    let interrupts = watch()?;
    let request = asked.test.request;
    plan.values = match asked.grid.open {
        Open::Known => asked.grid.resolve(0)?,
        open => asked.grid.resolve(looks(&request, &plan, &asked.grid, open)?)?,
    };
    let document = blank(&request, &plan);
    Course::new(request, Sweep::new(plan), document, keeper, interrupts).run(args.output, color)
}

fn resume(args: &SweepArgs, path: &std::path::Path, color: Color) -> Result<Exit, ErrorRecord> {
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
    let save = args.save.as_deref().or(first.save.as_deref());
    let keeper = save.map(|dir| Keeper::new(dir, Some(&document.id))).transpose()?;
    let interrupts = watch()?;
    let mut request = asked.test.request;
    request.command.clone_from(&document.command);
    let document = SweepDocument { status: Status::Complete, error: None, ..document };
    Course::new(request, sweep, document, keeper, interrupts).run(args.output, color)
}

fn watch() -> Result<Interrupts, ErrorRecord> {
    Interrupts::watch().map_err(|e| ErrorRecord {
        kind: "unable".into(),
        what: "cannot watch for Ctrl-C".into(),
        why: e.to_string(),
        hints: Vec::new(),
        exit_code: Exit::Failed as u8,
    })
}

/// A seed by chance: the random state that every hash map gets.
fn chance() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // Short enough to be typed again.
    std::collections::hash_map::RandomState::new().build_hasher().finish() % 1_000_000
}

/// The end of the grid that only a first look can tell. Both directions have the same values, so rates
/// go up to what the faster of the two senders reaches, and sizes to what fits both ways.
fn looks(request: &Request, plan: &SweepPlan, grid: &Grid, open: Open) -> Result<u64, ErrorRecord> {
    let mut ends = Vec::with_capacity(plan.directions.len());
    for way in &plan.directions {
        ends.push(look(request, plan, grid, open, *way)?);
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
    let seen = trial::run(request, &Trial { way, rate, time: LOOK }, Variation::default(), &mut ());
    let (record, outcome) = seen.map_err(|error| *error)?;
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
                    format!("{name} tells no speed"),
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
        target: match &request.target {
            Target::Local => None,
            Target::Host { name, .. } | Target::Discard { name, .. } => Some(name.clone()),
        },
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

/// A sweep on its way.
struct Course {
    request: Request,
    sweep: Sweep,
    document: SweepDocument,
    keeper: Option<Keeper>,
    interrupts: Interrupts,
}

impl Course {
    fn new(
        request: Request,
        sweep: Sweep,
        document: SweepDocument,
        keeper: Option<Keeper>,
        interrupts: Interrupts,
    ) -> Self {
        Self { request, sweep, document, keeper, interrupts }
    }

    fn run(mut self, output: OutputArgs, color: Color) -> Result<Exit, ErrorRecord> {
        let output = Output::from(output);
        let mut out = Out { output, color, closed: false, failure: None };
        out.line(&SweepLine::Start { sweep: self.sweep.plan() });
        let layout = (out.output == Output::Text).then(|| output::layout(color));
        let mut progress = Progress::new(layout);
        let begun = Instant::now();
        let before = self.document.seconds;
        let mut trouble = None;
        while let Some(job) = self.sweep.next() {
            if self.interrupts.seen() || out.closed {
                trouble = Some(interrupted());
                break;
            }
            progress.begin(&job, &self.sweep);
            match self.trial(&job, &progress.status) {
                Ok(record) => {
                    self.learn(&record);
                    self.document.seconds = before + begun.elapsed().as_secs_f64();
                    self.keep(&record, &progress);
                    let row = progress.end(&self.sweep);
                    progress.status.above(|| out.write(&row));
                    if let Some(trial) = self.sweep.trials().last() {
                        let (number, left) = (self.sweep.trials().len(), self.sweep.left());
                        out.line(&SweepLine::Trial { number, left, trial });
                    }
                }
                Err(error) => {
                    trouble = Some(*error);
                    break;
                }
            }
        }
        progress.status.clear();
        if out.output == Output::Text && !self.sweep.trials().is_empty() {
            out.write("\n");
        }
        if let Some(error) = &trouble
            && self.sweep.trials().is_empty()
        {
            // Nothing was measured, so there is nothing to show but why.
            return Err(error.clone());
        }
        let lost = self.keeper.as_mut().and_then(Keeper::failure);
        self.fill(trouble);
        if let Some(keeper) = &mut self.keeper {
            keeper.sweep(&self.document);
        }
        self.show(&mut out);
        let late = self.keeper.as_mut().and_then(Keeper::failure);
        if let Some(found) = lost.or(late) {
            let _ = stderr().write_all(error::text(&found, output::side_paint(color)).as_bytes());
            return Ok(Exit::Failed);
        }
        if let Some(why) = out.failure {
            return Err(keep::output_failed(&why));
        }
        Ok(match &self.document.error {
            // Whoever read the output had enough of it, and that is their right.
            _ if out.closed => Exit::Complete,
            Some(error) => Exit::from_code(error.exit_code),
            None => Exit::Complete,
        })
    }

    fn trial(&mut self, job: &Job, mut status: &StatusLine) -> Result<RunRecord, Box<ErrorRecord>> {
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
        let (record, outcome) = trial::run(&self.request, &trial, variation, &mut status)?;
        self.sweep.tell(outcome, record.doubts.clone());
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

    fn keep(&mut self, record: &RunRecord, progress: &Progress) {
        if self.keeper.is_none() {
            return;
        }
        self.fill(Some(unfinished()));
        if let Some(keeper) = &mut self.keeper
            && !(keeper.run(record) && keeper.sweep(&self.document))
        {
            progress
                .note("the results cannot be written; the sweep goes on and shows them at its end");
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
        document.doubts = doubts::told(document.trials.iter().map(|t| t.doubts.as_slice()));
        document.because = because;
        // What was cut short is to be finished first.
        document.advice = if trouble.is_some() { Vec::new() } else { advice };
        document.status = if trouble.is_some() { Status::Partial } else { Status::Complete };
        document.error = trouble;
    }

    fn show(&self, out: &mut Out) {
        let document = &self.document;
        match out.output {
            Output::Text => out.write(&text::render(document, output::layout(out.color))),
            Output::Json => {
                let text = json::document(document);
                out.result(text);
            }
            Output::JsonLines => {
                out.line(&SweepLine::End { document: Some(document), error: None })
            }
        }
        if let Some(found) = &document.error {
            let mut found = found.clone();
            found.hints.insert(
                0,
                match &self.keeper {
                    Some(keeper) => format!("linerate sweep --resume {}", keeper.place()),
                    None if out.output == Output::Text => {
                        "with --save DIR a sweep that is cut short can be resumed".to_owned()
                    }
                    None => "linerate sweep --resume FILE, the JSON being in FILE".to_owned(),
                },
            );
            let _ =
                stderr().write_all(error::text(&found, output::side_paint(out.color)).as_bytes());
        }
    }
}

fn interrupted() -> ErrorRecord {
    ErrorRecord {
        kind: "interrupted".into(),
        what: "the sweep was ended early".into(),
        why: "Ctrl-C or SIGTERM".into(),
        hints: Vec::new(),
        exit_code: Exit::Interrupted as u8,
    }
}

/// What stands in sweep.json while the sweep runs, and for ever if it is killed.
fn unfinished() -> ErrorRecord {
    ErrorRecord {
        kind: "unfinished".into(),
        what: "the sweep was not at its end when this was written".into(),
        why: "it was still running, or it was killed".into(),
        hints: Vec::new(),
        exit_code: Exit::Failed as u8,
    }
}

/// Standard output, in the form that was asked for.
struct Out {
    output: Output,
    color: Color,
    /// Nobody reads any more.
    closed: bool,
    failure: Option<std::io::Error>,
}

impl Out {
    fn line(&mut self, line: &SweepLine<'_>) {
        if self.output == Output::JsonLines {
            self.result(json::line(line));
        }
    }

    fn result(&mut self, text: std::io::Result<String>) {
        match text {
            Ok(text) => self.write(&text),
            Err(error) => self.failure = Some(error),
        }
    }

    fn write(&mut self, text: &str) {
        if self.closed {
            return;
        }
        let written = stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
        if let Err(error) = written {
            self.closed = true;
            if error.kind() != ErrorKind::BrokenPipe {
                self.failure = Some(error);
            }
        }
    }
}
