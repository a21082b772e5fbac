//! A profile: a test, or two that are compared, while the stacks of this host's CPUs are sampled.

use std::path::Path;
use std::time::Duration;

use linerate_analysis::profile::{complete, difference, work};
use linerate_ask::profile::{BESIDE_KNEE, ProfileArgs, Sampling, Tested, at_rate};
use linerate_ask::{Asked, usage};
use linerate_host::profile::{self as sampled, Refused, SampleOptions, Sampler};
use linerate_model::profile::{
    Difference, FORMAT, HostProfile, Knee, Profile, ProfileDocument, Scope, Unsampled,
};
use linerate_model::record::{
    DoubtKind, ErrorKind, ErrorRecord, Interval, ProgramFacts, RunRecord, Status, TestEnd,
};
use linerate_model::search::SearchDocument;
use linerate_model::test_event::TestEvent;
use linerate_runner::agent::{Access, HostAgent as _, Remote};
use linerate_runner::client::{Request, Target};
use linerate_runner::signals::Stop;
use linerate_session::observer::{Observer, Said};

use crate::search::{Event, Search};
use crate::{Clock, Env};

/// Larger files are no profiles.
const MOST_BYTES: u64 = 1 << 30;

/// Samples and tests, or compares what was sampled before.
///
/// # Errors
/// When nothing can be run: words that make no sense, files that are no profiles.
pub fn run(
    args: &ProfileArgs,
    command: Vec<String>,
    env: &mut Env<'_>,
) -> Result<ProfileDocument, ErrorRecord> {
    let blank = |target| ProfileDocument {
        format: FORMAT,
        kind: "profile".to_owned(),
        started: env.clock.date(),
        linerate: ProgramFacts { version: env!("CARGO_PKG_VERSION").to_owned() },
        command: command.clone(),
        target,
        knee: None,
        profiles: Vec::new(),
        differences: Vec::new(),
        error: None,
    };
    let mut document = match (&args.test, &args.compare[..]) {
        (Some(tested), _) => {
            let asked = tested.asked()?;
            let mut document = blank(asked.request.target.name().map(str::to_owned));
            document.error = tests(tested, asked, &command, &mut document, env)?;
            document
        }
        (None, [first, second]) => {
            let profiles = [saved(first)?, saved(second)?];
            let target = profiles.iter().find_map(|profile| profile.run.target.clone());
            ProfileDocument { profiles: profiles.into(), ..blank(target) }
        }
        _ => {
            return Err(usage::error(
                "nothing to profile was given",
                "it needs a kind of test and a host, or two profiles that were kept",
                &["linerate profile udp --local", "linerate profile --compare A.json B.json"],
            ));
        }
    };
    if let [first, second] = &document.profiles[..] {
        let what = "cannot compare the two profiles";
        match differences(first, second) {
            Ok(found) => document.differences = found,
            Err(why) if args.test.is_none() => {
                return Err(usage::error(what, why, &["profile both alike: --sample, --event"]));
            }
            // The tests were run: what they gave is kept.
            Err(why) => {
                let error = || ErrorRecord::new(ErrorKind::Unable, what, why, &[]);
                document.error.get_or_insert_with(error);
            }
        }
    }
    Ok(document)
}

/// Runs all tests; what keeps them from being all that was asked for.
fn tests(
    tested: &Tested,
    asked: Asked,
    command: &[String],
    document: &mut ProfileDocument,
    env: &mut Env<'_>,
) -> Result<Option<ErrorRecord>, ErrorRecord> {
    let sampling = tested.sampling();
    let mut plans = vec![(String::new(), asked.clone())];
    if let Some(options) = &sampling.against {
        let other = Tested::against(command, options)?.asked()?;
        plans = vec![("as given".to_owned(), asked), (format!("with {options}"), other)];
    } else if let Some(search) = tested.search()? {
        let found = Search::new(&search, command.to_vec(), env.clock)?.run(env);
        let (knee, beside) = match beside_knee(&found) {
            Ok(found) => found,
            Err(error) => return Ok(Some(error)),
        };
        document.knee = Some(knee);
        let at = |(name, bps): (&str, f64)| (name.to_owned(), at_rate(&asked, bps));
        plans = beside.into_iter().map(at).collect();
    }
    for (name, asked) in plans {
        for note in &asked.notes {
            env.watcher.search(&Event::Note(note));
        }
        let request = Request { command: command.to_vec(), ..asked.request };
        let profile = one(name, &request, sampling, env);
        let failed = profile.run.error.clone().filter(|_| profile.run.status != Status::Complete);
        let unsampled = profile.hosts.is_empty().then(|| not_sampled(&profile));
        document.profiles.push(profile);
        if failed.is_some() {
            return Ok(failed);
        }
        if let Some(error) = unsampled {
            // The second test would be without samples as well.
            return Ok(Some(error));
        }
    }
    Ok(None)
}

fn not_sampled(profile: &Profile) -> ErrorRecord {
    let first = profile.unsampled.first();
    let (why, hints) = first.map_or(("the test never began".to_owned(), Vec::new()), |first| {
        (first.why.clone(), first.hints.clone())
    });
    ErrorRecord::new(ErrorKind::Unable, "cannot sample this host's CPUs", why, &[])
        .with_hints(hints)
}

/// Two rates, bit/s, with their names.
type Beside = [(&'static str, f64); 2];

/// A rate below and one above what a search found, with their names.
fn beside_knee(found: &SearchDocument) -> Result<(Knee, Beside), ErrorRecord> {
    let unable = |why: &str| {
        let what = "cannot profile below and above the knee";
        let error =
            ErrorRecord::new(ErrorKind::Unable, what, why, &["--rate, and --against '--rate …'"]);
        found.error.clone().unwrap_or(error)
    };
    let goal = found.goals.first().ok_or_else(|| unable("the search gave no answer"))?;
    let knee = Knee {
        lower_bps: goal.lower_bps,
        upper_bps: goal.upper_bps,
        settled: goal.settled,
        limit: goal.limit,
    };
    let lower = goal.lower_bps.ok_or_else(|| unable("the search found no rate that holds"))?;
    let Some(upper) = goal.upper_bps else {
        return Err(unable(
            "the search found no rate that fails: all that this sender sends arrives",
        ));
    };
    let below = ("below the knee", lower * (1.0 - BESIDE_KNEE));
    Ok((knee, [below, ("above the knee", upper * (1.0 + BESIDE_KNEE))]))
}

/// Runs a test while stacks are sampled: those of the far host a little longer, from before its streams exist.
fn one(name: String, request: &Request, sampling: &Sampling, env: &mut Env<'_>) -> Profile {
    let far = far_begins(request, &env.stop);
    let (run, here) = here(request, sampling, env);
    let far = far.and_then(|mut agent| agent.sample_end().map_err(far_error));
    // Of a server beside this process its threads are seen with the cores alone.
    let one_kernel = run.doubts.iter().any(|doubt| doubt.kind == DoubtKind::SharedHost);
    let cores = matches!(&here, Ok(Some(host)) if host.scope == Scope::Cores);
    let shared = request.target == Target::Local || (one_kernel && cores);
    let mut ends = vec![TestEnd::Client];
    ends.extend(shared.then_some(TestEnd::Server));
    let (mut hosts, mut unsampled) = (Vec::new(), Vec::new());
    match here {
        Ok(host) => hosts.extend(host.map(|host| HostProfile { ends, ..host })),
        Err(Refused { why, hints }) => unsampled.extend(ends.into_iter().map(|host| Unsampled {
            host,
            why: why.clone(),
            hints: hints.clone(),
        })),
    }
    // Under one kernel both are one, and where nobody answers there is none.
    match far {
        _ if shared || matches!(request.target, Target::Discard { .. }) => {}
        Ok(host) => hosts.push(host),
        Err(why) => unsampled.push(why),
    }
    let work = work(&run);
    let hosts = hosts.into_iter().map(|host| complete(HostProfile { work, ..host })).collect();
    Profile { name, run: Box::new(run), hosts, unsampled }
}

/// The test, and what was sampled of this host; nothing where it did not come so far.
fn here(
    request: &Request,
    sampling: &Sampling,
    env: &mut Env<'_>,
) -> (RunRecord, Result<Option<HostProfile>, Refused>) {
    let event = sampling
        .cycles()
        .map(|cycles| if cycles { sampled::Event::Cycles } else { sampled::Event::Clock });
    // From this thread: it starts those of the test.
    let opened = sampled::open(SampleOptions { scope: sampling.scope(), event });
    let sampler = opened.and_then(|opened| opened.start().map_err(failed));
    let mut watch =
        Watch { inner: env.watcher, sampler: sampler.as_ref().ok(), clock: env.clock, begun: None };
    let run = env.executor.run(request, &mut watch, &env.stop);
    let begun = watch.begun;
    let taken = sampler.and_then(|mut sampler| {
        let Some(begun) = begun else { return Ok(None) };
        let seconds = env.clock.elapsed().saturating_sub(begun).as_secs_f64();
        let samples = sampler.end().map_err(failed)?;
        Ok(Some(samples.of_host(Vec::new(), seconds)))
    });
    (run, taken)
}

/// The far host, which samples from now on; or why it does not.
fn far_begins(request: &Request, stop: &Stop) -> Result<Remote, Unsampled> {
    let (Target::Host { name, port }, Some(key)) = (&request.target, &request.key) else {
        return Err(Unsampled {
            host: TestEnd::Server,
            why: "the server's CPUs were not sampled: without a key only this host is".to_owned(),
            hints: vec![
                "--key-file, and `linerate serve --key-file FILE --allow-settings --allow-profile` there".to_owned(),
            ],
        });
    };
    let access = Access {
        name: name.clone(),
        port: *port,
        ip: request.ip,
        bind: request.bind,
        key: key.clone(),
    };
    let begun = Remote::connect_until(&access, stop).and_then(|mut agent| {
        // Only who knows the question is asked it.
        if !agent.facts()?.1.profile {
            let (what, why) = ("sampling is refused", "that host lets nobody sample its CPUs");
            let hint = "start its server with --allow-settings --allow-profile";
            return Err(ErrorRecord::new(ErrorKind::Policy, what, why, &[hint]));
        }
        agent.sample_begin()?;
        Ok(agent)
    });
    begun.map_err(far_error)
}

fn far_error(error: ErrorRecord) -> Unsampled {
    Unsampled {
        host: TestEnd::Server,
        why: format!("the server's CPUs were not sampled: {}: {}", error.what, error.why),
        hints: error.hints,
    }
}

fn failed(error: std::io::Error) -> Refused {
    Refused { why: error.to_string(), hints: Vec::new() }
}

/// What differs on each host that both have, or why that cannot be told.
fn differences(first: &Profile, second: &Profile) -> Result<Vec<Difference>, String> {
    let mut found = Vec::new();
    for host in &second.hosts {
        let same = first.hosts.iter().find(|other| other.ends == host.ends);
        let Some(other) = same else { continue };
        let [first, second] = [other, host].map(way);
        if first != second {
            return Err(format!("the first sampled {first}, the second {second}"));
        }
        found.push(difference(other, host));
    }
    if found.is_empty() {
        let [first, second] = [first, second].map(ends);
        return Err(format!(
            "they have no host in common: the first sampled that of {first}, the second that of {second}"
        ));
    }
    Ok(found)
}

/// How a host was sampled.
fn way(host: &HostProfile) -> String {
    let what = match host.scope {
        Scope::Cores => "whole cores",
        Scope::Threads => "linerate's threads",
    };
    let every = host.period_cycles.map_or(String::new(), |cycles| format!(", one in {cycles}"));
    format!("{what} by {}{every}", linerate_model::clean::clean(&host.event))
}

/// Which ends' hosts a profile has.
fn ends(profile: &Profile) -> String {
    let host = |host: &HostProfile| {
        let ends: Vec<_> = host.ends.iter().map(|end| end.name()).collect();
        ends.join(" and ")
    };
    let hosts: Vec<_> = profile.hosts.iter().map(host).collect();
    if hosts.is_empty() { "nobody".to_owned() } else { hosts.join(", ") }
}

/// The first profile of a file, by the file's name where it has none of its own.
fn saved(path: &Path) -> Result<Profile, ErrorRecord> {
    let fault = |why: String| {
        let what = format!("cannot use the profile `{}`", path.display());
        usage::error(what, why, &["it is written by: linerate profile udp HOST --save FILE"])
    };
    let size = std::fs::metadata(path).map_err(|e| fault(e.to_string()))?.len();
    if size > MOST_BYTES {
        return Err(fault(format!("it has {size} bytes, and no profile is so long")));
    }
    let bytes = std::fs::read(path).map_err(|e| fault(e.to_string()))?;
    let document = read(&bytes).map_err(fault)?;
    let found = document.profiles.into_iter().find(|profile| !profile.hosts.is_empty());
    let mut profile = found.ok_or_else(|| fault("no host was sampled".to_owned()))?;
    let file = path.file_stem().unwrap_or_default().to_string_lossy();
    profile.name = match profile.name.as_str() {
        "" => file.into_owned(),
        name => format!("{file}: {name}"),
    };
    // By the rules of this version, which the other one has as well then.
    let work = work(&profile.run);
    let again = |host| complete(HostProfile { work, ..host });
    profile.hosts = profile.hosts.into_iter().map(again).collect();
    Ok(profile)
}

/// A document that was kept.
fn read(bytes: &[u8]) -> Result<ProfileDocument, String> {
    #[derive(serde::Deserialize)]
    struct Head {
        format: u32,
        kind: String,
    }
    let head: Head =
        serde_json::from_slice(bytes).map_err(|e| format!("it is no profile of linerate: {e}"))?;
    if head.kind != "profile" {
        return Err(format!(
            "it is a document of kind `{}`",
            linerate_model::clean::clean(&head.kind)
        ));
    }
    if head.format > FORMAT {
        let format = head.format;
        return Err(format!("format {format} is newer than this version reads ({FORMAT})"));
    }
    ProfileDocument::from_json(bytes).map_err(|e| format!("it lacks something: {e}"))
}

/// Hands everything on, and begins to sample when the streams exist.
struct Watch<'a> {
    inner: &'a mut dyn crate::Watcher,
    sampler: Option<&'a Sampler>,
    clock: &'a dyn Clock,
    begun: Option<Duration>,
}

impl Observer for Watch<'_> {
    fn start(&mut self, record: &RunRecord) {
        if let Some(sampler) = self.sampler {
            sampler.begin();
            self.begun = Some(self.clock.elapsed());
        }
        self.inner.start(record);
    }
    fn interval(&mut self, interval: &Interval) {
        self.inner.interval(interval);
    }
    fn event(&mut self, event: &TestEvent) {
        self.inner.event(event);
    }
    fn said(&mut self, said: &Said<'_>) {
        self.inner.said(said);
    }
    fn note(&mut self, text: &str) {
        self.inner.note(text);
    }
    fn end(&mut self, record: &RunRecord) {
        self.inner.end(record);
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::profile::Stack;
    use linerate_testkit::records;

    use super::*;

    fn profile(ends: &[TestEnd], scope: Scope, event: &str) -> Profile {
        let host = HostProfile {
            ends: ends.to_vec(),
            scope,
            event: event.to_owned(),
            frequency_hz: Some(499),
            period_cycles: None,
            cores: 1,
            seconds: 1.0,
            samples: 0,
            idle_samples: None,
            lost_samples: 0,
            unstored_samples: 0,
            notes: vec![],
            work: None,
            layers: vec![],
            paths: vec![],
            functions: vec![],
            stacks: vec![Stack { frames: "send-0;run".to_owned(), samples: 9 }],
        };
        let hosts = vec![complete(host)];
        Profile { name: String::new(), run: Box::new(records::tcp()), hosts, unsampled: vec![] }
    }

    #[test]
    fn what_was_not_sampled_alike_is_not_compared() {
        let (client, both) = ([TestEnd::Client], [TestEnd::Client, TestEnd::Server]);
        let cores = profile(&client, Scope::Cores, "cpu-clock");
        assert_eq!(differences(&cores, &cores).unwrap().len(), 1);
        let mut by_period = cores.clone();
        by_period.hosts[0].period_cycles = Some(9);
        for (other, says) in [
            (profile(&client, Scope::Threads, "cpu-clock"), "the second linerate's threads"),
            (profile(&client, Scope::Cores, "cycles"), "whole cores by cycles"),
            (by_period, "by cpu-clock, one in 9"),
            (profile(&both, Scope::Cores, "cpu-clock"), "the second that of client and server"),
            (Profile { hosts: vec![], ..cores.clone() }, "the second that of nobody"),
        ] {
            let why = differences(&cores, &other).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
    }

    #[test]
    fn what_is_no_profile_is_refused_with_its_reason() {
        for (text, says) in [
            ("", "no profile"),
            ("[]", "no profile"),
            ("{\"format\":1,\"kind\":\"search\"}", "kind `search`"),
            ("{\"format\":2,\"kind\":\"profile\"}", "newer"),
            ("{\"format\":1,\"kind\":\"profile\"}", "lacks something"),
        ] {
            let why = read(text.as_bytes()).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
