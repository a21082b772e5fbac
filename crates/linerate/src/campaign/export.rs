//! `campaign export`, and the runs of a store as `compare` and `report` take them.

use std::fmt::Write as _;
use std::io::{Write as _, stderr};
use std::path::Path;

use linerate_analysis::input::{self, LabelledRun};
use linerate_analysis::metric;
use linerate_experiment::campaign::plan::Workload;
use linerate_model::campaign::{RunState, StoredRun};
use linerate_model::lines::ExportedRun;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_report::report::format::csv::field;
use linerate_report::report::input::campaign::{boot, doubts, mixed, within_a_boot};
use linerate_report::run::json;
use linerate_store::Reader;

use super::args::Format;
use crate::output::print;
use linerate_ask::usage;
use linerate_drive::campaign::{Read, store_error};
use linerate_drive::keep;
use linerate_model::exit::Exit;

/// A store's recorded runs that count, with what is needed to name them.
pub struct Recorded {
    /// The plan.
    pub read: Read,
    /// Names of the settings, the baseline first.
    pub labels: Vec<String>,
    /// In the order of the design.
    pub runs: Vec<StoredRun>,
    /// Which settings have fewer runs than their design, and what their runs have not in common, in sentences.
    pub missing: Vec<String>,
}

impl Recorded {
    /// Whether nothing was rebooted, so that runs are compared and no boots.
    pub fn within_a_boot(&self) -> bool {
        within_a_boot(self.runs.iter())
    }
}

/// Reads the runs that count, warm-ups left out.
pub fn recorded(path: &Path) -> Result<Recorded, ErrorRecord> {
    let reader = Reader::open(path).map_err(store_error)?;
    let meta = reader.meta().map_err(store_error)?;
    let read = Read::new(meta.plan, &meta.plan_path)?;
    let mut runs = reader.runs().map_err(store_error)?;
    runs.retain(|run| run.state == RunState::Counted && !run.warmup);
    runs.sort_by_key(|run| run.slot);
    let mut labels: Vec<String> = read.plan.settings.iter().map(|s| s.name.clone()).collect();
    let baseline = labels.remove(read.plan.baseline);
    labels.insert(0, baseline);
    let slots = reader.slots().map_err(store_error)?;
    let lacks = |label: &String| {
        let planned = slots.iter().filter(|s| s.setting == *label && !s.warmup).count();
        let counted = runs.iter().filter(|r| r.setting == *label).count();
        let words = || format!("{label} has {counted} of the {planned} runs of its design.");
        (counted < planned).then(words)
    };
    let missing = labels.iter().filter_map(lacks).chain(mixed(runs.iter())).collect();
    Ok(Recorded { read, labels, runs, missing })
}

/// The figure of a run: the plan's own, or that of a metric.
pub fn figure(run: &StoredRun, wanted: Option<&metric::Metric>) -> Result<f64, ErrorRecord> {
    let none = |why: String| {
        let what = format!("no figure of run {} ({})", run.id, run.setting);
        ErrorRecord::new(
            ErrorKind::Metric,
            what,
            why,
            &["leave out --metric for the figure that the plan names"],
        )
    };
    match wanted {
        None => run.value.ok_or_else(|| none("the run has none".into())),
        Some(metric) => {
            let text = run.record.as_deref().unwrap_or("null");
            let record: serde_json::Value =
                serde_json::from_str(text).map_err(|e| none(e.to_string()))?;
            input::figure(&record, metric).map_err(|e| none(e.what))
        }
    }
}

/// A metric by its name.
pub fn metric_of(name: Option<&str>) -> Result<Option<&'static metric::Metric>, ErrorRecord> {
    let Some(name) = name else { return Ok(None) };
    let none = || {
        let hint = format!("the metrics are {}", metric::names());
        usage::error(format!("no metric `{name}`"), "records have no such figure", &[&hint])
    };
    metric::find(name).map(Some).ok_or_else(none)
}

/// Runs with labels and boots, for compare and report.
pub fn labelled(
    recorded: &Recorded,
    wanted: Option<&metric::Metric>,
) -> Result<Vec<LabelledRun>, ErrorRecord> {
    let within_a_boot = recorded.within_a_boot();
    recorded
        .runs
        .iter()
        .map(|run| {
            let unit = match wanted {
                Some(metric) => Some(metric.unit.to_owned()),
                None => run.unit.clone(),
            };
            let boot = run.boot_id.clone().filter(|_| !within_a_boot);
            let label = run.setting.clone();
            let value = figure(run, wanted)?;
            Ok(LabelledRun { label, boot, value, unit, doubts: doubts(run) })
        })
        .collect()
}

/// Writes what was asked for.
pub fn export(
    path: &Path,
    format: Format,
    dir: &Path,
    metric: Option<&str>,
    comments: bool,
) -> Result<Exit, ErrorRecord> {
    let wanted = metric_of(metric)?;
    match format {
        Format::Stat => stat(&recorded(path)?, dir, wanted, comments),
        Format::Csv => csv(&recorded(path)?, wanted),
        Format::JsonLines if wanted.is_some() => Err(usage::error(
            "cannot use `--metric` with `--format json-lines`",
            "each line is a run with its whole record, and `--metric` would be ignored",
            &["--format csv for one figure a run", "leave out --metric for the records"],
        )),
        Format::JsonLines => json_lines(path),
    }
}

/// Rates as the field prints them: in Mbit/s; all else as it is.
fn scaled(value: f64, unit: Option<&str>) -> (f64, Option<&str>) {
    match unit {
        Some("bit/s") => (value / 1e6, Some("Mbit/s")),
        other => (value, other),
    }
}

fn io_error(path: &Path, error: &std::io::Error) -> ErrorRecord {
    ErrorRecord::new(
        ErrorKind::Output,
        format!("cannot write {}", path.display()),
        error.to_string(),
        &[],
    )
}

fn stat(
    recorded: &Recorded,
    dir: &Path,
    wanted: Option<&metric::Metric>,
    comments: bool,
) -> Result<Exit, ErrorRecord> {
    let plan = &recorded.read.plan;
    let all: Vec<&StoredRun> = recorded.runs.iter().collect();
    for setting in &plan.settings {
        let program = match &setting.workload {
            Workload::Test { .. } => "linerate",
            Workload::Command { words, .. } => {
                let program = words.first().map_or("command", String::as_str);
                program.rsplit('/').next().filter(|p| !p.is_empty()).unwrap_or("command")
            }
        };
        // The host under test: the one that reboots or is set, else the one that sends.
        let under_test = plan.hosts.iter().find(|h| h.reboot.is_some());
        let host = under_test.unwrap_or(&plan.hosts[setting.from]);
        let name = host.address.as_deref().unwrap_or(&host.name);
        let folder = dir.join(safe(name));
        std::fs::create_dir_all(&folder).map_err(|e| io_error(&folder, &e))?;
        let file = folder.join(format!("test_{}_{}.stat", safe(program), safe(&setting.name)));
        let mut text = String::new();
        let mut boot: Option<String> = None;
        for run in recorded.runs.iter().filter(|r| r.setting == setting.name) {
            let unit = wanted.map(|m| m.unit).or(run.unit.as_deref());
            let (value, unit) = scaled(figure(run, wanted)?, unit);
            if comments {
                if let (true, Some(unit)) = (text.is_empty(), unit) {
                    let _ = writeln!(text, "# unit: {unit}");
                }
                let here = self::boot(run, &all);
                if here.is_some() && boot != here {
                    let _ = writeln!(text, "# boot {}", here.as_deref().unwrap_or_default());
                    boot = here;
                }
            }
            let _ = writeln!(text, "{value}");
        }
        keep::replace(&file, &text).map_err(|e| io_error(&file, &e))?;
        print(format!("{}\n", file.display()).as_bytes())?;
    }
    Ok(Exit::Complete)
}

/// A name that stays in its folder.
fn safe(name: &str) -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() || "_-.+".contains(c) { c } else { '_' };
    let name: String = name.chars().map(good).collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}

fn csv(recorded: &Recorded, wanted: Option<&metric::Metric>) -> Result<Exit, ErrorRecord> {
    let mut text = String::from(
        "setting,boot,boot_id,block,number,attempt,started,seconds,value,metric,unit,doubts\n",
    );
    for run in &recorded.runs {
        let (metric, unit) = match wanted {
            Some(m) => (m.name, Some(m.unit)),
            None => (run.metric.as_str(), run.unit.as_deref()),
        };
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{},{},{}",
            field(&run.setting),
            run.boot,
            field(run.boot_id.as_deref().unwrap_or_default()),
            run.block,
            run.number,
            run.attempt,
            field(&run.started),
            run.seconds,
            figure(run, wanted)?,
            field(metric),
            field(unit.unwrap_or_default()),
            field(&run.doubts.join("; ")),
        );
    }
    print(text.as_bytes())
}

/// Every run of every state with its record; of a damaged store those that are whole.
fn json_lines(path: &Path) -> Result<Exit, ErrorRecord> {
    let reader = Reader::open(path).map_err(store_error)?;
    let (runs, damage) = reader.readable_runs();
    let mut text = String::new();
    for run in runs {
        let record = run.record.as_deref().and_then(|r| serde_json::from_str(r).ok());
        let run = ExportedRun { run: StoredRun { record: None, ..run }, record };
        text.push_str(&json::line(&run).unwrap_or_default());
    }
    let exit = print(text.as_bytes())?;
    for found in &damage {
        let _ = writeln!(stderr(), "damaged: {found}");
    }
    Ok(if damage.is_empty() { exit } else { Exit::Invalid })
}
