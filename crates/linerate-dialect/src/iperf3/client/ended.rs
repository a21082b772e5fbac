//! What is known of a test when it is over.

use linerate_model::plan::{Traffic, Way};
use linerate_model::test_event::{Cpu, ServerOutput, Side, StreamEnd};
use linerate_session::assemble::StreamOutcome;
use linerate_wire::iperf3::{Results, stream_id};

use super::Client;
use crate::ending::Trouble;
use crate::iperf3::account::{
    far_receiver, far_sender, far_span_ns, far_stream, far_thread, place_drops, received_ns,
};
use crate::stream::{Report, StreamId};

/// What is known of a test that ran.
#[derive(Debug)]
pub struct Ended {
    /// Both ends' reports, in the order of the streams.
    pub streams: Vec<StreamOutcome>,
    /// The same in the terms of iperf3's users.
    pub ends: Vec<StreamEnd>,
    /// Measured time of this end, in nanoseconds.
    pub span_ns: u64,
    /// What share of a core this process took.
    pub cpu: Cpu,
    /// The same of the server's.
    pub far_cpu: Option<Cpu>,
    /// Of TCP streams here.
    pub congestion: Option<String>,
    /// Of TCP streams at the server.
    pub far_congestion: Option<String>,
    /// What the server printed.
    pub server_output: Option<ServerOutput>,
    /// This end was stopped.
    pub interrupted: bool,
    /// Why figures are missing.
    pub trouble: Option<Trouble>,
    /// The server's figures arrived.
    pub results: bool,
    /// So many rows were shown.
    pub shown: u64,
}

impl Client {
    /// What is known of a test that ran. `drops` are the datagrams that the kernel of both ends dropped
    /// for want of buffer, where they have one; `wants_output` is whether the server was asked for what it
    /// printed.
    pub fn ended(mut self, now_ns: u64, drops: Option<u64>, wants_output: bool) -> Ended {
        let results = self.results.take();
        let measured = self.measured(now_ns);
        let (span_ns, arriving_ns) = (measured.span_ns(), received_ns(&measured, results.as_ref()));
        let mut reports = std::mem::take(&mut self.reports);
        let (mut ends, mut streams) = (Vec::new(), Vec::new());
        for id in &self.ids {
            let report = reports.remove(&id.stream);
            let (end, outcome) =
                self.of_stream(*id, report, results.as_ref(), (span_ns, arriving_ns));
            ends.push(end);
            streams.push(outcome);
        }
        if let Some(drops) = drops {
            place_drops(&mut streams, drops);
        }
        let far_cpu = results.as_ref().and_then(|r| {
            Some(Cpu { total: r.cpu_total?, user: r.cpu_user?, system: r.cpu_system? })
        });
        let far_congestion = results.as_ref().and_then(|r| r.congestion_used.clone());
        Ended {
            streams,
            ends,
            span_ns,
            cpu: self.cpu,
            far_cpu,
            congestion: self.congestion,
            far_congestion,
            interrupted: self.interrupted,
            trouble: self.trouble,
            results: results.is_some(),
            // A server that was asked once reports it in every test after that.
            server_output: results.filter(|_| wants_output).and_then(|r| {
                let text = r.server_output_text.map(ServerOutput::Text);
                text.or(r.server_output_json.map(ServerOutput::Json))
            }),
            shown: self.shown,
        }
    }

    pub(super) fn of_stream(
        &self,
        id: StreamId,
        report: Option<Report>,
        results: Option<&Results>,
        (span_ns, arriving_ns): (u64, u64),
    ) -> (StreamEnd, StreamOutcome) {
        let plan = &self.terms.plan;
        let datagram = match &plan.traffic {
            Traffic::Udp(udp) => Some(u64::from(udp.size.bytes())),
            _ => None,
        };
        let reverse = id.way == Way::Reverse;
        let mut outcome = StreamOutcome { index: id.index, reverse, ..StreamOutcome::default() };
        let number = stream_id(id.stream);
        let far = results.and_then(|r| r.streams.iter().find(|s| s.id == number));
        let far_span = far.and_then(far_span_ns);
        // A far receiver's clock also runs while nothing can arrive.
        let far_ns = if reverse { far_span.unwrap_or(span_ns) } else { arriving_ns };
        let each_way = usize::from(plan.streams);
        let thread = results.map(|r| far_thread(r, far_ns, each_way)).unwrap_or_default();
        let here = match report {
            Some(Report::Send(sent)) => {
                if let Some(far) = far {
                    let mut recv = far_receiver(&sent, far, datagram, plan.warmup.0 > 0);
                    recv.thread = thread;
                    (recv.first_ns, recv.last_ns) = (Some(0), Some(far_ns));
                    outcome.recv = Some(recv);
                }
                let side = Side::Send(Box::new(sent.clone()));
                outcome.send = Some(sent);
                side
            }
            Some(Report::Recv(mut recv)) => {
                let side = Side::Recv(Box::new(recv.clone()));
                if let Some(far) = far {
                    let mut send = far_sender(&mut recv, far, datagram, far_ns);
                    send.thread = thread;
                    outcome.send = Some(send);
                }
                outcome.recv = Some(recv);
                side
            }
            _ => Side::Send(Box::default()),
        };
        let seconds = far_span.map(|_| far_ns as f64 / 1e9);
        (StreamEnd { here, far: far.map(|far| far_stream(far, seconds)), told: None }, outcome)
    }
}
