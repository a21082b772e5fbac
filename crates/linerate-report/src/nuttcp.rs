//! Output of nuttcp's client, as release 8.2.2 prints it: brief, verbose, and `-fparse`. A megabyte here has
//! 2^20 bytes and a kilobyte 1,024; Mbps are 10^6 bit/s.
//!
//! What is not known of a test is left out, where that release would have a number.

use std::fmt::Write as _;
use std::net::IpAddr;

const MEGABYTE: f64 = 1_048_576.0;

// Bits of `-f`, as the protocol has them.
const SENT_TOO: u32 = 0x1;
const RUNNING_TOTAL: u32 = 0x4;
const NO_DROPS: u32 = 0x8;
const NO_PERCENT: u32 = 0x10;
const PARSE: u32 = 0x40;
const NO_RETRANS: u32 = 0x100;
const RTT: u32 = 0x800;
const NO_CWND: u32 = 0x2000;

/// How it is shown.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `-f`, as bits of nuttcp's protocol.
    pub format: u32,
    /// `-I`.
    pub name: Option<String>,
    /// How often `-v` was said.
    pub verbosity: u8,
    /// This end sends.
    pub sends: bool,
    /// Intervals are shown (`-i`).
    pub intervals: bool,
}

/// What was carried in an interval, or in all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Carried {
    /// Bytes of payload that arrived.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// Datagrams that were lost, of so many sent.
    pub loss: Option<(u64, u64)>,
    /// Segments that TCP sent again.
    pub retransmits: Option<u64>,
    /// TCP's congestion window in bytes.
    pub cwnd_bytes: Option<u64>,
    /// Bytes of datagrams that were sent.
    pub sent: Option<u64>,
}

/// This end before the data.
#[derive(Debug, Clone)]
pub struct Head {
    /// Datagrams.
    pub udp: bool,
    /// Bytes of a write or datagram.
    pub length: u32,
    /// So many of them end the test.
    pub count: Option<u64>,
    /// Streams.
    pub streams: u16,
    /// The first stream's data port.
    pub port: u16,
    /// The server.
    pub peer: IpAddr,
    /// Type of service.
    pub tos: u8,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// When the test ends.
    pub seconds: Option<f64>,
    /// Bit/s, and whether the user wants them of each datagram and not of their mean.
    pub rate: Option<(u64, bool)>,
    /// Datagrams that leave at once.
    pub burst: u32,
    /// Between intervals.
    pub interval_s: Option<f64>,
    /// Maximum segment size.
    pub mss: Option<u32>,
    /// Round trip in nanoseconds.
    pub rtt_ns: Option<u64>,
    /// `SO_SNDBUF` and `SO_RCVBUF`, in bytes.
    pub buffers: Option<(u64, u64)>,
}

/// This end of a test that is over.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    /// What it carried itself.
    pub carried: Carried,
    /// Calls into the kernel, of datagrams one for each.
    pub calls: u64,
    /// What its threads of data took, in percent of one core.
    pub busy_percent: f64,
    /// User mode and kernel of the process, in percent of one core.
    pub cpu_percent: (f64, f64),
}

fn per(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / MEGABYTE
}

/// How many percent were lost, and with how many decimals that is said: two of a little would look like nothing.
fn share(lost: u64, sent: u64) -> (f64, usize) {
    let percent = per(lost as f64 * 100.0, sent as f64);
    (percent, if percent > 0.0 && percent < 0.1 { 5 } else { 2 })
}

impl Options {
    fn parse(&self) -> bool {
        self.has(PARSE)
    }

    fn has(&self, bit: u32) -> bool {
        self.format & bit != 0
    }

    /// What stands before lines about an end.
    fn end(&self, sends: bool) -> String {
        let letter = if sends { 't' } else { 'r' };
        match &self.name {
            Some(name) => format!("nuttcp-{letter}-{name}: "),
            None => format!("nuttcp-{letter}: "),
        }
    }

    fn named(&self, line: &str) -> String {
        match &self.name {
            Some(name) => format!("{name}: {line}\n"),
            None => format!("{line}\n"),
        }
    }

    /// Of each end, `lines` that are there.
    fn lines(&self, lines: impl IntoIterator<Item = Option<String>>) -> String {
        let end = self.end(self.sends);
        lines.into_iter().flatten().map(|line| format!("{end}{line}\n")).collect()
    }
}

/// What follows the rate, each part where it is known and wanted; `~` marks what may still change.
fn more(options: &Options, carried: &Carried, mark: &str) -> String {
    let (parse, wide) = (options.parse(), !mark.is_empty());
    let mut text = String::new();
    if let Some((lost, sent)) = carried.loss {
        let (percent, decimals) = share(lost, sent);
        // Writing to a string does not fail.
        let _ = match (options.has(NO_DROPS), parse, wide) {
            (true, ..) => Ok(()),
            (_, true, _) => write!(text, " drop={lost} pkt={sent}"),
            (_, _, true) => write!(text, " {lost:>5} / {sent:>5} {mark}drop/pkt"),
            _ => write!(text, " {lost} / {sent} drop/pkt"),
        };
        let _ = match (options.has(NO_PERCENT), parse, wide) {
            (true, ..) => Ok(()),
            (_, true, _) => write!(text, " data_loss={percent:.5}"),
            (_, _, true) => write!(text, " {percent:>5.decimals$} {mark}%loss"),
            _ => write!(text, " {percent:.decimals$} %loss"),
        };
    }
    if let Some(again) = carried.retransmits.filter(|_| !options.has(NO_RETRANS)) {
        let _ = match (parse, wide) {
            (true, _) => write!(text, " retrans={again}"),
            (_, true) => write!(text, " {again:>5} retrans"),
            _ => write!(text, " {again} retrans"),
        };
    }
    let window = carried.cwnd_bytes.filter(|_| !options.has(NO_CWND | NO_RETRANS));
    if let Some(kb) = window.map(|bytes| bytes / 1_024) {
        let _ = match (parse, wide) {
            (true, _) => write!(text, " cwnd={kb}"),
            (_, true) => write!(text, " {kb:>6} KB-cwnd"),
            _ => write!(text, " {kb} KB-cwnd"),
        };
    }
    text
}

fn rate(parse: bool, name: &str, seconds_name: &str, carried: &Carried) -> String {
    let (mb, seconds) = (megabytes(carried.bytes), carried.seconds);
    let mbps = per(carried.bytes as f64 * 8e-6, seconds);
    match parse {
        true => format!(
            "{name}megabytes={mb:.4} {name}{seconds_name}={seconds:.2} {name}rate_Mbps={mbps:.4}"
        ),
        false => format!("{mb:>10.4} MB / {seconds:>6.2} sec = {mbps:>9.4} Mbps"),
    }
}

/// The line of an interval, with the `total` so far.
pub fn interval(options: &Options, row: &Carried, total: &Carried) -> String {
    let parse = options.parse();
    let mut line = rate(parse, "", "real_sec", row) + &more(options, row, "~");
    if options.has(RUNNING_TOTAL) {
        line += if parse { " " } else { " Tot: " };
        line += &rate(parse, "total_", "real_sec", total);
        line += &more(options, total, "~");
    }
    if let Some(sent) = row.sent.filter(|_| options.has(SENT_TOO)).map(megabytes) {
        let _ = match parse {
            true => write!(line, " tx_megabytes={sent:.4}"),
            false => write!(line, " Trans: {sent:>10.4} MB"),
        };
        let all = total.sent.filter(|_| options.has(RUNNING_TOTAL)).map(megabytes);
        let _ = match (parse, all) {
            (_, None) => Ok(()),
            (true, Some(all)) => write!(line, " tx_total_megabytes={all:.4}"),
            (false, Some(all)) => write!(line, " Tot: {all:>10.4} MB"),
        };
    }
    options.named(&line)
}

/// The one line of a brief test: what arrived, the CPU of sender and receiver in percent of one core, and the round
/// trip of TCP in nanoseconds.
pub fn summary(
    options: &Options,
    carried: &Carried,
    (sender, receiver): (Option<u32>, Option<u32>),
    rtt_ns: Option<u64>,
) -> String {
    let parse = options.parse();
    let mut line = rate(parse, "", "real_seconds", carried);
    for (percent, name, key) in [(sender, "TX", "tx_cpu"), (receiver, "RX", "rx_cpu")] {
        let Some(percent) = percent else { continue };
        let _ = match parse {
            true => write!(line, " {key}={percent}"),
            false => write!(line, " {percent} %{name}"),
        };
    }
    line += &more(options, carried, "");
    if let Some(rtt) = rtt_ns.filter(|_| options.has(RTT)).map(|ns| ns as f64 / 1e6) {
        let _ = match parse {
            true => write!(line, " rtt_ms={rtt:.2}"),
            false => write!(line, " {rtt:.2} msRTT"),
        };
    }
    if let Some(sent) = carried.sent.filter(|_| options.has(SENT_TOO)).map(megabytes) {
        let _ = match parse {
            true => write!(line, " tx_megabytes={sent:.4}"),
            false => write!(line, " Trans: {sent:.4} MB"),
        };
    }
    options.named(&line)
}

/// What `-v` shows of this end before the data.
pub fn head(options: &Options, head: &Head) -> String {
    let parse = options.parse();
    let (comma, sends, peer) = (if parse { "" } else { "," }, options.sends, head.peer);
    let family = if peer.is_ipv6() { "af=inet6" } else { "af=inet" };
    let mut what = format!("buflen={}{comma} ", head.length);
    if let Some(count) = head.count {
        let _ = write!(what, "nbuf={count}{comma} ");
    }
    let kind = if head.udp { "udp" } else { "tcp" };
    let _ = write!(what, "nstream={}{comma} port={} ", head.streams, head.port);
    what += if parse { "mode=" } else { "" };
    what += kind;
    let _ = match (sends, parse) {
        (false, _) => Ok(()),
        (true, true) => write!(what, " host={peer}"),
        (true, false) => write!(what, " -> {peer}"),
    };
    if head.udp {
        let _ = write!(what, " {family}");
    }
    let tos = (head.tos > 0).then_some(head.tos);
    let limit = head.seconds.filter(|_| sends).map(|seconds| match parse {
        true => format!("time_limit={seconds:.2}"),
        false => format!("time limit = {seconds:.2} second{}", plural(seconds)),
    });
    let open = match (head.udp, sends, parse) {
        (true, ..) => None,
        (_, true, true) => Some(format!(
            "connect={peer}{}{} {family}",
            head.mss.map_or(String::new(), |mss| format!(" mss={mss}")),
            head.rtt_ns.map_or(String::new(), |ns| format!(" rtt_ms={:.3}", ns as f64 / 1e6)),
        )),
        (_, true, false) => Some(format!(
            "connect to {peer} with mss={}, RTT={} ms {family}",
            head.mss.map_or("-".into(), |mss| mss.to_string()),
            head.rtt_ns.map_or("-".into(), |ns| format!("{:.3}", ns as f64 / 1e6)),
        )),
        (_, false, true) => Some(format!("accept={peer} {family}")),
        (_, false, false) => Some(format!("accept from {peer} with {family}")),
    };
    let interval = head.interval_s.filter(|_| !sends).map(|seconds| match parse {
        true => format!("reporting_interval={seconds:.2}"),
        false => format!("interval reporting every {seconds:.2} second{}", plural(seconds)),
    });
    let windows = |name: &str, send: u64, receive: u64| match (parse, name) {
        (true, _) => format!("send_window_{name}={send} receive_window_{name}={receive}"),
        (_, "size") => format!("send window size = {send}, receive window size = {receive}"),
        _ => format!("available send window = {send}, available receive window = {receive}"),
    };
    options.lines([
        Some("v8.2.2: socket".to_owned()),
        Some(what),
        tos.map(|tos| if parse { format!("tos=0x{tos:X}") } else { format!("tos = 0x{tos:X}") }),
        head.nodelay.then(|| "v8.2.2: nodelay".to_owned()).filter(|_| sends && !head.udp),
        limit,
        limited(parse, head).filter(|_| sends),
        open,
        interval,
        head.buffers.map(|(send, receive)| windows("size", send, receive)),
        // Half of a buffer is the kernel's own.
        head.buffers.map(|(send, receive)| windows("avail", send / 2, receive / 2)),
    ])
}

fn plural(seconds: f64) -> &'static str {
    if (seconds - 1.0).abs() < f64::EPSILON { "" } else { "s" }
}

fn limited(parse: bool, head: &Head) -> Option<String> {
    let (bps, each) = head.rate?;
    let mbps = bps as f64 / 1e6;
    let mode = if each { "instantaneous" } else { "aggregate" };
    let packets = (bps / 8).checked_div(head.length.into()).unwrap_or(0);
    let burst = head.burst;
    Some(match (parse, burst > 1) {
        (true, true) => format!(
            "rate_limit={mbps:.3} rate_unit=Mbps rate_mode={mode} packet_burst={burst} pps_rate={packets}"
        ),
        (true, false) => {
            format!("rate_limit={mbps:.3} rate_unit=Mbps rate_mode={mode} pps_rate={packets}")
        }
        (false, true) => {
            format!("rate limit = {mbps:.3} Mbps ({mode}), packet burst = {burst}, {packets} pps")
        }
        (false, false) => format!("rate limit = {mbps:.3} Mbps ({mode}), {packets} pps"),
    })
}

fn dropped(parse: bool, (lost, sent): (u64, u64)) -> String {
    let (percent, decimals) = share(lost, sent);
    match parse {
        true => format!("drop={lost} pkt={sent} data_loss={percent:.5}"),
        false => format!("{lost} / {sent} drop/pkt {percent:.decimals$}% data loss"),
    }
}

/// What `-v` shows of this end after the data. What nuttcp adds of memory and page faults is not known here.
pub fn totals(options: &Options, totals: &Totals) -> String {
    let (parse, carried) = (options.parse(), &totals.carried);
    let (mb, seconds, kb) =
        (megabytes(carried.bytes), carried.seconds, carried.bytes as f64 / 1_024.0);
    let (kbps, mbps) = (per(kb, seconds), per(carried.bytes as f64 * 8e-6, seconds));
    let (user, system) = totals.cpu_percent;
    let [user_s, system_s] = [user, system].map(|percent| percent / 100.0 * seconds);
    let (cpu_s, busy) = (user_s + system_s, totals.busy_percent);
    let cpu_rate = per(kb, cpu_s);
    let (calls, calls_rate) = (totals.calls, per(totals.calls as f64, seconds));
    let call_ms = per(1_000.0, calls_rate);
    let rounded = seconds.round() as u64;
    let (minutes, rest) = (rounded / 60, rounded % 60);
    let very = options.verbosity > 1;
    let loss = carried.loss.filter(|_| !options.sends).map(|loss| dropped(parse, loss));
    let again = carried.retransmits.map(|again| {
        let kb = carried.cwnd_bytes.map(|bytes| bytes / 1_024);
        match (parse, kb) {
            (true, Some(kb)) => format!("retrans={again} cwnd={kb}"),
            (true, None) => format!("retrans={again}"),
            (false, Some(kb)) => format!("retrans = {again} cwnd = {kb} KB"),
            (false, None) => format!("retrans = {again}"),
        }
    });
    let (all, cpu, io, used) = if parse {
        (
            format!(
                "megabytes={mb:.4} real_seconds={seconds:.2} rate_KBps={kbps:.2} rate_Mbps={mbps:.4}"
            ),
            format!("megabytes={mb:.4} cpu_seconds={cpu_s:.2} KB_per_cpu_second={cpu_rate:.2}"),
            format!("io_calls={calls} msec_per_call={call_ms:.2} calls_per_sec={calls_rate:.2}"),
            format!(
                "stats=cpu user={user_s:.1} system={system_s:.1} elapsed={minutes}:{rest:02} cpu={busy:.0}%"
            ),
        )
    } else {
        (
            format!("{mb:.4} MB in {seconds:.2} real seconds = {kbps:.2} KB/sec = {mbps:.4} Mbps"),
            format!("{mb:.4} MB in {cpu_s:.2} CPU seconds = {cpu_rate:.2} KB/cpu sec"),
            format!("{calls} I/O calls, msec/call = {call_ms:.2}, calls/sec = {calls_rate:.2}"),
            format!("{user_s:.1}user {system_s:.1}sys {minutes}:{rest:02}real {busy:.0}%"),
        )
    };
    options.lines([Some(all), loss, very.then_some(cpu), again, Some(io), Some(used)])
}

/// What `-v` shows of the server: its own lines, without those of intervals, and with the loss of datagrams that only
/// this end knows.
pub fn server(options: &Options, lines: &[&str], loss: Option<(u64, u64)>) -> String {
    let mut text = String::new();
    for line in lines {
        let sends = line.starts_with("nuttcp-t: ");
        let Some(said) = line.strip_prefix("nuttcp-t: ").or(line.strip_prefix("nuttcp-r: ")) else {
            continue;
        };
        let (very, parse) = (options.verbosity > 1, options.parse());
        // Intervals are asked of it in any case, for the record.
        let rows = ["interval reporting", "reporting_interval"].iter().any(|w| said.starts_with(w));
        if (said.contains(" CPU seconds") && !very) || (rows && !options.intervals) {
            continue;
        }
        let _ = writeln!(text, "{}{said}", options.end(sends));
        let all = said.contains(" real seconds") || said.contains("real_seconds=");
        if let Some(loss) = loss.filter(|_| all && options.sends) {
            let _ = writeln!(text, "{}{}", options.end(sends), dropped(parse, loss));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(format: u32) -> Options {
        Options { format: RTT | format, ..Options::default() }
    }

    #[test]
    fn lines_are_those_of_the_real_one() {
        let tcp = Carried {
            bytes: 2_165_637_120,
            seconds: 1.0,
            retransmits: Some(2),
            cwnd_bytes: Some(1_080_320),
            ..Carried::default()
        };
        let cpu = (Some(26), Some(43));
        assert_eq!(
            summary(&options(0), &tcp, cpu, Some(80_000)),
            " 2065.3125 MB /   1.00 sec = 17325.0970 Mbps 26 %TX 43 %RX 2 retrans 1055 KB-cwnd 0.08 msRTT\n"
        );
        assert_eq!(
            summary(&options(PARSE), &tcp, cpu, Some(80_000)),
            "megabytes=2065.3125 real_seconds=1.00 rate_Mbps=17325.0970 tx_cpu=26 rx_cpu=43 retrans=2 cwnd=1055 rtt_ms=0.08\n"
        );
        assert_eq!(
            interval(&options(NO_CWND), &tcp, &tcp),
            " 2065.3125 MB /   1.00 sec = 17325.0970 Mbps     2 retrans\n"
        );
    }

    #[test]
    fn loss_and_what_was_sent_are_shown_as_wanted() {
        let udp = Carried {
            bytes: 131_072,
            seconds: 1.0,
            loss: Some((4, 20)),
            sent: Some(163_840),
            ..Carried::default()
        };
        let line = |format| interval(&options(format), &udp, &udp);
        assert_eq!(
            line(RUNNING_TOTAL | SENT_TOO),
            "    0.1250 MB /   1.00 sec =    1.0486 Mbps     4 /    20 ~drop/pkt 20.00 ~%loss Tot:     \
             0.1250 MB /   1.00 sec =    1.0486 Mbps     4 /    20 ~drop/pkt 20.00 ~%loss Trans:     0.1562 MB Tot:     0.1562 MB\n"
        );
        assert_eq!(line(NO_DROPS), "    0.1250 MB /   1.00 sec =    1.0486 Mbps 20.00 ~%loss\n");
        let text = summary(&options(NO_PERCENT), &udp, (None, Some(0)), None);
        assert_eq!(text, "    0.1250 MB /   1.00 sec =    1.0486 Mbps 0 %RX 4 / 20 drop/pkt\n");
    }

    #[test]
    fn little_loss_has_five_decimals() {
        let styles = |loss| {
            let udp = Carried { loss: Some(loss), ..Carried::default() };
            let none = "    0.0000 MB /   0.00 sec =    0.0000 Mbps";
            let texts = [
                summary(&options(NO_DROPS), &udp, (None, None), None),
                interval(&options(NO_DROPS), &udp, &udp),
            ];
            let [brief, row] = texts.map(|text| text.trim_end().replace(none, ""));
            [brief, row, dropped(false, loss)]
        };
        assert_eq!(
            styles((24, 844_516)),
            [" 0.00284 %loss", " 0.00284 ~%loss", "24 / 844516 drop/pkt 0.00284% data loss"]
        );
        // A thousandth and none at all have two.
        assert_eq!(
            styles((1, 1_000)),
            [" 0.10 %loss", "  0.10 ~%loss", "1 / 1000 drop/pkt 0.10% data loss"]
        );
        assert_eq!(
            styles((0, 1_000)),
            [" 0.00 %loss", "  0.00 ~%loss", "0 / 1000 drop/pkt 0.00% data loss"]
        );
    }
}
