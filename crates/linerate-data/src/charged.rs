//! What comes to a data thread is held against the owner's limits, whatever it is.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_dialect::Whose;
use linerate_model::plan::{Direction, RrPlan, Traffic, Transport, UdpPlan};
use linerate_model::units::{BitRate, DatagramSize};
use linerate_testkit::plans;
use linerate_wire::native::stream::{ACK_BYTES, Claim, HELLO_BYTES, UdpHello};
use tokio::sync::mpsc;

use crate::alone::{Alone, HANGS, of_an_hour, pair, udp_pair};
use crate::{DayBudget, Doorway, Limits, Report, Role, Shared, StreamSocket, spawn, streams};

/// A data thread whose bytes count for a day.
struct Charged {
    alone: Alone,
    day: DayBudget,
}

impl Charged {
    fn start(traffic: Traffic, role: Role, socket: StreamSocket) -> Self {
        let shared = Shared::new(1);
        let day = DayBudget::new(Arc::default(), 1 << 40, Whose::Address);
        shared.charge_to(vec![day.clone()]);
        let of = of_an_hour(traffic, Direction::Forward);
        Self { alone: Alone::start(&of, shared, role, socket), day }
    }

    /// Until so many bytes have counted.
    fn counts(&self, bytes: u64) {
        let carried = || (1 << 40) - self.day.left();
        let moved = || self.alone.shared.moved();
        self.alone.waits_for("less counts", |_| carried() >= bytes && moved() >= bytes);
        assert_eq!((carried(), moved()), (bytes, bytes));
    }
}

#[test]
fn datagrams_that_are_no_requests_count() {
    let (peer, socket) = udp_pair();
    let charged = Charged::start(Traffic::Rr(plans::rr(Transport::Udp)), Role::Respond, socket);
    for _ in 0..3 {
        peer.send(&[0; 40]).unwrap();
    }
    charged.counts(120);
    charged.alone.shared.stop();
    let Report::Respond(report) = charged.alone.ends() else { panic!("who answers") };
    assert_eq!(report.answered, 0);
}

#[test]
fn hellos_in_place_of_data_count_and_are_none_of_it() {
    let (peer, socket) = udp_pair();
    let charged = Charged::start(Traffic::Udp(plans::udp()), Role::Receive, socket);
    let hello = UdpHello(Claim { token: 7, cookie: [0; 16], stream: 0 }).encode();
    for _ in 0..3 {
        peer.send(&hello).unwrap();
    }
    let bytes = 3 * HELLO_BYTES as u64;
    charged.counts(bytes);
    assert_eq!((charged.alone.shared.arrived(), charged.alone.shared.received()), (bytes, 0));
    charged.alone.shared.drain_until(0);
    let Report::Recv(report) = charged.alone.ends() else { panic!("who receives") };
    assert_eq!((report.counts.bytes, report.counts.datagrams), (0, 0));
}

#[test]
fn datagrams_that_are_longer_than_the_room_for_them_count_as_the_longest() {
    let udp = UdpPlan::new(DatagramSize::new(100).unwrap());
    for (role, traffic) in [
        (Role::Receive, Traffic::Udp(udp)),
        (Role::Respond, Traffic::Rr(plans::rr(Transport::Udp))),
    ] {
        let (peer, socket) = udp_pair();
        let charged = Charged::start(traffic, role, socket);
        peer.send(&[0; 60_000]).unwrap();
        charged.counts(65_527);
        // No more of it is data than there was room for.
        assert!(charged.alone.shared.received() < 60_000);
        charged.alone.shared.stop();
        charged.alone.shared.drain_until(0);
        charged.alone.ends();
    }
}

#[test]
fn hellos_that_come_again_and_their_answers_count() {
    let hello = UdpHello(Claim { token: 7, cookie: [0; 16], stream: 0 });
    for (role, traffic) in [
        (Role::Receive, Traffic::Udp(plans::udp())),
        (Role::Send, Traffic::Udp(plans::udp())),
        (Role::Respond, Traffic::Rr(plans::rr(Transport::Udp))),
    ] {
        let (peer, StreamSocket::Udp(socket, None)) = udp_pair() else { panic!("datagrams") };
        peer.set_read_timeout(Some(HANGS)).unwrap();
        let shared = Shared::new(1);
        let day = DayBudget::new(Arc::default(), 1 << 40, Whose::Address);
        shared.charge_to(vec![day.clone()]);
        let (events, _reported) = mpsc::unbounded_channel();
        let of = of_an_hour(traffic, Direction::Forward);
        let id = streams(Direction::Forward, 1)[0];
        let socket = StreamSocket::Udp(socket, Some(hello));
        // The test has not begun.
        let thread = spawn(of.context((id, role), &shared, &events), socket).unwrap();
        for _ in 0..3 {
            peer.send(&hello.encode()).unwrap();
            assert_eq!(peer.recv(&mut [0; ACK_BYTES + 1]).unwrap(), ACK_BYTES);
        }
        let bytes = 3 * (HELLO_BYTES + ACK_BYTES) as u64;
        let until = Instant::now() + HANGS;
        while shared.moved() < bytes {
            assert!(Instant::now() < until, "less counts");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!((shared.moved(), (1 << 40) - day.left()), (bytes, bytes));
        shared.stop();
        shared.drain_until(0);
        thread.join().unwrap();
    }
}

#[test]
fn what_this_end_asks_counts_whether_it_is_answered_or_not() {
    let (peer, socket) = udp_pair();
    peer.set_read_timeout(Some(HANGS)).unwrap();
    let charged = Charged::start(Traffic::Rr(plans::rr(Transport::Udp)), Role::Request, socket);
    let mut request = [0; 1];
    for _ in 0..3 {
        assert_eq!(peer.recv(&mut request).unwrap(), 1);
        peer.send(&request).unwrap();
    }
    // The fourth has no answer, nor those that follow it a second later each.
    assert_eq!(peer.recv(&mut request).unwrap(), 1);
    let shared = Arc::clone(&charged.alone.shared);
    charged.alone.waits_for("no answer counts", |it| it.shared.arrived() >= 3);
    shared.stop();
    let Charged { alone, day } = charged;
    let Report::Rr(report) = alone.ends() else { panic!("who asks") };
    peer.set_nonblocking(true).unwrap();
    let mut bytes = 7;
    while peer.recv(&mut request).is_ok() {
        bytes += 1;
    }
    assert_eq!((shared.moved(), (1 << 40) - day.left()), (bytes, bytes));
    // One that was answered after more than a second has no answer.
    let late = 3u64.checked_sub(report.transactions).expect("three answers");
    assert!(late <= report.unanswered && report.error.is_none(), "{report:?}");
}

#[test]
fn a_part_of_a_request_counts_before_the_rest_of_it_comes() {
    let (mut near, far) = pair();
    let rr = RrPlan { request: 1_000, ..plans::rr(Transport::Tcp) };
    let charged = Charged::start(Traffic::Rr(rr), Role::Respond, StreamSocket::Tcp(far));
    near.write_all(&[0; 999]).unwrap();
    charged.counts(999);
    near.write_all(&[0]).unwrap();
    charged.counts(1_001);
    charged.alone.shared.stop();
    let Report::Respond(report) = charged.alone.ends() else { panic!("who answers") };
    assert_eq!((report.answered, report.error), (1, None));
}

#[test]
fn who_waits_for_the_owners_rate_ends_at_the_longest_time() {
    let limits = Limits { rate: BitRate::new(8), span_ns: Some(1), ..Limits::default() };
    let shared = Shared::within(limits, 1);
    // So long ago that no data is answered any more.
    shared.start(0);
    // At eight bits a second this would take for ever.
    shared.keep_rate(1 << 40, true);
    assert!(shared.over_time());
}

#[test]
fn who_asks_ends_at_the_owners_longest_time() {
    let (peer, socket) = udp_pair();
    let of = of_an_hour(Traffic::Rr(plans::rr(Transport::Udp)), Direction::Forward);
    let limits = Limits { span_ns: Some(1), ..Limits::default() };
    let alone = Alone::start(&of, Shared::within(limits, 1), Role::Request, socket);
    alone.waits_for("it goes on", |it| it.shared.over_time());
    assert!(matches!(alone.ends(), Report::Rr(_)));
    drop(peer);
}

/// A doorway, and a connection to it that carries so many bytes already.
fn doorway(carries: bool, bytes: usize) -> (Charged, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.write_all(&vec![0; bytes]).unwrap();
    let door = Doorway { listener, from: Ipv4Addr::LOCALHOST.into(), carries };
    let traffic = Traffic::Rr(plans::rr(Transport::Tcp));
    (Charged::start(traffic, Role::Respond, StreamSocket::Doorway(door)), peer)
}

#[test]
fn a_connection_that_carries_what_it_should_not_counts_and_ends_the_test() {
    let (charged, _peer) = doorway(false, 1_000);
    charged.counts(1_000);
    let Report::Respond(report) = charged.alone.ends() else { panic!("who answers") };
    assert!(report.error.is_some_and(|why| why.contains("carry nothing")));
    assert_eq!(report.answered, 0);
}

#[test]
fn what_follows_a_request_on_its_connection_counts() {
    let (charged, mut peer) = doorway(true, 1_000);
    peer.set_read_timeout(Some(HANGS)).unwrap();
    peer.read_exact(&mut [0]).unwrap();
    // The request, the response and what nobody asked for.
    charged.counts(1_001);
    charged.alone.shared.stop();
    let Report::Respond(report) = charged.alone.ends() else { panic!("who answers") };
    assert_eq!((report.answered, report.error), (1, None));
}

#[test]
fn what_comes_after_a_threads_end_counts_and_waits_for_the_rate() {
    let limits =
        Limits { rate: BitRate::new(8_000_000), bytes: Some(2_500_000), ..Limits::default() };
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
