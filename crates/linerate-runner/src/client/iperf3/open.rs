//! Opening the data streams as iperf3 does, and what its users see of them.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linerate_engine::sys;
use linerate_model::plan::{TestPlan, Transport, Way};
use linerate_model::record::ErrorRecord;
use linerate_model::test_event;
use linerate_wire::iperf3::{Cookie, Parameters, hello, stream_id};

use crate::address::with_port;
use crate::client::open::{Open, Opener};
use crate::data::{SocketFacts, StreamId, StreamSocket};
use crate::errors;

/// Opens the streams of a test of iperf3's.
pub(super) struct Iperf3 {
    pub(super) opener: Opener,
    pub(super) cookie: Cookie,
    /// `--cport`.
    pub(super) first_port: Option<u16>,
    pub(super) patience: Duration,
}

impl Open for Iperf3 {
    fn open(
        &self,
        stream: u16,
        _: Option<NonZeroU16>,
        taken: &AtomicBool,
    ) -> Result<StreamSocket, ErrorRecord> {
        let port = self.first_port.map_or(0, |first| first.wrapping_add(stream));
        let local = with_port(self.opener.local, port);
        match self.opener.plan.traffic.transport() {
            Transport::Udp => self.udp(local, taken),
            Transport::Tcp => {
                let Opener { name, peer, .. } = &self.opener;
                let mut stream = self.opener.connect(local)?;
                std::io::Write::write_all(&mut stream, self.cookie.bytes())
                    .map_err(|e| errors::tcp_stream(name, *peer, &e.to_string()))?;
                Ok(StreamSocket::Tcp(stream))
            }
        }
    }
}

impl Iperf3 {
    /// Says hello once and waits for the answer: a second hello would be taken for data by a server that
    /// has heard the first. For the last stream the start of the test is an answer too.
    fn udp(&self, local: SocketAddr, taken: &AtomicBool) -> Result<StreamSocket, ErrorRecord> {
        let Opener { name, peer, .. } = &self.opener;
        let fault = |e: &std::io::Error| errors::udp_stream(name, *peer, &e.to_string());
        let socket = sys::udp_socket(local).map_err(|e| fault(&e))?;
        socket.connect(&(*peer).into()).map_err(|e| fault(&e))?;
        socket.set_read_timeout(Some(Duration::from_millis(20))).map_err(|e| fault(&e))?;
        socket.send(&hello::HELLO).map_err(|e| fault(&e))?;
        let deadline = Instant::now() + self.patience;
        while Instant::now() < deadline {
            let mut datagram = [std::mem::MaybeUninit::<u8>::uninit(); hello::HELLO_BYTES + 1];
            match socket.peek(&mut datagram) {
                // Data that overtook the answer: the stream is there. The data stays for its receiver.
                Ok(n) if n > hello::HELLO_BYTES => return Ok(StreamSocket::Udp(socket, None)),
                Ok(_) => {
                    let mut answer = [0; hello::HELLO_BYTES];
                    let n =
                        std::io::Read::read(&mut &socket, &mut answer).map_err(|e| fault(&e))?;
                    if answer.get(..n).is_some_and(hello::is_answer) {
                        return Ok(StreamSocket::Udp(socket, None));
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(fault(&e)),
            }
            if taken.load(Ordering::Relaxed) {
                return Ok(StreamSocket::Udp(socket, None));
            }
        }
        let why = format!("no answer within {:?}", self.patience);
        Err(errors::udp_stream(name, *peer, &why))
    }
}

/// What was asked of the server, for its users.
pub(super) fn asked(plan: &TestPlan, parameters: &Parameters) -> test_event::Asked {
    let number = |value: Option<i64>| value.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    let small = |value: Option<i64>| u32::try_from(number(value)).unwrap_or(u32::MAX);
    test_event::Asked {
        transport: plan.traffic.transport(),
        direction: plan.direction,
        parallel: plan.streams,
        block_bytes: small(parameters.len),
        rate_bps: number(parameters.bandwidth),
        fq_rate_bps: number(parameters.fqrate),
        burst: small(parameters.burst),
        omit_s: small(parameters.omit),
        time_s: small(parameters.time),
        bytes: number(parameters.num),
        blocks: number(parameters.blockcount),
        tos: u8::try_from(number(parameters.tos)).unwrap_or(0),
        window_bytes: small(parameters.window),
        mss_bytes: small(parameters.mss),
        title: parameters.title.clone(),
        extra_data: parameters.extra_data.clone(),
        trips: false,
    }
}

/// A stream's socket, for its users; with the control connection's addresses where it has none.
pub(crate) fn stream(
    id: StreamId,
    facts: &SocketFacts,
    ends: (SocketAddr, SocketAddr),
    sends: Way,
) -> test_event::Stream {
    let (local, remote) = facts.addresses.unwrap_or(ends);
    let sends = id.way == sends;
    test_event::Stream { id: stream_id(id.stream), socket: facts.descriptor, local, remote, sends }
}
