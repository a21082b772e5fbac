//! Greeting a server and agreeing on the test with it.

use std::time::Duration;

use linerate_dialect::native::client::ANSWER_LIMIT_NS;
use linerate_engine::sys;
use linerate_model::record::{Doubt, DoubtKind, ErrorRecord};
use linerate_wire::iperf3::{COOKIE_BYTES, Cookie, State};
use linerate_wire::native::auth::Seals;
use linerate_wire::native::frame;
use linerate_wire::native::message::{Agreed, ClientMessage, Request, ServerMessage};
use linerate_wire::native::{FEATURES, PREAMBLE};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::control::{ControlError, read_body, write_bytes};
use crate::errors::{self, AGREEING};
use crate::proven;

use super::connect::DETECT;
use super::iperf3;
use super::test::ClientTest;

const ANSWER_LIMIT: Duration = Duration::from_nanos(ANSWER_LIMIT_NS);
/// Beyond four round trips, servers of linerate's and iperf3's have answered the hello after so long, unless their
/// hosts are busy.
const SOON: Duration = Duration::from_millis(400);

/// What a server is, by the first byte that it says.
pub(super) enum Server {
    /// linerate's, or nothing that is known: its messages will show.
    Linerate,
    /// It has heard the hello and said nothing so far.
    Silent,
    /// iperf3's, which took the beginning of the hello for this cookie and goes on with it.
    Iperf3(Cookie),
    /// iperf3's, which has the rest of the hello as well and cannot go on with that. A `busy` one runs another test.
    LateIperf3 {
        /// It takes no test now.
        busy: bool,
    },
}

/// What an iperf3 server answers, if it is one and answers within `limit`. The byte stays unread.
async fn answered_as_iperf3(control: &TcpStream, limit: Duration) -> Option<State> {
    let mut byte = [0];
    let answer = tokio::time::timeout(limit, control.peek(&mut byte)).await;
    matches!(answer, Ok(Ok(1))).then(|| iperf3::first_word(byte[0]))?
}

impl ClientTest<'_> {
    /// Says hello. Its first bytes are as many as iperf3's cookie has, so that an iperf3 server
    /// answers them and can go on with them. linerate's own server answers only the whole.
    pub(super) async fn greet(
        &self,
        control: &mut TcpStream,
        hello: &[u8],
    ) -> Result<Server, ErrorRecord> {
        let lost = |why: &str| self.lost(AGREEING, why);
        let opening = [&PREAMBLE[..], hello].concat();
        let (mut first, mut rest) = (&opening[..], &[][..]);
        if self.request.dialect.is_none()
            && let Some((cookie, after)) = opening.split_first_chunk::<COOKIE_BYTES>()
        {
            (first, rest) = (&cookie[..], after);
        }
        control.write_all(first).await.map_err(|e| lost(&e.to_string()))?;
        let Some(cookie) = <[u8; COOKIE_BYTES]>::try_from(first).ok().filter(|_| !rest.is_empty())
        else {
            return Ok(Server::Linerate);
        };
        let rtt = sys::tcp_sample(&*control).and_then(|tcp| tcp.rtt_ns).unwrap_or(0);
        if answered_as_iperf3(control, DETECT + 2 * Duration::from_nanos(rtt)).await.is_some() {
            return Ok(Server::Iperf3(Cookie::from_bytes(cookie)));
        }
        // One that has answered in between may have hung up before the rest arrived.
        let written = control.write_all(rest).await;
        let answered = self.later(control, SOON + 4 * Duration::from_nanos(rtt)).await;
        if !matches!(answered, Server::LateIperf3 { .. }) {
            written.map_err(|e| lost(&e.to_string()))?;
        }
        Ok(answered)
    }

    /// What it is by a first byte that comes after the whole hello, within `limit` or as long as any answer may take.
    pub(super) async fn later(
        &self,
        control: &TcpStream,
        limit: impl Into<Option<Duration>>,
    ) -> Server {
        let mut byte = [0];
        let limit = limit.into().unwrap_or(ANSWER_LIMIT);
        match tokio::time::timeout(limit, control.peek(&mut byte)).await {
            Err(_) => Server::Silent,
            Ok(Ok(1)) => match iperf3::first_word(byte[0]) {
                Some(state) => Server::LateIperf3 { busy: state == State::AccessDenied },
                None => Server::Linerate,
            },
            Ok(_) => Server::Linerate,
        }
    }

    /// An answer, unless it is a refusal or none.
    fn understood(
        &self,
        answer: Result<ServerMessage, ControlError>,
    ) -> Result<ServerMessage, ErrorRecord> {
        match answer {
            Ok(ServerMessage::Refused(refused)) => Err(errors::refused(&self.name, &refused)),
            Ok(message) => Ok(message),
            Err(ControlError::Closed | ControlError::Frame(_)) => {
                Err(errors::not_linerate(&self.name, self.peer))
            }
            Err(ControlError::Unproven) => Err(errors::unproven(&self.name, self.peer, AGREEING)),
            Err(e) => Err(self.lost(AGREEING, &e.to_string())),
        }
    }

    /// From the server's welcome to what both will run. With a key nothing is asked of a server
    /// before what is asked can be sealed for it, nor believed without its seal.
    pub(super) async fn negotiate(
        &mut self,
        control: &mut TcpStream,
        hello: &[u8],
    ) -> Result<(Agreed, Option<Seals>), ErrorRecord> {
        let body = self.body(control).await;
        let welcome = body.and_then(|body| Ok((frame::decode::<ServerMessage>(&body)?, body)));
        let (welcome, body) = match welcome {
            Ok((ServerMessage::Welcome(welcome), body)) => (welcome, body),
            other => {
                let other = self.understood(other.map(|(message, _)| message))?;
                return Err(self.out_of_turn(AGREEING, &other));
            }
        };
        let missing: Vec<&str> =
            FEATURES.iter().copied().filter(|f| !welcome.features.iter().any(|w| w == f)).collect();
        if !missing.is_empty() {
            self.doubt(format!(
                "the server ({}) cannot do: {}",
                welcome.program,
                missing.join(", ")
            ));
        }
        let key = self.request.key.as_deref();
        let ends = proven::ends(control).map_err(|e| self.lost(AGREEING, &e.to_string()))?;
        let request = ClientMessage::Request(Box::new(Request {
            plan: self.plan.clone(),
            ends: key.map(|_| ends),
            boot_id: self.record.client.boot_id.clone(),
            run: Some(self.record.id.clone()),
        }));
        let (request, mut seals) =
            proven::ask(&self.name, key, hello, (&body, &welcome), &request)?;
        write_bytes(control, &request).await.map_err(|e| self.lost(AGREEING, &e.to_string()))?;
        let body = self.body(control).await;
        let answer = body.and_then(|body| proven::first_answer(seals.as_mut(), &body));
        let agreed = match answer {
            Err(ControlError::Unproven) => return Err(errors::wrong_server_key(&self.name)),
            answer => match self.understood(answer)? {
                ServerMessage::Agreed(agreed) => *agreed,
                other => return Err(self.out_of_turn(AGREEING, &other)),
            },
        };
        if let Some(seen) = agreed.client
            && (seen.ip(), seen.port()) != (ends.client.ip(), ends.client.port())
        {
            self.doubt(format!(
                "the server sees this client at {seen}, and not at {}: addresses are translated on \
                 the way, or somebody stands between, who can touch the data but no control message",
                ends.client
            ));
        }
        Ok((agreed, seals))
    }

    async fn body(&self, control: &mut TcpStream) -> Result<Vec<u8>, ControlError> {
        let answer = tokio::time::timeout(ANSWER_LIMIT, read_body(control)).await;
        answer.unwrap_or(Err(ControlError::Silent))
    }

    fn doubt(&mut self, text: String) {
        self.record.doubts.push(Doubt::new(DoubtKind::Degraded, text));
    }
}
