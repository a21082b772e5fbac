//! `linerate search`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use linerate_experiment::search::goal::{Goal, PRESETS};
use linerate_experiment::search::{SHAPE_LEAST, Settings, mlr};
use linerate_model::plan::{Direction, Way as OneWay};
use linerate_model::record::ErrorRecord;
use linerate_model::units::{BitRate, Nanos};

use super::Asked;
use super::common::{OutputArgs, Way};
use super::trial::TrialArgs;
use super::value::BitRateOrMax;
use crate::{help, usage};

/// The highest rate that meets a goal of loss (and delay): bounds, evidence and which end limits.
///
/// The first trial offers the largest rate for up to a second: all that the sender can, unless
/// `--max` says less. UDP has no congestion control; on a path that others use, give `--max`.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::search())]
pub struct SearchArgs {
    /// What all trials share.
    #[command(flatten)]
    pub trials: TrialArgs,
    #[command(flatten)]
    way: Way,
    /// What a good trial is, such as loss=0, or loss=0.5%,delay-p99=5ms; may be given several times.
    ///
    /// `loss` counts what was not sent, lost, or came after the trial. More parts: exceed=50% (share of
    /// bad time that a load may have), time=2s (of a trial), sum=21s (at one load), width=0.5% (of
    /// the bounds).
    #[arg(long, value_name = "GOAL", help_heading = "Goals")]
    goal: Vec<String>,
    /// A goal by name; may be given several times [default: pdr].
    ///
    /// quick: 0.5% loss, 1s trials, 7s a load. pdr: the same, 21s a load. ndr: no loss, 1s trials, 21s a load.
    /// rfc2544: no loss in 60s. tst009: no loss in half of two trials of 60s.
    #[arg(long, value_name = "NAME", help_heading = "Goals",
        value_parser = PossibleValuesParser::new(PRESETS))]
    preset: Vec<String>,
    /// Fit where half of the trials fail until the 95% interval is this narrow, instead of
    /// closing in on bounds [without a value: 2%].
    #[arg(long, value_name = "WIDTH", num_args = 0..=1, default_missing_value = "2%",
        require_equals = true, help_heading = "Goals")]
    ci: Option<String>,
    /// Afterwards probe the curve below and above the limit, up to the largest rate.
    #[arg(long, help_heading = "Goals")]
    shape: bool,
    /// Least rate that is tried.
    #[arg(long, value_name = "RATE", default_value = "1M", help_heading = "Traffic")]
    min: BitRate,
    /// Largest rate that is tried, or max: as fast as this sender can [default: max].
    #[arg(long, value_name = "RATE", help_heading = "Traffic")]
    max: Option<BitRateOrMax>,
    /// Length of a trial, instead of the goals' own.
    #[arg(short, long, value_name = "TIME", help_heading = "How long")]
    time: Option<Nanos>,
    /// Start no trial that would end later than this; with --resume counted over all parts.
    #[arg(long, value_name = "TIME", help_heading = "How long")]
    pub max_time: Option<Nanos>,
    /// Whole searches, one after the other; gives the mean of them with its interval.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "How long",
        value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub repeat: u64,
    /// Write a line of JSON for each trial, from which a search can go on or be gone through again.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub log: Option<PathBuf>,
    /// Go through a log again, without a network. Beside it stands only what concerns the output.
    #[arg(long, value_name = "FILE", help_heading = "Output", conflicts_with = "resume")]
    pub replay: Option<PathBuf>,
    /// Go on where a log ends, with its goals, host and options, and append to it.
    ///
    /// Beside it stand only --max-time, --key-file (where the key file has moved) and what concerns the
    /// output.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub resume: Option<PathBuf>,
    /// Keep the result as JSON in FILE, whatever is shown; a file that is there is not written over.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub save: Option<PathBuf>,
    /// How the result is shown.
    #[command(flatten)]
    pub output: OutputArgs,
}

impl SearchArgs {
    /// What is searched and the test that each trial is a variant of, if they make sense.
    pub fn asked(&self) -> Result<(Settings, Asked), ErrorRecord> {
        let settings = self.settings()?;
        let longest = settings.goals.iter().map(|g| g.time).max().unwrap_or_default();
        let (mut asked, this_machine) = self.trials.asked("search", longest)?;
        // The first trials of a goal are short, and the curve is probed below the bounds: a quarter of
        // the rate takes what a quarter of the time does.
        let shortest = settings.goals.iter().map(mlr::shortest).min().unwrap_or(longest);
        let share = if settings.shape { SHAPE_LEAST } else { 1.0 };
        let time = Nanos((shortest.0 as f64 * share) as u64);
        super::trial::slowest(&asked, "--min", time, settings.min.bits_per_second(), None)?;
        if settings.max.is_none() && !this_machine {
            asked.notes.push(
                "the first trial sends as fast as this sender can, for up to a second, because no \
                 --max was given; UDP has no congestion control"
                    .to_owned(),
            );
        }
        Ok((settings, asked))
    }

    fn settings(&self) -> Result<Settings, ErrorRecord> {
        let way = match self.way.direction()? {
            Direction::Forward => OneWay::Forward,
            Direction::Reverse => OneWay::Reverse,
            Direction::Both => {
                return Err(usage::error(
                    "cannot search both directions at once",
                    "each has a limit of its own",
                    &["one search without and one with --reverse"],
                ));
            }
        };
        let mut goals: Vec<Goal> =
            self.preset.iter().filter_map(|name| Goal::preset(name)).collect();
        for text in &self.goal {
            let goal = Goal::parse(text).map_err(|e| {
                let hint = "a goal is written loss=0 or loss=0.5%,delay-p99=5ms";
                usage::error(format!("cannot use `--goal {text}`"), e.to_string(), &[hint])
            })?;
            goals.push(goal);
        }
        if goals.is_empty() {
            goals.extend(Goal::preset("pdr"));
        }
        if let Some(time) = self.time {
            goals = goals.into_iter().map(|goal| goal.with_time(Some(time))).collect();
        }
        let timed = if self.time.is_some() { "--time" } else { "--goal" };
        for goal in &goals {
            usage::within(timed, &linerate_model::limits::DURATION_NS, goal.time.0)?;
        }
        let mut seen: Vec<Goal> = Vec::new();
        goals.retain(|goal| {
            let new = !seen.contains(goal);
            seen.push(goal.clone());
            new
        });
        let max = self.max.and_then(|max| max.0);
        if let Some(max) = max.filter(|max| *max <= self.min) {
            return Err(usage::error(
                format!("cannot search between {} and {max}", self.min),
                "the range is empty: --min must be less than --max",
                &["--min 1M --max 10G"],
            ));
        }
        for (option, rate) in [("--min", Some(self.min)), ("--max", max)] {
            if let Some(rate) = rate {
                usage::within(option, &linerate_model::limits::RATE_BPS, rate.bits_per_second())?;
            }
        }
        let ci = self.ci.as_deref().map(width).transpose()?;
        Ok(Settings {
            way,
            min: self.min,
            max,
            goals,
            ci,
            shape: self.shape,
            max_time: self.max_time,
        })
    }
}

/// Width of an interval: `2%`, `0.5%`.
fn width(text: &str) -> Result<f64, ErrorRecord> {
    let share = text.strip_suffix('%').and_then(|n| n.parse::<f64>().ok()).map(|n| n / 100.0);
    share.filter(|share| (0.001..=0.5).contains(share)).ok_or_else(|| {
        usage::error(
            format!("cannot use `--ci={text}`"),
            "the width of the interval is 0.1% to 50%",
            &["--ci=2%"],
        )
    })
}
