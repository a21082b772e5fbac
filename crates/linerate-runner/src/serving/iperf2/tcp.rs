//! TCP streams of iperf 2's clients: what one is, and the one back to a client that asks for it (`-d`, `-r`).

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use linerate_engine::{clock, sys};
use linerate_model::plan::Transport;
use linerate_wire::iperf2::{Ack, Header, Unfit};
use linerate_wire::native::message::{RefusalKind, Refused};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout_at};

use super::plan::Asked;
use super::stream::{Alone, Test, alone, grant};
use crate::address::with_port;
use crate::data::{Early, StreamSocket};
use crate::service::Server;

/// The most that is looked at before a stream says what it is: no client's header is longer.
const MOST_HEADER: usize = 512;
/// A header that is not yet whole is looked at again after so long.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// What clients that ask are told: the release that this end speaks like.
const VERSION: (u32, u32) = (0x0002_0002, 0x0001_0001);
/// A client that listens answers at once; one behind a firewall never does.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Where nobody listens yet, it is called again after so long.
const CALL_AGAIN: Duration = Duration::from_millis(100);

/// A stream that is granted, as soon as it has its socket.
type Granted = Box<dyn FnOnce(StreamSocket, Vec<Early>) -> Test + Send>;

/// A stream, with the one back to its client.
pub(crate) struct Streams {
    test: Test,
    call: Option<Call>,
}

/// The stream back of `-d` and `-r`, which has its place already: a client waits for it without an end.
struct Call {
    /// Or after the client's own stream.
    at_once: bool,
    /// Where its client called, on any port.
    from: SocketAddr,
    /// Where its client listens.
    to: SocketAddr,
    granted: Granted,
}

impl Streams {
    /// Runs them, to their ends.
    pub(crate) async fn run(self, server: &Arc<Server>) {
        let Self { test, call } = self;
        let test = Box::pin(test.run(server));
        match call {
            None => test.await,
            Some(call) if call.at_once => {
                tokio::join!(test, Box::pin(call.run(server)));
            }
            Some(call) => {
                test.await;
                Box::pin(call.run(server)).await;
            }
        }
    }
}

impl Call {
    async fn run(self, server: &Arc<Server>) {
        if *server.shut.borrow() {
            return;
        }
        let Self { to, granted, from, .. } = self;
        match connect(from, to).await {
            Ok((stream, local)) => {
                let mut test = granted(StreamSocket::Tcp(stream), Vec::new());
                test.local = local;
                test.run(server).await;
            }
            Err(error) => {
                let why = format!("cannot connect back to it, as -d and -r ask: {error}");
                server.turned_away(to, RefusalKind::Unable, &why);
            }
        }
    }
}

/// Reads what a TCP stream is. Bounded by the caller's deadline.
pub(crate) async fn greet(
    server: &Arc<Server>,
    mut stream: TcpStream,
    peer: SocketAddr,
) -> Option<Streams> {
    let (header, length) = peek(&stream).await?;
    let local = sys::plain(stream.local_addr().ok()?);
    let heard_ns = clock::realtime_ns();
    let asked = Asked { peer, local, transport: Transport::Tcp, header, first: length };
    let both = alone(server).and_then(|alone| {
        Ok((grant(server, &asked, alone.clone())?, call(server, &asked, alone)?))
    });
    let (granted, call) = match both {
        Ok(both) => both,
        Err(refused) => {
            server.turned_away(peer, refused.kind, &refused.why);
            return None;
        }
    };
    let sends = header.reverse || header.full_duplex;
    if header.detect || header.version.is_some() && !sends {
        let times_ns = header.began_ns.map(|began| [began, heard_ns, clock::realtime_ns()]);
        stream.write_all(&Ack { version: VERSION, times_ns }.encode()).await.ok()?;
    }
    if header.began_ns.is_some() && sends {
        // Who hears when blocks were written hears first when their stream began.
        let Header { streams, length, amount, .. } = header;
        let began_ns = Some(clock::realtime_ns());
        let said = Header { streams, length, amount, began_ns, ..Header::default() };
        stream.write_all(&said.encode()).await.ok()?;
    }
    if header.reverse {
        // Its thread only sends; what is unread when it closes would break the connection.
        stream.read_exact(&mut vec![0; length]).await.ok()?;
    }
    let stream = stream.into_std().ok()?;
    stream.set_nonblocking(false).ok()?;
    let back = if header.full_duplex { Some(stream.try_clone().ok()?) } else { None };
    let mut test = granted(StreamSocket::Tcp(stream), Vec::new());
    test.back = back.map(StreamSocket::Tcp);
    Some(Streams { test, call })
}

/// The header stays where it is: its bytes are counted as all others. A stream that begins with something
/// else is data of a client that asks for nothing.
async fn peek(stream: &TcpStream) -> Option<(Header, usize)> {
    let mut bytes = [0; MOST_HEADER];
    loop {
        let length = stream.peek(&mut bytes).await.ok().filter(|length| *length > 0)?;
        match Header::read(bytes.get(..length).unwrap_or_default()) {
            Ok(header) => return Some(header),
            Err(Unfit::Short(wanted)) if wanted <= MOST_HEADER => {
                sleep(LOOK_AGAIN).await;
            }
            Err(_) => return Some((Header::default(), 0)),
        }
    }
}

/// Takes the place of the stream back, where one is asked for.
fn call(server: &Server, asked: &Asked, alone: Alone) -> Result<Option<Call>, Refused> {
    let Some(back) = asked.header.back else { return Ok(None) };
    let to = with_port(asked.peer, back.port.map_or(0, NonZeroU16::get));
    let header =
        Header { reverse: true, full_duplex: false, back: None, began_ns: None, ..asked.header };
    let granted = grant(server, &Asked { peer: to, header, ..*asked }, alone)?;
    Ok(Some(Call {
        at_once: back.at_once,
        from: with_port(asked.local, 0),
        to,
        granted: Box::new(granted),
    }))
}

/// Connects to the client, from where it was called. It may have called before it listens: 2.1.8 begins both at once.
async fn connect(
    from: SocketAddr,
    to: SocketAddr,
) -> io::Result<(std::net::TcpStream, SocketAddr)> {
    let deadline = Instant::now() + CONNECT_LIMIT;
    let stream = loop {
        let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.bind(from)?;
        match timeout_at(deadline, socket.connect(to)).await? {
            Err(e)
                if e.kind() == io::ErrorKind::ConnectionRefused
                    && Instant::now() + CALL_AGAIN < deadline =>
            {
                sleep(CALL_AGAIN).await;
            }
            connected => break connected?,
        }
    };
    let local = sys::plain(stream.local_addr()?);
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok((stream, local))
}
