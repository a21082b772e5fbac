//! Opening data streams of the native dialect, and TCP connections of any.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use linerate_engine::sys;
use linerate_model::plan::{IpVersion, TestPlan, Transport};
use linerate_model::record::ErrorRecord;
use linerate_wire::native::stream::{
    ACK_BYTES, COOKIE_BYTES, Claim, TcpOpening, UdpHello, UdpHelloAck,
};
use socket2::{Domain, Protocol, Socket, Type};

use super::connect::{CONNECT_LIMIT, with_port};
use crate::data::{self, StreamSocket};
use crate::errors;

/// Hellos of UDP streams are repeated this often …
const HELLO_EVERY: Duration = Duration::from_millis(100);

/// … and this many times.
const HELLO_TIMES: usize = 50;

/// A server answers a TCP stream's claim within this time.
const CLAIM_LIMIT: Duration = Duration::from_secs(10);

/// Opens streams to one server. Each takes its time: for a thread that may wait.
#[derive(Debug, Clone)]
pub(super) struct Opener {
    /// The server, as the user gave it.
    pub(super) name: String,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) ip: IpVersion,
    pub(super) plan: TestPlan,
}

impl Opener {
    /// The stream that this claim names.
    pub(super) fn open(
        &self,
        token: u64,
        cookie: [u8; COOKIE_BYTES],
        stream: u16,
    ) -> Result<StreamSocket, ErrorRecord> {
        let claim = Claim { token, cookie, stream };
        match self.plan.traffic.transport() {
            Transport::Udp => self.udp(claim),
            Transport::Tcp => self.tcp(claim),
        }
    }

    fn udp(&self, claim: Claim) -> Result<StreamSocket, ErrorRecord> {
        let fault = |e: &std::io::Error| errors::udp_stream(&self.name, self.peer, &e.to_string());
        let socket = sys::udp_socket(with_port(self.local, 0)).map_err(|e| fault(&e))?;
        socket.connect(&self.peer.into()).map_err(|e| fault(&e))?;
        socket.set_read_timeout(Some(HELLO_EVERY)).map_err(|e| fault(&e))?;
        let hello = UdpHello(claim).encode();
        let wanted = UdpHelloAck { token: claim.token, stream: claim.stream };
        let mut why = "no answer within 5 s".to_owned();
        for _ in 0..HELLO_TIMES {
            if let Err(e) = socket.send(&hello) {
                why = e.to_string();
                std::thread::sleep(HELLO_EVERY);
                continue;
            }
            let mut answer = [0; ACK_BYTES + 1];
            match (&socket).read(&mut answer) {
                Ok(n) if answer.get(..n).and_then(UdpHelloAck::decode) == Some(wanted) => {
                    return Ok(StreamSocket::Udp(socket, None));
                }
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(e) => {
                    why = e.to_string();
                    std::thread::sleep(HELLO_EVERY);
                }
            }
        }
        Err(errors::udp_stream(&self.name, self.peer, &why))
    }

    fn tcp(&self, claim: Claim) -> Result<StreamSocket, ErrorRecord> {
        let fault = |e: &std::io::Error| errors::tcp_stream(&self.name, self.peer, &e.to_string());
        let mut stream = self.connect(with_port(self.local, 0))?;
        stream.set_read_timeout(Some(CLAIM_LIMIT)).map_err(|e| fault(&e))?;
        stream.write_all(&TcpOpening(claim).encode()).map_err(|e| fault(&e))?;
        let mut answer = [0];
        stream.read_exact(&mut answer).map_err(|e| fault(&e))?;
        Ok(StreamSocket::Tcp(stream))
    }

    /// A TCP connection from `local` with what the plan asks of it.
    pub(super) fn connect(&self, local: SocketAddr) -> Result<std::net::TcpStream, ErrorRecord> {
        let fault = |e: &std::io::Error| errors::tcp_stream(&self.name, self.peer, &e.to_string());
        let socket = Socket::new(Domain::for_address(self.peer), Type::STREAM, Some(Protocol::TCP))
            .map_err(|e| fault(&e))?;
        // Before connecting: window scale and MSS are settled by the handshake.
        let options = sys::TcpOptions {
            window: self.plan.window,
            dscp: self.plan.dscp,
            ..sys::TcpOptions::default()
        };
        let options = data::tcp_options(&self.plan, options);
        if let Some((what, e)) = sys::set_tcp(&socket, self.ip == IpVersion::V6, &options).first() {
            return Err(errors::tcp_option(what, &options, e));
        }
        socket.bind(&local.into()).map_err(|e| fault(&e))?;
        socket.connect_timeout(&self.peer.into(), CONNECT_LIMIT).map_err(|e| fault(&e))?;
        Ok(socket.into())
    }
}
