//! A campaign: settings x reboots x runs by one plan, crash-safe.

mod agent;
mod drive;
pub(crate) mod figure;
mod hosts;
mod prepare;
mod status;
mod work;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use linerate_ask::usage;
use linerate_experiment::campaign::control::{Controller, Pace};
use linerate_experiment::campaign::design;
use linerate_experiment::campaign::plan::{self, Fault, Plan};
use linerate_model::campaign::{Event as Kept, Slot, StoredRun};
use linerate_model::exit::Exit;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_runner::signals::Stop;
use linerate_store::{Campaign, MAGIC, Meta, Reader, StoreError};
use sha2::{Digest as _, Sha256};

pub use self::agent::{Hosts, NetworkHosts};
use self::drive::Drive;
pub use self::drive::Ended;
use self::hosts::Fleet;
pub use self::prepare::{Prepared, Test};
pub use self::status::status;
use crate::Env;

/// How a campaign goes.
#[derive(Debug)]
pub enum Event<'a> {
    /// It starts or goes on.
    Began {
        /// What was planned.
        plan: &'a Plan,
        /// Where it stands.
        controller: &'a Controller,
    },
    /// Something durable happened.
    Happened(&'a Kept),
    /// A run starts.
    Running {
        /// Its place in the design.
        slot: &'a Slot,
        /// From 1.
        attempt: u32,
        /// Where the campaign stands.
        controller: &'a Controller,
        /// Planned length of the run, seconds.
        length_s: f64,
        /// To the end of the campaign, seconds.
        left_s: f64,
    },
    /// A run was kept: its commit is on the disk.
    Ran {
        /// The run.
        run: &'a StoredRun,
        /// Where the campaign stands.
        controller: &'a Controller,
        /// To the end of the campaign, seconds.
        left_s: f64,
    },
    /// A host was put back, but for what is left.
    Restored {
        /// Its name in the plan.
        host: &'a str,
        /// In words.
        left: &'a [String],
    },
    /// For the user.
    Note(&'a str),
    /// It is over for now.
    Over {
        /// What was planned.
        plan: &'a Plan,
        /// Where it stands.
        controller: &'a Controller,
        /// Where it is kept.
        store: &'a Path,
        /// What could not be put back, in words, by host; hosts without any are left out.
        left: &'a BTreeMap<String, Vec<String>>,
        /// Neither an error nor a stop has ended it.
        complete: bool,
    },
}

/// Where a slot is in the design.
pub fn place(slot: &Slot) -> String {
    let boot = if slot.boot > 0 { format!("boot {} · ", slot.boot) } else { String::new() };
    let kind = if slot.warmup { "warm-up" } else { "run" };
    format!("{boot}{kind} {} · {}", slot.number, slot.setting)
}

/// Names of the settings of a plan, as written, and of its baseline. None of what is no plan in
/// this version.
pub fn names(text: &str) -> Option<(Vec<String>, String)> {
    let plan = plan::parse(text, &prepare::vocabulary()).ok()?;
    let names: Vec<String> = plan.settings.into_iter().map(|s| s.name).collect();
    let baseline = names.get(plan.baseline)?.clone();
    Some((names, baseline))
}

/// A plan that can run.
pub struct Read {
    /// Its text.
    pub text: String,
    /// Where it is.
    pub path: PathBuf,
    /// Understood.
    pub plan: Plan,
    /// Its settings, ready.
    pub prepared: Vec<Prepared>,
}

impl Read {
    /// Reads and checks a file.
    pub fn of(path: &Path) -> Result<Self, ErrorRecord> {
        let what = || format!("cannot read the plan {}", path.display());
        let bytes = std::fs::read(path).map_err(|e| usage::error(what(), e.to_string(), &[]))?;
        if bytes.starts_with(MAGIC) {
            let hint = "`campaign resume`, `status` and `export` take stores too";
            return Err(usage::error(what(), "it is a store, not a plan", &[hint]));
        }
        let text = String::from_utf8(bytes)
            .map_err(|e| usage::error(what(), format!("it is no UTF-8 text: {e}"), &[]))?;
        Self::new(text, path)
    }

    /// Checks a plan; `path` is where it is.
    pub fn new(text: String, path: &Path) -> Result<Self, ErrorRecord> {
        let checked = plan::parse(&text, &prepare::vocabulary())
            .and_then(|plan| Ok((prepare::prepare(&plan)?, plan)));
        match checked {
            Ok((prepared, plan)) => Ok(Self { text, path: path.to_owned(), plan, prepared }),
            Err(faults) => Err(bad_plan(path, &faults)),
        }
    }

    /// The seed of the order: the plan's, or one made of its text, so that `explain` shows the
    /// order that will run.
    pub fn seed(&self) -> u64 {
        self.plan.repeat.seed.unwrap_or_else(|| {
            let digest: [u8; 32] = Sha256::digest(self.text.as_bytes()).into();
            let mut seed = [0; 8];
            seed.copy_from_slice(&digest[..8]);
            u64::from_le_bytes(seed)
        })
    }
}

/// All faults but the first become hints, so that one error reports them all.
fn bad_plan(path: &Path, faults: &[Fault]) -> ErrorRecord {
    /// Enough to mend at a time.
    const MOST_SHOWN: usize = 20;
    let line = |fault: &Fault| match &fault.hint {
        Some(hint) => format!("{fault} ({hint})"),
        None => fault.to_string(),
    };
    let mut hints: Vec<String> =
        faults.iter().skip(1).take(MOST_SHOWN).map(|f| format!("and {}", line(f))).collect();
    if faults.len() > MOST_SHOWN + 1 {
        hints.push(format!("and {} more", faults.len() - MOST_SHOWN - 1));
    }
    ErrorRecord::new(
        ErrorKind::Plan,
        format!("{} is no valid plan", path.display()),
        faults.first().map(line).unwrap_or_default(),
        &[],
    )
    .with_hints(hints)
}

/// Whether a file is an SQLite file.
pub fn is_store(path: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    std::fs::File::open(path).and_then(|mut f| f.read_exact(&mut head)).is_ok() && head == *MAGIC
}

/// A store's error for the user.
pub fn store_error(error: StoreError) -> ErrorRecord {
    let (kind, hints): (ErrorKind, &[&str]) = match &error {
        StoreError::Locked(_) => (
            ErrorKind::Locked,
            &[
                "`linerate campaign status` shows what it does",
                "one process at a time runs a campaign",
            ],
        ),
        StoreError::Exists(_) => {
            (ErrorKind::Exists, &["`linerate campaign resume` goes on with it"])
        }
        StoreError::Foreign(..) => {
            (ErrorKind::Foreign, &["give the campaign another store: --store FILE"])
        }
        StoreError::Unbuilt(_) => (ErrorKind::Usage, &["give a file"]),
        StoreError::Version(..) => {
            (ErrorKind::Version, &["use the version of linerate that began it"])
        }
        StoreError::Damaged(..) => (
            ErrorKind::Damaged,
            &[
                "`linerate campaign export --format json-lines` writes the runs that are still whole",
            ],
        ),
        StoreError::Io { full: true, .. } => (
            ErrorKind::DiskFull,
            &["make room, then `linerate campaign resume`: no run that was reported is lost"],
        ),
        StoreError::Io { .. } => {
            (ErrorKind::Store, &["`linerate campaign resume` goes on where it stands"])
        }
    };
    ErrorRecord::new(kind, "cannot use the campaign's store", error.to_string(), hints)
        .ending(Exit::Failed)
}

/// Begins the campaign of a plan, or goes on with one that was begun by this very plan.
///
/// # Errors
/// What the store or a host says against it.
pub fn begin(
    read: &Read,
    path: &Path,
    hosts: &mut dyn Hosts,
    env: &mut Env<'_>,
) -> Result<Ended, ErrorRecord> {
    let store = if path.exists() {
        let (store, meta) = open(path)?;
        same_plan(read, &meta, path)?;
        store
    } else {
        let seed = read.seed();
        let slots = design::slots(&read.plan, seed);
        let plan_path = std::path::absolute(&read.path).unwrap_or_else(|_| read.path.clone());
        let meta = Meta {
            name: read.plan.name.clone(),
            plan: read.text.clone(),
            plan_path,
            seed,
            created: env.clock.date(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        Campaign::create(path, &meta, &slots).map_err(store_error)?
    };
    Drive::new(&read.plan, &read.prepared, &read.path, store, hosts)?.run(env)
}

/// Goes on with the campaign of a store. A `plan` that is given must be its own.
///
/// # Errors
/// As [`begin`].
pub fn resume(
    plan: Option<&Path>,
    path: &Path,
    hosts: &mut dyn Hosts,
    env: &mut Env<'_>,
) -> Result<Ended, ErrorRecord> {
    let (store, meta) = open(path)?;
    if let Some(plan) = plan {
        same_plan(&Read::of(plan)?, &meta, path)?;
    }
    let read = Read::new(meta.plan.clone(), &meta.plan_path)?;
    let drive = Drive::new(&read.plan, &read.prepared, &read.path, store, hosts)?;
    let settled = drive.is_settled();
    match drive.run(env)? {
        // That it stayed short was reported by whoever settled it. A service that goes on with it would
        // begin again for ever.
        Ended::Short if settled => Ok(Ended::Done),
        ended => Ok(ended),
    }
}

/// Puts the hosts of a campaign back as they were before it. What is left, in words, by host.
///
/// # Errors
/// When the store cannot be used, or a host refuses for good.
pub fn restore(
    path: &Path,
    hosts: &mut dyn Hosts,
    date: &str,
) -> Result<BTreeMap<String, Vec<String>>, ErrorRecord> {
    let (mut store, meta) = open(path)?;
    let read = Read::new(meta.plan, &meta.plan_path)?;
    let mut fleet = Fleet::new(&read.plan, &read.prepared, &read.path, hosts)?;
    fleet.connect_all(&Stop::default())?;
    let mut found = fleet.restore();
    for name in fleet.unreached() {
        found.insert(name, vec!["it does not answer; it puts itself back".to_owned()]);
    }
    for (host, left) in &found {
        let event = Kept::Restored { host: host.clone(), left: left.clone() };
        store.keep(date, &event).map_err(store_error)?;
    }
    Ok(found)
}

/// Refuses a plan that is not the one the campaign began with, and shows the difference.
fn same_plan(read: &Read, meta: &Meta, store: &Path) -> Result<(), ErrorRecord> {
    if read.text == meta.plan {
        return Ok(());
    }
    let mut hints = changes(&meta.plan, &read.text);
    hints.push("put the plan back as it was, or begin anew: --store NEW.db".to_owned());
    Err(ErrorRecord::new(
        ErrorKind::PlanChanged,
        format!("cannot go on: {} was changed after the campaign began", read.path.display()),
        format!("{} holds runs of another plan; runs of two plans are no design", store.display()),
        &[],
    )
    .with_hints(hints))
}

/// The lines that one text has and another has not, each with its number in its own.
fn changes(old: &str, new: &str) -> Vec<String> {
    // With their ends, so that a text which differs in these alone differs.
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let (mut at, mut to, mut told) = (0, 0, Vec::new());
    while at < old.len() || to < new.len() {
        let (gone, came) = (old.get(at), new.get(to));
        if gone == came {
            at += 1;
            to += 1;
            continue;
        }
        // First goes the line whose like is further off in the other text, or nowhere.
        let kept = came.and_then(|line| old[at..].iter().position(|other| other == line));
        let again = gone.and_then(|line| new[to..].iter().position(|other| other == line));
        let leaves = again.is_none_or(|again| kept.is_some_and(|kept| kept < again));
        let (sign, line, number) = if gone.is_some() && leaves {
            at += 1;
            ('-', gone, at)
        } else {
            to += 1;
            ('+', came, to)
        };
        told.push(format!("line {number}: {sign} {}", line.map_or("", |line| line.trim_end())));
    }
    told
}

/// A store, opened to go on, and what was kept when it began.
fn open(path: &Path) -> Result<(Campaign, Meta), ErrorRecord> {
    let store = Campaign::open(path).map_err(store_error)?;
    let meta = store.reader().and_then(|reader| reader.meta()).map_err(store_error)?;
    Ok((store, meta))
}

/// The controller of a store's design, at its start.
fn controller(
    plan: &Plan,
    reader: &Reader,
    watched: Vec<String>,
) -> Result<Controller, ErrorRecord> {
    let rebooted = plan.rebooted().iter().map(|&h| plan.hosts[h].name.clone()).collect();
    let slots = reader.slots().map_err(store_error)?;
    Ok(Controller::new(slots, rebooted, watched, plan.repeat.retries))
}

/// Brings a controller to where a store stands. When the last run began is returned.
fn replay(controller: &mut Controller, reader: &Reader) -> Result<Option<String>, ErrorRecord> {
    let events = reader.events().map_err(store_error)?;
    let mut runs = reader.figures().map_err(store_error)?.into_iter();
    let mut began = None;
    for (at, event) in events {
        // Each end of a run has its row, in the same order.
        let why = match event {
            Kept::RunEnded { .. } => runs.next().and_then(|run: StoredRun| run.error),
            _ => None,
        };
        controller.observe(&event, why.as_deref());
        if matches!(event, Kept::RunBegan { .. }) {
            began = Some(at);
        }
    }
    Ok(began)
}

/// Seconds that are left of a campaign.
pub fn left(plan: &Plan, prepared: &[Prepared], controller: &Controller, pace: Pace) -> f64 {
    let nominal = |name: &str| {
        let at = plan.settings.iter().position(|s| s.name == name);
        let seconds = at.and_then(|at| prepared.get(at)).map_or(0.0, |p| p.seconds);
        seconds + plan.repeat.pause.as_secs_f64()
    };
    pace.left(controller.open(), controller.reboots_left(), nominal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_told_by_its_lines() {
        let old = "a\nb\nc\nd\n";
        for (new, told) in [
            (old, ""),
            ("a\nB\nc\nd\n", "line 2: - b, line 2: + B"),
            ("a\nc\nd\n", "line 2: - b"),
            ("a\nb\nx\ny\nc\nd\n", "line 3: + x, line 4: + y"),
            ("b\na\nc\nd\n", "line 1: + b, line 2: - b"),
            ("a\nb\nc\nd", "line 4: - d, line 4: + d"),
            ("", "line 1: - a, line 2: - b, line 3: - c, line 4: - d"),
        ] {
            assert_eq!(changes(old, new).join(", "), told, "{new:?}");
        }
    }
}
