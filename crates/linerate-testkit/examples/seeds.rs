//! Writes one input of each shape into `fuzz/corpus/`, for the fuzz targets to begin with:
//! `cargo run -p linerate-testkit --example seeds`. Names begin with `seed-`; what fuzzing finds is
//! kept beside them.

use std::num::NonZeroU8;
use std::path::Path;

use linerate_fleet::message::{Answer, Came, Order, Outcome, Prepare, Role};
use linerate_model::host::{CoreUse, HostFacts};
use linerate_model::plan::{
    AgreedPlan, Direction, End, EngineChoice, RrPlan, TcpPlan, TestPlan, Traffic, Transport,
    UdpPlan, Way,
};
use linerate_model::sample::{
    DelayQuantiles, HostCounters, HostSample, LossRunCounts, RecvCounts, RecvInterval, RecvReport,
    SendCounts, SendInterval, SendReport, TcpSample, ThreadUse,
};
use linerate_model::units::{BitRate, DatagramSize, Nanos, Rate};
use linerate_testkit::plans::remote;
use linerate_testkit::records;
use linerate_wire::native::datagram::{HEADER_BYTES, Header, Place};
use linerate_wire::native::frame;
use linerate_wire::native::message::*;
use linerate_wire::native::stream::{Claim, TcpOpening, UdpHello, UdpHelloAck};
use serde::Serialize;

fn keep(target: &str, name: &str, bytes: &[u8]) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    std::fs::create_dir_all(&dir).expect("the corpus' directory");
    std::fs::write(dir.join(format!("seed-{name}")), bytes).expect("a file in it");
}

fn body<T: Serialize>(message: &T) -> Vec<u8> {
    frame::encode(message).expect("a message").split_off(frame::PREFIX_BYTES)
}

fn plan(traffic: Traffic, direction: Direction, end: End) -> TestPlan {
    TestPlan {
        traffic,
        direction,
        streams: 2,
        end,
        warmup: Nanos::from_secs(1),
        interval: Nanos::from_secs(1),
        window: Some(1 << 20),
        client_cpus: vec![0, 1],
        server_cpus: vec![2],
        dscp: Some(46),
    }
}

fn plans() -> Vec<(&'static str, TestPlan)> {
    let udp = UdpPlan {
        size: DatagramSize::new(1_472).expect("legal"),
        rate: BitRate::new(100_000_000).map(Rate::Bits),
        burst: Nanos(100_000),
        engine: EngineChoice::Auto,
        checksum: true,
    };
    let tcp = TcpPlan {
        block: 131_072,
        mss: Some(1_400),
        congestion: Some("cubic".into()),
        nodelay: true,
        rate: None,
        discard: true,
        zerocopy: false,
    };
    let rr = RrPlan {
        transport: Transport::Udp,
        request: 1,
        response: 64,
        outstanding: 8,
        rate: Some(1_000),
    };
    vec![
        ("udp", plan(Traffic::Udp(udp), Direction::Forward, End::Time(Nanos::from_secs(10)))),
        ("tcp", plan(Traffic::Tcp(tcp), Direction::Both, End::Bytes(1 << 30))),
        ("rr", plan(Traffic::Rr(rr), Direction::Reverse, End::Datagrams(1_000))),
    ]
}

fn ends() -> Ends {
    Ends { client: ([192, 0, 2, 1], 40_000).into(), server: ([192, 0, 2, 2], 5_201).into() }
}

fn client_messages() -> Vec<(String, ClientMessage)> {
    let mut all = vec![
        (
            "hello".to_owned(),
            ClientMessage::Hello(Hello {
                version_min: 1,
                version_max: 1,
                features: vec!["clock-exchange".into()],
                nonce: "0f".repeat(32),
                key: Some("0f".repeat(8)),
                program: "linerate 0.1.0".into(),
            }),
        ),
        ("ping".to_owned(), ClientMessage::Ping(Ping { client_ns: 123_456_789 })),
        ("start".to_owned(), ClientMessage::Start),
        (
            "sent".to_owned(),
            ClientMessage::Sent(vec![StreamSent {
                stream: 0,
                datagrams: 10,
                bytes: 14_720,
                span_ns: 1_000_000_000,
            }]),
        ),
    ];
    for (name, plan) in plans() {
        let request = Request { plan, ends: Some(ends()), boot_id: Some("boot".into()), run: None };
        all.push((format!("request-{name}"), ClientMessage::Request(Box::new(request))));
    }
    all
}

fn quantiles() -> DelayQuantiles {
    DelayQuantiles { count: 9, p50_ns: 100, p99_ns: 300, max_ns: 400, ..Default::default() }
}

fn server_messages() -> Vec<(String, ServerMessage)> {
    let core = CoreUse { core: 0, user: 100, system: 900, softirq: 0, steal: 0, idle: 9_000 };
    let host = HostSample {
        interrupts_apart: Some(true),
        cores: vec![core],
        span_ns: 1_000_000_000,
        ..Default::default()
    };
    let mut send = SendReport {
        span_ns: 1_000_000_000,
        engines: vec!["gso".into()],
        train: 44,
        pacing_error_ppb: Some(-5),
        gaps: Some(quantiles()),
        tcp: Some(TcpSample { rtt_ns: Some(50_000), ..Default::default() }),
        ..Default::default()
    };
    send.counts.datagrams = 10;
    send.counts.bytes = 14_720;
    let mut recv = RecvReport {
        first_ns: Some(1_000),
        last_ns: Some(900_000),
        jitter_ns: Some(80),
        delay_variation: Some(quantiles()),
        least_transit_ns: Some(-1_000_000),
        ..Default::default()
    };
    recv.counts.datagrams = 8;
    recv.counts.expected = 10;
    recv.counts.lost = 2;
    let sent = SendInterval { counts: send.counts, ..Default::default() };
    let received = RecvInterval { counts: recv.counts, ..Default::default() };
    let stream =
        |stream, way, report| ServerMessage::Stream(Box::new(StreamResult { stream, way, report }));
    let mut all = vec![
        (
            "welcome".to_owned(),
            ServerMessage::Welcome(Welcome {
                version: 1,
                features: vec![],
                nonce: "f0".repeat(32),
                key_required: true,
                program: "linerate 0.1.0".into(),
            }),
        ),
        (
            "refused".to_owned(),
            ServerMessage::Refused(Refused {
                kind: RefusalKind::Busy,
                why: "128 tests are running".into(),
                hints: vec!["try again later".into()],
            }),
        ),
        ("pong".to_owned(), ServerMessage::Pong(Pong { client_ns: 1, server_ns: 2 })),
        (
            "interval".to_owned(),
            ServerMessage::Interval(Box::new(LiveInterval {
                index: 0,
                send: Some(sent),
                recv: Some(received),
                host: Some(host.clone()),
            })),
        ),
        ("recv".to_owned(), stream(0, Way::Forward, StreamReport::Recv(Box::new(recv.clone())))),
        ("recv-1".to_owned(), stream(1, Way::Forward, StreamReport::Recv(Box::new(recv)))),
        ("send".to_owned(), stream(2, Way::Reverse, StreamReport::Send(Box::new(send.clone())))),
        ("send-3".to_owned(), stream(3, Way::Reverse, StreamReport::Send(Box::new(send)))),
        (
            "respond".to_owned(),
            stream(0, Way::Forward, StreamReport::Respond(RespondReport::default())),
        ),
        (
            "chunk".to_owned(),
            ServerMessage::Chunk(Chunk { stream: 0, first: 0, send: vec![], recv: vec![received] }),
        ),
        (
            "chunk-send".to_owned(),
            ServerMessage::Chunk(Chunk { stream: 2, first: 0, send: vec![sent], recv: vec![] }),
        ),
        (
            "host-chunk".to_owned(),
            ServerMessage::HostChunk(HostChunk { first: 0, samples: vec![host.clone()] }),
        ),
        (
            "results".to_owned(),
            ServerMessage::Results(Box::new(Results { host, irq_cores: vec![0], complete: true })),
        ),
    ];
    for (name, plan) in plans() {
        let agreed = Agreed {
            agreed: AgreedPlan { plan, cuts: vec![] },
            token: 42,
            cookie: "7e".repeat(16),
            host: HostFacts { hostname: "hydra2".into(), ..Default::default() },
            client: Some(ends().client),
            cores: vec![3],
        };
        all.push((format!("agreed-{name}"), ServerMessage::Agreed(Box::new(agreed))));
    }
    all
}

/// A server that tells the largest of everything, so that sums would wrap.
fn boasts() -> Vec<ServerMessage> {
    let most = u64::MAX;
    let send_counts = SendCounts {
        bytes: most,
        datagrams: most,
        refused_locally: most,
        local_errors: [("EPERM", most), ("unknown", most)].into_iter().collect(),
        late_wakeups: most,
        given_up: most,
        calls: most,
    };
    let recv_counts = RecvCounts {
        bytes: most,
        datagrams: most,
        expected: most,
        lost: most,
        duplicates: most,
        reordered: most,
        late: most,
        corrupt: most,
        foreign: most,
        socket_drops: most,
        dropped_min: most,
        dropped_max: most,
        calls: most,
    };
    let quantiles = DelayQuantiles {
        count: most,
        min_ns: most,
        p50_ns: most,
        p90_ns: most,
        p99_ns: most,
        p999_ns: most,
        p9999_ns: most,
        max_ns: most,
        mean_ns: most,
    };
    let thread = ThreadUse {
        cpu_ns: Some(most),
        ready_ns: Some(most),
        sleeps: Some(most),
        core: Some(u32::MAX),
        others_ns: most,
    };
    let runs = LossRunCounts {
        runs: most,
        longest: most,
        shortest: most,
        least_distance: Some(most),
        lengths: [most; 16],
    };
    let tcp = TcpSample {
        retransmits: Some(most),
        rtt_ns: Some(most),
        cwnd_bytes: Some(most),
        ..Default::default()
    };
    let send = SendReport {
        counts: send_counts,
        span_ns: most,
        warmup: most,
        pacing_error_ppb: Some(i64::MIN),
        gaps: Some(quantiles),
        lateness: Some(quantiles),
        nominal_gap_ns: Some(most),
        send_buffer: most,
        thread,
        tcp: Some(tcp),
        ..Default::default()
    };
    let recv = RecvReport {
        counts: recv_counts,
        first_ns: Some(0),
        last_ns: Some(most),
        jitter_ns: Some(most),
        delay_variation: Some(quantiles),
        least_transit_ns: Some(i64::MAX),
        loss_runs: Some(runs),
        reorder_extent_max: Some(most),
        merged: true,
        train: u32::MAX,
        timestamp_faults: most,
        unknown_late: most,
        receive_buffer: most,
        thread,
        ..Default::default()
    };
    let sent = SendInterval { counts: send_counts, thread, tcp: Some(tcp) };
    let received =
        RecvInterval { counts: recv_counts, jitter_ns: Some(most), thread, ..Default::default() };
    let counters = HostCounters {
        udp_receive_buffer_errors: Some(most),
        udp_send_buffer_errors: Some(most),
        udp_checksum_errors: Some(most),
        softnet_dropped: Some(most),
        softnet_squeezed: Some(most),
        nic_rx_dropped: Some(most),
        nic_tx_dropped: Some(most),
        nic_tx_packets: Some(most),
        nic_rx_packets: Some(most),
        qdisc_dropped: Some(most),
        qdisc_backlog: Some(most),
        throttled_ns: Some(most),
    };
    let all = u16::MAX;
    let core = CoreUse { core: 0, user: all, system: all, softirq: all, steal: all, idle: all };
    let host = HostSample {
        interrupts_apart: Some(true),
        cores: vec![core],
        left_out: None,
        counters,
        cpu_pressure: Some(all),
        span_ns: most,
        clock_step_ns: i64::MIN,
        stopped_ns: None,
        lost_link: None,
    };
    let mut story = Vec::new();
    for stream in 0..4 {
        let way = if stream < 2 { Way::Forward } else { Way::Reverse };
        let report = if stream < 2 {
            StreamReport::Recv(Box::new(recv.clone()))
        } else {
            StreamReport::Send(Box::new(send.clone()))
        };
        story.push(ServerMessage::Stream(Box::new(StreamResult { stream, way, report })));
        let (send, recv) = if stream < 2 { (vec![], vec![received]) } else { (vec![sent], vec![]) };
        let chunk = Chunk {
            stream,
            first: 0,
            send: [&send[..], &send].concat(),
            recv: [&recv[..], &recv].concat(),
        };
        story.push(ServerMessage::Chunk(chunk));
    }
    story.push(ServerMessage::Pong(Pong { client_ns: 0, server_ns: most }));
    story.push(ServerMessage::HostChunk(HostChunk { first: 0, samples: vec![host.clone()] }));
    story.push(ServerMessage::Results(Box::new(Results {
        host,
        irq_cores: vec![0],
        complete: true,
    })));
    story
}

/// Recorded conversations of iperf3, cut into the documents they hold.
fn iperf3() {
    const RECORDED: &str = include_str!("../../linerate-wire/src/iperf3/captured.hex");
    let bytes = |hex: &str| -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
        digits.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
    };
    for line in RECORDED.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            // The rest has no shape of its own.
            [name @ ("udp64R" | "bidir" | "all"), sender, hex] => {
                let said = bytes(hex);
                let text = String::from_utf8_lossy(&said);
                let results = text.rfind("{\"cpu_util").expect("results");
                let end = text.rfind('}').expect("an end") + 1;
                keep("iperf3_results", &format!("{name}-{sender}"), text[results..end].as_bytes());
                if sender == "C" {
                    let (from, to) =
                        (text.find('{').expect("a start"), text.find('}').expect("an end"));
                    keep("iperf3_parameters", name, text[from..=to].as_bytes());
                }
                keep("iperf3_control", &format!("{name}-{sender}"), &said);
            }
            [name, _, sender, hex, _] => {
                keep("iperf3_datagram", &format!("{name}-{sender}"), &bytes(hex));
            }
            _ => {}
        }
    }
    keep("iperf3_control", "failure", &[0xfe, 0, 0, 0, 0x1b, 0, 0, 0, 0]);
    keep("iperf3_control", "token", b"user: mario\npwd:  rossi\nts:   1795000000");
    keep(
        "iperf3_parameters",
        "negative",
        br#"{"tcp":true,"parallel":18446744073709551615,"len":-1}"#,
    );
    keep("iperf3_datagram", "old-hello", &[0x15, 0xcd, 0x5b, 0x07]);
}

/// What a broker carries.
fn carried() {
    let plans = plans();
    let (_, plan) = plans.first().expect("a plan");
    let test = remote("192.0.2.1", 5_301, plan.clone());
    let prepare = Prepare {
        epoch: 7,
        length_ns: 60_000_000_000,
        guard_ns: 1_000_000_000,
        role: Role::Client,
        peer: "b".into(),
        token: "a token of one test, 32 bytes long".into(),
        turn: "run.0.7".into(),
        test,
        set: vec![],
    };
    let orders = [
        ("ping", Order::Ping),
        ("prepare", Order::Prepare(Box::new(prepare))),
        ("start", Order::Start { epoch: 7, address: "192.0.2.1".into(), port: 5_301 }),
        ("end", Order::End { epoch: 7 }),
    ];
    for (name, order) in orders {
        keep("broker_message", name, &serde_json::to_vec(&order).expect("an order"));
    }
    let ready = Answer::Ready { address: "192.0.2.1".into(), port: 5_301 };
    keep("broker_message", "ready", &serde_json::to_vec(&ready).expect("an answer"));
    let came = Came::Record(Box::new(records::failed()));
    let outcome = Outcome { turn: "run.0.7".into(), epoch: 7, came };
    keep("broker_message", "outcome", &serde_json::to_vec(&outcome).expect("an outcome"));
    let heartbeat = br#"{"version":"0.1.0","boot_id":"5f","address":"192.0.2.1","epoch":7,"waiting":2,
        "waiting_before":1,"oldest_s":9,"policy":true,"allows":"udp","nat":"behind","inventory":{}}"#;
    keep("broker_message", "heartbeat", heartbeat);
    for (name, event) in [
        ("granted", r#""granted","turn":"run.0.7","lease":7,"takes":["host:a"],"seconds":60"#),
        ("refused", r#""refused","ground":"policy","why":"no","lease":7,"turn":"run.0.7""#),
    ] {
        let said = format!(r#"{{"at":"2026-01-01T00:00:00Z","event":{event}}}"#);
        keep("broker_message", name, said.as_bytes());
    }
}

/// What owners write and browsers send.
fn documents() {
    let token = "07".repeat(16);
    for (name, path) in [
        ("events", format!("/{token}/events")),
        ("page", format!("/{token}/?pair=a")),
        ("metrics", "/metrics".to_owned()),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        keep("web_request", name, request.as_bytes());
    }
    let policy = "tests = [\"udp\", \"rr\"]\npeers = [\"b\"]\nmax_duration = \"30s\"\nmax_rate = \"100M\"\n\
                  max_streams = 4\nhours = \"22:00-06:00\"\nsettings = [\"offload.gro\"]\ndevice = \"eth1\"\n";
    keep("agent_policy", "whole", policy.as_bytes());
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for (target, name) in [
        ("fleet_plan", "fleets/two-sites.toml"),
        ("campaign_plan", "udp-discard.toml"),
        ("campaign_plan", "tcp-offload-ipv6.toml"),
    ] {
        let plan = std::fs::read(examples.join(name)).expect("an example");
        let name = Path::new(name).file_stem().and_then(|name| name.to_str()).expect("its name");
        keep(target, name, &plan);
    }
}

fn main() {
    iperf3();
    documents();
    carried();
    let story: Vec<Vec<u8>> = boasts().iter().map(body).collect();
    keep("server_story", "boasts", &story.join(&b'\n'));
    for (name, message) in client_messages() {
        keep("client_message", &name, &body(&message));
    }
    let server = server_messages();
    for (name, message) in &server {
        keep("server_message", name, &body(message));
    }
    for agreed in ["agreed-udp", "agreed-tcp"] {
        let story: Vec<Vec<u8>> = server
            .iter()
            .filter(|(name, _)| name == agreed || !name.starts_with("agreed"))
            .map(|(_, message)| body(message))
            .collect();
        keep("server_story", agreed, &story.join(&b'\n'));
    }
    let place = Place { stream: 1, warmup: false, position: 3, train: NonZeroU8::MIN };
    let mut header = [0; HEADER_BYTES];
    Header { token: 7, number: 8, sent_ns: 9, place }.write(&mut header);
    keep("datagram_header", "header", &header);
    let claim = Claim { token: 7, cookie: [9; 16], stream: 1 };
    keep("stream_opening", "hello", &UdpHello(claim).encode());
    keep("stream_opening", "ack", &UdpHelloAck { token: 7, stream: 1 }.encode());
    keep("stream_opening", "tcp", &TcpOpening(claim).encode()[8..]);
    keep("stream_opening", "hex", "0aF0".repeat(16).as_bytes());
    for text in
        ["100M", "1.5Gbit/s", "100kpps", "max", "4Mi", "208KiB", "200ms", "2min", "0.1G", "7"]
    {
        keep("units", &text.replace('/', "_"), text.as_bytes());
    }
    for (name, record) in [
        ("udp", records::udp_receiver_drops()),
        ("tcp", records::tcp()),
        ("failed", records::failed()),
        ("invalid", records::invalid()),
    ] {
        keep("run_record", name, &serde_json::to_vec(&record).expect("a record"));
    }
    // Runs, jumps, arrivals out of order, the end of the numbers.
    keep("sequence_window", "steps", &[0, 2, 1, 0, 1, 1, 5, 2, 1, 3, 3, 8, 255, 255, 255, 255]);
    keep("receiver", "steps", &[0, 0, 1, 4, 0, 0, 16, 1, 8, 1, 1, 3, 2, 3, 9, 0, 5, 0, 0, 0]);
}
