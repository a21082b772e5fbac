//! The far end: any number of tests at once on one TCP and UDP port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use linerate_engine::sys;
use linerate_model::record::ErrorRecord;
use linerate_model::units::{BitRate, Nanos};
use linerate_wire::native::PREAMBLE;
use linerate_wire::native::stream::{
    HELLO_OCTETS, OPENING_OCTETS, TCP_OPENING, TcpOpening, UdpHello, UdpHelloAck,
};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::admission::{Admission, MOST_WAITING};
use crate::data::StreamSocket;
use crate::serving;

/// A connection has this long to ask for a test, counted from its arrival, whatever it sends
/// meanwhile.
pub(crate) const GREETING_LIMIT: Duration = Duration::from_secs(5);

/// How a server behaves; each limit is its owner's policy and narrower than the table in
/// `linerate_model::limits`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address to listen on; `None` is every address, IPv4 and IPv6.
    pub bind: Option<IpAddr>,
    /// TCP and UDP port; 0 takes a free one.
    pub port: u16,
    /// Shared key that clients must prove they know.
    pub key: Option<Vec<u8>>,
    /// Tests at once.
    pub max_tests: usize,
    /// Longest test, warm-up included.
    pub max_duration: Nanos,
    /// Largest rate of one direction of one test; `None` is no limit.
    pub max_rate: Option<BitRate>,
    /// Most streams of one test, each way.
    pub max_streams: u16,
    /// End after the first test.
    pub one_off: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: None,
            port: 5201,
            key: None,
            max_tests: 128,
            max_duration: Nanos::from_secs(3_600),
            max_rate: None,
            max_streams: 128,
            one_off: false,
        }
    }
}

/// What a server tells its owner.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It listens.
    Listening(SocketAddr),
    /// A test was admitted.
    TestStarted {
        /// The client.
        peer: SocketAddr,
        /// Protocol, direction and rate in words.
        what: String,
    },
    /// A test ended.
    TestEnded {
        /// The client.
        peer: SocketAddr,
        /// Result or reason in words.
        what: String,
    },
    /// A connection was turned away or dropped before a test.
    Refused {
        /// The client.
        peer: SocketAddr,
        /// Why.
        why: String,
    },
}

/// Serves until SIGINT or SIGTERM (or the first test's end with `one_off`).
///
/// # Errors
/// When the port cannot be had: what was tried, why it failed, what to try.
pub fn serve(options: &Options, tell: &mut dyn FnMut(Event)) -> Result<(), ErrorRecord> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| {
            ErrorRecord {
                kind: "unable".into(),
                what: "cannot start the server".into(),
                why: e.to_string(),
                hints: vec![],
                exit_code: 1,
            }
        })?;
    runtime.block_on(async {
        let (shut_tell, shut) = watch::channel(false);
        let signals = async {
            crate::signals::first().await;
            let _ = shut_tell.send(true);
            // Never resolves: the server ends when its tests have.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            result = serve_async(options, tell, shut) => result,
            () = signals => Ok(()),
        }
    })
}

/// Everything the tasks of one server share.
pub(crate) struct Server {
    pub(crate) options: Options,
    pub(crate) admission: Arc<Admission>,
    pub(crate) events: UnboundedSender<Event>,
    pub(crate) shut: watch::Receiver<bool>,
    waiting: AtomicUsize,
    running: AtomicUsize,
    finished: AtomicUsize,
}

/// Serves until `shut` becomes true and the running tests have ended.
pub(crate) async fn serve_async(
    options: &Options,
    tell: &mut dyn FnMut(Event),
    mut shut: watch::Receiver<bool>,
) -> Result<(), ErrorRecord> {
    let _ = sys::raise_descriptor_limit();
    let (listener, udp) = listen(options)?;
    let address = listener.local_addr().map_err(|e| cannot_listen(options, &e))?;
    tell(Event::Listening(sys::plain(address)));
    let (events, mut told) = mpsc::unbounded_channel();
    let server = Arc::new(Server {
        options: options.clone(),
        admission: Arc::new(Admission::default()),
        events,
        shut: shut.clone(),
        waiting: AtomicUsize::new(0),
        running: AtomicUsize::new(0),
        finished: AtomicUsize::new(0),
    });
    let hellos = tokio::spawn(answer_hellos(Arc::clone(&server), udp, address.port()));
    loop {
        let done = options.one_off && server.finished.load(Ordering::Relaxed) > 0;
        if (done || *shut.borrow()) && server.running.load(Ordering::Relaxed) == 0 {
            break;
        }
        tokio::select! {
            event = told.recv() => if let Some(event) = event { tell(event) },
            _ = shut.changed() => {}
            // Looks again at what ended meanwhile.
            () = tokio::time::sleep(Duration::from_millis(100)), if done || *shut.borrow() => {}
            accepted = listener.accept(), if !*shut.borrow() => match accepted {
                Ok((stream, peer)) => take_in(&server, stream, sys::plain(peer)),
                // Out of descriptors, or the peer has gone again: the next one may do better.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            },
        }
    }
    hellos.abort();
    while let Ok(event) = told.try_recv() {
        tell(event);
    }
    Ok(())
}

fn cannot_listen(options: &Options, error: &std::io::Error) -> ErrorRecord {
    let port = options.port;
    let hint = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!(
                "another server runs there (`ss -tulpn 'sport = :{port}'` names it); choose another port with --port"
            )
        }
        std::io::ErrorKind::PermissionDenied => {
            "ports below 1024 need root; choose another with --port".into()
        }
        std::io::ErrorKind::AddrNotAvailable => {
            "the address of --bind must be one of this host (`ip addr`)".into()
        }
        _ => "choose another with --bind and --port".into(),
    };
    ErrorRecord {
        kind: "listen".into(),
        what: match options.bind {
            Some(address) => format!("cannot listen on {address} port {port}, TCP and UDP"),
            None => format!("cannot listen on port {port}, TCP and UDP"),
        },
        why: error.to_string(),
        hints: vec![hint],
        exit_code: 1,
    }
}

fn listen(options: &Options) -> Result<(TcpListener, UdpSocket), ErrorRecord> {
    let attempt = |address: IpAddr| -> std::io::Result<(TcpListener, UdpSocket)> {
        let tcp = sys::tcp_listener(SocketAddr::new(address, options.port))?;
        let port = tcp.local_addr()?.as_socket().map_or(options.port, |a| a.port());
        let udp = sys::udp_listener(SocketAddr::new(address, port))?;
        tcp.set_nonblocking(true)?;
        udp.set_nonblocking(true)?;
        Ok((TcpListener::from_std(tcp.into())?, UdpSocket::from_std(udp.into())?))
    };
    let result = match options.bind {
        Some(address) => attempt(address),
        // One dual-stack socket; a host without IPv6 gets IPv4.
        None => attempt(Ipv6Addr::UNSPECIFIED.into()).or_else(|e| match e.kind() {
            std::io::ErrorKind::AddrInUse | std::io::ErrorKind::PermissionDenied => Err(e),
            _ => attempt(Ipv4Addr::UNSPECIFIED.into()),
        }),
    };
    result.map_err(|e| cannot_listen(options, &e))
}

/// Gives a new connection its own task, so that a silent one delays nobody.
fn take_in(server: &Arc<Server>, stream: TcpStream, peer: SocketAddr) {
    if server.waiting.load(Ordering::Relaxed) >= MOST_WAITING {
        return;
    }
    server.waiting.fetch_add(1, Ordering::Relaxed);
    let server = Arc::clone(server);
    tokio::spawn(async move {
        let deadline = Instant::now() + GREETING_LIMIT;
        let greeted = timeout_at(deadline, greet(&server, stream, peer, deadline)).await;
        server.waiting.fetch_sub(1, Ordering::Relaxed);
        match greeted {
            Ok(Some(test)) => {
                server.running.fetch_add(1, Ordering::Relaxed);
                let _running = Running(Arc::clone(&server));
                test.run(&server).await;
            }
            Ok(None) => {}
            Err(_) => server.refused(peer, "silent for too long before asking for a test"),
        }
    });
}

/// Counts a test as over even when its task is ended by a panic.
struct Running(Arc<Server>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        self.0.finished.fetch_add(1, Ordering::Relaxed);
    }
}

impl Server {
    pub(crate) fn refused(&self, peer: SocketAddr, why: &str) {
        let _ = self.events.send(Event::Refused { peer, why: why.to_owned() });
    }
}

/// Finds out what a new connection wants. Bounded by the caller's deadline.
async fn greet(
    server: &Arc<Server>,
    mut stream: TcpStream,
    peer: SocketAddr,
    deadline: Instant,
) -> Option<serving::Test> {
    let _ = stream.set_nodelay(true);
    let mut magic = [0; 8];
    if stream.read_exact(&mut magic).await.is_err() {
        return None;
    }
    match magic {
        PREAMBLE => serving::negotiate(server, stream, peer, deadline).await,
        TCP_OPENING => {
            let mut rest = [0; OPENING_OCTETS];
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
        _ => {
            server.refused(peer, "not a protocol spoken here");
            None
        }
    }
}

/// Answers the first datagrams of UDP streams: only to the address that holds the test's control
/// connection, and with fewer octets than were asked with.
async fn answer_hellos(server: Arc<Server>, udp: UdpSocket, port: u16) {
    let mut buffer = [0; HELLO_OCTETS + 1];
    loop {
        let Ok((length, from)) = udp.recv_from(&mut buffer).await else {
            // An ICMP error of some earlier answer.
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let Some(hello) = buffer.get(..length).and_then(UdpHello::decode) else { continue };
        let peer = sys::plain(from);
        let Some(local) = server.admission.verify(&hello.0, peer.ip()) else { continue };
        let socket = sys::udp_socket(crate::client::with_port(local, port))
            .and_then(|socket| socket.connect(&peer.into()).map(|()| socket));
        let Ok(socket) = socket else {
            server.refused(peer, "no socket for a UDP stream");
            continue;
        };
        let ack = UdpHelloAck { token: hello.0.token, stream: hello.0.stream };
        let Ok(copy) = socket.try_clone() else { continue };
        if server.admission.deliver(&hello.0, StreamSocket::Udp(socket, Some(hello))) {
            let _ = copy.send(&ack.encode());
        }
    }
}
