//! What all tasks of one server share.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use linerate_engine::sys;
use linerate_model::plan::TestPlan;
use linerate_wire::native::message::{RefusalKind, Refused};
use socket2::Socket;
use tokio::sync::watch;

use crate::address::with_port;
use crate::admission::Admission;
use crate::agent;
use crate::event::Event;
use crate::event_log::Events;
use crate::keys::{Key, Permit, Permits, Standing};
use crate::loan::Loans;
use crate::options::Options;
use crate::serve_iperf3::rendezvous::StreamRendezvous;
use crate::shares::Waiting;

/// What was granted, to its end.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Everything the tasks of one server share.
pub(crate) struct Server {
    pub(crate) options: Options,
    pub(crate) admission: Arc<Admission>,
    pub(crate) rendezvous: Arc<StreamRendezvous>,
    pub(crate) events: Events,
    pub(crate) shut: watch::Receiver<bool>,
    pub(crate) agent: Option<agent::AgentSlot>,
    pub(crate) permits: Arc<Permits>,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) most_waiting: usize,
    pub(crate) running: AtomicUsize,
    pub(crate) finished: AtomicUsize,
    pub(crate) arrived: AtomicU64,
    pub(crate) loans: Arc<Loans>,
}

impl Server {
    /// A number that grows with every connection and every stream: the order of their arrival.
    pub(crate) fn next_order(&self) -> u64 {
        self.arrived.fetch_add(1, Ordering::Relaxed)
    }

    /// A connection that is dropped as it does not keep to the protocol.
    pub(crate) fn refused(&self, peer: SocketAddr, why: &str) {
        self.turned_away(peer, RefusalKind::Protocol, why);
    }

    /// A test that is not wanted here.
    pub(crate) fn turned_away(&self, peer: SocketAddr, kind: RefusalKind, why: &str) {
        let why = why.to_owned();
        self.events.send(Event::Refused { peer, key: None, asked: None, kind, why });
    }

    /// What holds now of the file of keys, where there is one; says so when it has changed.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let keys = self.options.keys.as_ref()?;
        let now = Standing::now(keys.table());
        match keys.look(now.at) {
            None => Some(now),
            Some(changed) => {
                self.events.send(changed);
                Some(Standing { table: keys.table(), ..now })
            }
        }
    }

    /// Whether the client there, with that key, may have this test.
    pub(crate) fn permit(
        &self,
        peer: IpAddr,
        key: Option<&Key>,
        plan: &TestPlan,
    ) -> Result<Permit, Refused> {
        match self.standing() {
            Some(standing) => self.permits.test(&standing, (peer, key), plan),
            None => Ok(Permit::default()),
        }
    }
}

/// A socket of its own for a UDP stream, on the server's port, that hears its client only.
pub(crate) fn stream_socket(
    local: SocketAddr,
    port: u16,
    peer: SocketAddr,
) -> std::io::Result<Socket> {
    let socket = sys::udp_socket(with_port(local, port))?;
    socket.connect(&peer.into())?;
    Ok(socket)
}

/// Counts a test as over even when its task is ended by a panic.
pub(crate) struct Running(Arc<Server>);

impl Running {
    /// It has begun.
    pub(crate) fn new(server: &Arc<Server>) -> Self {
        server.running.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(server))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        self.0.finished.fetch_add(1, Ordering::Relaxed);
    }
}
