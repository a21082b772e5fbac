//! What every dialect must keep: stories by seeds, each with a plan, a network and a fault, judged by what
//! both ends say at their end.

use std::collections::BTreeMap;
use std::ops::Range;

use linerate_dialect::habits::Habits;
use linerate_dialect::{Conversation, Over, Whose};
use linerate_model::plan::{
    Direction, End, IpVersion, RrPlan, TcpPlan, TestPlan, Traffic, Transport, UdpPlan,
};
use linerate_model::record::{RunRecord, Status};
use linerate_model::sample::{RecvReport, SendReport};
use linerate_model::units::{BitRate, DatagramSize, Nanos, Rate};
use linerate_session::assemble::{self, HostSamples, Outcome, StreamOutcome};
use linerate_session::clock::ClockOffset;
use linerate_session::sender::Quota;
use linerate_wire::framing::Framing;

use super::chance::Chance;
use super::network::{Network, Truth};
use super::script::{Fault, Place, Script};
use super::{Ending, World};
use crate::{plans, records};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// The owner's longest test, in nanoseconds.
pub const LONGEST_NS: u64 = 60 * SECOND;
/// A test in which nothing moves for so long ends, in nanoseconds.
pub const IDLE_NS: u64 = 20 * SECOND;

/// A dialect, as the suite needs it.
pub trait Dialect {
    /// One end.
    type Client: Conversation;
    /// The other end.
    type Server: Conversation;
    /// What its data threads do differently.
    const HABITS: Habits;
    /// Streams are answered as they come, and not when their threads start.
    const ANSWERS_AT_ONCE: bool;
    /// A receiver reports which datagrams came twice, and which late.
    const REPORTS_DOUBLES: bool;
    /// From the fault, or else from the planned end, until both ends are over, in nanoseconds.
    const PATIENCE_NS: u64;

    /// It has a control connection, and so what may go wrong with one.
    const CONTROLS: bool = true;
    /// A server reports the bytes of streams over TCP.
    const REPORTS_BYTES: bool = true;

    /// Bytes by which an end's totals of a stream may be off: they are rounded.
    const ROUNDED_BYTES: u64 = 0;

    /// A server reports each stream by itself, and not all together.
    const REPORTS_STREAMS: bool = true;

    /// It has tests of requests and responses.
    const ASKS: bool = false;

    /// Its client asks, and says nothing more: whether it is read does not matter.
    const CLIENT_IS_SILENT: bool = false;

    /// What it can do of a plan.
    fn fit(plan: &mut TestPlan);

    /// What the server's senders make of it.
    fn of_server(plan: &TestPlan) -> TestPlan {
        plan.clone()
    }

    /// The marks of a stream's datagrams.
    fn framing(stream: u16) -> Framing;

    /// Both ends of a test that was agreed on, each at a time of its own clock.
    fn ends(plan: &TestPlan, client_ns: u64, server_ns: u64) -> (Self::Client, Self::Server);

    /// How the client ended; at a time of its clock.
    fn client_end(client: Self::Client, now_ns: u64) -> ClientEnd;

    /// How the server ended: "done", or otherwise; `None` where it did not.
    fn server_end(server: &Self::Server) -> Option<String>;

    /// Ends that a fault may have at the client beside [`clients`].
    fn more_clients(_fault: Fault) -> &'static [&'static str] {
        &[]
    }

    /// Ends that a fault may have at the server beside [`servers`].
    fn more_servers(_fault: Fault) -> &'static [&'static str] {
        &[]
    }
}

/// How a client ended.
pub enum ClientEnd {
    /// It did not.
    Gone,
    /// Nothing was measured, and why.
    None(&'static str),
    /// Some of the figures are missing, and why.
    Part(&'static str),
    /// All figures of a test that ended in time or early.
    Figures(Box<Figures>),
}

/// Of both ends.
pub struct Figures {
    /// "whole", or what ended the test early.
    pub end: &'static str,
    /// Of all streams.
    pub streams: Vec<StreamOutcome>,
    /// The server's clock, where the dialect asks.
    pub clock: Option<ClockOffset>,
    /// Of the server's host.
    pub server: HostSamples,
}

/// How a client may end; which of them depends on when the fault strikes.
pub fn clients(fault: Fault) -> &'static [&'static str] {
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
        Fault::DataReset => &["part, broken", "part, the server's", "whole"],
        // All was said before it, while data was still under way.
        Fault::Cut => {
            &["part, broken", "part, the server's", "none, the server's", "none, its own", "whole"]
        }
        _ => &["part, the server's", "none, the server's", "none, its own", "whole"],
    }
}

/// How a server may end.
pub fn servers(fault: Fault) -> &'static [&'static str] {
    match fault {
        Fault::None => &["done"],
        Fault::Killed(Place::Server) | Fault::Gone(Place::Server) => &["gone", "done"],
        // A client that has all its figures says goodbye, and is not stopped any more.
        Fault::Stopped(Place::Client) => &["Stopped", "done"],
        Fault::Stopped(Place::Server) | Fault::Over(_) => &["Cut", "done"],
        Fault::DeadThread(Place::Server) | Fault::Garbage(Place::Server) => &["Failed", "done"],
        Fault::NoStream => &["Vanished"],
        Fault::DataReset => &["Failed", "Vanished", "done"],
        _ => &["Vanished", "done"],
    }
}

const FAULTS: [Fault; 27] = [
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
    Fault::DataReset,
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
    Fault::Over(Over::Day(Whose::Key)),
    Fault::Unread(Place::Client),
    Fault::Unread(Place::Server),
    Fault::Slow(Place::Client),
    Fault::Slow(Place::Server),
];

/// Any plan of datagrams.
fn plan(chance: &mut Chance) -> Option<TestPlan> {
    let streams = 1 + chance.below(4);
    let rate = Rate::Datagrams((streams * (20 + chance.below(200))).try_into().ok()?);
    let end = match chance.below(4) {
        0 => End::Datagrams(1 + chance.below(300)),
        1 => End::Bytes(1 + chance.below(10_000)),
        _ => End::Time(Nanos(300 * MS + chance.below(1_700 * MS))),
    };
    let udp = UdpPlan {
        size: DatagramSize::new(u32::try_from(32 + chance.below(1_000)).ok()?)?,
        rate: Some(rate),
        ..plans::udp()
    };
    // At the slowest, a block of the largest leaves in a tenth of a second.
    let rate = BitRate::new(2_000_000 + chance.below(20_000_000)).filter(|_| chance.one_in(2));
    let block = u32::try_from(1_000 + chance.below(20_000)).ok()?;
    let tcp = TcpPlan { block, rate, ..plans::tcp() };
    let (traffic, end) = match (chance.one_in(3), end) {
        (true, End::Datagrams(n)) => (Traffic::Tcp(tcp), End::Bytes(n * 1_000)),
        (true, end) => (Traffic::Tcp(tcp), end),
        (false, end) => (Traffic::Udp(udp), end),
    };
    let directions = [Direction::Forward, Direction::Reverse, Direction::Both];
    Some(TestPlan {
        direction: *chance.of(&directions)?,
        streams: u16::try_from(streams).ok()?,
        end,
        warmup: Nanos(chance.below(3) * 100 * MS),
        ..plans::plan(traffic)
    })
}

/// Runs the stories of all `seeds` and gives how often each end was met.
///
/// # Panics
/// At the first story that breaks a rule, with its seed and all that happened in it.
pub fn hold<D: Dialect>(seeds: Range<u64>) -> BTreeMap<String, u64> {
    let all = seeds.end.saturating_sub(seeds.start) >= 5_000;
    let mut ends = BTreeMap::<String, u64>::new();
    for seed in seeds {
        let story = std::panic::catch_unwind(|| story::<D>(seed));
        // A conversation that panics knows no seed.
        let (fault, client, server) = story.unwrap_or_else(|_| panic!("LINERATE_SEED={seed}"));
        *ends.entry(format!("{fault:?}: {client}, {server}")).or_default() += 1;
    }
    let of_control = |fault: &Fault| {
        matches!(fault, Fault::Reset | Fault::Garbage(_) | Fault::Unread(_) | Fault::Slow(_))
    };
    let can = |fault: &Fault| D::CONTROLS || !of_control(fault);
    for fault in FAULTS.into_iter().filter(|fault| all && can(fault)) {
        let strikes = |(end, _): (&String, &u64)| {
            end.starts_with(&format!("{fault:?}: "))
                // Who says little may have a peer that reads slowly.
                && (matches!(fault, Fault::None | Fault::Slow(_))
                    || (D::CLIENT_IS_SILENT && fault == Fault::Unread(Place::Server))
                    || !end.ends_with(": whole, done"))
        };
        assert!(ends.iter().any(strikes), "{fault:?} has no effect among {ends:#?}");
    }
    ends
}

/// One seed's story, judged: how it ended at the client and at the server.
fn story<D: Dialect>(seed: u64) -> (Fault, &'static str, String) {
    let mut chance = Chance::new(seed);
    let mut plan = plan(&mut chance).expect("a legal plan");
    if chance.one_in(6) && D::ASKS {
        let rr = RrPlan {
            transport: *chance.of(&[Transport::Tcp, Transport::Udp]).unwrap_or(&Transport::Tcp),
            request: u32::try_from(1 + chance.below(2_000)).unwrap_or(1),
            response: u32::try_from(1 + chance.below(2_000)).unwrap_or(1),
            outstanding: 1,
            rate: None,
        };
        let is_udp = rr.transport == Transport::Udp;
        (plan.traffic, plan.direction) = (Traffic::Rr(rr), Direction::Forward);
        if plan.duration().is_none() {
            // Each takes a round trip, or the time after which it is lost.
            plan.end = End::Datagrams(1 + chance.below(if is_udp { 8 } else { 100 }));
        }
    }
    D::fit(&mut plan);
    let most_jitter = *chance.of(&[5 * MS, 40 * MS]).unwrap_or(&MS);
    let network = Network {
        delay_ns: chance.below(50 * MS),
        // Where it is longer than from one datagram to the next, they overtake each other.
        jitter_ns: chance.below(most_jitter),
        loses_one_in: *chance.of(&[0, 3, 10, 100]).unwrap_or(&0),
        doubles_one_in: *chance.of(&[0, 10]).unwrap_or(&0),
    };
    let strikes = chance.below(3 * SECOND);
    let fault = *chance.of(&FAULTS).unwrap_or(&Fault::None);
    let (client_clock, server_clock) = (chance.below(1 << 50), chance.below(1 << 50));
    let (mut client, mut server) = D::ends(&plan, client_clock, server_clock);
    let script = Script {
        plans: [plan.clone(), D::of_server(&plan)],
        framing: D::framing,
        habits: D::HABITS,
        answers_at_once: D::ANSWERS_AT_ONCE,
        network,
        fault: (strikes, fault),
    };
    let ends = ((&mut client as _, client_clock), (&mut server as _, server_clock));
    let ending = World::new(script, chance, ends.0, ends.1).run();
    let ending = ending.unwrap_or_else(|why| panic!("seed {seed}, {fault:?}: {why}"));
    let Ending { at_ns, offset_ns, truth, shown, struck, story } = ending;
    let why = |what: &str| format!("seed {seed}, {fault:?}: {what}\n{plan:#?}\n{story:#?}");

    // No end hangs past its limits.
    let planned = plan.duration().map_or(30 * SECOND, |d| d.0) + plan.warmup.0;
    let most = planned + if struck { strikes } else { 0 } + D::PATIENCE_NS;
    assert!(at_ns < most, "{}", why(&format!("it lasted {at_ns} ns")));
    // Rows come in order, and each once.
    let in_order = shown.windows(2).all(|pair| pair.first() < pair.last());
    assert!(in_order, "{}", why(&format!("rows {shown:?}")));

    let client = match D::client_end(client, client_clock.wrapping_add(at_ns)) {
        // Whoever runs the client makes a partial test of it.
        ClientEnd::Figures(all) if all.end == "whole" && all.streams.iter().any(broke) => {
            ClientEnd::Part("part, broken")
        }
        client => client,
    };
    let server_end = D::server_end(&server).unwrap_or_else(|| "gone".into());
    let client_end = match &client {
        ClientEnd::Gone => "gone",
        ClientEnd::None(end) | ClientEnd::Part(end) => end,
        ClientEnd::Figures(figures) => figures.end,
    };
    let of_client = [clients(fault), D::more_clients(fault)].concat().contains(&client_end);
    let of_server = [servers(fault), D::more_servers(fault)].concat();
    let of_server = of_server.contains(&server_end.as_str());
    assert!(of_client && of_server, "{}", why(&format!("{client_end}, {server_end}")));
    if fault == Fault::None || !struck {
        assert_eq!((client_end, server_end.as_str()), ("whole", "done"), "{}", why(""));
    }
    if let ClientEnd::Figures(figures) = client {
        if let Some(clock) = figures.clock.filter(|_| client_end == "whole") {
            let wrong = clock.offset_ns.abs_diff(offset_ns);
            assert!(wrong <= clock.error_ns, "{}", why(&format!("{clock:?}, {offset_ns}")));
        }
        check::<D>(&plan, *figures, &truth, &why);
    }
    (fault, client_end, server_end)
}

/// Whether a thread of either end could not go on.
fn broke(stream: &StreamOutcome) -> bool {
    let StreamOutcome { send, recv, rr, respond, .. } = stream;
    let errors = [
        send.as_ref().and_then(|r| r.error.as_ref()),
        recv.as_ref().and_then(|r| r.error.as_ref()),
        rr.as_ref().and_then(|r| r.error.as_ref()),
        respond.as_ref().and_then(|r| r.error.as_ref()),
    ];
    errors.iter().any(Option::is_some)
}

/// What was asked was answered, but for what was under way at the end and in the warm-up.
fn check_rr(
    (plan, rr): (&TestPlan, &RrPlan),
    (stream, whole): (&StreamOutcome, bool),
    truth: &Truth,
    why: &dyn Fn(&str) -> String,
) {
    let (transport, wanted) = (rr.transport, Quota::transactions(plan, stream.index));
    let (Some(rr), Some(respond)) = (&stream.rr, &stream.respond) else {
        panic!("{}", why("an end did not report"));
    };
    assert!(rr.transactions <= respond.answered, "{}", why("answers"));
    assert!(rr.unfinished <= 1, "{}", why("unfinished"));
    let asked = rr.transactions + rr.unanswered + rr.unfinished;
    if let Some(wanted) = wanted.filter(|_| whole) {
        assert_eq!(asked, wanted, "{}", why("the quota"));
    }
    if transport == Transport::Tcp {
        assert_eq!(rr.unanswered, 0, "{}", why("unanswered"));
        return;
    }
    // What entered the network was a request or the answer to one.
    let requests = truth.sent.checked_sub(respond.answered);
    let requests = requests.unwrap_or_else(|| panic!("{}", why("answers without a request")));
    let of_warmup = requests.checked_sub(asked);
    let of_warmup = of_warmup.unwrap_or_else(|| panic!("{}", why("requests that were not sent")));
    assert!(plan.warmup.0 > 0 || of_warmup == 0, "{}", why("requests"));
    let arrived = truth.delivered.len() as u64 + truth.doubled;
    assert!(arrived >= respond.answered + rr.transactions, "{}", why("arrivals"));
}

/// The same of a stream of bytes.
fn check_bytes<D: Dialect>(
    (whole, reverse): (bool, bool),
    (send, recv): (&SendReport, &RecvReport),
    truth: &Truth,
    why: &dyn Fn(&str) -> String,
) {
    let sent = send.counts.bytes + send.warmup;
    let received = recv.counts.bytes + recv.warmup;
    // What a server says of all streams together is of a whole test alone known of each.
    let [client, server] = [true, whole || D::REPORTS_STREAMS];
    let (sends, receives) = if reverse { (server, client) } else { (client, server) };
    let near = |a: u64, b: u64| a.abs_diff(b) <= D::ROUNDED_BYTES;
    assert!(!sends || near(sent, truth.written), "{}", why("written"));
    assert!(!receives || near(received, truth.taken), "{}", why("taken"));
    if whole && D::HABITS.exact_bytes {
        assert_eq!(sent, received, "{}", why("bytes"));
    }
}

/// The same where the border of the warm-up is each end's own, so that what is on its way then is of either side: what
/// the client saw itself is exact.
fn check_blurred(
    (plan, index, whole): (&TestPlan, u16, bool),
    stream: &StreamOutcome,
    (send, recv): (&SendReport, &RecvReport),
    truth: &Truth,
    why: &dyn Fn(&str) -> String,
) {
    if matches!(plan.traffic, Traffic::Tcp(_)) {
        if stream.reverse {
            let all = recv.counts.bytes + recv.warmup;
            assert_eq!(all, truth.taken, "{}", why("taken"));
            assert!(!whole || send.counts.bytes <= truth.written, "{}", why("written"));
        } else {
            let all = send.counts.bytes + send.warmup;
            assert_eq!(all, truth.written, "{}", why("written"));
            assert!(!whole || recv.counts.bytes <= truth.taken, "{}", why("taken"));
        }
        return;
    }
    let taken = (truth.delivered.len() + truth.warm_delivered.len()) as u64;
    if stream.reverse {
        // One that is late at the border has no place in either account.
        let all = recv.counts.datagrams + recv.warmup + recv.counts.late + recv.unknown_late;
        assert!(all >= taken && all <= taken + truth.doubled + truth.warm_sent, "{}", why("taken"));
        let both = send.counts.datagrams + recv.warmup_expected;
        assert!(!whole || both == truth.sent + truth.warm_sent, "{}", why("sent"));
        return;
    }
    assert_eq!(send.counts.datagrams, truth.sent, "{}", why("sent"));
    assert_eq!(send.warmup, truth.warm_sent, "{}", why("sent in the warm-up"));
    assert!(!whole || recv.counts.datagrams <= taken + truth.doubled, "{}", why("received"));
    if let (Some(full), true) = (Quota::datagrams(plan, size(plan), index).full, whole) {
        assert_eq!(truth.sent, full, "{}", why("the quota"));
    }
}

/// Of a plan's datagrams.
fn size(plan: &TestPlan) -> DatagramSize {
    match &plan.traffic {
        Traffic::Udp(udp) => udp.size,
        Traffic::Tcp(_) | Traffic::Rr(_) => plans::udp().size,
    }
}

/// What both ends reported is what the network saw, and the record holds together.
fn check<D: Dialect>(
    plan: &TestPlan,
    figures: Figures,
    truth: &BTreeMap<u16, Truth>,
    why: &dyn Fn(&str) -> String,
) {
    let whole = figures.end == "whole";
    let ids = linerate_dialect::stream::streams(plan.direction, plan.streams);
    assert_eq!(figures.streams.len(), ids.len(), "{}", why("an outcome of each stream"));
    for (id, stream) in ids.iter().zip(&figures.streams) {
        let none = Truth::default();
        let truth = truth.get(&id.stream).unwrap_or(&none);
        if let Traffic::Rr(rr) = &plan.traffic {
            check_rr((plan, rr), (stream, whole), truth, why);
            continue;
        }
        if matches!(plan.traffic, Traffic::Tcp(_)) && !D::REPORTS_BYTES {
            let near = |send: &SendReport| (send.counts.bytes, truth.written);
            let (near, seen) = match (&stream.send, &stream.recv) {
                (Some(send), None) if !stream.reverse => near(send),
                (None, Some(recv)) if stream.reverse => (recv.counts.bytes, truth.taken),
                _ => panic!("{}", why("one end alone reports")),
            };
            assert_eq!(near, seen, "{}", why("bytes of one end"));
            continue;
        }
        let (Some(send), Some(recv)) = (&stream.send, &stream.recv) else {
            panic!("{}", why("an end did not report"));
        };
        if D::HABITS.warm_by_time && plan.warmup.0 > 0 {
            check_blurred((plan, id.index, whole), stream, (send, recv), truth, why);
            continue;
        }
        let Traffic::Udp(udp) = &plan.traffic else {
            check_bytes::<D>((whole, stream.reverse), (send, recv), truth, why);
            continue;
        };
        let numbered = D::HABITS.numbered;
        // Without numbers a copy is one more arrival.
        let copies = if numbered { 0 } else { truth.doubled };
        let arrived = truth.delivered.len() as u64 + copies;
        assert_eq!(send.counts.datagrams, truth.sent, "{}", why("sent"));
        assert_eq!(recv.counts.datagrams, arrived, "{}", why("received"));
        if D::REPORTS_DOUBLES && numbered {
            assert_eq!(recv.counts.duplicates, truth.doubled, "{}", why("duplicates"));
            assert_eq!(recv.counts.reordered, truth.reordered, "{}", why("reordered"));
            // A story has fewer datagrams than a receiver's window.
            assert_eq!(recv.counts.late, 0, "{}", why("late"));
        }
        if whole {
            assert_eq!(recv.counts.lost, truth.sent.saturating_sub(arrived), "{}", why("lost"));
            assert_eq!(recv.counts.expected, truth.sent.max(arrived), "{}", why("expected"));
            let plan = if stream.reverse { &D::of_server(plan) } else { plan };
            let quota = Quota::datagrams(plan, udp.size, id.index);
            let tails = quota.tail.iter().filter(|length| **length > 0).count() as u64;
            let full = quota.full.map_or(truth.sent, |full| full + tails);
            assert_eq!(truth.sent, full, "{}", why("the quota"));
        }
    }
    let outcome = Outcome {
        plan: plan.clone(),
        ip: IpVersion::V4,
        streams: figures.streams,
        client: HostSamples::default(),
        server: figures.server,
        clock: figures.clock,
        same_host: false,
        habits: D::HABITS,
        discard: false,
        fragments: false,
        complete: whole,
    };
    let status = if whole { Status::Complete } else { Status::Partial };
    let record = assemble::assemble(RunRecord { status, ..records::empty("udp") }, &outcome);
    assert_ne!(record.status, Status::Invalid, "{}", why(&format!("{:?}", record.error)));
}
