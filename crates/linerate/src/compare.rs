//! `linerate compare`: reads files, hands them to the report crate, writes what it gives back.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::campaign::export;
use crate::output;
use linerate_analysis::compare::{self as analysis, Adjust, Margin};
use linerate_analysis::input::{self, BootRule, InputError, ReadOptions};
use linerate_analysis::metric;
use linerate_analysis::set::Set;
use linerate_report::clean::shell_word;
use linerate_report::compare::view::View;
use linerate_report::compare::{svg, text};
use linerate_report::report::page_of_comparison;

/// Columns of the text when the output is no terminal.
const DEFAULT_WIDTH: usize = 100;

/// Widest text: beyond, a line of a plot is hard to follow.
const WIDEST: usize = 160;

/// Groups of runs: which differ from the first, by how much, and how sure that is.
///
/// Also says how many more runs would settle what these cannot.
///
/// Each FILE holds the runs of one setting; the first is the baseline. A file is a .stat file (one
/// run a line: a number, or columns), linerate records, iperf3 -J documents, or the store of a
/// campaign, which holds all settings and their boots.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  linerate compare tcp6.stat tcp6_nooffload.stat --boots-of 10
      ten runs of each boot; the boot is the unit
  linerate compare *.stat --baseline udp4_default.stat --margin 2%
      several settings against one
  linerate compare a.json b.json --metric loss --html report.html
      the loss of iperf3 or linerate runs, and a page with figures
  linerate compare offload.db --zoom tcp4_default,tcp6_default
      a campaign: its plan names the baseline, boots are known and paired
  linerate compare table.txt --summary
      a printed table: rows of `N average sd label`

A .stat file: one number a line, or columns parted by blanks or commas (--column). `#` starts a
comment; `# boot NAME` begins a boot and `# unit: NAME` gives the unit. A header line names columns,
and one called `boot` is taken for the boot.

Exit codes: 0 compared, whatever the verdict; 1 a file is missing or cannot be compared; 2 wrong
usage.")]
pub struct CompareArgs {
    /// Files, one a setting; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// The file (or, with --summary, the label) that the others are compared with [default: first]
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// Field with the boot of each run: a number from 1 or a name in the header; `none` takes the
    /// runs as independent
    #[arg(long, value_name = "COLUMN", conflicts_with = "boots_of")]
    pub boots: Option<String>,

    /// Every SIZE runs, in the order of the file, are one boot
    #[arg(long, value_name = "SIZE")]
    pub boots_of: Option<usize>,

    /// Field with the values: a number from 1 or a name in the header [default: the first that is
    /// not the boot]
    #[arg(long, value_name = "COLUMN")]
    pub column: Option<String>,

    #[arg(long, value_name = "NAME", help = format!("Figure of each record: {}", metric::names()))]
    pub metric: Option<String>,

    /// Unit of values that do not say theirs, converts none; of a rate (with /s) less is called slower
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,

    /// Confidence in percent, 50 to 99.99
    #[arg(long, value_name = "PERCENT", default_value = "95", allow_hyphen_values = true)]
    pub level: String,

    /// Smallest difference that matters: a share of the baseline (1%) or a number
    #[arg(long, value_name = "MARGIN", default_value = "1%", allow_hyphen_values = true)]
    pub margin: String,

    /// Pair boots of the same name in both sets; without boots, runs of the same number
    #[arg(long)]
    pub paired: bool,

    /// How several comparisons are adjusted
    #[arg(long, value_enum, default_value = "auto")]
    pub adjust: AdjustArg,

    /// Rows are printed tables: `N average sd [label]`, or rows of ministat
    #[arg(long, conflicts_with_all = ["boots", "boots_of", "column", "metric"])]
    pub summary: bool,

    /// Draw these sets again on their own scale: labels or numbers from 1
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub zoom: Vec<String>,

    /// Seed of the bootstrap intervals
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Columns of the text, 40 to 10000 [default: the terminal's, or 100]
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,

    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,

    /// Write a page with figures and tables
    #[arg(long, value_name = "OUT")]
    pub html: Option<PathBuf>,

    /// Write the figure
    #[arg(long, value_name = "OUT")]
    pub svg: Option<PathBuf>,
}

/// `--adjust`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum AdjustArg {
    /// Dunnett where the sets scatter alike, else Holm
    Auto,
    /// Dunnett
    Dunnett,
    /// Holm
    Holm,
    /// Each comparison as if it were alone
    None,
}

/// Runs the command.
pub fn run(args: &CompareArgs) -> ExitCode {
    match compare(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let mut message = format!("error: {}\n", failure.what);
            if let Some(cause) = &failure.cause {
                message.push_str(&format!("  caused by: {cause}\n"));
            }
            if let Some(hint) = &failure.hint {
                message.push_str(&format!("\nhint: {hint}\n"));
            }
            // Nobody is left to read it when even this fails.
            let _ = io::stderr().write_all(message.as_bytes());
            ExitCode::from(failure.code)
        }
    }
}

struct Failure {
    what: String,
    cause: Option<String>,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None, hint: Some(hint.into()), code: 2 }
    }

    /// Something that was tried has failed.
    fn of(what: impl Into<String>, cause: impl ToString) -> Self {
        Self { what: what.into(), cause: Some(cause.to_string()), hint: None, code: 1 }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Self { what: error.to_string(), cause: None, hint: error.hint, code: 1 }
    }
}

fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let options = options(args)?;
    let (mut sets, within_a_boot, missing) = sets(args)?;
    for set in &mut sets {
        set.unit = set.unit.take().or_else(|| args.unit.clone());
    }
    // A plan may hold settings of several units on purpose; files are named one by one.
    let apart = if is_one_store(args) { other_units(&mut sets) } else { None };
    if let Some(asked) = &args.unit {
        check_units(&sets, asked)?;
    }
    let analysis = analysis::compare(&sets, &options).map_err(|error| Failure {
        what: error.what,
        cause: None,
        hint: Some(error.hint),
        code: 1,
    })?;
    let zoom = zoom(args, &sets)?;
    drop(sets);
    let mut view = View::new(analysis);
    if within_a_boot {
        view.note_within_a_boot();
    }
    view.zoom = zoom;
    view.notes.splice(0..0, apart.into_iter().chain(missing));
    if let Some(path) = &args.html {
        write_file(path, &page(&view)?)?;
    }
    if let Some(path) = &args.svg {
        write_file(path, svg::render(&view).as_bytes())?;
    }
    let mut printed = if args.json {
        serde_json::to_string_pretty(&view).map_err(|e| Failure::of("cannot write JSON", e))?
    } else {
        text::render(&view, args.width.unwrap_or_else(terminal_width))
    };
    if !printed.ends_with('\n') {
        printed.push('\n');
    }
    match io::stdout().write_all(printed.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::of("cannot write to standard output", error))
        }
        _ => Ok(()),
    }
}

/// The store of a campaign, which names its own baseline. A pipe is none: it can be read once only.
fn is_one_store(args: &CompareArgs) -> bool {
    let is_store = |file: &Path| file.is_file() && linerate_drive::campaign::is_store(file);
    matches!(args.files.as_slice(), [file] if is_store(file))
}

/// Those that were given, and the baseline where it is one more.
fn files(args: &CompareArgs) -> Vec<PathBuf> {
    let is_file = !args.summary && !is_one_store(args);
    let more = args.baseline.iter().filter(|file| is_file && !args.files.contains(file));
    more.chain(&args.files).cloned().collect()
}

/// Sets, whether any are of a campaign that reboots nothing, and what its design lacks.
type Sets = (Vec<Set>, bool, Vec<String>);

/// All sets, the baseline first.
fn sets(args: &CompareArgs) -> Result<Sets, Failure> {
    let options = read_options(args)?;
    let (mut sets, mut missing) = (Vec::<Set>::new(), Vec::new());
    let mut baseline = None;
    let mut within_a_boot = false;
    let mut of_records = Vec::new();
    let files = files(args);
    for file in &files {
        if args.baseline.as_ref() == Some(file) {
            baseline = Some(sets.len());
        }
        let (records, (read, within, lacks)) = read_file(file, &options)?;
        of_records.push(records);
        within_a_boot |= within;
        sets.extend(read);
        missing.extend(lacks);
    }
    check_options(args, &of_records)?;
    if (args.summary || is_one_store(args))
        && let Some(label) = &args.baseline
    {
        baseline = sets.iter().position(|s| Path::new(&s.label) == label.as_path());
        if baseline.is_none() {
            return Err(no_such_set(format!("no set `{}`", label.display()), &sets));
        }
    }
    // As long as they stand in the order of the files.
    tell_apart(&mut sets, &files);
    if let Some(upto) = baseline.and_then(|at| sets.get_mut(..=at)) {
        upto.rotate_right(1);
    }
    Ok((sets, within_a_boot, missing))
}

/// An error where an option is of a kind of files that is not among those given: of each, whether it holds records.
fn check_options(args: &CompareArgs, of_records: &[bool]) -> Result<(), Failure> {
    if args.metric.is_some() && !of_records.contains(&true) {
        let what = "--metric chooses a figure of records, and no file holds any";
        return Err(Failure::usage(what, "of columns in a .stat file --column chooses one"));
    }
    let boots = args.boots.as_deref().is_some_and(|boots| boots != "none");
    for (option, given) in [("--column", args.column.is_some()), ("--boots", boots)] {
        if given && !of_records.contains(&false) {
            let what = format!("{option} names a column, and no file has any");
            let hint = "of records --metric chooses a figure, and they say their boots themselves";
            return Err(Failure::usage(what, hint));
        }
    }
    Ok(())
}

fn no_such_set(what: String, sets: &[Set]) -> Failure {
    let labels: Vec<&str> = sets.iter().map(|s| s.label.as_str()).collect();
    Failure::usage(what, format!("the sets are {}", labels.join(", ")))
}

fn read_options(args: &CompareArgs) -> Result<ReadOptions, Failure> {
    let boots = match (&args.boots, args.boots_of) {
        (Some(none), _) if none == "none" => BootRule::Ignore,
        (Some(column), _) => BootRule::Column(column.clone()),
        (None, Some(0)) => {
            return Err(Failure::usage("a boot has at least one run", "--boots-of 10"));
        }
        (None, Some(size)) => BootRule::Size(size),
        (None, None) => BootRule::Auto,
    };
    let (column, metric, summary) = (args.column.clone(), args.metric.clone(), args.summary);
    if let Some(metric) = metric.as_deref().filter(|metric| metric::find(metric).is_none()) {
        let what = format!("no metric `{metric}`");
        return Err(Failure::usage(what, format!("the metrics are {}", metric::names())));
    }
    Ok(ReadOptions { column, metric, boots, summary })
}

fn options(args: &CompareArgs) -> Result<analysis::Options, Failure> {
    let number = |text: &str| text.trim_end_matches('%').trim().parse::<f64>().ok();
    let level = number(&args.level).filter(|l| (50.0..=99.99).contains(l)).ok_or_else(|| {
        let what = format!("`{}` is not a level from 50 to 99.99 %", args.level);
        Failure::usage(what, "the usual one is --level 95")
    })?;
    let margin = number(&args.margin).filter(|m| *m > 0.0 && m.is_finite()).ok_or_else(|| {
        let what = format!("`{}` is not a margin above zero", args.margin);
        Failure::usage(what, "a share of the baseline (--margin 1%) or a number (--margin 50)")
    })?;
    Ok(analysis::Options {
        level: level / 100.0,
        margin: if args.margin.trim_end().ends_with('%') {
            Margin::Relative(margin / 100.0)
        } else {
            Margin::Absolute(margin)
        },
        paired: args.paired,
        adjust: match args.adjust {
            AdjustArg::Auto => Adjust::Auto,
            AdjustArg::Dunnett => Adjust::Dunnett,
            AdjustArg::Holm => Adjust::Holm,
            AdjustArg::None => Adjust::None,
        },
        seed: args.seed,
    })
}

/// Whether a file holds records, and its sets.
fn read_file(file: &Path, options: &ReadOptions) -> Result<(bool, Sets), Failure> {
    let name = file.display().to_string();
    let mut bytes = Vec::new();
    let outcome = if name == "-" {
        io::stdin().lock().read_to_end(&mut bytes)
    } else {
        fs::File::open(file).and_then(|mut f| f.read_to_end(&mut bytes))
    };
    outcome.map_err(|error| Failure::of(format!("cannot read {name}"), error))?;
    if bytes.starts_with(linerate_store::MAGIC) && name != "-" {
        return Ok((true, campaign(file, &name, options)?));
    }
    let sets = input::read(if name == "-" { "<stdin>" } else { &name }, &bytes, options)?;
    Ok((input::holds_records(&bytes), (sets, false, Vec::new())))
}

/// The settings of a campaign, the plan's baseline first, each run with the boot it ran on.
fn campaign(file: &Path, name: &str, options: &ReadOptions) -> Result<Sets, Failure> {
    let failed = |error: linerate_model::record::ErrorRecord| Failure {
        hint: error.hints.into_iter().next(),
        ..Failure::of(error.what, error.why)
    };
    let recorded = export::recorded(file).map_err(failed)?;
    let metric = export::metric_of(options.metric.as_deref()).map_err(failed)?;
    let runs = export::labelled(&recorded, metric).map_err(failed)?;
    let sets = input::labelled(name, &recorded.labels, &runs, options)?;
    if sets.is_empty() {
        let what = format!("{name}: no run of this campaign counts yet");
        return Err(Failure { what, cause: None, hint: None, code: 1 });
    }
    Ok((sets, recorded.within_a_boot(), recorded.missing))
}

/// An error where a set says another unit than the one that was asked for.
fn check_units(sets: &[Set], asked: &str) -> Result<(), Failure> {
    let other = |set: &&Set| set.unit.as_deref().is_some_and(|unit| unit != asked);
    let Some(set) = sets.iter().find(other) else { return Ok(()) };
    let unit = set.unit.as_deref().unwrap_or_default();
    let what = format!("{} is in {unit}, not in {asked} as --unit says", set.label);
    let hint = "--unit is for values that do not say their unit, and converts none";
    Err(Failure { what, cause: None, hint: Some(hint.to_owned()), code: 1 })
}

/// Takes out the sets that are not in the unit of the first, and says so.
fn other_units(sets: &mut Vec<Set>) -> Option<String> {
    let (label, unit) = sets.first().map(|base| (base.label.clone(), base.unit.clone()))?;
    let words = |unit: &Option<String>| unit.clone().unwrap_or_else(|| "no unit".to_owned());
    let apart: Vec<Set> = sets.extract_if(.., |set| set.unit != unit).collect();
    let named: Vec<String> =
        apart.iter().map(|set| format!("{} (in {})", set.label, words(&set.unit))).collect();
    (!named.is_empty()).then(|| {
        format!(
            "Left out, because the baseline {label} is in {}: {}. Compare them with each other by \
             --baseline.",
            words(&unit),
            named.join(", ")
        )
    })
}

/// Two files of one name in two folders need more than their name; two of one path get a number.
fn tell_apart(sets: &mut [Set], files: &[PathBuf]) {
    let twice = |sets: &[Set]| {
        let mut labels: Vec<&str> = sets.iter().map(|s| s.label.as_str()).collect();
        labels.sort_unstable();
        labels.windows(2).any(|w| matches!(w, [a, b] if a == b))
    };
    if twice(sets) && sets.len() == files.len() {
        for (set, file) in sets.iter_mut().zip(files) {
            set.label = file.display().to_string();
        }
    }
    if twice(sets) {
        for (index, set) in sets.iter_mut().enumerate() {
            set.label = format!("{} ({})", set.label, index + 1);
        }
    }
}

fn zoom(args: &CompareArgs, sets: &[Set]) -> Result<Option<Vec<usize>>, Failure> {
    if args.zoom.is_empty() {
        return Ok(None);
    }
    let mut chosen = Vec::new();
    for name in &args.zoom {
        let by_label = sets.iter().position(|s| s.label == *name);
        let by_number = name.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        match by_label.or(by_number.filter(|n| *n < sets.len())) {
            Some(index) => chosen.push(index),
            None => return Err(no_such_set(format!("no set `{name}` to zoom in on"), sets)),
        }
    }
    Ok(Some(chosen))
}

/// A report on the comparison alone.
fn page(view: &View) -> Result<Vec<u8>, Failure> {
    let command: Vec<String> = output::command().iter().map(|word| shell_word(word)).collect();
    page_of_comparison(view.clone(), &command.join(" "))
        .map_err(|cause| Failure::of("cannot make the page", cause))
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes)
        .map_err(|error| Failure::of(format!("cannot write {}", path.display()), error))
}

fn terminal_width() -> usize {
    terminal_size::terminal_size()
        .map_or(DEFAULT_WIDTH, |(width, _)| usize::from(width.0).clamp(40, WIDEST))
}
