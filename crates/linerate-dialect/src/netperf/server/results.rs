//! What the client hears of its test.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use linerate_model::plan::Traffic;
use linerate_session::assemble::HostSamples;
use linerate_wire::netperf::{CpuShare, Length, Request, Response, Results};

use crate::Granted;
use crate::stream::Report;

fn clipped(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Whether as many requests as were asked for were answered, where `moved` bytes have come and gone, and the client says
/// nothing of its end: so it is with messages of before 2.5.
pub(super) fn all_answered(request: &Request, moved: u64) -> bool {
    let (Some(_), Length::Units(count), Some((asked, answer))) =
        (request.old, request.length, request.sizes)
    else {
        return false;
    };
    let each = u64::from(asked).saturating_add(answer.into());
    moved >= each.saturating_mul(count.into())
}

/// Where to, and with which buffers and datagrams of `traffic`.
pub(super) fn response(
    request: &Request,
    traffic: &Traffic,
    port: NonZeroU16,
    granted: Option<Granted>,
) -> Response {
    let size = |asked: Option<u32>, of: fn(&Granted) -> u32| asked.or(granted.as_ref().map(of));
    let sent = match traffic {
        Traffic::Udp(udp) => Some(udp.size.bytes().into()),
        Traffic::Rr(_) => request.sizes.map(|sizes| sizes.1),
        Traffic::Tcp(_) => request.send_size,
    };
    Response {
        data_port: Some(port),
        receive_buffer: granted.map(|granted| granted.receive),
        send_buffer: granted.map(|granted| granted.send),
        receive_size: size(request.sizes.map(|s| s.0).or(request.receive_size), |g| g.receive)
            .filter(|_| request.receives),
        send_size: size(sent, |g| g.send).filter(|_| request.transmits),
        measures_cpu: request.measure_cpu,
        // Of its eight bits two are the kernel's.
        tos: request.tos.map(|tos| u32::from(tos & !3)),
    }
}

/// What was measured in `lasted_ns` nanoseconds over connections with that congestion control; without a report nothing
/// came.
pub(super) fn results(
    request: &Request,
    reports: &BTreeMap<u16, Report>,
    (lasted_ns, congestion): (u64, Option<&String>),
    samples: &HostSamples,
) -> Results {
    let congestion = congestion.cloned();
    let mut results = Results { elapsed_ns: lasted_ns, congestion, ..Results::default() };
    for report in reports.values() {
        match report {
            Report::Recv(recv) => {
                results.received = recv.counts.bytes;
                // Over UDP its clients take these for datagrams, 32 bits of them as a netserver's.
                let calls = Some(recv.counts.datagrams).filter(|n| *n > 0);
                results.receive_calls = calls.unwrap_or(recv.counts.calls) as u32;
                results.receive_buffer = Some(clipped(recv.receive_buffer));
            }
            Report::Send(send) => {
                results.sent = send.counts.bytes;
                let calls = Some(send.counts.datagrams).filter(|n| *n > 0);
                results.send_calls = calls.unwrap_or(send.counts.calls) as u32;
                results.send_buffer = Some(clipped(send.send_buffer));
                results.congestion = send.congestion.clone().or(results.congestion);
                results.retransmits = send.tcp.and_then(|tcp| tcp.retransmits).map(clipped);
            }
            Report::Respond(respond) => {
                let (asked, answer) = request.sizes.unwrap_or_default();
                results.transactions = clipped(respond.answered);
                results.receive_calls = results.transactions;
                results.send_calls = results.transactions;
                results.received = respond.answered.saturating_mul(asked.into());
                results.sent = respond.answered.saturating_mul(answer.into());
            }
            Report::Rr(_) => {}
        }
    }
    results.cpu = cpu(samples).filter(|_| request.measure_cpu);
    results
}

/// What the CPUs did; nothing where the host cannot tell of all.
fn cpu(samples: &HostSamples) -> Option<CpuShare> {
    let all = samples.total.as_ref().filter(|total| total.left_out.is_none());
    let cores = all.map(|total| &total.cores).filter(|c| !c.is_empty())?;
    let count = clipped(cores.len() as u64);
    let mean = |of: fn(&linerate_model::host::CoreUse) -> u16| {
        cores.iter().map(|core| u32::from(of(core))).sum::<u32>() / count.max(1)
    };
    let peak = cores.iter().max_by_key(|core| core.busy())?;
    Some(CpuShare {
        cpus: count,
        busy: mean(|core| core.busy()),
        user: mean(|core| core.user),
        system: mean(|core| core.system),
        softirq: mean(|core| core.softirq),
        peak: (peak.core, peak.busy().into()),
    })
}
