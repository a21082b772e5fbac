//! One of iperf3's protocol.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use linerate_wire::iperf3::{Cookie, ErrorNumber, Failure, State, hello};

use super::LONG;

/// Another one for each seed: five bits make a letter.
pub fn cookie(seed: u32) -> Cookie {
    Cookie::from_random(std::array::from_fn(|i| (seed >> (5 * (i % 6))) as u8))
}

/// A client made by hand.
pub struct Peer {
    /// Its control connection.
    pub control: TcpStream,
    /// Names its test.
    pub cookie: Cookie,
}

impl Peer {
    /// Before its first byte.
    pub fn connect(at: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(at).expect("the server listens");
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Past the cookie.
    pub fn begin(at: SocketAddr) -> Self {
        static SEED: AtomicU32 = AtomicU32::new(1);
        let cookie = cookie(SEED.fetch_add(1, Ordering::Relaxed));
        let mut peer = Self { control: Self::connect(at), cookie };
        peer.bytes(cookie.bytes());
        assert_eq!(peer.state(), Some(State::ParamExchange));
        peer
    }

    /// Past the parameters.
    pub fn asked(at: SocketAddr, json: &str) -> Self {
        let mut peer = Self::begin(at);
        peer.json(json);
        peer
    }

    /// Past the word to open streams.
    pub fn granted(at: SocketAddr, json: &str) -> Self {
        let mut peer = Self::asked(at, json);
        assert_eq!(peer.state(), Some(State::CreateStreams), "{json}");
        peer
    }

    /// A UDP test that runs.
    pub fn running(at: SocketAddr, json: &str) -> (Self, UdpSocket) {
        let mut peer = Self::granted(at, json);
        let socket = udp(at);
        socket.send(&hello::HELLO).unwrap();
        let mut answer = [0; 64];
        let n = socket.recv(&mut answer).unwrap();
        assert_eq!(answer[..n], hello::ANSWER);
        assert_eq!(peer.state(), Some(State::TestStart));
        assert_eq!(peer.state(), Some(State::TestRunning));
        (peer, socket)
    }

    /// Errors are the server's right: it may have hung up.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.control.write_all(bytes);
    }

    /// A document with its length before it.
    pub fn json(&mut self, json: &str) {
        self.bytes(&(json.len() as u32).to_be_bytes());
        self.bytes(json.as_bytes());
    }

    /// A state.
    pub fn say(&mut self, state: State) {
        self.bytes(&[state.byte()]);
    }

    /// The next state; nothing when the server hangs up.
    pub fn state(&mut self) -> Option<State> {
        let mut byte = [0];
        match self.control.read_exact(&mut byte) {
            Ok(()) => Some(State::from_byte(byte[0]).expect("a state")),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the server keeps the connection")
            }
            Err(_) => None,
        }
    }

    /// The server says this and hangs up.
    pub fn fails(mut self, number: ErrorNumber) {
        assert_eq!(self.state(), Some(State::ServerError));
        let mut bytes = [0; 8];
        self.control.read_exact(&mut bytes).unwrap();
        assert_eq!(Failure::decode(&bytes).unwrap().number, number);
        assert_eq!(self.state(), None);
    }

    /// The server hangs up, whatever it says before.
    pub fn hung_up(mut self) {
        let mut rest = [0; 4_096];
        loop {
            match self.control.read(&mut rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!("the server keeps the connection")
                }
                Err(_) => return,
            }
        }
    }

    /// Closes with a reset instead of a farewell.
    pub fn reset(self) {
        socket2::SockRef::from(&self.control).set_linger(Some(Duration::ZERO)).unwrap();
    }
}

/// A socket for a stream.
pub fn udp(at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.connect(at).unwrap();
    socket
}

/// A client's results of one stream.
pub fn results(id: &str, packets: &str) -> String {
    format!(
        r#"{{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":0,"streams":[{{"id":{id},"bytes":1,"retransmits":-1,"jitter":0,"errors":0,"packets":{packets}}}]}}"#
    )
}
