//! What the server reports of a test that came to its end: in iperf3's fields, and in words.

use std::collections::BTreeMap;

use linerate_model::plan::{TestPlan, Transport};
use linerate_model::sample::{RecvReport, SendReport};
use linerate_model::test_event::Cpu;
use linerate_wire::iperf3::{Results, StreamResults, stream_id};

use crate::stream::Report;

/// `output` is what the client sees of this server's own lines, if it asked for them; data arrived here for
/// `received_ns` nanoseconds.
pub(super) fn results(
    plan: &TestPlan,
    reports: &BTreeMap<u16, Report>,
    received_ns: u64,
    (cpu, congestion): (Cpu, Option<String>),
    output: Option<String>,
) -> Results {
    let streams = reports.iter().filter_map(|(stream, report)| {
        let id = stream_id(*stream);
        match report {
            Report::Send(report) => Some(sent_stream(id, report)),
            Report::Recv(report) => Some(received_stream(id, report, received_ns)),
            Report::Rr(_) | Report::Respond(_) => None,
        }
    });
    Results {
        cpu_total: Some(cpu.total),
        cpu_user: Some(cpu.user),
        cpu_system: Some(cpu.system),
        sender_has_retransmits: match (plan.direction.has_reverse(), plan.traffic.transport()) {
            (true, Transport::Tcp) => 1,
            (true, Transport::Udp) => 0,
            (false, _) => -1,
        },
        congestion_used: congestion,
        server_output_text: output,
        server_output_json: None,
        ends_with_last_arrival: true,
        streams: streams.collect(),
    }
}

/// For a client that asks for what this server shows.
pub(super) fn in_words<'a>(
    reports: impl Iterator<Item = &'a Report>,
    transport: Transport,
) -> String {
    let (mut received, mut sent): (Vec<&RecvReport>, Vec<&SendReport>) = (vec![], vec![]);
    for report in reports {
        match report {
            Report::Recv(report) => received.push(report),
            Report::Send(report) => sent.push(report),
            Report::Rr(_) | Report::Respond(_) => {}
        }
    }
    let warmup = |bytes: u64| {
        if bytes > 0 { format!(" after {bytes} in the warm-up") } else { String::new() }
    };
    let mut words = vec![];
    if !received.is_empty() {
        let bytes = sum(received.iter().map(|r| r.counts.bytes));
        let warm = warmup(sum(received.iter().map(|r| r.warmup)));
        words.push(match transport {
            Transport::Tcp => format!("received {bytes} bytes{warm}"),
            Transport::Udp => {
                let lost = sum(received.iter().map(|r| r.counts.lost));
                let of = sum(received.iter().map(|r| r.counts.expected));
                let here = sum(received.iter().map(|r| r.counts.loss_by_place().1));
                format!(
                    "received {bytes} bytes, lost {lost} of {of} datagrams ({here} in this host's socket buffers){warm}"
                )
            }
        });
    }
    if !sent.is_empty() {
        let bytes = sum(sent.iter().map(|s| s.counts.bytes));
        let warm = warmup(sum(sent.iter().map(|s| s.warmup)));
        words.push(format!("sent {bytes} bytes{warm}"));
    }
    format!("done: {}", words.join(", "))
}

/// Losses come from numbers that the peer wrote: no sum of them may overflow.
fn sum(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::saturating_add)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn seconds(ns: u64) -> Option<f64> {
    Some(ns as f64 / 1e9)
}

fn sent_stream(id: u32, report: &SendReport) -> StreamResults {
    let tcp = report.tcp.is_some();
    let warmup = if tcp { 0 } else { report.warmup };
    StreamResults {
        id,
        bytes: report.counts.bytes,
        retransmits: report.tcp.and_then(|tcp| tcp.retransmits).map_or(-1, signed),
        jitter_s: Some(0.0),
        errors: 0,
        omitted_errors: Some(0),
        packets: signed(warmup.saturating_add(report.counts.datagrams)),
        omitted_packets: Some(signed(warmup)),
        start_s: Some(0.0),
        end_s: seconds(report.span_ns),
    }
}

fn received_stream(id: u32, report: &RecvReport, span_ns: u64) -> StreamResults {
    let (omitted, omitted_lost) = (report.warmup_expected, report.warmup_lost);
    StreamResults {
        id,
        bytes: report.counts.bytes,
        retransmits: -1,
        jitter_s: seconds(report.jitter_ns.unwrap_or(0)),
        errors: signed(omitted_lost.saturating_add(report.counts.lost)),
        omitted_errors: Some(signed(omitted_lost)),
        packets: signed(omitted.saturating_add(report.counts.expected)),
        omitted_packets: Some(signed(omitted)),
        start_s: Some(0.0),
        end_s: seconds(span_ns),
    }
}
