//! `linerate fleet`: shows the rounds, and what comes of them.

pub mod args;
#[cfg(feature = "nats")]
mod broker;
#[cfg(feature = "nats")]
mod doctor;
#[cfg(feature = "nats")]
mod events;
#[cfg(feature = "nats")]
mod hosts;
pub mod metrics;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "nats")]
mod revoke;
mod schedule;
mod serve;
mod webhook;

use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};

use linerate_ask::{key, usage};
use linerate_drive::SystemClock;
#[cfg(feature = "nats")]
use linerate_drive::fleet::audit;
use linerate_drive::fleet::{
    Asked, Event, Keep, Reach, by_network, end, is_under_way, results, run as measure, time_of_test,
};
use linerate_drive::keep::SavedFile;
use linerate_fleet::matrix::Cell;
use linerate_fleet::plan::{Fleet, Pair};
use linerate_fleet::rounds::{least, rounds};
use linerate_fleet::written::Written;
use linerate_model::exit::Exit;
use linerate_model::fleet::FleetDocument;
use linerate_model::record::{ErrorKind, ErrorRecord, RunRecord};
use linerate_report::clean::clean;
use linerate_report::fleet as text;
use linerate_report::live::span;
use linerate_report::run::json;
use linerate_store::{Address, Place};

use self::args::{FleetArgs, Measured, RunArgs, Verb, Who, access};
#[cfg(not(feature = "nats"))]
use crate::agent::unbuilt;
use crate::output::{self, Look, Output};
use crate::screen::Screen;

/// Runs the verb.
pub fn run(args: &FleetArgs, look: Look) -> Result<Exit, ErrorRecord> {
    match &args.verb {
        Verb::Explain { who } => explain(who),
        Verb::Run(args) => run_all(args, look),
        Verb::Schedule(args) => schedule::run(args, look),
        Verb::Results { file, json, fail_on_change } => show(file, *json, *fail_on_change),
        Verb::Stop { file } => stop(file),
        Verb::Serve(args) => serve::serve(args),
        #[cfg(feature = "nats")]
        Verb::Init(args) => broker::init(args),
        #[cfg(feature = "nats")]
        Verb::Enrol(args) => broker::enrol(args),
        #[cfg(feature = "nats")]
        Verb::Hosts(args) => hosts::run(args, look),
        #[cfg(feature = "nats")]
        Verb::Doctor(args) => doctor::run(args, look),
        #[cfg(feature = "nats")]
        Verb::Events(args) => events::run(args),
        #[cfg(feature = "nats")]
        Verb::Revoke(args) => revoke::run(args),
        #[cfg(not(feature = "nats"))]
        Verb::Init(_)
        | Verb::Enrol(_)
        | Verb::Hosts(_)
        | Verb::Doctor(_)
        | Verb::Events(_)
        | Verb::Revoke(_) => Err(unbuilt("linerate fleet init")),
    }
}

fn show(file: &Place, as_json: bool, fail_on_change: bool) -> Result<Exit, ErrorRecord> {
    let document = results(file)?;
    let shown = match as_json {
        true => json::document(&document).map_err(|why| output::failed(&why, &[]))?,
        false => text::text(&document),
    };
    let exit = output::print(shown.as_bytes())?;
    let state = match is_under_way(file)? {
        true => "note: it is under way; `linerate fleet stop` ends it\n",
        false if document.interrupted => {
            "note: it ended before every pair had its turn; --resume goes on with it\n"
        }
        false => "",
    };
    let _ = stderr().write_all(state.as_bytes());
    let worse = fail_on_change && document.worse().next().is_some();
    Ok(if worse && exit == Exit::Complete { Exit::Found } else { exit })
}

fn stop(file: &Place) -> Result<Exit, ErrorRecord> {
    let stop = output::stop_at_signals()?;
    let ended = end(file, &SystemClock::default(), &stop)?;
    match ended {
        _ if stop.seen() => Ok(Exit::Interrupted),
        true => output::print(b"it has ended\n"),
        false => {
            output::print(format!("nobody measures into {}\n", clean(&file.to_string())).as_bytes())
        }
    }
}

fn explain(who: &Who) -> Result<Exit, ErrorRecord> {
    let written = who.written()?;
    let (fleet, pairs) = Who::asked(&written)?;
    let takes: Vec<_> = pairs.iter().map(|pair| fleet.resources(*pair)).collect();
    let rounds = rounds(&takes);
    let name = |host: usize| fleet.hosts().get(host).map_or("", String::as_str);
    let mut out = String::new();
    for (number, round) in rounds.iter().enumerate() {
        let of_round = round.iter().filter_map(|test| pairs.get(*test));
        let shown = of_round.map(|pair| format!("{} -> {}", name(pair.from), name(pair.to)));
        let shown = shown.collect::<Vec<_>>().join(", ");
        out.push_str(&format!("round {}: {}\n", number + 1, clean(&shown)));
    }
    let (count, rounds, least) = (pairs.len(), rounds.len(), least(&takes));
    out.push_str(&format!("{count} pairs in {rounds} rounds; no plan has fewer than {least}\n"));
    if who.plan_file.is_some() {
        let asked = asked_for((fleet, pairs), &[], written)?;
        let test_s = time_of_test(&asked)?.as_secs_f64();
        let [test, all] = [test_s, test_s * rounds as f64].map(span);
        out.push_str(&format!("{test} a test, {all} in all at least\n"));
    }
    output::print(out.as_bytes())
}

/// A new directory with a file for each record.
struct Records {
    folder: PathBuf,
    /// How many there are of each number: of a pair that is tried again each try may have one.
    tries: BTreeMap<usize, u32>,
    failed: Option<ErrorRecord>,
}

impl Records {
    fn new(folder: &Path) -> Result<Self, ErrorRecord> {
        std::fs::create_dir(folder).map_err(|why| {
            let what = format!("cannot keep records in `{}`", folder.display());
            let hints = ["a directory that does not exist yet, in one that does"];
            ErrorRecord::new(ErrorKind::Output, what, why.to_string(), &hints)
        })?;
        Ok(Self { folder: folder.to_owned(), tries: BTreeMap::new(), failed: None })
    }

    fn keep(&mut self, number: usize, from: &str, to: &str, record: &RunRecord) {
        let named = |name: &str| {
            let harmless = |c: char| c.is_ascii_alphanumeric() || c == '.';
            name.chars().map(|c| if harmless(c) { c } else { '_' }).take(60).collect::<String>()
        };
        let tries = self.tries.entry(number).or_default();
        *tries = tries.saturating_add(1);
        let again = if *tries > 1 { format!("-{tries}") } else { String::new() };
        let file = format!("{:06}-{}-{}{again}.json", number + 1, named(from), named(to));
        let mut record = record.clone();
        record.label = Some(format!("{from} -> {to}"));
        let file = SavedFile::new(&self.folder.join(file));
        if let Err(error) = file.and_then(|file| file.keep(json::document(&record))) {
            self.failed.get_or_insert(error);
        }
    }
}

fn asked(measured: &Measured, times: u32, keep: Option<Keep>) -> Result<Asked, ErrorRecord> {
    let written = measured.who.written()?;
    let key = measured.key_file.as_deref().map(key::read).transpose()?;
    let written = match measured.who.plan_file {
        Some(_) => written,
        None => Written {
            test: measured.test.clone(),
            metric: measured.metric.clone(),
            set: measured.set.clone(),
            ..written
        },
    };
    let asked = asked_for(Who::asked(&written)?, &key.unwrap_or_default(), written)?;
    Ok(Asked { retries: measured.retries, times, keep, ..asked })
}

fn asked_for(
    (fleet, pairs): (Fleet, Vec<Pair>),
    key: &[u8],
    Written { test, set, metric, .. }: Written,
) -> Result<Asked, ErrorRecord> {
    let hosts = fleet.hosts().iter().map(|host| access(host, key)).collect::<Result<_, _>>()?;
    let command = command();
    let (retries, times, keep) = (0, 1, None);
    Ok(Asked { fleet, pairs, hosts, test, set, metric, retries, times, keep, command })
}

/// The command line as it is kept, which a page shows.
fn command() -> Vec<String> {
    output::command().into_iter().map(without_secret).collect()
}

/// A word of it without the password of a database, and without what may be as good as one in the address of a webhook.
fn without_secret(word: String) -> String {
    let mut options = ["--keep=", "--webhook="].into_iter();
    let value = options.find_map(|option| word.strip_prefix(option)).unwrap_or(&word);
    let of_webhook = || value.parse::<webhook::Address>().ok().map(|address| address.shown());
    match Address::of(value).map(|address| address.to_string()).or_else(of_webhook) {
        Some(shown) => word.replace(value, &shown),
        None => word,
    }
}

fn run_all(args: &RunArgs, look: Look) -> Result<Exit, ErrorRecord> {
    let keep = args.keep.clone().map(|place| Keep { place, resume: args.resume });
    let asked = asked(&args.measured, args.times, keep)?;
    let mut records = args.records.as_deref().map(Records::new).transpose()?;
    let stop = output::stop_at_signals()?;
    let output = if args.json { Output::Json } else { Output::Text };
    let mut screen = Screen::new(output, look, stop.clone(), ());
    let mut on_event = |event: &Event<'_>| match *event {
        Event::Note(note) => {
            let _ = writeln!(stderr(), "note: {}", clean(note));
        }
        Event::Time { number, of } => {
            if output == Output::Text {
                screen.put(&text::time(number, of));
            }
        }
        // Of schedules.
        Event::Over { .. } | Event::Changed { .. } => {}
        Event::Ended { from, to, number, cell, unit, record } => {
            if let (Some(records), Some(record)) = (&mut records, record) {
                records.keep(number, from, to, record);
            }
            let value = match cell {
                Cell::Value(value) => Ok(*value),
                Cell::Missing(why) => Err(why.as_str()),
            };
            if output == Output::Text {
                screen.put(&text::row(from, to, value, unit));
            }
        }
    };
    let measure = |reach: &dyn Reach, on_event: &mut OnEvent<'_>| {
        measure(&asked, reach, &SystemClock::default(), &stop, on_event)
    };
    let document = reached(args.measured.nats.as_deref(), &asked, &mut on_event, measure)?;
    match output {
        Output::Text => screen.put(&text::text(&document)),
        _ => screen.json(json::document(&document)),
    }
    if let Some(error) = records.and_then(|records| records.failed) {
        return Err(error);
    }
    Ok(match screen.exit(None, &[])? {
        Exit::Complete => ended(&document),
        exit => exit,
    })
}

type OnEvent<'a> = dyn FnMut(&Event<'_>) + 'a;

/// Does some work with the hosts, by the network or by way of the broker of a directory.
fn reached(
    nats: Option<&Path>,
    asked: &Asked,
    on_event: &mut OnEvent<'_>,
    work: impl FnOnce(&dyn Reach, &mut OnEvent<'_>) -> Result<FleetDocument, ErrorRecord>,
) -> Result<FleetDocument, ErrorRecord> {
    match nats {
        None => work(&by_network, on_event),
        Some(_) if asked.fleet.may_meet() => {
            let hint = "direct connections: --key-file in the place of --nats";
            let why = "an agent is in one test at a time";
            Err(usage::error("cannot measure all pairs at once", why, &[hint]))
        }
        Some(dir) => by_agents(dir, asked, on_event, work),
    }
}

#[cfg(feature = "nats")]
fn by_agents(
    dir: &Path,
    asked: &Asked,
    on_event: &mut OnEvent<'_>,
    work: impl FnOnce(&dyn Reach, &mut OnEvent<'_>) -> Result<FleetDocument, ErrorRecord>,
) -> Result<FleetDocument, ErrorRecord> {
    broker::names(asked.fleet.hosts())?;
    let credentials = broker::credentials(dir)?;
    let audit = asked.keep.as_ref().map(|keep| audit(&keep.place)).transpose()?.flatten();
    let fleet = asked.fleet.clone();
    let agents = nats::Nats::connect(&credentials, fleet, audit, broker::millis())?;
    let document = work(&agents, on_event);
    let unwanted = agents.end(document.as_ref().is_ok_and(|document| !document.interrupted));
    if unwanted > 0 {
        let words =
            format!("{unwanted} results came after their tests were given up, and do not count");
        on_event(&Event::Note(&words));
    }
    document
}

#[cfg(not(feature = "nats"))]
fn by_agents(
    _: &Path,
    _: &Asked,
    _: &mut OnEvent<'_>,
    _: impl FnOnce(&dyn Reach, &mut OnEvent<'_>) -> Result<FleetDocument, ErrorRecord>,
) -> Result<FleetDocument, ErrorRecord> {
    Err(unbuilt("--nats"))
}

fn ended(document: &FleetDocument) -> Exit {
    match document.pairs.iter().flat_map(|pair| &pair.values).all(Option::is_some) {
        true => Exit::Complete,
        false if document.interrupted => Exit::Interrupted,
        false => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_try_of_a_pair_has_its_record() {
        let folder = std::env::temp_dir().join(format!("linerate-tries-{}", std::process::id()));
        let mut records = Records::new(&folder).unwrap();
        for (number, to) in [(0, "b-1"), (0, "b-1"), (1, "c")] {
            records.keep(number, "a", to, &linerate_testkit::records::tcp());
        }
        assert_eq!(records.failed, None);
        for name in ["000001-a-b_1.json", "000001-a-b_1-2.json", "000002-a-c.json"] {
            assert!(folder.join(name).exists(), "{name}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_kept_of_the_command_line_has_no_secret() {
        for (word, kept) in [
            ("--keep=postgres://a:s3cret@h/d", "--keep=postgres://a:***@h/d"),
            ("postgres://a:s3cret@h/d", "postgres://a:***@h/d"),
            ("--webhook=http://relay/s3cret?a=b", "--webhook=http://relay:80/***"),
            ("http://relay:8080/?key=s3cret", "http://relay:8080/***"),
            ("http://relay", "http://relay:80/"),
            ("--hosts=a,b", "--hosts=a,b"),
        ] {
            assert_eq!(without_secret(word.to_owned()), kept);
        }
    }
}
