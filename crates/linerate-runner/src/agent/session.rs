//! A controller's session at the server: admission, the conversation, and what happens when the
//! controller is gone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linerate_dialect::lease::Tenure;
use linerate_engine::clock;
use linerate_model::served::PutBack;
use linerate_wire::native::agent::{PIECE_BYTES, Reply, Request, pieces};
use linerate_wire::native::auth::{Seal, Seals};
use linerate_wire::native::message::{RefusalKind, Refused, ServerMessage};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc::{self, Receiver};

use super::deed::{self, deed};
use super::hand::{Hand, Policy};
use super::slot::words;
use crate::control::{ControlError, read_all, write_message};
use crate::event::Event;
use crate::keys::{Ending, Permit};
use crate::proven::Asker;
use crate::service::Server;

/// Both ends say this often that they are there.
pub(super) const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// A host that says nothing for this long is gone, and a host is leased for as long. Long, because a test
/// may take every core.
pub(super) const SILENCE_LIMIT: Duration = Duration::from_secs(15);

/// Gives the host to a controller that has proven the key, or says why not.
pub(crate) async fn admit(
    server: &Arc<Server>,
    stream: &mut TcpStream,
    peer: SocketAddr,
    asker: &mut Asker,
) -> Result<Option<Session>, Refused> {
    let refuse = |kind, why: &str, hint: &str| {
        Err(Refused { kind, why: why.into(), hints: vec![hint.into()] })
    };
    let (Some(slot), Some(sealed)) = (&server.agent, asker.seals.as_mut()) else {
        return refuse(
            RefusalKind::Policy,
            "this server lets nobody change settings of its host",
            "start it there with --allow-settings and --key-file or --keys",
        );
    };
    let permit = match server.standing() {
        Some(standing) => server.permits.control(&standing, (peer.ip(), asker.key.as_deref()))?,
        None => Permit::default(),
    };
    // From here on the host is given back by the guard's end, whatever becomes of the session.
    let Ok(privileged) = Arc::clone(&slot.privileged).try_lock_owned() else {
        return refuse(
            RefusalKind::Busy,
            "another controller has this host",
            "wait until that campaign has ended",
        );
    };
    let ending = permit.ending();
    let policy = Some(Policy { server: Arc::clone(server), permit });
    let mut hand = Hand::new(privileged, slot.options.clone(), policy, Some(peer));
    hand.sampling = Arc::clone(&slot.sampling);
    if write_message(stream, Some(&mut sealed.ours), &ServerMessage::Opened).await.is_err() {
        return Ok(None);
    }
    let key = asker.key.as_ref().map(|key| key.name.clone());
    Ok(asker.seals.take().map(|seals| Session { peer, key, ending, hand, seals }))
}

/// A controller that was let in.
pub(crate) struct Session {
    peer: SocketAddr,
    /// The name of its own key.
    key: Option<String>,
    ending: Ending,
    hand: Hand,
    seals: Seals,
}

impl Session {
    /// The conversation. Returns when the controller is gone and settings are back.
    pub(crate) async fn run(self, control: TcpStream, server: &Arc<Server>) {
        let Self { peer, key, mut ending, mut hand, seals: Seals { ours, theirs } } = self;
        let stop = hand.stop.clone();
        server.events.send(Event::ControlStarted { peer, key: key.clone() });
        let (read, write) = control.into_split();
        let requests = read_all(read, Some(theirs));
        let (asks, asked) = std::sync::mpsc::channel::<Request>();
        let (replies, replied) = mpsc::unbounded_channel::<Reply>();
        let (events, whose) = (server.events.clone(), key.clone());
        let worker = std::thread::Builder::new().name("agent".into()).spawn(move || {
            while let Ok(request) = asked.recv() {
                // What ends this server, or lasts for hours, is in its log all the same.
                if let Some(text) = deed::begins(&request) {
                    events.send(Event::Controlled { peer, key: whose.clone(), text });
                }
                let reply = hand.answer(&request);
                if let Some(text) = deed(&request, &reply) {
                    events.send(Event::Controlled { peer, key: whose.clone(), text });
                }
                if replies.send(reply).is_err() {
                    break;
                }
            }
            hand.sampling().stop();
            hand.privileged.restore()
        });
        let (why, write) = {
            let mut conversation = Conversation { requests, asks, replied, write, ours };
            let why = conversation.until_its_end(server, &mut ending).await;
            (why, conversation.write)
        };
        // The channel to the worker is closed: it ends what it does and puts settings back.
        stop.now();
        let back = match worker {
            Ok(thread) => tokio::task::spawn_blocking(move || thread.join()).await.ok(),
            Err(_) => None,
        };
        // Only now: to the controller, the end of this half says that the settings are back.
        drop(write);
        let (settings, put_back) = match back {
            Some(Ok(Ok(restoration))) => (Some(PutBack::of(&restoration)), words(&restoration)),
            Some(Ok(Err(error))) => {
                (None, format!("settings are not known to be back: {}: {}", error.what, error.why))
            }
            _ => (None, "settings are put back at the next start".to_owned()),
        };
        let text = format!("{why}; {put_back}");
        server.events.send(Event::ControlEnded { peer, key, settings, text });
    }
}

struct Conversation {
    requests: Receiver<Result<Request, ControlError>>,
    asks: std::sync::mpsc::Sender<Request>,
    replied: mpsc::UnboundedReceiver<Reply>,
    write: OwnedWriteHalf,
    ours: Seal,
}

impl Conversation {
    /// Says why it ended.
    async fn until_its_end(&mut self, server: &Arc<Server>, ending: &mut Ending) -> String {
        let mut shut = server.shut.clone();
        // Whatever this waits for, it ends by these.
        let mut ends = std::pin::pin!(async {
            tokio::select! {
                why = ending.why() => why,
                _ = shut.wait_for(|shut| *shut) => "this server ends".to_owned(),
            }
        });
        let mut tenure = Tenure::new(clock::monotonic_ns());
        let mut tick = tokio::time::interval(ALIVE_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut busy = false;
        loop {
            tokio::select! {
                request = self.requests.recv() => {
                    match request {
                        Some(Ok(Request::Lease(lease))) => tenure.renew(clock::monotonic_ns(), lease),
                        Some(Ok(Request::Bye)) => return "the controller said goodbye".into(),
                        Some(Ok(_)) if busy => return "two requests at once".into(),
                        Some(Ok(request)) => {
                            busy = true;
                            if self.asks.send(request).is_err() {
                                return "the worker is gone".into();
                            }
                        }
                        Some(Err(why)) => return why.to_string(),
                        None => return "the controller is gone".into(),
                    }
                }
                reply = self.replied.recv() => {
                    busy = false;
                    let Some(reply) = reply else { return "the worker is gone".into() };
                    let said = tokio::select! {
                        said = self.say(&reply) => said,
                        why = &mut ends => return why,
                    };
                    if let Err(e) = said {
                        return e.to_string();
                    }
                    tenure.resume(clock::monotonic_ns());
                }
                _ = tick.tick() => {
                    if tenure.is_over(clock::monotonic_ns()) {
                        return "the controller did not renew its lease".into();
                    }
                    if let Err(e) = self.say(&Reply::Alive).await {
                        return e.to_string();
                    }
                }
                why = &mut ends => return why,
            }
        }
    }

    async fn say(&mut self, reply: &Reply) -> Result<(), ControlError> {
        let text = serde_json::to_string(reply).map_err(std::io::Error::from)?;
        if text.len() <= PIECE_BYTES {
            return write_message(&mut self.write, Some(&mut self.ours), reply).await;
        }
        for piece in pieces(&text) {
            let piece = Reply::Piece(piece);
            write_message(&mut self.write, Some(&mut self.ours), &piece).await?;
        }
        Ok(())
    }
}
