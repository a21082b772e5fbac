//! [`PlanRecord`]: a plan in the words of the record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::plan::{
    Dialect, Direction, End, EngineChoice, IpVersion, PlanDirection, Receiving, Sending, TestPlan,
    Traffic, TrafficKind, Transport,
};
use crate::units::Rate;
use crate::word::Word;

/// A plan in the record's words.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanRecord {
    /// udp, tcp or rr.
    pub protocol: Word<TrafficKind>,
    /// 4 or 6.
    pub ip: Option<u8>,
    /// forward, reverse, both; `discard` for a send-only test.
    pub direction: Word<PlanDirection>,
    /// Each way.
    pub streams: u16,
    /// UDP payload.
    pub datagram_bytes: Option<u32>,
    /// TCP write and read.
    pub block_bytes: Option<u32>,
    /// Asked payload rate of one direction; null is unlimited.
    #[serialize_always]
    pub rate_bps: Option<u64>,
    /// Asked datagrams per second, when that is how the rate was given.
    pub rate_pps: Option<u64>,
    /// Asked transactions per second (rr, open loop).
    pub rate_tps: Option<u64>,
    /// Measured time, when the test ends by time; beside an amount, the most of it.
    pub duration_s: Option<f64>,
    /// Bytes, when the test ends by them.
    pub bytes: Option<u64>,
    /// Datagrams, when the test ends by them.
    pub datagrams: Option<u64>,
    /// Warm-up.
    pub warmup_s: f64,
    /// Report interval.
    pub interval_s: f64,
    /// auto, gso, mmsg, send; in `agreed` the one that the sending end ran last.
    pub engine: Option<Word<EngineChoice>>,
    /// In `agreed` the one that the receiving end ran, which chooses for itself.
    pub receive_engine: Option<Word<EngineChoice>>,
    /// Most datagrams handed to the kernel as one train.
    pub train_datagrams: Option<u32>,
    /// Longest burst at the asked rate.
    pub burst_s: Option<f64>,
    /// Socket buffers asked for.
    pub window_bytes: Option<u64>,
    /// Socket buffers granted, as read back.
    pub window_granted: Option<WindowGranted>,
    /// Cores.
    pub cpu: Option<CpuPlan>,
    /// UDP checksums on.
    pub checksum: Option<bool>,
    /// TCP congestion control.
    pub congestion: Option<String>,
    /// TCP maximum segment size.
    pub mss_bytes: Option<u32>,
    /// TCP_NODELAY.
    pub nodelay: Option<bool>,
    /// How the TCP receiver reads: `copy`, or `discard` (MSG_TRUNC, nothing copied).
    pub receive: Option<Word<Receiving>>,
    /// How the TCP sender writes: `copy`, or `sendfile` (nothing copied).
    pub send: Option<Word<Sending>>,
    /// rr: bytes of a request.
    pub request_bytes: Option<u32>,
    /// rr: bytes of a response.
    pub response_bytes: Option<u32>,
    /// rr: requests in flight on each stream.
    pub outstanding: Option<u32>,
    /// rr: udp or tcp.
    pub transport: Option<Word<Transport>>,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// native, iperf3 …
    pub dialect: Word<Dialect>,
}

impl PlanRecord {
    /// What a plan says, with the version of IP where that is known. The dialect is linerate's own.
    pub fn of(plan: &TestPlan, ip: Option<IpVersion>) -> Self {
        let mut record = Self {
            protocol: plan.traffic.kind().into(),
            ip: ip.map(IpVersion::number),
            direction: PlanDirection::from(plan.direction).into(),
            streams: plan.streams,
            warmup_s: plan.warmup.as_secs_f64(),
            interval_s: plan.interval.as_secs_f64(),
            window_bytes: plan.window.map(u64::from),
            dscp: plan.dscp,
            dialect: Dialect::Native.into(),
            ..Self::default()
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
                    Rate::Datagrams(n) => Some(n.get()),
                    Rate::Bits(_) => None,
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
}

/// What the kernel granted of a socket buffer: `SO_SNDBUF` and `SO_RCVBUF` as read back, which on
/// Linux is twice what was asked. The least of all streams and both directions.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowGranted {
    /// Sender's `SO_SNDBUF`.
    pub send_bytes: Option<u64>,
    /// Receiver's `SO_RCVBUF`.
    pub receive_bytes: Option<u64>,
}

/// Cores of the data threads, in stream order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuPlan {
    /// Of the senders.
    pub sender: Vec<u32>,
    /// Of the receivers.
    pub receiver: Vec<u32>,
}
