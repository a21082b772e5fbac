//! `linerate fleet`: its arguments.

mod agents;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use linerate_ask::value::WebAddress;
use linerate_ask::{help, usage};
use linerate_fleet::plan::{Fleet, Pair, PlanError, Shape};
use linerate_fleet::schedule::{Every, seconds};
use linerate_fleet::written::{Written, read};
use linerate_model::plan::Dialect;
use linerate_model::record::ErrorRecord;
use linerate_model::setting::Setting;
use linerate_runner::agent::Access;
use linerate_store::Place;

pub use self::agents::{DoctorArgs, EnrolArgs, EventsArgs, HostsArgs, InitArgs, RevokeArgs};
use super::webhook::Address;

/// Many hosts measured with each other: all pairs, one against all or others, in rounds without conflict.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::fleet())]
pub struct FleetArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs of a fleet.
#[derive(Debug, Clone, Subcommand)]
pub enum Verb {
    /// Prints the rounds, and sends nothing.
    #[command(after_help = help::tools("  linerate fleet explain --hosts a,b,c,d
  linerate fleet explain --hosts a,b,c,d --share link:uplink=a,b
  linerate fleet explain --plan fleet.toml                     whether its test can be, and how long all takes\n"))]
    Explain {
        #[command(flatten)]
        who: Who,
    },
    /// Has each host of a pair test with the other: each runs
    /// `linerate serve --key-file FILE --allow-settings`.
    #[command(after_help = help::tools("  linerate fleet run --hosts a,b,c --key-file KEY tcp -t 5s
  linerate fleet run --hosts a,b,c --key-file KEY --pairs star=a --each-way udp -b 100M
  linerate fleet run --hosts a,b,c,d --key-file KEY --pairs bipartite=a,b,c/d --at-once tcp -O 2s
  linerate fleet run --hosts 10.0.0.1,10.0.0.2:5301 --key-file KEY --json rr > fleet.json
  linerate fleet run --hosts a,b,c,d --key-file KEY --each-way --times 4 --keep fleet.db udp -b 100M
  linerate fleet run --hosts a,b,c,d --key-file KEY --each-way --times 4 --keep fleet.db --resume udp -b 100M
  linerate fleet run --hosts a,b,c --key-file KEY --keep postgres://fleet@localhost/fleet udp -b 100M
  linerate fleet run --hosts rack-1,rack-2,rack-3 --nats fleet --keep fleet.db udp -b 100M
  linerate fleet run --plan fleet.toml --key-file KEY --keep fleet.db\n"))]
    Run(Box<RunArgs>),
    /// Measures all pairs again and again, for months, and says once what has changed.
    #[command(after_help = help::tools("  linerate fleet schedule --hosts a,b,c --key-file KEY --every 1h --jitter 5m --keep fleet.db tcp -t 5s
  linerate fleet schedule --hosts a,b,c --key-file KEY --every 1h --keep fleet.db --resume tcp -t 5s
  linerate fleet schedule --hosts a,b --key-file KEY --every 06:00,18:00 --keep-for 90d --keep fleet.db rr
  linerate fleet schedule --hosts a,b --key-file KEY --every 5m --for 30d --webhook http://127.0.0.1:8080/changes --keep fleet.db rr
  linerate fleet results fleet.db --fail-on-change\n"))]
    Schedule(Box<ScheduleArgs>),
    /// Prints what a run or a schedule has kept, also while it is under way: medians, which host or link is bad, and
    /// what has changed.
    #[command(after_help = help::tools("  linerate fleet results fleet.db
  linerate fleet results fleet.db --json
  linerate fleet results postgres://fleet@localhost/fleet
  linerate fleet results fleet.db --fail-on-change\n"))]
    Results {
        /// What --keep of `fleet run` or `fleet schedule` wrote: a file, or the address of a database.
        #[arg(value_name = "FILE")]
        file: Place,
        /// Print the JSON document of `fleet run --json`.
        #[arg(short = 'J', long)]
        json: bool,
        /// Exit code 5 when a pair is worse than before its newest change.
        #[arg(long)]
        fail_on_change: bool,
    },
    /// Ends a run or a schedule elsewhere, as Ctrl-C does, and waits until it has: what was measured is kept, and --resume
    /// goes on.
    #[command(after_help = help::tools("  linerate fleet stop fleet.db
  linerate fleet stop postgres://fleet@localhost/fleet\n"))]
    Stop {
        /// Its --keep: a file, or the address of a database.
        #[arg(value_name = "FILE")]
        file: Place,
    },
    /// Shows what a run has kept, also while it is under way, as a page in a browser: which host or link is bad, all
    /// pairs, the history of each, every test's report. Prints the page's address.
    #[command(after_help = help::tools("  linerate fleet serve fleet.db
  linerate fleet serve fleet.db --web=8080
  linerate fleet serve fleet.db --metrics                      for Prometheus alone, at 127.0.0.1:15203
  linerate fleet serve fleet.db --web --metrics=0.0.0.0:15203
  linerate fleet serve fleet.db --metrics --nats fleet         of the agents of a broker as well\n"))]
    Serve(ServeArgs),
    /// Makes a new directory with the keys of a fleet of agents and the configuration of its broker, a nats-server of 2.12 or
    /// later.
    #[command(after_help = help::tools("  linerate fleet init fleet --listen 192.0.2.1:4222 --cert cert.pem --cert-key key.pem
  linerate fleet init lab\n"))]
    Init(InitArgs),
    /// Prints a token with which one host becomes an agent, and waits for it.
    #[command(after_help = help::tools("  linerate fleet enrol fleet rack-3
  linerate fleet enrol fleet rack-3 --wait 1h --lifetime 8760h > token\n"))]
    Enrol(EnrolArgs),
    /// Prints the agents of a broker: when each was heard last, what no store has of its results, what its host has, and
    /// what its owner allows.
    #[command(after_help = help::tools("  linerate fleet hosts fleet
  linerate fleet hosts fleet rack-1                            all that is known of it
  linerate fleet hosts fleet --json                            (`linerate schema fleet-hosts`)\n"))]
    Hosts(HostsArgs),
    /// Looks at the broker and its agents: who is silent, what waits, what ends soon, what is set badly. Changes nothing.
    /// Exit code 5 where something is more than a note.
    #[command(after_help = help::tools("  linerate fleet doctor fleet
  linerate fleet doctor fleet -v                               every note with its reasons
  linerate fleet doctor fleet --json                           (`linerate schema fleet-doctor`)\n"))]
    Doctor(DoctorArgs),
    /// Prints what happened: leases granted and given back, tests refused, agents that were enrolled or revoked, came and
    /// went. The broker keeps it for 90 days.
    #[command(after_help = help::tools("  linerate fleet events fleet
  linerate fleet events fleet rack-1 --since 90d
  linerate fleet events fleet --json                           (`linerate schema fleet-events`)\n"))]
    Events(EventsArgs),
    /// Takes an agent away for good: ends its connection, and lets it in no more. Its name can be enrolled again.
    #[command(after_help = help::tools("  linerate fleet revoke fleet rack-3\n"))]
    Revoke(RevokeArgs),
}

/// Who scrapes it must know the port beforehand.
const METRICS_PORT: u16 = 15_203;

/// What `serve` takes.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// What `fleet run --keep` writes or wrote: a file, or the address of a database.
    #[arg(value_name = "FILE")]
    pub file: Place,
    /// Serve the page there; without --metrics it is served anyway. Only this host reaches it, on a free port, unless
    /// an ADDRESS is given: 8080, 192.0.2.1 or 192.0.2.1:8080.
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = WebAddress::DEFAULT
    )]
    pub web: Option<WebAddress>,
    /// Answer `GET /metrics` there in Prometheus' text format: the last figure of each pair and when it was measured,
    /// tests that failed, who is bad. Only this host reaches it, at port 15203, unless an ADDRESS is given.
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1"
    )]
    pub metrics: Option<WebAddress<METRICS_PORT>>,
    /// Ask the broker of this directory, which `fleet init` made, at each request for metrics: which of its agents are
    /// silent, and for how long results wait on them.
    #[arg(long, value_name = "DIR", requires = "metrics")]
    pub nats: Option<PathBuf>,
}

/// Who is measured, and how.
#[derive(Debug, Clone, Args)]
pub struct Measured {
    #[command(flatten)]
    pub who: Who,
    /// File with the key of all hosts.
    #[arg(long, value_name = "FILE", required_unless_present = "nats")]
    pub key_file: Option<PathBuf>,
    /// The hosts are agents of the broker of this directory, which `fleet init` made. Needs --keep.
    #[arg(long, value_name = "DIR", conflicts_with = "key_file", requires = "keep")]
    pub nats: Option<PathBuf>,
    /// A test without a result is tried again so many times, after all others.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(..=100))]
    pub retries: u32,
    /// Figure of each test, as `linerate compare --metric` [default: received_bps, of rr
    /// transactions_per_second].
    #[arg(long, value_name = "NAME", conflicts_with = "plan_file")]
    pub metric: Option<String>,
    /// Set this on both hosts of a test while it lasts: a name of docs/settings.md with its value, as offload.gro=off.
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "plan_file", value_parser = setting)]
    pub set: Vec<Setting>,
    /// The test: udp, tcp or rr with its options, without a host.
    #[arg(
        value_name = "TEST",
        required_unless_present = "plan_file",
        conflicts_with = "plan_file",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub test: Vec<String>,
}

/// What `run` takes.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub measured: Measured,
    /// Measure all pairs so many times, one after the other: from 3 on, which host or link is bad can be told.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub times: u32,
    /// Keep each result in this new file before its hosts go on; or in a database of PostgreSQL:
    /// postgres://USER@HOST/NAME.
    #[arg(long, value_name = "FILE")]
    pub keep: Option<Place>,
    /// Go on with the file of --keep: what it has is not measured again. --times may be more than it was.
    #[arg(long, requires = "keep")]
    pub resume: bool,
    /// Keep the record of every test in this new directory.
    #[arg(long, value_name = "DIR")]
    pub records: Option<PathBuf>,
    /// Print one JSON document when all is over.
    #[arg(short = 'J', long)]
    pub json: bool,
}

/// What `schedule` takes.
#[derive(Debug, Clone, Args)]
pub struct ScheduleArgs {
    #[command(flatten)]
    pub measured: Measured,
    /// When all pairs are measured, in UTC: 1h is at each full hour, 06:00,18:30 twice a day. A moment at which the
    /// time before is still under way, or this machine sleeps, is missed.
    #[arg(long, value_name = "TIME|HH:MM,HH:MM…")]
    pub every: Every,
    /// Begin each time later by a part of this, which differs from file to file and from time to time.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = length)]
    pub jitter: u64,
    /// End after so long [default: at Ctrl-C].
    #[arg(long = "for", value_name = "TIME", value_parser = length)]
    pub lasts: Option<u64>,
    /// Keep each result in this file before its hosts go on; or in a database of PostgreSQL:
    /// postgres://USER@HOST/NAME.
    #[arg(long, value_name = "FILE")]
    pub keep: Place,
    /// Go on with the file of --keep if it is there.
    #[arg(long)]
    pub resume: bool,
    /// Delete results with their records once they are older than this; what changes are judged by is kept
    /// [default: never].
    #[arg(long, value_name = "TIME", value_parser = length)]
    pub keep_for: Option<u64>,
    /// Post each change as JSON to this address, after each time again until it answers 2xx.
    #[arg(long, value_name = "http://HOST/PATH")]
    pub webhook: Option<Address>,
}

/// Seconds of a length of time.
fn length(text: &str) -> Result<u64, String> {
    let none = text.strip_suffix('s').is_some_and(|number| number == "0");
    if none { Some(0) } else { seconds(text) }
        .ok_or_else(|| "a whole number with s, m, h or d, as 90d".to_owned())
}

/// Which hosts, and which of them with which.
#[derive(Debug, Clone, Args)]
pub struct Who {
    /// A file with the hosts, pairs, groups, what is shared, what is set and the test, in the place of their options.
    #[arg(long = "plan", value_name = "FILE", conflicts_with_all = ["hosts", "pairs", "each_way", "at_once", "group", "share"])]
    pub plan_file: Option<PathBuf>,
    /// The hosts: HOST or HOST:PORT, an IPv6 address with a port in brackets.
    #[arg(
        long,
        value_name = "HOST,HOST…",
        value_delimiter = ',',
        required_unless_present = "plan_file"
    )]
    pub hosts: Vec<String>,
    /// Which are measured with which: all, star=H (H with each other one), bipartite=A,B/C,D (each of the first
    /// with each of the second), or a list of pairs A/B,C/D. The first of a pair is the client.
    #[arg(long, value_name = "SHAPE", default_value = "all")]
    pub pairs: Shape,
    /// Measure each pair the other way as well.
    #[arg(long)]
    pub each_way: bool,
    /// Measure all pairs at the same time that have different clients, to load servers and links with all of them.
    #[arg(long, conflicts_with = "share")]
    pub at_once: bool,
    /// A name for several hosts, for --pairs and --share.
    #[arg(long, value_name = "NAME=HOST,HOST…", value_parser = named)]
    pub group: Vec<(String, Vec<String>)>,
    /// What hosts share and carries one test at a time: hypervisor:NAME or nic:NAME with the hosts that use it,
    /// link:NAME with those on one side of it.
    #[arg(long, value_name = "KIND:NAME=HOST,HOST…", value_parser = named)]
    pub share: Vec<(String, Vec<String>)>,
}

/// `NAME=VALUE`.
fn setting(text: &str) -> Result<Setting, String> {
    let (name, value) = text.split_once('=').ok_or("no `=` is between the name and the value")?;
    Setting::new(name, linerate_ask::value::of_setting(value)).map_err(|why| why.to_string())
}

/// `NAME=A,B`.
fn named(text: &str) -> Result<(String, Vec<String>), String> {
    let (name, hosts) = text.split_once('=').ok_or("no `=` is between the name and the hosts")?;
    Ok((name.to_owned(), hosts.split(',').map(str::to_owned).collect()))
}

fn refused(error: PlanError) -> ErrorRecord {
    let hints: Vec<&str> = error.hint.as_deref().into_iter().collect();
    usage::error(error.what, error.why, &hints)
}

impl Who {
    /// What the options say, or the file of --plan in their place.
    pub fn written(&self) -> Result<Written, ErrorRecord> {
        let Some(path) = &self.plan_file else {
            return Ok(Written {
                hosts: self.hosts.clone(),
                groups: self.group.clone(),
                share: self.share.clone(),
                pairs: self.pairs.clone(),
                each_way: self.each_way,
                may_meet: self.at_once,
                test: Vec::new(),
                metric: None,
                set: Vec::new(),
            });
        };
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|why| {
            usage::error(format!("cannot read the plan `{shown}`"), why.to_string(), &[])
        })?;
        read(&text).map_err(|error| {
            refused(PlanError { what: format!("{} `{shown}`", error.what), ..error })
        })
    }

    /// The fleet and its pairs.
    pub fn asked(written: &Written) -> Result<(Fleet, Vec<Pair>), ErrorRecord> {
        written.fleet().map_err(refused)
    }
}

/// How a host is reached that was named as `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`.
pub fn access(text: &str, key: &[u8]) -> Result<Access, ErrorRecord> {
    let (name, port) = match text.rsplit_once(':') {
        // Of an address in IPv6 without brackets this is no port.
        Some((name, port)) if name.ends_with(']') || !name.contains(':') => (name, Some(port)),
        _ => (text, None),
    };
    let port = match port.map(str::parse::<u16>) {
        None => Dialect::Native.port(),
        Some(Ok(port)) if port > 0 => port,
        Some(_) => {
            let what = format!("cannot use the host `{text}`");
            return Err(usage::error(what, "its port is none of 1 to 65535", &["HOST:5201"]));
        }
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    Ok(Access { name: bare.to_owned(), port, ip: None, bind: None, key: key.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_with_and_without_ports() {
        for (text, name, port) in [
            ("a", "a", 5_201),
            ("a:5301", "a", 5_301),
            ("192.0.2.7", "192.0.2.7", 5_201),
            ("2001:db8::7", "2001:db8::7", 5_201),
            ("[2001:db8::7]", "2001:db8::7", 5_201),
            ("[2001:db8::7]:5301", "2001:db8::7", 5_301),
        ] {
            let found = access(text, b"").unwrap();
            assert_eq!((found.name.as_str(), found.port), (name, port), "{text}");
        }
        for text in ["a:", "a:0", "a:x", "a:65536"] {
            assert!(access(text, b"").is_err(), "{text}");
        }
    }
}
