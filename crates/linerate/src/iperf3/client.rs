//! The client: iperf3's options as a request, and what is shown on its screen.

use linerate_ask::iperf3::{Line, request};
use linerate_model::record::{ErrorKind, RunRecord, Status};
use linerate_model::test_event::TestEvent;
use linerate_runner::signals::Stop;
use linerate_session::observer::Observer;

use super::screen::Screen;
use super::{Done, Out, options, words};
use crate::output;

pub(super) fn run(line: &Line, out: &mut Out) -> Done {
    let mut request =
        request(line).map_err(|text| Some(format!("iperf3: parameter error - {text}")))?;
    request.command = std::iter::once("iperf3".to_owned())
        .chain(output::command().into_iter().skip(1).skip_while(|word| word == "iperf3"))
        .collect();
    let stop = Stop::at_signals().map_err(|e| Some(format!("iperf3: error - {e}")))?;
    let screen = Screen::new(line, &options(line));
    let mut face = Face { screen, out, end: None, stop: stop.clone() };
    let record = linerate_runner::run(&request, &mut face, &stop);
    face.finish(&record)
}

struct Face<'a> {
    screen: Screen,
    out: &'a mut Out,
    /// Shown with the record, which comes after it.
    end: Option<TestEvent>,
    stop: Stop,
}

impl Observer for Face<'_> {
    fn event(&mut self, event: &TestEvent) {
        if matches!(event, TestEvent::End(_)) {
            self.end = Some(event.clone());
            return;
        }
        self.screen.event(self.out, event, None);
        if self.out.closed {
            // Without a reader the test has no purpose: ended as by Ctrl-C, so that the server knows.
            self.stop.now();
        }
    }
}

impl Face<'_> {
    fn finish(mut self, record: &RunRecord) -> Done {
        if let Some(end) = self.end.take() {
            self.screen.event(self.out, &end, Some(exact(record)));
        }
        if record.status == Status::Complete {
            self.screen.end(self.out, None);
            return Ok(());
        }
        let error = record.error.as_ref();
        let (text, line) = match error.map(|error| &error.kind) {
            Some(ErrorKind::Interrupted) => {
                let text = "interrupt - the client has terminated".to_owned();
                (text.clone(), format!("iperf3: {text}"))
            }
            _ => {
                let text = error.map(words).unwrap_or_default();
                (text.clone(), format!("iperf3: error - {text}"))
            }
        };
        self.screen.end(self.out, Some(&text));
        Err(Some(line))
    }
}

/// What only linerate knows of the test.
fn exact(record: &RunRecord) -> serde_json::Value {
    let value = serde_json::to_value(record).unwrap_or_default();
    let member = |name: &str| value.get(name).cloned().unwrap_or_default();
    serde_json::json!({
        "version": record.linerate.version,
        "status": member("status"),
        "agreed": member("agreed"),
        "totals": member("totals"),
        "verdict": member("verdict"),
        "doubts": member("doubts"),
    })
}
