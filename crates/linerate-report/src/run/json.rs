//! A test as JSON: one record when it is over, or one object a line while it runs.

use std::io::{self, Write};

use linerate_model::lines::RunLine;
use linerate_model::record::{ErrorRecord, Interval, RunRecord};
use serde::Serialize;

use crate::clean::clean_json;

/// Any document, indented, with a line end.
pub fn document(document: &impl Serialize) -> io::Result<String> {
    Ok(format!("{}\n", clean_json(&serde_json::to_string_pretty(document)?)))
}

/// Any document as a line.
pub fn line(document: &impl Serialize) -> io::Result<String> {
    Ok(format!("{}\n", clean_json(&serde_json::to_string(document)?)))
}

/// Writes one object a line, each flushed, so that a reader sees an interval when it ends.
#[derive(Debug)]
pub struct JsonLines<W> {
    out: W,
    /// End of the last interval that was reported.
    reported_s: f64,
}

impl<W: Write> JsonLines<W> {
    /// Lines go to `out`.
    pub fn new(out: W) -> Self {
        Self { out, reported_s: 0.0 }
    }

    /// `{"event":"start","record":{…}}`
    pub fn start(&mut self, record: &RunRecord) -> io::Result<()> {
        self.line(&RunLine::Start { record })
    }

    /// `{"event":"interval","start_s":…,"end_s":…,…}`
    pub fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        self.reported_s = interval.end_s;
        self.line(&RunLine::Interval(interval))
    }

    /// `{"event":"end","record":{…}}`, after the intervals that never came live: the last one is
    /// often known at both ends only when the test is over.
    pub fn end(&mut self, record: &RunRecord) -> io::Result<()> {
        for interval in &record.intervals {
            if interval.end_s > self.reported_s {
                self.interval(interval)?;
            }
        }
        self.line(&RunLine::End { record: Some(record), error: None })
    }

    /// `{"event":"end","error":{…}}`, where no test was begun.
    pub fn no_record(&mut self, error: &ErrorRecord) -> io::Result<()> {
        self.line(&RunLine::End { record: None, error: Some(error) })
    }

    fn line(&mut self, of: &impl Serialize) -> io::Result<()> {
        self.out.write_all(line(of)?.as_bytes())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testkit::records;

    #[test]
    fn a_record_reads_back_as_itself() {
        for sample in [records::udp_both(), records::hostile(), records::failed()] {
            let text = document(&sample).unwrap();
            assert!(!text.chars().any(|c| c != '\n' && c.is_control()));
            assert_eq!(serde_json::from_str::<RunRecord>(&text).unwrap(), sample);
        }
    }

    #[test]
    fn one_object_a_line() {
        let sample = records::udp_streams();
        let mut out = Vec::new();
        let mut lines = JsonLines::new(&mut out);
        lines.start(&sample).unwrap();
        // The second interval does not come live.
        lines.interval(&sample.intervals[0]).unwrap();
        lines.end(&sample).unwrap();
        lines.no_record(records::failed().error.as_ref().unwrap()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let objects: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let events: Vec<_> = objects.iter().map(|o| o["event"].as_str().unwrap()).collect();
        assert_eq!(events, ["start", "interval", "interval", "end", "end"]);
        assert_eq!(objects[1]["end_s"], 1.0);
        assert_eq!(objects[2]["sender"]["datagrams"], 7_100_000);
        assert_eq!(objects[3]["record"]["format"], 1);
        assert_eq!(objects[4]["error"]["exit_code"], 3);
    }
}
