//! JSON, one document or many: pretty-printed, one a line, in a list, or the lines that a running
//! test printed.

use std::collections::HashMap;

use linerate_model::campaign::{Event, StoredRun};
use linerate_model::record::{ErrorKind, ErrorRecord, Interval, RunRecord, Status};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

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
        let mut stream = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
        match stream.next() {
            None => break,
            Some(Ok(json)) => {
                let used = stream.byte_offset();
                reader.document(line, json);
                line += count_lines(rest.get(..used).unwrap_or_default());
                start += blank + used;
            }
            Some(Err(mut error)) => {
                // Where each line is a document of its own, this one ends with its line, and the
                // next may be whole.
                let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
                let (own, next) = rest.split_at(end);
                let own_line = next.starts_with(b"{\"");
                // What is only skipped is told from what is cut less well: a number may be either.
                let own = if own_line { own } else { rest }.trim_ascii_end();
                if let Err(of_it) = serde_json::from_slice::<Value>(own) {
                    error = of_it;
                }
                let what = if error.is_eof() {
                    "it ends in the middle of a document".to_owned()
                } else {
                    format!("expected JSON: {}", without_place(&error.to_string()))
                };
                reader.damage(Some(line + error.line().saturating_sub(1) as u64), what);
                if !own_line {
                    break;
                }
                start += blank + end;
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

/// The members of an object, each as it stands in the text.
type Members<'a> = HashMap<String, &'a RawValue>;

/// What stands in the text as its type. Not by way of a [`Value`], which would bring a second copy of the code that reads
/// each of these types; and as bytes, since reading a `str` is another one again.
fn of<'a, T: Deserialize<'a>>(json: &'a RawValue) -> serde_json::Result<T> {
    serde_json::from_slice(json.get().as_bytes())
}

/// A member, where it is there and of that type.
fn member<T: DeserializeOwned>(members: &Members<'_>, key: &str) -> Option<T> {
    members.get(key).and_then(|json| of(json).ok())
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

    fn document(&mut self, line: u64, json: &RawValue) {
        match of::<Vec<&RawValue>>(json) {
            Ok(list) => list.into_iter().for_each(|json| self.object(line, json)),
            Err(_) => self.object(line, json),
        }
    }

    fn object(&mut self, line: u64, json: &RawValue) {
        let Ok(members) = of::<Members<'_>>(json) else {
            return self.damage(Some(line), "expected an object or a list of them".to_owned());
        };
        match member::<String>(&members, "event") {
            Some(event) => self.event(line, &event, json, &members),
            None => self.result(line, json, &members),
        }
    }

    /// An object that is no line of `--json-lines`.
    fn result(&mut self, line: u64, json: &RawValue, members: &Members<'_>) {
        let has = |key: &str| members.contains_key(key);
        if let Some(what) = newer(member(members, "format")) {
            return self.damage(Some(line), what);
        }
        // Runs of a store, as `campaign export --format json-lines` has them.
        if has("slot") && has("setting") && has("state") {
            return self.stored_run(line, json);
        }
        let document = || of::<Value>(json).map_err(|error| error.to_string());
        let kind: Option<String> = member(members, "kind");
        match kind.as_deref() {
            Some("sweep") => self.typed(line, json, What::Sweep),
            Some("search") => self.typed(line, json, What::Search),
            Some("tune") => self.typed(line, json, What::Tune),
            Some("doctor") => self.typed(line, json, What::Doctor),
            Some("profile") => self.typed(line, json, What::Profile),
            Some("compare") => match document().and_then(|document| comparison(&document)) {
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
            None if has("totals") => self.typed(line, json, What::Run),
            // Of `iperf3 -J`.
            None if has("start") && has("end") => {
                let known = |id: &str| !id.is_empty() && self.iperf3.iter().any(|r| r.id == id);
                match document().and_then(|document| iperf3::record(&document)) {
                    Ok(record) if known(&record.id) => {
                        self.damage(Some(line), format!("the same run once more: {}", record.id));
                    }
                    Ok(record) => self.iperf3.push(Box::new(record)),
                    Err(what) => self.damage(Some(line), what),
                }
            }
            None => match members.get("error") {
                Some(error) => self.failed(line, error),
                None => self.damage(
                    Some(line),
                    "neither a run record nor a document of another verb that can be reported"
                        .to_owned(),
                ),
            },
        }
    }

    fn typed<D: DeserializeOwned>(&mut self, line: u64, json: &RawValue, make: fn(D) -> What) {
        match of(json) {
            Ok(document) => self.push(make(document)),
            Err(error) => self.lacks(line, "a document that", &error),
        }
    }

    /// The place in the error is that in what was read, which may be one of many in a line.
    fn lacks(&mut self, line: u64, what: &str, error: &serde_json::Error) {
        self.damage(Some(line), format!("{what} lacks something: {error} of it"));
    }

    /// What a verb prints in place of its document.
    fn failed(&mut self, line: u64, error: &RawValue) {
        let error: Value = of(error).unwrap_or_default();
        let why = error["what"].as_str().unwrap_or("no reason");
        let what = format!("an error and no result: {}", linerate_model::clean::clean(why));
        self.damage(Some(line), what);
    }

    /// A line of `--json-lines`.
    fn event(&mut self, line: u64, event: &str, json: &RawValue, members: &Members<'_>) {
        let has = |key: &str| members.contains_key(key);
        match event {
            "start" => {
                self.close();
                match members.get("record") {
                    Some(record) => match of(record) {
                        Ok(record) => self.open = Some((line, record)),
                        Err(error) => self.lacks(line, "a start whose record", &error),
                    },
                    // Of a sweep, or of a tuning.
                    None if has("sweep") || has("factors") => self.unended = Some(line),
                    None if has("data") => self.damage(
                        Some(line),
                        "lines of iperf3 --json-stream: a report has too little of them".to_owned(),
                    ),
                    None => self.damage(Some(line), "a start without its record".to_owned()),
                }
            }
            // iperf3's.
            "interval" if has("data") => {}
            "interval" => match (of::<Interval>(json), &mut self.open) {
                (Ok(interval), Some((_, record))) => record.intervals.push(interval),
                // The end repeats every interval, so one that stands alone is no loss.
                (Ok(_), None) => {}
                (Err(error), _) => self.lacks(line, "an interval that", &error),
            },
            // Of a sweep, search or tuning; the document at the end repeats it.
            "trial" => self.unended = self.unended.or(Some(line)),
            "end" => {
                match &mut self.campaign {
                    Some((_, lines)) if has("total") && has("done") => return lines.ended = true,
                    _ => {}
                }
                self.open = None;
                self.unended = None;
                if let Some(record) = members.get("record") {
                    self.typed(line, record, What::Run);
                } else if let Some(document) =
                    members.get("document").or_else(|| members.get("search"))
                {
                    self.result(line, document, &of(document).unwrap_or_default());
                } else if let Some(error) = members.get("error") {
                    self.failed(line, error);
                } else if !has("data") {
                    self.damage(Some(line), "an end without a result".to_owned());
                }
            }
            "campaign" => self.campaign(line, members),
            "run" => self.stored_run(line, json),
            // What happened to a campaign, and what other verbs report on the way.
            _ => {
                if let (Some((_, lines)), Ok(event)) = (&mut self.campaign, of::<Event>(json)) {
                    lines.notes.events.push(event);
                }
            }
        }
    }

    /// A controller begins a campaign, or goes on with it.
    fn campaign(&mut self, line: u64, members: &Members<'_>) {
        let name: String = member(members, "name").unwrap_or_default();
        if self.campaign.as_ref().is_none_or(|(_, lines)| lines.notes.name != name) {
            self.close_campaign();
        }
        let lines = &mut self.campaign.get_or_insert_with(|| {
            let before = member(members, "done").unwrap_or(0);
            (line, Lines { before, ..Lines::default() })
        });
        let lines = &mut lines.1;
        lines.ended = false;
        lines.total = member(members, "total").unwrap_or(0);
        lines.notes.name = name;
        lines.notes.baseline = member(members, "baseline");
        lines.notes.settings = member(members, "settings").unwrap_or_default();
    }

    /// A run of a campaign.
    fn stored_run(&mut self, line: u64, json: &RawValue) {
        match of::<StoredRun>(json) {
            Ok(run) => {
                let (_, lines) = self.campaign.get_or_insert_with(|| {
                    // Without a beginning nothing can be said of an end.
                    (line, Lines { ended: true, ..Lines::default() })
                });
                lines.notes.runs.push(run);
            }
            Err(error) => self.lacks(line, "a run of a campaign that", &error),
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
            // Its deviation is that of the runs, and boots are compared by their means.
            None if !set["boots"].is_null() => return Err(lacks("the values of a set with boots")),
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
    fn a_line_may_be_cut_anywhere() {
        let line = serde_json::to_string(&records::tcp()).unwrap();
        for cut in
            ["{", "{\"id\"", "{\"id\":", "{\"id\":\"a", "{\"id\":\"a\\", "{\"a\":[1,", "{\"a\":1."]
        {
            let input = read_all(&format!("{cut}\n{line}\n"));
            assert_eq!(input.items.len(), 1, "{cut}");
            assert_eq!(said(&input), ["a.json, line 1: it ends in the middle of a document"]);
        }
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = |open: &str, close: &str| open.repeat(20_000) + "1" + &close.repeat(20_000);
        for text in [deep("[", "]"), deep(r#"{"event":"end","document":"#, "}")] {
            let input = read_all(&text);
            assert_eq!((input.items.len(), input.damaged.len()), (0, 1), "{:?}", said(&input));
        }
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
            ("{\n\"totals\":3}", "a.json, line 1: a document that lacks something: invalid type"),
            ("{\n\"totals\":3}", " at line 2 column 10 of it"),
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
            // Taken for independent runs, it would say more than the comparison did.
            r#""n":200000,"mean":1,"sd":1,"boots":3"#,
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
    fn a_run_of_iperf3_counts_once() {
        let run = |cookie: &str| {
            let sum = serde_json::json!({ "bytes": 1, "seconds": 1, "bits_per_second": 8 });
            let end = serde_json::json!({ "sum_sent": sum, "sum_received": sum });
            serde_json::json!({ "start": { "cookie": cookie }, "end": end }).to_string()
        };
        let input = read_all(&["a", "b", "a", "c"].map(run).concat());
        let What::Sets(sets) = &input.items[0].what else { panic!("{:?}", input.items) };
        assert_eq!(sets.sets[0].runs.len(), 3);
        assert!(said(&input)[0].ends_with("the same run once more: a"), "{:?}", said(&input));
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
