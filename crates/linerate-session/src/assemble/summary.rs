//! The figures that are asked for first, flat.

use linerate_model::plan::PlanDirection;
use linerate_model::record::{
    CpuFigures, Pair, ReceiverFigures, RunRecord, SenderFigures, Summary,
};

/// One direction's figures.
#[derive(Default)]
struct Lane {
    received_bps: Option<f64>,
    sent_bps: Option<f64>,
    lost_ratio: Option<f64>,
    p99_s: Option<f64>,
    retransmits_segments: Option<u64>,
}

impl Lane {
    fn of(sender: Option<&SenderFigures>, receiver: Option<&ReceiverFigures>) -> Self {
        Self {
            received_bps: receiver.map(|r| r.bits_per_second),
            sent_bps: sender.map(|s| s.bits_per_second),
            lost_ratio: receiver.and_then(|r| r.lost_ratio),
            p99_s: receiver.and_then(|r| r.delay_variation_s.as_ref()).map(|delay| delay.p99),
            retransmits_segments: sender.and_then(|s| s.tcp.as_ref()).and_then(|t| t.retransmits),
        }
    }

    fn of_pair(pair: Option<&Pair>) -> Self {
        pair.map_or_else(Self::default, |pair| {
            Self::of(pair.sender.as_ref(), pair.receiver.as_ref())
        })
    }
}

/// The summary of a record whose totals and verdict are made.
pub(super) fn summary(record: &RunRecord) -> Summary {
    let totals = &record.totals;
    let is_both = totals.forward.is_some() || totals.reverse.is_some();
    let (ahead, back) = if is_both {
        (Lane::of_pair(totals.forward.as_ref()), Lane::of_pair(totals.reverse.as_ref()))
    } else {
        (Lane::of(totals.sender.as_ref(), totals.receiver.as_ref()), Lane::default())
    };
    let rr = totals.rr.as_ref();
    let latency = rr.and_then(|rr| rr.latency_s.as_ref()).map(|latency| latency.p99);
    let (client, server) = cpus(record);
    Summary {
        received_bps: ahead.received_bps,
        sent_bps: ahead.sent_bps,
        lost_ratio: ahead.lost_ratio,
        p99_s: ahead.p99_s.or(latency),
        retransmits_segments: ahead.retransmits_segments,
        transactions_per_second: rr.map(|rr| rr.transactions_per_second),
        reverse_received_bps: back.received_bps,
        reverse_sent_bps: back.sent_bps,
        reverse_lost_ratio: back.lost_ratio,
        reverse_p99_s: back.p99_s,
        reverse_retransmits_segments: back.retransmits_segments,
        client_cpu_percent: client,
        server_cpu_percent: server,
        limit: record.verdict.as_ref().map(|verdict| verdict.limit),
    }
}

/// The busiest data thread of client and server.
fn cpus(record: &RunRecord) -> (Option<f64>, Option<f64>) {
    let totals = &record.totals;
    let of_sender = |s: Option<&SenderFigures>| s.and_then(|s| s.cpu.as_ref()).map(own);
    let of_receiver = |r: Option<&ReceiverFigures>| r.and_then(|r| r.cpu.as_ref()).map(own);
    let pair = |pair: Option<&Pair>| {
        let sender = pair.and_then(|p| p.sender.as_ref());
        (of_sender(sender), of_receiver(pair.and_then(|p| p.receiver.as_ref())))
    };
    let one = (of_sender(totals.sender.as_ref()), of_receiver(totals.receiver.as_ref()));
    let is_reverse = record.asked.direction == PlanDirection::Reverse;
    let only = if is_reverse { (one.1, one.0) } else { one };
    let (forward, reverse) = (pair(totals.forward.as_ref()), pair(totals.reverse.as_ref()));
    let rr = totals.rr.as_ref();
    let asking = rr.and_then(|rr| rr.cpu.as_ref()).map(own);
    let answering = rr.and_then(|rr| rr.server_cpu.as_ref()).map(own);
    let most = |all: [Option<f64>; 4]| all.into_iter().flatten().reduce(f64::max);
    (most([only.0, forward.0, reverse.1, asking]), most([only.1, forward.1, reverse.0, answering]))
}

fn own(cpu: &CpuFigures) -> f64 {
    cpu.thread_percent
}

#[cfg(test)]
mod tests {
    use linerate_testkit::records;

    use super::*;

    #[test]
    fn each_figure_is_one_of_the_totals_again() {
        let record = records::udp_receiver_drops();
        let (sender, receiver) =
            (record.totals.sender.as_ref().unwrap(), record.totals.receiver.as_ref().unwrap());
        let said = summary(&record);
        assert_eq!(said.received_bps, Some(receiver.bits_per_second));
        assert_eq!(said.sent_bps, Some(sender.bits_per_second));
        assert_eq!(said.lost_ratio, receiver.lost_ratio);
        assert_eq!(said.client_cpu_percent, sender.cpu.as_ref().map(|c| c.thread_percent));
        assert_eq!(said.server_cpu_percent, receiver.cpu.as_ref().map(|c| c.thread_percent));
        assert_eq!(said.limit, record.verdict.as_ref().map(|v| v.limit));
        assert_eq!((said.transactions_per_second, said.reverse_received_bps), (None, None));

        let mut reverse = record.clone();
        reverse.asked.direction = PlanDirection::Reverse.into();
        let turned = summary(&reverse);
        assert_eq!(turned.received_bps, said.received_bps);
        assert_eq!(turned.client_cpu_percent, said.server_cpu_percent);

        let tcp = records::tcp();
        let tcp_sender = tcp.totals.sender.as_ref().unwrap();
        assert_eq!(
            summary(&tcp).retransmits_segments,
            tcp_sender.tcp.as_ref().unwrap().retransmits
        );

        let rr = records::rr();
        let figures = rr.totals.rr.as_ref().unwrap();
        let said = summary(&rr);
        assert_eq!(said.transactions_per_second, Some(figures.transactions_per_second));
        assert_eq!(said.p99_s, figures.latency_s.as_ref().map(|l| l.p99));
        assert_eq!((said.received_bps, said.lost_ratio), (None, None));

        let both = records::udp_both();
        let of =
            |pair: &Option<Pair>| pair.as_ref().unwrap().receiver.as_ref().unwrap().bits_per_second;
        let said = summary(&both);
        assert_eq!(said.received_bps, Some(of(&both.totals.forward)));
        assert_eq!(said.reverse_received_bps, Some(of(&both.totals.reverse)));
    }
}
