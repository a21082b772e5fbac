//! The exchange of results, and the end as this server's users see it.

use linerate_model::plan::Transport;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::test_event::{Cpu, End, Side, StreamEnd, TestEvent};
use linerate_wire::iperf3::frame::{self, MAX_CLIENT_RESULTS, PREFIX_BYTES};
use linerate_wire::iperf3::{ErrorNumber, Results, State, stream_index};

use super::{Phase, Server, TALK_LIMIT_NS, TCP_DRAIN_NS, Trouble};
use crate::iperf3::results;
use crate::stream::{self, Report};
use crate::{Action, Seen};

impl Server {
    pub(super) fn read_results(&mut self, now_ns: u64, seen: &Seen) -> bool {
        let Some(prefix) = self.heard.first_chunk::<PREFIX_BYTES>() else { return false };
        let client = match frame::body_length(*prefix, MAX_CLIENT_RESULTS) {
            Ok(length) => {
                let end = PREFIX_BYTES + length;
                let Some(body) = self.heard.get(PREFIX_BYTES..end) else { return false };
                let client = Results::decode_client(body);
                self.heard.drain(..end);
                client
            }
            Err(e) => Err(e),
        };
        let client = client.map_err(|e| Trouble::of_frame(&e));
        if let Err(trouble) = client.and_then(|client| self.on_results(now_ns, seen, &client)) {
            self.trouble(now_ns, trouble);
        }
        true
    }

    pub(super) fn on_results(
        &mut self,
        now_ns: u64,
        seen: &Seen,
        client: &Results,
    ) -> Result<(), Trouble> {
        let omits = self.plan().warmup.0 > 0;
        let transport = self.transport();
        for stream in &client.streams {
            let index = stream_index(stream.id).map(usize::from);
            let id = index.and_then(|index| self.ids.get(index)).ok_or_else(|| {
                let why = format!("no stream has the id {}", stream.id);
                Trouble::new(ErrorNumber::STREAM_ID, why)
            })?;
            let sent = match transport {
                Transport::Udp => u64::try_from(stream.packets).ok(),
                // What was sent before the measured time is not said, so that there the end of a
                // stream cannot be known by its length.
                Transport::Tcp => Some(stream.bytes).filter(|_| !omits),
            };
            self.actions.extend(sent.map(|sent| Action::PeerSent(id.stream, sent)));
        }
        let drain_ns = match transport {
            Transport::Tcp if !omits => TCP_DRAIN_NS,
            _ => stream::straggler_ns(seen.round_trip_ns),
        };
        self.actions.push_back(Action::DrainUntil(now_ns.saturating_add(drain_ns)));
        self.phase = Phase::Draining { far_cpu: far_cpu(client), counted: false };
        Ok(())
    }

    /// Once all streams have reported, this process' CPU is read.
    pub(super) fn drained(&mut self, now_ns: u64) {
        if self.reports.len() == self.ids.len() {
            if let Err(trouble) = self.no_fault() {
                return self.trouble(now_ns, trouble);
            }
            if let Phase::Draining { counted, .. } = &mut self.phase {
                *counted = true;
            }
            self.actions.push_back(Action::FinishHost);
        } else if self.threads_over {
            self.thread_died(now_ns);
        }
    }

    pub(super) fn on_host(&mut self, now_ns: u64, cpu: Cpu) {
        match &mut self.phase {
            Phase::Draining { far_cpu, counted: true } => {
                let far_cpu = far_cpu.take();
                self.report(now_ns, cpu, far_cpu);
            }
            Phase::Gathering { trouble, counted, .. } => {
                *counted = true;
                let what = format!("the test of {} ended early", self.terms.peer);
                let why = trouble.early.why.clone();
                let error = ErrorRecord::new(ErrorKind::Test, what, why, &[]);
                let end = self.ending(cpu, None, Some(error));
                self.actions.push_back(Action::Event(Box::new(TestEvent::End(Box::new(end)))));
            }
            _ => {}
        }
    }

    /// This end's results.
    pub(super) fn report(&mut self, now_ns: u64, cpu: Cpu, far_cpu: Option<Cpu>) {
        let transport = self.transport();
        let words = || results::in_words(self.reports.values(), transport);
        let output = self.output.as_ref().map(|output| output.text(&words()));
        let received_ns = self.received_ns().unwrap_or(0);
        let host = (cpu, self.congestion.clone());
        let results = results::results(self.plan(), &self.reports, received_ns, host, output);
        let frame = match results.encode() {
            Ok(frame) => frame,
            Err(e) => {
                let trouble = Trouble::new(ErrorNumber::PACK_RESULTS, e.to_string());
                return self.trouble(now_ns, trouble);
            }
        };
        let end = Box::new(self.ending(cpu, far_cpu, None));
        self.phase = Phase::Reporting { end };
        self.say(now_ns, &frame);
        if let Phase::Reporting { .. } = self.phase {
            self.say(now_ns, &[State::DisplayResults.byte()]);
        }
    }

    /// The client has this end's results.
    pub(super) fn reported(&mut self, now_ns: u64) {
        let deadline_ns = now_ns.saturating_add(TALK_LIMIT_NS);
        let phase = std::mem::replace(&mut self.phase, Phase::Farewell { deadline_ns });
        if let Phase::Reporting { end } = phase {
            self.actions.push_back(Action::Event(Box::new(TestEvent::End(end))));
        }
    }

    /// The test is over; with the reports of all streams, or none when it failed.
    pub(super) fn ending(
        &mut self,
        cpu: Cpu,
        far_cpu: Option<Cpu>,
        error: Option<ErrorRecord>,
    ) -> End {
        let span_ns = self.span_ns();
        let reports: Vec<&Report> =
            self.reports.values().filter(|_| self.reports.len() == self.ids.len()).collect();
        for rows in self.rows.rest(&reports, span_ns) {
            self.actions.push_back(Action::Event(Box::new(TestEvent::Rows(rows))));
        }
        let streams = reports.iter().filter_map(|report| {
            let here = match report {
                Report::Send(report) => Side::Send(Box::new(report.clone())),
                Report::Recv(report) => Side::Recv(Box::new(report.clone())),
                Report::Rr(_) | Report::Respond(_) => return None,
            };
            Some(StreamEnd { here, far: None, told: None })
        });
        End {
            streams: streams.collect(),
            span_ns,
            cpu,
            far_cpu,
            congestion: self.congestion.clone(),
            error,
            ..End::default()
        }
    }

    pub(super) fn span_ns(&self) -> u64 {
        let ended_ns = self.ended_ns.unwrap_or(0).saturating_sub(self.measured_ns);
        self.received_ns().unwrap_or(ended_ns)
    }

    /// How long the streams arrived, nanoseconds: the agreed time, or of a test by amount until the last
    /// arrival. A client may wait before it says that the test is over, and nothing comes meanwhile.
    pub(super) fn received_ns(&self) -> Option<u64> {
        let mut receivers = self.reports.values().filter_map(|report| match report {
            Report::Recv(report) => Some(report.last_ns),
            _ => None,
        });
        // No receiver here, or the last arrival on any of them.
        let last_ns = receivers.next()?.into_iter().chain(receivers.flatten()).max();
        let last_ns = last_ns.map(|last| last.saturating_sub(self.measured_ns));
        let ended_ns = self.ended_ns.unwrap_or(0).saturating_sub(self.measured_ns);
        Some(arriving_ns(self.terms.time_ns, ended_ns, last_ns))
    }
}

/// How long data arrived: for the agreed time, but where it was cut short; longer if more came after it;
/// without one until the last arrival.
fn arriving_ns(time_ns: Option<u64>, ended_ns: u64, last_ns: Option<u64>) -> u64 {
    match (time_ns, last_ns) {
        (Some(time), last) => time.min(ended_ns).max(last.unwrap_or(0)),
        (None, Some(last)) => last,
        (None, None) => ended_ns,
    }
}

/// What the client reported of its process; nothing where it could not.
fn far_cpu(client: &Results) -> Option<Cpu> {
    Some(Cpu { total: client.cpu_total?, user: client.cpu_user?, system: client.cpu_system? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_arrives_for_the_agreed_time_or_until_the_last() {
        for (time, ended, last, arriving) in [
            // A client that waits before it says the end, and one that does not.
            (Some(2_000), 2_055, Some(1_999), 2_000),
            (Some(2_000), 2_000, Some(1_999), 2_000),
            // Cut short, late, and nothing at all.
            (Some(2_000), 700, Some(690), 700),
            (Some(2_000), 2_055, Some(2_300), 2_300),
            (Some(2_000), 2_055, None, 2_000),
            // By amount.
            (None, 55, Some(1), 1),
            (None, 55, None, 55),
        ] {
            assert_eq!(arriving_ns(time, ended, last), arriving);
        }
    }
}
