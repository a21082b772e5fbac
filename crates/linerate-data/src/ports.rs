//! Data threads over ports that are no sockets, and over engines that cannot go on.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU8;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use linerate_dialect::habits;
use linerate_engine::datagram::memory::Memory;
use linerate_engine::datagram::{
    self, Arrivals, Capabilities, Config, Counters, DatagramPort, Engine, SendBatch, Slot, Stamps,
    Taken,
};
use linerate_engine::{clock, sys};
use linerate_host::thread::usage;
use linerate_model::plan::{
    AgreedPlan, Direction, End, EngineChoice, RrPlan, TestPlan, Traffic, Transport, UdpPlan,
};
use linerate_model::sample::{RecvReport, SendReport};
use linerate_model::units::Nanos;
use linerate_testkit::plans;
use linerate_wire::framing::{Framing, Mark};
use tokio::sync::mpsc;

use super::{
    Carrier, Context, Early, Report, Role, Shared, Streams, rr, streams, udp_recv, udp_send,
};
use crate::alone::{Alone, of_an_hour, udp_pair};

/// No step takes as long, on any machine.
const HANGS: Duration = Duration::from_secs(60);
const COUNT: u64 = 3_000;

/// Cannot be opened.
struct Closed(&'static str);

impl Engine for Closed {
    fn name(&self) -> &'static str {
        self.0
    }

    fn open(&self, _: &Config, _: &datagram::Context) -> io::Result<Box<dyn DatagramPort>> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Opens, and refuses trains of more than `takes`, as Linux before 6.9 does those of more than 64; where that is 0, everything.
/// Keeps of how many the datagrams that it takes say that their train is.
struct Refuses {
    name: &'static str,
    engine: &'static dyn Engine,
    /// Longest train before it has refused one.
    train: usize,
    takes: usize,
    longest: Arc<AtomicU64>,
}

impl Engine for Refuses {
    fn name(&self) -> &'static str {
        self.name
    }

    fn open(&self, config: &Config, at: &datagram::Context) -> io::Result<Box<dyn DatagramPort>> {
        let Self { train, takes, .. } = *self;
        let (port, longest) = (self.engine.open(config, at)?, Arc::clone(&self.longest));
        Ok(Box::new(RefusesPort { port, train, takes, longest }))
    }
}

struct RefusesPort {
    port: Box<dyn DatagramPort>,
    train: usize,
    takes: usize,
    longest: Arc<AtomicU64>,
}

impl DatagramPort for RefusesPort {
    fn capabilities(&self) -> Capabilities {
        Capabilities { max_batch: 1_024, max_train: self.train, ..self.port.capabilities() }
    }

    fn send(&mut self, batch: &SendBatch<'_>) -> io::Result<Taken> {
        if batch.train > self.takes {
            self.train = if self.takes > 0 { self.takes } else { self.train };
            return Err(io::ErrorKind::Unsupported.into());
        }
        let first = Framing::Native { token: 1, stream: 0 }.read(batch.bytes).expect("a header");
        self.longest.fetch_max(first.train.get().into(), Ordering::Relaxed);
        let mut datagrams = 0;
        for bytes in batch.bytes.chunks(16 * batch.segment) {
            datagrams += self.port.send(&SendBatch { bytes, ..*batch })?.datagrams;
        }
        Ok(Taken { datagrams })
    }

    fn recv(&mut self) -> io::Result<Arrivals<'_>> {
        self.port.recv()
    }

    fn wait_readable(&mut self, until_ns: Option<u64>, now_ns: u64) -> bool {
        self.port.wait_readable(until_ns, now_ns)
    }

    fn counters(&self) -> Counters {
        self.port.counters()
    }

    fn is_refusal(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::Unsupported
    }
}

/// Keeps what its ports were asked for.
struct Asked(&'static dyn Engine, Mutex<Vec<Config>>);

impl Engine for Asked {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn open(&self, config: &Config, at: &datagram::Context) -> io::Result<Box<dyn DatagramPort>> {
        self.1.lock().expect("no panic").push(config.clone());
        self.0.open(config, at)
    }
}

fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn plan(traffic: Traffic) -> Arc<AgreedPlan> {
    let (end, interval) = (End::Datagrams(COUNT), Nanos::from_secs(1));
    let plan = TestPlan { end, interval, ..plans::plan(traffic) };
    Arc::new(AgreedPlan { plan, cuts: vec![] })
}

/// One end of the only stream.
fn end(agreed: &Arc<AgreedPlan>, role: Role, shared: &Arc<Shared>) -> Context {
    let id = streams(agreed.plan.direction, 1)[0];
    Streams::of_one(agreed).context((id, role), shared, &mpsc::unbounded_channel().0)
}

/// Where the two ends' ports are opened, with the engines of each.
fn places(near: &[&'static dyn Engine], far: &[&'static dyn Engine]) -> [datagram::Context; 2] {
    let [a, b] = [1, 2].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let place = |local, remote, engines: &[&'static dyn Engine]| datagram::Context {
        socket: None,
        local,
        remote,
        core: None,
        engines: Vec::leak(engines.to_vec()),
    };
    [place(a, b, near), place(b, a, far)]
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>, what: &str) -> T {
    let until = Instant::now() + HANGS;
    while !thread.is_finished() {
        assert!(Instant::now() < until, "{what} goes on");
        std::thread::sleep(Duration::from_millis(2));
    }
    thread.join().expect("no panic")
}

fn udp(rate: &str) -> Arc<AgreedPlan> {
    plan(Traffic::Udp(UdpPlan {
        size: serde_json::from_str("200").expect("a size"),
        rate: serde_json::from_str(rate).expect("a rate"),
        burst: Nanos(1_000_000),
        engine: EngineChoice::Gso,
        checksum: true,
    }))
}

/// What a sender and a receiver at its far end say of a test of theirs.
fn carried(
    agreed: &Arc<AgreedPlan>,
    sends: &[&'static dyn Engine],
    receives: &[&'static dyn Engine],
) -> (SendReport, RecvReport) {
    let [near, far] = places(sends, receives);
    let (client, server) = (Shared::new(1), Shared::new(1));
    std::thread::scope(|scope| {
        let receiver = end(agreed, Role::Receive, &server);
        let receiver = scope.spawn(move || udp_recv::run(&receiver, far, None));
        let sender = end(agreed, Role::Send, &client);
        let sender = scope.spawn(move || udp_send::run(&sender, near, None));
        client.start(clock::monotonic_ns());
        let sent = joined(sender, "the sender");
        server.peer_sent(0, sent.counts.datagrams);
        (sent, joined(receiver, "the receiver"))
    })
}

#[test]
fn each_end_goes_on_with_what_it_has() {
    for rate in ["null", r#"{"datagrams":50000}"#] {
        let memory = leaked(Memory::new(Stamps::Absent("no clock".into())));
        let longest = Arc::default();
        let refuses = Refuses { name: "mmsg", engine: memory, train: 8, takes: 0, longest };
        let sends: [&'static dyn Engine; 3] = [&Closed("gso"), leaked(refuses), memory];
        let receives: [&'static dyn Engine; 3] = [&Closed("gso"), &Closed("mmsg"), memory];
        let (sent, received) = carried(&udp(rate), &sends, &receives);
        assert_eq!((sent.error, received.error), (None, None));
        assert_eq!(sent.engines, ["mmsg", "memory"]);
        let why = sent.fallback.expect("a reason");
        assert!(why.contains("gso could not be opened: permission denied"), "{why}");
        assert!(why.ends_with("mmsg was refused: unsupported"), "{why}");
        assert_eq!(sent.train, 1);
        assert_eq!(received.engine, "memory");
        let why = received.fallback.expect("a reason");
        assert!(why.contains("gso could") && why.contains("mmsg could"), "{why}");
        // All of it fits into the queue, however late the receiver gets a core.
        assert_eq!(sent.counts.datagrams, COUNT);
        assert_eq!(received.counts.datagrams, COUNT);
        assert_eq!((received.counts.lost, received.counts.socket_drops), (0, 0));
        // Times of reading take the place of stamps.
        assert_eq!(received.unstamped.as_deref(), Some("no clock"));
        assert_eq!(received.timestamp_faults, 0);
        assert!(received.jitter_ns.is_some() && received.delay_variation.is_some());
    }
}

/// Or a receiver would take none of them for whole, and could not tell drops of its own from those of the path.
#[test]
fn datagrams_say_how_long_the_trains_are_that_an_older_kernel_takes() {
    let memory = leaked(Memory::new(Stamps::Monotonic));
    let longest = Arc::<AtomicU64>::default();
    let (train, takes) = (128, 64);
    let older = Refuses { name: "gso", engine: memory, train, takes, longest: longest.clone() };
    let (sent, received) = carried(&udp("null"), &[leaked(older)], &[memory]);
    assert_eq!((sent.error, received.error), (None, None));
    assert_eq!((sent.train, longest.load(Ordering::Relaxed)), (64, 64));
    assert_eq!((sent.engines, sent.fallback), (vec!["gso".to_owned()], None));
    assert_eq!((sent.counts.datagrams, sent.counts.refused_locally), (COUNT, 0));
    assert_eq!(received.counts.datagrams, COUNT);
}

#[test]
fn what_came_before_the_socket_was_there_has_no_delay_beside_stamps() {
    for (stamps, has_delay) in
        [(Stamps::Monotonic, false), (Stamps::Absent("no clock".into()), true)]
    {
        let memory = leaked(Memory::new(stamps));
        let [_, far] = places(&[memory], &[memory]);
        let mark =
            Mark { number: 0, sent_ns: 1_000, warmup: false, position: 0, train: NonZeroU8::MIN };
        let mut bytes = vec![0; 200];
        Framing::Native { token: 1, stream: 0 }.write(&mark, &mut bytes);
        let shared = Shared::new(1);
        let context = end(&udp("null"), Role::Receive, &shared);
        let context = context.after(vec![Early { bytes, at_ns: 5_000 }]);
        shared.start(1);
        shared.peer_sent(0, 1);
        let received = udp_recv::run(&context, far, None);
        assert_eq!((received.error, received.counts.datagrams), (None, 1));
        assert_eq!(received.timestamp_faults, 0);
        assert_eq!(received.least_transit_ns.is_some(), has_delay);
    }
}

#[test]
fn an_end_without_any_engine_says_what_each_of_them_lacked() {
    let none: [&'static dyn Engine; 2] = [&Closed("gso"), &Closed("mmsg")];
    let [near, far] = places(&none, &none);
    let (agreed, shared) = (udp("null"), Shared::new(1));
    let sent = udp_send::run(&end(&agreed, Role::Send, &shared), near, None);
    let received = udp_recv::run(&end(&agreed, Role::Receive, &shared), far, None);
    for error in [sent.error, received.error].map(|error| error.expect("an error")) {
        assert!(error.starts_with("no engine is left: gso could not be opened"), "{error}");
        assert!(error.contains("mmsg could not be opened"), "{error}");
    }
}

#[test]
fn requests_and_answers_need_no_socket_either() {
    for rate in [None, Some(20_000)] {
        let memory = leaked(Asked(leaked(Memory::new(Stamps::Monotonic)), Mutex::default()));
        let [near, far] = places(&[memory], &[memory]);
        let transport = Transport::Udp;
        let rr = RrPlan { transport, request: 20, response: 30, outstanding: 1, rate };
        let mut agreed = AgreedPlan::clone(&plan(Traffic::Rr(rr)));
        (agreed.plan.dscp, agreed.plan.window) = (Some(46), Some(100_000));
        let agreed = Arc::new(agreed);
        let (client, server) = (Shared::new(1), Shared::new(1));
        let (asked, answered) = std::thread::scope(|scope| {
            let answers = end(&agreed, Role::Respond, &server);
            let answers = scope.spawn(move || rr::respond(&answers, Carrier::Datagrams(far, None)));
            let asks = end(&agreed, Role::Request, &client);
            let asks = scope.spawn(move || rr::request(&asks, Carrier::Datagrams(near, None)));
            client.start(clock::monotonic_ns());
            let asked = joined(asks, "who asks");
            server.stop();
            (asked, joined(answers, "who answers"))
        });
        assert_eq!((asked.error, answered.error), (None, None));
        assert_eq!(asked.transactions + asked.unanswered, COUNT);
        let asked_for = memory.1.lock().expect("no panic");
        assert_eq!(asked_for.len(), 2);
        for config in asked_for.iter() {
            assert_eq!((config.dscp, config.receive_buffer), (Some(46), Some(100_000)));
        }
        // One that waited for longer than a second may be answered and not counted.
        assert!(answered.answered >= asked.transactions && asked.transactions > 0);
    }
}

/// All marks of its client's end may be lost.
#[test]
fn who_answers_as_many_as_netperfs_client_asks_for_ends_with_the_last() {
    let (peer, socket) = udp_pair();
    peer.set_read_timeout(Some(HANGS)).expect("a time");
    let mut of = of_an_hour(Traffic::Rr(plans::rr(Transport::Udp)), Direction::Forward);
    let plan = TestPlan { end: End::Datagrams(3), ..of.agreed.plan.clone() };
    (of.agreed, of.habits) = (Arc::new(AgreedPlan { plan, cuts: vec![] }), habits::NETPERF);
    let answers = Alone::start(&of, Shared::new(1), Role::Respond, socket);
    for _ in 0..3 {
        peer.send(&[0]).expect("a request");
        assert_eq!(peer.recv(&mut [0; 2]).expect("a response"), 1);
    }
    let Report::Respond(report) = answers.ends() else { panic!("who answers") };
    assert_eq!((report.answered, report.error), (3, None));
}

/// Counts what is sent without a look at what came: in a row now, and at the most.
struct Counted(&'static dyn Engine, Arc<[AtomicU64; 2]>);

struct CountedPort(Box<dyn DatagramPort>, Arc<[AtomicU64; 2]>);

impl Engine for Counted {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn open(&self, config: &Config, at: &datagram::Context) -> io::Result<Box<dyn DatagramPort>> {
        Ok(Box::new(CountedPort(self.0.open(config, at)?, Arc::clone(&self.1))))
    }
}

impl DatagramPort for CountedPort {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn send(&mut self, batch: &SendBatch<'_>) -> io::Result<Taken> {
        let in_a_row = self.1[0].fetch_add(1, Ordering::Relaxed) + 1;
        self.1[1].fetch_max(in_a_row, Ordering::Relaxed);
        self.0.send(batch)
    }

    fn recv(&mut self) -> io::Result<Arrivals<'_>> {
        self.0.recv()
    }

    fn wait_readable(&mut self, until_ns: Option<u64>, now_ns: u64) -> bool {
        self.1[0].store(0, Ordering::Relaxed);
        self.0.wait_readable(until_ns, now_ns)
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

#[test]
fn who_asks_too_late_reads_what_was_answered_all_the_same() {
    let memory = leaked(Memory::new(Stamps::Monotonic));
    let counted = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let [near, far] = places(&[leaked(Counted(memory, Arc::clone(&counted)))], &[memory]);
    // All of them are due at once.
    let rate = Some(1_000_000_000);
    let rr = RrPlan { rate, request: 20, response: 30, ..plans::rr(Transport::Udp) };
    let agreed = plan(Traffic::Rr(rr));
    let (client, server) = (Shared::new(1), Shared::new(1));
    let asked = std::thread::scope(|scope| {
        let answers = end(&agreed, Role::Respond, &server);
        scope.spawn(move || rr::respond(&answers, Carrier::Datagrams(far, None)));
        let asks = end(&agreed, Role::Request, &client);
        let asks = scope.spawn(move || rr::request(&asks, Carrier::Datagrams(near, None)));
        client.start(clock::monotonic_ns());
        let asked = joined(asks, "who asks");
        server.stop();
        asked
    });
    assert_eq!((asked.error, asked.transactions + asked.unanswered), (None, COUNT));
    let most = counted[1].load(Ordering::Relaxed);
    assert!((1..=32).contains(&most), "{most} in a row");
}

/// What its receiving fails with first, one call after another.
struct Told(&'static dyn Engine, &'static [i32]);

struct ToldPort(Box<dyn DatagramPort>, std::slice::Iter<'static, i32>);

impl Engine for Told {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn open(&self, config: &Config, at: &datagram::Context) -> io::Result<Box<dyn DatagramPort>> {
        Ok(Box::new(ToldPort(self.0.open(config, at)?, self.1.iter())))
    }
}

impl DatagramPort for ToldPort {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn send(&mut self, batch: &SendBatch<'_>) -> io::Result<Taken> {
        self.0.send(batch)
    }

    fn recv(&mut self) -> io::Result<Arrivals<'_>> {
        match self.1.next() {
            Some(errno) => Err(io::Error::from_raw_os_error(*errno)),
            None => self.0.recv(),
        }
    }

    fn wait_readable(&mut self, until_ns: Option<u64>, now_ns: u64) -> bool {
        self.0.wait_readable(until_ns, now_ns)
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

/// As ICMP has it: connection refused, no route to the host, which a filter's REJECT says as well, permission denied,
/// protocol error, host is down.
#[test]
fn what_the_network_says_of_an_answer_ends_no_receiver() {
    static WORDS: [i32; 5] = [111, 113, 13, 71, 112];
    let memory = leaked(Memory::new(Stamps::Monotonic));
    let (sent, received) = carried(&udp("null"), &[memory], &[leaked(Told(memory, &WORDS))]);
    assert_eq!((sent.error, received.error), (None, None));
    assert_eq!(received.counts.datagrams, COUNT);
}

/// Its receiving, which is what a sender waits with, starts the test and then wants a core that another program has.
struct Kept(&'static dyn Engine, Arc<Shared>);

struct KeptPort(Box<dyn DatagramPort>, Arc<Shared>);

/// How long that wait was, in nanoseconds.
static KEPT_NS: AtomicU64 = AtomicU64::new(0);

impl Engine for Kept {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn open(&self, config: &Config, at: &datagram::Context) -> io::Result<Box<dyn DatagramPort>> {
        Ok(Box::new(KeptPort(self.0.open(config, at)?, Arc::clone(&self.1))))
    }
}

impl DatagramPort for KeptPort {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn send(&mut self, batch: &SendBatch<'_>) -> io::Result<Taken> {
        self.0.send(batch)
    }

    fn recv(&mut self) -> io::Result<Arrivals<'_>> {
        let thread = std::fs::read_link("/proc/thread-self")?;
        let thread = thread.file_name().unwrap_or_default().to_string_lossy();
        run("taskset", &["-cp", "0", &thread]);
        self.1.start(clock::monotonic_ns());
        let before = usage();
        let busy =
            ["-r", "1", "taskset", "-c", "0", "timeout", "0.2", "sh", "-c", "while :; do :; done"];
        let mut other = Command::new("chrt").args(busy).spawn()?;
        while other.try_wait()?.is_none() {
            std::hint::spin_loop();
        }
        let waited_ns = usage().since(before).ready_ns.unwrap_or(0);
        KEPT_NS.store(waited_ns, Ordering::Relaxed);
        self.0.recv()
    }

    fn wait_readable(&mut self, until_ns: Option<u64>, now_ns: u64) -> bool {
        self.0.wait_readable(until_ns, now_ns)
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

fn run(program: &str, args: &[&str]) {
    let _ = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Or a host that others keep busy would be reported as a sender that slept.
#[test]
fn a_sender_that_comes_late_to_the_start_has_waited_for_its_core() {
    let shared = Shared::new(1);
    let memory = leaked(Memory::new(Stamps::Monotonic));
    let [near, _] = places(&[leaked(Kept(memory, Arc::clone(&shared)))], &[memory]);
    let agreed = udp(r#"{"datagrams":50000}"#);
    let sender = end(&agreed, Role::Send, &shared);
    let sent = std::thread::scope(|scope| {
        joined(scope.spawn(move || udp_send::run(&sender, near, None)), "the sender")
    });
    assert_eq!(sent.error, None);
    let kept_ns = KEPT_NS.load(Ordering::Relaxed);
    let counted_ns = sent.thread.ready_ns.unwrap_or(0);
    assert!(counted_ns >= kept_ns, "{counted_ns} of {kept_ns} ns");
    // The other program has the core for 200 ms.
    if kept_ns < 50_000_000 {
        linerate_testkit::skip(
            "a_sender_that_comes_late_to_the_start_has_waited_for_its_core",
            "no other program may go before this one here, or the kernel does not count it",
        );
    }
}

#[test]
fn a_receivers_socket_is_ready_before_its_thread_has_a_core() {
    let near = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let socket = sys::udp_socket((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
    socket.connect(&near.local_addr().expect("bound").into()).expect("connected");
    let mut agreed = (*udp("null")).clone();
    agreed.plan.window = Some(100_000);
    let context = end(&Arc::new(agreed), Role::Receive, &Shared::new(1));
    let at = datagram::Context::of_socket(socket, None).expect("connected");
    crate::udp_recv::prepare(&context, &at);
    // As the kernel counts; without it what comes first would find the system's default.
    assert_eq!(at.socket.as_ref().map(|socket| sys::receive_buffer(&**socket)), Some(200_000));
}

/// Finds nothing in its second call and has no core until the interval is over, in which a datagram comes meanwhile. Keeps
/// when each of the two came.
struct Stalled(Arc<[AtomicU64; 2]>);

struct StalledPort {
    came_ns: Arc<[AtomicU64; 2]>,
    calls: u32,
    bytes: Vec<u8>,
    slots: [Slot; 1],
}

const STALLED_INTERVAL_NS: u64 = 100_000_000;

impl Engine for Stalled {
    fn name(&self) -> &'static str {
        "stalled"
    }

    fn open(&self, _: &Config, _: &datagram::Context) -> io::Result<Box<dyn DatagramPort>> {
        let came_ns = Arc::clone(&self.0);
        let (bytes, slots) = (vec![0; 200], [Slot::default()]);
        Ok(Box::new(StalledPort { came_ns, calls: 0, bytes, slots }))
    }
}

impl DatagramPort for StalledPort {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_batch: 1,
            max_train: 1,
            merges: false,
            stamps: Stamps::Monotonic,
            send_buffer: None,
            receive_buffer: Some(1 << 20),
        }
    }

    fn send(&mut self, _: &SendBatch<'_>) -> io::Result<Taken> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn recv(&mut self) -> io::Result<Arrivals<'_>> {
        self.calls += 1;
        let [first, second] = &*self.came_ns;
        let (number, came) = match self.calls {
            1 => {
                first.store(clock::monotonic_ns(), Ordering::Relaxed);
                (0, first)
            }
            2 => {
                second.store(clock::monotonic_ns(), Ordering::Relaxed);
                let over_ns = first.load(Ordering::Relaxed) + STALLED_INTERVAL_NS;
                while clock::monotonic_ns() <= over_ns {
                    clock::sleep_until(over_ns + 1);
                }
                return Err(io::ErrorKind::WouldBlock.into());
            }
            3 => (1, second),
            _ => return Err(io::ErrorKind::WouldBlock.into()),
        };
        let mark =
            Mark { number, sent_ns: 1_000, warmup: false, position: 0, train: NonZeroU8::MIN };
        Framing::Native { token: 1, stream: 0 }.write(&mark, &mut self.bytes);
        let stamp_ns = Some(came.load(Ordering::Relaxed));
        self.slots = [Slot { length: self.bytes.len(), stamp_ns, ..Slot::default() }];
        Ok(Arrivals::new(&self.bytes, &self.slots, false))
    }

    fn wait_readable(&mut self, _: Option<u64>, _: u64) -> bool {
        false
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

#[test]
fn what_comes_after_an_empty_call_belongs_to_the_interval_of_its_stamp() {
    let came_ns = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let stalled: [&'static dyn Engine; 1] = [leaked(Stalled(Arc::clone(&came_ns)))];
    let [_, far] = places(&stalled, &stalled);
    let mut agreed = (*udp("null")).clone();
    agreed.plan.interval = Nanos(STALLED_INTERVAL_NS);
    let shared = Shared::new(1);
    let context = end(&Arc::new(agreed), Role::Receive, &shared);
    shared.start(1);
    shared.peer_sent(0, 2);
    let received = udp_recv::run(&context, far, None);
    assert_eq!((received.error, received.counts.datagrams), (None, 2));
    let [first_ns, second_ns] = [0, 1].map(|at: usize| came_ns[at].load(Ordering::Relaxed));
    // The first, unless this thread had no core before that call either.
    let row = usize::try_from((second_ns - first_ns) / STALLED_INTERVAL_NS).expect("a row");
    let rows: Vec<u64> = received.intervals.iter().map(|row| row.counts.datagrams).collect();
    let mut wanted = vec![0; row + 1];
    wanted[0] += 1;
    wanted[row] += 1;
    assert_eq!(rows, wanted);
}
