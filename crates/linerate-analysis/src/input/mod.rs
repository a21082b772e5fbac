//! From the bytes of a file to sets of runs. One file a format; [`read`] distinguishes them.
//!
//! Nothing is guessed from a file's name, and nothing is skipped in silence: a value that is not a
//! finite number, a run without a boot among runs with one, two units in one file are errors that
//! name the line.

mod records;
mod stat;
mod summary;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use linerate_model::clean::clean;
use linerate_model::host::HostFacts;
use serde::Deserialize;
use serde_json::Value;

use crate::metric::Metric;
use crate::set::{Boots, Data, Set};

/// Fewest values of a set: two have a spread, but no interval worth printing.
pub const FEWEST_VALUES: usize = 3;

/// Newest format of any document that this version knows.
const FORMAT: u64 = 1;

/// Whether a value can be squared and added up without leaving the range of a double. No
/// measurement is beyond it; a file with such a number is damaged.
pub(crate) fn in_range(x: f64) -> bool {
    x == 0.0 || (1e-140..=1e140).contains(&x.abs())
}

/// How files are to be read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Field with the values: a number from 1, or a name in the header line.
    pub column: Option<String>,
    /// Which figure of a record.
    pub metric: Option<String>,
    /// How runs belong to boots.
    pub boots: BootRule,
    /// Rows are `N avg sd`.
    pub summary: bool,
}

/// How runs belong to boots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum BootRule {
    /// As the file says, if it does.
    #[default]
    Auto,
    /// The field with the boot: a number from 1, or a name in the header line.
    Column(String),
    /// Every so many runs are one boot.
    Size(usize),
    /// Take the runs as independent, whatever the file says.
    Ignore,
}

impl BootRule {
    /// Whether it matters what a file says of them.
    pub(crate) fn are_of_file(&self) -> bool {
        matches!(self, Self::Auto | Self::Column(_))
    }
}

/// Why a file gives no set. Says where, what was expected and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputError {
    /// As the user named it.
    pub file: String,
    /// From 1.
    pub line: Option<u64>,
    /// Field, from 1.
    pub column: Option<u64>,
    /// What is wrong, as a sentence without a full stop.
    pub what: String,
    /// What to do.
    pub hint: Option<String>,
}

impl InputError {
    /// What it quotes of the file is made harmless for a terminal.
    pub(crate) fn new(file: &str, what: impl Into<String>) -> Self {
        let (file, what) = (clean(file).into_owned(), clean(&what.into()).into_owned());
        Self { file, line: None, column: None, what, hint: None }
    }

    pub(crate) fn at(mut self, line: usize, column: Option<usize>) -> Self {
        self.line = Some(line as u64);
        self.column = column.map(|c| c as u64);
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for InputError {}

/// Reads the sets of one file: one set, or one for each row of a summary. Rows of `N avg sd` where the
/// options say so; else JSON is records of linerate or iperf3, one or many, and any other text has one run
/// a line.
pub fn read(file: &str, bytes: &[u8], options: &ReadOptions) -> Result<Vec<Set>, InputError> {
    // A store is read by the caller, who may open files, and comes in by `labelled`.
    if bytes.starts_with(b"SQLite format 3\0") {
        return Err(InputError::new(file, "an SQLite file that is read as a stream")
            .hint("give the path of the store"));
    }
    if options.summary {
        return summary::read(file, bytes);
    }
    if holds_records(bytes) {
        records::read(file, bytes, options)
    } else {
        stat::read(file, bytes, options)
    }
}

/// Whether a file holds JSON, which has figures by their names; any other text has columns.
pub fn holds_records(bytes: &[u8]) -> bool {
    matches!(bytes.iter().find(|b| !b.is_ascii_whitespace()), Some(b'{' | b'['))
}

/// The figure of one linerate record or iperf3 document, in its metric's unit.
///
/// # Errors
/// A run that failed, or that has no such figure.
pub fn figure(record: &Value, metric: &Metric) -> Result<f64, InputError> {
    records::figure("the record", 1, record, metric)
}

/// Kinds of the doubts of a linerate record.
pub fn doubts(record: &Value) -> impl Iterator<Item = &str> {
    let doubts = record.get("doubts").and_then(Value::as_array);
    doubts.into_iter().flatten().filter_map(|doubt| doubt.get("kind")?.as_str())
}

/// What a record says of the two hosts of its run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Ends {
    client: HostFacts,
    server: Option<HostFacts>,
}

/// What is not the same in all runs of a set though no setting says so, as ends of sentences. A campaign that goes on
/// later, or reboots, may meet another kernel or version.
pub(crate) fn mixed(runs: impl Iterator<Item = Ends>) -> Vec<String> {
    const FACTS: [&str; 3] = ["host name", "kernel", "version of linerate"];
    let mut known: [[BTreeSet<String>; FACTS.len()]; 2] = Default::default();
    for Ends { client, server } in runs {
        for (known, host) in known.iter_mut().zip([client, server.unwrap_or_default()]) {
            let facts = [Some(host.hostname), host.kernel, Some(host.linerate)];
            for (known, fact) in known.iter_mut().zip(facts) {
                known.extend(fact.filter(|fact| !fact.is_empty()));
            }
        }
    }
    let several = |(end, known): (&str, &[BTreeSet<String>; FACTS.len()])| {
        let several = FACTS.iter().zip(known).filter(|(_, known)| known.len() > 1);
        let words = several.map(|(fact, known)| {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            clean(&format!("the same {fact} at the {end}: {}", known.join(", "))).into_owned()
        });
        words.collect::<Vec<_>>()
    };
    ["client", "server"].into_iter().zip(&known).flat_map(several).collect()
}

/// What is wrong with a document of a later format, as a sentence without a full stop.
pub(crate) fn newer(format: Option<u64>) -> Option<String> {
    let format = format.filter(|format| *format > FORMAT)?;
    Some(format!("format {format} is newer than this version reads ({FORMAT})"))
}

/// How many runs have each doubt. Those that all have share a note: within one machine every run has some.
pub(crate) fn doubted(runs: &[BTreeSet<&str>]) -> Vec<String> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for &kind in runs.iter().flatten() {
        *counts.entry(kind).or_default() += 1;
    }
    let note = |count: usize, kinds: &str| {
        let have = if count == 1 { "has" } else { "have" };
        format!("{count} of {} runs {have} a doubt: {}", runs.len(), clean(kinds))
    };
    let (all, some): (Vec<_>, Vec<_>) = counts.into_iter().partition(|(_, n)| *n == runs.len());
    let mut notes: Vec<String> = some.into_iter().map(|(kind, count)| note(count, kind)).collect();
    if !all.is_empty() {
        let kinds: Vec<&str> = all.into_iter().map(|(kind, _)| kind).collect();
        notes.push(note(runs.len(), &kinds.join("; ")));
    }
    notes
}

/// One run of a store, as far as a comparison needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledRun {
    /// Of its set.
    pub label: String,
    /// Boot that it ran on, the same in all sets; absent when unknown.
    pub boot: Option<String>,
    /// Its figure.
    pub value: f64,
    /// Of the figure.
    pub unit: Option<String>,
    /// Kinds of the doubts of its record, and in words what the plan's values became.
    pub doubts: Vec<String>,
}

/// Sets of runs that come with their labels and boots, in the order of `labels`; those without a
/// run are left out.
///
/// # Errors
/// A set of too few runs, or one where only some runs have a boot.
pub fn labelled(
    file: &str,
    labels: &[String],
    runs: &[LabelledRun],
    options: &ReadOptions,
) -> Result<Vec<Set>, InputError> {
    let mut sets = Vec::new();
    for label in labels {
        let own: Vec<&LabelledRun> = runs.iter().filter(|r| r.label == *label).collect();
        let Some(first) = own.first() else { continue };
        if let Some(bad) = own.iter().find(|r| !in_range(r.value)) {
            let what = format!("{label}: {} is not a figure of a run", bad.value);
            return Err(InputError::new(file, what));
        }
        let known: Vec<String> = own.iter().filter_map(|r| r.boot.clone()).collect();
        let boots = match known.len() {
            _ if !options.boots.are_of_file() => None,
            0 => None,
            n if n == own.len() => Some(Boots::of_labels(known, true)),
            n => {
                let what = format!("{label}: {n} of {} runs have a boot", own.len());
                let hint = "--boots none takes the runs as independent";
                return Err(InputError::new(file, what).hint(hint));
            }
        };
        let values = own.iter().map(|r| r.value).collect();
        let doubts: Vec<BTreeSet<&str>> =
            own.iter().map(|r| r.doubts.iter().map(String::as_str).collect()).collect();
        let mut set = finish(file, values, first.unit.clone(), boots, options, doubted(&doubts))
            .map_err(|e| InputError { what: format!("{label}: {}", e.what), ..e })?;
        set.label.clone_from(label);
        sets.push(set);
    }
    Ok(sets)
}

/// The label of a file: its name without folder and `.stat` or `.json`.
pub fn label(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let bare =
        [".stat", ".json", ".jsonl", ".txt", ".csv"].iter().find_map(|e| name.strip_suffix(e));
    bare.filter(|b| !b.is_empty()).unwrap_or(name).to_owned()
}

/// Builds a set of values and applies the rule for boots. Its texts are of whoever wrote the file, and become harmless for
/// a terminal.
fn finish(
    file: &str,
    values: Vec<f64>,
    unit: Option<String>,
    found: Option<Boots>,
    options: &ReadOptions,
    notes: Vec<String>,
) -> Result<Set, InputError> {
    if values.len() < FEWEST_VALUES {
        let count = match values.len() {
            0 => "no value".to_owned(),
            1 => "only 1 value".to_owned(),
            n => format!("only {n} values"),
        };
        return Err(InputError::new(
            file,
            format!("{count}; at least {FEWEST_VALUES} are needed to see a spread"),
        )
        .hint("put all runs of one setting into one file; run the test again to get more"));
    }
    let boots = match &options.boots {
        BootRule::Ignore => None,
        BootRule::Size(size) => Some(boots_of_size(file, values.len(), *size)?),
        BootRule::Column(name) if found.is_none() => {
            return Err(InputError::new(file, format!("no boot column `{name}`"))
                .hint("name a column of the header line, or count from 1"));
        }
        BootRule::Auto | BootRule::Column(_) => found,
    };
    let boots = boots.map(|boots| {
        let labels = boots.labels.iter().map(|label| clean(label).into_owned()).collect();
        Boots { labels, ..boots }
    });
    let (label, unit) = (label(file), unit.map(|unit| clean(&unit).into_owned()));
    let label = clean(&label).into_owned();
    Ok(Set { label, unit, data: Data::Runs { values: values.into(), boots }, notes })
}

fn boots_of_size(file: &str, n: usize, size: usize) -> Result<Boots, InputError> {
    if size == 0 || !n.is_multiple_of(size) {
        return Err(InputError::new(
            file,
            format!("{n} values do not make whole boots of {size}: a run is missing or too many"),
        )
        .hint("mark the boot of each run in a column and say --boots COLUMN"));
    }
    let of: Vec<u32> = (0..n).map(|i| (i / size) as u32).collect();
    let labels = (1..=n / size).map(|b| b.to_string()).collect();
    Ok(Boots { of, labels, identity: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str, options: &ReadOptions) -> String {
        let error = read("dir/a.stat", text.as_bytes(), options).unwrap_err();
        error.to_string()
    }

    fn values(text: &str, options: &ReadOptions) -> (Vec<f64>, Option<Boots>) {
        let sets = read("dir/a.stat", text.as_bytes(), options).unwrap();
        assert_eq!(sets[0].label, "a");
        (sets[0].values().to_vec(), sets[0].boots().cloned())
    }

    #[test]
    fn plain_numbers_and_columns() {
        let auto = ReadOptions::default();
        assert_eq!(values("# x\n1\n2.5 # y\n\n3e2\r\n", &auto).0, [1.0, 2.5, 300.0]);
        let second = ReadOptions { column: Some("2".into()), ..auto.clone() };
        assert_eq!(values("1 4\n2 5\n3 6", &second).0, [4.0, 5.0, 6.0]);
        let named = ReadOptions { column: Some("rate".into()), ..auto.clone() };
        let (v, b) = values("boot,rate\n1,4\n1,5\n2,6\n", &named);
        assert_eq!((v, b.unwrap().of), (vec![4.0, 5.0, 6.0], vec![0, 0, 1]));
        // A header with a boot column needs no option at all.
        assert_eq!(values("boot rate\n1 4\n1 5\n2 6\n", &auto).0, [4.0, 5.0, 6.0]);
    }

    #[test]
    fn an_empty_cell_keeps_its_place() {
        let rate = ReadOptions { column: Some("rate".into()), ..ReadOptions::default() };
        let loss = ReadOptions { column: Some("loss".into()), ..ReadOptions::default() };
        let csv = "set,rate,loss\n,941,0\n\"a, b\",940,0.5\nx , 939,1,\n";
        assert_eq!(values(csv, &rate).0, [941.0, 940.0, 939.0]);
        assert_eq!(values(csv, &loss).0, [0.0, 0.5, 1.0]);
        assert_eq!(values("set;rate\n;4\n;5\n;6\n", &rate).0, [4.0, 5.0, 6.0]);
        let got = error("rate,loss\n941,0\n,0.4\n", &rate);
        assert!(got.contains("line 3, column 1: expected a number, found nothing"), "{got}");
        // A decimal comma is no column.
        let got = error("1,5;2\n", &ReadOptions::default());
        assert!(got.contains("expected a number, found `1,5`"), "{got}");
        let boots = ReadOptions { boots: BootRule::Column("boot".into()), ..rate };
        let got = error("boot,rate\n1,4\n,5\n", &boots);
        assert!(got.contains("line 3, column 1: the boot is missing"), "{got}");
    }

    #[test]
    fn without_a_header_the_first_column_that_is_no_boot_has_the_values() {
        let first = ReadOptions { boots: BootRule::Column("1".into()), ..ReadOptions::default() };
        let (found, boots) = values("1 941\n1 943\n2 950\n", &first);
        assert_eq!((found, boots.unwrap().of), (vec![941.0, 943.0, 950.0], vec![0, 0, 1]));
        let same = ReadOptions { column: Some("1".into()), ..first };
        let got = error("1 941\n1 943\n2 950\n", &same);
        assert!(got.contains("this column holds boots, no values"), "{got}");
        let none = ReadOptions { column: Some("0".into()), ..ReadOptions::default() };
        assert!(error("1\n2\n3\n", &none).contains("there is no column 0"));
    }

    #[test]
    fn what_a_hint_says_of_boots_helps() {
        let ignore = ReadOptions { boots: BootRule::Ignore, ..ReadOptions::default() };
        let size = ReadOptions { boots: BootRule::Size(2), ..ReadOptions::default() };
        let record = |boot: &str| {
            format!(
                r#"{{"client":{{"{boot}":"a"}},"totals":{{"receiver":{{"bits_per_second":5}}}}}}"#
            )
        };
        let records = [record("boot_id"), record("boot_id"), record("x"), record("x")].concat();
        let late = "1\n2\n# boot 1\n3\n4\n";
        for text in [late, records.as_str()] {
            assert!(error(text, &ReadOptions::default()).contains("boot"), "{text}");
            assert_eq!(values(text, &ignore).1, None);
            assert_eq!(values(text, &size).1.unwrap().of, [0, 0, 1, 1]);
        }
        let runs = ["a", ""].map(|boot| LabelledRun {
            label: "l".into(),
            boot: Some(boot.to_owned()).filter(|b| !b.is_empty()),
            value: 1.0,
            unit: None,
            doubts: Vec::new(),
        });
        let runs = [runs.clone(), runs].concat();
        let auto = ReadOptions::default();
        let sets = |options| labelled("s", &["l".into()], &runs, options);
        assert!(sets(&auto).is_err());
        assert_eq!(sets(&ignore).unwrap()[0].boots(), None);
    }

    #[test]
    fn doubts_of_a_store_are_notes() {
        let rounded = "dut: ring.rx was asked to be 500, the driver made it 512";
        let doubts =
            [&["shared-host", "host-busy"][..], &["shared-host"], &["shared-host", rounded]];
        let runs = doubts.map(|doubts| LabelledRun {
            label: "l".into(),
            boot: None,
            value: 1.0,
            unit: None,
            doubts: doubts.iter().map(|doubt| (*doubt).to_owned()).collect(),
        });
        let sets = labelled("s", &["l".into()], &runs, &ReadOptions::default()).unwrap();
        let rounded = format!("1 of 3 runs has a doubt: {rounded}");
        let (busy, all) =
            ("1 of 3 runs has a doubt: host-busy", "3 of 3 runs have a doubt: shared-host");
        assert_eq!(sets[0].notes, [rounded.as_str(), busy, all]);
    }

    #[test]
    fn a_file_steers_no_terminal() {
        let record =
            r#"{"label":"x\u001b]0;y\u0007\nz","totals":{"receiver":{"bits_per_second":5}}}"#;
        let set = &read("r.json", record.repeat(3).as_bytes(), &ReadOptions::default()).unwrap()[0];
        assert_eq!(set.label, "x]0;y z");
        let (_, boots) = values("# boot a\u{9b}2J\n1\n2\n3\n", &ReadOptions::default());
        assert_eq!(boots.unwrap().labels, ["a2J"]);
        let got =
            error("{\"start\":{},\"end\":{},\"error\":\"a\\u001b[2Jb\"}", &ReadOptions::default());
        assert!(got.contains("this run failed: a[2Jb"), "{got:?}");
    }

    #[test]
    fn a_column_of_boots_is_never_the_values() {
        let size = ReadOptions { boots: BootRule::Size(2), ..ReadOptions::default() };
        let ignore = ReadOptions { boots: BootRule::Ignore, ..ReadOptions::default() };
        for header in ["boot rate", "# boot rate", "#Boot,rate"] {
            let text = format!("{header}\n7 4\n7 5\n8 6\n8 7\n");
            for (options, boots) in [(&size, Some(2)), (&ignore, None)] {
                let (found, of) = values(&text, options);
                assert_eq!(found, [4.0, 5.0, 6.0, 7.0], "{header}");
                assert_eq!(of.map(|b| b.labels.len()), boots, "{header}");
            }
        }
        let (found, of) = values("# boot rate\n7 4\n7 5\n8 6\n", &ReadOptions::default());
        assert_eq!(
            (found, of.unwrap().labels),
            (vec![4.0, 5.0, 6.0], vec!["7".into(), "8".into()])
        );
        // One column: a boot whose name is a word.
        let (_, of) = values("# boot first\n4\n5\n6\n", &ReadOptions::default());
        assert_eq!(of.unwrap().labels, ["first"]);
        for (column, text) in [("boot", "boot rate\n1 4\n"), ("1", "boot rate\n1 4\n")] {
            for boots in [BootRule::Auto, BootRule::Size(1), BootRule::Column("boot".into())] {
                let options = ReadOptions { column: Some(column.into()), boots, ..size.clone() };
                let got = error(text, &options);
                assert!(got.contains("column 1: this column holds boots, no values"), "{got}");
            }
        }
        assert!(
            error("boot x\n", &ReadOptions { column: Some("x".into()), ..size })
                .contains("no value")
        );
    }

    #[test]
    fn boots_by_comment_column_and_size() {
        let auto = ReadOptions::default();
        let (_, b) = values("# boot 1\n1\n2\n# boot 2\n3\n4\n", &auto);
        assert_eq!(b.unwrap().of, [0, 0, 1, 1]);
        let column = ReadOptions { boots: BootRule::Column("2".into()), ..auto.clone() };
        assert_eq!(values("1 a\n2 a\n3 b\n", &column).1.unwrap().labels, ["a", "b"]);
        let size = ReadOptions { boots: BootRule::Size(2), ..auto.clone() };
        assert_eq!(values("1\n2\n3\n4\n", &size).1.unwrap().of, [0, 0, 1, 1]);
        // A column that is not there is not made up for by comments.
        let named = ReadOptions { boots: BootRule::Column("host".into()), ..auto.clone() };
        assert!(error("# boot 1\n1\n2\n3\n", &named).contains("no boot column `host`"));
        let ignore = ReadOptions { boots: BootRule::Ignore, ..auto };
        assert_eq!(values("# boot 1\n1\n2\n3\n", &ignore).1, None);
    }

    #[test]
    fn every_bad_line_is_named() {
        let auto = ReadOptions::default();
        let size = ReadOptions { boots: BootRule::Size(2), ..auto.clone() };
        let column = ReadOptions { boots: BootRule::Column("2".into()), ..auto.clone() };
        for (text, options, want) in [
            ("1\nabc\n3\n", &auto, "a.stat, line 2, column 1: expected a number, found `abc`"),
            ("1\nnan\n3\n", &auto, "a.stat, line 2, column 1: `nan` is not a finite number"),
            ("1\n1e999\n3\n", &auto, "a.stat, line 2, column 1: `1e999` is not a finite number"),
            ("1\n2\n", &auto, "a.stat: only 2 values; at least 3"),
            ("", &auto, "a.stat: no value"),
            ("1M\n2M\n3G\n", &auto, "a.stat, line 3, column 1: the unit is `G`, above it is `M`"),
            (
                "1M\n2\n3M\n",
                &auto,
                "a.stat, line 2, column 1: the value has no unit, above it is `M`",
            ),
            (
                "# unit: Mbit/s\n1\n2\n# unit: Gbit/s\n3\n",
                &auto,
                "a.stat, line 4: the unit is `Gbit/s`, above it is `Mbit/s`",
            ),
            (
                "# unit: G\n1M\n2M\n3M\n",
                &auto,
                "a.stat: the values are in `M`, and a comment says `G`",
            ),
            ("1\n2\n3\n", &size, "a.stat: 3 values do not make whole boots of 2"),
            ("1 a\n2\n3 b\n", &column, "a.stat, line 2, column 2: the boot is missing"),
            ("1\n# boot 1\n2\n3\n", &auto, "a.stat, line 1: the boot is missing"),
            ("{\"x\":", &auto, "a.stat, line 1"),
            ("SQLite format 3\0", &auto, "a.stat: an SQLite file that is read as a stream"),
        ] {
            let got = error(text, options);
            assert!(got.contains(want), "{text:?}: {got}");
        }
    }

    /// Damaged files end in an error or a set, never in a panic.
    #[test]
    fn damaged_files_are_no_danger() {
        use linerate_stats::offline::bootstrap::Random;
        let seeds: [&[u8]; 4] = [
            b"# boot 1\nv boot\n1 2,3;4 # unit: M\n-5e3Mbit/s nan\n",
            b"{\"totals\":{\"receiver\":{\"bits_per_second\":1}},\"status\":\"complete\"}[{}]",
            b"x 30 1 2 3 4 5 udp\n30 5.5 1e2 tcp\n",
            b"{\"start\":{},\"end\":{\"sum\":{\"lost_percent\":2}},\"event\":\"end\"}",
        ];
        let mut random = Random::new(11);
        for round in 0..4000 {
            let mut bytes = seeds[round % 4].repeat(1 + random.below(3));
            for _ in 0..random.below(8) {
                let at = random.below(bytes.len());
                match random.below(3) {
                    0 => bytes[at] = random.bits() as u8,
                    1 => bytes.truncate(at + 1),
                    _ => bytes.insert(at, b"\n#0 ,{}[]\"-e"[random.below(12)]),
                }
            }
            for summary in [false, true] {
                let boots = match round % 3 {
                    0 => BootRule::Auto,
                    1 => BootRule::Column("2".into()),
                    _ => BootRule::Size(2),
                };
                let options = ReadOptions { summary, boots, ..ReadOptions::default() };
                let Ok(sets) = read("f", &bytes, &options) else { continue };
                for set in sets {
                    assert!(set.values().iter().all(|v| v.is_finite()));
                }
            }
        }
    }
}
