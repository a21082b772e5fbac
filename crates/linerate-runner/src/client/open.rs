//! Opening data streams of the native dialect, and TCP connections of any.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_engine::sys;
use linerate_model::plan::{IpVersion, TestPlan, Transport};
use linerate_model::record::ErrorRecord;
use linerate_wire::native::stream::{
    ACK_BYTES, COOKIE_BYTES, Claim, TcpOpening, UdpHello, UdpHelloAck,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::connect::CONNECT_LIMIT;
use crate::address::with_port;
use crate::data::{self, StreamSocket};
use crate::errors;

/// Hellos of UDP streams are repeated this often …
const HELLO_EVERY: Duration = Duration::from_millis(100);

/// … and this many times.
const HELLO_TIMES: usize = 50;

/// A server answers a TCP stream's claim within this time.
const CLAIM_LIMIT: Duration = Duration::from_secs(10);

/// What opens data streams. Each takes its time: for a thread that may wait.
pub(super) trait Open: Send + 'static {
    /// Opens one, to `port` where the peer has named one for it. Once `taken` is set, the peer has said in
    /// another way that it has it.
    fn open(
        &self,
        stream: u16,
        port: Option<NonZeroU16>,
        taken: &AtomicBool,
    ) -> Result<StreamSocket, ErrorRecord>;
}

/// A stream that was to be opened.
pub(super) type Opened = (u16, Result<StreamSocket, ErrorRecord>);

/// A thread that opens streams, one after another. It ends with the first that fails, or when nobody waits
/// any more.
pub(super) struct Opening {
    wanted: UnboundedSender<(u16, Option<NonZeroU16>)>,
    opened: UnboundedReceiver<Opened>,
    taken: Arc<AtomicBool>,
}

impl Opening {
    pub(super) fn start(opener: impl Open) -> Self {
        let (wanted, mut to_open) = mpsc::unbounded_channel();
        let (sender, opened) = mpsc::unbounded_channel();
        let taken = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&taken);
        tokio::task::spawn_blocking(move || {
            while let Some((stream, port)) = to_open.blocking_recv() {
                let socket = opener.open(stream, port, &seen);
                let failed = socket.is_err();
                if sender.send((stream, socket)).is_err() || failed {
                    return;
                }
            }
        });
        Self { wanted, opened, taken }
    }

    /// Opens this one, too.
    pub(super) fn open(&self, stream: u16, port: Option<NonZeroU16>) {
        // After a failure nothing is opened any more.
        let _ = self.wanted.send((stream, port));
    }

    /// What is being opened is.
    pub(super) fn take(&self) {
        self.taken.store(true, Ordering::Relaxed);
    }

    /// The next one that was opened, or was not.
    pub(super) async fn next(&mut self) -> Opened {
        match self.opened.recv().await {
            Some(opened) => opened,
            None => std::future::pending().await,
        }
    }
}

/// Opens the native dialect's streams.
pub(super) struct Native {
    pub(super) opener: Opener,
    pub(super) token: u64,
    pub(super) cookie: [u8; COOKIE_BYTES],
}

impl Open for Native {
    fn open(
        &self,
        stream: u16,
        _: Option<NonZeroU16>,
        _: &AtomicBool,
    ) -> Result<StreamSocket, ErrorRecord> {
        let claim = Claim { token: self.token, cookie: self.cookie, stream };
        match self.opener.plan.traffic.transport() {
            Transport::Udp => self.opener.udp(claim),
            Transport::Tcp => self.opener.tcp(claim),
        }
    }
}

/// Opens connections of one test to its server.
#[derive(Debug, Clone)]
pub(super) struct Opener {
    /// The server, as the user gave it.
    pub(super) name: String,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) ip: IpVersion,
    pub(super) plan: TestPlan,
    /// The most of a window that is forced beyond the kernel's limits, in bytes; `None` is all.
    pub(super) most_forced: Option<u32>,
}

impl Opener {
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
            most_forced: self.most_forced,
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

#[cfg(test)]
mod tests {
    use linerate_model::plan::Traffic;
    use linerate_testkit::plans;

    use super::*;

    #[test]
    fn a_window_is_forced_no_further_than_the_owner_of_this_host_allows() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let most = 1 << 20;
        let opener = Opener {
            name: "127.0.0.1".into(),
            peer: listener.local_addr().unwrap(),
            local: ([127, 0, 0, 1], 0).into(),
            ip: IpVersion::V4,
            plan: TestPlan { window: Some(512 << 20), ..plans::plan(Traffic::Tcp(plans::tcp())) },
            most_forced: Some(most),
        };
        let stream = opener.connect(opener.local).unwrap();
        let limit = |name: &str| -> u64 {
            let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap();
            text.trim().parse().unwrap()
        };
        for (granted, limit) in [
            (sys::receive_buffer(&stream), limit("rmem_max")),
            (sys::send_buffer(&stream), limit("wmem_max")),
        ] {
            assert!(granted <= 2 * limit.max(u64::from(most)), "{granted}, the limit is {limit}");
        }
    }
}
