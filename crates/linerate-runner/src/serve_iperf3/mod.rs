//! The server of iperf3's clients, on the same port as linerate's own.
//!
//! Data threads, accounting and admission are those of every test; this is the conversation around
//! them. Many tests run at once: TCP streams are distinguished by their cookie, UDP streams by taking
//! turns ([`rendezvous`]).

pub(crate) mod control;
pub mod logins;
mod plan;
pub(crate) mod rendezvous;
mod run;
mod sockets;

use std::net::SocketAddr;
use std::sync::Arc;

use linerate_engine::sys;
use linerate_model::plan::IpVersion;
use linerate_wire::iperf3::frame::MAX_PARAMETERS;
use linerate_wire::iperf3::{COOKIE_BYTES, Cookie, ErrorNumber, Parameters, State, hello};
use linerate_wire::native::message::{RefusalKind, Refused};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use self::control::{Control, TALK_LIMIT};
use self::plan::{Refusal, refuse};
use self::rendezvous::Shown;
use crate::data::StreamSocket;
use crate::service::{Server, stream_socket};

pub(crate) use self::run::Test;

/// Finds out what a connection wants that opened with `start`, the first bytes of a cookie: a test
/// of its own, or to be a data stream of one. Bounded by the caller's deadline.
pub(crate) async fn greet(
    server: &Arc<Server>,
    mut stream: TcpStream,
    peer: SocketAddr,
    start: [u8; 8],
    order: u64,
) -> Option<Box<Test>> {
    let mut cookie = [0; COOKIE_BYTES];
    let (head, rest) = cookie.split_at_mut(start.len());
    head.copy_from_slice(&start);
    stream.read_exact(rest).await.ok()?;
    let cookie = Cookie::from_bytes(cookie);
    if !cookie.is_plausible() {
        server.refused(peer, "not a protocol spoken here");
        return None;
    }
    let control = match server.rendezvous.shown(&cookie, peer.ip()) {
        Shown::New => Control(stream),
        Shown::Stream => {
            let stream = stream.into_std().ok()?;
            stream.set_nonblocking(false).ok()?;
            server.rendezvous.deliver_tcp(&cookie, (order, StreamSocket::Tcp(stream)));
            return None;
        }
        Shown::Refused => {
            server.turned_away(
                peer,
                RefusalKind::Busy,
                "an iperf3 data connection that no test wants",
            );
            deny(Control(stream)).await;
            return None;
        }
    };
    negotiate(server, control, peer, cookie).await
}

/// Asks for the parameters and holds them against the limits.
async fn negotiate(
    server: &Arc<Server>,
    mut control: Control,
    peer: SocketAddr,
    cookie: Cookie,
) -> Option<Box<Test>> {
    control.say(&[State::ParamExchange]).await.ok()?;
    let body = match control.document(MAX_PARAMETERS, TALK_LIMIT).await {
        Ok(body) => body,
        Err(e) => {
            server.refused(peer, &e.to_string());
            control.fail(refuse(ErrorNumber::RECEIVE_PARAMETERS, "").failure).await;
            return None;
        }
    };
    let granted = match login(server, &body).await {
        Ok(parameters) => grant(server, &control, peer, cookie, &parameters).await,
        Err(refusal) => Err(refusal),
    };
    match granted {
        Ok(grant) => Some(Box::new(grant(control))),
        Err(refusal) => {
            server.turned_away(peer, refusal.kind(), &refusal.why);
            if refusal.failure.number == ErrorNumber::BUSY {
                deny(control).await;
            } else {
                control.fail(refusal.failure).await;
            }
            None
        }
    }
}

/// Busy, or not wanted: all that iperf3 says then.
async fn deny(mut control: Control) {
    let _ = control.say(&[State::AccessDenied]).await;
    control.close().await;
}

/// Reads the parameters, and finds out whether this client may have a test at all.
async fn login(server: &Server, body: &[u8]) -> Result<Parameters, Refusal> {
    let logins = server.options.logins.as_ref();
    if server.options.wants_key() && logins.is_none() {
        let why = "this server wants a shared key, which clients of iperf3 cannot prove";
        return Err(refuse(ErrorNumber::AUTHORISATION, why));
    }
    let parameters = Parameters::decode(body)
        .map_err(|e| refuse(ErrorNumber::RECEIVE_PARAMETERS, e.to_string()))?;
    if let Some(logins) = logins {
        let checked = logins.check(parameters.authtoken.as_deref()).await;
        checked.map_err(|why| refuse(ErrorNumber::AUTHORISATION, why))?;
    }
    Ok(parameters)
}

type Granted = Box<dyn FnOnce(Control) -> Test + Send>;

async fn grant(
    server: &Arc<Server>,
    control: &Control,
    peer: SocketAddr,
    cookie: Cookie,
    parameters: &Parameters,
) -> Result<Granted, Refusal> {
    let ip = if peer.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
    let test = plan::Test::new(parameters, ip, &server.options)?;
    let local =
        control.0.local_addr().map(sys::plain).map_err(|e| {
            refuse(ErrorNumber::ACCEPT_CONTROL, format!("no address of its own: {e}"))
        })?;
    let irq_cores = crate::host::facts(peer).await.nic.map(|nic| nic.irq_cores).unwrap_or_default();
    let unwanted = |refused: Refused| match refused.kind {
        RefusalKind::Busy => refuse(ErrorNumber::BUSY, refused.why),
        RefusalKind::Policy => refuse(ErrorNumber::END_CONDITIONS, refused.why),
        _ => refuse(ErrorNumber::CREATE_STREAM, refused.why),
    };
    let permit = server.permit(peer.ip(), None, &test.plan.plan).map_err(unwanted)?;
    // That of its budgets: the server's own was looked at.
    test.check_burst(permit.rate(None))?;
    let (arrivals, _) = tokio::sync::mpsc::unbounded_channel();
    // No native stream can claim this place: nobody learns token and cookie.
    let slot = server
        .admission
        .admit(
            &test.plan,
            u64::from_be_bytes(crate::random::random()) >> 1,
            crate::random::random(),
            (peer.ip(), local),
            &irq_cores,
            arrivals,
            (&server.options, permit),
        )
        .map_err(unwanted)?;
    Ok(Box::new(move |control| Test::new(control, peer, local, cookie, ip, test, slot)))
}

/// Answers the first datagram of a UDP stream, if a test of that address waits for one: four bytes
/// for four.
pub(crate) fn greet_udp(server: &Server, datagram: &[u8], peer: SocketAddr, port: u16) {
    let Some(answer) = hello::answer(datagram) else { return };
    let Some(local) = server.rendezvous.waits_for_udp(peer) else { return };
    // Its client waits for the answer.
    let Ok((socket, _)) = stream_socket(local, port, peer) else {
        server.turned_away(peer, RefusalKind::Unable, "no socket for a UDP stream");
        return;
    };
    let Ok(copy) = socket.try_clone() else { return };
    if server.rendezvous.deliver_udp(peer, (server.next_order(), StreamSocket::Udp(socket, None))) {
        let _ = copy.send(&answer);
    }
}
