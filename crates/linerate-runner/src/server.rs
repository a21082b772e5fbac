//! A server: any number of tests at once on one TCP and UDP port.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use linerate_engine::sys;
use linerate_model::plan::{Dialect, Transport};
use linerate_model::record::ErrorRecord;
use linerate_wire::iperf3::Cookie;
use linerate_wire::native::PREAMBLE;
use linerate_wire::native::message::RefusalKind;
use linerate_wire::native::stream::{
    HELLO_BYTES, OPENING_BYTES, TCP_OPENING, TcpOpening, UdpHello, UdpHelloAck,
};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::admission::Admission;
use crate::data::StreamSocket;
use crate::doors::Doors;
pub use crate::event::{Counts, Event, Keeper};
use crate::event_log::{EventLog, Events};
use crate::keys::Keeping;
use crate::options::MOST_WAITING;
pub use crate::options::{MAX_WINDOW, Options, Public, Sockets};
use crate::sandbox::HalfClosed;
use crate::serve_iperf3::rendezvous::StreamRendezvous;
use crate::service::{Running, Server, Work, stream_socket};
use crate::signals::Stop;
use crate::{agent, errors, host, serve_iperf3, serving};

/// A connection has this long to ask for a test, counted from its arrival, whatever it sends
/// meanwhile.
pub(crate) const GREETING_LIMIT: Duration = Duration::from_secs(5);

/// At the end, whoever reads the events has so long for the last of them.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves until `stop` (or the first test's end with `one_off`): running tests are ended, with what they
/// measured. Calls `report` in a thread of its own with each event and when it happened: the server never waits
/// for it, and may end before it returns. With a sandbox, this process is restricted for good, and belongs to
/// serving; so are the threads that write logs, and that which `stop` may start, which is called after that. What changes
/// settings for controllers is another process, which begins before all of it. From now on this process gives freed
/// buffers of 128 KiB and more back to the kernel at once.
///
/// # Errors
/// When the port cannot be had, or another user not become: what was tried, why it failed, what to try.
pub fn serve(
    options: &Options,
    stop: impl FnOnce() -> Result<Stop, ErrorRecord>,
    report: impl FnMut(SystemTime, Event) + Send + 'static,
) -> Result<(), ErrorRecord> {
    sys::give_memory_back();
    let agent = options.agent.as_ref().map(agent::AgentSlot::open).transpose()?;
    let sandbox = options.sandbox.as_ref().map(|sandbox| sandbox.begin(options.connects()));
    let stop = stop();
    let log = written_by("event-log", report)?;
    let kept = options.keeper.clone().map(|keeper| {
        let log = Arc::clone(&log);
        written_by("event-keeper", move |at, event| {
            if let Some(said) = keeper.take(at, event) {
                log.put(SystemTime::now(), Event::Keeper(said));
            }
        })
    });
    let kept = kept.transpose()?;
    let queues = Mutex::new((Arc::clone(&log), kept.clone()));
    let (counts, rows) = (options.counts.clone(), options.rows);
    let events = Events::new(move |event| {
        let is_row = matches!(event, Event::Test { .. });
        if is_row && !rows {
            return;
        }
        counts.iter().for_each(|counts| counts.take(&event));
        // Events of several threads are in the same order in both logs, and have the same time.
        let queues = queues.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, (log, kept)) = (SystemTime::now(), &*queues);
        if let Some(kept) = kept.as_ref().filter(|_| !is_row) {
            kept.put(at, event.clone());
        }
        log.put(at, event);
    });
    let served = stop.and_then(|stop| run(options, &stop, events, (sandbox, agent)));
    // First the keeper's, who may have something to say in the other.
    let until = std::time::Instant::now() + LAST_WORDS;
    for log in kept.iter().chain([&log]) {
        log.close(until.saturating_duration_since(std::time::Instant::now()));
    }
    served
}

/// A log that a thread of this name hands on.
fn written_by(
    name: &str,
    mut report: impl FnMut(SystemTime, Event) + Send + 'static,
) -> Result<Arc<EventLog>, ErrorRecord> {
    let log = Arc::new(EventLog::default());
    let written = Arc::clone(&log);
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || written.write_to(&mut report))
        .map_err(|e| errors::unable("start the server's log", &e.to_string()))?;
    Ok(log)
}

fn run(
    options: &Options,
    stop: &Stop,
    events: Events,
    begun: (Option<HalfClosed>, Option<agent::Begun>),
) -> Result<(), ErrorRecord> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| errors::unable("start the server", &e.to_string()))?;
    runtime.block_on(async {
        let (shut_sender, shut) = watch::channel(false);
        let stopped = async {
            stop.asked().await;
            let _ = shut_sender.send(true);
            // Never resolves: the server ends when its tests have.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            result = serve_async(options, events, shut, begun) => result,
            () = stopped => Ok(()),
        }
    })
}

/// Serves until `shut` becomes true and the running tests have ended.
pub(crate) async fn serve_async(
    options: &Options,
    events: Events,
    shut: watch::Receiver<bool>,
    (sandbox, agent): (Option<HalfClosed>, Option<agent::Begun>),
) -> Result<(), ErrorRecord> {
    let descriptors = sys::raise_descriptor_limit().ok();
    host::prepare();
    let (agent, left, life) = match agent {
        Some(agent::Begun { slot, put_back, life }) => (Some(slot), put_back, life),
        None => Default::default(),
    };
    let Doors { tcp, udp } = Doors::open(options)?;
    for (dialect, address, _) in &tcp {
        events.send(Event::Listening(*dialect, *address));
    }
    if let Some(sandbox) = sandbox {
        let udp = udp.iter().map(|(_, _, udp)| udp);
        events.send(Event::Sandboxed(Box::new(sandbox.close(udp)?)));
    }
    if let Some(keys) = &options.keys {
        keys.readable()?;
        events.send(keys.begun(Timestamp::now()));
    }
    let permits = Arc::default();
    let _keeping = Keeping::start(options.budget_state.as_ref(), &permits, &events)?;
    left.into_iter().for_each(|left| events.send(left));
    let server = Arc::new(Server {
        options: options.clone(),
        admission: Arc::new(Admission::default()),
        rendezvous: Arc::new(StreamRendezvous::new(options.exclusive)),
        events,
        shut: shut.clone(),
        agent,
        permits,
        waiting: Arc::default(),
        most_waiting: descriptors.map_or(MOST_WAITING, |most| MOST_WAITING.min(most / 2)),
        running: AtomicUsize::new(0),
        finished: AtomicUsize::new(0),
        arrived: AtomicU64::new(0),
        loans: Arc::default(),
    });
    // Ends with this function.
    let mut tasks = JoinSet::new();
    for (dialect, port, udp) in udp {
        let server = Arc::clone(&server);
        match dialect {
            Dialect::Iperf2 => tasks.spawn(serving::iperf2::hear(server, udp, port)),
            Dialect::Native | Dialect::Iperf3 | Dialect::Netperf | Dialect::Nuttcp => {
                tasks.spawn(answer_hellos(server, udp, port))
            }
        };
    }
    for (dialect, _, listener) in tcp {
        tasks.spawn(accept(Arc::clone(&server), dialect, listener));
    }
    if options.keys.is_some() {
        tasks.spawn(look_after_keys(Arc::clone(&server)));
    }
    until_its_end(&server, shut, life).await
}

/// Returns when the server has nothing more to do, and with an error when the process with rights behind it is
/// gone.
async fn until_its_end(
    server: &Server,
    mut shut: watch::Receiver<bool>,
    monitor: agent::Life,
) -> Result<(), ErrorRecord> {
    let (options, begun) = (&server.options, Instant::now());
    let mut monitor_ended = pin!(monitor.ended());
    loop {
        let idle = options.idle.is_some_and(|limit| begun.elapsed() >= limit);
        let ends = options.one_off && idle || *shut.borrow();
        if server.is_over() || ends && server.running.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        tokio::select! {
            _ = shut.changed() => {}
            // Whoever supervises this server starts another, with a monitor.
            error = &mut monitor_ended => return Err(error),
            // Looks again at what ended meanwhile.
            () = tokio::time::sleep(Duration::from_millis(100)),
                if options.one_off || *shut.borrow() => {}
        }
    }
}

/// How soon a key that is revoked or expired, and the end of hours, ends what runs.
const KEYS_EVERY: Duration = Duration::from_secs(1);

/// Ends what may go on no longer, until the server ends.
async fn look_after_keys(server: Arc<Server>) {
    loop {
        tokio::time::sleep(KEYS_EVERY).await;
        if let Some(standing) = server.standing() {
            server.permits.look_after(&standing);
        }
    }
}

/// Takes connections until the server shuts down.
async fn accept(server: Arc<Server>, door: Dialect, listener: TcpListener) {
    let (mut full, mut shut) = (Full::default(), server.shut.clone());
    while !*shut.borrow() {
        tokio::select! {
            _ = shut.changed() => {}
            accepted = full.accept(&listener) => match accepted {
                // Who comes now finds no server, as in a moment.
                Ok(_) if server.is_over() => return,
                Ok((stream, peer)) => take_in(&server, door, stream, sys::plain(peer)),
                Err(e) => full.wait(&e, &server.events),
            },
        }
    }
}

/// Whoever cannot be taken now is reported to the owner, but not each.
const REPORTED_AGAIN: Duration = Duration::from_secs(10);
/// Pause after a connection that could not be taken, as the next one most likely cannot either.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// What a server does when it is out of what connections need.
#[derive(Default)]
struct Full {
    until: Option<Instant>,
    reported: Option<Instant>,
}

impl Full {
    /// The next connection, after the pause. May be given up at any time.
    async fn accept(&self, listener: &TcpListener) -> std::io::Result<(TcpStream, SocketAddr)> {
        if let Some(until) = self.until {
            sleep_until(until).await;
        }
        listener.accept().await
    }

    /// Out of descriptors or memory; other errors are of the one connection.
    fn wait(&mut self, error: &std::io::Error, events: &Events) {
        self.until = Some(Instant::now() + ACCEPT_PAUSE);
        if sys::is_exhausted(error) && self.reported.is_none_or(|at| at.elapsed() >= REPORTED_AGAIN)
        {
            self.reported = Some(Instant::now());
            events.send(Event::CannotAccept(format!(
                "{error}; raise the limit of open files (`ulimit -n`), or lower --max-tests"
            )));
        }
    }
}

/// Gives a new connection its own task, so that a silent one delays nobody.
fn take_in(server: &Arc<Server>, door: Dialect, stream: TcpStream, peer: SocketAddr) {
    if !server.options.allows(peer.ip()) {
        let why = "it is in none of the networks that this server takes tests from";
        return server.turned_away(peer, RefusalKind::Policy, why);
    }
    let most_of_one = server.options.max_waiting_per_address;
    let place = match server.waiting.enter(peer.ip(), server.most_waiting, most_of_one) {
        Ok(place) => place,
        Err(why) => return server.turned_away(peer, RefusalKind::Busy, &why),
    };
    let server = Arc::clone(server);
    let order = server.next_order();
    tokio::spawn(async move {
        let deadline = Instant::now() + GREETING_LIMIT;
        let greeted = async {
            match door {
                Dialect::Native | Dialect::Iperf3 => greet(&server, stream, peer, order).await,
                Dialect::Iperf2 => {
                    let stream = lent(&server, stream, peer)?;
                    let test = serving::iperf2::greet(&server, stream, peer).await;
                    let server = Arc::clone(&server);
                    test.map(|test| Box::pin(async move { test.run(&server).await }) as Work)
                }
                Dialect::Netperf => serving::netperf::greet(&server, stream, peer).await,
                Dialect::Nuttcp => serving::nuttcp::greet(&server, stream, peer).await,
            }
        };
        let greeted = timeout_at(deadline, greeted).await;
        drop(place);
        match greeted {
            Ok(Some(work)) => {
                let _running = Running::new(&server);
                work.await;
            }
            Ok(None) => {}
            Err(_) => server.refused(peer, "silent for too long before asking for a test"),
        }
    });
}

/// The connection again, unless a test waits for it at this door.
fn lent(server: &Server, stream: TcpStream, peer: SocketAddr) -> Option<TcpStream> {
    let port = stream.local_addr().ok()?.port();
    let Some(taker) = server.loans.taker(peer.ip(), port, Transport::Tcp) else {
        return Some(stream);
    };
    let stream = stream.into_std().ok()?;
    stream.set_nonblocking(false).ok()?;
    let _ = taker.send((StreamSocket::Tcp(stream), Vec::new()));
    None
}

/// Finds out what a new connection wants. Bounded by the caller's deadline.
async fn greet(
    server: &Arc<Server>,
    mut stream: TcpStream,
    peer: SocketAddr,
    order: u64,
) -> Option<Work> {
    let _ = stream.set_nodelay(true);
    let mut magic = [0; 8];
    if stream.read_exact(&mut magic).await.is_err() {
        return None;
    }
    match magic {
        PREAMBLE => {
            let work = serving::negotiate(server, stream, peer).await?;
            let server = Arc::clone(server);
            Some(Box::pin(async move { work.run(&server).await }))
        }
        TCP_OPENING => {
            let mut rest = [0; OPENING_BYTES];
            stream.read_exact(&mut rest).await.ok()?;
            let claim = TcpOpening::decode(&rest)?.0;
            if server.admission.verify(&claim, peer.ip()).is_none() {
                server.refused(peer, "a data connection that belongs to no test");
                return None;
            }
            let stream = stream.into_std().ok()?;
            stream.set_nonblocking(false).ok()?;
            server.admission.deliver(&claim, StreamSocket::Tcp(stream));
            None
        }
        start if Cookie::may_begin_with(&start) => {
            let test = serve_iperf3::greet(server, stream, peer, start, order).await?;
            let server = Arc::clone(server);
            Some(Box::pin(async move { test.run(&server).await }))
        }
        _ => {
            server.refused(peer, "not a protocol spoken here");
            None
        }
    }
}

/// Answers the first datagrams of UDP streams: only to the address that holds the test's control
/// connection, and with fewer bytes than were asked with.
async fn answer_hellos(server: Arc<Server>, udp: UdpSocket, port: u16) {
    let mut buffer = [0; HELLO_BYTES + 1];
    loop {
        let Ok((length, from)) = udp.recv_from(&mut buffer).await else {
            // An ICMP error of some earlier answer.
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let peer = sys::plain(from);
        if !server.options.allows(peer.ip()) {
            continue;
        }
        let datagram = buffer.get(..length).unwrap_or_default();
        let Some(hello) = UdpHello::decode(datagram) else {
            serve_iperf3::greet_udp(&server, datagram, peer, port);
            continue;
        };
        let Some(local) = server.admission.verify(&hello.0, peer.ip()) else { continue };
        // Its client waits for the answer.
        let Ok((socket, _)) = stream_socket(local, port, peer) else {
            server.turned_away(peer, RefusalKind::Unable, "no socket for a UDP stream");
            continue;
        };
        let ack = UdpHelloAck { token: hello.0.token, stream: hello.0.stream };
        let Ok(copy) = socket.try_clone() else { continue };
        if server.admission.deliver(&hello.0, StreamSocket::Udp(socket, Some(hello))) {
            let _ = copy.send(&ack.encode());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_of_one_test_that_has_been_takes_no_other() {
        let options = Options { one_off: true, ..Options::default() };
        let server = Arc::new(Server::alone(options));
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = door.local_addr().unwrap();
        drop(Running::new(&server));
        let _late = TcpStream::connect(at).await.unwrap();
        let taken = accept(Arc::clone(&server), Dialect::Native, door);
        tokio::time::timeout(Duration::from_secs(30), taken).await.expect("its door is closed");
        assert!(TcpStream::connect(at).await.is_err());
    }
}
