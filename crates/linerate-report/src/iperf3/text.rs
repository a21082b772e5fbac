//! The lines of iperf3's text output. Times and prefixes are the caller's.

use std::fmt::Write as _;

use linerate_model::test_event::{Connected, End, Rows, ServerOutput, Start, TestEvent};

use super::number;
use super::{
    Figures, Final, Group, Half, Options, finals, groups, is_bidir, is_udp, of_group, rate,
    sum_finals,
};
use crate::number::general;

/// Turns events into lines.
#[derive(Debug)]
pub struct Text {
    options: Options,
    start: Option<Start>,
    rows: usize,
}

const SEPARATOR: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -\n";
const LINE: &str = "-----------------------------------------------------------\n";

impl Text {
    /// For one test.
    pub fn new(options: Options) -> Self {
        Self { options, start: None, rows: 0 }
    }

    /// What a server prints before a test.
    pub fn listening(&self, number: u64) -> String {
        let mut out = String::new();
        if self.options.verbose && number == 1 {
            let _ = writeln!(out, "{}\n{}", self.options.version, self.options.system);
        }
        let port = self.options.port;
        let _ = write!(out, "{LINE}Server listening on {port} (test #{number})\n{LINE}");
        out
    }

    /// Lines for one event, each with its end. `time` is now as in RFC 1123.
    pub fn event(&mut self, event: &TestEvent, time: &str) -> String {
        match event {
            TestEvent::Connected(_) => String::new(),
            TestEvent::Start(start) => {
                let text = self.started(start, time);
                self.start = Some((**start).clone());
                text
            }
            TestEvent::Rows(rows) => self.interval(rows),
            TestEvent::End(end) => self.ended(end),
        }
    }

    fn started(&self, start: &Start, time: &str) -> String {
        let mut out = String::new();
        let o = &self.options;
        let Connected { peer, mss, .. } = &start.control;
        if o.verbose && start.client {
            let _ = writeln!(out, "{}\n{}", o.version, o.system);
            let _ = writeln!(out, "Control connection MSS {}", mss.unwrap_or(0));
        }
        if o.verbose {
            let _ = writeln!(out, "Time: {time}");
        }
        if start.client {
            let _ = writeln!(out, "Connecting to host {}, port {}", o.host, o.port);
            if start.asked.direction == linerate_model::plan::Direction::Reverse {
                let _ = writeln!(out, "Reverse mode, remote host {} is sending", o.host);
            }
        } else {
            let _ = writeln!(out, "Accepted connection from {}, port {}", peer.ip(), peer.port());
        }
        let asked = &start.asked;
        if o.verbose {
            let _ = writeln!(out, "      Cookie: {}", start.cookie);
            if !is_udp(start) {
                let _ = match asked.mss_bytes {
                    0 => {
                        let mss = if start.client { mss.unwrap_or(0) } else { 0 };
                        writeln!(out, "      TCP MSS: {mss} (default)")
                    }
                    mss => writeln!(out, "      TCP MSS: {mss}"),
                };
            }
            if asked.rate_bps > 0 {
                let _ = writeln!(out, "      Target Bitrate: {}", asked.rate_bps);
            }
        }
        for s in &start.streams {
            let _ = writeln!(
                out,
                "[{:3}] local {} port {} connected to {} port {}",
                s.socket,
                s.local.ip(),
                s.local.port(),
                s.remote.ip(),
                s.remote.port()
            );
        }
        if o.verbose {
            let what = if asked.bytes > 0 {
                format!("{} bytes to send", asked.bytes)
            } else if asked.blocks > 0 {
                format!("{} blocks to send", asked.blocks)
            } else {
                format!("{} second test", asked.time_s)
            };
            let _ = writeln!(
                out,
                "Starting Test: protocol: {}, {} streams, {} byte blocks, omitting {} seconds, {what}, tos {}",
                if is_udp(start) { "UDP" } else { "TCP" },
                asked.parallel,
                asked.block_bytes,
                asked.omit_s,
                asked.tos
            );
        }
        out
    }

    fn interval(&mut self, rows: &Rows) -> String {
        let Some(start) = &self.start else { return String::new() };
        let mut out = String::new();
        let several = start.asked.parallel > 1;
        if self.rows == 0 {
            out.push_str(&header(start, None));
        } else if several {
            out.push_str(SEPARATOR);
        }
        for group in groups(start) {
            let streams = of_group(start, rows, group);
            for (socket, figures) in &streams {
                out.push_str(&self.row(Of { start, group, stream: Some(*socket) }, rows, figures));
            }
            if several {
                let all: Vec<Figures> = streams.iter().map(|(_, figures)| *figures).collect();
                out.push_str(&self.row(
                    Of { start, group, stream: None },
                    rows,
                    &Figures::sum(&all),
                ));
            }
        }
        self.rows += 1;
        out
    }

    fn row(&self, of: Of<'_>, rows: &Rows, f: &Figures) -> String {
        let span_ns = rows.end_ns.saturating_sub(rows.start_ns);
        let (from, to) = (rows.start_ns as f64 / 1e9, rows.end_ns as f64 / 1e9);
        let begin = self.begin(of, (from, to), f.bytes, rate(f.bytes, span_ns as f64 / 1e9));
        let tag = if rows.omitted { "(omitted)" } else { "" };
        match (is_udp(of.start), of.group.sends) {
            (true, true) => {
                let room = if is_bidir(of.start) { "          " } else { "" };
                format!("{begin} {room} {}  {tag}\n", f.packets)
            }
            (true, false) => {
                let lost = i64::try_from(f.lost).unwrap_or(i64::MAX);
                format!("{begin}{}  {tag}\n", losses(f.jitter_s, lost, f.packets))
            }
            (false, _) => match f.retransmits.filter(|_| of.group.sends) {
                None => format!("{begin}                  {tag}\n"),
                Some(again) if of.stream.is_none() => {
                    format!("{begin}  {again:3}             {tag}\n")
                }
                Some(again) => {
                    format!("{begin}  {again:3}   {}       {tag}\n", number::bytes(f.cwnd_bytes))
                }
            },
        }
    }

    /// What all rows begin with.
    fn begin(
        &self,
        of: Of<'_>,
        (from, to): (f64, f64),
        bytes: u64,
        bits_per_second: f64,
    ) -> String {
        format!(
            "{} {from:6.2}-{to:<6.2} sec  {}  {}/sec",
            of.name(),
            number::bytes(bytes),
            number::rate(bits_per_second, self.options.format)
        )
    }

    fn ended(&self, end: &End) -> String {
        let mut out = String::new();
        let Some(start) = &self.start else { return out };
        if end.streams.is_empty() {
            return out;
        }
        out.push_str(SEPARATOR);
        if self.options.verbose {
            out.push_str("Test Complete. Summary Results:\n");
        }
        let all: Vec<(Group, Vec<Final>)> =
            groups(start).into_iter().map(|g| (g, finals(start, end, g))).collect();
        let again = all.iter().flat_map(|(_, f)| f).any(|f| f.sent.retransmits.is_some());
        out.push_str(&header(start, Some(again)));
        for (group, streams) in &all {
            for f in streams {
                let of = Of { start, group: *group, stream: Some(f.socket) };
                self.summary(&mut out, of, f);
            }
            if start.asked.parallel > 1 {
                let of = Of { start, group: *group, stream: None };
                self.summary(&mut out, of, &sum_finals(streams));
            }
        }
        if self.options.verbose {
            self.closing(&mut out, start, end);
        }
        match &end.server_output {
            Some(ServerOutput::Text(text)) => {
                let _ = writeln!(out, "\nServer output:\n{}", crate::clean::clean_lines(text));
            }
            Some(ServerOutput::Json(text)) => {
                let _ = writeln!(out, "\nServer JSON output:\n{}", crate::clean::clean_lines(text));
            }
            None => {}
        }
        if start.client && end.error.is_none() && !end.interrupted {
            out.push_str("\niperf Done.\n");
        }
        out
    }

    /// The sender's row and the receiver's; a server knows only its own.
    fn summary(&self, out: &mut String, of: Of<'_>, f: &Final) {
        let mine = |is_sender: bool| of.start.client || is_sender == of.group.sends;
        for (is_sender, half) in [(true, &f.sent), (false, &f.received)] {
            if mine(is_sender) {
                if !is_sender && is_udp(of.start) && f.out_of_order > 0 {
                    let sum = Of { stream: None, ..of };
                    let _ = writeln!(
                        out,
                        "{} {:4.1}-{:4.1} sec  {} datagrams received out-of-order",
                        sum.name(),
                        0.0,
                        half.seconds,
                        f.out_of_order
                    );
                }
                out.push_str(&self.half(of, f, half, is_sender));
            } else if self.options.verbose && of.stream.is_some() {
                let name = if is_sender { "sender" } else { "receiver" };
                let _ = writeln!(out, "{} ({name} statistics not available)", of.name());
            }
        }
    }

    fn half(&self, of: Of<'_>, f: &Final, half: &Half, is_sender: bool) -> String {
        let begin = self.begin(of, (0.0, half.seconds), half.bytes, half.bits_per_second());
        let name = if is_sender { "sender" } else { "receiver" };
        let figures = if !is_udp(of.start) {
            match half.retransmits.filter(|_| is_sender) {
                Some(again) => format!("  {again:3}           "),
                None => "                ".to_owned(),
            }
        } else if is_sender {
            format!("  0.000 ms  0/{} (0%)", half.packets)
        } else if f.lost_unknown {
            format!("  {:5.3} ms  Unknown/{}", f.jitter_s * 1e3, half.packets)
        } else {
            losses(f.jitter_s, f.lost, half.packets)
        };
        format!("{begin}{figures}  {name}\n")
    }

    fn closing(&self, out: &mut String, start: &Start, end: &End) {
        let sends = groups(start).iter().any(|g| g.sends);
        if start.client {
            let far = end.far_cpu.map_or("unknown".to_owned(), |far| {
                format!("{:.1}% ({:.1}%u/{:.1}%s)", far.total, far.user, far.system)
            });
            let (here, there) = if sends { ("sender", "receiver") } else { ("receiver", "sender") };
            let _ = writeln!(
                out,
                "CPU Utilization: local/{here} {:.1}% ({:.1}%u/{:.1}%s), remote/{there} {far}",
                end.cpu.total, end.cpu.user, end.cpu.system
            );
        }
        if is_udp(start) {
            return;
        }
        let (sender, receiver) = if sends {
            (&end.congestion, &end.far_congestion)
        } else {
            (&end.far_congestion, &end.congestion)
        };
        if let Some(name) = sender {
            let _ = writeln!(out, "snd_tcp_congestion {}", crate::clean::clean(name));
        }
        if let Some(name) = receiver {
            let _ = writeln!(out, "rcv_tcp_congestion {}", crate::clean::clean(name));
        }
    }
}

/// Jitter and loss of a receiver.
fn losses(jitter_s: f64, lost: i64, packets: u64) -> String {
    let percent = general(super::percent(lost, packets), 2);
    format!("  {:5.3} ms  {lost}/{packets} ({percent}%)", jitter_s * 1e3)
}

/// What a line is of: a stream, by its socket, or all of one direction.
#[derive(Clone, Copy)]
struct Of<'a> {
    start: &'a Start,
    group: Group,
    stream: Option<i32>,
}

impl Of<'_> {
    /// `[  5]`, in tests of both directions `[  5][TX-C]` and the like.
    fn name(self) -> String {
        let role = match (is_bidir(self.start), self.group.sends, self.start.client) {
            (false, ..) => "",
            (_, true, true) => "[TX-C]",
            (_, false, true) => "[RX-C]",
            (_, true, false) => "[TX-S]",
            (_, false, false) => "[RX-S]",
        };
        self.stream.map_or(format!("[SUM]{role}"), |socket| format!("[{socket:3}]{role}"))
    }
}

/// The header of the rows, or with `again` (whether retransmissions are known) of the summary.
fn header(start: &Start, summary: Option<bool>) -> String {
    let bidir = is_bidir(start);
    let sends = groups(start).iter().any(|group| group.sends);
    let role = if bidir { "[Role]" } else { "" };
    let tail = match (is_udp(start), summary) {
        (true, Some(_)) => "         Jitter    Lost/Total Datagrams",
        (true, None) if sends && !bidir => "         Total Datagrams",
        (true, None) => "         Jitter    Lost/Total Datagrams",
        (false, None) if sends => "         Retr  Cwnd",
        (false, Some(true)) => "         Retr",
        (false, _) => "",
    };
    format!("[ ID]{role} Interval           Transfer     Bitrate{tail}\n")
}
