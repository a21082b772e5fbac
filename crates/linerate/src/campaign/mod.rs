//! `linerate campaign`.

pub mod args;
mod drive;
mod explain;
pub mod export;
mod hands;
mod hosts;
mod show;
mod status;
mod tests;
mod unit;
mod work;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use linerate_experiment::campaign::control::{Controller, Pace};
use linerate_experiment::campaign::design;
use linerate_experiment::campaign::plan::{self, Fault, Plan};
use linerate_model::campaign::{Event, StoredRun};
use linerate_model::record::ErrorRecord;
use linerate_store::{Campaign, MAGIC, Meta, NewCampaign, Reader, StoreError};
use sha2::{Digest as _, Sha256};

use self::args::{CampaignArgs, Place, Verb, Which};
use self::drive::Drive;
use self::hosts::{Fleet, failure};
use self::show::Show;
use self::tests::Prepared;
use crate::exit::Exit;
use crate::output::Output;
use crate::usage;

/// Runs the verb.
pub fn run(args: &CampaignArgs) -> Result<Exit, ErrorRecord> {
    match &args.verb {
        Verb::Check { plan } => {
            let read = Read::of(plan)?;
            explain::check(&read);
            Ok(Exit::Complete)
        }
        Verb::Explain { plan } => {
            explain::explain(&Read::of(plan)?);
            Ok(Exit::Complete)
        }
        Verb::Run { plan, place, output } => begin(plan, place, (*output).into()),
        Verb::Resume { which, output } => resume(which, (*output).into()),
        Verb::Status { which, json } => status::status(&which.store()?, *json),
        Verb::Restore { which } => restore(which),
        Verb::Export { which, format, dir, metric, comments } => {
            export::export(&which.store()?, *format, dir, metric.as_deref(), *comments)
        }
        Verb::InstallUnit { plan, place, print, dir, no_enable } => {
            let read = Read::of(plan)?;
            unit::install(&read, &place.of(plan), *print, dir, !*no_enable)
        }
    }
}

/// Names of the settings of a plan, as written, and of its baseline. None of what is no plan in
/// this version.
pub fn names(text: &str) -> Option<(Vec<String>, String)> {
    let plan = plan::parse(text, &tests::vocabulary()).ok()?;
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
        Self::from(text, path)
    }

    fn from(text: String, path: &Path) -> Result<Self, ErrorRecord> {
        let checked = plan::parse(&text, &tests::vocabulary())
            .and_then(|plan| Ok((tests::prepare(&plan)?, plan)));
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

/// All faults but the first become hints, so that one error tells of them all.
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
    ErrorRecord {
        kind: "plan".into(),
        what: format!("{} is no valid plan", path.display()),
        why: faults.first().map(line).unwrap_or_default(),
        hints,
        exit_code: Exit::Usage as u8,
    }
}

impl Place {
    fn of(&self, plan: &Path) -> PathBuf {
        self.store.clone().unwrap_or_else(|| plan.with_extension("db"))
    }
}

impl Which {
    /// The store of what was named.
    fn store(&self) -> Result<PathBuf, ErrorRecord> {
        if let Some(store) = &self.place.store {
            return Ok(store.clone());
        }
        Ok(if is_store(&self.path) { self.path.clone() } else { self.place.of(&self.path) })
    }
}

/// Whether a file is an SQLite file.
pub fn is_store(path: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    std::fs::File::open(path).and_then(|mut f| f.read_exact(&mut head)).is_ok() && head == *MAGIC
}

/// RFC 3339, UTC.
pub fn now() -> String {
    jiff::Timestamp::now().to_string()
}

pub(crate) fn hostname() -> String {
    nix::unistd::gethostname().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

pub(crate) fn boot_id() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

/// A store's error for the user.
pub fn store_error(error: StoreError) -> ErrorRecord {
    let (kind, hints): (&str, &[&str]) = match &error {
        StoreError::Locked(_) => (
            "locked",
            &[
                "`linerate campaign status` shows what it does",
                "one process at a time runs a campaign",
            ],
        ),
        StoreError::Exists(_) => ("exists", &["`linerate campaign resume` goes on with it"]),
        StoreError::Foreign(..) => ("foreign", &["give the campaign another store: --store FILE"]),
        StoreError::Version(..) => ("version", &["use the version of linerate that began it"]),
        StoreError::Damaged(..) => (
            "damaged",
            &[
                "`linerate campaign export --format json-lines` writes the runs that are still whole",
            ],
        ),
        StoreError::Io { full: true, .. } => (
            "disk_full",
            &["make room, then `linerate campaign resume`: no run that was told is lost"],
        ),
        StoreError::Io { .. } => ("store", &["`linerate campaign resume` goes on where it stands"]),
    };
    failure(kind, "cannot use the campaign's store", error.to_string(), hints)
}

fn begin(plan: &Path, place: &Place, form: Output) -> Result<Exit, ErrorRecord> {
    let read = Read::of(plan)?;
    let path = place.of(plan);
    let store = if path.exists() {
        let store = Campaign::open(&path).map_err(store_error)?;
        let meta = store.reader().and_then(|r| r.meta()).map_err(store_error)?;
        same_plan(&read, &meta, &path)?;
        store
    } else {
        let seed = read.seed();
        let slots = design::slots(&read.plan, seed);
        let plan_path = std::path::absolute(plan).unwrap_or_else(|_| plan.to_owned());
        let new = NewCampaign {
            name: &read.plan.name,
            plan: &read.text,
            plan_path: &plan_path.to_string_lossy(),
            seed,
            created: &now(),
            version: env!("CARGO_PKG_VERSION"),
            slots: &slots,
        };
        Campaign::create(&path, &new).map_err(store_error)?
    };
    Drive::new(&read.plan, &read.prepared, &read.path, store, Show::new(form))?.run()
}

fn resume(which: &Which, form: Output) -> Result<Exit, ErrorRecord> {
    let path = which.store()?;
    if !path.exists() {
        return Err(failure(
            "no_store",
            format!("there is no campaign {}", path.display()),
            "no store of this name exists",
            &["`linerate campaign run PLAN` begins one"],
        ));
    }
    let store = Campaign::open(&path).map_err(store_error)?;
    let meta = store.reader().and_then(|r| r.meta()).map_err(store_error)?;
    if !is_store(&which.path) {
        same_plan(&Read::of(&which.path)?, &meta, &path)?;
    }
    let read = Read::from(meta.plan.clone(), &meta.plan_path)?;
    let drive = Drive::new(&read.plan, &read.prepared, &read.path, store, Show::new(form))?;
    let settled = drive.is_settled();
    match drive.run()? {
        // That it stayed short was told by whoever settled it. A service that goes on with it would
        // begin again for ever.
        Exit::Failed if settled => Ok(Exit::Complete),
        exit => Ok(exit),
    }
}

/// Refuses a plan that is not the one the campaign began with, and shows the difference.
fn same_plan(read: &Read, meta: &Meta, store: &Path) -> Result<(), ErrorRecord> {
    if read.text == meta.plan {
        return Ok(());
    }
    let diff = similar::TextDiff::from_lines(&meta.plan, &read.text);
    let mut hints = Vec::new();
    let mut line = 0;
    for change in diff.iter_all_changes() {
        let sign = match change.tag() {
            similar::ChangeTag::Delete => '-',
            similar::ChangeTag::Insert => '+',
            similar::ChangeTag::Equal => {
                line += 1;
                continue;
            }
        };
        let number = if sign == '+' { line + 1 } else { change.old_index().unwrap_or(0) + 1 };
        line += usize::from(sign == '+');
        hints.push(format!("line {number}: {sign} {}", change.value().trim_end()));
    }
    hints.push("put the plan back as it was, or begin anew: --store NEW.db".to_owned());
    Err(ErrorRecord {
        kind: "plan_changed".into(),
        what: format!("cannot go on: {} was changed after the campaign began", read.path.display()),
        why: format!(
            "{} holds runs of another plan; runs of two plans are no design",
            store.display()
        ),
        hints,
        exit_code: Exit::Usage as u8,
    })
}

fn restore(which: &Which) -> Result<Exit, ErrorRecord> {
    let path = which.store()?;
    let mut store = Campaign::open(&path).map_err(store_error)?;
    let meta = store.reader().and_then(|r| r.meta()).map_err(store_error)?;
    let read = Read::from(meta.plan, &meta.plan_path)?;
    let mut fleet = Fleet::new(
        &read.plan,
        &read.prepared,
        &hosts::folder(&read.path),
        linerate_runner::signals::Interrupts::default(),
    )?;
    fleet.connect_all()?;
    let mut all = true;
    let mut told = fleet.restore();
    for name in fleet.unreached() {
        told.insert(name, vec!["it does not answer; it puts itself back".to_owned()]);
    }
    for (host, left) in told {
        if left.is_empty() {
            println!("{host}: as before");
        }
        for what in &left {
            all = false;
            println!("{host}: {}", linerate_report::clean::clean(what));
        }
        store.keep(&now(), &Event::Restored { host, left }).map_err(store_error)?;
    }
    Ok(if all { Exit::Complete } else { Exit::Failed })
}

/// Brings a controller to where a store stands.
pub fn replay(controller: &mut Controller, reader: &Reader) -> Result<(), ErrorRecord> {
    let events = reader.events().map_err(store_error)?;
    let mut runs = reader.runs_briefly().map_err(store_error)?.into_iter();
    for (_, event) in &events {
        // Each end of a run has its row, in the same order.
        let why = match event {
            Event::RunEnded { .. } => runs.next().and_then(|run: StoredRun| run.error),
            _ => None,
        };
        controller.observe(event, why.as_deref());
    }
    Ok(())
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
