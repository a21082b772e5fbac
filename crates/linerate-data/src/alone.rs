//! Of tests: data threads of an hour's test, and nobody who would stop them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_engine::{clock, sys};
use linerate_model::plan::{AgreedPlan, Direction, End, TestPlan, Traffic};
use linerate_model::units::Nanos;
use linerate_testkit::plans;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::{DataEvent, Report, Role, Shared, StreamSocket, Streams, spawn, streams};

/// No step takes as long, on any machine.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// A peer, and a thread's socket that is connected with it.
pub(crate) fn udp_pair() -> (UdpSocket, StreamSocket) {
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (peer, socket) = (UdpSocket::bind(here).unwrap(), sys::udp_socket(here).unwrap());
    socket.connect(&peer.local_addr().unwrap().into()).unwrap();
    peer.connect(socket.local_addr().unwrap().as_socket().unwrap()).unwrap();
    (peer, StreamSocket::Udp(socket, None))
}

pub(crate) fn of_an_hour(traffic: Traffic, direction: Direction) -> Streams {
    let end = End::Time(Nanos::from_secs(3_600));
    let plan = TestPlan { direction, end, ..plans::plan(traffic) };
    Streams::of_one(&Arc::new(AgreedPlan { plan, cuts: vec![] }))
}

/// The thread of one stream.
pub(crate) struct Alone {
    pub shared: Arc<Shared>,
    pub thread: JoinHandle<()>,
    reported: UnboundedReceiver<DataEvent>,
}

impl Alone {
    pub fn start(of: &Streams, shared: Arc<Shared>, role: Role, socket: StreamSocket) -> Self {
        let (events, reported) = mpsc::unbounded_channel();
        let id = streams(of.agreed.plan.direction, 1)[0];
        let thread = spawn(of.context((id, role), &shared, &events), socket).unwrap();
        shared.start(clock::monotonic_ns());
        Self { shared, thread, reported }
    }

    pub fn waits_for(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let until = Instant::now() + HANGS;
        while !done(self) {
            assert!(Instant::now() < until, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What it reports, once it has ended.
    pub fn ends(mut self) -> Report {
        self.waits_for("it goes on", |it| it.thread.is_finished());
        loop {
            if let DataEvent::Done(_, report) = self.reported.try_recv().expect("a report") {
                return *report;
            }
        }
    }
}
