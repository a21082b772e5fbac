//! Data threads whose peers never let them wait.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_engine::{clock, sys};
use linerate_model::plan::{
    AgreedPlan, Direction, End, EngineChoice, RrPlan, TestPlan, Traffic, Transport, UdpPlan,
};
use linerate_model::units::{BitRate, Nanos};
use linerate_testkit::plans;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::{DataEvent, Limits, Report, Role, Shared, Sign, StreamSocket, Streams, spawn, streams};

/// No step takes as long, on any machine.
const HANGS: Duration = Duration::from_secs(60);

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn plan(traffic: Traffic, direction: Direction) -> Arc<AgreedPlan> {
    let end = End::Time(Nanos::from_secs(3_600));
    let plan = TestPlan { direction, end, ..plans::plan(traffic) };
    Arc::new(AgreedPlan { plan, cuts: vec![] })
}

fn rr(response: u32) -> Traffic {
    Traffic::Rr(RrPlan { request: 1, response, ..plans::rr(Transport::Tcp) })
}

/// The thread of one stream.
struct Alone {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
    reported: UnboundedReceiver<DataEvent>,
}

impl Alone {
    fn start(of: &Streams, shared: Arc<Shared>, role: Role, socket: StreamSocket) -> Self {
        let (events, reported) = mpsc::unbounded_channel();
        let id = streams(of.agreed.plan.direction, 1)[0];
        let thread = spawn(of.context((id, role), &shared, &events), socket).unwrap();
        shared.start(clock::monotonic_ns());
        Self { shared, thread, reported }
    }

    fn report(mut self) -> Report {
        let until = Instant::now() + HANGS;
        while !self.thread.is_finished() {
            assert!(Instant::now() < until, "it goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
        loop {
            if let DataEvent::Done(_, report) = self.reported.try_recv().expect("a report") {
                return *report;
            }
        }
    }
}

#[test]
fn a_receiver_to_which_data_always_comes_ends_with_its_clients_connection() {
    let (client, control) = pair();
    let (mut near, far) = pair();
    let of = Streams::of_one(&plan(Traffic::Tcp(plans::tcp()), Direction::Forward));
    let shared = Shared::new(1);
    shared.watch_peer(&control, Sign::Words, HANGS * 60).unwrap();
    let alone = Alone::start(&of, Arc::clone(&shared), Role::Receive, StreamSocket::Tcp(far));
    drop(client);
    let until = Instant::now() + HANGS;
    // Until the receiver closes the stream.
    while near.write_all(&[0; 65_536]).is_ok() {
        assert!(Instant::now() < until, "it never looked");
    }
    assert!(shared.peer_gone());
    drop(near);
    assert!(matches!(alone.report(), Report::Recv(_)));
}

#[test]
fn who_answers_a_client_that_reads_steadily_ends_with_its_connection() {
    let (client, control) = pair();
    let (near, far) = pair();
    let mut of = Streams::of_one(&plan(rr(1 << 20), Direction::Forward));
    // As many as one read brings: 64 GiB of answers.
    of.habits.tells_flight = false;
    let shared = Shared::new(1);
    shared.watch_peer(&control, Sign::Words, HANGS * 60).unwrap();
    let alone = Alone::start(&of, shared, Role::Respond, StreamSocket::Tcp(far));
    (&near).write_all(&[0; 65_536]).unwrap();
    let mut buffer = vec![0; 1 << 20];
    assert!((&near).read(&mut buffer).unwrap() > 0);
    drop(client);
    let until = Instant::now() + HANGS;
    while (&near).read(&mut buffer).is_ok_and(|bytes| bytes > 0) {
        assert!(Instant::now() < until, "it never looked");
    }
    assert!(alone.shared.peer_gone());
    assert!(matches!(alone.report(), Report::Respond(_)));
}

#[test]
fn no_more_requests_are_answered_at_once_than_the_plan_has_under_way() {
    let (near, far) = pair();
    let of = Streams::of_one(&plan(rr(1), Direction::Forward));
    // They wait when it reads for the first time.
    (&near).write_all(&[0; 2]).unwrap();
    let alone = Alone::start(&of, Shared::new(1), Role::Respond, StreamSocket::Tcp(far));
    let Report::Respond(report) = alone.report() else { panic!("no answering end") };
    assert_eq!(report.answered, 0);
    assert!(report.error.as_deref().is_some_and(|why| why.contains("at once")), "{report:?}");
}

#[test]
fn bursts_of_datagrams_keep_to_the_owners_rate() {
    const LIMIT: u64 = 8_000_000;
    let udp = UdpPlan {
        rate: serde_json::from_str(r#"{"bits":8000000}"#).unwrap(),
        engine: EngineChoice::Send,
        ..plans::udp()
    };
    let mut of = Streams::of_one(&plan(Traffic::Udp(udp), Direction::Reverse));
    // All of the hour's datagrams are due at its beginning.
    of.burst = u32::MAX;
    let limits = Limits { rate: BitRate::new(LIMIT), ..Limits::default() };
    let near = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let far = sys::udp_socket((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    far.connect(&near.local_addr().unwrap().into()).unwrap();
    let shared = Shared::within(limits, 1);
    let begun = Instant::now();
    let alone = Alone::start(&of, Arc::clone(&shared), Role::Send, StreamSocket::Udp(far, None));
    let until = begun + HANGS;
    // More than the limit's half a second.
    while shared.moved() < LIMIT / 8 {
        assert!(Instant::now() < until, "{} bytes", shared.moved());
        std::thread::sleep(Duration::from_millis(1));
    }
    shared.stop();
    let (sent, seconds) = (shared.moved() as f64, begun.elapsed().as_secs_f64());
    // A tenth more than the limit, half a second of that at once, and the last call.
    let most = LIMIT as f64 / 8.0 * 1.1 * (seconds + 0.5) + 65_536.0;
    assert!(sent <= most, "{sent} bytes in {seconds} s, at most {most}");
    assert!(matches!(alone.report(), Report::Send(_)));
}
