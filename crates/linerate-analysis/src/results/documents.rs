//! JSON, one document or many: pretty-printed, one a line, in a list, or the lines that a running
//! test printed.

use linerate_model::campaign::{Event, StoredRun};
use linerate_model::record::{ErrorKind, ErrorRecord, Interval, RunRecord, Status};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::campaign::CampaignNotes;
use super::{Input, InputError, Item, What, iperf3, plain};
use crate::compare::{self, Adjust, Analysis, Margin, Options};
use crate::input::{FEWEST_VALUES, in_range, newer};
use crate::set::{Boots, Data, Set};

pub(super) fn read(input: &mut Input, file: &str, bytes: &[u8]) {
    let before = (input.results(), input.damaged.len());
    let mut reader =
        Reader { input, file, open: None, unended: None, campaign: None, iperf3: Vec::new() };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        reader.damage(None, "it is empty".to_owned());
        return;
    }
    if !matches!(bytes.iter().find(|b| !b.is_ascii_whitespace()), Some(b'{' | b'[')) {
        plain::stat(input, file, bytes);
        return;
    }
    let mut start = 0;
    let mut line = 1;
    while let Some(rest) = bytes.get(start..).filter(|r| !r.iter().all(u8::is_ascii_whitespace)) {
        let blank = rest.iter().take_while(|b| b.is_ascii_whitespace()).count();
        line += count_lines(rest.get(..blank).unwrap_or_default());
        let rest = rest.get(blank..).unwrap_or_default();
        let mut stream = serde_json::Deserializer::from_slice(rest).into_iter::<Value>();
        match stream.next() {
            None => break,
            Some(Ok(value)) => {
                let used = stream.byte_offset();
                reader.document(line, value);
                line += count_lines(rest.get(..used).unwrap_or_default());
                start += blank + used;
            }
            Some(Err(error)) => {
                // Where each line is a document of its own, this one ends with its line, and the
                // next may be whole.
                let bad = memchr::memchr(b'\n', rest).map(|end| end + 1);
                let next = bad.and_then(|end| rest.get(end..)).unwrap_or_default();
                let own_line = next.starts_with(b"{\"");
                let within = if own_line { 0 } else { error.line().saturating_sub(1) as u64 };
                let what = if error.is_eof() || (own_line && error.line() > 1) {
                    "it ends in the middle of a document".to_owned()
                } else {
                    format!("expected JSON: {}", without_place(&error.to_string()))
                };
                reader.damage(Some(line + within), what);
                if !own_line {
                    break;
                }
                start += blank + bad.unwrap_or(0);
                line += 1;
            }
        }
    }
    reader.close();
    reader.close_campaign();
    let records = std::mem::take(&mut reader.iperf3);
    plain::iperf3(reader.input, file, records);
    // Whatever was given is in the report or missed in it.
    if before == (reader.input.results(), reader.input.damaged.len()) {
        reader.damage(None, "there is no result in it".to_owned());
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// serde_json ends its messages with a place within the document; ours is that in the file.
fn without_place(text: &str) -> &str {
    text.rfind(" at line ").and_then(|at| text.get(..at)).unwrap_or(text)
}

fn take(value: &mut Value, key: &str) -> Option<Value> {
    value.get_mut(key).map(Value::take)
}

struct Reader<'a> {
    input: &'a mut Input,
    file: &'a str,
    /// A test whose start was reported, and its end not yet.
    open: Option<(u64, Box<RunRecord>)>,
    /// The first line of a sweep, search or tuning whose end was not reported yet.
    unended: Option<u64>,
    /// What was reported of a campaign, and where it begins.
    campaign: Option<(u64, Lines)>,
    /// iperf3's `-J` documents.
    iperf3: Vec<Box<RunRecord>>,
}

/// Lines of a campaign, of one controller or of several that went on with it.
#[derive(Default)]
struct Lines {
    notes: CampaignNotes,
    /// Slots that were filled before the first line.
    before: u64,
    /// Slots of the design; 0 when they are not given.
    total: u64,
    /// Whether the last controller reported its end.
    ended: bool,
}

impl Reader<'_> {
    fn damage(&mut self, line: Option<u64>, what: String) {
        self.input.damaged.push(InputError { line, ..InputError::new(self.file, what) });
    }

    fn push(&mut self, what: What) {
        self.input.items.push(Item { source: self.file.to_owned(), what });
    }

    fn document(&mut self, line: u64, value: Value) {
        match value {
            Value::Array(list) => {
                for value in list {
                    self.document(line, value);
                }
            }
            Value::Object(_) => self.object(line, value),
            _ => self.damage(Some(line), "expected an object or a list of them".to_owned()),
        }
    }

    fn object(&mut self, line: u64, mut value: Value) {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(event) = text("event") {
            return self.event(line, &event, value);
        }
        if let Some(what) = newer(&value) {
            return self.damage(Some(line), what);
        }
        // Runs of a store, as `campaign export --format json-lines` has them.
        if ["slot", "setting", "state"].iter().all(|key| value.get(key).is_some()) {
            return self.stored_run(line, value);
        }
        let kind = text("kind");
        match kind.as_deref() {
            Some("sweep") => self.typed(line, value, |d| What::Sweep(Box::new(d))),
            Some("search") => self.typed(line, value, |d| What::Search(Box::new(d))),
            Some("tune") => self.typed(line, value, |d| What::Tune(Box::new(d))),
            Some("doctor") => self.typed(line, value, |d| What::Doctor(Box::new(d))),
            Some("profile") => self.typed(line, value, |d| What::Profile(Box::new(d))),
            Some("compare") => match comparison(&value) {
                Ok(analysis) => self.push(What::Compare(Box::new(analysis))),
                Err(what) => self.damage(Some(line), what),
            },
            Some(kind) => {
                let what = format!(
                    "a document of kind `{}` cannot be reported",
                    linerate_model::clean::clean(kind)
                );
                self.damage(Some(line), what);
            }
            None if value.get("totals").is_some() => {
                self.typed(line, value, |d| What::Run(Box::new(d)));
            }
            None if iperf3::is_document(&value) => match iperf3::record(&value) {
                Ok(record) => self.iperf3.push(Box::new(record)),
                Err(what) => self.damage(Some(line), what),
            },
            None => match value.get_mut("error").map(Value::take) {
                Some(error) => {
                    let why = error.get("what").and_then(Value::as_str).unwrap_or("no reason");
                    let what =
                        format!("an error and no result: {}", linerate_model::clean::clean(why));
                    self.damage(Some(line), what);
                }
                None => self.damage(
                    Some(line),
                    "neither a run record nor a document of another verb that can be reported"
                        .to_owned(),
                ),
            },
        }
    }

    fn typed<D: DeserializeOwned>(&mut self, line: u64, value: Value, make: fn(D) -> What) {
        match serde_json::from_value::<D>(value) {
            Ok(document) => self.push(make(document)),
            Err(error) => {
                let what = format!("a document that lacks something: {error}");
                self.damage(Some(line), what);
            }
        }
    }

    /// A line of `--json-lines`.
    fn event(&mut self, line: u64, event: &str, mut value: Value) {
        match event {
            "start" => {
                self.close();
                match (take(&mut value, "record"), value.get("sweep"), value.get("data")) {
                    (Some(record), ..) => match serde_json::from_value::<RunRecord>(record) {
                        Ok(record) => self.open = Some((line, Box::new(record))),
                        Err(error) => {
                            let what = format!("a start whose record lacks something: {error}");
                            self.damage(Some(line), what);
                        }
                    },
                    (None, Some(_), _) => self.unended = Some(line),
                    // Of a tuning.
                    _ if value.get("factors").is_some() => self.unended = Some(line),
                    (None, None, Some(_)) => self.damage(
                        Some(line),
                        "lines of iperf3 --json-stream: a report has too little of them".to_owned(),
                    ),
                    _ => self.damage(Some(line), "a start without its record".to_owned()),
                }
            }
            // iperf3's.
            "interval" if value.get("data").is_some() => {}
            "interval" => match (serde_json::from_value::<Interval>(value), &mut self.open) {
                (Ok(interval), Some((_, record))) => record.intervals.push(interval),
                // The end repeats every interval, so one that stands alone is no loss.
                (Ok(_), None) => {}
                (Err(error), _) => self.damage(Some(line), format!("no interval: {error}")),
            },
            // Of a sweep, search or tuning; the document at the end repeats it.
            "trial" => self.unended = self.unended.or(Some(line)),
            "end" => {
                let campaign = value.get("total").is_some() && value.get("done").is_some();
                match &mut self.campaign {
                    Some((_, lines)) if campaign => return lines.ended = true,
                    _ => {}
                }
                self.open = None;
                self.unended = None;
                if let Some(record) = take(&mut value, "record") {
                    self.typed(line, record, |d| What::Run(Box::new(d)));
                } else if let Some(document) =
                    take(&mut value, "document").or_else(|| take(&mut value, "search"))
                {
                    self.object(line, document);
                } else if let Some(error) = take(&mut value, "error") {
                    self.object(line, serde_json::json!({ "error": error }));
                } else if value.get("data").is_none() {
                    self.damage(Some(line), "an end without a result".to_owned());
                }
            }
            "campaign" => self.campaign(line, &value),
            "run" => self.stored_run(line, value),
            // What happened to a campaign, and what other verbs report on the way.
            _ => {
                if let (Some((_, lines)), Ok(event)) =
                    (&mut self.campaign, serde_json::from_value::<Event>(value))
                {
                    lines.notes.events.push(event);
                }
            }
        }
    }

    /// A controller begins a campaign, or goes on with it.
    fn campaign(&mut self, line: u64, value: &Value) {
        let name = value["name"].as_str().unwrap_or_default();
        if self.campaign.as_ref().is_none_or(|(_, lines)| lines.notes.name != name) {
            self.close_campaign();
        }
        let lines = &mut self.campaign.get_or_insert_with(|| {
            let before = value["done"].as_u64().unwrap_or(0);
            (line, Lines { before, ..Lines::default() })
        });
        let lines = &mut lines.1;
        lines.ended = false;
        lines.total = value["total"].as_u64().unwrap_or(0);
        lines.notes.name = name.to_owned();
        lines.notes.baseline = value["baseline"].as_str().map(str::to_owned);
        let settings = value["settings"].as_array().map(Vec::as_slice).unwrap_or_default();
        lines.notes.settings =
            settings.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }

    /// A run of a campaign.
    fn stored_run(&mut self, line: u64, mut value: Value) {
        // A store has a record as text; lines have it as it is.
        if let Some(record) = value.get_mut("record") {
            *record = match record.take() {
                kept @ (Value::Null | Value::String(_)) => kept,
                record => Value::String(record.to_string()),
            };
        }
        match serde_json::from_value::<StoredRun>(value) {
            Ok(run) => {
                let (_, lines) = self.campaign.get_or_insert_with(|| {
                    // Without a beginning nothing can be said of an end.
                    (line, Lines { ended: true, ..Lines::default() })
                });
                lines.notes.runs.push(run);
            }
            Err(error) => {
                let what = format!("a run of a campaign that lacks something: {error}");
                self.damage(Some(line), what);
            }
        }
    }

    fn close_campaign(&mut self) {
        let Some((_, mut lines)) = self.campaign.take() else { return };
        // Of one run that two files or calls report, the latest is the one.
        let mut seen = std::collections::HashSet::new();
        lines.notes.runs.reverse();
        lines.notes.runs.retain(|run| seen.insert((run.id, run.started.clone())));
        lines.notes.runs.reverse();
        let mut sets = lines.notes.sets();
        if lines.before > 0 {
            sets.notes.push(format!(
                "{} runs were made before these lines begin and are not in them; the store has them all.",
                lines.before
            ));
        }
        if !lines.ended {
            sets.notes
                .push(format!("The lines end before the campaign of {} runs does.", lines.total));
        }
        self.push(What::Sets(sets));
    }

    /// A test that was started and whose end never came is a partial result, not nothing.
    fn close(&mut self) {
        if let Some(line) = self.unended.take() {
            let what = "a sweep, search or tuning whose end is missing: what `sweep --save DIR`, \
                        `search --log FILE` or `tune --save FILE` kept can be reported";
            self.damage(Some(line), what.to_owned());
        }
        let Some((line, mut record)) = self.open.take() else { return };
        if record.intervals.is_empty() {
            self.damage(Some(line), "a test that was started and reported nothing more".to_owned());
            return;
        }
        record.status = Status::Partial;
        record.error = Some(ErrorRecord::new(
            ErrorKind::NoEnd,
            format!("the file ends before the test did, {} intervals in", record.intervals.len()),
            "linerate was ended, or its output cut off",
            &[],
        ));
        self.push(What::Run(record));
    }
}

/// The comparison behind a document: its sets, analysed again by the same rules. So every figure of
/// the report is one that this version stands for, and the document's own sentences are checked
/// against it.
fn comparison(document: &Value) -> Result<Analysis, String> {
    let lacks = |what: &str| format!("a compare document without {what}");
    let unit = document["unit"].as_str().map(str::to_owned);
    // Which set was paired with the baseline, boot by boot.
    let method = |i: usize| document["comparisons"][i]["method"].as_str().unwrap_or_default();
    let by_boot = |i: usize| method(i).starts_with("paired t on boot");
    let comparisons = document["comparisons"].as_array().map_or(0, Vec::len);
    let any_by_boot = (0..comparisons).any(by_boot);
    let mut sets = Vec::new();
    for (index, set) in document["sets"].as_array().ok_or_else(|| lacks("sets"))?.iter().enumerate()
    {
        let shared = index.checked_sub(1).map_or(any_by_boot, by_boot);
        let label = set["label"].as_str().ok_or_else(|| lacks("a set's label"))?.to_owned();
        let in_range = |value: &Value| value.as_f64().filter(|x| in_range(*x));
        let number = |key: &str| in_range(&set[key]);
        let data = match set["values"].as_array() {
            Some(list) => {
                let values: Option<Vec<f64>> = list.iter().map(in_range).collect();
                let Some(values) = values.filter(|values| values.len() >= FEWEST_VALUES) else {
                    return Err(lacks("at least three numbers up to 1e140 in a set"));
                };
                let names = Vec::<String>::deserialize(&set["boot_labels"]).unwrap_or_default();
                let boots = set["boot_of"].as_array().map(|of| {
                    let label = |i: &Value| {
                        let i = i.as_u64().unwrap_or(0) as usize;
                        names.get(i).cloned().unwrap_or_else(|| i.saturating_add(1).to_string())
                    };
                    Boots::of_labels(of.iter().map(label), shared)
                });
                if boots.as_ref().is_some_and(|b| b.of.len() != values.len()) {
                    return Err(lacks("a boot for each value"));
                }
                Data::Runs { values: values.into(), boots }
            }
            None => {
                let (Some(n), Some(mean), Some(sd)) = (number("n"), number("mean"), number("sd"))
                else {
                    return Err(lacks("a set's count, mean and deviation"));
                };
                if !(3.0..=1e15).contains(&n) || n.fract() != 0.0 || sd < 0.0 {
                    return Err(lacks("a set of three runs"));
                }
                Data::Summary {
                    moments: linerate_stats::offline::summary::Moments::printed(n, mean, sd),
                    range: number("min").zip(number("max")),
                    median: number("median"),
                }
            }
        };
        // What was known of its runs alone, such as their doubts; all else is noticed again.
        let flags = set["flags"].as_array().into_iter().flatten().filter(|f| f["kind"] == "note");
        let notes = flags.filter_map(|f| f["text"].as_str().map(str::to_owned)).collect();
        sets.push(Set { label, unit: unit.clone(), data, notes });
    }
    let margin = document["margin"].as_str().unwrap_or("1 %");
    let amount: f64 = margin
        .split_whitespace()
        .next()
        .and_then(|n| n.parse().ok())
        .filter(|m: &f64| *m > 0.0 && in_range(*m))
        .ok_or_else(|| lacks("a margin above zero"))?;
    let options = Options {
        level: document["level"].as_f64().filter(|l| (50.0..100.0).contains(l)).unwrap_or(95.0)
            / 100.0,
        margin: if margin.ends_with('%') {
            Margin::Relative(amount / 100.0)
        } else {
            Margin::Absolute(amount)
        },
        paired: (0..comparisons).any(|i| method(i).starts_with("paired t on runs")),
        adjust: match document["adjusted"].as_str() {
            Some("Dunnett") => Adjust::Dunnett,
            Some("Holm") => Adjust::Holm,
            Some("none") => Adjust::None,
            _ => Adjust::Auto,
        },
        seed: document["seed"].as_u64().unwrap_or(1),
    };
    compare::compare(&sets, &options).map_err(|e| e.what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::lines::RunLine;
    use linerate_testkit::records;

    fn read_all(text: &str) -> Input {
        let mut input = Input::default();
        input.read("a.json", text.as_bytes());
        input
    }

    fn said(input: &Input) -> Vec<String> {
        input.damaged.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn records_in_every_packing() {
        let record = records::udp_receiver_drops();
        let pretty = serde_json::to_string_pretty(&record).unwrap();
        let line = serde_json::to_string(&record).unwrap();
        for text in [
            format!("{pretty}\n{pretty}\n"),
            format!("{line}\n{line}\n"),
            format!("[{line},{line}]"),
            format!("{{\"event\":\"end\",\"record\":{line}}}\n{line}"),
        ] {
            let input = read_all(&text);
            assert_eq!((input.items.len(), input.damaged.len()), (2, 0), "{:?}", said(&input));
            let What::Run(read) = &input.items[1].what else { panic!() };
            assert_eq!(**read, record);
        }
    }

    #[test]
    fn a_damaged_line_is_named_and_the_next_is_read() {
        let line = serde_json::to_string(&records::tcp()).unwrap();
        let cut = &line[..line.len() / 2];
        let input = read_all(&format!("{line}\n{cut}\n{line}\n{{\"a\":1}}\n{cut}"));
        assert_eq!(input.items.len(), 2);
        let said = said(&input);
        assert!(said[0].starts_with("a.json, line 2: "), "{said:?}");
        assert!(said[1].starts_with("a.json, line 4: neither a run record"), "{said:?}");
        assert!(said[2].starts_with("a.json, line 5: it ends in the middle"), "{said:?}");
    }

    #[test]
    fn what_is_no_result_is_said() {
        for (text, want) in [
            ("", "a.json: it is empty"),
            (" \n\t", "a.json: it is empty"),
            ("hello", "a.json, line 1: neither JSON nor the runs of a .stat file: "),
            ("1\n2\n", "a .stat file: only 2 values"),
            ("[1]", "a.json, line 1: expected an object"),
            ("{\"kind\":\"activity\"}", "kind `activity`"),
            ("{\"kind\":\"doctor\"}", "lacks something: missing field"),
            ("{\"kind\":\"tune\"}", "lacks something: missing field"),
            ("{\"format\":2,\"totals\":{}}", "format 2 is newer"),
            ("{\"start\":{},\"end\":{}}", "iperf3"),
            ("{\"error\":{\"what\":\"cannot reach x\"}}", "cannot reach x"),
            ("{\"totals\":{}}", "lacks something: missing field"),
            ("[]", "there is no result in it"),
            ("{\"event\":\"listening\"}", "there is no result in it"),
            ("{\"event\":\"note\",\"text\":\"x\"}", "there is no result in it"),
            ("{\"event\":\"start\",\"data\":{}}\n{\"event\":\"end\",\"data\":{}}", "iperf3"),
            ("{\"event\":\"start\",\"sweep\":{}}", "whose end is missing"),
            ("{\"event\":\"start\",\"factors\":[]}", "whose end is missing"),
            ("{\"event\":\"trial\",\"trial\":{}}", "whose end is missing"),
            ("{\"event\":\"start\"}", "a start without its record"),
            ("{\"event\":\"end\"}", "an end without a result"),
            ("{\"event\":\"end\",\"error\":{\"what\":\"no way\"}}", "no result: no way"),
            ("{\"event\":\"run\",\"slot\":1}", "a run of a campaign that lacks"),
            ("{\"kind\":\"compare\",\"sets\":[{\"label\":\"a\",\"values\":[1]}]}", "three numbers"),
        ] {
            let input = read_all(text);
            assert!(input.items.is_empty(), "{text}");
            assert!(said(&input)[0].contains(want), "{text}: {:?}", said(&input));
        }
    }

    /// Squares of larger numbers have no room, and no boot has such a number.
    #[test]
    fn a_comparison_of_numbers_out_of_range_is_damaged() {
        let set = |set: &str| {
            format!(r#"{{"kind":"compare","sets":[{{"label":"a",{set}}}],"margin":"1 %"}}"#)
        };
        for bad in [
            r#""values":[1,2,1e200]"#,
            r#""n":3,"mean":1e200,"sd":1"#,
            r#""n":3,"mean":1,"sd":1e200"#,
            r#""n":1e200,"mean":1,"sd":1"#,
            r#""n":3.5,"mean":1,"sd":1"#,
        ] {
            let input = read_all(&set(bad));
            assert_eq!((input.items.len(), input.damaged.len()), (0, 1), "{bad}");
        }
        let boots = r#""values":[1,2,3],"boot_of":[18446744073709551615,0,0]"#;
        for good in [r#""values":[1,2,0]"#, r#""n":3,"mean":1,"sd":0"#, boots] {
            assert_eq!(read_all(&set(good)).items.len(), 1, "{good}");
        }
        let wide = set(r#""values":[1,2,3]"#).replace("1 %", "1e300");
        assert!(read_all(&wide).items.is_empty());
    }

    #[test]
    fn a_comparison_keeps_what_was_noted_of_its_runs() {
        let input = read_all(
            r#"{"kind":"compare","sets":[{"label":"a","values":[1,2,3],"flags":[
            {"kind":"drift","text":"d"},{"kind":"note","text":"3 of 3 runs have a doubt: host-busy"}]}]}"#,
        );
        let What::Compare(read) = &input.items[0].what else { panic!("{:?}", said(&input)) };
        assert_eq!(read.sets[0].set.notes, ["3 of 3 runs have a doubt: host-busy"]);
    }

    #[test]
    fn a_test_that_never_ended_is_partial() {
        let record = records::udp_receiver_drops();
        let mut started = record.clone();
        started.intervals.clear();
        started.totals = Default::default();
        let mut lines = vec![serde_json::to_string(&RunLine::Start { record: &started }).unwrap()];
        for interval in &record.intervals[..2] {
            lines.push(serde_json::to_string(&RunLine::Interval(interval)).unwrap());
        }
        let input = read_all(&lines.join("\n"));
        let What::Run(read) = &input.items[0].what else { panic!() };
        assert_eq!((read.status, read.intervals.len()), (Status::Partial, 2));
    }

    #[test]
    fn damaged_bytes_are_no_danger() {
        use linerate_stats::offline::bootstrap::Random;
        let seeds = [
            serde_json::to_string(&records::udp_both()).unwrap(),
            format!(
                "{}\n{{\"event\":\"interval\"}}",
                serde_json::to_string(&records::rr()).unwrap()
            ),
        ];
        let mut random = Random::new(7);
        for round in 0..600 {
            let mut bytes = seeds[round % 2].clone().into_bytes();
            for _ in 0..1 + random.below(6) {
                let at = random.below(bytes.len());
                match random.below(3) {
                    0 => bytes[at] = random.bits() as u8,
                    1 => bytes.truncate(at + 1),
                    _ => bytes.insert(at, b"\n#0 ,{}[]\"-e"[random.below(12)]),
                }
            }
            let mut input = Input::default();
            input.read("f", &bytes);
            assert!(!input.items.is_empty() || !input.damaged.is_empty());
        }
    }
}
