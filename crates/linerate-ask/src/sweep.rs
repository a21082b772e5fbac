//! `linerate sweep`.

use std::path::PathBuf;

use clap::Args;
use linerate_experiment::sweep::grid;
use linerate_model::limits::{self, Limit};
use linerate_model::plan::Way;
use linerate_model::record::ErrorRecord;
use linerate_model::sweep::{SweepPlan, Variable};
use linerate_model::units::{BitRate, ByteCount, Nanos};

use super::Asked;
use super::common::OutputArgs;
use super::trial::TrialArgs;
use super::value::{BitRateOrMax, Count};
use crate::{help, usage};

/// The rates that nearly every path and host lies within.
const DEFAULT_RATES: &str = "1M..1000M";
/// For other variables to another host, as `linerate udp` has it.
const DEFAULT_RATE_BPS: u64 = 100_000_000;
/// Measured time of a trial.
const DEFAULT_TIME: Nanos = Nanos::from_secs(2);
/// What zoom narrows a bend to.
const DEFAULT_WIDTH: f64 = 0.02;
/// Narrower than what a trial still calls followed, a bend has no place.
const LEAST_WIDTH: f64 = 0.01;
/// Shorter trials measure the start.
const LEAST_TIME: Nanos = Nanos::from_millis(100);
/// Passes over the grid.
const PASSES: Limit = Limit { name: "passes", min: 1, max: 1_000, why: "", options: &[] };

/// Offered rates one after the other: where received leaves offered, and what limits it there.
///
/// Each rate is a test of its own. The first pass goes up and stops where the sender cannot follow.
/// UDP has no congestion control: a sweep offers the path more than it carries, on purpose.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::sweep())]
pub struct SweepArgs {
    /// What all trials share.
    #[command(flatten)]
    pub trial: TrialArgs,
    /// Rates of payload: 1M..1000M (each twice the one before), 10M..1G with --step, a list such as
    /// 64M,70M,128M; the last may be max, or line: what the interface's speed leaves for payload
    /// [default: 1M..1000M].
    #[arg(short = 'b', long, value_name = "RATES", help_heading = "Sweep")]
    rates: Option<String>,
    /// Steps of one size instead of doubling: 10M, or 64 with --over size.
    #[arg(long, value_name = "STEP", help_heading = "Sweep")]
    step: Option<String>,
    /// Sweep another variable at one rate: size=64..mtu, streams=1..8 or window=64Ki..4Mi.
    #[arg(long, value_name = "VARIABLE=VALUES", help_heading = "Sweep", conflicts_with = "rates")]
    over: Option<String>,
    /// The rate of every trial with --over, or max [default: 100M to another host, max on this
    /// machine].
    #[arg(long, value_name = "RATE", help_heading = "Sweep", requires = "over")]
    rate: Option<BitRateOrMax>,
    /// Passes over all values. Each after the first has an order of its own, drawn from the seed.
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Sweep")]
    repeat: Count,
    /// Seed of the passes' order [default: by chance; it is printed].
    #[arg(long, value_name = "NUMBER", help_heading = "Sweep")]
    seed: Option<u64>,
    /// Finer values around every knee, until it is bracketed to --width.
    #[arg(long, help_heading = "Sweep")]
    zoom: bool,
    /// Width of a knee's bracket, 1 % to 50 % [default: 2 %].
    #[arg(long, value_name = "PERCENT", help_heading = "Sweep", requires = "zoom")]
    width: Option<String>,
    /// The server sends, this end receives.
    #[arg(short = 'R', long, help_heading = "Traffic", conflicts_with = "both_ways")]
    reverse: bool,
    /// Each direction in turn, never both at once.
    #[arg(long, help_heading = "Traffic")]
    both_ways: bool,
    /// Measured time of each trial, such as 1s, 500ms or 10s [default: 2s].
    #[arg(short, long, value_name = "TIME", help_heading = "How long")]
    time: Option<Nanos>,
    /// How the result is shown.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Keep every run's record in this directory, and the sweep so far as sweep.json.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub save: Option<PathBuf>,
    /// Go on with a sweep that was cut short: its JSON, or the directory of --save. Its own command
    /// line holds; only options of output may be given beside this.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub resume: Option<PathBuf>,
}

/// The end of a grid that only a first look at the path or the host can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// Nothing is open.
    Known,
    /// The last rate is what the interface's speed leaves for payload.
    LineRate,
    /// The last rate is what the sender sends as fast as it can.
    Fastest,
    /// The last size is what the path's MTU leaves for payload.
    PathMtu,
}

/// The values of a sweep, as far as the command line says them.
#[derive(Debug, Clone)]
pub struct Grid {
    variable: Variable,
    shape: Shape,
    /// Whether the last value must be found first.
    pub open: Open,
    then_max: bool,
}

#[derive(Debug, Clone)]
enum Shape {
    List(Vec<u64>),
    /// From, to (unless it is open), step (unless it doubles).
    Range(u64, Option<u64>, Option<u64>),
}

impl Grid {
    /// Least and largest value that is known already.
    fn ends(&self) -> (u64, u64) {
        match &self.shape {
            Shape::List(values) => (
                values.iter().copied().min().unwrap_or(0),
                values.iter().copied().max().unwrap_or(0),
            ),
            Shape::Range(from, to, _) => (*from, to.unwrap_or(*from).max(*from)),
        }
    }
}

/// A sweep as asked on the command line.
#[derive(Debug, Clone)]
pub struct SweepAsked {
    /// The test that each trial is a variant of.
    pub test: Asked,
    /// The values.
    pub grid: Grid,
    /// Everything else of the plan; its values are to be filled in.
    pub plan: SweepPlan,
}

impl SweepArgs {
    /// The sweep, if it makes sense.
    pub fn asked(&self) -> Result<SweepAsked, ErrorRecord> {
        let time = self.time.unwrap_or(DEFAULT_TIME);
        if time < LEAST_TIME {
            return Err(usage::error(
                format!("cannot use `--time`: a trial would be {time}"),
                "shorter trials than 100 ms measure how a test starts",
                &["--time 1s"],
            ));
        }
        let (mut test, this_machine) = self.trial.asked("sweep", time)?;
        let grid = self.grid()?;
        let repeat = usage::within("--repeat", &PASSES, self.repeat.0)?;
        let rate_bps = match (grid.variable, self.rate) {
            (Variable::Rate, _) => None,
            (_, Some(BitRateOrMax(rate))) => rate.map(BitRate::bits_per_second),
            (_, None) => (!this_machine).then_some(DEFAULT_RATE_BPS),
        };
        let ends = grid.ends();
        let (slowest, largest) = match grid.variable {
            Variable::Rate => (Some(ends.0), None),
            Variable::Size => (rate_bps, Some(ends.1)),
            _ => (rate_bps, None),
        };
        if let Some(bps) = slowest {
            let option = if grid.variable == Variable::Rate { "--rates" } else { "--rate" };
            super::trial::slowest(&test, option, time, bps, largest)?;
        }
        if grid.variable == Variable::Streams && self.trial.sockets.streams != 1 {
            return Err(swept_and_given("--streams"));
        }
        if grid.variable == Variable::Window && self.trial.sockets.window.is_some() {
            return Err(swept_and_given("--window"));
        }
        if grid.variable == Variable::Size && self.trial.datagrams.size.is_some() {
            return Err(swept_and_given("--size"));
        }
        let directions = match (self.both_ways, self.reverse) {
            (true, _) => vec![Way::Forward, Way::Reverse],
            (_, true) => vec![Way::Reverse],
            _ => vec![Way::Forward],
        };
        if grid.open == Open::PathMtu {
            test.request.size_from_mtu = true;
        }
        let plan = SweepPlan {
            variable: grid.variable,
            values: Vec::new(),
            then_max: grid.then_max,
            rate_bps,
            directions,
            repeat: u32::try_from(repeat).unwrap_or(u32::MAX),
            trial_s: time.as_secs_f64(),
            zoom_width: self.width()?,
            seed: self.seed.unwrap_or(0),
        };
        Ok(SweepAsked { test, grid, plan })
    }

    /// Whether the order is left to chance.
    pub fn chooses_seed(&self) -> bool {
        self.seed.is_none()
    }

    fn width(&self) -> Result<Option<f64>, ErrorRecord> {
        let Some(text) = &self.width else { return Ok(self.zoom.then_some(DEFAULT_WIDTH)) };
        let percent = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
        let width = percent.map(|p| p / 100.0).filter(|w| (LEAST_WIDTH..=0.5).contains(w));
        width.map(Some).ok_or_else(|| {
            usage::error(
                format!("cannot use `--width {text}`"),
                "it is a share of the knee's place, 1 % to 50 %: below that a trial's own tolerance is wider",
                &["--width 2%", "`linerate search` gives tighter bounds for one goal"],
            )
        })
    }

    fn grid(&self) -> Result<Grid, ErrorRecord> {
        let Some(over) = &self.over else {
            let rates = self.rates.as_deref().unwrap_or(DEFAULT_RATES);
            return self.values("--rates", Variable::Rate, rates);
        };
        let shape = "it is size=64..mtu, streams=1..8 or window=64Ki..4Mi";
        let Some((name, values)) = over.split_once('=') else {
            return Err(usage::error(format!("cannot use `--over {over}`"), shape, &[]));
        };
        let variable = match name.trim() {
            "size" => Variable::Size,
            "streams" => Variable::Streams,
            "window" => Variable::Window,
            _ => {
                return Err(usage::error(
                    format!("cannot sweep over `{name}`"),
                    shape,
                    &["rates are swept without --over: --rates 1M..1000M"],
                ));
            }
        };
        self.values("--over", variable, values)
    }

    fn values(&self, option: &str, variable: Variable, text: &str) -> Result<Grid, ErrorRecord> {
        let one = |word: &str| value(option, variable, word.trim());
        let (shape, open, then_max) = if let Some((from, to)) = text.split_once("..") {
            let from = one(from)?;
            let step =
                self.step.as_deref().map(|step| value("--step", variable, step)).transpose()?;
            let (to, open, then_max) = match (to.trim(), variable) {
                ("max", Variable::Rate) => (None, Open::Fastest, true),
                ("line", Variable::Rate) => (None, Open::LineRate, false),
                ("mtu", Variable::Size) => (None, Open::PathMtu, false),
                (to, _) => (Some(one(to)?), Open::Known, false),
            };
            if to.is_some_and(|to| to < from) {
                return Err(usage::error(
                    format!("cannot use `{option}`: the range `{text}` is empty"),
                    "its end lies below its start",
                    &[&format!("{option} {}", swapped(option, variable, text))],
                ));
            }
            (Shape::Range(from, to, step), open, then_max)
        } else {
            if self.step.is_some() {
                return Err(usage::error(
                    "cannot use `--step` with a list",
                    "a list has its own steps",
                    &["give a range: 10M..100M --step 10M"],
                ));
            }
            let mut words: Vec<&str> = text.split(',').map(str::trim).collect();
            let then_max = variable == Variable::Rate && words.last() == Some(&"max");
            if then_max {
                words.pop();
            }
            let mut list = words.into_iter().map(one).collect::<Result<Vec<u64>, _>>()?;
            list.sort_unstable();
            list.dedup();
            if list.is_empty() {
                return Err(usage::error(
                    format!("cannot use `{option}`: there is no value in it"),
                    "a sweep needs at least one value beside max",
                    &["`linerate udp --rate max` is a single test as fast as it can"],
                ));
            }
            (Shape::List(list), Open::Known, then_max)
        };
        let grid = Grid { variable, shape, open, then_max };
        if open == Open::Known {
            // Too many values are found before any packet.
            grid.resolve(0)?;
        }
        Ok(grid)
    }
}

fn swept_and_given(option: &str) -> ErrorRecord {
    usage::error(
        format!("cannot use `{option}` with `--over` of the same"),
        "each trial has a value of its own",
        &["leave one of them out"],
    )
}

/// `--over size=` needs its name again in a hint.
fn swapped(option: &str, variable: Variable, text: &str) -> String {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let name = if option == "--over" { format!("{}=", variable.name()) } else { String::new() };
    format!("{name}{to}..{from}")
}

/// One value of a variable, inside the table of limits.
fn value(option: &str, variable: Variable, text: &str) -> Result<u64, ErrorRecord> {
    let wrong = |what: &str| {
        usage::error(format!("cannot use `{option}`: `{text}` is no {what}"), shape(variable), &[])
    };
    let (found, limit) = match variable {
        Variable::Rate => (
            text.parse::<BitRate>().map_err(|_| wrong("rate"))?.bits_per_second(),
            &limits::RATE_BPS,
        ),
        Variable::Size => (
            text.parse::<ByteCount>().map_err(|_| wrong("size in bytes"))?.0,
            &limits::DATAGRAM_BYTES,
        ),
        Variable::Streams => {
            (text.parse::<Count>().map_err(|_| wrong("number of streams"))?.0, &limits::STREAMS)
        }
        Variable::Window => (
            text.parse::<ByteCount>().map_err(|_| wrong("size in bytes"))?.0,
            &limits::WINDOW_BYTES,
        ),
    };
    if option == "--step" { Ok(found) } else { Ok(usage::within(option, limit, found)?) }
}

fn shape(variable: Variable) -> &'static str {
    match variable {
        Variable::Rate => {
            "rates are 1M..1000M, 10M..1G with --step 10M, or a list such as 64M,70M,128M; the last may be max or line"
        }
        Variable::Size => {
            "sizes are size=64..1472, size=64..mtu or a list such as size=64,512,1472"
        }
        Variable::Streams => "streams are streams=1..8 or a list such as streams=1,2,4",
        Variable::Window => "windows are window=64Ki..4Mi or a list such as window=256Ki,1Mi",
    }
}

impl Grid {
    /// All values in rising order. `end` is the last one where that was open.
    pub fn resolve(&self, end: u64) -> Result<Vec<u64>, ErrorRecord> {
        let (from, to, step) = match &self.shape {
            Shape::List(list) => return Ok(list.clone()),
            Shape::Range(from, to, step) => (*from, to.unwrap_or(end), *step),
        };
        if to < from {
            let unit = if self.variable == Variable::Rate { " bit/s" } else { " bytes" };
            return Err(usage::error(
                "cannot sweep an empty range",
                format!("it begins at {from}{unit}, and its end was found to be {to}{unit}"),
                &["begin lower"],
            ));
        }
        let values = match step {
            Some(step) => grid::linear(from, to, step),
            // So few that each is worth a trial.
            None if self.variable == Variable::Streams => grid::linear(from, to, 1),
            None => Some(grid::doubling(from, to)),
        };
        values.ok_or_else(|| {
            usage::error(
                "cannot use `--step`",
                format!("it would make more than {} values", grid::MOST_VALUES),
                &["a larger step, or none: values double then"],
            )
        })
    }
}
