//! One test on iperf3's screen: text, a document at the end, or a line for each event.

use linerate_model::test_event::TestEvent;
use linerate_report::iperf3::{Document, Options, Text};

use super::{Out, now};
use linerate_ask::iperf3::Line;

/// Shows one test.
pub(super) struct Screen {
    text: Text,
    document: Document,
    json: bool,
    stream: bool,
    full: bool,
    /// `-i 0`.
    silent: bool,
    started: bool,
}

impl Screen {
    pub(super) fn new(line: &Line, options: &Options) -> Self {
        Self {
            text: Text::new(options.clone()),
            document: Document::new(options.clone()),
            json: line.json,
            stream: line.json_stream,
            full: line.json_stream_full,
            silent: line.interval_s == 0.0,
            started: false,
        }
    }

    /// What a server says before a test.
    pub(super) fn listening(&self, out: &mut Out, number: u64) {
        if !self.json {
            out.write(&self.text.listening(number));
        }
    }

    /// `exact` is linerate's own member of the document's end.
    pub(super) fn event(
        &mut self,
        out: &mut Out,
        event: &TestEvent,
        exact: Option<serde_json::Value>,
    ) {
        self.started |= matches!(event, TestEvent::Start(_));
        if self.silent && matches!(event, TestEvent::Rows(_)) {
            return;
        }
        let (time, seconds) = now();
        if self.json {
            let line = self.document.event(event, (&time, seconds), exact);
            if let Some(line) = line.filter(|_| self.stream) {
                out.write(&line);
            }
        } else {
            let text = self.text.event(event, &time);
            out.write(&text);
        }
    }

    /// The test is over; `error` in iperf3's words.
    pub(super) fn end(&mut self, out: &mut Out, error: Option<&str>) {
        if !self.json {
            return;
        }
        if let Some(error) = error {
            self.document.fail(error);
        }
        if self.stream {
            out.write(&self.document.last_lines());
        }
        if !self.stream || self.full {
            out.write(&self.document.whole());
        }
    }
}
