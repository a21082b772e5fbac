//! Whole conversations of the real nuttcp 6.1.2 and 8.2.2, both ends of each as they were captured: each end of
//! linerate's is told what the real one was told, and must say and understand the same.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use linerate_testkit::peer::LONG;
use linerate_wire::nuttcp::Parameters;

use crate::nuttcp_face::masked;
use crate::support::nuttcp::{Peer, serve};
use crate::support::{Client, alone, wait_for};

/// What was said on one control connection. `>` stands before the client's lines, `<` before the server's.
struct Captured {
    name: &'static str,
    text: &'static str,
}

macro_rules! captured {
    ($($name:literal),+) => {
        [$(Captured { name: $name, text: include_str!(concat!("../nuttcp/", $name, ".txt")) }),+]
    };
}

const ALL: [Captured; 8] = captured![
    "6.1.2-tcp",
    "6.1.2-tcp-back",
    "6.1.2-udp",
    "6.1.2-udp-back",
    "8.2.2-tcp",
    "8.2.2-tcp-back",
    "8.2.2-udp",
    "8.2.2-udp-back"
];

const PATIENT: Duration = Duration::from_secs(50);
const DATA: u16 = 7_300;

impl Captured {
    /// The options of the client that it was captured of.
    fn options(&self) -> &'static str {
        self.text.lines().next().and_then(|line| line.strip_prefix("# nuttcp ")).expect("options")
    }

    fn lines(&self, mark: &str) -> Vec<&'static str> {
        self.text.lines().filter_map(|line| line.strip_prefix(mark)).collect()
    }

    fn udp(&self) -> bool {
        self.name.contains("udp")
    }

    /// The server sends.
    fn back(&self) -> bool {
        self.name.ends_with("back")
    }

    /// Of what the client asks for: bytes of a write or datagram, and how many.
    fn amount(&self) -> (usize, usize) {
        if self.udp() { (1_000, 500) } else { (8_192, 160) }
    }

    /// How the server tells it.
    fn megabytes(&self) -> &'static str {
        if self.udp() { "0.4768 MB" } else { "1.2500 MB" }
    }
}

/// Datagrams of data, and what is before and after them.
fn send_datagrams(socket: &UdpSocket, (size, count): (usize, usize)) {
    let say = |word: &[u8]| socket.send(word).expect("the other end is there");
    say(b"BOD0");
    say(b"BOD1");
    let mut data = vec![0; size];
    for sent in 1..=count {
        data[24..32].copy_from_slice(&((sent * size) as u64).to_ne_bytes());
        say(&data);
        // At the rate that was asked for.
        std::thread::sleep(Duration::from_millis(1));
    }
    say(b"EOD0");
    say(b"EOD1");
}

/// Up to a word of the end after the first: where others have this core, one may find no room.
fn take_datagrams(socket: &UdpSocket) {
    let mut bytes = [0; 1 << 16];
    let is_end = |datagram: &[u8]| datagram.starts_with(b"EOD") && datagram != b"EOD0";
    while socket.recv(&mut bytes).is_ok_and(|length| !is_end(&bytes[..length])) {}
}

/// What `bind` binds, once the port is free: a program that another test starts holds a copy of what was bound there
/// before until it runs.
fn bound<T>(mut bind: impl FnMut() -> std::io::Result<T>) -> T {
    let mut taken = None;
    assert!(wait_for(LONG, || {
        taken = bind().ok();
        taken.is_some()
    }));
    taken.expect("a port")
}

/// The captured server, for one client; what the client asked for.
fn captured_server(captured: &Captured, listener: &TcpListener) -> String {
    let (control, from) = listener.accept().expect("a client");
    let mut heard = BufReader::new(control.try_clone().expect("a connection"));
    let mut said = captured.lines("< ").into_iter();
    let say =
        |line: &str| (&control).write_all(format!("{line}\n").as_bytes()).expect("it listens");
    let mut hear = || {
        let mut line = String::new();
        heard.read_line(&mut line).expect("a line");
        line
    };
    assert!(hear().starts_with("HELO nuttcp v"));
    say(said.next().expect("a greeting"));
    let asked = hear();
    let data = bound(|| TcpListener::bind(("127.0.0.2", DATA)));
    let socket = bound(|| UdpSocket::bind(("127.0.0.2", if captured.back() { 0 } else { DATA })));
    socket.set_read_timeout(Some(PATIENT)).expect("an option");
    say(said.next().expect("consent"));
    let (size, count) = captured.amount();
    match (captured.udp(), captured.back()) {
        (false, false) => {
            let (mut stream, _) = data.accept().expect("data");
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("data");
            assert_eq!(all.len(), size * count);
        }
        (false, true) => {
            let stream = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
            let stream = stream.expect("a socket");
            let own = std::net::SocketAddr::from(([127, 0, 0, 2], 0));
            stream.bind(&own.into()).expect("an address");
            let there = std::net::SocketAddr::new(from.ip(), DATA);
            stream.connect(&there.into()).expect("the client waits");
            (&stream).write_all(&vec![7; size * count]).expect("it reads");
        }
        (true, false) => take_datagrams(&socket),
        (true, true) => {
            socket.connect((from.ip(), DATA)).expect("an address");
            send_datagrams(&socket, captured.amount());
        }
    }
    said.for_each(say);
    asked
}

#[test]
fn a_client_asks_and_understands_as_in_captured_conversations() {
    let _alone = alone();
    for captured in &ALL {
        let name = captured.name;
        let listener = TcpListener::bind(("127.0.0.2", 0)).expect("a port");
        let port = listener.local_addr().expect("its number").port().to_string();
        let words = ["nuttcp", "-P", &port].into_iter().chain(captured.options().split(' '));
        let words: Vec<&str> = words.chain(["127.0.0.2"]).collect();
        let client = Client::start(None, &words);
        let asked = captured_server(captured, &listener);
        let ran = client.end();
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        let parameters = |line: &str| Parameters::decode(line.trim_end().as_bytes());
        let theirs = parameters(captured.lines("> ")[1]).expect("parameters");
        let ours = parameters(&asked).expect("parameters");
        // Without -i it asks for one interval, longer than the test, so that datagrams carry counts; and for figures as
        // `key=value`, of which it understands the other style all the same.
        let asked = Parameters { interval_us: theirs.interval_us, format: theirs.format, ..ours };
        assert_eq!(asked, theirs, "{name}");
        let shown = ran.out.lines().last().unwrap_or_default();
        assert!(shown.contains(captured.megabytes()), "{name}: {}", ran.out);
        let lossless = !captured.udp() || shown.contains("0 / 500 drop/pkt 0.00 %loss");
        assert!(lossless, "{name}: {}", ran.out);
        // A sender that got its core late sends all within one interval, which is shorter, and shows none.
        let rows = captured.lines("< ").iter().filter(|line| line.contains(" MB /")).count();
        let shown = ran.out.lines().filter(|line| line.contains("~drop/pkt")).count();
        assert!(shown == 0 || rows > 0, "{name}: {}", ran.out);
    }
}

/// The captured client, of one server; what that said from its consent on.
fn captured_client(captured: &Captured, at: std::net::SocketAddr) -> Vec<String> {
    let mut peer = Peer::connect(at);
    let said = captured.lines("> ");
    let [hello, line] = said[..] else { panic!("{}", captured.name) };
    peer.say(&format!("{hello}\n"));
    let greeting = peer.line().expect("a greeting");
    assert!(greeting.starts_with("HELO nuttcp v"), "{greeting}");
    let own = bound(|| UdpSocket::bind(("127.0.0.1", if captured.back() { DATA } else { 0 })));
    own.set_read_timeout(Some(PATIENT)).expect("an option");
    let listener = captured.back().then(|| bound(|| TcpListener::bind(("127.0.0.1", DATA))));
    peer.say(&format!("{line}\n"));
    let consent = peer.line().expect("consent");
    assert!(consent.starts_with("OK v"), "{}: {consent} {:?}", captured.name, peer.rest());
    let (size, count) = captured.amount();
    let to = std::net::SocketAddr::from(([127, 0, 0, 1], DATA));
    match (captured.udp(), listener) {
        (false, None) => {
            let mut stream = None;
            assert!(wait_for(PATIENT, || {
                stream = TcpStream::connect(to).ok();
                stream.is_some()
            }));
            let mut stream = stream.expect("it waits");
            stream.write_all(&vec![7; size * count]).expect("it reads");
        }
        (false, Some(listener)) => {
            let (mut stream, _) = listener.accept().expect("data");
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("data");
            assert_eq!(all.len(), size * count);
        }
        (true, None) => {
            own.connect(to).expect("an address");
            send_datagrams(&own, captured.amount());
        }
        (true, Some(_)) => take_datagrams(&own),
    }
    [vec![consent], peer.rest()].concat()
}

#[test]
fn a_server_answers_as_in_captured_conversations() {
    let _alone = alone();
    let (_server, at) = serve(&[]);
    // Those first in which the port is the server's: it does not wait for one that this end had.
    let (back, forth): (Vec<_>, Vec<_>) = ALL.iter().partition(|captured| captured.back());
    for captured in forth.into_iter().chain(back) {
        let name = captured.name;
        let ours = captured_client(captured, at).join("\n");
        assert!(ours.contains(captured.megabytes()), "{name}: {ours}");
        // How sockets were opened is shown to nobody who has not asked, and this server does not say it.
        let figures = |text: &str| {
            let of = [
                "OK",
                "real seconds",
                "CPU seconds",
                "retrans",
                "I/O calls",
                "sys ",
                " MB /",
                "DONE",
            ];
            let lines =
                masked(text).into_iter().filter(|line| of.iter().any(|word| line.contains(word)));
            // Of releases, the first has no window.
            lines.map(|line| line.replace(" cwnd = 0 KB", "")).collect::<Vec<_>>()
        };
        let theirs = captured.lines("< ")[1..].join("\n");
        assert_eq!(figures(&ours), figures(&theirs), "{name}\n{ours}\n{theirs}");
    }
}
