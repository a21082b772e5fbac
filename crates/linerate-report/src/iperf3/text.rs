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
                self.row(&mut out, start, rows, group, &format!("{socket:3}"), figures, false);
            }
            if several {
                let all: Vec<Figures> = streams.iter().map(|(_, figures)| *figures).collect();
                self.row(&mut out, start, rows, group, "SUM", &Figures::sum(&all), true);
            }
        }
        self.rows += 1;
        out
    }

    #[expect(clippy::too_many_arguments, reason = "each is one fact of a line")]
    fn row(
        &self,
        out: &mut String,
        start: &Start,
        rows: &Rows,
        group: Group,
        id: &str,
        f: &Figures,
        sum: bool,
    ) {
        let span_ns = rows.end_ns.saturating_sub(rows.start_ns);
        let (from, to) = (rows.start_ns as f64 / 1e9, rows.end_ns as f64 / 1e9);
        self.begin(out, start, group, id, (from, to), f.bytes, rate(f.bytes, span_ns as f64 / 1e9));
        let tag = if rows.omitted { "(omitted)" } else { "" };
        let _ = match (is_udp(start), group.sends) {
            (true, true) => {
                let room = if is_bidir(start) { "          " } else { "" };
                writeln!(out, " {room} {}  {tag}", f.packets)
            }
            (true, false) => {
                let lost = i64::try_from(f.lost).unwrap_or(i64::MAX);
                writeln!(out, "{}  {tag}", losses(f.jitter_s, lost, f.packets))
            }
            (false, _) => match f.retransmits.filter(|_| group.sends) {
                None => writeln!(out, "                  {tag}"),
                Some(sent_again) if sum => writeln!(out, "  {sent_again:3}             {tag}"),
                Some(sent_again) => {
                    writeln!(out, "  {sent_again:3}   {}       {tag}", number::bytes(f.cwnd_bytes))
                }
            },
        };
    }

    /// What all rows begin with.
    #[expect(clippy::too_many_arguments, reason = "each is one column")]
    fn begin(
        &self,
        out: &mut String,
        start: &Start,
        group: Group,
        id: &str,
        (from, to): (f64, f64),
        bytes: u64,
        bits_per_second: f64,
    ) {
        let _ = write!(
            out,
            "[{id}]{} {from:6.2}-{to:<6.2} sec  {}  {}/sec",
            role(start, group),
            number::bytes(bytes),
            number::rate(bits_per_second, self.options.format)
        );
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
                self.summary(&mut out, start, *group, &format!("{:3}", f.socket), f);
            }
            if start.asked.parallel > 1 {
                self.summary(&mut out, start, *group, "SUM", &sum_finals(streams));
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
    fn summary(&self, out: &mut String, start: &Start, group: Group, id: &str, f: &Final) {
        let mine = |is_sender: bool| start.client || is_sender == group.sends;
        for (is_sender, half, name) in [(true, &f.sent, "sender"), (false, &f.received, "receiver")]
        {
            if !mine(is_sender) {
                if self.options.verbose && id != "SUM" {
                    let _ = writeln!(
                        out,
                        "[{id}]{} ({name} statistics not available)",
                        role(start, group)
                    );
                }
                continue;
            }
            if !is_sender && is_udp(start) && f.out_of_order > 0 {
                let _ = writeln!(
                    out,
                    "[SUM]{} {:4.1}-{:4.1} sec  {} datagrams received out-of-order",
                    role(start, group),
                    0.0,
                    half.seconds,
                    f.out_of_order
                );
            }
            self.half(out, start, group, id, f, half, is_sender);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each is one fact of a line")]
    fn half(
        &self,
        out: &mut String,
        start: &Start,
        group: Group,
        id: &str,
        f: &Final,
        half: &Half,
        is_sender: bool,
    ) {
        let span = (0.0, half.seconds);
        self.begin(out, start, group, id, span, half.bytes, half.bits_per_second());
        let name = if is_sender { "sender" } else { "receiver" };
        let _ = if is_udp(start) {
            if is_sender {
                writeln!(out, "  0.000 ms  0/{} (0%)  {name}", half.packets)
            } else if f.lost_unknown {
                writeln!(out, "  {:5.3} ms  Unknown/{}  {name}", f.jitter_s * 1e3, half.packets)
            } else {
                writeln!(out, "{}  {name}", losses(f.jitter_s, f.lost, half.packets))
            }
        } else {
            match half.retransmits.filter(|_| is_sender) {
                Some(again) => writeln!(out, "  {again:3}             {name}"),
                None => writeln!(out, "                  {name}"),
            }
        };
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

/// `[TX-C]` and the like, in tests of both directions.
fn role(start: &Start, group: Group) -> &'static str {
    match (is_bidir(start), group.sends, start.client) {
        (false, ..) => "",
        (_, true, true) => "[TX-C]",
        (_, false, true) => "[RX-C]",
        (_, true, false) => "[TX-S]",
        (_, false, false) => "[RX-S]",
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
