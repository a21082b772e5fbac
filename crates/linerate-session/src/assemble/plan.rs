//! A plan in the record's words.

use linerate_model::plan::{Direction, End, IpVersion, TestPlan, Traffic, Transport};
use linerate_model::record::{CpuPlan, PlanRecord};

/// A plan in the record's words.
pub fn plan_record(plan: &TestPlan, ip: Option<IpVersion>) -> PlanRecord {
    let mut record = PlanRecord {
        protocol: plan.traffic.name().to_owned(),
        ip: ip.map(IpVersion::number),
        direction: match plan.direction {
            Direction::Forward => "forward",
            Direction::Reverse => "reverse",
            Direction::Both => "both",
        }
        .to_owned(),
        streams: plan.streams,
        warmup_s: plan.warmup.as_secs_f64(),
        interval_s: plan.interval.as_secs_f64(),
        window_bytes: plan.window.map(u64::from),
        dscp: plan.dscp,
        dialect: "native".to_owned(),
        ..PlanRecord::default()
    };
    match plan.end {
        End::Time(time) => record.duration_s = Some(time.as_secs_f64()),
        End::Bytes(bytes) => record.bytes = Some(bytes),
        End::Datagrams(datagrams) => record.datagrams = Some(datagrams),
    }
    if !plan.client_cpus.is_empty() || !plan.server_cpus.is_empty() {
        let list = |cpus: &[u16]| cpus.iter().map(|core| u32::from(*core)).collect();
        let (client, server) = (list(&plan.client_cpus), list(&plan.server_cpus));
        record.cpu = Some(if plan.direction == Direction::Reverse {
            CpuPlan { sender: server, receiver: client }
        } else {
            CpuPlan { sender: client, receiver: server }
        });
    }
    match &plan.traffic {
        Traffic::Udp(udp) => {
            record.datagram_bytes = Some(u32::from(udp.size.bytes()));
            record.rate_bps = udp.rate.map(|rate| rate.bits_per_second(udp.size));
            record.rate_pps = udp.rate.and_then(|rate| match rate {
                linerate_model::units::Rate::Datagrams(n) => Some(n.get()),
                linerate_model::units::Rate::Bits(_) => None,
            });
            record.engine = Some(udp.engine.name().to_owned());
            record.burst_s = Some(udp.burst.as_secs_f64());
            record.checksum = Some(udp.checksum);
        }
        Traffic::Tcp(tcp) => {
            record.block_bytes = Some(tcp.block);
            record.rate_bps = tcp.rate.map(|rate| rate.bits_per_second());
            record.mss_bytes = tcp.mss;
            record.congestion = tcp.congestion.clone();
            record.nodelay = Some(tcp.nodelay);
            record.receive = Some(if tcp.discard { "discard" } else { "copy" }.to_owned());
            record.send = Some(if tcp.zerocopy { "sendfile" } else { "copy" }.to_owned());
        }
        Traffic::Rr(rr) => {
            record.request_bytes = Some(rr.request);
            record.response_bytes = Some(rr.response);
            record.outstanding = Some(rr.outstanding);
            record.rate_tps = rr.rate;
            let transport = if rr.transport == Transport::Udp { "udp" } else { "tcp" };
            record.transport = Some(transport.to_owned());
        }
    }
    record
}
