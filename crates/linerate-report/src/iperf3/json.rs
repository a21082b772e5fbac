//! iperf3's JSON document, and the lines of `--json-stream`.

mod end;

use linerate_model::plan::Direction;
use linerate_model::test_event::{Rows, ServerOutput, Start, TestEvent};

use super::node::Node;
use super::{Figures, Group, Options, groups, is_bidir, is_udp, of_group, rate};

/// Collects a test's document.
#[derive(Debug)]
pub struct Document {
    options: Options,
    start: Option<Start>,
    head: Option<Node>,
    intervals: Vec<Node>,
    end: Node,
    output: Option<(&'static str, Node)>,
    error: Option<String>,
}

impl Document {
    /// For one test.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            start: None,
            head: None,
            intervals: Vec::new(),
            end: Node::Map(vec![]),
            output: None,
            error: None,
        }
    }

    /// Takes in one event; returns the line of `--json-stream` for it. `time` is now: RFC 1123
    /// and seconds since 1970. `linerate` is what only linerate knows, for the end.
    pub fn event(
        &mut self,
        event: &TestEvent,
        time: (&str, i64),
        linerate: Option<serde_json::Value>,
    ) -> Option<String> {
        match event {
            TestEvent::Connected(_) => None,
            TestEvent::Start(start) => {
                let head = self.started(start, time);
                self.start = Some((**start).clone());
                self.head = Some(head.clone());
                Some(line("start", head))
            }
            TestEvent::Rows(rows) => {
                let interval = interval(self.start.as_ref()?, rows);
                self.intervals.push(interval.clone());
                Some(line("interval", interval))
            }
            TestEvent::End(end) => {
                let start = self.start.as_ref()?;
                self.end = end::ended(start, end, linerate);
                self.output = end.server_output.as_ref().map(|output| match output {
                    ServerOutput::Text(text) => ("server_output_text", Node::text(text.as_str())),
                    ServerOutput::Json(text) => (
                        "server_output_json",
                        serde_json::from_str(text).map_or(Node::Null, Node::Value),
                    ),
                });
                None
            }
        }
    }

    /// Why the test failed, in iperf3's words.
    pub fn fail(&mut self, error: &str) {
        self.error = Some(error.to_owned());
    }

    /// The last lines of `--json-stream`.
    pub fn last_lines(&self) -> String {
        let mut out = String::new();
        if let Some(error) = &self.error {
            out.push_str(&line("error", Node::text(error.as_str())));
        }
        if let Some((name, node)) = &self.output {
            out.push_str(&line(name, node.clone()));
        }
        out.push_str(&line("end", self.end.clone()));
        out
    }

    /// The whole document and the end of its last line.
    pub fn whole(&self) -> String {
        let head = self.head.clone().unwrap_or_else(|| {
            Node::Map(vec![
                ("connected", Node::List(vec![])),
                ("version", Node::text(self.options.version.as_str())),
                ("system_info", Node::text(self.options.system.as_str())),
            ])
        });
        let mut members = vec![
            ("start", head),
            ("intervals", Node::List(self.intervals.clone())),
            ("end", self.end.clone()),
        ];
        let asked = self.start.as_ref().map(|start| &start.asked);
        for (name, text) in [
            ("title", asked.and_then(|asked| asked.title.as_ref())),
            ("extra_data", asked.and_then(|asked| asked.extra_data.as_ref())),
        ] {
            members.extend(text.map(|text| (name, Node::text(text.as_str()))));
        }
        members.extend(self.output.clone());
        members.extend(self.error.as_deref().map(|error| ("error", Node::text(error))));
        format!("{}\n", Node::Map(members).pretty())
    }

    fn started(&self, start: &Start, (time, seconds): (&str, i64)) -> Node {
        let connected = start.streams.iter().map(|s| {
            Node::Map(vec![
                ("socket", Node::Int(s.socket.into())),
                ("local_host", Node::text(s.local.ip().to_string())),
                ("local_port", Node::Int(s.local.port().into())),
                ("remote_host", Node::text(s.remote.ip().to_string())),
                ("remote_port", Node::Int(s.remote.port().into())),
            ])
        });
        let asked = &start.asked;
        let control = &start.control;
        let mut members = vec![
            ("connected", Node::List(connected.collect())),
            ("version", Node::text(self.options.version.as_str())),
            ("system_info", Node::text(self.options.system.as_str())),
            (
                "timestamp",
                Node::Map(vec![("time", Node::text(time)), ("timesecs", Node::Int(seconds))]),
            ),
        ];
        members.push(if start.client {
            let host = Node::text(self.options.host.as_str());
            let port = Node::Int(self.options.port.into());
            ("connecting_to", Node::Map(vec![("host", host), ("port", port)]))
        } else {
            let host = Node::text(control.peer.ip().to_string());
            let port = Node::Int(control.peer.port().into());
            ("accepted_connection", Node::Map(vec![("host", host), ("port", port)]))
        });
        members.push(("cookie", Node::text(start.cookie.as_str())));
        if !is_udp(start) {
            members.push(match asked.mss_bytes {
                0 => {
                    let mss = control.mss.filter(|_| start.client).unwrap_or(0);
                    ("tcp_mss_default", Node::Int(mss.into()))
                }
                mss => ("tcp_mss", Node::Int(mss.into())),
            });
        }
        members.extend([
            ("target_bitrate", Node::int(asked.rate_bps)),
            ("fq_rate", Node::int(asked.fq_rate_bps)),
            ("sock_bufsize", Node::Int(asked.window_bytes.into())),
            ("sndbuf_actual", Node::int(start.send_buffer.unwrap_or(0))),
            ("rcvbuf_actual", Node::int(start.receive_buffer.unwrap_or(0))),
            (
                "test_start",
                Node::Map(vec![
                    ("protocol", Node::text(if is_udp(start) { "UDP" } else { "TCP" })),
                    ("num_streams", Node::Int(asked.parallel.into())),
                    ("blksize", Node::Int(asked.block_bytes.into())),
                    ("omit", Node::Int(asked.omit_s.into())),
                    ("duration", Node::Int(asked.time_s.into())),
                    ("bytes", Node::int(asked.bytes)),
                    ("blocks", Node::int(asked.blocks)),
                    ("reverse", Node::Int((asked.direction == Direction::Reverse).into())),
                    ("tos", Node::Int(asked.tos.into())),
                    ("target_bitrate", Node::int(asked.rate_bps)),
                    ("bidir", Node::Int(is_bidir(start).into())),
                    ("fqrate", Node::int(asked.fq_rate_bps)),
                ]),
            ),
        ]);
        Node::Map(members)
    }
}

fn line(name: &'static str, data: Node) -> String {
    let line = Node::Map(vec![("event", Node::text(name)), ("data", data)]);
    format!("{}\n", line.compact())
}

fn interval(start: &Start, rows: &Rows) -> Node {
    let mut streams = Vec::new();
    let mut sums = Vec::new();
    for group in groups(start) {
        let figures = of_group(start, rows, group);
        for (socket, figures) in &figures {
            streams.push(row(start, rows, group, Some(*socket), figures));
        }
        let all: Vec<Figures> = figures.into_iter().map(|(_, figures)| figures).collect();
        // A test of one direction has one sum, whichever that is.
        let name = if is_bidir(start) && group.reverse { "sum_bidir_reverse" } else { "sum" };
        sums.push((name, row(start, rows, group, None, &Figures::sum(&all))));
    }
    let mut members = vec![("streams", Node::List(streams))];
    members.extend(sums);
    Node::Map(members)
}

/// A stream's interval, or without a socket the sum's.
fn row(start: &Start, rows: &Rows, group: Group, socket: Option<i32>, f: &Figures) -> Node {
    let seconds = rows.end_ns.saturating_sub(rows.start_ns) as f64 / 1e9;
    let mut members = Vec::new();
    members.extend(socket.map(|socket| ("socket", Node::Int(socket.into()))));
    members.extend([
        ("start", Node::Real(rows.start_ns as f64 / 1e9)),
        ("end", Node::Real(rows.end_ns as f64 / 1e9)),
        ("seconds", Node::Real(seconds)),
        ("bytes", Node::int(f.bytes)),
        ("bits_per_second", Node::Real(rate(f.bytes, seconds))),
    ]);
    if is_udp(start) {
        if group.sends {
            members.push(("packets", Node::int(f.packets)));
        } else {
            let lost = i64::try_from(f.lost).unwrap_or(i64::MAX);
            members.extend(end::datagrams(f.jitter_s, lost, f.packets));
        }
    } else if let Some(again) = f.retransmits.filter(|_| group.sends) {
        members.push(("retransmits", Node::int(again)));
        if socket.is_some() {
            members.extend([
                ("snd_cwnd", Node::int(f.cwnd_bytes)),
                // The kernel's figure is not asked for; iperf3 says -1 where it is unknown.
                ("snd_wnd", Node::Int(-1)),
                ("rtt", Node::int(f.rtt_us)),
                ("rttvar", Node::int(f.rtt_variation_us)),
                ("pmtu", Node::int(f.pmtu_bytes)),
            ]);
        }
    }
    members.extend([("omitted", Node::Bool(rows.omitted)), ("sender", Node::Bool(group.sends))]);
    Node::Map(members)
}
