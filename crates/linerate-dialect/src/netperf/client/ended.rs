//! What is known of a test when it is over, and what the server's few totals mean for the record.

use linerate_model::plan::{Traffic, Way};
use linerate_model::sample::{RecvReport, SendReport, TcpSample};
use linerate_session::assemble::StreamOutcome;
use linerate_session::receiver::add_tail;
use linerate_session::sender::Quota;
use linerate_wire::native::message::RespondReport;
use linerate_wire::netperf::{CpuShare, Results};

use super::Client;
use crate::ending::Trouble;
use crate::stream::Report;

/// What is known of a test that ran.
#[derive(Debug)]
pub struct Ended {
    /// Both ends' reports.
    pub streams: Vec<StreamOutcome>,
    /// What the server's CPUs did, where it was asked.
    pub server_cpu: Option<CpuShare>,
    /// This end was stopped.
    pub interrupted: bool,
    /// Why figures are missing.
    pub trouble: Option<Trouble>,
    /// The server's figures.
    pub results: Option<Results>,
    /// So many rows were shown.
    pub shown: u64,
}

impl Client {
    /// What is known of a test that ran.
    pub fn ended(self) -> Ended {
        let Self { terms, ids, mut reports, response, results, after_ns, .. } = self;
        let send_size = response.and_then(|response| response.send_size);
        let datagrams = match &terms.plan.traffic {
            Traffic::Udp(udp) => {
                let shorter = Quota::datagrams(&terms.plan, udp.size, 0).tail != [0; 2];
                Some(Datagrams { bytes: udp.size.bytes().into(), shorter })
            }
            _ => None,
        };
        let streams = ids.iter().map(|id| {
            let reverse = id.way == Way::Reverse;
            let mut outcome = StreamOutcome { index: id.index, reverse, ..Default::default() };
            match reports.remove(&id.stream) {
                Some(Report::Send(sent)) => {
                    outcome.recv =
                        results.as_ref().map(|far| far_receiver(&sent, far, datagrams, after_ns));
                    outcome.send = Some(sent);
                }
                Some(Report::Recv(mut recv)) => {
                    outcome.send = results.as_ref().map(|far| {
                        let sent = datagrams.map(|_| far.datagrams_sent(send_size));
                        far_sender(&mut recv, far, sent)
                    });
                    outcome.recv = Some(recv);
                }
                Some(Report::Rr(rr)) => {
                    outcome.respond = results.as_ref().map(far_responder);
                    outcome.rr = Some(rr);
                }
                Some(Report::Respond(_)) | None => {}
            }
            outcome
        });
        Ended {
            streams: streams.collect(),
            server_cpu: results.as_ref().and_then(|far| far.cpu),
            interrupted: self.interrupted,
            trouble: self.trouble,
            shown: self.shown,
            results,
        }
    }
}

/// Of a plan: of so many bytes each, and whether a last one is shorter.
#[derive(Clone, Copy)]
struct Datagrams {
    bytes: u64,
    shorter: bool,
}

/// What a receiver's totals say, which came `after_ns` nanoseconds of the test. Datagrams without numbers: what is not
/// there is lost, and a copy hides one that is.
fn far_receiver(
    sent: &SendReport,
    far: &Results,
    datagrams: Option<Datagrams>,
    after_ns: u64,
) -> RecvReport {
    let mut report = RecvReport {
        receive_buffer: far.receive_buffer.unwrap_or(0).into(),
        ..RecvReport::default()
    };
    let counts = &mut report.counts;
    counts.bytes = far.received;
    if let Some(Datagrams { bytes: size, shorter }) = datagrams {
        // Of whole ones the bytes say how many, beyond 32 bits too. Of a shorter one there may be copies, which together
        // are a whole one's bytes: then the calls do.
        let whole = !shorter && far.received.is_multiple_of(size.max(1));
        let by_bytes = far.received.div_ceil(size.max(1));
        counts.datagrams = if whole { by_bytes } else { far.receive_calls.into() };
        counts.expected = sent.counts.datagrams.max(counts.datagrams);
        counts.lost = counts.expected.saturating_sub(counts.datagrams);
        counts.dropped_max = counts.lost;
    }
    // The server's own time begins with its answer. Datagrams arrive for as long as they are sent; bytes go on arriving
    // from the send buffer, and the results come when all are there. netperf's elapsed time ends then as well.
    let last_ns = if datagrams.is_some() { sent.span_ns } else { after_ns.max(sent.span_ns) };
    (report.first_ns, report.last_ns) = (Some(0), Some(last_ns));
    report
}

/// What a sender's totals say; completes the near receiver by what was lost at the end.
fn far_sender(received: &mut RecvReport, far: &Results, datagrams: Option<u64>) -> SendReport {
    let mut report = SendReport {
        span_ns: far.elapsed_ns,
        send_buffer: far.send_buffer.unwrap_or(0).into(),
        congestion: far.congestion.clone(),
        ..SendReport::default()
    };
    report.counts.bytes = far.sent;
    if let Some(sent) = datagrams {
        add_tail(received, sent.saturating_sub(received.counts.expected));
        report.counts.datagrams = sent;
    } else {
        report.tcp = far.retransmits.map(|retransmits| TcpSample {
            retransmits: Some(retransmits.into()),
            ..TcpSample::default()
        });
    }
    report
}

fn far_responder(far: &Results) -> RespondReport {
    RespondReport {
        answered: far.transactions.into(),
        span_ns: far.elapsed_ns,
        ..RespondReport::default()
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::sample::{RecvCounts, SendCounts};

    use super::*;

    fn sent(datagrams: u64) -> SendReport {
        let counts = SendCounts { datagrams, bytes: datagrams * 100, ..SendCounts::default() };
        SendReport { counts, span_ns: 7, ..SendReport::default() }
    }

    #[test]
    fn a_receivers_totals_become_an_account_that_adds_up() {
        // Sent, bytes received, calls: datagrams that arrived, and that are lost.
        for (shorter, datagrams, received, receive_calls, arrived, lost) in [
            (false, 10, 1_000, 10, 10, 0),
            (false, 10, 700, 7, 7, 3),
            // The last one was shorter, and came twice.
            (true, 10, 950, 10, 10, 0),
            (true, 10, 1_000, 11, 11, 0),
            // More calls than 32 bits hold.
            (false, 5_000_000_000, 500_000_000_000, 705_032_704, 5_000_000_000, 0),
            // Copies: more than were sent, and nothing lost that anybody could see.
            (false, 10, 1_300, 13, 13, 0),
            (false, 10, 0, 0, 0, 10),
            // Whatever a peer may say.
            (false, 10, u64::MAX, u32::MAX, u64::from(u32::MAX), 0),
        ] {
            let far = Results { received, receive_calls, ..Results::default() };
            let of = Datagrams { bytes: 100, shorter };
            let report = far_receiver(&sent(datagrams), &far, Some(of), 9);
            let counts = &report.counts;
            assert_eq!((counts.datagrams, counts.lost), (arrived, lost), "{far:?}");
            assert_eq!(counts.expected, counts.datagrams + counts.lost, "{far:?}");
            assert_eq!(report.last_ns, Some(7));
        }
        let far = Results { received: 5, receive_calls: 1, ..Results::default() };
        let report = far_receiver(&sent(0), &far, None, 9);
        let bytes = &report.counts;
        assert_eq!((bytes.bytes, bytes.datagrams, bytes.expected), (5, 0, 0));
        // What the send buffer held at the end of sending has arrived, too.
        assert_eq!(report.last_ns, Some(9));
        assert_eq!(far_receiver(&sent(0), &far, None, 0).last_ns, Some(7));
    }

    #[test]
    fn what_a_sender_says_completes_the_receiver() {
        let counts = RecvCounts { datagrams: 4, expected: 4, bytes: 400, ..RecvCounts::default() };
        let mut here = RecvReport { counts, ..RecvReport::default() };
        let far = Results { sent: 1_000, send_calls: 10, elapsed_ns: 3, ..Results::default() };
        let there = far_sender(&mut here, &far, Some(far.datagrams_sent(Some(100))));
        assert_eq!((there.counts.datagrams, there.counts.bytes, there.span_ns), (10, 1_000, 3));
        assert_eq!((here.counts.expected, here.counts.lost), (10, 6));
        // Of bytes nothing is lost, and the server says how many segments it sent again.
        let mut here = RecvReport::default();
        let there = far_sender(&mut here, &Results { retransmits: Some(2), ..far }, None);
        assert_eq!(there.tcp.and_then(|tcp| tcp.retransmits), Some(2));
        assert_eq!(here.counts, RecvCounts::default());
    }
}
