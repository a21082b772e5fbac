//! Transactions with a connection each: one is opened, asks, is answered and closed by the answering end.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use linerate_engine::{clock, stream, sys};
use linerate_model::plan::RrPlan;
use linerate_session::sender::Quota;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::super::{Context, LOOK_UP};
use super::tally::Tally;
use super::{Answers, UNREAD_NS, passing, write_out};

/// Pause after a connection that could not be taken, as the next one most likely cannot either.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Pause where no local port is free, and how long none may be, in nanoseconds: not so long that the test passes for one
/// in which nothing moves.
const PORT_PAUSE: Duration = Duration::from_millis(20);
const PORT_LIMIT_NS: u64 = if cfg!(test) { 200_000_000 } else { 10_000_000_000 };

/// How a client opens connections, one for each transaction.
#[derive(Debug, Clone)]
pub struct Dial {
    /// Where to.
    pub peer: SocketAddr,
    /// This end's address; otherwise the kernel chooses, which leaves it more ports.
    pub local: Option<SocketAddr>,
    /// What is set before connecting.
    pub options: sys::TcpOptions,
    /// A request and a response go over it; else it is opened and closed.
    pub carries: bool,
}

/// Where a server waits for connections, one for each transaction.
#[derive(Debug)]
pub struct Doorway {
    /// In any mode.
    pub listener: TcpListener,
    /// Who else comes is not heard.
    pub from: IpAddr,
    /// As [`Dial::carries`].
    pub carries: bool,
}

/// The asking end.
pub(super) fn ask(
    context: &Context,
    rr: &RrPlan,
    dial: &Dial,
    tally: &mut Tally,
) -> io::Result<()> {
    let wanted = Quota::transactions(&context.streams.agreed.plan, context.id.index);
    let request = vec![0x5a; if dial.carries { rr.request as usize } else { 0 }];
    let response = if dial.carries { rr.response as usize } else { 0 };
    let mut buffer = vec![0; response.clamp(1, 65_536)];
    let mut done = 0;
    // Since when no port is free.
    let mut without: Option<(u64, io::Error)> = None;
    loop {
        let now = clock::monotonic_ns();
        let ended = tally.is_over(now);
        tally.roll(context, now, false);
        if ended {
            tally.roll(context, now, true);
        }
        // Its latency has in it what it waited for a port.
        let begun_ns = without.as_ref().map_or(now, |(since_ns, _)| *since_ns);
        let over = ended || context.shared.stopping() || wanted.is_some_and(|most| done >= most);
        let late = now.saturating_sub(begun_ns) > PORT_LIMIT_NS;
        if let Some((_, error)) = without.take_if(|_| over || late) {
            return Err(no_port(dial.peer, &error));
        }
        if over {
            return Ok(());
        }
        let socket = match open(dial) {
            // Connections that are over give theirs back; netperf, too, tries again.
            Err(e) if matches!(e.kind(), ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse) => {
                without = Some((begun_ns, e));
                std::thread::sleep(PORT_PAUSE);
                continue;
            }
            opened => opened?,
        };
        without = None;
        // Without data it stands for the connection's beginning, and an answer for its end.
        context.shared.add_sent(rr.request.into());
        write_out(context, &socket, &request)?;
        let came = |bytes: usize| context.shared.add_received(bytes as u64);
        // All of the answer, and the end of it.
        let Some(got) = read(context, &socket, &mut buffer, usize::MAX, came)? else {
            return Ok(());
        };
        if got < response {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        tally.land(begun_ns, clock::monotonic_ns());
        if !dial.carries {
            context.shared.add_received(rr.response.into());
        }
        done += 1;
    }
}

/// Why no connection is made any more, and what helps.
fn no_port(peer: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::other(format!(
        "no local port is free for another connection to {peer}: {error}. Those of net.ipv4.ip_local_port_range are \
         taken, some for a minute by connections that are closed (TIME_WAIT). What helps is a wider range, \
         net.ipv4.tcp_tw_reuse=1, or to end what else connects there; a longer test does not"
    ))
}

fn open(dial: &Dial) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(dial.peer), Type::STREAM, Some(Protocol::TCP))?;
    // Wishes, as on every data socket.
    let _ = sys::set_tcp(&socket, dial.peer.is_ipv6(), &dial.options);
    if let Some(local) = dial.local {
        socket.bind(&local.into())?;
    }
    // Connecting ends with this time as well.
    socket.set_write_timeout(Some(Duration::from_nanos(UNREAD_NS)))?;
    socket.connect(&dial.peer.into())?;
    if dial.carries {
        socket.set_write_timeout(Some(LOOK_UP))?;
    }
    socket.set_read_timeout(Some(LOOK_UP))?;
    Ok(socket.into())
}

/// Reads until the end of the stream, or so many bytes; `None` where the test ended meanwhile. `came` is told of the
/// bytes as they come.
fn read(
    context: &Context,
    mut socket: &TcpStream,
    buffer: &mut [u8],
    enough: usize,
    came: impl Fn(usize),
) -> io::Result<Option<usize>> {
    let (mut got, mut moved_ns) = (0usize, clock::monotonic_ns());
    while got < enough {
        match socket.read(buffer) {
            Ok(0) => break,
            Ok(bytes) => {
                got = got.saturating_add(bytes);
                moved_ns = clock::monotonic_ns();
                came(bytes);
                context.shared.keep_time(moved_ns);
            }
            Err(e) if passing(&e) => {
                let now = clock::monotonic_ns();
                context.shared.look_after_peer(now);
                if now.saturating_sub(moved_ns) > UNREAD_NS {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            Err(e) => return Err(e),
        }
        // A peer that goes on and on must not outlast the test.
        if context.shared.stopping() && got < enough {
            return Ok(None);
        }
    }
    Ok(Some(got))
}

/// The answering end. Ends when the control side says so, or after as many as were asked for.
pub(super) fn respond(
    context: &Context,
    rr: &RrPlan,
    door: &Doorway,
    answers: &mut Answers,
) -> io::Result<()> {
    // It waits in accept(2) itself, as long as it may read: one call a connection, and a timer that costs less than
    // poll(2)'s.
    door.listener.set_nonblocking(false)?;
    SockRef::from(&door.listener).set_read_timeout(Some(LOOK_UP))?;
    let wanted = Quota::transactions(&context.streams.agreed.plan, context.id.index);
    let response = vec![0xa5; rr.response as usize];
    let mut buffer = vec![0; (rr.request as usize).clamp(1, 65_536)];
    while !context.shared.stopping() && wanted.is_none_or(|wanted| answers.count < wanted) {
        let now = clock::monotonic_ns();
        context.shared.look_after_peer(now);
        context.shared.keep_time(now);
        let (socket, peer) = match door.listener.accept() {
            Ok(came) => came,
            Err(e) if passing(&e) || e.kind() == ErrorKind::ConnectionAborted => continue,
            Err(e) if sys::is_exhausted(&e) => {
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            }
            Err(e) => return Err(e),
        };
        if sys::plain(peer).ip() != door.from {
            continue;
        }
        answers.begin(context);
        // A connection that fails is none of the answered; what it does to the client, that counts.
        let answered = !door.carries
            || answer(context, rr, &socket, (&mut buffer, &response)).unwrap_or(false);
        // Its client's kernel knows them received.
        let more = stream::drop_unread(&socket) as u64;
        if more > 0 {
            context.shared.add_sent(more);
            context.shared.keep_rate(more, false);
            if !door.carries {
                return Err(io::Error::other(
                    "connections of this test carry nothing, and one did",
                ));
            }
        }
        if !answered {
            continue;
        }
        answers.count += 1;
        if !door.carries {
            // These stand for its beginning and its end.
            context.shared.add_sent(u64::from(rr.request) + u64::from(rr.response));
        }
    }
    Ok(())
}

/// Whether a whole request came and was answered.
fn answer(
    context: &Context,
    rr: &RrPlan,
    socket: &TcpStream,
    (buffer, response): (&mut [u8], &[u8]),
) -> io::Result<bool> {
    socket.set_read_timeout(Some(LOOK_UP))?;
    socket.set_write_timeout(Some(LOOK_UP))?;
    let request = rr.request as usize;
    // What comes counts, whether a transaction is made of it or not.
    let came = |bytes: usize| {
        context.shared.add_sent(bytes as u64);
        context.shared.keep_rate(bytes as u64, false);
    };
    if read(context, socket, buffer, request, came)?.is_none_or(|got| got < request) {
        return Ok(false);
    }
    context.shared.add_sent(u64::from(rr.response));
    context.shared.keep_rate(u64::from(rr.response), true);
    write_out(context, socket, response)?;
    let mut socket = socket;
    socket.flush()?;
    Ok(!context.shared.stopping())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use linerate_model::plan::{Direction, Traffic, Transport};
    use linerate_testkit::plans;

    use super::*;
    use crate::alone::{Alone, of_an_hour};
    use crate::{Report, Role, Shared, StreamSocket};

    #[test]
    fn who_finds_no_port_says_what_was_tried_and_what_helps() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = taken.local_addr().unwrap();
        let options = sys::TcpOptions::default();
        let dial = Dial { peer: at, local: Some(at), options, carries: true };
        let of = of_an_hour(Traffic::Rr(plans::rr(Transport::Tcp)), Direction::Forward);
        let asks = Alone::start(&of, Shared::new(1), Role::Request, StreamSocket::Dial(dial));
        let Report::Rr(report) = asks.ends() else { panic!("who asks") };
        let why = report.error.expect("no port is free");
        let to = format!("connection to {at}: ");
        for part in [&*to, "os error 98", "ip_local_port_range", "tcp_tw_reuse"] {
            assert!(why.contains(part), "{why}");
        }
    }
}
