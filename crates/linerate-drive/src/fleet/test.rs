//! The test of a fleet's pairs: what the user says once, made into what each host is asked to run.

use std::time::Duration;

use linerate_analysis::metric::{self, Metric};
use linerate_ask::common::Show;
use linerate_ask::{Asked as AskedTest, Measure, usage};
use linerate_model::plan::{Dialect, TrafficKind};
use linerate_model::record::ErrorRecord;
use linerate_runner::agent::{Access, RemoteTest};
use linerate_runner::client::Target;

use super::Asked;

/// What holds for all pairs.
pub(super) struct Wanted {
    /// The figure that is kept.
    pub(super) metric: &'static Metric,
    /// How long a test is.
    pub(super) time: Duration,
    /// For the user.
    pub(super) notes: Vec<String>,
}

/// A test that a host can be asked to run.
pub(super) struct Understood {
    pub(super) test: RemoteTest,
    time: Duration,
    notes: Vec<String>,
}

impl Wanted {
    /// Of the first pair: all others differ in nothing but who is measured.
    pub(super) fn of(asked: &Asked) -> Result<Self, ErrorRecord> {
        let first = asked.pairs.first().and_then(|pair| asked.hosts.get(pair.to));
        let first = first.ok_or_else(|| refused("there is no pair", &[]))?;
        let Understood { test, time, notes } = towards(&asked.test, first)?;
        let mut names = std::collections::BTreeSet::new();
        if let Some(twice) = asked.set.iter().find(|set| !names.insert(&set.name)) {
            return Err(refused(&format!("{} is set twice", twice.name), &["say it once"]));
        }
        if asked.fleet.may_meet() && !asked.set.is_empty() {
            let why = "a host on which something is set is in one test at a time";
            return Err(refused(why, &["without --at-once, or set it beforehand"]));
        }
        let usual = match test.plan.traffic.kind() {
            TrafficKind::Rr => "transactions_per_second",
            _ => "received_bps",
        };
        let name = asked.metric.as_deref().unwrap_or(usual);
        let Some(metric) = metric::find(name) else {
            let names: Vec<&str> = metric::METRICS.iter().map(|metric| metric.name).collect();
            let hint = format!("one of {}", names.join(", "));
            return Err(refused(&format!("there is no metric `{name}`"), &[&hint]));
        };
        Ok(Self { metric, time, notes })
    }
}

pub(super) fn refused(why: &str, hints: &[&str]) -> ErrorRecord {
    usage::error("cannot measure between hosts", why, hints)
}

/// The test with the server of one host.
pub(super) fn towards(words: &[String], to: &Access) -> Result<Understood, ErrorRecord> {
    let Some((verb, options)) = words.split_first() else {
        let hint = "linerate fleet run --hosts a,b,c --key-file KEY tcp -t 5s";
        return Err(refused("no test is named", &[hint]));
    };
    let port = to.port.to_string();
    let place = ["linerate", verb, &to.name, "--port", &port].map(str::to_owned);
    let command: Vec<String> = place.into_iter().chain(options.iter().cloned()).collect();
    let (asked, show) = match Measure::from_words(&command)? {
        Measure::Udp(args) => (args.asked()?, args.show),
        Measure::Tcp(args) => (args.asked()?, args.show),
        Measure::Rr(args) => (args.asked()?, args.show),
        _ => return Err(refused(&format!("{verb} is more than one test"), &["udp, tcp or rr"])),
    };
    check(&asked, show)?;
    let AskedTest { request, notes, .. } = asked;
    let Some(time) = request.plan.duration() else {
        let why = "how long a test by bytes or datagrams takes is not known before";
        return Err(refused(why, &["say how long: -t 5s"]));
    };
    let time = Duration::from_nanos(time.0.saturating_add(request.plan.warmup.0));
    let test = RemoteTest {
        name: to.name.clone(),
        port: to.port,
        plan: request.plan,
        size_from_mtu: request.size_from_mtu,
        ip: request.ip,
        discard: false,
        with_key: true,
        dialect: request.dialect,
        command,
    };
    Ok(Understood { test, time, notes })
}

fn ignored(option: &str, hint: &str) -> ErrorRecord {
    let what = format!("cannot use `{option}` of the test of a fleet");
    usage::error(what, "it would be ignored", &[hint])
}

/// Refuses what would be ignored.
fn check(asked: &AskedTest, show: Show) -> Result<(), ErrorRecord> {
    let request = &asked.request;
    for (given, option, hint) in [
        (
            request.key.is_some(),
            "--key-file",
            "it stands before the test, and is that of all hosts",
        ),
        (!matches!(request.target, Target::Host { .. }), "--send-only", "each pair has its server"),
        (request.bind.is_some(), "--bind", "each host sends from the address that its routes say"),
        (request.profile.is_some(), "--profile", "say what it holds"),
        (request.label.is_some(), "--label", "each record is named by its hosts"),
        (request.title.is_some(), "--title", "each record is named by its hosts"),
        (asked.save.is_some(), "--save", "--records DIR before the test keeps every record"),
    ] {
        if given {
            return Err(ignored(option, hint));
        }
    }
    if let Some(option) = show.given().next() {
        let hint = match option {
            "--json" => "it stands before the test",
            _ => "--json and --records DIR stand before the test",
        };
        return Err(ignored(option, hint));
    }
    match request.dialect {
        None | Some(Dialect::Native) => Ok(()),
        Some(_) => Err(refused("hosts of a fleet speak linerate's own dialect", &[])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access { name: "h2".into(), port: 5_301, ip: None, bind: None, key: vec![] }
    }

    fn understood(line: &str) -> Result<Understood, ErrorRecord> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        towards(&words, &access())
    }

    #[test]
    fn a_test_is_what_the_command_line_says() {
        let found = understood("udp -b 5M -t 2s -O 1s -l 200").unwrap();
        assert_eq!(
            found.test.command.join(" "),
            "linerate udp h2 --port 5301 -b 5M -t 2s -O 1s -l 200"
        );
        assert_eq!((found.test.name.as_str(), found.test.port), ("h2", 5_301));
        assert_eq!(found.time, Duration::from_secs(3));
        assert!(found.test.with_key && !found.test.discard);
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        for (line, named) in [
            ("", "no test is named"),
            ("sweep", "more than one test"),
            ("tcp -n 1M", "not known before"),
            ("tcp --local", "--local"),
            ("udp --send-only", "--send-only"),
            ("tcp --json", "--json"),
            ("tcp -v", "--verbose"),
            ("tcp --web", "--web"),
            ("tcp --bind 127.0.0.1", "--bind"),
            ("tcp --label x", "--label"),
            ("tcp --dialect iperf3", "own dialect"),
            ("tcp -t never", "-t"),
        ] {
            let Err(error) = understood(line) else { panic!("{line}") };
            assert_eq!(error.exit_code, 2, "{line}: {error:?}");
            assert!(format!("{error:?}").contains(named), "{line}: {error:?}");
        }
    }
}
