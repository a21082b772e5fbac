//! One of linerate's own protocol.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::num::NonZeroU8;
use std::time::{Duration, Instant};

use linerate_wire::native::datagram::{Header, Place};
use linerate_wire::native::stream::{Claim, TcpOpening, UdpHello, UdpHelloAck};
use linerate_wire::native::{PREAMBLE, auth};
use serde_json::{Value, json};

use super::LONG;

/// A client's, in hexadecimal.
pub const NONCE: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// A client made by hand.
pub struct Peer {
    /// Its control connection.
    pub control: TcpStream,
}

/// What a granted test is opened with.
pub struct Granted {
    /// Names the test.
    pub token: u64,
    /// Its secret.
    pub cookie: [u8; 16],
}

impl Peer {
    /// Before its first byte.
    pub fn connect(address: SocketAddr) -> Self {
        let control = TcpStream::connect(address).expect("the server listens");
        control.set_read_timeout(Some(LONG)).unwrap();
        control.set_write_timeout(Some(LONG)).unwrap();
        Self { control }
    }

    /// Past the preamble.
    pub fn begin(address: SocketAddr) -> Self {
        let mut peer = Self::connect(address);
        peer.bytes(&PREAMBLE);
        peer
    }

    /// Past the welcome.
    pub fn greeted(address: SocketAddr) -> Self {
        let mut peer = Self::begin(address);
        peer.say(&hello(1, 1));
        assert!(peer.hear().unwrap()["welcome"].is_object());
        peer
    }

    /// Past the agreement.
    pub fn granted(address: SocketAddr, plan: Value) -> (Self, Granted) {
        let mut peer = Self::greeted(address);
        peer.say(&json!({ "request": { "plan": plan } }));
        let answer = peer.hear().expect("an answer");
        let agreed = &answer["agreed"];
        let token = agreed["token"].as_u64().unwrap_or_else(|| panic!("refused: {answer}"));
        let cookie = auth::from_hex(agreed["cookie"].as_str().unwrap()).unwrap();
        (peer, Granted { token, cookie })
    }

    /// A UDP test that has its stream.
    pub fn ready(address: SocketAddr, plan: Value) -> (Self, Granted, UdpSocket) {
        let (mut peer, granted) = Self::granted(address, plan);
        let socket = granted.udp_stream(address, 0);
        assert_eq!(peer.hear(), Some(json!("ready")));
        (peer, granted, socket)
    }

    /// A UDP test that has begun.
    pub fn started(address: SocketAddr, plan: Value) -> (Self, Granted, UdpSocket) {
        let (mut peer, granted, socket) = Self::ready(address, plan);
        peer.say(&json!("start"));
        assert_eq!(peer.hear(), Some(json!("started")));
        (peer, granted, socket)
    }

    /// A TCP stream of a granted test, once the server has taken it.
    pub fn stream(address: SocketAddr, granted: &Granted, stream: u16) -> TcpStream {
        let mut peer = Self::connect(address);
        peer.bytes(&TcpOpening(granted.claim(stream)).encode());
        peer.control.read_exact(&mut [0]).expect("the server takes it");
        peer.control
    }

    /// Errors are the server's right: it may have hung up.
    pub fn bytes(&mut self, bytes: &[u8]) -> bool {
        self.control.write_all(bytes).is_ok()
    }

    /// A message of any bytes, with its length before it.
    pub fn frame(&mut self, body: &[u8]) -> bool {
        let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
        bytes.extend(body);
        self.bytes(&bytes)
    }

    /// A message.
    pub fn say(&mut self, message: &Value) -> bool {
        self.frame(message.to_string().as_bytes())
    }

    /// The next message; nothing when the server hangs up.
    pub fn hear(&mut self) -> Option<Value> {
        Some(serde_json::from_slice(&self.body()?).expect("JSON"))
    }

    /// The next frame's body.
    pub fn body(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        self.control.read_exact(&mut length).ok()?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.control.read_exact(&mut body).ok()?;
        Some(body)
    }

    /// Hears until the server hangs up, which it must; returns the last message.
    pub fn hung_up(mut self) -> Option<Value> {
        let mut last = None;
        let mut byte = [0];
        while let Some(message) = self.hear() {
            last = Some(message);
        }
        match self.control.read(&mut byte) {
            Ok(0) => last,
            Err(e) if e.kind() != ErrorKind::WouldBlock && e.kind() != ErrorKind::TimedOut => last,
            other => panic!("the server keeps the connection: {other:?}"),
        }
    }

    /// Closes with a reset instead of a farewell.
    pub fn reset(self) {
        socket2::SockRef::from(&self.control).set_linger(Some(Duration::ZERO)).unwrap();
    }
}

impl Granted {
    /// What opens a stream.
    pub fn claim(&self, stream: u16) -> Claim {
        Claim { token: self.token, cookie: self.cookie, stream }
    }

    /// A UDP stream, once the server has taken it.
    pub fn udp_stream(&self, address: SocketAddr, stream: u16) -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(address).unwrap();
        // Repeated, as every client does: others may have filled the server's buffer.
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut answer = [0; 64];
        let begun = Instant::now();
        let n = loop {
            socket.send(&UdpHello(self.claim(stream)).encode()).unwrap();
            match socket.recv(&mut answer) {
                Ok(n) => break n,
                Err(e) => assert!(begun.elapsed() < LONG, "no answer: {e}"),
            }
        };
        socket.set_read_timeout(Some(LONG)).unwrap();
        assert_eq!(UdpHelloAck::decode(&answer[..n]).unwrap().token, self.token);
        socket
    }
}

/// The first message of a client that speaks these versions.
pub fn hello(min: u64, max: u64) -> Value {
    json!({ "hello": { "version_min": min, "version_max": max, "nonce": NONCE, "program": "x" } })
}

/// A legal plan; the change is laid over it.
pub fn plan(change: &Value) -> Value {
    let mut plan = json!({
        "traffic": { "udp": { "size": 1000, "rate": { "datagrams": 1000 }, "burst": 0,
            "engine": "send", "checksum": true } },
        "direction": "forward", "streams": 1, "end": { "time": 1_000_000_000u64 },
        "warmup": 0, "interval": 100_000_000u64, "window": null,
        "client_cpus": [], "server_cpus": [], "dscp": null
    });
    merge(&mut plan, change);
    plan
}

/// Lays a change over a value. What excludes its neighbours takes their place.
pub fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                if key == "time"
                    || key == "bytes"
                    || key == "datagrams"
                    || key == "tcp"
                    || key == "rr"
                {
                    into.clear();
                }
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

/// A datagram of a test's first stream.
pub fn send(socket: &UdpSocket, granted: &Granted, number: u64) {
    send_of(socket, granted, 0, number);
}

/// A datagram of one of its streams.
pub fn send_of(socket: &UdpSocket, granted: &Granted, stream: u16, number: u64) {
    let mut datagram = [0; 1_000];
    let place = Place { stream, warmup: false, position: 0, train: NonZeroU8::MIN };
    Header { token: granted.token, number, sent_ns: 1, place }.write(&mut datagram);
    socket.send(&datagram).unwrap();
}
