//! What comes to a data thread is held against the owner's limits, whatever it is.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_dialect::Whose;
use linerate_engine::{clock, sys};
use linerate_model::plan::{AgreedPlan, End, TestPlan, Traffic, Transport};
use linerate_model::units::{BitRate, Nanos};
use linerate_testkit::plans;
use linerate_wire::native::stream::{Claim, HELLO_BYTES, UdpHello};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::{
    self as data, DataEvent, DayBudget, Doorway, Report, Role, Shared, StreamSocket, Streams,
};

/// No step takes as long, on any machine.
const HANGS: Duration = Duration::from_secs(60);

/// A data thread of an hour's test, whose bytes count for a day.
struct Alone {
    shared: Arc<Shared>,
    day: DayBudget,
    thread: JoinHandle<()>,
    reported: UnboundedReceiver<DataEvent>,
}

impl Alone {
    fn spawn(traffic: Traffic, role: Role, socket: StreamSocket) -> Self {
        let end = End::Time(Nanos::from_secs(3_600));
        let plan = TestPlan { end, ..plans::plan(traffic) };
        let agreed = Arc::new(AgreedPlan { plan, cuts: vec![] });
        let (shared, day) =
            (Shared::new(1), DayBudget::new(Arc::default(), 1 << 40, Whose::Address));
        shared.charge_to(vec![day.clone()]);
        let (events, reported) = mpsc::unbounded_channel();
        let id = data::streams(agreed.plan.direction, 1)[0];
        let context = Streams::of_one(&agreed).context((id, role), &shared, &events);
        let thread = data::spawn(context, socket).unwrap();
        shared.start(clock::monotonic_ns());
        Self { shared, day, thread, reported }
    }

    /// Until so many bytes have counted.
    fn counts(&self, bytes: u64) {
        let until = Instant::now() + HANGS;
        let carried = || (1 << 40) - self.day.left();
        while carried() < bytes || self.shared.moved() < bytes {
            assert!(Instant::now() < until, "{} of {bytes}", carried());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!((carried(), self.shared.moved()), (bytes, bytes));
    }

    fn ends(mut self) -> Report {
        self.thread.join().unwrap();
        loop {
            if let DataEvent::Done(_, report) = self.reported.try_recv().expect("a report") {
                return *report;
            }
        }
    }
}

fn udp() -> (UdpSocket, StreamSocket) {
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (peer, socket) = (UdpSocket::bind(here).unwrap(), sys::udp_socket(here).unwrap());
    socket.connect(&peer.local_addr().unwrap().into()).unwrap();
    peer.connect(socket.local_addr().unwrap().as_socket().unwrap()).unwrap();
    (peer, StreamSocket::Udp(socket, None))
}

#[test]
fn datagrams_that_are_no_requests_count() {
    let (peer, socket) = udp();
    let alone = Alone::spawn(Traffic::Rr(plans::rr(Transport::Udp)), Role::Respond, socket);
    for _ in 0..3 {
        peer.send(&[0; 40]).unwrap();
    }
    alone.counts(120);
    alone.shared.stop();
    let Report::Respond(report) = alone.ends() else { panic!("who answers") };
    assert_eq!(report.answered, 0);
}

#[test]
fn hellos_in_place_of_data_count_and_are_none_of_it() {
    let (peer, socket) = udp();
    let alone = Alone::spawn(Traffic::Udp(plans::udp()), Role::Receive, socket);
    let hello = UdpHello(Claim { token: 7, cookie: [0; 16], stream: 0 }).encode();
    for _ in 0..3 {
        peer.send(&hello).unwrap();
    }
    let bytes = 3 * HELLO_BYTES as u64;
    alone.counts(bytes);
    assert_eq!((alone.shared.arrived(), alone.shared.received()), (bytes, 0));
    alone.shared.drain_until(0);
    let Report::Recv(report) = alone.ends() else { panic!("who receives") };
    assert_eq!((report.counts.bytes, report.counts.datagrams), (0, 0));
}

/// A doorway, and a connection to it that carries so many bytes already.
fn doorway(carries: bool, bytes: usize) -> (Alone, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.write_all(&vec![0; bytes]).unwrap();
    let door = Doorway { listener, from: Ipv4Addr::LOCALHOST.into(), carries };
    let traffic = Traffic::Rr(plans::rr(Transport::Tcp));
    (Alone::spawn(traffic, Role::Respond, StreamSocket::Doorway(door)), peer)
}

#[test]
fn a_connection_that_carries_what_it_should_not_counts_and_ends_the_test() {
    let (alone, _peer) = doorway(false, 1_000);
    alone.counts(1_000);
    let Report::Respond(report) = alone.ends() else { panic!("who answers") };
    assert!(report.error.is_some_and(|why| why.contains("carry nothing")));
    assert_eq!(report.answered, 0);
}

#[test]
fn what_follows_a_request_on_its_connection_counts() {
    let (alone, mut peer) = doorway(true, 1_000);
    peer.set_read_timeout(Some(HANGS)).unwrap();
    peer.read_exact(&mut [0]).unwrap();
    // The request, the response and what nobody asked for.
    alone.counts(1_001);
    alone.shared.stop();
    let Report::Respond(report) = alone.ends() else { panic!("who answers") };
    assert_eq!((report.answered, report.error), (1, None));
}

#[test]
fn what_comes_after_a_threads_end_counts_and_waits_for_the_rate() {
    let limits = data::Limits {
        rate: BitRate::new(8_000_000),
        bytes: Some(2_500_000),
        ..data::Limits::default()
    };
    let shared = Shared::within(limits, 1);
    let day = DayBudget::new(Arc::default(), 3_000_000, Whose::Address);
    shared.charge_to(vec![day.clone()]);
    let second = 1_000_000_000;
    assert_eq!(shared.add_late(1_000, second), None);
    // Half a second's worth may come at once; what is beyond takes its time.
    assert!(shared.add_late(2_000_000, second).is_some_and(|wait| !wait.is_zero()));
    assert_eq!((day.left(), shared.moved(), shared.arrived()), (999_000, 2_001_000, 0));
    assert!(!shared.over_budget());
    shared.add_late(1_000_000, 9 * second);
    assert!(shared.over_budget() && shared.over_day() == Some(Whose::Address));
}
