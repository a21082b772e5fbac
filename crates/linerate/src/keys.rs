//! `linerate keys`: makes, lists and revokes keys of single clients in the file that a server reads.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind as Io, Write, stderr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use clap::{Args, Subcommand};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use linerate_ask::help;
use linerate_drive::keep;
use linerate_model::exit::Exit;
use linerate_model::hours::Hours;
use linerate_model::key_list::{KeyList, KeyState, ListedBudget, ListedKey, ListedNetwork};
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::units::{BitRate, ByteCount, Nanos};
use linerate_runner::clock;
use linerate_runner::keys::{self, Budget, Fault, Key, Right, Secret, Table};

use crate::output::print;

/// Keys of single clients for `linerate serve --keys FILE`.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::keys())]
pub struct KeysArgs {
    /// What to do.
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Clone, Subcommand)]
enum Verb {
    /// Makes a key, and the file by which its client proves it (`--key-file`).
    #[command(after_help = help::tools("  linerate keys new ci --keys keys.toml --out ci.key\n  linerate keys new lab --keys keys.toml --expires 30d --rights test,settings --max-rate 1G > lab.key\n"))]
    New(Box<NewArgs>),
    /// Lists keys and budgets; no secrets.
    #[command(after_help = help::tools("  linerate keys list --keys keys.toml\n"))]
    List {
        #[command(flatten)]
        place: Place,
        /// Print them as one JSON document (`linerate schema keys`).
        #[arg(short = 'J', long)]
        json: bool,
    },
    /// Revokes a key: nobody gets a test with it any more, and those that run end.
    #[command(after_help = help::tools("  linerate keys revoke ci --keys keys.toml\n"))]
    Revoke {
        /// Its name, or its id.
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, Clone, Args)]
struct Place {
    /// The file with the keys that the server reads.
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
}

#[derive(Debug, Clone, Args)]
struct NewArgs {
    /// What it is called in the server's log: letters, digits, `.`, `_` and `-`.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    place: Place,
    /// File for the client, made for its owner alone [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// When it ends: after 30d, 2w or 12h, or with the beginning of a day, 2026-12-31.
    #[arg(long, value_name = "WHEN")]
    expires: Option<Expires>,
    /// What it is good for: `test`; `control`, for a controller of campaigns that runs tests from the server's host;
    /// `settings`, for one that changes its settings too.
    #[arg(long, value_name = "RIGHT", value_delimiter = ',', default_value = "test")]
    rights: Vec<Right>,
    /// Tests at once.
    #[arg(long, value_name = "N")]
    max_tests: Option<usize>,
    /// Most bytes of all its tests in 24 hours, both ways together.
    #[arg(long, value_name = "BYTES")]
    max_bytes_per_day: Option<ByteCount>,
    /// Largest rate of one direction of one test.
    #[arg(long, value_name = "RATE")]
    max_rate: Option<BitRate>,
    /// Hours of the day, local time of the server: 22:00-06:00. May be given several times.
    #[arg(long, value_name = "HOURS", value_delimiter = ',')]
    hours: Vec<Hours>,
}

/// `--expires`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expires {
    After(SignedDuration),
    Day(Date),
    At(Timestamp),
}

impl FromStr for Expires {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let days = |text: &str, unit: char, days: i64| {
            let number: u32 = text.strip_suffix(unit)?.parse().ok()?;
            SignedDuration::try_from_hours(i64::from(number) * days * 24)
        };
        let hours = || text.parse::<Nanos>().ok()?.as_duration().try_into().ok();
        let after = days(text, 'd', 1).or_else(|| days(text, 'w', 7)).or_else(hours);
        // A date that ends in no unit is none of these.
        let after =
            after.filter(|_| text.ends_with(|c: char| c.is_ascii_alphabetic())).map(Self::After);
        let day = || text.parse().map(Self::Day).ok();
        let at = || text.parse().map(Self::At).ok();
        let found = if text.contains('T') { at() } else { after.or_else(day) };
        found.ok_or_else(|| "it is a time from now (30d, 2w, 12h) or a day (2026-12-31)".to_owned())
    }
}

impl Expires {
    fn moment(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::After(time) => now.checked_add(time).ok(),
            Self::Day(day) => day.to_zoned(TimeZone::system()).ok().map(|day| day.timestamp()),
            Self::At(at) => Some(at),
        }
    }
}

/// Does it.
pub fn run(args: &KeysArgs) -> Result<Exit, ErrorRecord> {
    let now = clock::wall();
    match &args.verb {
        Verb::New(args) => new(args, now),
        Verb::List { place, json } => {
            let table = Table::read(&read(&place.keys)?).map_err(|e| unusable(&place.keys, e))?;
            let list = listed(&table, now);
            print(if *json { document(&list) } else { text(&list) }.as_bytes())
        }
        Verb::Revoke { name, place } => {
            change(&place.keys, |text| keys::revoke(text, name, now))?;
            let _ = writeln!(stderr(), "revoked the key `{name}` in {}", place.keys.display());
            Ok(Exit::Complete)
        }
    }
}

fn new(args: &NewArgs, now: Timestamp) -> Result<Exit, ErrorRecord> {
    let what = || format!("cannot make the key `{}`", args.name);
    let expires = args.expires.map(|when| when.moment(now).filter(|at| *at > now));
    if expires == Some(None) {
        let why = "it would have expired already, or in a year that this program does not know";
        return Err(ErrorRecord::new(ErrorKind::Usage, what(), why, &["--expires 30d"]));
    }
    let (id, secret) = keys::fresh();
    let key = Key {
        name: args.name.clone(),
        id,
        secret: Secret(secret),
        created: now,
        expires: expires.flatten(),
        revoked: None,
        rights: args.rights.clone(),
        budget: Budget {
            tests: args.max_tests,
            bytes_per_day: args.max_bytes_per_day.map(|bytes| bytes.0),
            rate: args.max_rate,
            hours: args.hours.clone(),
        },
    };
    let text = key.text() + "\n";
    let add = || change(&args.place.keys, |before| keys::add(before, &key));
    let Some(out) = &args.out else {
        add()?;
        return print(text.as_bytes());
    };
    // First, so that no key is in the server's file that nobody has.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(out);
    let kept =
        made.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    kept.map_err(|e| {
        let hint = "--out FILE with a name that is free, in a folder that may be written";
        let what = format!("cannot write the client's key file `{}`", out.display());
        ErrorRecord::new(ErrorKind::Output, what, e.to_string(), &[hint])
    })?;
    if let Err(error) = add() {
        let _ = fs::remove_file(out);
        return Err(error);
    }
    let (name, out) = (&args.name, out.display());
    let _ = writeln!(stderr(), "the key `{name}` is in {out}: --key-file {out} at its client");
    Ok(Exit::Complete)
}

/// The text of the file; nothing where there is none yet.
fn read(path: &Path) -> Result<String, ErrorRecord> {
    fs::read_to_string(path).map_err(|e| unusable(path, e))
}

fn unusable(path: &Path, why: impl ToString) -> ErrorRecord {
    let what = format!("cannot use the file of keys `{}`", path.display());
    ErrorRecord::new(ErrorKind::Usage, what, why.to_string(), &["docs/keys.md says what is in it"])
}

/// Writes the file anew. Two of these at once wait for each other.
fn change(
    path: &Path,
    edit: impl FnOnce(&str) -> Result<String, Fault>,
) -> Result<(), ErrorRecord> {
    let cannot = |why: io::Error| {
        let what = format!("cannot change the file of keys `{}`", path.display());
        let hints = ["what it says is unharmed", "its folder must be one that may be written"];
        ErrorRecord::new(ErrorKind::Output, what, why.to_string(), &hints)
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new("."))).map_err(cannot)?;
    folder.lock().map_err(cannot)?;
    let before = match fs::read_to_string(path) {
        Err(e) if e.kind() == Io::NotFound => String::new(),
        other => other.map_err(|e| unusable(path, e))?,
    };
    let after = edit(&before).map_err(|fault| unusable(path, fault))?;
    keep::replace_secret(path, &after).map_err(cannot)
}

fn listed(table: &Table, now: Timestamp) -> KeyList {
    let key = |key: &Arc<Key>| ListedKey {
        name: key.name.clone(),
        id: key.id.clone(),
        state: match (key.revoked, key.holds(now)) {
            (Some(_), _) => KeyState::Revoked,
            (None, Err(_)) => KeyState::Expired,
            (None, Ok(())) => KeyState::Holds,
        },
        rights: key.rights.iter().map(|right| right.name().to_owned()).collect(),
        created: key.created.to_string(),
        expires: key.expires.map(|at| at.to_string()),
        budget: budget(&key.budget),
    };
    let networks = table.networks.iter().map(|network| ListedNetwork {
        cidr: network.cidr.to_string(),
        budget: budget(&network.budget),
    });
    KeyList { keys: table.keys.iter().map(key).collect(), networks: networks.collect() }
}

fn budget(budget: &Budget) -> ListedBudget {
    let hours: Vec<String> = budget.hours.iter().map(ToString::to_string).collect();
    ListedBudget {
        max_tests: budget.tests.and_then(|tests| tests.try_into().ok()),
        max_bytes_per_day: budget.bytes_per_day,
        max_rate_bps: budget.rate.map(BitRate::bits_per_second),
        hours: (!hours.is_empty()).then(|| hours.join(",")),
    }
}

fn document(list: &KeyList) -> String {
    // Strings and numbers only: nothing that JSON has no form for.
    serde_json::to_string_pretty(list).unwrap_or_default() + "\n"
}

fn text(list: &KeyList) -> String {
    let mut rows = vec![["NAME", "ID", "STATE", "RIGHTS", "EXPIRES", "BUDGET"].map(str::to_owned)];
    for key in &list.keys {
        let local = |at: &String| {
            let at = at.parse::<Timestamp>().ok()?.to_zoned(TimeZone::system());
            Some(at.strftime("%Y-%m-%d %H:%M").to_string())
        };
        rows.push([
            key.name.clone(),
            key.id.clone(),
            key.state.name().to_owned(),
            key.rights.join(","),
            key.expires.as_ref().and_then(local).unwrap_or_else(|| "never".to_owned()),
            limits(&key.budget),
        ]);
    }
    let width =
        |n: usize| rows.iter().map(|row| row.get(n).map_or(0, String::len)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let padded = row.iter().enumerate().map(|(n, cell)| {
            let width = widths.get(n).copied().unwrap_or(0);
            format!("{cell:width$}")
        });
        text.push_str(padded.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    for network in &list.networks {
        text.push_str(&format!("network {}  {}\n", network.cidr, limits(&network.budget)));
    }
    text
}

fn limits(budget: &ListedBudget) -> String {
    let parts = [
        budget.max_tests.map(|tests| format!("{tests} tests at once")),
        budget.max_bytes_per_day.map(|bytes| format!("{bytes} bytes a day")),
        budget.max_rate_bps.and_then(BitRate::new).map(|rate| rate.to_string()),
        budget.hours.clone(),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_a_time_from_now_or_a_day() {
        let now: Timestamp = "2026-01-05T12:00:00Z".parse().unwrap();
        let at = |text: &str| text.parse::<Expires>().unwrap().moment(now).unwrap().to_string();
        assert_eq!(at("30d"), "2026-02-04T12:00:00Z");
        assert_eq!(at("2w"), "2026-01-19T12:00:00Z");
        assert_eq!(at("12h"), "2026-01-06T00:00:00Z");
        assert_eq!(at("2026-12-31T08:00:00Z"), "2026-12-31T08:00:00Z");
        let day: Date = "2026-12-31".parse().unwrap();
        assert_eq!("2026-12-31".parse(), Ok(Expires::Day(day)));
        for bad in ["", "30", "d", "-1d", "soon", "2026-13-01", "2026-12-31T", "1d2w"] {
            assert!(bad.parse::<Expires>().is_err(), "{bad}");
        }
        assert_eq!("4294967295w".parse::<Expires>().unwrap().moment(now), None, "no such year");
    }

    #[test]
    fn a_list_shows_no_secret() {
        let secret = "5e".repeat(32);
        let text = format!(
            "[[key]]\nname = \"ci\"\nid = \"0123456789abcdef\"\nsecret = \"{secret}\"\ncreated = \"2026-01-01T00:00:00Z\"\n\
             rights = [\"test\", \"settings\"]\nmax-tests = 2\nmax-rate = \"1G\"\n[[network]]\ncidr = \"192.0.2.0/24\"\n\
             hours = \"22:00-06:00\"\n"
        );
        let now = "2026-01-05T12:00:00Z".parse().unwrap();
        let list = listed(&Table::read(&text).unwrap(), now);
        assert!(!document(&list).contains(&secret[..10]));
        let shown = super::text(&list);
        assert!(!shown.contains(&secret[..10]), "{shown}");
        let row = "ci    0123456789abcdef  holds  test,settings  never    2 tests at once, 1.000 Gbit/s\n";
        assert!(
            shown.contains(row) && shown.ends_with("network 192.0.2.0/24  22:00-06:00\n"),
            "{shown}"
        );
    }
}
