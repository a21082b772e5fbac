//! Opening the data streams, and what is told of them.

use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use linerate_engine::sys;
use linerate_model::plan::{Transport, Way};
use linerate_model::record::ErrorRecord;
use linerate_model::test_event::{self, Connected};
use linerate_wire::iperf3::{Cookie, Parameters, State, hello, stream_id};
use tokio::time::{Instant, timeout};

use super::ask::Extras;
use super::control::{Control, Heard};
use crate::client::{ClientTest, with_port};
use crate::data::{StreamId, StreamSocket};
use crate::errors;

/// Opens the streams one after another, as iperf3 expects them.
pub(super) async fn open_streams(
    near: &ClientTest<'_>,
    control: &mut Control,
    ids: &[StreamId],
    cookie: &Cookie,
    extras: &Extras,
) -> Result<Vec<StreamSocket>, ErrorRecord> {
    let mut sockets = Vec::new();
    for id in ids {
        let port = extras.first_port.map_or(0, |first| first.wrapping_add(id.stream));
        let local = with_port(near.local, port);
        sockets.push(match near.plan.traffic.transport() {
            Transport::Udp => {
                open_udp(near, control, local, id.stream as usize + 1 == ids.len()).await?
            }
            Transport::Tcp => {
                let mut stream = near.opener().connect(local)?;
                std::io::Write::write_all(&mut stream, cookie.bytes())
                    .map_err(|e| errors::tcp_stream(&near.name, near.peer, &e.to_string()))?;
                StreamSocket::Tcp(stream)
            }
        });
    }
    Ok(sockets)
}

/// Says hello once and waits for the answer: a second hello would be taken for data by a server that
/// has heard the first. For the last stream the start of the test is an answer too.
async fn open_udp(
    near: &ClientTest<'_>,
    control: &mut Control,
    local: SocketAddr,
    last: bool,
) -> Result<StreamSocket, ErrorRecord> {
    let fault = |e: &std::io::Error| errors::udp_stream(&near.name, near.peer, &e.to_string());
    let socket = sys::udp_socket(local).map_err(|e| fault(&e))?;
    socket.connect(&near.peer.into()).map_err(|e| fault(&e))?;
    socket.set_read_timeout(Some(Duration::from_millis(20))).map_err(|e| fault(&e))?;
    socket.send(&hello::HELLO).map_err(|e| fault(&e))?;
    let deadline = Instant::now() + control.patience;
    while Instant::now() < deadline {
        let mut datagram = [std::mem::MaybeUninit::<u8>::uninit(); hello::HELLO_BYTES + 1];
        match socket.peek(&mut datagram) {
            // Data that overtook the answer: the stream is there. The data stays for its receiver.
            Ok(n) if n > hello::HELLO_BYTES => return Ok(StreamSocket::Udp(socket, None)),
            Ok(_) => {
                let mut answer = [0; hello::HELLO_BYTES];
                let n = std::io::Read::read(&mut &socket, &mut answer).map_err(|e| fault(&e))?;
                if answer.get(..n).is_some_and(hello::is_answer) {
                    return Ok(StreamSocket::Udp(socket, None));
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(fault(&e)),
        }
        let heard =
            timeout(Duration::from_millis(1), control.state(near, "opening the data streams"));
        match heard.await {
            Ok(Heard::State(State::TestStart)) if last => {
                control.early = Some(State::TestStart);
                return Ok(StreamSocket::Udp(socket, None));
            }
            Ok(Heard::State(state)) => {
                let why = format!("it said {state:?} before all streams were open");
                return Err(near.lost("opening the data streams", &why));
            }
            Ok(Heard::Failed(error)) => return Err(error),
            Err(_) => {}
        }
    }
    let why = format!("no answer within {:?}", control.patience);
    Err(errors::udp_stream(&near.name, near.peer, &why))
}

/// What is told of a test when all streams exist.
pub(super) fn start_reported(
    near: &ClientTest<'_>,
    connected: &Connected,
    cookie: &Cookie,
    parameters: &Parameters,
    ids: &[StreamId],
    sockets: &[StreamSocket],
) -> test_event::Start {
    let number = |value: Option<i64>| value.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    let small = |value: Option<i64>| u32::try_from(number(value)).unwrap_or(u32::MAX);
    let addresses = |socket: &StreamSocket| match socket {
        StreamSocket::Udp(socket, _) => {
            (socket.as_raw_fd(), socket.local_addr().ok().and_then(|a| a.as_socket()))
        }
        StreamSocket::Tcp(socket) => (socket.as_raw_fd(), socket.local_addr().ok()),
    };
    let buffers = |socket: &StreamSocket| match socket {
        StreamSocket::Udp(socket, _) => (sys::send_buffer(socket), sys::receive_buffer(socket)),
        StreamSocket::Tcp(socket) => (sys::send_buffer(socket), sys::receive_buffer(socket)),
    };
    let first = sockets.first().map(buffers);
    test_event::Start {
        client: true,
        control: connected.clone(),
        cookie: cookie.text(),
        asked: test_event::Asked {
            transport: near.plan.traffic.transport(),
            direction: near.plan.direction,
            parallel: near.plan.streams,
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
        },
        streams: ids
            .iter()
            .zip(sockets)
            .map(|(id, socket)| {
                let (descriptor, local) = addresses(socket);
                test_event::Stream {
                    id: stream_id(id.stream),
                    socket: descriptor,
                    local: local.unwrap_or(near.local),
                    remote: near.peer,
                    sends: id.way == Way::Forward,
                }
            })
            .collect(),
        send_buffer: first.map(|b| b.0),
        receive_buffer: first.map(|b| b.1),
    }
}
