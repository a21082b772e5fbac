//! What a client knows when its test has run.

use linerate_model::plan::Way;
use linerate_session::assemble::{HostSamples, StreamOutcome};
use linerate_session::clock::{ClockOffset, offset, over_test};
use linerate_wire::native::message::StreamReport;

use super::Client;
use crate::ending::Trouble;
use crate::stream::Report;

/// What is known of a test that ran.
#[derive(Debug)]
pub struct Ended {
    /// Both ends' reports, in the order of the streams.
    pub streams: Vec<StreamOutcome>,
    /// The server's host, as far as it was reported.
    pub server: HostSamples,
    /// The server's clock less this end's, where both knew it.
    pub clock: Option<ClockOffset>,
    /// This end was stopped.
    pub interrupted: bool,
    /// The server was lost, or did what it must not.
    pub trouble: Option<Trouble>,
    /// The server ended it, and said why.
    pub stopping: Option<String>,
    /// The server's figures arrived.
    pub results: bool,
    /// So many rows were shown.
    pub shown: u64,
}

impl Client {
    /// What is known of a test that ran.
    pub fn ended(mut self) -> Ended {
        if self.results.is_none() {
            // Of a stream that was reported by halves the figures would contradict its intervals.
            self.remote.clear();
        }
        let (mut reports, mut remote) = (self.reports, self.remote);
        let streams = self.ids.iter().map(|id| {
            let mut outcome = StreamOutcome {
                index: id.index,
                reverse: id.way == Way::Reverse,
                ..Default::default()
            };
            match reports.remove(&id.stream) {
                Some(Report::Send(report)) => outcome.send = Some(report),
                Some(Report::Recv(report)) => outcome.recv = Some(report),
                Some(Report::Rr(report)) => outcome.rr = Some(report),
                Some(Report::Respond(_)) | None => {}
            }
            match remote.remove(&id.stream) {
                Some(StreamReport::Send(report)) => outcome.send = Some(*report),
                Some(StreamReport::Recv(report)) => outcome.recv = Some(*report),
                Some(StreamReport::Respond(report)) => outcome.respond = Some(report),
                None => {}
            }
            outcome
        });
        let streams = streams.collect();
        let at_end = offset(&self.exchanges);
        let clock = self.at_start.map(|start| over_test(start, at_end));
        let results = self.results.is_some();
        let (total, irq_cores) = self.results.map(|r| (r.host, r.irq_cores)).unzip();
        Ended {
            streams,
            server: HostSamples {
                intervals: self.remote_samples,
                total,
                irq_cores: irq_cores.unwrap_or_default(),
            },
            clock,
            interrupted: self.interrupted,
            trouble: self.trouble,
            stopping: self.stopping,
            results,
            shown: self.live.shown(),
        }
    }
}
