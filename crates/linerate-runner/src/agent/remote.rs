//! A host where `linerate serve --allow-settings` runs, as the controller uses it.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_model::plan::IpVersion;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_wire::native::PREAMBLE;
use linerate_wire::native::agent::{Lease, MOST_DOCUMENT_BYTES, Reply, Request, check};
use linerate_wire::native::auth::Seals;
use linerate_wire::native::message::{ClientMessage, ServerMessage};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::HostAgent;
use super::session::{ALIVE_EVERY, SILENCE_LIMIT};
use crate::client::connect_to;
use crate::control::{ControlError, decode, read_all, read_body, write_bytes, write_message};
use crate::errors;
use crate::proven;
use crate::signals::Stop;

/// Each step of the greeting may take this long.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// After goodbye, the host has this long to put its settings back.
const GOODBYE_LIMIT: Duration = Duration::from_secs(40);

/// While an answer is awaited, whoever asked is looked after this often.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How a host is reached.
#[derive(Debug, Clone)]
pub struct Access {
    /// Host name or address.
    pub name: String,
    /// TCP port of its server.
    pub port: u16,
    /// Use only this version of IP.
    pub ip: Option<IpVersion>,
    /// Local address of the connection.
    pub bind: Option<IpAddr>,
    /// Shared key.
    pub key: Vec<u8>,
}

type Answer = Result<Reply, ErrorRecord>;
type Ask = (Request, Sender<Answer>);

/// A connection to a host under test. A thread of its own keeps it alive; dropping it lets the host
/// put its settings back, and waits for that.
pub struct Remote {
    name: String,
    ask: Option<UnboundedSender<Ask>>,
    thread: Option<JoinHandle<()>>,
}

impl Remote {
    /// Connects and takes the host over.
    ///
    /// # Errors
    /// When it cannot be reached, has another key, lets nobody set anything, or is another
    /// controller's now.
    pub fn connect(access: &Access) -> Result<Self, ErrorRecord> {
        let unable = |e: std::io::Error| errors::unable("start the controller", &e.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(unable)?;
        let line = match runtime.block_on(open(access)) {
            Ok(line) => line,
            Err(error) => {
                // Name lookups that hang must not hold the program back.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let (ask, asked) = unbounded_channel();
        let keep = move || {
            runtime.block_on(line.keep(asked));
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("controller".into()).spawn(keep);
        let thread = thread.map_err(unable)?;
        Ok(Self { name: access.name.clone(), ask: Some(ask), thread: Some(thread) })
    }
}

impl HostAgent for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, request: Request) -> Answer {
        self.ask_until(request, &Stop::default())
    }
}

impl Remote {
    /// As [`HostAgent::ask`], but once `stop` says so the connection is given up: the host ends what it
    /// was asked for and puts its settings back, which dropping this waits for.
    ///
    /// # Errors
    /// As [`HostAgent::ask`]; `interrupted`.
    pub fn ask_until(&mut self, request: Request, stop: &Stop) -> Answer {
        check(&request).map_err(|why| {
            ErrorRecord::new(
                ErrorKind::OutOfRange,
                format!("cannot ask {} for this", self.name),
                why,
                &[],
            )
        })?;
        let gone = || errors::unable("control the host", "the connection to it has ended");
        let (answer, answered) = channel();
        let ask = self.ask.as_ref().ok_or_else(gone)?;
        ask.send((request, answer)).map_err(|_| gone())?;
        loop {
            match answered.recv_timeout(LOOK_EVERY) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
                Err(RecvTimeoutError::Timeout) if stop.seen() => {
                    self.ask = None;
                    return Err(ErrorRecord::new(
                        ErrorKind::Interrupted,
                        format!("gave up what {} was asked for", self.name),
                        "interrupted",
                        &[],
                    ));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An open connection.
struct Line {
    name: String,
    peer: SocketAddr,
    control: TcpStream,
    seals: Seals,
}

async fn open(access: &Access) -> Result<Line, ErrorRecord> {
    let name = access.name.clone();
    let mut control = connect_to(&name, access.port, access.ip, access.bind).await?;
    let peer = control.peer_addr();
    let peer = peer.map_err(|e| errors::unable("use the control connection", &e.to_string()))?;
    let greeting = tokio::time::timeout(GREETING_LIMIT, greet(access, &name, peer, &mut control));
    let seals = greeting.await.map_err(|_| errors::silent(&name, peer))??;
    Ok(Line { name, peer, control, seals })
}

async fn greet(
    access: &Access,
    name: &str,
    peer: SocketAddr,
    control: &mut TcpStream,
) -> Result<Seals, ErrorRecord> {
    let lost = |why: &dyn Display| {
        errors::server_lost(name, peer, "taking the host over", &why.to_string())
    };
    let ends = proven::ends(control).map_err(|e| lost(&e))?;
    let hello = proven::hello().map_err(|e| lost(&e))?;
    let opening = [&PREAMBLE[..], &hello].concat();
    write_bytes(control, &opening).await.map_err(|e| lost(&e))?;
    let body = read_body(control).await.map_err(|_| errors::not_linerate(name, peer))?;
    let welcome = match decode(None, &body) {
        Ok(ServerMessage::Welcome(welcome)) => welcome,
        Ok(ServerMessage::Refused(refused)) => {
            return Err(errors::refused_control(name, &refused));
        }
        _ => return Err(errors::not_linerate(name, peer)),
    };
    let (key, opening) = (Some(&access.key[..]), ClientMessage::Agent(ends));
    let (frame, mut seals) = proven::ask(name, key, &hello, (&body, &welcome), &opening)?;
    write_bytes(control, &frame).await.map_err(|e| lost(&e))?;
    let body = read_body(control).await.map_err(|e| lost(&e))?;
    match proven::first_answer(seals.as_mut(), &body) {
        Ok(ServerMessage::Opened) => seals.ok_or_else(|| errors::wrong_server_key(name)),
        Ok(ServerMessage::Refused(refused)) => Err(errors::refused_control(name, &refused)),
        Ok(_) => Err(lost(&"a message out of turn")),
        Err(ControlError::Unproven) => Err(errors::wrong_server_key(name)),
        Err(e) => Err(lost(&e)),
    }
}

impl Line {
    /// Carries requests and answers until nobody asks any more, or the host is gone: then every
    /// request is answered with that.
    async fn keep(self, mut asked: UnboundedReceiver<Ask>) {
        let Self { name, peer, control, seals: Seals { mut ours, theirs } } = self;
        let (read, mut write) = control.into_split();
        let mut replies = read_all::<Reply>(read, Some(theirs));
        let epoch = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0);
        let ttl_ms = u32::try_from(SILENCE_LIMIT.as_millis()).unwrap_or(u32::MAX);
        let lease = Request::Lease(Lease { epoch, ttl_ms });
        let mut heard = Instant::now();
        let mut tick = tokio::time::interval(ALIVE_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut waiting: Option<Sender<Answer>> = None;
        let mut document = String::new();
        let trouble = loop {
            tokio::select! {
                // One asks at a time; while it waits, only the end can come.
                ask = asked.recv() => {
                    let Some((request, answer)) = ask else {
                        let _ = write_message(&mut write, Some(&mut ours), &Request::Bye).await;
                        // Its end of the connection closes when its settings are back.
                        let end = async { while let Some(Ok(_)) = replies.recv().await {} };
                        let _ = tokio::time::timeout(GOODBYE_LIMIT, end).await;
                        return;
                    };
                    waiting = Some(answer);
                    if let Err(e) = write_message(&mut write, Some(&mut ours), &request).await {
                        break e.to_string();
                    }
                }
                reply = replies.recv() => {
                    heard = Instant::now();
                    let reply = match reply {
                        Some(Ok(Reply::Alive)) => continue,
                        Some(Ok(reply)) => match whole(&mut document, reply) {
                            Ok(Some(reply)) => reply,
                            Ok(None) => continue,
                            Err(why) => break why,
                        },
                        Some(Err(why)) => break why.to_string(),
                        None => break "the connection ended".into(),
                    };
                    let Some(answer) = waiting.take() else { break "it answered nothing".into() };
                    let _ = answer.send(match reply {
                        Reply::Failed(error) => Err(*error),
                        reply => Ok(reply),
                    });
                }
                _ = tick.tick() => {
                    if heard.elapsed() > SILENCE_LIMIT {
                        break "it was silent for too long".into();
                    }
                    if let Err(e) = write_message(&mut write, Some(&mut ours), &lease).await {
                        break e.to_string();
                    }
                }
            }
        };
        drop(write);
        drop(replies);
        let error = errors::server_lost(&name, peer, "controlling it", &trouble);
        if let Some(answer) = waiting {
            let _ = answer.send(Err(error.clone()));
        }
        while let Some((_, answer)) = asked.recv().await {
            let _ = answer.send(Err(error.clone()));
        }
    }
}

/// A reply, once all its pieces have come.
fn whole(document: &mut String, reply: Reply) -> Result<Option<Reply>, String> {
    let Reply::Piece(piece) = reply else { return Ok(Some(reply)) };
    document.push_str(&piece.text);
    if document.len() > MOST_DOCUMENT_BYTES {
        return Err("it sent an answer without an end".to_owned());
    }
    if !piece.last {
        return Ok(None);
    }
    serde_json::from_str(&std::mem::take(document)).map(Some).map_err(|e| e.to_string())
}
