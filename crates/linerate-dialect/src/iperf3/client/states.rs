//! What the server says on the control connection: states, failures, results.

use linerate_model::plan::Transport;
use linerate_wire::iperf3::frame::{self, MAX_SERVER_RESULTS, PREFIX_BYTES};
use linerate_wire::iperf3::{FAILURE_BYTES, Results, State};

use super::{Client, LEAST_DRAIN_NS, Phase, REASON_LIMIT_NS, STREAM_END_NS};
use crate::Action;
use crate::ending::Failure;

impl Client {
    /// Takes one thing of what was heard; whether there was one.
    pub(super) fn read(&mut self, now_ns: u64) -> bool {
        if self.failing_ns.is_some() {
            if self.heard.len() < FAILURE_BYTES - 1 {
                return false;
            }
            self.failing_ns = None;
            self.on_failure(now_ns);
            return true;
        }
        let Some(&byte) = self.heard.first() else { return false };
        // In place of its results a server may say that it cannot go on. No length that is legal begins so.
        let gives_up =
            matches!(State::from_byte(byte), Some(State::ServerError | State::ServerTerminate));
        if matches!(self.phase, Phase::Exchanging { .. }) && !gives_up {
            return self.read_results(now_ns);
        }
        self.heard.drain(..1);
        match State::from_byte(byte) {
            Some(State::AccessDenied) => self.fail(now_ns, Failure::Busy),
            Some(State::ServerTerminate) => {
                self.fail(now_ns, Failure::Stopped("it was asked to stop".into()));
            }
            Some(State::ServerError) => {
                self.failing_ns = Some(now_ns.saturating_add(REASON_LIMIT_NS));
            }
            Some(state) => self.on_state(now_ns, state),
            None => {
                let why =
                    format!("a byte {byte} that no iperf3 sends came on its control connection");
                self.fail_server(now_ns, why);
            }
        }
        true
    }

    /// What followed [`State::ServerError`]: some releases send one number, some two.
    pub(super) fn on_failure(&mut self, now_ns: u64) {
        let bytes = self.heard.get(..self.heard.len().min(FAILURE_BYTES - 1)).unwrap_or_default();
        let failure = linerate_wire::iperf3::Failure::decode(bytes);
        self.closed = true;
        self.fail(now_ns, Failure::Iperf3(failure));
    }

    pub(super) fn read_results(&mut self, now_ns: u64) -> bool {
        let Some(prefix) = self.heard.first_chunk::<PREFIX_BYTES>() else { return false };
        let length = match frame::body_length(*prefix, MAX_SERVER_RESULTS) {
            Ok(length) => length,
            Err(e) => {
                self.fail_server(now_ns, e.to_string());
                return true;
            }
        };
        let end = PREFIX_BYTES + length;
        let Some(body) = self.heard.get(PREFIX_BYTES..end) else { return false };
        match Results::decode_server(body) {
            Ok(results) => {
                self.results = Some(results);
                self.heard.drain(..end);
                let deadline_ns = now_ns.saturating_add(self.terms.patience_ns);
                self.phase = Phase::Displaying { deadline_ns };
            }
            Err(e) => self.fail_server(now_ns, e.to_string()),
        }
        true
    }

    pub(super) fn on_state(&mut self, now_ns: u64, state: State) {
        let deadline_ns = now_ns.saturating_add(self.terms.patience_ns);
        match &mut self.phase {
            Phase::Agreeing { wanted, .. } if state == *wanted => {
                if state == State::ParamExchange {
                    self.phase = Phase::Agreeing { wanted: State::CreateStreams, deadline_ns };
                    let parameters = std::mem::take(&mut self.terms.parameters);
                    self.say(now_ns, &parameters);
                } else {
                    self.phase = Phase::Opening { stream: 0, started: false };
                    self.open();
                }
            }
            Phase::Opening { stream, started }
                if state == State::TestStart && usize::from(*stream) + 1 == self.ids.len() =>
            {
                *started = true;
                self.word_ns = now_ns;
                self.actions.push_back(Action::TakeOpen);
            }
            Phase::Opening { .. } => {
                let why = format!("it said {state} before all streams were open");
                self.fail_server(now_ns, why);
            }
            Phase::Starting { wanted, .. } if state == *wanted => {
                if state == State::TestStart {
                    self.word_ns = now_ns;
                    self.phase = Phase::Starting { wanted: State::TestRunning, deadline_ns };
                } else {
                    self.start(now_ns);
                }
            }
            Phase::Agreeing { wanted, .. } | Phase::Starting { wanted, .. } => {
                let why = format!("it said {state} where {wanted} was due");
                self.fail_server(now_ns, why);
            }
            Phase::Running(running) if running.end_said && state == State::ExchangeResults => {
                let drain_ns = match self.terms.plan.traffic.transport() {
                    Transport::Tcp => STREAM_END_NS,
                    Transport::Udp => self.terms.settle_ns.max(LEAST_DRAIN_NS),
                };
                self.said_span_ns = self.measured(now_ns).span_ns();
                self.collect(now_ns, drain_ns);
            }
            Phase::Running(_) => {
                self.fail_server(now_ns, format!("it said {state} while the test ran"));
            }
            Phase::Displaying { .. } => self.leave(now_ns),
            _ => {}
        }
    }
}
