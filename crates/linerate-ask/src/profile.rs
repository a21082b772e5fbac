//! `linerate profile`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use linerate_model::plan::Traffic;
use linerate_model::profile::Scope;
use linerate_model::record::ErrorRecord;
use linerate_model::units::{BitRate, Rate};

use super::common::Show;
use super::rr::RrArgs;
use super::search::SearchArgs;
use super::tcp::TcpArgs;
use super::udp::UdpArgs;
use super::{Asked, Color};
use crate::{help, preset, usage};

const HEADING: &str = "Profile";

/// Where the CPUs' time of a test goes: by layer, by function, as a flame graph, and what differs between two tests.
///
/// Runs a test while the stacks of this host's CPUs are sampled (perf_event_open(2)). Needs root, CAP_PERFMON or a
/// kernel.perf_event_paranoid of 0 for whole cores, of 1 for linerate's own threads; where that is missing the test runs
/// all the same, and what would permit it is said. What --save keeps becomes a page with `linerate report`.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::profile(), args_conflicts_with_subcommands = true)]
pub struct ProfileArgs {
    /// Compare two profiles that --save kept: the first of each file.
    #[arg(long, num_args = 2, value_names = ["FIRST", "SECOND"])]
    pub compare: Vec<PathBuf>,
    /// Print one JSON document (`linerate schema profile`).
    #[arg(short = 'J', long, requires = "compare")]
    pub json: bool,
    /// Keep it as JSON in FILE; a file that is there is not written over.
    #[arg(long, value_name = "FILE", requires = "compare")]
    pub save: Option<PathBuf>,
    /// The test.
    #[command(subcommand)]
    pub test: Option<Tested>,
}

/// Verb and options of the test.
#[derive(Debug, Clone, Subcommand)]
pub enum Tested {
    /// Datagrams, with the options of `linerate udp`.
    #[command(after_help = help::profile(), about = "Datagrams, with the options of `linerate udp`", long_about = None)]
    Udp(Box<UdpTest>),
    /// A byte stream, with the options of `linerate tcp`.
    #[command(after_help = help::profile(), about = "A byte stream, with the options of `linerate tcp`", long_about = None)]
    Tcp(Box<TcpTest>),
    /// Requests and responses, with the options of `linerate rr`.
    #[command(after_help = help::profile(), about = "Requests and responses, with the options of `linerate rr`", long_about = None)]
    Rr(Box<RrTest>),
}

/// `linerate profile udp`.
#[derive(Debug, Clone, Args)]
pub struct UdpTest {
    #[command(flatten)]
    test: UdpArgs,
    /// Search for the highest rate with at most 0.5% loss first, up to --rate where that is given, and compare a test a
    /// tenth below it with one a tenth above it.
    #[arg(long, conflicts_with = "against", help_heading = HEADING)]
    at_knee: bool,
    #[command(flatten)]
    sampling: Sampling,
}

/// `linerate profile tcp`.
#[derive(Debug, Clone, Args)]
pub struct TcpTest {
    #[command(flatten)]
    test: TcpArgs,
    #[command(flatten)]
    sampling: Sampling,
}

/// `linerate profile rr`.
#[derive(Debug, Clone, Args)]
pub struct RrTest {
    #[command(flatten)]
    test: RrArgs,
    #[command(flatten)]
    sampling: Sampling,
}

/// How it is sampled, and what it is compared with.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = HEADING)]
pub struct Sampling {
    /// Run a second test with these options beside the given ones, in place of those that it names again, and say what
    /// differs: '--rate 2G', '--tx sendfile'.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub against: Option<String>,
    /// What is sampled: cores (softirq and other programs too), or linerate's own threads [default: cores, where that is
    /// permitted].
    #[arg(long, value_name = "WHAT", value_parser = PossibleValuesParser::new(["cores", "threads"]))]
    sample: Option<String>,
    /// What drives the sampling: a counter of cycles, or a timer [default: cycles, where there is such a counter].
    #[arg(long, value_name = "EVENT", value_parser = PossibleValuesParser::new(["cycles", "cpu-clock"]))]
    event: Option<String>,
}

impl Sampling {
    /// What is sampled; nothing is the best that is permitted.
    pub fn scope(&self) -> Option<Scope> {
        self.sample.as_deref().map(|what| match what {
            "threads" => Scope::Threads,
            _ => Scope::Cores,
        })
    }

    /// Whether cycles drive it; nothing is what there is.
    pub fn cycles(&self) -> Option<bool> {
        self.event.as_deref().map(|event| event == "cycles")
    }
}

impl Tested {
    /// The test, if it makes sense.
    ///
    /// # Errors
    /// When it does not.
    pub fn asked(&self) -> Result<Asked, ErrorRecord> {
        if self.show().without(&["--watch", "--web"])?.output.json_lines {
            let why = "a profile is one document, made when all is over";
            return Err(usage::error("cannot use `--json-lines` here", why, &["--json"]));
        }
        let asked = match self {
            Self::Udp(udp) => udp.test.asked(),
            Self::Tcp(tcp) => tcp.test.asked(),
            Self::Rr(rr) => rr.test.asked(),
        };
        Ok(asked?)
    }

    /// How it is sampled.
    pub fn sampling(&self) -> &Sampling {
        match self {
            Self::Udp(udp) => &udp.sampling,
            Self::Tcp(tcp) => &tcp.sampling,
            Self::Rr(rr) => &rr.sampling,
        }
    }

    /// How it is shown.
    pub fn show(&self) -> Show {
        match self {
            Self::Udp(udp) => udp.test.show,
            Self::Tcp(tcp) => tcp.test.show,
            Self::Rr(rr) => rr.test.show,
        }
    }

    /// The search for its knee, where that is asked for.
    ///
    /// # Errors
    /// When no search can be made of the test.
    pub fn search(&self) -> Result<Option<SearchArgs>, ErrorRecord> {
        match self {
            Self::Udp(udp) if udp.at_knee => udp.test.search().map(Some),
            _ => Ok(None),
        }
    }

    /// The same test with the options of `--against` in place of those that they name, of a command line that has been
    /// understood.
    ///
    /// # Errors
    /// When they make no sense.
    pub fn against(words: &[String], options: &str) -> Result<Self, ErrorRecord> {
        let mut kept: Vec<String> = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--against" => drop(words.next()),
                word if word.starts_with("--against=") => {}
                _ => kept.push(word.clone()),
            }
        }
        let unclear = |why: &str| {
            let what = format!("cannot use `--against '{options}'`");
            usage::error(what, why, &["options of the same verb: --against '--rate 2G'"])
        };
        let mut named = options.split_whitespace().filter_map(|word| word.split('=').next());
        if let Some(one) = named.find(|name| OF_BOTH.contains(name)) {
            return Err(unclear(&format!("`{one}` cannot differ between the two tests")));
        }
        kept.extend(options.split_whitespace().map(str::to_owned));
        let kept: Vec<OsString> = kept.into_iter().map(OsString::from).collect();
        let read =
            |argv: &[OsString]| Line::command().args_override_self(true).try_get_matches_from(argv);
        let mut found = read(&kept);
        if let Ok(matches) = &found
            && let Some((argv, _)) = preset::expand(&kept, matches)?
        {
            found = read(&argv);
        }
        let line = found.and_then(|found| Line::from_arg_matches(&found));
        match line.map(|line| line.verb) {
            Ok(Verb::Profile(args)) => args.test.ok_or_else(|| unclear("it is no test")),
            Err(error) => Err(unclear(&usage::from_clap(&error, Some("profile")).why)),
        }
    }
}

/// What holds for both tests of a comparison: how they are sampled, shown and kept.
const OF_BOTH: [&str; 8] =
    ["--sample", "--event", "--at-knee", "--against", "--save", "--json", "-J", "--json-lines"];

/// A command line of this verb.
#[derive(Debug, Parser)]
#[command(name = "linerate")]
struct Line {
    /// Concerns the screen only.
    #[arg(long, global = true, default_value = "auto")]
    color: Color,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Profile(Box<ProfileArgs>),
}

/// How far below and above the knee the tests lie, of the rates that a search found.
pub const BESIDE_KNEE: f64 = 0.1;

/// The test at another rate, bit/s.
pub fn at_rate(asked: &Asked, bps: f64) -> Asked {
    let mut asked = asked.clone();
    if let Traffic::Udp(udp) = &mut asked.request.plan.traffic {
        udp.rate = BitRate::new(bps as u64).map(Rate::Bits);
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn parsed(line: &str) -> Tested {
        let line = Line::try_parse_from(words(line)).unwrap();
        let Verb::Profile(args) = line.verb;
        args.test.unwrap()
    }

    #[test]
    fn what_is_named_again_takes_the_place_of_what_was_said() {
        let line = "linerate profile udp --local --rate 1G --time 2s --against x";
        let second = Tested::against(&words(line), "--rate 2G -P 2").unwrap();
        let plan = second.asked().unwrap().request.plan;
        assert_eq!(plan.streams, 2);
        assert!(format!("{:?}", plan.traffic).contains("2000000000"), "{plan:?}");
        let same = Tested::against(&words("linerate profile tcp --local --against=-N"), "-N");
        assert!(same.is_ok());
        let error = Tested::against(&words(line), "--frobnicate").unwrap_err();
        assert!(error.what.contains("--against"), "{error:?}");
        for options in
            ["--sample threads", "--rate 2G --event=cycles", "--at-knee", "--save x", "--json"]
        {
            let error = Tested::against(&words(line), options).unwrap_err();
            assert!(
                error.why.contains("cannot differ between the two tests"),
                "{options}: {error:?}"
            );
            assert_eq!(error.exit_code, 2);
        }
    }

    #[test]
    fn a_search_is_made_of_the_tests_own_options() {
        let tested = parsed("linerate profile udp --local --rate 800M -l 1000 --at-knee");
        let (settings, asked) = tested.search().unwrap().unwrap().asked().unwrap();
        assert_eq!(settings.max.unwrap().bits_per_second(), 800_000_000);
        assert!(format!("{:?}", asked.request.plan.traffic).contains("1000"));
        assert!(parsed("linerate profile udp --local").search().unwrap().is_none());
        let pps = parsed("linerate profile udp --local --rate 10kpps --at-knee");
        assert_eq!(pps.search().unwrap_err().exit_code, 2);
    }

    #[test]
    fn a_knee_is_searched_for_only_where_a_search_can_be_made() {
        for (options, what) in [
            ("--send-only", "cannot use `--at-knee` with `--send-only`"),
            ("--rate 1M", "cannot use `--at-knee` at that rate"),
            ("--both", "cannot search both directions at once"),
        ] {
            let tested = parsed(&format!("linerate profile udp h --at-knee {options}"));
            let search = tested.search().map(|search| search.unwrap().asked());
            let error = match search {
                Ok(asked) => asked.expect_err(options),
                Err(error) => error,
            };
            assert_eq!((error.what.as_str(), error.exit_code), (what, 2));
        }
    }

    #[test]
    fn lines_of_json_are_refused() {
        let error = parsed("linerate profile rr --local --json-lines").asked().unwrap_err();
        assert!(error.what.contains("--json-lines"));
    }
}
