//! What a server writes while it receives and when a test is over: the figures in nuttcp's words.
//!
//! A megabyte here has 2^20 bytes and a kilobyte 1,024; Mbps are 10^6 bit/s.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::Parameters;

const MEGABYTE: f64 = 1_048_576.0;

/// No report of an interval follows.
pub const DONE: &str = "DONE\n";

/// One interval, or all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Bytes of payload.
    pub bytes: u64,
    /// How long it was, in nanoseconds.
    pub ns: u64,
    /// Datagrams that were sent and, of those, lost, where they are counted.
    pub loss: Option<(u64, u64)>,
}

/// The server's end of a whole test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Totals {
    /// This server sent.
    pub sent: bool,
    /// Bytes of payload.
    pub bytes: u64,
    /// How long it was, in nanoseconds.
    pub ns: u64,
    /// Reads, or writes.
    pub calls: u64,
    /// User mode and kernel, in percent of one core.
    pub cpu_percent: (f64, f64),
    /// Segments that TCP sent again, and its congestion window in bytes, of a sender.
    pub retransmits: Option<(u64, Option<u64>)>,
}

impl Span {
    fn seconds(self) -> f64 {
        self.ns as f64 / 1e9
    }

    fn megabytes(self) -> f64 {
        self.bytes as f64 / MEGABYTE
    }

    fn mbps(self) -> f64 {
        per(self.bytes as f64 * 8e-6, self.seconds())
    }
}

fn per(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

fn percent(lost: u64, sent: u64) -> f64 {
    if sent > 0 { lost as f64 * 100.0 / sent as f64 } else { 0.0 }
}

/// The line of an interval, as the parameters want it, with `total` so far.
pub fn interval(parameters: &Parameters, span: Span, total: Span) -> String {
    let parse = parameters.parse_style();
    let figures = |span: Span, name: &str| {
        let (mb, seconds, mbps) = (span.megabytes(), span.seconds(), span.mbps());
        if parse {
            format!("{name}megabytes={mb:.4} {name}real_sec={seconds:.2} {name}rate_Mbps={mbps:.4}")
        } else {
            format!("{mb:>10.4} MB / {seconds:>6.2} sec = {mbps:>9.4} Mbps")
        }
    };
    let loss = |span: Span| span.loss.map_or(String::new(), |loss| lost(parameters, loss));
    let mut line = figures(span, "") + &loss(span);
    if parameters.running_total() {
        line.push_str(if parse { " " } else { " Tot: " });
        line += &(figures(total, "total_") + &loss(total));
    }
    let sent = |span: Span| {
        let (sent, _) = span.loss.filter(|_| parameters.shows_sent())?;
        Some(sent as f64 * f64::from(parameters.length) / MEGABYTE)
    };
    if let Some(mb) = sent(span) {
        let _ = match parse {
            true => write!(line, " tx_megabytes={mb:.4}"),
            false => write!(line, " Trans: {mb:>10.4} MB"),
        };
    }
    if let Some(mb) = sent(total).filter(|_| parameters.running_total()) {
        let _ = match parse {
            true => write!(line, " tx_total_megabytes={mb:.4}"),
            false => write!(line, " Tot: {mb:>10.4} MB"),
        };
    }
    line.push('\n');
    line
}

/// Datagrams that were sent and lost, and how many percent that is, where the parameters want it.
fn lost(parameters: &Parameters, (sent, lost): (u64, u64)) -> String {
    let (parse, share) = (parameters.parse_style(), percent(lost, sent));
    // Two decimals of so little would look like nothing.
    let decimals = if share > 0.0 && share < 0.1 { 5 } else { 2 };
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = match parse {
        _ if !parameters.shows_drops() => Ok(()),
        true => write!(text, " drop={lost} pkt={sent}"),
        false => write!(text, " {lost:>5} / {sent:>5} ~drop/pkt"),
    };
    let _ = match parse {
        _ if !parameters.shows_percent() => Ok(()),
        true => write!(text, " data_loss={share:.5}"),
        false => write!(text, " {share:>5.decimals$} ~%loss"),
    };
    text
}

/// Where a server that sends over TCP connected to, in which its client looks for the round trip.
pub fn connected(
    parameters: &Parameters,
    to: IpAddr,
    mss: Option<u64>,
    round_trip_ns: u64,
) -> String {
    let (ms, parse) = (round_trip_ns as f64 / 1e6, parameters.parse_style());
    let mss =
        mss.map(|bytes| if parse { format!(" mss={bytes}") } else { format!(" mss={bytes},") });
    let mss = mss.unwrap_or_default();
    match parse {
        true => format!("nuttcp-t: connect={to}{mss} rtt_ms={ms:.3}\n"),
        false => format!("nuttcp-t: connect to {to} with{mss} RTT={ms:.3} ms\n"),
    }
}

/// The last lines of a server. What nuttcp adds of memory and page faults is not known here and left out.
pub fn totals(parameters: &Parameters, totals: &Totals) -> String {
    let span = Span { bytes: totals.bytes, ns: totals.ns, loss: None };
    let (mb, seconds, mbps) = (span.megabytes(), span.seconds(), span.mbps());
    let kb = totals.bytes as f64 / 1_024.0;
    let rate = per(kb, seconds);
    let (user, system) = totals.cpu_percent;
    let [user_s, system_s] = [user, system].map(|percent| percent / 100.0 * seconds);
    let (cpu_s, busy) = (user_s + system_s, (user + system).round());
    let cpu_rate = per(kb, cpu_s);
    let (calls, calls_rate) = (totals.calls, per(totals.calls as f64, seconds));
    let call_ms = per(1_000.0, calls_rate);
    let rounded = seconds.round() as u64;
    let (minutes, rest) = (rounded / 60, rounded % 60);
    let parse = parameters.parse_style();
    let again = totals.retransmits.map(|(segments, window)| {
        let window = window.map(|bytes| bytes / 1_024);
        match (parse, window) {
            (true, Some(kb)) => format!("retrans={segments} cwnd={kb}"),
            (true, None) => format!("retrans={segments}"),
            (false, Some(kb)) => format!("retrans = {segments} cwnd = {kb} KB"),
            (false, None) => format!("retrans = {segments}"),
        }
    });
    let lines = if parse {
        [
            Some(format!(
                "megabytes={mb:.4} real_seconds={seconds:.2} rate_KBps={rate:.2} rate_Mbps={mbps:.4}"
            )),
            Some(format!(
                "megabytes={mb:.4} cpu_seconds={cpu_s:.2} KB_per_cpu_second={cpu_rate:.2}"
            )),
            again,
            Some(format!(
                "io_calls={calls} msec_per_call={call_ms:.2} calls_per_sec={calls_rate:.2}"
            )),
            Some(format!(
                "stats=cpu user={user_s:.1} system={system_s:.1} elapsed={minutes}:{rest:02} cpu={busy:.0}%"
            )),
        ]
    } else {
        [
            Some(format!(
                "{mb:.4} MB in {seconds:.2} real seconds = {rate:.2} KB/sec = {mbps:.4} Mbps"
            )),
            Some(format!("{mb:.4} MB in {cpu_s:.2} CPU seconds = {cpu_rate:.2} KB/cpu sec")),
            again,
            Some(format!(
                "{calls} I/O calls, msec/call = {call_ms:.2}, calls/sec = {calls_rate:.2}"
            )),
            Some(format!("{user_s:.1}user {system_s:.1}sys {minutes}:{rest:02}real {busy:.0}%")),
        ]
    };
    let who = if totals.sent { "nuttcp-t" } else { "nuttcp-r" };
    lines.into_iter().flatten().map(|line| format!("{who}: {line}\n")).collect()
}
