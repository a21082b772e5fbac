//! A server and clients of this process, and whoever stands between them.

use std::io::{Read, Write, copy};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_model::plan::{Dialect, Direction, End, TestPlan, Traffic, Transport};
use linerate_model::record::{ErrorRecord, Interval, RunRecord, Status};
use linerate_model::served::{ServedResult, ServedTest};
use linerate_model::units::{BitRate, Nanos, Rate};
use linerate_runner::client::{Request, Target};
use linerate_runner::server::{Event, Options, serve};
use linerate_runner::signals::Stop;
use linerate_session::observer::Observer;
use linerate_testkit::identities::identities;
use linerate_testkit::plans;
use linerate_wire::native::PREAMBLE;
use linerate_wire::native::message::RefusalKind;
use serde_json::Value;

/// No step takes as long, on any machine.
pub const HANGS: Duration = Duration::from_secs(60);

/// Longer than any test here shall last.
pub const FAR: End = End::Time(Nanos(600_000_000_000));

pub const MS: u64 = 1_000_000;

/// A server on a port of its own, until this is dropped.
pub struct Served {
    pub at: SocketAddr,
    stop: Stop,
    log: Arc<Log>,
    thread: JoinHandle<Result<(), ErrorRecord>>,
}

#[derive(Default)]
struct Log {
    events: Mutex<Vec<Event>>,
    more: Condvar,
}

impl Log {
    /// The first thing to be found among the events.
    fn wait<T>(&self, what: &str, find: impl Fn(&[Event]) -> Option<T>) -> T {
        let until = Instant::now() + HANGS;
        let mut events = self.events.lock().unwrap();
        loop {
            if let Some(found) = find(&events) {
                return found;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what} never comes: {events:#?}");
            events = self.more.wait_timeout(events, left).unwrap().0;
        }
    }
}

impl Served {
    pub fn start(options: Options) -> Self {
        Self::watched(options, |_| {})
    }

    /// `watch` sees each event first, and may hold up the thread that hands them out.
    pub fn watched(options: Options, mut watch: impl FnMut(&Event) + Send + 'static) -> Self {
        let options = Options { bind: Some(Ipv4Addr::LOCALHOST.into()), port: 0, ..options };
        let (stop, log) = (Stop::default(), Arc::<Log>::default());
        let (stopped, kept) = (stop.clone(), Arc::clone(&log));
        let thread = std::thread::spawn(move || {
            serve(
                &options,
                || Ok(stopped),
                move |_, event| {
                    watch(&event);
                    kept.events.lock().unwrap().push(event);
                    kept.more.notify_all();
                },
            )
        });
        let at = log.wait("its address", |events| match events {
            [Event::Listening(_, at), ..] => Some(*at),
            _ => None,
        });
        Self { at, stop, log, thread }
    }

    fn nth<T>(&self, what: &str, n: usize, pick: impl Fn(&Event) -> Option<T>) -> T {
        let what = format!("{what} {n}");
        self.log.wait(&what, |events| events.iter().filter_map(&pick).nth(n - 1))
    }

    /// The `n`th test that was admitted, counted from 1.
    pub fn started(&self, n: usize) -> ServedTest {
        self.nth("start", n, |event| match event {
            Event::TestStarted(test) => Some((**test).clone()),
            _ => None,
        })
    }

    /// The `n`th that ended.
    pub fn ended(&self, n: usize) -> (ServedTest, ServedResult) {
        self.nth("end", n, |event| match event {
            Event::TestEnded(test, result) => Some(((**test).clone(), (**result).clone())),
            _ => None,
        })
    }

    /// The `n`th that was turned away.
    pub fn refused(&self, n: usize) -> (RefusalKind, String) {
        self.nth("refusal", n, |event| match event {
            Event::Refused { kind, why, .. } => Some((*kind, why.clone())),
            _ => None,
        })
    }

    /// Why a controller went.
    pub fn control_ended(&self, n: usize) -> String {
        self.nth("end of control", n, |event| match event {
            Event::ControlEnded { text, .. } => Some(text.clone()),
            _ => None,
        })
    }

    /// All so far.
    pub fn events(&self) -> Vec<Event> {
        self.log.events.lock().unwrap().clone()
    }

    /// Tells it to end.
    pub fn stop(&self) {
        self.stop.now();
    }

    /// Waits for its end by itself, and for the thread that hands out its events, which may end after it.
    pub fn ends(mut self) -> Vec<Event> {
        let until = Instant::now() + HANGS;
        while !self.thread.is_finished() || Arc::strong_count(&self.log) > 1 {
            assert!(Instant::now() < until, "it goes on: {:#?}", self.events());
            std::thread::sleep(Duration::from_millis(5));
        }
        let thread = std::mem::replace(&mut self.thread, std::thread::spawn(|| Ok(())));
        thread.join().expect("no panic").expect("no error");
        self.events()
    }

    /// A client's whole test.
    pub fn run(&self, plan: TestPlan) -> RunRecord {
        run(&request(self.at, plan))
    }

    /// A short test like any other.
    pub fn honest(&self) {
        complete(&self.run(little()));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.now();
    }
}

/// A request of that server, in linerate's own dialect.
pub fn request(at: SocketAddr, plan: TestPlan) -> Request {
    let target = Target::Host { name: at.ip().to_string(), port: at.port() };
    Request { dialect: Some(Dialect::Native), ..Request::new(target, plan) }
}

pub fn from(bind: [u8; 4], request: Request) -> Request {
    Request { bind: Some(IpAddr::from(bind)), ..request }
}

pub fn run(request: &Request) -> RunRecord {
    linerate_runner::run(request, &mut (), &Stop::default())
}

/// The record of a test that came to its planned end.
pub fn complete(record: &RunRecord) -> Value {
    assert_eq!((record.status, &record.error), (Status::Complete, &None));
    checked(record)
}

/// A record that holds together.
pub fn checked(record: &RunRecord) -> Value {
    let record = serde_json::to_value(record).expect("JSON");
    identities(&record);
    record
}

/// The error of a test that failed or was cut short, with its kind and the exit code.
pub fn error(record: &RunRecord, kind: &str, exit_code: u8) -> ErrorRecord {
    let error = record.error.clone().unwrap_or_else(|| panic!("no error: {:?}", record.status));
    assert_eq!((error.kind.name(), error.exit_code), (kind, exit_code), "{error:?}");
    assert!(!error.what.is_empty() && !error.why.is_empty(), "{error:?}");
    error
}

/// A client in a thread of its own.
pub struct Running {
    stop: Stop,
    begun: Receiver<()>,
    rows: Receiver<Interval>,
    thread: JoinHandle<RunRecord>,
}

struct Rows(Sender<()>, Sender<Interval>);

impl Observer for Rows {
    fn start(&mut self, _: &RunRecord) {
        let _ = self.0.send(());
    }

    fn interval(&mut self, interval: &Interval) {
        let _ = self.1.send(interval.clone());
    }
}

impl Running {
    pub fn start(request: Request) -> Self {
        let (stop, (begins, begun), (row, rows)) = (Stop::default(), channel(), channel());
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            linerate_runner::run(&request, &mut Rows(begins, row), &stopped)
        });
        Self { stop, begun, rows, thread }
    }

    /// Until the streams exist.
    pub fn begins(&self) {
        self.begun.recv_timeout(HANGS).expect("a start");
    }

    /// Until it has measured something in so many intervals.
    pub fn measures(&self, rows: usize) {
        let mut left = rows;
        while left > 0 {
            let row = self.rows.recv_timeout(HANGS).expect("a row");
            left -= usize::from(has_figures(&serde_json::to_value(&row).expect("JSON")));
        }
    }

    pub fn stop(&self) {
        self.stop.now();
    }

    pub fn ends(self) -> RunRecord {
        let until = Instant::now() + HANGS;
        while !self.thread.is_finished() {
            assert!(Instant::now() < until, "the client hangs");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.thread.join().expect("no panic")
    }
}

fn has_figures(row: &Value) -> bool {
    let counts = |key: &str, value: &Value| {
        ["bytes", "transactions"].contains(&key) && value.as_u64().is_some_and(|count| count > 0)
    };
    let Value::Object(row) = row else { return false };
    row.iter().any(|(key, value)| counts(key, value) || has_figures(value))
}

/// Bits of payload a second, both ways each.
pub fn bits(rate: u64) -> Option<BitRate> {
    Some(BitRate::new(rate).expect("a rate"))
}

/// Datagrams at that many a second.
pub fn udp(per_second: u64) -> TestPlan {
    let rate = NonZeroU64::new(per_second).map(Rate::Datagrams);
    plans::plan(Traffic::Udp(linerate_model::plan::UdpPlan { rate, ..plans::udp() }))
}

/// A stream of bytes, of which the link has enough left for others.
pub fn tcp() -> TestPlan {
    let rate = bits(50_000_000);
    plans::plan(Traffic::Tcp(linerate_model::plan::TcpPlan { rate, ..plans::tcp() }))
}

pub fn rr(transport: Transport) -> TestPlan {
    plans::plan(Traffic::Rr(plans::rr(transport)))
}

pub fn reverse(plan: TestPlan) -> TestPlan {
    TestPlan { direction: Direction::Reverse, ..plan }
}

pub fn both(plan: TestPlan) -> TestPlan {
    TestPlan { direction: Direction::Both, ..plan }
}

/// The same for so many milliseconds.
pub fn lasting(ms: u64, plan: TestPlan) -> TestPlan {
    TestPlan { end: End::Time(Nanos(ms * MS)), ..plan }
}

/// Twenty datagrams.
pub fn little() -> TestPlan {
    TestPlan { end: End::Datagrams(20), ..udp(2_000) }
}

/// One test of each kind and direction, until it is ended.
pub fn endless() -> Vec<(&'static str, TestPlan)> {
    [
        ("udp", udp(500)),
        ("udp, reverse", reverse(udp(500))),
        ("udp, both", both(udp(500))),
        ("tcp", tcp()),
        ("tcp, reverse", reverse(tcp())),
        ("tcp, both", both(tcp())),
        ("rr", rr(Transport::Tcp)),
        ("rr over udp", rr(Transport::Udp)),
    ]
    .map(|(name, plan)| (name, TestPlan { end: FAR, interval: Nanos(50 * MS), ..plan }))
    .into()
}

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Client,
    Server,
}

/// What becomes of a message.
pub enum Fate {
    /// These frames go on in its place.
    Frames(Vec<Vec<u8>>),
    /// The control connection ends at both ends.
    Cut,
    /// Whoever waits for it is answered and never served, until they hang up.
    Company(Vec<u8>),
}

impl From<Vec<Vec<u8>>> for Fate {
    fn from(frames: Vec<Vec<u8>>) -> Self {
        Self::Frames(frames)
    }
}

/// What somebody does with the `n`th message of one end, counted from 0.
type Hand = Arc<dyn Fn(Who, usize, &[u8]) -> Fate + Send + Sync>;

/// A port of this host, and who listens there.
pub fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    (listener, at)
}

/// Somebody between client and server, who reads every control message and may do with it as they like.
/// What does not open as a control connection is carried as it is.
pub fn between<F: Into<Fate>>(
    listener: TcpListener,
    server: SocketAddr,
    hand: impl Fn(Who, usize, &[u8]) -> F + Send + Sync + 'static,
) {
    let hand: Hand = Arc::new(move |who, n, body| hand(who, n, body).into());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(server) else { return };
            let (asks, takes) = (client.try_clone().unwrap(), far.try_clone().unwrap());
            let (to, back) = (Arc::clone(&hand), Arc::clone(&hand));
            let (tell, told) = channel();
            std::thread::spawn(move || {
                let (mut asks, mut takes) = (asks, takes);
                let mut first = [0; 8];
                if asks.read_exact(&mut first).is_err() || takes.write_all(&first).is_err() {
                    return;
                }
                let _ = tell.send(first == PREAMBLE);
                carry(asks, takes, Who::Client, (first == PREAMBLE).then_some(&to));
            });
            std::thread::spawn(move || {
                // A control connection is known by the client's first bytes.
                let framed = told.recv().unwrap_or(false);
                carry(far, client, Who::Server, framed.then_some(&back));
            });
        }
    });
}

fn frame(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}

fn carry(mut from: TcpStream, mut to: TcpStream, who: Who, hand: Option<&Hand>) {
    let Some(hand) = hand else {
        let _ = copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
        return;
    };
    let mut length = [0; 4];
    for n in 0.. {
        if from.read_exact(&mut length).is_err() {
            break;
        }
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        if from.read_exact(&mut body).is_err() {
            break;
        }
        match hand(who, n, &body) {
            Fate::Frames(bodies) => {
                let gone = bodies.iter().any(|body| to.write_all(&frame(body)).is_err());
                if gone {
                    break;
                }
            }
            Fate::Cut => {
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
            Fate::Company(body) => {
                while to.write_all(&frame(&body)).is_ok() {
                    std::thread::sleep(Duration::from_millis(200));
                }
                return;
            }
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Carries it as it is.
pub fn honest(_: Who, _: usize, body: &[u8]) -> Vec<Vec<u8>> {
    vec![body.to_vec()]
}
