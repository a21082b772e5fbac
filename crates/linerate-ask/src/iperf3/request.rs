//! A [`Line`] as a request.

use std::time::Duration;

use linerate_model::limits;
use linerate_model::plan::{
    Dialect, Direction, End, IpVersion, TcpPlan, TestPlan, Traffic, UdpPlan,
};
use linerate_model::units::{BitRate, DatagramSize, Nanos, Rate};
use linerate_runner::client::{Extras, Request, Target};

use super::Line;

/// iperf3's block of TCP.
const BLOCK: u32 = 128 << 10;
/// iperf3's rate of UDP: a binary megabit.
const UDP_RATE: u64 = 1 << 20;
/// Where the connection's segment size is not known.
const UDP_SIZE: u32 = 1_460;

/// The test that a client's command line asks for.
///
/// # Errors
/// A number that no test can have, in words.
pub fn request(line: &Line) -> Result<Request, String> {
    let streams = line.parallel.max(1);
    let asked = line.rate_bps.unwrap_or(if line.udp { UDP_RATE } else { 0 });
    // The socket's own limit, where it is the lower one.
    let each = match (asked, line.fq_rate_bps) {
        (0, fq) => fq,
        (asked, 0) => asked,
        (asked, fq) => asked.min(fq),
    };
    let all = each.checked_mul(u64::from(streams)).ok_or("the total rate is too high")?;
    limits::RATE_BPS.check(all.max(limits::RATE_BPS.min)).map_err(|e| e.to_string())?;
    let rate = BitRate::new(all);
    let traffic = if line.udp {
        let size = line.length.unwrap_or(UDP_SIZE);
        let size = DatagramSize::new(size)
            .ok_or_else(|| format!("datagrams of {size} bytes hold no header here"))?;
        let (rate, burst) = (rate.map(Rate::Bits), Nanos(100_000));
        Traffic::Udp(UdpPlan { rate, burst, ..UdpPlan::new(size) })
    } else {
        Traffic::Tcp(TcpPlan {
            mss: line.mss,
            congestion: line.congestion.clone(),
            nodelay: line.no_delay,
            rate,
            discard: line.skip_rx_copy,
            zerocopy: line.zerocopy,
            ..TcpPlan::new(line.length.unwrap_or(BLOCK))
        })
    };
    let second = 1_000_000_000;
    let unlimited = line.time_s == Some(0);
    let end = match (line.bytes, line.blocks) {
        (0, 0) if unlimited => End::Time(Nanos(limits::DURATION_NS.max)),
        (0, 0) => End::Time(Nanos(u64::from(line.time_s.unwrap_or(10)) * second)),
        (0, blocks) => End::Datagrams(blocks),
        (bytes, _) => End::Bytes(bytes),
    };
    let interval = match (line.interval_s, end) {
        (0.0, End::Time(time)) => time.0,
        (0.0, _) => limits::INTERVAL_NS.max,
        (seconds, _) => (seconds * second as f64) as u64,
    }
    .clamp(limits::INTERVAL_NS.min, limits::INTERVAL_NS.max);
    let direction = match (line.reverse, line.bidir) {
        (true, _) => Direction::Reverse,
        (_, true) => Direction::Both,
        _ => Direction::Forward,
    };
    let plan = TestPlan {
        direction,
        streams,
        end,
        warmup: Nanos(u64::from(line.omit_s) * second),
        interval: Nanos(interval),
        window: line.window,
        client_cpus: line.affinity.0.into_iter().collect(),
        dscp: Some(line.tos >> 2).filter(|dscp| *dscp > 0),
        ..TestPlan::new(traffic)
    };
    let receive = Duration::from_millis(line.receive_timeout_ms);
    let name = line.host.clone().unwrap_or_default();
    Ok(Request {
        ip: line.ip.map(|ip| if ip == 4 { IpVersion::V4 } else { IpVersion::V6 }),
        bind: line.bind,
        dialect: Some(Dialect::Iperf3),
        iperf3: Extras {
            title: line.title.clone(),
            extra_data: line.extra_data.clone(),
            get_server_output: line.get_server_output,
            udp_counters_64bit: line.counters_64bit,
            repeating_payload: line.repeating_payload,
            dont_fragment: line.dont_fragment,
            server_affinity: line.affinity.1,
            burst: line.burst,
            fq_rate_bps: line.fq_rate_bps,
            pacing_timer_us: line.pacing_timer_us,
            tos: Some(line.tos),
            first_port: line.cport,
            size_from_mss: line.udp && line.length.is_none(),
            no_time_limit: unlimited,
            connect_limit: line.connect_timeout_ms.map(Duration::from_millis),
            patience: receive.max(Duration::from_secs(1)),
            silence: receive,
        },
        ..Request::new(Target::Host { name, port: line.port }, plan)
    })
}
