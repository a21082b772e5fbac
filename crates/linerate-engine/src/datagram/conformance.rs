//! What every engine must do, run against each of them over loopback, over a veth pair and, for the
//! one without sockets, over queues in memory.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use linerate_model::local_errors::Errno;
use linerate_model::plan::EngineChoice;

use super::memory::Memory;
use super::veth::{self, veth};
use super::{
    ArrivalClock, Config, Context, DatagramPort, Duty, ENGINES, Engine, Ladder, SendBatch, Stamps,
};
use crate::{clock, sys};

/// No step takes as long, on any machine.
const HANGS: Duration = Duration::from_secs(60);

/// What carries datagrams between two ports.
#[derive(Clone, Copy, PartialEq)]
enum Bed {
    Loopback,
    Veth,
    Memory,
}

impl Bed {
    /// Both ends of a stream; `None` where this machine has no such bed.
    fn ends(self, is_v6: bool) -> Option<[Context; 2]> {
        let any: SocketAddr =
            if is_v6 { (Ipv6Addr::LOCALHOST, 0).into() } else { (Ipv4Addr::LOCALHOST, 0).into() };
        let [a, b] = match self {
            Self::Loopback => [sys::udp_socket(any).unwrap(), sys::udp_socket(any).unwrap()],
            Self::Veth => veth()?.sockets(is_v6).unwrap(),
            Self::Memory => return Some(queues(any, Stamps::Monotonic)),
        };
        a.connect(&b.local_addr().unwrap()).unwrap();
        b.connect(&a.local_addr().unwrap()).unwrap();
        Some([a, b].map(|socket| Context::of_socket(socket, None).unwrap()))
    }

    /// Largest payload that travels in one packet.
    fn largest(self) -> usize {
        if self == Self::Veth { 1_448 } else { 65_000 }
    }
}

fn queues(any: SocketAddr, stamps: Stamps) -> [Context; 2] {
    static PORT: AtomicU16 = AtomicU16::new(1);
    let engine: &'static dyn Engine = Box::leak(Box::new(Memory::new(stamps)));
    let engines: &'static [&'static dyn Engine] = Box::leak(Box::new([engine]));
    let next = || SocketAddr::new(any.ip(), PORT.fetch_add(1, Ordering::Relaxed));
    let (local, remote) = (next(), next());
    let end = |local, remote| Context { socket: None, local, remote, core: None, engines };
    [end(local, remote), end(remote, local)]
}

fn config(duty: Duty, datagram: usize) -> Config {
    Config {
        duty,
        datagram,
        send_buffer: None,
        receive_buffer: (duty == Duty::Receive).then_some(4 << 20),
        most_forced: None,
        dscp: None,
        checksum: true,
        stamps: duty == Duty::Receive,
        contents: true,
        receive_wait: Duration::from_millis(200),
        send_wait: Duration::from_millis(200),
    }
}

type Port = Box<dyn DatagramPort>;

fn open(name: &str, config: &Config, context: &Context) -> Port {
    let mut engines = context.engines.iter();
    let engine = engines.find(|engine| engine.name() == name).expect("an engine of that name");
    engine.open(config, context).unwrap()
}

/// A sender and a receiver.
fn pair(name: &str, bed: Bed, is_v6: bool, datagram: usize) -> Option<(Port, Port)> {
    let [near, far] = bed.ends(is_v6)?;
    let sender = open(name, &config(Duty::Send, datagram), &near);
    Some((sender, open(name, &config(Duty::Receive, datagram), &far)))
}

fn one(bytes: &[u8]) -> SendBatch<'_> {
    SendBatch { bytes, segment: bytes.len(), train: 1 }
}

/// Sends datagrams of `size` bytes, each filled with its own number, the last of `last`, in batches of
/// `train`, and checks that exactly these arrive, in order and with their borders and stamps.
fn borders(
    name: &str,
    bed: Bed,
    is_v6: bool,
    size: usize,
    count: usize,
    train: usize,
    last: usize,
) {
    let Some((mut sender, mut receiver)) = pair(name, bed, is_v6, size) else { return };
    let most = sender.capabilities().max_batch;
    let mut placed = ArrivalClock::new(receiver.capabilities().stamps);
    let begun_ns = clock::monotonic_ns();
    placed.look(begun_ns);
    let mut payload = Vec::new();
    for i in 0..count {
        let length = if i + 1 == count { last } else { size };
        payload.extend(std::iter::repeat_n(i as u8, length));
    }
    let (mut sent, mut got, mut stamped, mut train) = (0, Vec::new(), 0, train);
    let until = Instant::now() + HANGS;
    while sent < count {
        let end = ((sent + train) * size).min(payload.len());
        let bytes = &payload[sent * size..end];
        let taken = sender.send(&SendBatch { bytes, segment: size, train });
        let shorter = sender.capabilities().max_train;
        if taken.is_err() && shorter < train {
            train = shorter;
            continue;
        }
        let taken = taken.unwrap();
        assert!((1..=most).contains(&taken.datagrams));
        sent += taken.datagrams;
        while got.len() < sent {
            assert!(Instant::now() < until, "{} of {sent} arrived", got.len());
            let Ok(arrivals) = receiver.recv() else { continue };
            assert!(!arrivals.is_empty() && arrivals.len() == arrivals.messages().count());
            let now = clock::monotonic_ns();
            placed.look(now);
            for message in arrivals.messages() {
                assert!(!message.truncated);
                // Each of those that a call brings, the first call's as well.
                assert!(message.stamp_ns.is_some());
                // A clock that was set just then leaves stamps unused.
                let at = placed.place(message.stamp_ns, now);
                assert!(at.is_none_or(|at| at <= now));
                stamped += usize::from(at.is_some());
                got.extend(message.bytes.chunks(message.segment).map(<[u8]>::to_vec));
            }
        }
    }
    assert!(stamped > 0);
    assert_eq!(got.len(), count);
    for (i, datagram) in got.iter().enumerate() {
        let length = if i + 1 == count { last } else { size };
        assert_eq!(datagram.len(), length, "datagram {i}");
        assert!(datagram.iter().all(|b| *b == i as u8));
    }
}

/// Who does not look at datagrams knows all the same how many came, and how long each was.
fn lengths_are_known_without_contents(name: &str, bed: Bed, is_v6: bool) {
    let Some([near, far]) = bed.ends(is_v6) else { return };
    let mut sender = open(name, &config(Duty::Send, 1_000), &near);
    let blind = Config { contents: false, ..config(Duty::Receive, 1_000) };
    let mut receiver = open(name, &blind, &far);
    let payload = [7; 4_600];
    let (mut sent, mut got) = (0, Vec::new());
    while sent < 5 {
        let bytes = payload.get(sent * 1_000..).unwrap();
        sent += sender.send(&SendBatch { bytes, segment: 1_000, train: 5 }).unwrap().datagrams;
    }
    let until = Instant::now() + HANGS;
    while got.len() < 5 {
        assert!(Instant::now() < until, "{got:?}");
        let Ok(arrivals) = receiver.recv() else { continue };
        for message in arrivals.messages() {
            assert!(!message.truncated && message.stamp_ns.is_some());
            got.extend(message.bytes.chunks(message.segment).map(<[u8]>::len));
        }
    }
    assert_eq!(got, [1_000, 1_000, 1_000, 1_000, 600]);
}

/// A receiver that reads nothing loses what does not fit, and its port's counter says how much.
fn drops_are_counted(name: &str, bed: Bed) {
    let Some([near, far]) = bed.ends(false) else { return };
    let mut sender = open(name, &config(Duty::Send, 1_000), &near);
    let small = Config { receive_buffer: Some(8_192), ..config(Duty::Receive, 1_000) };
    let mut receiver = open(name, &small, &far);
    for _ in 0..200 {
        while sender.send(&one(&[0; 1_000])).unwrap().datagrams == 0 {}
    }
    let (mut got, until) = (0, Instant::now() + HANGS);
    while got + receiver.counters().drops.expect("a counter") < 200 {
        assert!(Instant::now() < until, "{got} of 200, and {:?}", receiver.counters());
        got += receiver.recv().map_or(0, |arrivals| arrivals.len()) as u32;
    }
    assert!(receiver.counters().drops > Some(0));
    assert_eq!(receiver.counters().unread_bytes, Some(0));
    // The next message says so.
    let _ = sender.send(&one(&[0; 1_000])).unwrap();
    let drops = loop {
        assert!(Instant::now() < until, "the next one never comes");
        if let Ok(arrivals) = receiver.recv() {
            break arrivals.messages().next().unwrap().drops;
        }
    };
    assert_eq!(drops, Some(200 - got));
}

/// Both ends send and receive, none waits, and what is too long is known to be.
fn both_ways(name: &str, bed: Bed) {
    let Some([near, far]) = bed.ends(false) else { return };
    let zero = Duration::ZERO;
    let both = Config { receive_wait: zero, send_wait: zero, ..config(Duty::Both, 100) };
    let (mut near, mut far) = (open(name, &both, &near), open(name, &both, &far));
    let empty = |port: &mut Port| port.recv().map(|_| ()).unwrap_err().kind();
    assert_eq!(empty(&mut near), ErrorKind::WouldBlock);
    let arrives = |port: &mut Port, datagram: &[u8]| {
        let until = Instant::now() + HANGS;
        while !port.wait_readable(None, clock::monotonic_ns()) {
            assert!(Instant::now() < until);
        }
        let arrivals = port.recv().unwrap();
        assert_eq!(arrivals.len(), 1, "one a call");
        let message = arrivals.messages().next().unwrap();
        let awaited = message.bytes == datagram;
        assert_eq!(!awaited, datagram.len() > 200, "{:?} of {datagram:?}", message.bytes);
        assert_eq!(message.truncated, !awaited);
    };
    for round in 0..3 {
        for number in [round, 100] {
            assert_eq!(near.send(&one(&[number; 100])).unwrap().datagrams, 1);
        }
        arrives(&mut far, &[round; 100]);
        arrives(&mut far, &[100; 100]);
        assert_eq!(far.send(&one(&[round; 7])).unwrap().datagrams, 1);
        arrives(&mut near, &[round; 7]);
    }
    assert_eq!(near.send(&one(&[9; 300])).unwrap().datagrams, 1);
    arrives(&mut far, &[9; 300]);
    assert!(!near.wait_readable(Some(0), clock::monotonic_ns()));
    assert!(!near.take_errors());
}

macro_rules! engine_conformance {
    ($module:ident, $bed:expr, $name:literal) => {
        mod $module {
            use super::*;

            #[test]
            fn keeps_datagram_borders() {
                for is_v6 in [false, true] {
                    borders($name, $bed, is_v6, 1_448, 90, 45, 1_448);
                    borders($name, $bed, is_v6, 64, 256, 128, 64);
                    borders($name, $bed, is_v6, 64, 1, 1, 64);
                    let largest = $bed.largest();
                    borders($name, $bed, is_v6, largest, 3, 1, largest);
                }
            }

            #[test]
            fn a_shorter_last_datagram_stays_short() {
                borders($name, $bed, false, 1_448, 46, 45, 100);
                borders($name, $bed, true, 100, 7, 7, 33);
            }

            #[test]
            fn an_empty_batch_is_harmless() {
                let Some((mut sender, _receiver)) = pair($name, $bed, false, 100) else { return };
                let _ = sender.send(&SendBatch { bytes: &[], segment: 100, train: 1 });
            }

            #[test]
            fn waiting_ends_with_the_time_out() {
                let Some((_sender, mut receiver)) = pair($name, $bed, false, 100) else { return };
                let error = receiver.recv().map(|_| ()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
            }

            #[test]
            fn drops_are_counted() {
                super::drops_are_counted($name, $bed);
            }

            #[test]
            fn lengths_are_known_without_contents() {
                for is_v6 in [false, true] {
                    super::lengths_are_known_without_contents($name, $bed, is_v6);
                }
            }

            #[test]
            fn both_ends_send_and_receive() {
                both_ways($name, $bed);
            }

            #[test]
            fn what_it_can_do_is_told() {
                let Some((sender, receiver)) = pair($name, $bed, false, 100) else { return };
                let (sends, receives) = (sender.capabilities(), receiver.capabilities());
                assert!(sends.max_train >= 1 && sends.max_train <= sends.max_batch);
                assert!(receives.receive_buffer > Some(0));
                let stamps = if $bed == Bed::Memory { Stamps::Monotonic } else { Stamps::Realtime };
                assert_eq!(receives.stamps, stamps);
                assert!(!sends.merges && receives.merges == ($name == "gso"));
            }
        }
    };
}

engine_conformance!(send, Bed::Loopback, "send");
engine_conformance!(mmsg, Bed::Loopback, "mmsg");
engine_conformance!(gso, Bed::Loopback, "gso");
engine_conformance!(send_veth, Bed::Veth, "send");
engine_conformance!(mmsg_veth, Bed::Veth, "mmsg");
engine_conformance!(gso_veth, Bed::Veth, "gso");
engine_conformance!(memory, Bed::Memory, "memory");

#[test]
fn every_engine_of_the_list_is_tried() {
    let names: Vec<_> = ENGINES.iter().map(|engine| engine.name()).collect();
    assert_eq!(names, ["gso", "mmsg", "send"], "and a line above for each");
}

#[test]
fn segmentation_without_checksum_is_refused_as_such() {
    let [near, _far] = Bed::Loopback.ends(false).unwrap();
    let without = Config { checksum: false, ..config(Duty::Send, 100) };
    let mut ladder = Ladder::new(EngineChoice::Gso, without, near);
    let mut port = ladder.open().unwrap();
    let bytes = [0u8; 1_000];
    let error = port.send(&SendBatch { bytes: &bytes, segment: 100, train: 10 }).unwrap_err();
    assert!(port.is_refusal(&error), "{error}");
    // The stream is left usable, and the next engine goes on with it.
    let mut port = ladder.after_refusal(&error).unwrap();
    let taken = port.send(&SendBatch { bytes: &bytes, segment: 100, train: 1 });
    assert_eq!(taken.unwrap().datagrams, 10);
    assert_eq!(ladder.used(), ["gso", "mmsg"]);
    assert_eq!(ladder.why(), Some(format!("gso was refused: {error}")));
    assert!(!port.is_refusal(&error));
    // The last one has none after it.
    ladder.after_refusal(&error).unwrap();
    let none = ladder.after_refusal(&error).map(|_| ()).unwrap_err();
    assert!(none.to_string().contains("no engine is left"), "{none}");
}

/// The last words of a stream leave over its socket once the port is closed, and may be longer than the last datagram of
/// a test by bytes.
#[test]
fn what_leaves_over_the_socket_after_its_port_leaves_whole() {
    for engine in ENGINES {
        let [near, far] = Bed::Loopback.ends(false).unwrap();
        let [socket, to] = [&near, &far].map(|end| end.socket.clone().unwrap());
        let mut port = engine.open(&config(Duty::Send, 100), &near).unwrap();
        while port.send(&one(&[1; 32])).unwrap().datagrams == 0 {}
        drop(port);
        socket.send(&[2; 100]).unwrap();
        to.set_read_timeout(Some(HANGS)).unwrap();
        let mut bytes = [0; 200];
        let lengths = [0; 2].map(|_| std::io::Read::read(&mut &*to, &mut bytes).unwrap());
        assert_eq!(lengths, [32, 100], "{}", engine.name());
    }
}

/// Wherever in the queue it stands, and also where a socket of IPv6 has a peer of IPv4.
#[test]
fn what_strangers_sent_before_the_socket_was_connected_is_left_out() {
    let [v4, v6] = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
    let (any, mapped) = (Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::LOCALHOST.to_ipv6_mapped().into());
    // The socket's address, the others', and by which the socket knows these.
    for (own, theirs, known) in [(v4, v4, v4), (v6, v6, v6), (any, v4, mapped)] {
        for (engine, duty) in
            ENGINES.iter().flat_map(|engine| [(engine, Duty::Receive), (engine, Duty::Both)])
        {
            let [socket, peer, stranger] =
                [own, theirs, theirs].map(|ip| sys::udp_socket((ip, 0).into()).unwrap());
            let of = |socket: &socket2::Socket, ip: IpAddr| {
                let bound = socket.local_addr().unwrap().as_socket().unwrap();
                socket2::SockAddr::from(SocketAddr::new(ip, bound.port()))
            };
            let at = of(&socket, theirs);
            for (number, sender) in (0..).zip([&stranger, &peer, &stranger, &stranger, &peer]) {
                sender.send_to(&[number; 9], &at).unwrap();
            }
            socket.connect(&of(&peer, known)).unwrap();
            let end = Context::of_socket(socket, None).unwrap();
            let at_once = Config { receive_wait: Duration::ZERO, ..config(duty, 100) };
            let mut port = engine.open(&at_once, &end).unwrap();
            let (mut got, until) = (Vec::new(), Instant::now() + HANGS);
            let mut take = |port: &mut Port, wanted: &[u8]| {
                while got.len() < wanted.len() {
                    assert!(Instant::now() < until, "{}: {got:?}", engine.name());
                    let Ok(arrivals) = port.recv() else { continue };
                    for message in arrivals.messages() {
                        got.extend(message.bytes.chunks(message.segment).map(|bytes| bytes[0]));
                    }
                }
                assert_eq!(got, wanted, "{}", engine.name());
            };
            take(&mut port, &[1, 4]);
            // It goes on as if nobody else had been there.
            for number in 5..70 {
                peer.send_to(&[number; 9], &at).unwrap();
            }
            let all: Vec<u8> = [1, 4].into_iter().chain(5..70).collect();
            take(&mut port, &all);
            assert!(port.recv().is_err(), "{}", engine.name());
        }
    }
}

/// Cannot be opened.
struct Closed(&'static str, i32);

impl Engine for Closed {
    fn name(&self) -> &'static str {
        self.0
    }

    fn open(&self, _: &Config, _: &Context) -> std::io::Result<Port> {
        Err(std::io::Error::from_raw_os_error(self.1))
    }
}

#[test]
fn an_engine_that_cannot_be_opened_is_followed_by_the_next() {
    static FIRST_CLOSED: [&dyn Engine; 3] =
        [&Closed("gso", libc::ENOPROTOOPT), &Closed("mmsg", libc::EPERM), ENGINES_LAST];
    let [near, _far] = Bed::Loopback.ends(false).unwrap();
    let near = Context { engines: &FIRST_CLOSED, ..near };
    let mut ladder = Ladder::new(EngineChoice::Gso, config(Duty::Receive, 100), near.clone());
    ladder.open().unwrap();
    assert_eq!(ladder.used(), ["send"]);
    let why = ladder.why().unwrap();
    assert!(why.contains("gso could not be opened: Protocol not available"), "{why}");
    assert!(why.contains("mmsg could not be opened: Operation not permitted"), "{why}");
    // What needs a socket does not open without one.
    let alone = Context { socket: None, ..near };
    let mut ladder = Ladder::new(EngineChoice::Send, config(Duty::Receive, 100), alone);
    assert_eq!(ladder.open().map(|_| ()).unwrap_err().kind(), ErrorKind::NotConnected);
}

const ENGINES_LAST: &dyn Engine = &super::socket::Sockets::<super::send::Single>::NEW;

#[test]
fn a_port_without_a_clock_says_so() {
    let [near, far] = queues((Ipv4Addr::LOCALHOST, 0).into(), Stamps::Absent("no clock".into()));
    let mut sender = open("memory", &config(Duty::Send, 10), &near);
    let mut receiver = open("memory", &config(Duty::Receive, 10), &far);
    let _ = sender.send(&one(&[1; 10])).unwrap();
    assert_eq!(receiver.recv().unwrap().messages().next().unwrap().stamp_ns, None);
    let clock = ArrivalClock::new(receiver.capabilities().stamps);
    assert_eq!(clock.is_of_reading(), Some("no clock"));
}

#[test]
fn the_interface_of_a_stream_is_known() {
    let [near, _far] = Bed::Loopback.ends(true).unwrap();
    assert_eq!(near.interface().as_deref(), Some("lo"));
    let Some([near, _far]) = Bed::Veth.ends(false) else { return };
    let found = veth().unwrap().inside(0, || Ok(near.interface())).unwrap();
    assert_eq!(found.as_deref(), Some(veth::INTERFACE));
}

#[test]
fn what_the_path_or_the_far_end_says_is_no_drop_of_this_host() {
    let of = |errno| super::local_errno(&std::io::Error::from_raw_os_error(errno));
    for errno in [libc::EINTR, libc::ECONNREFUSED, libc::EMSGSIZE, libc::EPROTO, libc::EBADF] {
        assert_eq!(of(errno), None);
    }
    let known = [
        (libc::EPERM, Errno::Eperm),
        (libc::ENETDOWN, Errno::Enetdown),
        (libc::ENOBUFS, Errno::Enobufs),
        (libc::EHOSTDOWN, Errno::Other),
    ];
    assert!(known.into_iter().all(|(raw, errno)| of(raw) == Some(errno)));
    // Systems number it differently.
    let too_large = |errno| super::is_too_large(&std::io::Error::from_raw_os_error(errno));
    assert!(too_large(libc::EMSGSIZE) && !too_large(libc::ENOBUFS));
    // To a call that receives, ICMP alone brings any.
    let received = |errno| super::is_of_earlier(&std::io::Error::from_raw_os_error(errno));
    assert!([libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::EHOSTDOWN].into_iter().all(received));
    assert!(!received(libc::EBADF) && !received(libc::EAGAIN));
    // ICMP brings these for earlier datagrams, too.
    for errno in [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EACCES] {
        assert!(of(errno).is_some_and(Errno::may_answer_earlier));
    }
}
