//! Groups of options that several verbs share.

use std::path::PathBuf;

use clap::Args;
use linerate_model::limits;
use linerate_model::plan::{Direction, End, TestPlan, Traffic};
use linerate_model::units::{ByteCount, Nanos};
use linerate_runner::client::Request;
use serde::Deserialize;

use super::Asked;
use super::target::Found;
use super::value::{Cpus, Dscp, WebAddress};
use crate::from_text::{some, text};
use crate::usage::{self, Refusal};

/// How long, and in which steps.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "How long")]
pub struct Span {
    /// Measured time, such as 30s, 500ms or 2m [default: 10s].
    #[arg(short, long, value_name = "TIME")]
    #[serde(deserialize_with = "some")]
    pub time: Option<Nanos>,
    /// Traffic before the measured time, counted apart.
    #[arg(short = 'O', long, value_name = "TIME", default_value = "0")]
    #[serde(deserialize_with = "text")]
    pub warmup: Nanos,
    /// Time between two lines of the report.
    #[arg(short, long, value_name = "TIME", default_value = "1s")]
    #[serde(deserialize_with = "text")]
    pub interval: Nanos,
}

/// What is the same for all data sockets and threads.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Streams, sockets and cores")]
pub struct Sockets {
    /// Streams each way: a socket and a thread each.
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1)]
    #[serde(deserialize_with = "text")]
    pub streams: u64,
    /// Socket buffers at both ends, such as 4Mi; what the kernel grants is reported.
    #[arg(short, long, value_name = "BYTES")]
    #[serde(deserialize_with = "some")]
    pub window: Option<ByteCount>,
    /// Cores of the data threads, an entry a stream: here, and after a slash at the server.
    ///
    /// Lists and ranges: `2,4-6/1` runs the streams here on the cores 2, 4, 5, 6 and those of the
    /// server on core 1; `/3` leaves the choice here to linerate.
    #[arg(long, value_name = "LOCAL[/REMOTE]")]
    pub cpu: Option<Cpus>,
    /// Differentiated services code point: 0 to 63, or a name such as EF, CS1 or AF41.
    #[arg(long, value_name = "DSCP")]
    pub dscp: Option<Dscp>,
}

/// Which way the data goes.
#[derive(Debug, Clone, Copy, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Traffic")]
pub struct Way {
    /// The server sends, this end receives.
    #[arg(short = 'R', long)]
    pub reverse: bool,
    /// Both send at once.
    #[arg(long, visible_alias = "bidir")]
    pub both: bool,
}

impl Way {
    /// The direction, if it is one.
    pub fn direction(self) -> Result<Direction, Refusal> {
        match (self.reverse, self.both) {
            (true, true) => Err(usage::refusal(
                &["--reverse", "--both"],
                "cannot use `--reverse` and `--both` together",
                "`--both` sends in both directions already",
                &["leave out one of the two"],
            )),
            (true, false) => Ok(Direction::Reverse),
            (false, true) => Ok(Direction::Both),
            (false, false) => Ok(Direction::Forward),
        }
    }
}

/// The end of a test, from the options that can each end one.
pub fn end(span: &Span, bytes: Option<ByteCount>, datagrams: Option<u64>) -> Result<End, Refusal> {
    let given: Vec<&str> = [
        (span.time.is_some(), "--time"),
        (bytes.is_some(), "--bytes"),
        (datagrams.is_some(), "--datagrams"),
    ]
    .into_iter()
    .filter_map(|(given, name)| given.then_some(name))
    .collect();
    if given.len() > 1 {
        return Err(usage::refusal(
            &given,
            format!("cannot use `{}` together", given.join("` and `")),
            "each of them alone says when the test ends",
            &["keep one of them"],
        ));
    }
    Ok(match (bytes, datagrams) {
        (Some(bytes), _) => End::Bytes(bytes.0),
        (_, Some(datagrams)) => End::Datagrams(datagrams),
        _ => End::Time(span.time.unwrap_or(Nanos::from_secs(10))),
    })
}

/// Puts a test together and checks every number against the table of limits. The caller adds what the
/// user should know of it.
pub fn asked(
    found: Found,
    traffic: Traffic,
    direction: Direction,
    end: End,
    span: &Span,
    sockets: &Sockets,
    keep: Keep,
) -> Result<Asked, Refusal> {
    let streams = usage::within("--streams", &limits::STREAMS, sockets.streams)?;
    let window = sockets
        .window
        .map(|w| usage::within("--window", &limits::WINDOW_BYTES, w.0))
        .transpose()?;
    let cpus = sockets.cpu.clone().unwrap_or_default();
    let plan = TestPlan {
        direction,
        // In range, so that neither cast can cut.
        streams: streams as u16,
        end,
        warmup: span.warmup,
        interval: span.interval,
        window: window.map(|w| w as u32),
        client_cpus: cpus.local,
        server_cpus: cpus.remote,
        dscp: sockets.dscp.map(|d| d.0),
        ..TestPlan::new(traffic)
    };
    plan.check().map_err(|found| usage::out_of_range(&found))?;
    let request = Request {
        ip: found.ip,
        bind: found.bind,
        key: found.key,
        dialect: found.dialect,
        elsewhere: found.elsewhere,
        label: keep.names.label,
        title: keep.names.title,
        profile: keep.profile,
        ..Request::new(found.target, plan)
    };
    Ok(Asked { request, notes: Vec::new(), save: keep.save })
}

/// How the result is shown: flattened into each verb that runs a test.
#[derive(Debug, Clone, Copy, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Print one JSON record when the test is over.
    #[arg(short = 'J', long, conflicts_with = "json_lines")]
    pub json: bool,
    /// Print one JSON object a line while the test runs: start, interval …, end.
    #[arg(long)]
    pub json_lines: bool,
}

/// Where a result is kept, and by which name it is known.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Output")]
pub struct Keep {
    /// Keep the record as JSON in FILE, whatever is shown; a file that is there is not written over.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Take the options of this profile that are not given here: `linerate tune` saves them as
    /// ~/.config/linerate/profiles/NAME.toml.
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    #[serde(skip)]
    pub profile: Option<String>,
    /// By which name it is known.
    #[command(flatten)]
    #[serde(flatten)]
    pub names: Names,
}

impl Keep {
    /// The same refusal, with the profile that its options may come from.
    pub(crate) fn blamed(&self, refused: Refusal) -> Refusal {
        let Some(name) = &self.profile else { return refused };
        Refusal { error: Box::new(usage::of_profile(*refused.error, name)), ..refused }
    }
}

/// By which name a result is known.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Output")]
pub struct Names {
    /// Name in reports and comparisons, kept in the result.
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Title in place of the command line, kept in the result.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
}

/// How the result of a single test is shown.
#[derive(Debug, Clone, Copy, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Output")]
pub struct Show {
    /// In which form.
    #[command(flatten)]
    #[serde(flatten)]
    pub output: OutputArgs,
    /// Print every detail, every reason and all advice before the headline.
    #[arg(short, long, conflicts_with_all = ["quiet", "json", "json_lines"])]
    pub verbose: bool,
    /// Print the headline only: result, limit and what to try.
    #[arg(short, long, conflicts_with_all = ["json", "json_lines"])]
    pub quiet: bool,
    /// Show a screen while it runs: rates, loss, cores of both ends, verdict so far; keys change a UDP rate. The
    /// result follows as ever.
    #[arg(long)]
    pub watch: bool,
    /// Show the same as a page in a browser while it runs, beside all else, and print the page's address. Only this host
    /// reaches it unless an ADDRESS is given: 8080, 192.0.2.1 or 192.0.2.1:8080.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = WebAddress::DEFAULT)]
    #[serde(deserialize_with = "some")]
    pub web: Option<WebAddress>,
}

impl Show {
    /// Which of these options were given.
    pub fn given(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.output.json, "--json"),
            (self.output.json_lines, "--json-lines"),
            (self.verbose, "--verbose"),
            (self.quiet, "--quiet"),
            (self.watch, "--watch"),
            (self.web.is_some(), "--web"),
        ];
        all.into_iter().filter_map(|(given, name)| given.then_some(name))
    }

    /// Refuses what verbs that run tests for another end would ignore, of these options.
    pub fn without(self, ignored: &[&str]) -> Result<Self, Refusal> {
        match self.given().find(|name| ignored.contains(name)) {
            None => Ok(self),
            Some(name) => Err(usage::refusal(
                &[name],
                format!("cannot use `{name}` here"),
                "it shows a test of `linerate udp`, `tcp` or `rr`, and would be ignored",
                &["leave it out"],
            )),
        }
    }
}
