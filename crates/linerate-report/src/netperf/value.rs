//! The figure behind each name. One that is not known is what netperf prints of an unknown one.

use super::{Asked, End, Figures, Kind, Options, Unit, unit, unit_of_bytes};

/// A count or a size, or -1.
fn whole<N: ToString>(value: Option<N>) -> String {
    value.map_or("-1".to_owned(), |value| value.to_string())
}

fn hundredths(value: f64) -> String {
    format!("{value:.2}")
}

/// The name without `LOCAL_` or `REMOTE_`, and whose it is.
fn whose(name: &str) -> Option<(bool, &str)> {
    let local = name.strip_prefix("LOCAL_").map(|rest| (true, rest));
    local.or_else(|| name.strip_prefix("REMOTE_").map(|rest| (false, rest)))
}

/// The figure of that name.
pub(super) fn value(options: &Options, figures: &Figures, name: &str) -> String {
    if let Some((here, rest)) = whose(name) {
        let (end, asked) = match here {
            true => (&figures.here, &options.here),
            false => (&figures.there, &options.there),
        };
        if let Some(text) = of_end(options, figures, (end, asked, here), rest) {
            return text;
        }
    }
    if let Some(text) = buffer(options, figures, name).or_else(|| latency(figures, name)) {
        return text;
    }
    let unknown = || "-1".to_owned();
    let asks = options.test.kind() == Kind::Asks;
    let rate = figures.a_second(|run| run.transactions);
    match name {
        "SOCKET_TYPE" => if options.udp { "Datagram" } else { "Stream" }.to_owned(),
        "PROTOCOL" => if options.udp { "UDP" } else { "TCP" }.to_owned(),
        "DIRECTION" => direction(options).to_owned(),
        "ELAPSED_TIME" => hundredths(figures.elapsed_s),
        "THROUGHPUT" => hundredths(figures.throughput(options)),
        "THROUGHPUT_UNITS" => format!("{}/s", unit(options).1),
        "REQUEST_SIZE" => whole(options.sizes.map(|sizes| sizes.0)),
        "RESPONSE_SIZE" => whole(options.sizes.map(|sizes| sizes.1)),
        "SD_UNITS" => match unit(options).0 {
            Unit::Transactions => "usec/Tran",
            Unit::Latency | Unit::Bytes(_) | Unit::Bits(_) => "usec/KB",
        }
        .to_owned(),
        "CONFIDENCE_LEVEL" => options.confidence.map_or(0, |wanted| wanted.level).to_string(),
        "CONFIDENCE_INTERVAL" => {
            format!("{:.6}", options.confidence.map_or(-1.0, |wanted| wanted.width))
        }
        "CONFIDENCE_ITERATION" => figures.reached.runs.max(1).to_string(),
        "THROUGHPUT_CONFID" => width(options, figures.reached.throughput),
        "TRANSACTION_RATE" => format!("{:.3}", if asks { rate } else { 1.0 }),
        "RT_LATENCY" if asks && rate > 0.0 => {
            format!("{:.3}", Unit::Latency.of(0.0, rate, options.burst()))
        }
        "RT_LATENCY" => "-1.000".to_owned(),
        "BURST_SIZE" => options.burst.to_string(),
        "TRANSPORT_MSS" => whole(figures.mss),
        "SOURCE_PORT" => options.here.port.to_string(),
        "DEST_PORT" => options.there.port.to_string(),
        "SOURCE_ADDR" => {
            let any = if options.v6 { "::0" } else { "0.0.0.0" };
            options.local.clone().unwrap_or_else(|| any.to_owned())
        }
        "DEST_ADDR" => options.host.clone(),
        "SOURCE_FAMILY" => "0".to_owned(),
        "DEST_FAMILY" => if options.v6 { "10" } else { "2" }.to_owned(),
        "RESULT_BRAND" => options.brand.clone(),
        "UUID" => options.id.clone(),
        "COMMAND_LINE" => format!("\"{}\"", options.command),
        _ => unknown(),
    }
}

fn direction(options: &Options) -> &'static str {
    match options.test.kind() {
        Kind::Sends => "Send",
        Kind::Receives => "Receive",
        Kind::Asks if options.connections && options.sizes.is_none() => "Connection",
        Kind::Asks if options.connections => "Connect|Send|Recv",
        Kind::Asks => "Send|Recv",
    }
}

/// Of a mean, in percent.
fn width(options: &Options, reached: f64) -> String {
    format!("{:.3}", if options.confidence.is_some() { 100.0 * reached } else { -1.0 })
}

/// `LSS_SIZE_END`: whose, of sending or receiving, and when.
fn buffer(options: &Options, figures: &Figures, name: &str) -> Option<String> {
    let (whose, when) = name.split_once("_SIZE")?;
    let (end, asked) = match whose {
        "LSS" | "LSR" => (&figures.here, &options.here),
        "RSS" | "RSR" => (&figures.there, &options.there),
        _ => return None,
    };
    let ((first, last), asked) = match whose.ends_with("SS") {
        true => (end.send_buffer, asked.send_buffer),
        false => (end.receive_buffer, asked.receive_buffer),
    };
    match when {
        "_REQ" => Some(whole(asked)),
        "" => Some(whole(first)),
        "_END" => Some(whole(last.or(first))),
        _ => None,
    }
}

/// Microseconds.
fn latency(figures: &Figures, name: &str) -> Option<String> {
    let of = |get: fn(&linerate_model::sample::DelayQuantiles) -> u64| {
        figures.latency.as_ref().map(get).map(|ns| ns / 1_000)
    };
    Some(match name {
        "MIN_LATENCY" => whole(of(|l| l.min_ns)),
        "MAX_LATENCY" => whole(of(|l| l.max_ns)),
        "P50_LATENCY" => whole(of(|l| l.p50_ns)),
        "P90_LATENCY" => whole(of(|l| l.p90_ns)),
        "P99_LATENCY" => whole(of(|l| l.p99_ns)),
        "MEAN_LATENCY" => {
            hundredths(figures.latency.map_or(-1.0, |latency| latency.mean_ns as f64 / 1e3))
        }
        // Not kept with the quantiles.
        "STDDEV_LATENCY" => "-1.00".to_owned(),
        _ => return None,
    })
}

fn each(amount: f64, calls: f64) -> String {
    hundredths(if calls > 0.0 { amount / calls } else { 0.0 })
}

/// What one end did, and what was asked of it.
fn of_end(
    options: &Options,
    figures: &Figures,
    (end, asked, here): (&End, &Asked, bool),
    name: &str,
) -> Option<String> {
    let share = |get: fn(&super::Cpu) -> f64| hundredths(end.cpu.as_ref().map_or(0.0, get));
    let tos = |tos: Option<u8>| format!("{:#x}", tos.map_or(u32::MAX, u32::from));
    let width_of = if here { figures.reached.here } else { figures.reached.there };
    let throughput = |bytes: fn(&End) -> f64| {
        let bytes = figures.a_second(|run| bytes(run.end(here)));
        hundredths(unit_of_bytes(options).0.of(bytes, 0.0, 0))
    };
    let size = |size: Option<u32>, used: bool| match (size, used, here) {
        (Some(size), true, _) => size.to_string(),
        (_, _, true) => "0".to_owned(),
        (_, _, false) => "-1".to_owned(),
    };
    let kind = options.test.kind();
    let sends = (kind == Kind::Sends) == here;
    let streams = kind != Kind::Asks;
    Some(match name {
        "SEND_SIZE" => size(end.send_size, streams && sends),
        "RECV_SIZE" => size(end.receive_size, streams && !sends),
        "CPU_UTIL" => hundredths(end.cpu.map_or(-1.0, |cpu| cpu.busy)),
        "CPU_PERCENT_USER" => share(|cpu| cpu.user),
        "CPU_PERCENT_SYSTEM" => share(|cpu| cpu.system),
        "CPU_PERCENT_SWINTR" => share(|cpu| cpu.softirq),
        "CPU_METHOD" => method(end).to_string(),
        "SD" => format!("{:.3}", figures.demand(options, here).unwrap_or(-1.0)),
        "CPU_CONFID" => width(options, width_of),
        "TRANSPORT_RETRANS" => whole(end.retransmits),
        "SEND_THROUGHPUT" => throughput(|end| end.sent),
        "RECV_THROUGHPUT" => throughput(|end| end.received),
        "CPU_BIND" => whole(asked.core),
        "CPU_COUNT" => end.cpu.map_or(0, |cpu| cpu.count).to_string(),
        "CPU_PEAK_UTIL" => hundredths(end.cpu.map_or(-1.0, |cpu| cpu.peak.1)),
        "CPU_PEAK_ID" => whole(end.cpu.map(|cpu| cpu.peak.0)),
        "SEND_CALLS" => format!("{:.0}", end.send_calls),
        "RECV_CALLS" => format!("{:.0}", end.receive_calls),
        "BYTES_PER_SEND" => each(end.sent, end.send_calls),
        "BYTES_PER_RECV" => each(end.received, end.receive_calls),
        "BYTES_SENT" => format!("{:.0}", end.sent),
        "BYTES_RECVD" => format!("{:.0}", end.received),
        "BYTES_XFERD" => format!("{:.0}", end.sent + end.received),
        "NODELAY" => u8::from(options.nodelay).to_string(),
        // Not set here.
        "SOCKET_PRIO" => whole(None::<i32>),
        "SOCKET_TOS" => tos(asked.tos),
        "CONG_CONTROL" => end.congestion.clone().unwrap_or_default(),
        "FILL_FILE" => String::new(),
        _ => return None,
    })
}

/// How the CPU was measured: from the kernel's statistics, or not.
pub(super) fn method(end: &End) -> char {
    if end.cpu.is_some() { 'S' } else { 'U' }
}
