//! What clients that keep to nothing held at a server is free again when their test is over, and what they
//! cannot take meanwhile.

use crate::support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use linerate_testkit::peer::LONG;
use linerate_testkit::peer::native::{self, Peer, plan};

use crate::support::{Server, alone, linerate, number, wait_for};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

fn address(server: &Server) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.port))
}

/// The log's word on the first test that ended.
fn ended(server: &Server) -> Value {
    let find = || {
        let log = server.log();
        log.lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .find(|l: &Value| l["event"] == "ended")
    };
    assert!(wait_for(LONG, || find().is_some()), "it never ends: {}", server.log());
    find().unwrap()
}

/// The server holds no more descriptors and threads than before.
fn back_to(server: &Server, before: support::Holds, what: &str) {
    let back = || {
        let now = server.holds();
        now.descriptors <= before.descriptors && now.threads <= before.threads
    };
    let since = Instant::now();
    assert!(wait_for(BACK, back), "{what}: before {before:?}, now {:?}", server.holds());
    println!("{what}: back after {:?}", since.elapsed());
}

/// Less than any deadline that would free a place by itself, and enough for a busy machine.
const BACK: Duration = Duration::from_secs(4);

#[test]
fn what_a_client_held_is_free_though_it_keeps_its_socket() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let at = address(&server);
    let before = server.at_rest(None, "127.0.0.1");
    // Granted, and given back at once; of each kind, with and without its stream.
    let mut kept = Vec::new();
    for _ in 0..200 {
        let (mut peer, _) = Peer::granted(at, plan(&json!({})));
        peer.say(&json!("bye"));
        kept.push(peer);
    }
    back_to(&server, before, "a goodbye before the streams");
    let (mut peer, _, socket) = Peer::ready(at, plan(&json!({})));
    peer.say(&json!("bye"));
    back_to(&server, before, "a goodbye before the start");
    kept.push(peer);
    let reverse = plan(&json!({ "direction": "reverse", "end": { "time": 60_000_000_000u64 } }));
    let (mut peer, _, reverse_socket) = Peer::started(at, reverse);
    peer.say(&json!("bye"));
    back_to(&server, before, "a goodbye within the test");
    kept.push(peer);
    let mut peer = Peer::greeted(at);
    peer.say(&json!({ "request": { "plan": plan(&json!({ "streams": 0 })) } }));
    assert!(peer.hear().unwrap()["refused"].is_object());
    back_to(&server, before, "a refusal");
    kept.push(peer);
    drop((kept, socket, reverse_socket));
}

/// Whoever asks and reads no answer holds no thread after the test.
#[test]
fn a_thread_that_answers_ends_with_its_test() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let at = address(&server);
    let before = server.at_rest(None, "127.0.0.1");
    let change = json!({ "traffic": { "rr": { "transport": "tcp", "request": 1,
        "response": 65_536, "outstanding": 1, "rate": null } }, "end": { "time": 60_000_000_000u64 } });
    let (mut peer, granted) = Peer::granted(at, plan(&change));
    let stream = Peer::stream(at, &granted, 0);
    assert_eq!(peer.hear(), Some(json!("ready")));
    peer.say(&json!("start"));
    assert_eq!(peer.hear(), Some(json!("started")));
    (&stream).write_all(&[0; 65_536]).unwrap();
    // It answers until nothing goes any more.
    std::thread::sleep(Duration::from_millis(200));
    peer.say(&json!("bye"));
    back_to(&server, before, "answers that nobody reads");
    drop(stream);
}

#[test]
fn a_server_out_of_descriptors_says_so_and_serves_again() {
    let _alone = alone();
    let mut server = Server::start(None, &[]);
    let at = address(&server);
    let most = (server.at_rest(None, "127.0.0.1").descriptors + 16).to_string();
    let (pid, limit) = (server.pid().to_string(), format!("--nofile={most}:{most}"));
    let set = std::process::Command::new("prlimit").args(["--pid", &pid, &limit]).status();
    if !set.is_ok_and(|status| status.success()) {
        support::skip("a_server_out_of_descriptors_says_so_and_serves_again", "no prlimit");
        return;
    }
    let kept: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(at).unwrap()).collect();
    let told = || server.log().matches("cannot_accept").count();
    assert!(wait_for(LONG, || told() > 0), "{}", server.log());
    let ticks = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
        let times = stat.rsplit(')').next().unwrap().split_whitespace().skip(11);
        times.take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    };
    // Full for a second: a loop without a pause would take all of a core, which is 100 ticks.
    let before = ticks();
    std::thread::sleep(Duration::from_secs(1));
    let busy = ticks() - before;
    assert!(busy < 50, "{busy} ticks");
    assert_eq!(told(), 1, "{}", server.log());
    drop(kept);
    assert!(server.alive());
    let port = server.port.to_string();
    let args = ["udp", "127.0.0.1", "-p", &port, "-k", "20", "-b", "2M", "--json"];
    linerate(None, &args).complete();
}

/// Whether this thread may bind a UDP socket beside the server, as it is now.
fn binds(at: SocketAddr, address: bool, port: bool) -> std::io::Result<()> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, None)?;
    socket.set_reuse_address(address)?;
    socket.set_reuse_port(port)?;
    socket.bind(&at.into())
}

/// Datagrams belong to who runs the server: no other user gets a share of its port.
#[test]
fn no_other_user_binds_the_port_beside_the_server() {
    const TEST: &str = "no_other_user_binds_the_port_beside_the_server";
    const NOBODY: u32 = 65_534;
    let _alone = alone();
    for bind in [&[][..], &["-B", "127.0.0.1"]] {
        let server = Server::start(None, bind);
        let at = address(&server);
        let idle = Peer::greeted(at);
        let far = plan(&json!({ "end": { "time": 60_000_000_000u64 } }));
        for busy in [None, Some(Peer::started(at, far))] {
            // The user of a thread's new files and sockets is the thread's own.
            let made = std::thread::spawn(move || {
                nix::unistd::setfsuid(NOBODY.into());
                if nix::unistd::setfsuid(NOBODY.into()).as_raw() != NOBODY {
                    return None;
                }
                let mut made = Vec::new();
                for ip in ["127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1"] {
                    let at = SocketAddr::new(ip.parse().unwrap(), at.port());
                    for (address, port) in [(true, false), (false, true), (true, true)] {
                        made.push((ip, address, port, binds(at, address, port)));
                    }
                }
                Some(made)
            });
            let Some(made) = made.join().unwrap() else {
                support::skip(TEST, "this user cannot act as another");
                return;
            };
            for (ip, address, port, bound) in made {
                let error = bound.expect_err(&format!("{ip} {address} {port}, {bind:?}"));
                assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse, "{ip}: {error}");
            }
            drop(busy);
        }
        drop(idle);
        // Many streams at once still share it.
        let port = server.port.to_string();
        let args = ["udp", "127.0.0.1", "-p", &port, "-P", "8", "-k", "400", "-b", "2M", "--json"];
        let record = linerate(None, &args).complete();
        assert_eq!(number(&record, "totals.receiver.lost"), 0);
    }
}

/// Each message of the results may take its time, but not all of them together.
#[test]
#[ignore = "long"]
fn who_takes_the_results_slowly_does_not_keep_its_place() {
    const STREAMS: u16 = 128;
    const BYTES_PER_MS: usize = 1_000;
    let _alone = alone();
    let server = Server::start(None, &[]);
    let at = address(&server);
    let change = json!({ "streams": STREAMS, "interval": 10_000_000,
        "end": { "time": 8_000_000_000u64 } });
    let (mut peer, granted) = Peer::granted(at, plan(&change));
    // The kernel holds no more of the results for it than this.
    socket2::SockRef::from(&peer.control).set_recv_buffer_size(256 << 10).unwrap();
    let sockets: Vec<_> = (0..STREAMS).map(|stream| granted.udp_stream(at, stream)).collect();
    assert_eq!(peer.hear(), Some(json!("ready")));
    peer.say(&json!("start"));
    peer.control.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let begun = Instant::now();
    for number in 0..8 {
        for (stream, socket) in (0..).zip(&sockets) {
            native::send_of(socket, &granted, stream, number);
        }
        peer.say(&json!("alive"));
        // The rows of the live view are taken in time.
        while begun.elapsed() < Duration::from_secs(number + 1) {
            let _ = peer.control.read(&mut [0; 65_536]);
        }
    }
    let sent = |stream| json!({ "stream": stream, "datagrams": 8, "bytes": 8_000, "span_ns": 1 });
    peer.say(&json!({ "sent": (0..STREAMS).map(sent).collect::<Vec<_>>() }));
    let (mut taken, begun) = (0, Instant::now());
    while !server.log().contains("\"ended\"") {
        assert!(begun.elapsed() < 3 * LONG, "it waits for ever");
        // Fast enough for each message, as the kernel tells the server of room by the megabyte only.
        while taken < begun.elapsed().as_millis() as usize * BYTES_PER_MS {
            match peer.control.read(&mut [0; 4_096]) {
                Ok(bytes) if bytes > 0 => taken += bytes,
                _ => break,
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{taken} bytes in {:?}", begun.elapsed());
    let ended = ended(&server);
    assert_eq!(ended["outcome"], "vanished", "{ended}");
    assert!(ended["why"].as_str().unwrap().contains("all results"), "{ended}");
}
