//! What is asked of the server: the plan as its dialect can run it, and the parameters that say so.

use std::time::Duration;

use linerate_model::plan::{Dialect, Direction, End, TestPlan, Traffic};
use linerate_model::record::ErrorRecord;
use linerate_model::units::Nanos;
use linerate_wire::iperf3::{Parameters, Protocol};

use crate::data::burst_time;
use crate::errors;

/// What iperf3's users may ask for beside a [`TestPlan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extras {
    /// `--title`.
    pub title: Option<String>,
    /// `--extra-data`.
    pub extra_data: Option<String>,
    /// `--get-server-output`.
    pub get_server_output: bool,
    /// `--udp-counters-64bit`.
    pub udp_counters_64bit: bool,
    /// `--repeating-payload`, for the server's sender.
    pub repeating_payload: bool,
    /// `--dont-fragment`, for the server's sender.
    pub dont_fragment: bool,
    /// `-A n,m`: core of the server.
    pub server_affinity: Option<u16>,
    /// `-b rate/n`.
    pub burst: u32,
    /// `--fq-rate`, bit/s of each stream.
    pub fq_rate_bps: u64,
    /// `--pacing-timer` in microseconds, for servers up to 3.17.
    pub pacing_timer_us: u32,
    /// `-S`: the whole byte.
    pub tos: Option<u8>,
    /// The datagram size is what the control connection's segments hold.
    pub size_from_mss: bool,
    /// `-t 0`: the server hears of no end; the plan's time is the longest there is.
    pub no_time_limit: bool,
    /// `--connect-timeout`.
    pub connect_limit: Option<Duration>,
    /// `--cport`: stream i sends from this port plus i.
    pub first_port: Option<u16>,
    /// An answer before or after the test may take this long.
    pub patience: Duration,
    /// A receiving client that hears nothing for this long gives up.
    pub silence: Duration,
}

impl Default for Extras {
    fn default() -> Self {
        Self {
            title: None,
            extra_data: None,
            get_server_output: false,
            // 32 bits go round after 2^32 datagrams, and then everything looks out of order.
            udp_counters_64bit: true,
            repeating_payload: false,
            dont_fragment: false,
            server_affinity: None,
            burst: 0,
            fq_rate_bps: 0,
            pacing_timer_us: 1_000,
            tos: None,
            size_from_mss: false,
            no_time_limit: false,
            connect_limit: None,
            first_port: None,
            patience: Duration::from_secs(10),
            silence: Duration::from_secs(30),
        }
    }
}

/// Most bytes of a TCP block in this dialect (`len`).
const MOST_BLOCK: u32 = 1 << 20;

/// The plan as this dialect can run it, with `burst` datagrams at once if that is not 0, and what that
/// changed.
pub(super) fn fitted(plan: &TestPlan, burst: u32) -> Result<(TestPlan, Vec<String>), ErrorRecord> {
    let mut plan = plan.clone();
    let mut cuts = Vec::new();
    let second = 1_000_000_000;
    if !plan.warmup.0.is_multiple_of(second) {
        plan.warmup = Nanos(plan.warmup.0.next_multiple_of(second));
        cuts.push(format!("iperf3 omits whole seconds: the warm-up is {}", plan.warmup));
    }
    match &mut plan.traffic {
        Traffic::Rr(_) => {
            return Err(errors::no_such_test(
                Dialect::Iperf3,
                "request/response",
                "iperf3's protocol has streams only",
            ));
        }
        Traffic::Tcp(tcp) => {
            if tcp.block > MOST_BLOCK {
                return Err(errors::no_such_test(
                    Dialect::Iperf3,
                    &format!("blocks of {} bytes", tcp.block),
                    "iperf3 takes 1 MiB at most (--block 1Mi)",
                ));
            }
            if let End::Bytes(bytes) = plan.end {
                // Receivers from 3.16 on count whole blocks.
                plan.end = End::Datagrams(bytes.div_ceil(u64::from(tcp.block)));
                if !bytes.is_multiple_of(u64::from(tcp.block)) {
                    cuts.push(format!(
                        "iperf3 counts whole blocks: {bytes} bytes are sent as blocks of {}",
                        tcp.block
                    ));
                }
            }
        }
        Traffic::Udp(udp) => {
            let size = u64::from(udp.size.bytes());
            if let End::Bytes(bytes) = plan.end {
                plan.end = End::Datagrams(bytes.div_ceil(size));
                if !bytes.is_multiple_of(size) {
                    cuts.push(format!(
                        "iperf3's datagrams are all of one size: {bytes} bytes are sent as datagrams of {size}"
                    ));
                }
            }
            if let (Some(rate), 1..) = (udp.rate, burst) {
                let each = rate.bits_per_second(udp.size) / u64::from(plan.streams.max(1));
                udp.burst = burst_time(burst, udp.size.bytes().into(), each);
            }
            if !udp.checksum && plan.direction.has_reverse() {
                cuts.push("iperf3 cannot be asked to leave out UDP checksums".into());
            }
        }
    }
    if !plan.server_cpus.is_empty() {
        plan.server_cpus.truncate(1);
    }
    Ok((plan, cuts))
}

pub(super) fn whole(value: u64) -> Option<i64> {
    Some(i64::try_from(value).unwrap_or(i64::MAX))
}

/// What is asked of the server.
pub(super) fn parameters(plan: &TestPlan, extras: &Extras, asked: &TestPlan) -> Parameters {
    let streams = u64::from(plan.streams.max(1));
    let mut parameters = Parameters {
        omit: whole(plan.warmup.0 / 1_000_000_000),
        time: whole(
            plan.duration()
                .filter(|_| !extras.no_time_limit)
                .map_or(0, |d| d.0.div_ceil(1_000_000_000)),
        ),
        num: whole(if let End::Bytes(bytes) = asked.end { bytes } else { 0 }),
        blockcount: whole(if let End::Datagrams(n) = asked.end { n } else { 0 }),
        parallel: whole(streams),
        reverse: plan.direction == Direction::Reverse,
        bidirectional: plan.direction == Direction::Both,
        window: plan.window.map(i64::from),
        server_affinity: extras
            .server_affinity
            .or(plan.server_cpus.first().copied())
            .map(i64::from),
        burst: whole(extras.burst.into()).filter(|n| *n > 0),
        fqrate: whole(extras.fq_rate_bps).filter(|n| *n > 0),
        pacing_timer: whole(extras.pacing_timer_us.into()),
        tos: extras.tos.or(plan.dscp.map(|dscp| dscp << 2)).map(i64::from).filter(|n| *n > 0),
        title: extras.title.clone(),
        extra_data: extras.extra_data.clone(),
        get_server_output: extras.get_server_output,
        repeating_payload: extras.repeating_payload,
        dont_fragment: extras.dont_fragment,
        client_version: Some(format!("linerate {}", env!("CARGO_PKG_VERSION"))),
        ..Parameters::default()
    };
    match &plan.traffic {
        Traffic::Udp(udp) => {
            parameters.protocol = Protocol::Udp;
            parameters.len = whole(u64::from(udp.size.bytes()));
            parameters.bandwidth =
                udp.rate.and_then(|rate| whole(rate.bits_per_second(udp.size) / streams));
            parameters.udp_counters_64bit = extras.udp_counters_64bit;
        }
        Traffic::Tcp(tcp) => {
            parameters.len = whole(tcp.block.into());
            parameters.bandwidth =
                tcp.rate.and_then(|rate| whole(rate.bits_per_second() / streams));
            parameters.mss = tcp.mss.map(i64::from);
            parameters.nodelay = tcp.nodelay;
            parameters.congestion = tcp.congestion.clone();
            parameters.zerocopy = tcp.zerocopy;
            parameters.skip_rx_copy = tcp.discard;
        }
        Traffic::Rr(_) => {}
    }
    parameters
}
