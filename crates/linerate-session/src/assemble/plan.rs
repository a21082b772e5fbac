//! A plan in the record's words.

use linerate_model::plan::{
    Dialect, Direction, End, IpVersion, PlanDirection, Receiving, Sending, TestPlan, Traffic,
};
use linerate_model::record::{CpuPlan, PlanRecord};

/// A plan in the record's words.
pub fn plan_record(plan: &TestPlan, ip: Option<IpVersion>) -> PlanRecord {
    let mut record = PlanRecord {
        protocol: plan.traffic.kind().into(),
        ip: ip.map(IpVersion::number),
        direction: PlanDirection::from(plan.direction).into(),
        streams: plan.streams,
        warmup_s: plan.warmup.as_secs_f64(),
        interval_s: plan.interval.as_secs_f64(),
        window_bytes: plan.window.map(u64::from),
        dscp: plan.dscp,
        dialect: Dialect::Native.into(),
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
            record.engine = Some(udp.engine.into());
            record.burst_s = Some(udp.burst.as_secs_f64());
            record.checksum = Some(udp.checksum);
        }
        Traffic::Tcp(tcp) => {
            record.block_bytes = Some(tcp.block);
            record.rate_bps = tcp.rate.map(|rate| rate.bits_per_second());
            record.mss_bytes = tcp.mss;
            record.congestion = tcp.congestion.clone();
            record.nodelay = Some(tcp.nodelay);
            let receive = if tcp.discard { Receiving::Discard } else { Receiving::Copy };
            record.receive = Some(receive.into());
            let send = if tcp.zerocopy { Sending::Sendfile } else { Sending::Copy };
            record.send = Some(send.into());
        }
        Traffic::Rr(rr) => {
            record.request_bytes = Some(rr.request);
            record.response_bytes = Some(rr.response);
            record.outstanding = Some(rr.outstanding);
            record.rate_tps = rr.rate;
            record.transport = Some(rr.transport.into());
        }
    }
    record
}
