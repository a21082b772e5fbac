//! `linerate tune`.

mod factor;
mod words;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use linerate_model::plan::{Direction, End, Traffic, TrafficKind};
use linerate_model::units::{BitRate, Nanos};

use crate::common::{OutputArgs, Span};
use crate::help;
use crate::rr::RrArgs;
use crate::tcp::TcpArgs;
use crate::trial::interval;
use crate::udp::UdpArgs;
use crate::usage::{self, Refusal};
use crate::{Asked, value::share};

pub use factor::{FactorAsked, FactorName, Level, cpu_words};
pub use words::{test_options, test_words};

/// The best setting for a path, by experiment: sizes, windows, streams, engines, cores and more.
///
/// Short tests with one combination after the other, each beside the one that it is compared with, until
/// nothing that was not tried can matter. At the end the best is compared with the default anew. It recommends
/// only what is shown to be better.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::tune(), args_conflicts_with_subcommands = true)]
pub struct TuneArgs {
    /// Go on where the file of --save (or what --json printed) ends, with its test, factors and options, and keep the result
    /// there.
    ///
    /// Beside it stands only what concerns the output.
    #[arg(long, value_name = "FILE", help_heading = "Tuning")]
    pub resume: Option<PathBuf>,
    /// How the result of what is resumed is shown.
    #[command(flatten)]
    output: OutputArgs,
    /// A test, and what is tuned of it.
    #[command(subcommand)]
    pub test: Option<TuneTest>,
}

/// What is tuned. Each has its help here, since that of its options is the one of a test.
#[derive(Debug, Clone, Subcommand)]
pub enum TuneTest {
    /// Of datagrams.
    #[command(about = "Datagrams: size, window, streams, engine and cores", long_about = None,
        after_help = help::tune(), mut_args(of_tuning))]
    Udp(Box<Tuned<UdpArgs>>),
    /// Of a byte stream.
    #[command(about = "A byte stream: window, block, streams, congestion control and cores", long_about = None,
        after_help = help::tune(), mut_args(of_tuning))]
    Tcp(Box<Tuned<TcpArgs>>),
    /// Of requests and responses.
    #[command(about = "Requests and responses: cores", long_about = None,
        after_help = help::tune(), mut_args(of_tuning))]
    Rr(Box<Tuned<RrArgs>>),
}

/// Options of a test as a tuning takes them; those that are of a single test's lines are refused, and not shown.
fn of_tuning(arg: clap::Arg) -> clap::Arg {
    match arg.get_id().as_str() {
        "profile" => arg
            .help("Save the best setting under this name, for `--profile NAME` of such a test")
            .help_heading("Tuning"),
        "time" => arg.help("Measured time of each trial, such as 1s, 500ms or 10s [default: 1s]"),
        "interval" | "quiet" | "verbose" | "watch" | "web" => arg.hide(true),
        _ => arg,
    }
}

/// A test with the options of its tuning.
#[derive(Debug, Clone, Args)]
pub struct Tuned<T: Args> {
    /// The test that each trial is a variant of.
    #[command(flatten)]
    pub test: T,
    /// How it is tuned.
    #[command(flatten)]
    pub how: TuneOptions,
}

/// How a test is tuned.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tuning")]
pub struct TuneOptions {
    /// What is varied, and by which levels: `size,window`, or `window=256Ki,4Mi`; may be given several times
    /// [default: what `linerate tune VERB` names].
    ///
    /// size, window, streams, engine, burst (of datagrams), block, congestion (of byte streams), cores (here),
    /// far-cores (at the server); with --allow-settings any setting of this host, such as offload.gro or ring.rx.
    #[arg(long = "factor", value_name = "NAME[=LEVEL,…]")]
    factor: Vec<String>,
    /// What is to be as good as can be: rate (of rr: transactions), rate,loss=0.5% (the highest with at most so
    /// much loss), pps, efficiency (bits for a second of CPU), p99 (delay or latency)
    /// [default: rate; of rr p99].
    #[arg(long, value_name = "WHAT")]
    objective: Option<String>,
    /// What a factor must matter by.
    #[arg(long, value_name = "SHARE", default_value = "2%")]
    width: String,
    /// Start no trial that would end later than this.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    max_time: Nanos,
    /// Vary settings of this host too; all are put back at the end, whatever happens.
    #[arg(long)]
    allow_settings: bool,
    /// Repeats the order of trials of an earlier run.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct TuneAsked {
    /// The test that each trial is a variant of.
    pub test: Asked,
    /// udp, tcp or rr.
    pub verb: TrafficKind,
    /// What is optimised.
    pub aim: Aim,
    /// What a factor must matter by, as a share.
    pub width: f64,
    /// No trial begins that would end later.
    pub max_time: Nanos,
    /// What is varied.
    pub factors: Vec<FactorAsked>,
    /// Whether settings of this host may be changed.
    pub settings: bool,
    /// Of the order of trials.
    pub seed: Option<u64>,
}

/// What is optimised.
#[derive(Debug, Clone, PartialEq)]
pub struct Aim {
    /// As it was asked for.
    pub name: String,
    /// Metric of the catalogue.
    pub metric: &'static str,
    /// The rate counts only with at most this share of loss, 0 to 1.
    pub loss: Option<f64>,
}

/// Least rate of the searches for the highest rate with little loss: 1 Mbit/s.
pub const LEAST_SEARCHED: BitRate = match BitRate::new(1_000_000) {
    Some(rate) => rate,
    None => unreachable!(),
};
/// Length of a trial.
const TRIAL: Nanos = Nanos::from_secs(1);

impl TuneArgs {
    /// What is asked, if it makes sense.
    ///
    /// # Errors
    /// What does not.
    pub fn asked(&self) -> Result<TuneAsked, Refusal> {
        let Some(test) = &self.test else {
            return Err(usage::refusal(
                &["--resume"],
                "nothing to tune was given",
                "it needs a kind of test and a host, or a tuning that was cut short",
                &["linerate tune udp HOST --rate max", "linerate tune --resume FILE"],
            ));
        };
        let (verb, mut test, how, show) = match test {
            TuneTest::Udp(a) => (TrafficKind::Udp, a.test.trial(TRIAL)?, &a.how, a.test.show),
            TuneTest::Tcp(a) => (TrafficKind::Tcp, a.test.trial(TRIAL)?, &a.how, a.test.show),
            TuneTest::Rr(a) => (TrafficKind::Rr, a.test.trial(TRIAL)?, &a.how, a.test.show),
        };
        show.without(&["--watch", "--web", "--verbose", "--quiet"])?;
        let aim = aim(verb, how.objective.as_deref())?;
        check(&mut test, verb, &aim)?;
        let width = share(&how.width).filter(|width| (0.001..=0.5).contains(width));
        let width = width.ok_or_else(|| {
            let what = format!("cannot use `--width {}`", how.width);
            usage::refusal(&["--width"], what, "a factor matters by 0.1% to 50%", &["--width 2%"])
        })?;
        let factors = factor::asked(&how.factor, verb, how.allow_settings, &test.request)?;
        Ok(TuneAsked {
            test,
            verb,
            aim,
            width,
            max_time: how.max_time,
            factors,
            settings: how.allow_settings,
            seed: how.seed,
        })
    }

    /// In which form the result is shown.
    pub fn output(&self) -> OutputArgs {
        match &self.test {
            Some(TuneTest::Udp(a)) => a.test.show.output,
            Some(TuneTest::Tcp(a)) => a.test.show.output,
            Some(TuneTest::Rr(a)) => a.test.show.output,
            None => self.output,
        }
    }
}

fn check(test: &mut Asked, verb: TrafficKind, aim: &Aim) -> Result<(), Refusal> {
    let plan = &mut test.request.plan;
    if plan.direction == Direction::Both {
        return Err(usage::refusal(
            &["--both"],
            "cannot tune both directions at once",
            "each may have a best setting of its own",
            &["one run without and one with --reverse"],
        ));
    }
    let End::Time(time) = plan.end else {
        return Err(usage::refusal(
            &["--bytes", "--datagrams"],
            "cannot tune tests that end by a count",
            "trials of a better setting would be shorter than the others",
            &["--time 1s"],
        ));
    };
    if plan.interval != Span::default().interval {
        return Err(usage::refusal(
            &["--interval"],
            "cannot use `--interval` here",
            "a trial is one figure of the result, and it would be ignored",
            &["leave it out"],
        ));
    }
    plan.interval = interval(time);
    if matches!(test.request.target, linerate_runner::client::Target::Discard { .. }) {
        return Err(usage::refusal(
            &["--send-only"],
            "cannot tune with `--send-only`",
            "nobody is there to say what arrives",
            &["`linerate serve` there"],
        ));
    }
    let floods = verb == TrafficKind::Udp && matches!(aim.metric, "received_bps" | "received_pps");
    // That is the one thing that is noted of a test.
    let is_default_rate = !test.notes.is_empty();
    if floods && is_default_rate {
        return Err(usage::refusal(
            &["--rate"],
            "cannot tune the rate of datagrams at the default rate",
            "every setting carries 100 Mbit/s or more; UDP has no congestion control, so nobody is flooded unasked",
            &["--rate max, or what those who share the path can bear", "--objective efficiency"],
        ));
    }
    let highest = match &plan.traffic {
        Traffic::Udp(udp) if aim.loss.is_some() => {
            udp.rate.map(|rate| rate.bits_per_second(udp.size))
        }
        _ => None,
    };
    if highest.is_some_and(|highest| highest <= LEAST_SEARCHED.bits_per_second()) {
        return Err(usage::refusal(
            &["--rate", "--objective"],
            format!("cannot use `--objective {}` at that rate", aim.name),
            format!("each trial searches for a rate from {LEAST_SEARCHED} to `--rate`"),
            &["a higher --rate", "--rate max", "--objective rate"],
        ));
    }
    // All trials are of one dialect, and no run is kept beside the result.
    test.request.elsewhere = false;
    Ok(())
}

fn aim(verb: TrafficKind, name: Option<&str>) -> Result<Aim, Refusal> {
    use TrafficKind::{Rr, Tcp, Udp};
    let name = name.unwrap_or(if verb == Rr { "p99" } else { "rate" });
    let loss = name.strip_prefix("rate,loss=").map(share);
    let metric = match (name, verb) {
        ("rate", Udp | Tcp) => Some("received_bps"),
        ("rate", Rr) => Some("transactions_per_second"),
        ("pps", Udp) => Some("received_pps"),
        ("efficiency", Udp | Tcp) => Some("bits_per_cpu_second"),
        ("p99", Udp) => Some("delay_variation_p99"),
        ("p99", Rr) => Some("latency_p99"),
        (_, Udp) if loss.is_some_and(|loss| loss.is_some_and(|loss| loss < 0.5)) => {
            Some("received_bps")
        }
        _ => None,
    };
    let Some(metric) = metric else {
        let all = match verb {
            Udp => "rate, rate,loss=0.5%, pps, efficiency, p99",
            Tcp => "rate, efficiency",
            Rr => "p99, rate",
        };
        return Err(usage::refusal(
            &["--objective"],
            format!("cannot use `--objective {name}`"),
            format!("`linerate tune {}` has these: {all}", verb.name()),
            &[],
        ));
    };
    Ok(Aim { name: name.to_owned(), metric, loss: loss.flatten() })
}
