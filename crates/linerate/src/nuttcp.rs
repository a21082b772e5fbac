//! `linerate nuttcp`, and linerate under the name `nuttcp`: nuttcp's command line and output. The client runs
//! linerate's test against any server of nuttcp's; the server is linerate's.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{Write, stderr};
use std::process::ExitCode;

use linerate_ask::nuttcp::{HELP, Line, Role, Server, Stop, parse};
use linerate_model::plan::{Dialect, End, TestPlan, Traffic};
use linerate_model::record::Interval;
use linerate_model::sample::{ReportedTcp, TcpSample};
use linerate_model::test_event::{self as event, Row, ServerOutput, Side, Start, TestEvent};
use linerate_report::clean::clean;
use linerate_report::nuttcp::{
    Carried, Head, Options, Totals, head, interval, server as far_end, summary, totals,
};
use linerate_runner::client::Request;
use linerate_runner::server::{self, Event};
use linerate_runner::signals;
use linerate_session::observer::Observer;
use linerate_wire::nuttcp::heard;

use crate::face::{self, outcome, said, write};

/// Runs the command; `args` are what follows its name.
pub fn run(args: Vec<OsString>) -> ExitCode {
    let words = face::words(args);
    let line = match parse(&words) {
        Ok(line) => line,
        Err(Stop::Help) => return said(HELP),
        Err(Stop::Version) => {
            return said(&format!("nuttcp-8.2.2 (linerate {})\n", env!("CARGO_PKG_VERSION")));
        }
        Err(Stop::Usage(text)) => {
            return fail(&format!("nuttcp: {}\n{HELP}", clean(&text)));
        }
        Err(Stop::Wrong(text)) => return fail(&format!("nuttcp: {}\n", clean(&text))),
    };
    for note in &line.notes {
        let _ = writeln!(stderr(), "{}", clean(note));
    }
    let (end, done) = match &line.role {
        Role::Client(request) => {
            let end = if request.plan.direction.has_forward() { "nuttcp-t" } else { "nuttcp-r" };
            (end, run_client(&line, request, words))
        }
        Role::Server(server) => ("nuttcp", serve(server)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => fail(&format!("{end}: v8.2.2: Error: {}\n", clean(&text))),
    }
}

fn fail(text: &str) -> ExitCode {
    let _ = stderr().write_all(text.as_bytes());
    ExitCode::FAILURE
}

/// A test's text on standard output.
struct Face<'a> {
    request: &'a Request,
    options: Options,
    stop: signals::Stop,
    /// The record is shown instead.
    json: bool,
    rtt_ns: Option<u64>,
    /// Of the intervals that were shown.
    total: Carried,
    /// What a server that sends over TCP said of its connection, by interval.
    reported: VecDeque<Option<ReportedTcp>>,
}

impl Face<'_> {
    fn print(&self, text: &str) {
        if !self.json && write(text).is_err() {
            // Without a reader the test has no purpose.
            self.stop.now();
        }
    }

    fn plan(&self) -> &TestPlan {
        &self.request.plan
    }

    fn begin(&mut self, start: &Start) {
        if self.options.sends {
            self.rtt_ns = start.control.rtt_ns;
        }
        if self.options.verbosity == 0 {
            return;
        }
        let (plan, nuttcp) = (self.plan(), &self.request.nuttcp);
        let asked = &start.asked;
        let (rate, nodelay) = match &plan.traffic {
            Traffic::Udp(udp) => (udp.rate.map(|rate| rate.bits_per_second(udp.size)), false),
            Traffic::Tcp(tcp) => (tcp.rate.map(|rate| rate.bits_per_second()), tcp.nodelay),
            Traffic::Rr(_) => (None, false),
        };
        let count = match plan.end {
            End::Datagrams(count) => Some(count),
            End::Bytes(bytes) => bytes.checked_div(asked.block_bytes.into()),
            End::Time(_) => None,
        };
        let time_ns = plan.duration().map(|time| time.0).or(nuttcp.at_most_ns);
        let first = start.streams.first();
        let port = first.map(|s| if s.sends { s.remote.port() } else { s.local.port() });
        let of_this_end = Head {
            udp: matches!(plan.traffic, Traffic::Udp(_)),
            length: asked.block_bytes,
            count,
            streams: plan.streams,
            port: port.unwrap_or(0),
            peer: start.control.peer.ip().to_canonical(),
            tos: asked.tos,
            nodelay,
            seconds: time_ns.map(|ns| ns as f64 / 1e9),
            rate: rate.map(|bps| (bps, nuttcp.instantaneous)),
            burst: nuttcp.burst,
            interval_s: self.options.intervals.then_some(plan.interval.0 as f64 / 1e9),
            mss: start.control.mss,
            rtt_ns: start.control.rtt_ns,
            buffers: start.send_buffer.zip(start.receive_buffer),
        };
        self.print(&head(&self.options, &of_this_end));
    }

    fn over(&self, end: &event::End) {
        let text = match &end.server_output {
            Some(ServerOutput::Text(text)) => text.as_str(),
            _ => "",
        };
        let lines: Vec<&str> = text.lines().collect();
        let far = Far::of(&lines);
        let near = near(end);
        // Without the server's figures there is no result: what is unknown is not 0.
        let Some(span) = far.totals else { return };
        let sends = self.options.sends;
        let (bytes, seconds) = (near.carried.bytes, near.carried.seconds);
        let reported = (span.bytes, span.ns as f64 / 1e9);
        let (bytes, seconds) = if sends { reported } else { (bytes, seconds) };
        let loss = lost(end, sends);
        let udp = loss.is_some();
        let carried = Carried {
            bytes,
            seconds,
            loss,
            retransmits: if sends { near.carried.retransmits } else { far.retransmits },
            cwnd_bytes: if sends { near.carried.cwnd_bytes } else { far.cwnd_bytes },
            sent: Some(if sends { near.carried.bytes } else { span.bytes }).filter(|_| udp),
        };
        if self.options.verbosity > 0 {
            let near = Totals { carried: Carried { loss, ..near.carried }, ..near };
            let far = far_end(&self.options, &lines, loss);
            return self.print(&format!("{}\n{far}", totals(&self.options, &near)));
        }
        if self.options.intervals {
            self.print("\n");
        }
        let here = Some(end.cpu.total.round() as u32);
        let cpu = if sends { (here, far.cpu) } else { (far.cpu, here) };
        let rtt_ns = self.rtt_ns.or(far.rtt_ns).filter(|_| !udp);
        self.print(&summary(&self.options, &carried, cpu, rtt_ns));
    }
}

impl Observer for Face<'_> {
    fn event(&mut self, event: &TestEvent) {
        match event {
            TestEvent::Start(start) => self.begin(start),
            TestEvent::End(end) => self.over(end),
            TestEvent::Rows(rows) => {
                let reported = |row: &Row| match row {
                    Row::Recv(row) => row.reported,
                    Row::Send(_) => None,
                };
                self.reported.push_back(rows.streams.iter().find_map(reported));
            }
            _ => {}
        }
    }

    fn interval(&mut self, row: &Interval) {
        let seconds = row.end_s - row.start_s;
        let reported = self.reported.pop_front().flatten();
        // The last one may be short, and is not shown there.
        if !self.options.intervals || seconds < self.plan().interval.0 as f64 / 1e9 * 0.99 {
            return;
        }
        let (sender, receiver) = (row.figures.sender.as_ref(), row.figures.receiver.as_ref());
        // Only what came is shown.
        let Some(receiver) = receiver else { return };
        let loss = receiver.lost.zip(receiver.datagrams);
        let loss = loss.map(|(lost, came)| (lost, lost.saturating_add(came)));
        let size = match &self.plan().traffic {
            Traffic::Udp(udp) => Some(u64::from(udp.size.bytes())),
            _ => None,
        };
        let tcp = sender.and_then(|sender| sender.tcp.as_ref());
        let row = Carried {
            bytes: receiver.bytes,
            seconds,
            loss,
            retransmits: tcp.map_or(reported.map(|one| one.retransmits), |tcp| tcp.retransmits),
            cwnd_bytes: tcp.map_or(reported.and_then(|one| one.cwnd_bytes), |tcp| tcp.cwnd_bytes),
            // As there, what the receiver knows of.
            sent: size.zip(loss).map(|(size, (_, all))| all.saturating_mul(size)),
        };
        let add = |one: Option<u64>, more: Option<u64>| {
            more.map(|more| one.unwrap_or(0).saturating_add(more))
        };
        let (lost, all) = (self.total.loss.map(|(l, _)| l), self.total.loss.map(|(_, a)| a));
        self.total = Carried {
            bytes: self.total.bytes.saturating_add(row.bytes),
            seconds: self.total.seconds + seconds,
            loss: add(lost, row.loss.map(|(l, _)| l)).zip(add(all, row.loss.map(|(_, a)| a))),
            sent: add(self.total.sent, row.sent),
            // Of this end's own connection there is a total at the end alone.
            retransmits: add(self.total.retransmits, reported.map(|one| one.retransmits)),
            cwnd_bytes: reported.and_then(|one| one.cwnd_bytes),
        };
        self.print(&interval(&self.options, &row, &self.total));
    }

    fn note(&mut self, text: &str) {
        let _ = writeln!(stderr(), "{}", clean(text));
    }
}

/// What the server's lines say.
#[derive(Default)]
struct Far {
    totals: Option<linerate_wire::nuttcp::results::Span>,
    cpu: Option<u32>,
    retransmits: Option<u64>,
    cwnd_bytes: Option<u64>,
    rtt_ns: Option<u64>,
}

impl Far {
    fn of(lines: &[&str]) -> Self {
        let mut far = Self::default();
        for line in lines {
            match heard::line(line) {
                heard::Line::Totals(span) => _ = far.totals.get_or_insert(span),
                heard::Line::Cpu(percent) => far.cpu = Some(percent),
                heard::Line::Retransmits(again) => {
                    far.retransmits = Some(again);
                    let kb = after(line, &["cwnd = ", "cwnd="]).and_then(|kb| kb.parse().ok());
                    far.cwnd_bytes = kb.map(|kb: u32| u64::from(kb) * 1_024);
                }
                _ => {
                    let ms = after(line, &["RTT=", "rtt_ms="]).and_then(|ms| ms.parse().ok());
                    let ns = ms.map(|ms: f64| (ms * 1e6) as u64);
                    far.rtt_ns = far.rtt_ns.or(ns);
                }
            }
        }
        far
    }
}

/// The word behind one of these.
fn after<'a>(line: &'a str, names: &[&str]) -> Option<&'a str> {
    let (_, rest) = names.iter().find_map(|name| line.split_once(name))?;
    rest.split_whitespace().next()
}

/// What this end measured, of all streams together.
fn near(end: &event::End) -> Totals {
    let mut near = Totals {
        busy_percent: end.cpu.total,
        cpu_percent: (end.cpu.user, end.cpu.system),
        ..Totals::default()
    };
    let all = &mut near.carried;
    all.seconds = end.span_ns as f64 / 1e9;
    let mut tcp: Vec<TcpSample> = Vec::new();
    // A byte stream has no datagrams.
    let of = |bytes: u64, datagrams: u64, calls: u64| {
        (bytes, if datagrams > 0 { datagrams } else { calls })
    };
    for stream in &end.streams {
        let (bytes, calls) = match &stream.here {
            Side::Send(sent) => {
                tcp.extend(sent.tcp);
                of(sent.counts.bytes, sent.counts.datagrams, sent.counts.calls)
            }
            Side::Recv(got) => of(got.counts.bytes, got.counts.datagrams, got.counts.calls),
        };
        all.bytes = all.bytes.saturating_add(bytes);
        near.calls = near.calls.saturating_add(calls);
    }
    let sum = |of: fn(&TcpSample) -> Option<u64>| {
        tcp.iter().filter_map(of).reduce(|one, more| one.saturating_add(more))
    };
    all.retransmits = sum(|tcp| tcp.retransmits);
    all.cwnd_bytes = sum(|tcp| tcp.cwnd_bytes);
    near
}

/// Datagrams that were lost, of so many sent.
fn lost(end: &event::End, sends: bool) -> Option<(u64, u64)> {
    let (mut sent, mut came) = (0u64, 0u64);
    for stream in &end.streams {
        let far = stream.far?.packets;
        let (near, is_udp) = match &stream.here {
            Side::Send(send) => (send.counts.datagrams, send.counts.datagrams > 0),
            Side::Recv(recv) => (recv.counts.datagrams, recv.counts.datagrams > 0 || far > 0),
        };
        if !is_udp {
            return None;
        }
        let (all, some) = if sends { (near, far) } else { (far, near) };
        (sent, came) = (sent.saturating_add(all), came.saturating_add(some));
    }
    (!end.streams.is_empty()).then_some((sent.saturating_sub(came), sent))
}

fn run_client(line: &Line, request: &Request, words: Vec<String>) -> Result<(), String> {
    let mut request = request.clone();
    request.command = std::iter::once("nuttcp".to_owned()).chain(words).collect();
    let stop = signals::Stop::at_signals().map_err(|e| e.to_string())?;
    let options = Options {
        format: line.format,
        name: line.name.clone().map(|name| clean(&name).into_owned()),
        verbosity: line.verbosity,
        sends: request.plan.direction.has_forward(),
        intervals: line.intervals,
    };
    let mut shown = Face {
        request: &request,
        options,
        stop: stop.clone(),
        json: line.json,
        rtt_ns: None,
        total: Carried::default(),
        reported: VecDeque::new(),
    };
    let record = linerate_runner::run(&request, &mut shown, &stop);
    if line.json {
        face::document(&record)?;
    }
    outcome(&record)
}

fn serve(asked: &Server) -> Result<(), String> {
    if asked.daemon {
        face::is_free(asked.bind, asked.port)
            .map_err(|e| format!("bind to port {}: {e}", asked.port))?;
        face::to_background()?;
    }
    let at = (asked.bind, asked.port);
    let mut wanted = server::Options::of_program(Dialect::Nuttcp, at, asked.one_at_a_time);
    wanted.one_off = asked.one_off;
    let stop = signals::Stop::at_signals().map_err(|e| e.to_string())?;
    let served = server::serve(
        &wanted,
        || Ok(stop),
        |_, event| {
            if let Event::Refused { peer, why, .. } = event {
                let _ = writeln!(stderr(), "nuttcp: {}: {}", peer.ip(), clean(&why));
            }
        },
    );
    served.map_err(|error| format!("{}: {}", error.what, error.why))
}

#[cfg(test)]
mod tests {
    use linerate_model::sample::{RecvCounts, RecvReport, SendCounts, SendReport};

    use super::*;

    #[test]
    fn each_datagram_is_a_call_as_in_the_servers_lines() {
        let calls = |here: Side| {
            let stream = event::StreamEnd { here, far: None, told: None };
            near(&event::End { streams: vec![stream.clone(), stream], ..Default::default() }).calls
        };
        let counts = SendCounts { datagrams: 1_000, calls: 20, ..SendCounts::default() };
        let sent = SendReport { counts, ..SendReport::default() };
        assert_eq!(calls(Side::Send(Box::new(sent))), 2_000);
        let counts = RecvCounts { datagrams: 900, calls: 1_030, ..RecvCounts::default() };
        let received = RecvReport { counts, ..RecvReport::default() };
        assert_eq!(calls(Side::Recv(Box::new(received))), 1_800);
        // Over TCP each write is one.
        let counts = SendCounts { bytes: 1 << 20, calls: 16, ..SendCounts::default() };
        let sent = SendReport { counts, ..SendReport::default() };
        assert_eq!(calls(Side::Send(Box::new(sent))), 32);
    }
}
