//! Events of tests to lines.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use linerate_model::plan::Transport;
use linerate_model::sample::Trips;
use linerate_model::test_event::{End, Rows, Side, Start, Stream, StreamEnd, TestEvent};

use super::line::{Line, What};
use super::{Options, When, csv, number};
use crate::number::general;

const LINE: &str = "------------------------------------------------------------\n";
const RECEIVED: &str =
    "[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams\n";

/// This end of a test, and its peer.
type Ends = (SocketAddr, SocketAddr);

/// What a client or a server prints.
#[derive(Debug)]
pub struct Text {
    options: Options,
    /// Streams get their numbers as they come.
    next: u32,
    /// The names of the columns are above the next line.
    headed: bool,
    /// By their two ends: where streams go back to one port of a client, the peer is the same.
    tests: BTreeMap<Ends, Test>,
}

#[derive(Debug)]
struct Test {
    start: Start,
    first: u32,
}

impl Test {
    fn streams(&self) -> impl Iterator<Item = (u32, &Stream)> {
        (self.first..).zip(&self.start.streams)
    }

    fn transport(&self) -> Transport {
        self.start.asked.transport
    }
}

impl Text {
    /// Of a program that has said nothing yet.
    pub fn new(options: Options) -> Self {
        Self { options, next: 1, headed: false, tests: BTreeMap::new() }
    }

    /// What a server says when it listens.
    pub fn listening(&self) -> String {
        let Options { csv, udp, port, enhanced, pid, settings, .. } = &self.options;
        if *csv {
            return String::new();
        }
        let protocol = if *udp { "UDP" } else { "TCP" };
        let pid = if *enhanced { format!(" with pid {pid}") } else { String::new() };
        let (asked, there) = self.options.window.unzip();
        let buffer = self.buffer(*udp, asked.unwrap_or(0), there);
        format!("{LINE}Server listening on {protocol} port {port}{pid}\n{settings}{buffer}{LINE}")
    }

    /// Lines for one event of the test between this end and this peer.
    pub fn event(
        &mut self,
        ends: (SocketAddr, SocketAddr),
        event: &TestEvent,
        when: &When,
    ) -> String {
        match event {
            TestEvent::Connected(_) => String::new(),
            TestEvent::Start(start) => {
                let count = u32::try_from(start.streams.len()).unwrap_or(u32::MAX);
                let test = Test { start: (**start).clone(), first: self.next };
                self.next = self.next.saturating_add(count);
                let text = if self.options.csv { String::new() } else { self.started(&test, when) };
                self.headed = false;
                self.tests.insert(ends, test);
                text
            }
            TestEvent::Rows(rows) => self.interval(ends, rows, when).unwrap_or_default(),
            TestEvent::End(end) => {
                let Some(test) = self.tests.remove(&ends) else { return String::new() };
                if self.options.csv { ended_csv(&test, end, when) } else { self.ended(&test, end) }
            }
        }
    }

    /// The line of what was `asked` for, 0 where nothing was, and is `there`.
    fn buffer(&self, udp: bool, asked: u64, there: Option<u64>) -> String {
        let name = if udp { "UDP buffer size:" } else { "TCP window size:" };
        match (asked, there, self.options.buffer_bytes) {
            (0, _, Some(bytes)) => format!("{name} {} (default)\n", number::buffer(bytes)),
            (0, _, None) | (_, None, _) => String::new(),
            (asked, Some(bytes), _) if asked == bytes => {
                format!("{name} {}\n", number::buffer(bytes))
            }
            (asked, Some(bytes), _) => {
                let (bytes, asked) = (number::buffer(bytes), number::buffer(asked));
                format!("{name} {bytes} (WARNING: requested {asked})\n")
            }
        }
    }

    fn started(&self, test: &Test, when: &When) -> String {
        let start = &test.start;
        let (udp, enhanced) = (test.transport() == Transport::Udp, self.options.enhanced);
        let mut text = String::new();
        if let Some(host) = &self.options.host {
            let protocol = if udp { "UDP" } else { "TCP" };
            let with = if enhanced {
                format!(" with pid {} ({} flows)", self.options.pid, start.streams.len())
            } else {
                String::new()
            };
            let port = self.options.port;
            text.push_str(&format!(
                "{LINE}Client connecting to {host}, {protocol} port {port}{with}\n"
            ));
            let (size, rate) = (start.asked.block_bytes, start.asked.rate_bps);
            if udp {
                let gap = f64::from(size) * 8e6 / rate.max(1) as f64;
                let gap = if rate > 0 { gap } else { 0.0 };
                text.push_str(&format!("Sending {size} byte datagrams, IPG target: {gap:.2} us\n"));
            } else if enhanced {
                text.push_str(&format!("Write buffer size: {size} Byte\n"));
            }
            if start.asked.mss_bytes > 0 {
                text.push_str(&format!(
                    "MSS req size {} bytes (per TCP_MAXSEG)\n",
                    start.asked.mss_bytes
                ));
            }
            text.push_str(&self.options.settings);
            let sends = start.streams.iter().any(|stream| stream.sends);
            let there = if sends { start.send_buffer } else { start.receive_buffer };
            text.push_str(&self.buffer(udp, start.asked.window_bytes.into(), there));
            text.push_str(LINE);
        }
        for (id, stream) in test.streams() {
            let Stream { local, remote, socket, .. } = stream;
            let reverse = if stream.sends == start.client { "" } else { " (reverse)" };
            // As there: what the other end is to see, or to send.
            let way = if stream.sends { "rx" } else { "tx" };
            let tos = match start.asked.tos {
                tos @ 1.. if start.client => format!(" (tos {way}=0x{tos:x})"),
                _ => String::new(),
            };
            let trips = if start.asked.trips { " (trip-times)" } else { "" };
            // Servers say more of such a test, whatever they were asked for.
            let enhanced = enhanced || start.asked.trips && !start.client;
            let more =
                if enhanced { format!(" (sock={socket}){tos} on {}", when.words) } else { tos };
            text.push_str(&format!(
                "[{id:3}] local {} port {} connected with {} port {}{reverse}{trips}{more}\n",
                local.ip(),
                local.port(),
                remote.ip(),
                remote.port()
            ));
        }
        text
    }

    fn interval(&mut self, ends: Ends, rows: &Rows, when: &When) -> Option<String> {
        let test = self.tests.get(&ends).filter(|_| self.options.intervals)?;
        let span = (rows.start_ns as f64 / 1e9, rows.end_ns as f64 / 1e9);
        let transport = test.transport();
        let lines = test
            .streams()
            .zip(&rows.streams)
            .map(|((id, stream), row)| (id, stream, Line::of_row(transport, span, row)));
        let lines: Vec<_> = lines.collect();
        if self.options.csv {
            let rows = lines.iter();
            let row = |(id, stream, line): &(u32, &Stream, Line)| {
                csv::row(&when.digits, *id, stream, line, line.what)
            };
            return Some(rows.map(row).collect());
        }
        let mut text = String::new();
        for (id, stream, line) in &lines {
            text.push_str(&self.columns_once(self.headed, line));
            text.push_str(&self.row(&name(&test.start, *id, stream), line));
            self.headed = true;
        }
        text.push_str(&self.sum(lines.iter().map(|(_, _, line)| line)));
        Some(text)
    }

    fn ended(&mut self, test: &Test, end: &End) -> String {
        let (mut text, mut reports, mut lines, mut all_sent) =
            (String::new(), String::new(), vec![], 0u64);
        for ((id, stream), ended) in test.streams().zip(&end.streams) {
            let line = whole(test, end, ended);
            let id = name(&test.start, id, stream);
            text.push_str(&self.columns_once(self.headed, &line));
            self.headed = true;
            text.push_str(&self.row(&id, &line));
            if let What::Sent { datagrams, .. } = line.what {
                // That which ends a stream is one more.
                let datagrams = datagrams.saturating_add(1);
                all_sent = all_sent.saturating_add(datagrams);
                text.push_str(&format!("[{id}] Sent {datagrams} datagrams\n"));
                // Delays, for which -e has columns, are in no report without --trip-times.
                let plain = Text::new(Options { enhanced: false, ..self.options.clone() });
                reports.push_str(&match &ended.far {
                    Some(far) => {
                        let line = Line::of_far(far);
                        let (row, columns) = (plain.row(&id, &line), plain.columns(&line));
                        let columns = if reports.contains(columns) { "" } else { columns };
                        format!("[{id}] Server Report:\n{columns}{row}")
                    }
                    None if test.start.client => {
                        format!("[{id}] WARNING: did not receive ack of last datagram\n")
                    }
                    None => String::new(),
                });
            }
            lines.push(line);
        }
        text.push_str(&self.sum(lines.iter()));
        if all_sent > 0 && lines.len() > 1 {
            text.push_str(&format!("[SUM-{}] Sent {all_sent} datagrams\n", lines.len()));
        }
        text + &reports
    }

    fn sum<'a>(&self, mut lines: impl Iterator<Item = &'a Line>) -> String {
        let (first, mut rest) = (lines.next(), lines.peekable());
        let Some(mut sum) = first.cloned().filter(|_| rest.peek().is_some()) else {
            return String::new();
        };
        rest.for_each(|line| sum.add(line));
        self.row("SUM", &sum)
    }

    fn columns_once(&self, there: bool, line: &Line) -> String {
        if there { String::new() } else { self.columns(line).to_owned() }
    }

    fn columns(&self, line: &Line) -> &'static str {
        match (self.options.enhanced || line.trips().is_some(), &line.what) {
            (true, What::Wrote { .. }) => {
                "[ ID] Interval            Transfer    Bandwidth       Write/Err  Rtry     Cwnd/RTT(var)        NetPwr\n"
            }
            (true, What::Read { trips: Some(_), .. }) => {
                "[ ID] Interval            Transfer    Bandwidth    Burst Latency avg/min/max/stdev (cnt/size) inP NetPwr  Reads=Dist\n"
            }
            (true, What::Read { .. }) => {
                "[ ID] Interval            Transfer    Bandwidth       Reads=Dist\n"
            }
            (true, What::Sent { .. }) => {
                "[ ID] Interval            Transfer     Bandwidth      Write/Err  PPS\n"
            }
            (true, What::Received { .. }) => {
                "[ ID] Interval            Transfer     Bandwidth        Jitter   Lost/Total  Latency avg/min/max/stdev PPS  Rx/inP  NetPwr\n"
            }
            (false, What::Received { .. }) => RECEIVED,
            _ => "[ ID] Interval       Transfer     Bandwidth\n",
        }
    }

    fn row(&self, id: &str, line: &Line) -> String {
        let Options { enhanced, format, .. } = self.options;
        let enhanced = enhanced || line.trips().is_some();
        let span = format!("{:.4}-{:.4} sec", line.from_s, line.to_s);
        let (bytes, rate) = (number::bytes(line.bytes, format), number::rate(line.bps(), format));
        let mut row = format!("[{id}] {span}  {bytes}  {rate}");
        match line.what {
            What::Received { jitter_s, lost, all, trips, .. } => {
                let share = general(number::percent(lost, all), 2);
                let jitter = jitter_s.map(|jitter| format!("{:6.3} ms ", jitter * 1e3));
                let jitter = jitter.unwrap_or_else(|| " ".into());
                row.push_str(&format!("  {jitter}{lost}/{all} ({share}%)"));
                if enhanced && id != "SUM" {
                    let came = all.saturating_sub(lost);
                    let pps = line.per_second(came);
                    row.push_str(&match trips {
                        Some(trips) => {
                            let waiting = |ns: f64| (pps * ns / 1e9) as u64;
                            let (on_way, more) =
                                (waiting(trips.mean_ns as f64), waiting(trips.deviation_ns as f64));
                            let (delays, power) =
                                (delays(&trips), power(line, trips.mean_ns as f64));
                            format!(
                                " {delays} ms {pps:.0} pps {came}/{on_way}({more}) pkts {power}"
                            )
                        }
                        // Whoever sends without --trip-times has another clock.
                        None => format!(" -/-/-/- ms {pps:.0} pps"),
                    });
                }
            }
            What::Sent { datagrams, refused } if enhanced => {
                let pps = line.per_second(datagrams);
                row.push_str(&format!("  {datagrams}/{refused}{pps:>9.0} pps"));
            }
            What::Wrote { calls, again, tcp } if enhanced => {
                let again = dashed(again);
                row.push_str(&match tcp {
                    Some(tcp) => {
                        let us = |ns: Option<u64>| dashed(ns.map(|ns| ns / 1_000));
                        let (rtt, var) = (us(tcp.rtt_ns), us(tcp.rtt_variation_ns));
                        let window = dashed(tcp.cwnd_bytes.map(|bytes| bytes / 1_024));
                        let power = power(line, tcp.rtt_ns.unwrap_or(0) as f64);
                        format!("  {calls}/0 {again:>10}{window:>9}K/{rtt}({var}) us  {power}")
                    }
                    None => format!("  {calls}/0{again:>10}"),
                });
            }
            What::Read { calls, trips: Some(trips) } => {
                let (delays, power) = (delays(&trips), power(line, trips.mean_ns as f64));
                let size = trips.bytes / trips.count.max(1);
                let on_way = number::buffer((line.bps() / 8.0 * trips.mean_ns as f64 / 1e9) as u64);
                let count = trips.count;
                row.push_str(&format!(
                    "  {delays} ms ({count}/{size}) {on_way} {power}  {calls}=-"
                ));
            }
            What::Read { calls, .. } if enhanced => row.push_str(&format!("  {calls}=-")),
            _ => {}
        }
        row.push('\n');
        if let What::Received { reordered: Some(count @ 1..), .. } = line.what {
            row.push_str(&format!("[{id}] {span}  {count} datagrams received out-of-order\n"));
        }
        row
    }
}

/// In milliseconds: mean, least, largest, and how far they are from the mean.
fn delays(trips: &Trips) -> String {
    let ms = |ns: i64| ns as f64 / 1e6;
    let [mean, least, most] = [trips.mean_ns, trips.least_ns, trips.most_ns].map(ms);
    format!("{mean:.3}/{least:.3}/{most:.3}/{:.3}", trips.deviation_ns as f64 / 1e6)
}

/// Throughput over delay, in megabytes a second by seconds.
fn power(line: &Line, delay_ns: f64) -> String {
    match line.bps() / 8.0 * 1e3 / delay_ns {
        _ if delay_ns <= 0.0 => "-".into(),
        power if power < 100.0 => format!("{power:.2}"),
        power => format!("{power:.0}"),
    }
}

fn dashed(number: Option<u64>) -> String {
    number.map_or_else(|| "-".into(), |number| number.to_string())
}

/// A client marks what it receives.
fn name(start: &Start, id: u32, stream: &Stream) -> String {
    let star = if start.client && !stream.sends { "*" } else { "" };
    format!("{:>3}", format!("{star}{id}"))
}

/// A stream over the whole test.
fn whole(test: &Test, end: &End, ended: &StreamEnd) -> Line {
    if let Some(told) = &ended.told {
        // The same as at the client, whose end is a datagram as well.
        return Line::of_far(told);
    }
    let to_s = match &ended.here {
        Side::Send(sent) => sent.span_ns,
        Side::Recv(recv) => recv
            .first_ns
            .zip(recv.last_ns)
            .map_or(end.span_ns, |(first, last)| last.saturating_sub(first)),
    } as f64
        / 1e9;
    Line::of_side(test.transport(), to_s, &ended.here)
}

fn ended_csv(test: &Test, end: &End, when: &When) -> String {
    let row = |((id, stream), ended): ((u32, &Stream), &StreamEnd)| {
        let line = whole(test, end, ended);
        let what = match (line.what, &ended.far) {
            (What::Sent { .. }, Some(far)) => Line::of_far(far).what,
            (What::Sent { .. }, None) => What::Unknown,
            (what, _) => what,
        };
        csv::row(&when.digits, id, stream, &line, what)
    };
    test.streams().zip(&end.streams).map(row).collect()
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::Direction;
    use linerate_model::sample::{RecvCounts, RecvReport, SendCounts, SendInterval, SendReport};
    use linerate_model::test_event::{Asked, Connected, FarStream, Row};

    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn start(client: bool, ports: &[u16]) -> TestEvent {
        let sends = client;
        let stream = |(id, port): (u32, &u16)| {
            let (local, remote) =
                if client { (at(*port), at(5_001)) } else { (at(5_001), at(*port)) };
            Stream { id, socket: 3, local, remote, sends }
        };
        TestEvent::Start(Box::new(Start {
            client,
            control: Connected { peer: at(5_001), local: at(4_000), mss: None, rtt_ns: None },
            cookie: String::new(),
            asked: Asked {
                transport: Transport::Udp,
                direction: Direction::Forward,
                parallel: 1,
                block_bytes: 1_470,
                rate_bps: 1 << 21,
                fq_rate_bps: 0,
                burst: 0,
                omit_s: 0,
                time_s: 1,
                bytes: 0,
                blocks: 0,
                tos: 0,
                window_bytes: 0,
                mss_bytes: 0,
                title: None,
                extra_data: None,
                trips: false,
            },
            streams: (1..).zip(ports).map(stream).collect(),
            send_buffer: None,
            receive_buffer: None,
        }))
    }

    fn sent() -> SendCounts {
        SendCounts { bytes: 14_700, datagrams: 10, calls: 1, ..SendCounts::default() }
    }

    fn end(far: &[Option<FarStream>]) -> TestEvent {
        let report = SendReport { counts: sent(), span_ns: 500_000_000, ..SendReport::default() };
        let here = Side::Send(Box::new(report));
        let streams = far.iter().map(|far| StreamEnd { here: here.clone(), far: *far, told: None });
        TestEvent::End(Box::new(End { streams: streams.collect(), ..End::default() }))
    }

    fn reported() -> FarStream {
        FarStream {
            bytes: 13_230,
            jitter_s: 0.000_004,
            errors: 2,
            packets: 11,
            reordered: Some(1),
            seconds: Some(0.5),
            ..FarStream::default()
        }
    }

    fn shown(options: Options, events: &[TestEvent]) -> String {
        let mut text = Text::new(options);
        let words = "2026-11-23 18:51:44 (UTC)".into();
        let when = When { digits: "20261123185144".into(), words };
        events.iter().map(|event| text.event((at(8), at(9)), event, &when)).collect()
    }

    fn client() -> Options {
        Options { host: Some("h".into()), port: 5_001, intervals: true, ..Options::default() }
    }

    #[test]
    fn a_client_shows_each_stream_their_sum_and_what_servers_report() {
        let row = Row::Send(SendInterval { counts: sent(), ..SendInterval::default() });
        let streams = vec![row; 2];
        let rows = Rows { start_ns: 0, end_ns: 500_000_000, omitted: false, streams };
        let events =
            [start(true, &[4_001, 4_002]), TestEvent::Rows(rows), end(&[Some(reported()), None])];
        insta::assert_snapshot!(shown(client(), &events));
        let csv = shown(Options { csv: true, ..client() }, &events[1..]);
        assert_eq!(csv, "", "no stream is known");
        insta::assert_snapshot!(shown(Options { csv: true, ..client() }, &events));
    }

    #[test]
    fn a_server_says_what_it_tells_its_clients_and_numbers_its_streams() {
        let counts = RecvCounts {
            bytes: 13_230,
            datagrams: 9,
            expected: 10,
            lost: 1,
            reordered: 1,
            duplicates: 1,
            ..RecvCounts::default()
        };
        let (first_ns, last_ns) = (Some(1_000_000_000), Some(1_500_000_000));
        let report = RecvReport { counts, first_ns, last_ns, ..RecvReport::default() };
        let here = Side::Recv(Box::new(report));
        // Until the datagram that ends it, which is one of them; of a client that vanished there is none.
        let told = FarStream { bytes: 14_700, seconds: Some(0.75), errors: 1, ..reported() };
        let [heard, vanished] = [Some(told), None].map(|told| {
            let streams = vec![StreamEnd { here: here.clone(), far: None, told }];
            TestEvent::End(Box::new(End { streams, ..End::default() }))
        });
        let events = [start(false, &[4_001]), heard, start(false, &[4_002]), vanished];
        let options = Options { port: 5_001, udp: true, enhanced: true, ..Options::default() };
        let text = shown(options.clone(), &events);
        insta::assert_snapshot!(Text::new(options).listening() + &text);
    }

    /// As with `-d -P 2`, where both go back to the port of its `-L`.
    #[test]
    fn streams_back_to_one_port_keep_their_own_lines() {
        let counts = |bytes| SendCounts { bytes, ..SendCounts::default() };
        let start = |port| {
            let TestEvent::Start(mut start) = start(false, &[5_002]) else { panic!("a start") };
            start.asked.transport = Transport::Tcp;
            let stream = &mut start.streams[0];
            (stream.local, stream.sends) = (at(port), true);
            TestEvent::Start(start)
        };
        let end = |bytes| {
            let counts = counts(bytes);
            let report = SendReport { counts, span_ns: 500_000_000, ..SendReport::default() };
            let here = Side::Send(Box::new(report));
            let streams = vec![StreamEnd { here, far: None, told: None }];
            TestEvent::End(Box::new(End { streams, ..End::default() }))
        };
        let rows = |bytes| {
            let row = Row::Send(SendInterval { counts: counts(bytes), ..SendInterval::default() });
            let streams = vec![row];
            TestEvent::Rows(Rows { start_ns: 0, end_ns: 500_000_000, omitted: false, streams })
        };
        let mut text = Text::new(Options { csv: true, intervals: true, ..Options::default() });
        let mut lines = String::new();
        for (port, event) in [
            (4_001, start(4_001)),
            (4_002, start(4_002)),
            (4_001, rows(1_000)),
            (4_002, rows(2_000)),
            (4_002, end(2_000)),
            (4_001, end(1_000)),
        ] {
            lines += &text.event((at(port), at(5_002)), &event, &When::default());
        }
        let fields = |line: &str| {
            let fields: Vec<_> = line.split(',').collect();
            [fields[2], fields[5], fields[7]].join(" ")
        };
        let said: Vec<_> = lines.lines().map(fields).collect();
        assert_eq!(said, ["4001 1 1000", "4002 2 2000", "4002 2 2000", "4001 1 1000"]);
    }

    #[test]
    fn delays_have_their_columns_whatever_was_asked_for() {
        let trips = Some(Trips {
            count: 9,
            bytes: 13_230,
            mean_ns: 27_400,
            least_ns: -3_000,
            most_ns: 85_000,
            deviation_ns: 13_000,
        });
        let TestEvent::Start(mut begins) = start(false, &[4_001]) else { panic!("a start") };
        begins.asked.trips = true;
        let counts =
            RecvCounts { bytes: 13_230, datagrams: 9, expected: 9, ..RecvCounts::default() };
        let (first_ns, last_ns) = (Some(0), Some(500_000_000));
        let report = RecvReport { counts, first_ns, last_ns, trips, ..RecvReport::default() };
        let here = Side::Recv(Box::new(report));
        let told =
            FarStream { bytes: 14_700, packets: 10, errors: 0, reordered: None, ..reported() };
        let told = Some(FarStream { trips, ..told });
        let streams = vec![StreamEnd { here, far: None, told }];
        let ended = TestEvent::End(Box::new(End { streams, ..End::default() }));
        let server = Options { port: 5_001, udp: true, ..Options::default() };
        let udp = [TestEvent::Start(begins.clone()), ended.clone()];
        begins.asked.transport = Transport::Tcp;
        let TestEvent::End(mut over) = ended else { panic!("an end") };
        over.streams[0].told = None;
        let tcp = [TestEvent::Start(begins), TestEvent::End(over)];
        let far = FarStream { trips, ..reported() };
        let client = shown(client(), &[start(true, &[4_001]), end(&[Some(far)])]);
        insta::assert_snapshot!(shown(server.clone(), &udp) + &shown(server, &tcp) + &client);
    }
}
