//! From what both ends say of a test to the figures that netperf's users see.

use linerate_ask::netperf::{Line, Way};
use linerate_model::host::CoreUse;
use linerate_model::test_event::Start;
use linerate_report::netperf::{Cpu, End, Figures};
use linerate_session::observer::Said;
use linerate_wire::netperf::{CpuShare, Results};

/// `block`: bytes of a call at this end.
pub(super) fn of(line: &Line, block: u32, start: Option<&Start>, said: &Said<'_>) -> Figures {
    // A connection that is open has buffers that have grown: what it began with is the system's.
    let first = |asked: Option<u32>, get: fn(&Start) -> Option<u64>, system: Option<u32>| {
        let granted = start.and_then(get).filter(|bytes| *bytes > 0);
        match asked {
            Some(asked) => granted.or(Some(2 * u64::from(asked))),
            None => system.map(u64::from).or(granted),
        }
    };
    let system = super::buffers();
    let (send, receive) = match line.udp {
        true => (system.udp_send, system.udp_receive),
        false => (system.tcp_send, system.tcp_receive),
    };
    let [asked, _] = line.buffers;
    let mut here = End {
        send_buffer: (first(asked.0, |start| start.send_buffer, send), None),
        receive_buffer: (first(asked.1, |start| start.receive_buffer, receive), None),
        send_size: Some(block).filter(|_| line.way == Way::Sends),
        receive_size: Some(block).filter(|_| line.way == Way::Receives),
        cpu: own_cpu(said).filter(|_| line.cpu_here),
        ..End::default()
    };
    let mut figures = Figures {
        there: far(line, said),
        mss: start.and_then(|start| start.control.mss).filter(|_| !line.udp),
        ..Figures::default()
    };
    let stream = said.stream;
    match (line.way, &stream.send, &stream.recv, &stream.rr) {
        (Way::Sends, Some(sent), received, _) => {
            let counts = &sent.counts;
            // Until all had arrived: what the server counts holds what was in the send buffer at the end.
            let arrived_ns = received.as_ref().and_then(|received| received.last_ns);
            figures.elapsed_s = sent.span_ns.max(arrived_ns.unwrap_or(0)) as f64 / 1e9;
            figures.refused = counts.refused_locally as f64;
            here.sent = counts.bytes as f64;
            here.send_calls = if line.udp { counts.datagrams } else { counts.calls } as f64;
            here.send_buffer.1 = Some(sent.send_buffer);
            here.retransmits = sent.tcp.and_then(|tcp| tcp.retransmits);
            here.congestion.clone_from(&sent.congestion);
            let mss = sent.tcp.and_then(|tcp| tcp.mss_bytes).and_then(|mss| mss.try_into().ok());
            figures.mss = mss.or(figures.mss);
        }
        (Way::Receives, _, Some(received), _) => {
            let counts = &received.counts;
            let span = received.last_ns.unwrap_or(0).saturating_sub(received.first_ns.unwrap_or(0));
            figures.elapsed_s = span as f64 / 1e9;
            here.received = counts.bytes as f64;
            here.receive_calls = if line.udp { counts.datagrams } else { counts.calls } as f64;
            here.receive_buffer.1 = Some(received.receive_buffer);
        }
        (Way::Asks, _, _, Some(rr)) => {
            let (request, response) = line.sizes.unwrap_or_default();
            figures.elapsed_s = rr.span_ns as f64 / 1e9;
            figures.transactions = rr.transactions as f64;
            figures.latency = Some(rr.latency).filter(|latency| latency.count > 0);
            (here.send_calls, here.receive_calls) = (figures.transactions, figures.transactions);
            here.sent = figures.transactions * f64::from(request);
            here.received = figures.transactions * f64::from(response);
        }
        _ => {}
    }
    figures.here = here;
    figures
}

fn far(line: &Line, said: &Said<'_>) -> End {
    let response = said.response;
    let wide = |bytes: Option<u32>| bytes.map(u64::from);
    let none = Results::default();
    let results = said.results.unwrap_or(&none);
    End {
        sent: results.sent as f64,
        send_calls: f64::from(results.send_calls),
        received: results.received as f64,
        receive_calls: f64::from(results.receive_calls),
        send_buffer: (wide(response.send_buffer), wide(results.send_buffer)),
        receive_buffer: (wide(response.receive_buffer), wide(results.receive_buffer)),
        send_size: response.send_size,
        receive_size: response.receive_size,
        cpu: results.cpu.as_ref().map(far_cpu).filter(|_| line.cpu_there),
        retransmits: results.retransmits.map(u64::from),
        congestion: results.congestion.clone(),
    }
}

/// Hundredths of a percent.
fn percent(hundredths: u32) -> f64 {
    f64::from(hundredths) / 100.0
}

fn far_cpu(cpu: &CpuShare) -> Cpu {
    Cpu {
        count: cpu.cpus,
        busy: percent(cpu.busy),
        user: percent(cpu.user),
        system: percent(cpu.system),
        softirq: percent(cpu.softirq),
        peak: (cpu.peak.0, percent(cpu.peak.1)),
    }
}

/// Of this host, over the test; nothing where not all cores are known.
fn own_cpu(said: &Said<'_>) -> Option<Cpu> {
    let cores = &said.host.total.as_ref().filter(|total| total.left_out.is_none())?.cores;
    let peak = cores.iter().max_by_key(|core| core.busy())?;
    let mean = |of: fn(&CoreUse) -> u16| {
        let sum: f64 = cores.iter().map(|core| percent(of(core).into())).sum();
        sum / cores.len().max(1) as f64
    };
    Some(Cpu {
        count: u32::try_from(cores.len()).unwrap_or(u32::MAX),
        busy: mean(CoreUse::busy),
        user: mean(|core| core.user),
        system: mean(|core| core.system),
        softirq: mean(|core| core.softirq),
        peak: (peak.core, percent(peak.busy().into())),
    })
}
