//! Whole tests under a made-up clock: both conversations, their data threads, a network that loses, doubles
//! and swaps, and whatever else may go wrong. A seed is a story; a failure names its seed.
//! `LINERATE_SEED=n` replays it alone, `LINERATE_SEEDS=n` runs so many.

use std::sync::Arc;

use linerate_dialect::ending::{Failure, Trouble};
use linerate_dialect::habits::{self, Habits};
use linerate_dialect::{Conversation as _, Input, Seen, iperf2, iperf3, native, netperf, nuttcp};
use linerate_model::plan::{AgreedPlan, Direction, End, RrPlan, TestPlan, Traffic, Transport, Way};
use linerate_model::units::{DatagramSize, Nanos};
use linerate_session::assemble::{HostSamples, StreamOutcome};
use linerate_testkit::toy::{self, Toy, Why};
use linerate_testkit::whole::conformance::{
    ClientEnd, Dialect, Figures, IDLE_NS, LONGEST_NS, hold,
};
use linerate_testkit::whole::script::{Fault, Place};
use linerate_wire::framing::Framing;
use linerate_wire::iperf3::State;
use linerate_wire::native::message::StreamReport;
use linerate_wire::netperf::{Length, Request};
use linerate_wire::nuttcp::Parameters;
use linerate_wire::nuttcp::datagram::Turn;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const SEEDS: u64 = 5_000;
const TOKEN: u64 = 7;

fn test<D: Dialect>() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let many = number("LINERATE_SEEDS").unwrap_or(SEEDS);
    let seeds = number("LINERATE_SEED").map_or(0..many, |seed| seed..seed + 1);
    println!("{seeds:?}: {:#?}", hold::<D>(seeds.clone()));
}

#[test]
fn the_native_dialect_conforms() {
    test::<Native>();
}

#[test]
fn iperf3s_dialect_conforms() {
    test::<Iperf3>();
}

#[test]
fn iperf_2s_dialect_conforms() {
    test::<Iperf2>();
}

#[test]
fn netperfs_dialect_conforms() {
    test::<Netperf>();
}

#[test]
fn nuttcps_dialect_conforms() {
    test::<Nuttcp>();
}

#[test]
fn a_dialect_without_numbers_conforms() {
    test::<Unnumbered>();
}

fn none(trouble: &Trouble) -> ClientEnd {
    ClientEnd::None(match trouble.failure {
        Failure::Interrupted => "none, interrupted",
        Failure::Here(_) => "none, its own",
        Failure::Refused(_) => "none, refused",
        Failure::Unproven => "none, unproven",
        Failure::Busy => "none, busy",
        Failure::Stopped(_) => "none, ended by the server",
        Failure::Server(_) | Failure::Protocol(_) | Failure::TurnedAway(_) | Failure::Iperf3(_) => {
            "none, the server's"
        }
    })
}

fn part(trouble: &Trouble) -> ClientEnd {
    ClientEnd::Part(match trouble.failure {
        Failure::Here(_) => "part, its own",
        Failure::Stopped(_) => "part, ended by the server",
        Failure::Interrupted => "part, interrupted",
        _ => "part, the server's",
    })
}

struct Native;

impl Dialect for Native {
    type Client = native::client::Client;
    type Server = native::server::Server;
    const HABITS: Habits = habits::NATIVE;
    const ANSWERS_AT_ONCE: bool = false;
    const REPORTS_DOUBLES: bool = true;
    const PATIENCE_NS: u64 = 45 * SECOND;
    const ASKS: bool = true;

    fn fit(_: &mut TestPlan) {}

    fn framing(stream: u16) -> Framing {
        Framing::Native { token: TOKEN, stream }
    }

    fn ends(plan: &TestPlan, _: u64, server_ns: u64) -> (Self::Client, Self::Server) {
        let drain_ns = 250 * MS;
        let terms = native::client::Terms { plan: plan.clone(), drain_ns };
        let client = native::client::Client::new(terms, None, None);
        let terms = native::server::Terms {
            agreed: Arc::new(AgreedPlan { plan: plan.clone(), cuts: vec![] }),
            drain_ns,
            longest_ns: LONGEST_NS,
            most_bps: None,
            idle_ns: IDLE_NS,
        };
        (client, native::server::Server::new(terms, server_ns, None, None))
    }

    fn client_end(client: Self::Client, _: u64) -> ClientEnd {
        match client.outcome() {
            None => return ClientEnd::Gone,
            Some(Err(trouble)) => return none(&trouble),
            Some(Ok(())) => {}
        }
        let ended = client.ended();
        if let Some(trouble) = &ended.trouble {
            return part(trouble);
        }
        assert!(ended.results, "it has no trouble and no results");
        let end = match (ended.interrupted, ended.stopping) {
            (true, _) => "interrupted",
            (false, Some(_)) => "ended by the server",
            (false, None) => "whole",
        };
        let (streams, clock, server) = (ended.streams, ended.clock, ended.server);
        ClientEnd::Figures(Box::new(Figures { end, streams, clock, server }))
    }

    fn server_end(server: &Self::Server) -> Option<String> {
        let ended = server.outcome()?;
        Some(ended.map_or_else(|early| format!("{:?}", early.outcome), |()| "done".into()))
    }

    fn more_servers(fault: Fault) -> &'static [&'static str] {
        match fault {
            // In the middle of a message they are its rest, and the goodbye does not come any more.
            Fault::Garbage(Place::Server) => &["Vanished"],
            _ => &[],
        }
    }
}

struct Iperf3;

impl Dialect for Iperf3 {
    type Client = iperf3::client::Client;
    type Server = iperf3::server::Server;
    const HABITS: Habits = habits::IPERF3;
    const ANSWERS_AT_ONCE: bool = true;
    const REPORTS_DOUBLES: bool = false;
    const PATIENCE_NS: u64 = 60 * SECOND;

    fn fit(plan: &mut TestPlan) {
        // Bytes are those of whole datagrams and blocks.
        let unit = match &plan.traffic {
            Traffic::Udp(udp) => u64::from(udp.size.bytes()),
            Traffic::Tcp(tcp) => u64::from(tcp.block),
            Traffic::Rr(_) => 1,
        };
        if let End::Bytes(bytes) = plan.end {
            plan.end = End::Datagrams(bytes.div_ceil(unit));
        }
    }

    fn of_server(plan: &TestPlan) -> TestPlan {
        // Only the client ends a test.
        let lasts_ns = plan.duration().map_or(LONGEST_NS, |d| d.0 + 2 * SECOND);
        TestPlan { end: End::Time(Nanos(lasts_ns)), ..plan.clone() }
    }

    fn framing(_: u16) -> Framing {
        Framing::Iperf3 { wide: true }
    }

    fn ends(plan: &TestPlan, client_ns: u64, server_ns: u64) -> (Self::Client, Self::Server) {
        let terms = iperf3::client::Terms {
            plan: plan.clone(),
            cookie: None,
            parameters: vec![],
            patience_ns: 10 * SECOND,
            silence_ns: 30 * SECOND,
            settle_ns: 200 * MS,
            rtt_ns: 0,
        };
        let mut client = iperf3::client::Client::new(terms, client_ns);
        // Cookie and parameters are the runner's to take.
        let asked = [State::ParamExchange.byte()];
        client.input(client_ns, &Seen::default(), Input::Bytes(&asked));
        let terms = iperf3::server::Terms {
            agreed: Arc::new(AgreedPlan { plan: Self::of_server(plan), cuts: vec![] }),
            peer: ([192, 0, 2, 1], 40_000).into(),
            time_ns: plan.duration().map(|d| d.0),
            longest_ns: LONGEST_NS,
            most_bps: None,
            no_data_ns: IDLE_NS,
            output: None,
        };
        (client, iperf3::server::Server::new(terms, server_ns))
    }

    fn client_end(client: Self::Client, now_ns: u64) -> ClientEnd {
        match client.outcome() {
            None => return ClientEnd::Gone,
            Some(Err(trouble)) => return none(&trouble),
            Some(Ok(())) => {}
        }
        let ended = client.ended(now_ns, None, false);
        if let Some(trouble) = &ended.trouble {
            return part(trouble);
        }
        assert!(ended.results, "it has no trouble and no results");
        let end = if ended.interrupted { "interrupted" } else { "whole" };
        let (clock, server) = (None, HostSamples::default());
        ClientEnd::Figures(Box::new(Figures { end, streams: ended.streams, clock, server }))
    }

    fn server_end(server: &Self::Server) -> Option<String> {
        let ended = server.outcome()?;
        Some(ended.map_or_else(|early| format!("{:?}", early.outcome), |()| "done".into()))
    }

    fn more_clients(fault: Fault) -> &'static [&'static str] {
        match fault {
            Fault::Stopped(Place::Server) => {
                &["part, ended by the server", "none, ended by the server"]
            }
            // Its results are not waited for then.
            Fault::Over(_) => &["part, the server's"],
            Fault::NoStream => &["none, the server's"],
            // The server misses its data and says so.
            Fault::DeadThread(Place::Client) => &["part, the server's"],
            _ => &[],
        }
    }

    fn more_servers(fault: Fault) -> &'static [&'static str] {
        match fault {
            Fault::NoStream => &["Failed"],
            Fault::Garbage(Place::Server) => &["Vanished"],
            // A client that stops ends its test in time, or just closes.
            Fault::Stopped(Place::Client) => &["Vanished"],
            // Where this end receives, it is the data whose absence shows first.
            Fault::Cut
            | Fault::Gone(Place::Client)
            | Fault::Unread(_)
            | Fault::DeadThread(Place::Client) => &["Cut", "Failed"],
            _ => &[],
        }
    }
}

struct Iperf2;

impl Dialect for Iperf2 {
    type Client = iperf2::client::Client;
    type Server = iperf2::server::Server;
    const HABITS: Habits = habits::IPERF2;
    const ANSWERS_AT_ONCE: bool = true;
    const REPORTS_DOUBLES: bool = false;
    const CONTROLS: bool = false;
    const REPORTS_BYTES: bool = false;
    const PATIENCE_NS: u64 = 45 * SECOND;

    fn fit(plan: &mut TestPlan) {
        plan.warmup = Nanos(0);
        // At the server each stream is a test of its own, and one that sends needs a proven address.
        plan.streams = 1;
        match &mut plan.traffic {
            Traffic::Udp(udp) => {
                plan.direction = Direction::Forward;
                udp.size = udp.size.max(DatagramSize::new(128).expect("legal"));
            }
            _ if plan.direction == Direction::Both => plan.direction = Direction::Reverse,
            _ => {}
        }
    }

    fn of_server(plan: &TestPlan) -> TestPlan {
        if plan.direction == Direction::Reverse {
            return plan.clone();
        }
        // Only the client ends a test.
        let lasts_ns = plan.duration().map_or(LONGEST_NS, |d| d.0 + 2 * SECOND);
        TestPlan { end: End::Time(Nanos(lasts_ns)), ..plan.clone() }
    }

    fn framing(_: u16) -> Framing {
        Framing::Iperf2 { wide: true, ahead_ns: 0, agree: true }
    }

    fn ends(plan: &TestPlan, client_ns: u64, server_ns: u64) -> (Self::Client, Self::Server) {
        let (last, silence_ns) = (vec![0; 128], 10 * SECOND);
        let terms = iperf2::client::Terms {
            plan: plan.clone(),
            last,
            ahead_ns: 0,
            silence_ns,
            trips: true,
        };
        let client = iperf2::client::Client::new(terms, client_ns);
        let terms = iperf2::server::Terms {
            agreed: Arc::new(AgreedPlan { plan: Self::of_server(plan), cuts: vec![] }),
            longest_ns: LONGEST_NS,
            most_bps: None,
            extended: true,
            silence_ns: 10 * SECOND,
        };
        (client, iperf2::server::Server::new(terms, server_ns))
    }

    fn client_end(client: Self::Client, _: u64) -> ClientEnd {
        match client.outcome() {
            None => return ClientEnd::Gone,
            Some(Err(trouble)) => return none(&trouble),
            Some(Ok(())) => {}
        }
        let ended = client.ended();
        if let Some(trouble) = &ended.trouble {
            return part(trouble);
        }
        let broken = |stream: &StreamOutcome| {
            let send = stream.send.as_ref().and_then(|send| send.error.as_ref());
            send.or(stream.recv.as_ref().and_then(|recv| recv.error.as_ref())).is_some()
        };
        if !ended.results || ended.streams.iter().any(broken) {
            return ClientEnd::Part("part, the server's");
        }
        let end = if ended.interrupted { "interrupted" } else { "whole" };
        let (clock, server) = (None, HostSamples::default());
        ClientEnd::Figures(Box::new(Figures { end, streams: ended.streams, clock, server }))
    }

    fn server_end(server: &Self::Server) -> Option<String> {
        let ended = server.outcome()?;
        Some(ended.map_or_else(|early| format!("{:?}", early.outcome), |()| "done".into()))
    }

    fn more_clients(fault: Fault) -> &'static [&'static str] {
        match fault {
            // A server has no word for it.
            Fault::Stopped(Place::Server) | Fault::Over(_) => &["part, the server's"],
            // What it cannot say is that it is interrupted: the server goes on.
            Fault::Stopped(Place::Client) => &["part, the server's"],
            _ => &[],
        }
    }

    fn more_servers(fault: Fault) -> &'static [&'static str] {
        match fault {
            // It is silence, or a connection that breaks while this end sends.
            Fault::Stopped(Place::Client) => &["Vanished", "Failed"],
            Fault::Killed(Place::Client) | Fault::DeadThread(Place::Client) => &["Failed"],
            _ => &[],
        }
    }
}

struct Netperf;

impl Netperf {
    /// What was asked and granted before the story begins.
    fn request(plan: &TestPlan) -> Request {
        let reverse = plan.direction.has_reverse();
        let of = |count: u64| Length::Units(u32::try_from(count).unwrap_or(u32::MAX));
        let (sizes, length) = match (&plan.traffic, plan.end) {
            (Traffic::Rr(rr), End::Datagrams(count)) => {
                (Some((rr.request, rr.response)), of(count))
            }
            (Traffic::Rr(rr), _) => (Some((rr.request, rr.response)), Length::Seconds(2)),
            (_, End::Time(time)) => {
                (None, Length::Seconds(u32::try_from(time.0 / SECOND).unwrap_or(u32::MAX)))
            }
            (_, End::Bytes(bytes)) => (None, of(bytes)),
            (_, End::Datagrams(count)) => (None, of(count)),
        };
        Request {
            transport: plan.traffic.transport(),
            transmits: reverse || sizes.is_some(),
            receives: !reverse || sizes.is_some(),
            connections: false,
            sizes,
            length,
            send_buffer: None,
            receive_buffer: None,
            send_size: None,
            receive_size: None,
            nodelay: false,
            measure_cpu: false,
            no_checksum: false,
            may_route: true,
            data_port: None,
            peer_port: None,
            congestion: None,
            tos: None,
            core: None,
            ip: None,
            old: None,
        }
    }
}

impl Dialect for Netperf {
    type Client = netperf::client::Client;
    type Server = netperf::server::Server;
    const CLIENT_IS_SILENT: bool = true;
    const HABITS: Habits = habits::NETPERF;
    const ANSWERS_AT_ONCE: bool = true;
    const REPORTS_DOUBLES: bool = false;
    const PATIENCE_NS: u64 = 60 * SECOND;
    const ASKS: bool = true;

    fn fit(plan: &mut TestPlan) {
        plan.warmup = Nanos(0);
        plan.streams = 1;
        if plan.direction == Direction::Both {
            plan.direction = Direction::Forward;
        }
        // No answering end of these tests counts them, and all marks of the end may be lost.
        if let Traffic::Rr(RrPlan { transport: Transport::Udp, .. }) = plan.traffic
            && !matches!(plan.end, End::Time(_))
        {
            plan.end = End::Time(Nanos(SECOND));
        }
        if let End::Time(time) = plan.end {
            plan.end = End::Time(Nanos(time.0.next_multiple_of(SECOND)));
        }
    }

    fn framing(_: u16) -> Framing {
        Framing::Bare
    }

    fn ends(plan: &TestPlan, client_ns: u64, server_ns: u64) -> (Self::Client, Self::Server) {
        // Requests are the runner's to take.
        let terms =
            netperf::client::Terms { plan: plan.clone(), request: None, patience_ns: 15 * SECOND };
        let client = netperf::client::Client::new(terms, client_ns);
        let terms = netperf::server::Terms {
            request: Self::request(plan),
            agreed: Arc::new(AgreedPlan { plan: plan.clone(), cuts: vec![] }),
            longest_ns: LONGEST_NS,
            most_bps: None,
            no_data_ns: IDLE_NS,
        };
        (client, netperf::server::Server::new(terms, server_ns))
    }

    fn client_end(client: Self::Client, _: u64) -> ClientEnd {
        match client.outcome() {
            None => return ClientEnd::Gone,
            Some(Err(trouble)) => return none(&trouble),
            Some(Ok(())) => {}
        }
        let ended = client.ended();
        if let Some(trouble) = &ended.trouble {
            return part(trouble);
        }
        assert!(ended.results.is_some(), "it has no trouble and no results");
        let end = if ended.interrupted { "interrupted" } else { "whole" };
        let (clock, server) = (None, HostSamples::default());
        ClientEnd::Figures(Box::new(Figures { end, streams: ended.streams, clock, server }))
    }

    fn server_end(server: &Self::Server) -> Option<String> {
        let ended = server.outcome()?;
        Some(ended.map_or_else(|early| format!("{:?}", early.outcome), |()| "done".into()))
    }

    fn more_clients(fault: Fault) -> &'static [&'static str] {
        match fault {
            // It says a number instead of results.
            Fault::Stopped(Place::Server) | Fault::Over(_) => {
                &["part, ended by the server", "none, ended by the server"]
            }
            // A server that sends datagrams goes on, and its results are not waited for.
            Fault::Stopped(Place::Client) => &["part, interrupted"],
            _ => &[],
        }
    }

    fn more_servers(fault: Fault) -> &'static [&'static str] {
        match fault {
            // Of datagrams none that arrive is a result.
            Fault::NoStream => &["done"],
            // A client that stops just closes.
            Fault::Stopped(Place::Client) => &["Vanished"],
            // Nothing but data is expected of it.
            Fault::Cut | Fault::Gone(Place::Client) | Fault::DeadThread(Place::Client) => &["Cut"],
            _ => &[],
        }
    }
}

struct Nuttcp;

/// Datagrams of a multiple of this size are told from each other by totals in decimals of a megabyte.
const NUTTCP_SIZE: u32 = 128;

impl Nuttcp {
    /// What was asked and granted before the story begins.
    fn asked(plan: &TestPlan) -> Parameters {
        let (length, udp) = match &plan.traffic {
            Traffic::Udp(udp) => (u32::from(udp.size.bytes()), true),
            Traffic::Tcp(tcp) => (tcp.block, false),
            Traffic::Rr(_) => (1, false),
        };
        let count = match plan.end {
            End::Datagrams(count) => Some(count),
            End::Bytes(bytes) => Some(bytes.div_ceil(length.into())),
            End::Time(_) => None,
        };
        Parameters {
            length,
            count,
            window: None,
            streams: plan.streams.into(),
            rate_kbps: None,
            port: 5_101,
            client_sends: plan.direction.has_forward(),
            udp,
            time_us: plan.duration().map(|time| time.0.div_ceil(1_000)),
            interval_us: Some(plan.interval.0 / 1_000),
            flipped: false,
            format: 0x40,
            traceroute: false,
            third_party: false,
            multicast: false,
            mss: None,
            tos: None,
            nodelay: false,
            core: None,
            instantaneous: false,
            burst: None,
            striding: false,
        }
    }
}

impl Dialect for Nuttcp {
    type Client = nuttcp::client::Client;
    type Server = nuttcp::server::Server;
    const CLIENT_IS_SILENT: bool = true;
    const HABITS: Habits = habits::NUTTCP;
    const ANSWERS_AT_ONCE: bool = true;
    const REPORTS_DOUBLES: bool = false;
    const ROUNDED_BYTES: u64 = 53;
    const REPORTS_STREAMS: bool = false;
    const PATIENCE_NS: u64 = 60 * SECOND;

    fn fit(plan: &mut TestPlan) {
        plan.warmup = Nanos(0);
        if plan.direction == Direction::Both {
            plan.direction = Direction::Forward;
        }
        // Bytes are those of whole datagrams and blocks.
        let unit = match &mut plan.traffic {
            Traffic::Udp(udp) => {
                // What a server reports is of all streams together, and what each lost is not known.
                plan.streams = 1;
                udp.size = udp.size.max(DatagramSize::new(NUTTCP_SIZE).expect("legal"));
                u64::from(udp.size.bytes())
            }
            Traffic::Tcp(tcp) => u64::from(tcp.block),
            Traffic::Rr(_) => 1,
        };
        if let End::Bytes(bytes) = plan.end {
            plan.end = End::Datagrams(bytes.div_ceil(unit));
        }
    }

    fn framing(stream: u16) -> Framing {
        // A size and turns that both ends take make numbers, whatever the story's datagrams and streams are.
        let turn = Turn { stream, ..Turn::first_of(128) };
        Framing::Nuttcp { size: NUTTCP_SIZE, turn: Some(turn) }
    }

    fn ends(plan: &TestPlan, client_ns: u64, server_ns: u64) -> (Self::Client, Self::Server) {
        let asked = Self::asked(plan);
        let terms = nuttcp::client::Terms {
            plan: plan.clone(),
            asked: asked.clone(),
            greeted: false,
            patience_ns: 10 * SECOND,
        };
        let mut client = nuttcp::client::Client::new(terms, client_ns);
        // The greeting and the parameters are the runner's to take.
        let hello = greeting(&mut client, client_ns);
        assert!(hello.ends_with(b"iratesss = 0\n"), "{hello:?}");
        let terms = nuttcp::server::Terms {
            asked,
            agreed: Arc::new(AgreedPlan { plan: plan.clone(), cuts: vec![] }),
            peer: std::net::Ipv4Addr::LOCALHOST.into(),
            hurried: false,
            longest_ns: LONGEST_NS,
            most_bps: None,
            no_data_ns: IDLE_NS,
        };
        (client, nuttcp::server::Server::new(terms, server_ns))
    }

    fn client_end(client: Self::Client, _: u64) -> ClientEnd {
        match client.outcome() {
            None => return ClientEnd::Gone,
            Some(Err(trouble)) => return none(&trouble),
            Some(Ok(())) => {}
        }
        let ended = client.ended();
        if let Some(trouble) = &ended.trouble {
            return part(trouble);
        }
        assert!(ended.results, "it has no trouble and no results");
        let end = if ended.interrupted { "interrupted" } else { "whole" };
        let (clock, server) = (None, HostSamples::default());
        ClientEnd::Figures(Box::new(Figures { end, streams: ended.streams, clock, server }))
    }

    fn server_end(server: &Self::Server) -> Option<String> {
        let ended = server.outcome()?;
        Some(ended.map_or_else(|early| format!("{:?}", early.outcome), |()| "done".into()))
    }

    fn more_clients(fault: Fault) -> &'static [&'static str] {
        match fault {
            // It says what is wrong in a line.
            Fault::Stopped(Place::Server)
            | Fault::Over(_)
            | Fault::Garbage(Place::Server)
            | Fault::DeadThread(_) => &["part, ended by the server", "none, ended by the server"],
            // A server that sends datagrams goes on, and its results are not waited for.
            Fault::Stopped(Place::Client) => &["part, interrupted"],
            _ => &[],
        }
    }

    fn more_servers(fault: Fault) -> &'static [&'static str] {
        match fault {
            // Of datagrams none that arrive is a result.
            Fault::NoStream => &["done"],
            // A client that stops just closes.
            Fault::Stopped(Place::Client) => &["Vanished"],
            // Nothing but data is expected of it.
            Fault::Cut | Fault::Gone(Place::Client) | Fault::DeadThread(Place::Client) => &["Cut"],
            _ => &[],
        }
    }
}

/// What a client says until it has asked for its test, of a server that has greeted it.
fn greeting(client: &mut nuttcp::client::Client, now_ns: u64) -> Vec<u8> {
    let said = client.outgoing().len();
    let mut tell = |input| client.input(now_ns, &Seen::default(), input);
    tell(Input::Carried(said));
    tell(Input::Bytes(b"HELO nuttcp v8.2.2\n"));
    let asked = client.outgoing().to_vec();
    client.input(now_ns, &Seen::default(), Input::Carried(asked.len()));
    asked
}

/// A dialect of the testkit's alone.
struct Unnumbered;

impl Dialect for Unnumbered {
    type Client = Toy;
    type Server = Toy;
    const HABITS: Habits = toy::HABITS;
    const ANSWERS_AT_ONCE: bool = true;
    const REPORTS_DOUBLES: bool = false;
    const PATIENCE_NS: u64 = 45 * SECOND;

    fn fit(plan: &mut TestPlan) {
        plan.warmup = Nanos(0);
        // Its results are one message.
        plan.interval = Nanos(SECOND);
    }

    fn framing(_: u16) -> Framing {
        Framing::Bare
    }

    fn ends(plan: &TestPlan, client_ns: u64, server_ns: u64) -> (Toy, Toy) {
        (Toy::new(plan, true, client_ns), Toy::new(plan, false, server_ns))
    }

    fn client_end(mut client: Toy, _: u64) -> ClientEnd {
        let end = match client.outcome() {
            None => return ClientEnd::Gone,
            Some((true, Some(Why::Client))) => "interrupted",
            Some((true, Some(Why::Server))) => "ended by the server",
            Some((true, _)) => "whole",
            Some((false, Some(Why::Client))) => return ClientEnd::None("none, interrupted"),
            Some((false, Some(Why::Server))) => return ClientEnd::None("none, refused"),
            Some((false, Some(Why::Here))) => return ClientEnd::None("none, its own"),
            Some((false, _)) => return ClientEnd::None("none, the server's"),
        };
        let streams = client.ids.iter().map(|id| {
            let reverse = id.way == Way::Reverse;
            let mut both = StreamOutcome { index: id.index, reverse, ..StreamOutcome::default() };
            for half in [&mut client.reports, &mut client.theirs] {
                match half.remove(&id.stream) {
                    Some(StreamReport::Send(report)) => both.send = Some(*report),
                    Some(StreamReport::Recv(report)) => both.recv = Some(*report),
                    _ => {}
                }
            }
            both
        });
        let (streams, server) = (streams.collect(), HostSamples::default());
        ClientEnd::Figures(Box::new(Figures { end, streams, clock: None, server }))
    }

    fn server_end(server: &Toy) -> Option<String> {
        let end = match server.outcome()?.1 {
            None => "done",
            Some(Why::Client) => "Stopped",
            Some(Why::Server) => "Cut",
            Some(Why::Lost) => "Vanished",
            Some(Why::Here) => "Failed",
        };
        Some(end.into())
    }

    fn more_servers(fault: Fault) -> &'static [&'static str] {
        // In the middle of a message garbage is its rest.
        if matches!(fault, Fault::Garbage(_)) { &["Vanished"] } else { &[] }
    }
}

/// One whose conversations fail by themselves.
struct Panicking;

impl Dialect for Panicking {
    type Client = Toy;
    type Server = Toy;
    const HABITS: Habits = toy::HABITS;
    const ANSWERS_AT_ONCE: bool = true;
    const REPORTS_DOUBLES: bool = false;
    const PATIENCE_NS: u64 = 45 * SECOND;

    fn fit(_: &mut TestPlan) {}

    fn framing(_: u16) -> Framing {
        Framing::Bare
    }

    fn ends(_: &TestPlan, _: u64, _: u64) -> (Toy, Toy) {
        unreachable!("a conversation's own fault")
    }

    fn client_end(_: Toy, _: u64) -> ClientEnd {
        ClientEnd::Gone
    }

    fn server_end(_: &Toy) -> Option<String> {
        None
    }
}

#[test]
#[should_panic(expected = "LINERATE_SEED=3")]
fn a_panic_of_a_conversation_names_its_seed() {
    hold::<Panicking>(3..4);
}
