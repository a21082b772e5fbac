//! Whole tests of the native dialect under a made-up clock: both conversations, their data threads, a
//! network that loses, doubles and swaps, and whatever else may go wrong. A seed is a story; a failure names
//! its seed, and `LINERATE_SEED=n` replays it alone.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use linerate_dialect::Over;
use linerate_dialect::ending::Failure;
use linerate_dialect::native::client::{self, Client};
use linerate_dialect::native::server::{self, Server};
use linerate_model::plan::{
    AgreedPlan, Dialect, Direction, End, EngineChoice, IpVersion, TestPlan, Traffic, UdpPlan,
};
use linerate_model::record::{RunRecord, Status};
use linerate_model::units::{DatagramSize, Nanos, Rate};
use linerate_session::assemble::{self, HostSamples, Outcome};
use linerate_testkit::records;
use linerate_testkit::whole::chance::Chance;
use linerate_testkit::whole::network::Network;
use linerate_testkit::whole::script::{Fault, Place, Script};
use linerate_testkit::whole::{Ending, World};
use linerate_wire::framing::Framing;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const SEEDS: u64 = 10_000;
const TOKEN: u64 = 7;
/// From the fault, or else from the planned end, until both ends are over.
const PATIENCE_NS: u64 = 45 * SECOND;

const FAULTS: [Fault; 24] = [
    Fault::None,
    Fault::None,
    Fault::None,
    Fault::None,
    Fault::Killed(Place::Client),
    Fault::Killed(Place::Server),
    Fault::Gone(Place::Client),
    Fault::Gone(Place::Server),
    Fault::Cut,
    Fault::Reset,
    Fault::Stopped(Place::Client),
    Fault::Stopped(Place::Client),
    Fault::Stopped(Place::Server),
    Fault::Stopped(Place::Server),
    Fault::Garbage(Place::Client),
    Fault::Garbage(Place::Server),
    Fault::DeadThread(Place::Client),
    Fault::DeadThread(Place::Server),
    Fault::NoStream,
    Fault::Over(Over::Bytes),
    Fault::Over(Over::Time),
    Fault::Over(Over::Day),
    Fault::Unread(Place::Client),
    Fault::Unread(Place::Server),
];

fn plan(chance: &mut Chance) -> TestPlan {
    let size = DatagramSize::new(32 + chance.below(1_000) as u32).unwrap();
    let streams = 1 + chance.below(4) as u16;
    let rate = u64::from(streams) * (20 + chance.below(200));
    let rate = Rate::Datagrams(NonZeroU64::new(rate).unwrap());
    let end = match chance.below(4) {
        0 => End::Datagrams(1 + chance.below(300)),
        1 => End::Bytes(1 + chance.below(100_000)),
        _ => End::Time(Nanos(300 * MS + chance.below(1_700 * MS))),
    };
    let udp = UdpPlan {
        size,
        rate: Some(rate),
        burst: Nanos(0),
        engine: EngineChoice::Auto,
        checksum: true,
    };
    let directions = [Direction::Forward, Direction::Reverse, Direction::Both];
    TestPlan {
        traffic: Traffic::Udp(udp),
        direction: *chance.of(&directions).unwrap(),
        streams,
        end,
        warmup: Nanos(chance.below(3) * 100 * MS),
        interval: Nanos(100 * MS),
        window: None,
        client_cpus: vec![],
        server_cpus: vec![],
        dscp: None,
    }
}

/// One seed's story, judged: how it ended at the client and at the server.
fn story(seed: u64) -> (Fault, String, String) {
    let mut chance = Chance::new(seed);
    let plan = plan(&mut chance);
    let network = Network {
        delay_ns: chance.below(50 * MS),
        jitter_ns: chance.below(5 * MS),
        loses_one_in: [0, 3, 10, 100][chance.below(4) as usize],
        doubles_one_in: [0, 10][chance.below(2) as usize],
    };
    let (strikes, fault) = (chance.below(3 * SECOND), *chance.of(&FAULTS).unwrap());
    let drain_ns = 250 * MS;
    let (client_clock, server_clock) = (chance.below(1 << 50), chance.below(1 << 50));
    let terms = client::Terms { plan: plan.clone(), drain_ns };
    let mut client = Client::new(terms, None, None);
    let terms = server::Terms {
        agreed: Arc::new(AgreedPlan { plan: plan.clone(), cuts: vec![] }),
        drain_ns,
        longest_ns: 60 * SECOND,
        most_bps: None,
        idle_ns: 120 * SECOND,
    };
    let mut server = Server::new(terms, server_clock, None, None);
    let framing = |stream| Framing::Native { token: TOKEN, stream };
    let script = Script { plan: plan.clone(), framing, network, fault: (strikes, fault) };
    let ends = ((&mut client as _, client_clock), (&mut server as _, server_clock));
    let ending = World::new(script, chance, ends.0, ends.1).run();
    let ending = ending.unwrap_or_else(|why| panic!("seed {seed}, {fault:?}: {why}"));
    let Ending { at_ns, offset_ns, truth, shown, struck, story } = ending;
    let why = |what: &str| format!("seed {seed}, {fault:?}: {what}\n{plan:#?}\n{story:#?}");
    let served = server.outcome();
    let (asked, ended) = (client.outcome(), client.ended());

    // No end hangs past its limits.
    let planned = plan.duration().map_or(30 * SECOND, |d| d.0) + plan.warmup.0;
    let most = planned + if struck { strikes } else { 0 } + PATIENCE_NS;
    assert!(at_ns < most, "{}", why(&format!("it lasted {at_ns} ns")));

    // Rows come in order, and each once.
    let rows_in_order = shown.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(rows_in_order, "{}", why(&format!("rows {shown:?}")));

    let client_end = match (&asked, &ended.trouble) {
        (None, _) => "gone".into(),
        (Some(Err(trouble)), _) => format!("none, {}", kind(&trouble.failure)),
        (Some(Ok(())), Some(trouble)) => format!("part, {}", kind(&trouble.failure)),
        (Some(Ok(())), None) if ended.interrupted => "interrupted".into(),
        (Some(Ok(())), None) if ended.stopping.is_some() => "ended by the server".into(),
        (Some(Ok(())), None) => "whole".into(),
    };
    let server_end = match &served {
        None => "gone".into(),
        Some(Ok(())) => "done".to_owned(),
        Some(Err(early)) => format!("{:?}", early.outcome),
    };
    let of_client = clients(fault).contains(&client_end.as_str());
    let of_server = servers(fault).contains(&server_end.as_str());
    assert!(of_client && of_server, "{}", why(&format!("{client_end}, {server_end}")));
    if fault == Fault::None || !struck {
        assert_eq!((client_end.as_str(), server_end.as_str()), ("whole", "done"), "{}", why(""));
        let clock = ended.clock.expect("both clocks were read");
        let wrong = clock.offset_ns.abs_diff(offset_ns);
        assert!(wrong <= clock.error_ns, "{}", why(&format!("clock {clock:?}, {offset_ns}")));
    }
    if client_end == "whole" || client_end == "interrupted" || client_end == "ended by the server" {
        let exact = client_end == "whole";
        check_figures(&plan, ended, &truth, exact, &why);
    }
    (fault, client_end, server_end)
}

fn kind(failure: &Failure) -> &'static str {
    match failure {
        Failure::Interrupted => "interrupted",
        Failure::Here(_) => "its own",
        Failure::Refused(_) => "refused",
        Failure::Unproven => "unproven",
        Failure::Server(_) | Failure::TurnedAway(_) | Failure::Iperf3(_) => "the server's",
        Failure::Busy => "busy",
        Failure::Stopped(_) => "stopped",
    }
}

/// How a client may end; which of them depends on when the fault strikes.
fn clients(fault: Fault) -> &'static [&'static str] {
    match fault {
        Fault::None => &["whole"],
        Fault::Killed(Place::Client) | Fault::Gone(Place::Client) => &["gone", "whole"],
        Fault::Stopped(Place::Client) => &["interrupted", "none, interrupted", "whole"],
        // Where it stops before all streams are there, nobody answers the rest.
        Fault::Stopped(Place::Server) => {
            &["ended by the server", "none, refused", "none, its own", "whole"]
        }
        Fault::Over(_) => &["ended by the server", "whole"],
        Fault::NoStream => &["none, its own"],
        Fault::DeadThread(Place::Client) => &["part, its own", "none, its own", "whole"],
        _ => &["part, the server's", "none, the server's", "none, its own", "whole"],
    }
}

/// How a server may end.
fn servers(fault: Fault) -> &'static [&'static str] {
    match fault {
        Fault::None => &["done"],
        Fault::Killed(Place::Server) | Fault::Gone(Place::Server) => &["gone", "done"],
        // A client that has all its figures says goodbye, and is not stopped any more.
        Fault::Stopped(Place::Client) => &["Stopped", "done"],
        Fault::Stopped(Place::Server) | Fault::Over(_) => &["Cut", "done"],
        Fault::DeadThread(Place::Server) | Fault::Garbage(Place::Server) => &["Failed", "done"],
        Fault::NoStream => &["Vanished"],
        _ => &["Vanished", "done"],
    }
}

/// What both ends reported is what the network saw, and the record holds together.
fn check_figures(
    plan: &TestPlan,
    ended: client::Ended,
    truth: &BTreeMap<u16, linerate_testkit::whole::network::Truth>,
    exact: bool,
    why: &dyn Fn(&str) -> String,
) {
    assert!(ended.results, "{}", why("no results"));
    let ids = linerate_dialect::stream::streams(plan.direction, plan.streams);
    for (id, stream) in ids.iter().zip(&ended.streams) {
        let none = Default::default();
        let truth = truth.get(&id.stream).unwrap_or(&none);
        let (Some(send), Some(recv)) = (&stream.send, &stream.recv) else {
            panic!("{}", why("an end did not report"));
        };
        let arrived = truth.delivered.len() as u64;
        assert_eq!(send.counts.datagrams, truth.sent, "{}", why("sent"));
        assert_eq!(recv.counts.datagrams, arrived, "{}", why("received"));
        assert_eq!(recv.counts.duplicates, truth.doubled, "{}", why("duplicates"));
        if exact {
            assert_eq!(recv.counts.lost, truth.sent - arrived, "{}", why("lost"));
            assert_eq!(recv.counts.expected, truth.sent, "{}", why("expected"));
        }
    }
    if exact {
        let share = |index| linerate_session::sender::Quota::datagrams(plan, size(plan), index);
        for (id, stream) in ids.iter().zip(&ended.streams) {
            let sent = stream.send.as_ref().unwrap().counts.datagrams;
            if let Some(full) = share(id.index).full {
                let tails = share(id.index).tail.iter().filter(|length| **length > 0).count();
                assert_eq!(sent, full + tails as u64, "{}", why("the quota"));
            }
        }
    }
    let record = record(plan, ended, exact);
    assert_ne!(record.status, Status::Invalid, "{}", why(&format!("{:?}", record.error)));
}

fn size(plan: &TestPlan) -> DatagramSize {
    match &plan.traffic {
        Traffic::Udp(udp) => udp.size,
        _ => unreachable!("only datagrams"),
    }
}

fn record(plan: &TestPlan, ended: client::Ended, complete: bool) -> RunRecord {
    let outcome = Outcome {
        plan: plan.clone(),
        ip: IpVersion::V4,
        streams: ended.streams,
        client: HostSamples::default(),
        server: ended.server,
        clock: ended.clock,
        same_host: false,
        dialect: Dialect::Native,
        discard: false,
        complete,
    };
    let status = if complete { Status::Complete } else { Status::Partial };
    assemble::assemble(RunRecord { status, ..records::empty("udp") }, &outcome)
}

#[test]
fn whole_tests_end_in_time_for_the_right_reason_and_count_exactly() {
    let one = std::env::var("LINERATE_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let many = std::env::var("LINERATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let seeds = one.map_or(0..many.unwrap_or(SEEDS), |seed| seed..seed + 1);
    let mut ends = BTreeMap::<String, u64>::new();
    for seed in seeds.clone() {
        let (fault, client, server) = story(seed);
        *ends.entry(format!("{fault:?}: {client}, {server}")).or_default() += 1;
    }
    println!("seeds {seeds:?}: {ends:#?}");
    if one.is_none() {
        // Every fault was met where it has an effect.
        for fault in FAULTS {
            let end = (clients(fault)[0], servers(fault)[0]);
            let end = format!("{fault:?}: {}, {}", end.0, end.1);
            assert!(ends.contains_key(&end), "no {end} among {ends:#?}");
        }
    }
}
