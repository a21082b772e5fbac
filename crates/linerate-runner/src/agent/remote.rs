//! A host where `linerate serve --allow-settings` runs, as the controller uses it.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_model::limits;
use linerate_model::plan::IpVersion;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_wire::native::PREAMBLE;
use linerate_wire::native::agent::{Lease, MOST_DOCUMENT_BYTES, Reply, Request, check};
use linerate_wire::native::auth::Seals;
use linerate_wire::native::message::{ClientMessage, ServerMessage};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::HostAgent;
use super::monitor::ANSWER_LIMIT;
use super::session::{ALIVE_EVERY, SILENCE_LIMIT};
use crate::client::connect_to;
use crate::control::{ControlError, decode, read_all, read_body, write_bytes, write_message};
use crate::errors;
use crate::proven;
use crate::signals::Stop;

/// Each step of the greeting may take this long.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// Once it is to stop, a host that says nothing for this long is not waited for: it puts itself back when
/// its lease is over.
const STOPPED_SILENCE: Duration = Duration::from_secs(2);
/// After goodbye, the host has this long to put its settings back; and once it is to stop, to answer what takes no long
/// time.
const GOODBYE_LIMIT: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 40_000 });

/// An answer may take so long beyond its time: a host that says that it is there and has none by then will have none.
const BEYOND: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 60 });

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
    stop: Stop,
    ask: Option<UnboundedSender<Ask>>,
    /// Says whether the host has ended all that it was asked for.
    thread: Option<JoinHandle<bool>>,
}

impl Remote {
    /// Connects and takes the host over.
    ///
    /// # Errors
    /// When it cannot be reached, has another key, lets nobody set anything, or is another
    /// controller's now.
    pub fn connect(access: &Access) -> Result<Self, ErrorRecord> {
        Self::connect_until(access, &Stop::default())
    }

    /// As [`Remote::connect`], but `stop` ends what waits for the host: connecting, and a test or a command
    /// there, which are given up so that the host ends them and puts its settings back (dropping this waits
    /// for that). Other questions are still answered by a host that is heard, within 40 seconds.
    ///
    /// # Errors
    /// As [`Remote::connect`]; `interrupted`.
    pub fn connect_until(access: &Access, stop: &Stop) -> Result<Self, ErrorRecord> {
        let (runtime, line) = wait_for(&access.name, stop, open(access))?;
        let (ask, asked) = unbounded_channel();
        let stopped = stop.clone();
        let keep = move || {
            let ended = runtime.block_on(line.keep(asked, &stopped));
            runtime.shutdown_background();
            ended
        };
        let thread = std::thread::Builder::new().name("controller".into()).spawn(keep);
        let thread = thread.map_err(unable)?;
        let (name, stop) = (access.name.clone(), stop.clone());
        Ok(Self { name, stop, ask: Some(ask), thread: Some(thread) })
    }
}

/// Whether something takes connections on a TCP port.
///
/// # Errors
/// Why not; `interrupted` once `stop` says so.
pub fn listens(name: &str, port: u16, stop: &Stop) -> Result<(), ErrorRecord> {
    let (runtime, _) = wait_for(name, stop, connect_to(name, port, None, None))?;
    runtime.shutdown_background();
    Ok(())
}

fn unable(why: std::io::Error) -> ErrorRecord {
    errors::unable("start the controller", &why.to_string())
}

/// Waits for what a host is asked for in a runtime of its own, or until `stop` says so.
fn wait_for<T>(
    name: &str,
    stop: &Stop,
    work: impl Future<Output = Result<T, ErrorRecord>>,
) -> Result<(Runtime, T), ErrorRecord> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(unable)?;
    let done = runtime.block_on(async {
        tokio::select! {
            biased;
            () = stop.asked() => Err(given_up(name)),
            done = work => done,
        }
    });
    match done {
        Ok(done) => Ok((runtime, done)),
        Err(error) => {
            // Name lookups that hang must not hold the program back.
            runtime.shutdown_background();
            Err(error)
        }
    }
}

fn given_up(name: &str) -> ErrorRecord {
    let what = format!("gave up what {name} was asked for");
    ErrorRecord::new(ErrorKind::Interrupted, what, "interrupted", &[])
}

impl HostAgent for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, request: Request) -> Answer {
        check(&request).map_err(|why| {
            ErrorRecord::new(
                ErrorKind::OutOfRange,
                format!("cannot ask {} for this", self.name),
                why,
                &[],
            )
        })?;
        let takes_long = matches!(request, Request::Test(_) | Request::Command(_));
        let most = longest(&request);
        let (answer, answered) = channel();
        let ask = self.ask.as_ref().ok_or_else(gone)?;
        ask.send((request, answer)).map_err(|_| gone())?;
        self.hear(&answered, takes_long, most)
    }
}

fn gone() -> ErrorRecord {
    errors::unable("control the host", "the connection to it has ended")
}

/// How long a host may take for an answer.
fn longest(request: &Request) -> Duration {
    let time = match request {
        Request::Test(test) => {
            // What ends by its bytes has no time, and none takes longer than the longest that has.
            let time = test.plan.duration().map_or(limits::DURATION_NS.max, |time| time.0);
            Duration::from_nanos(time.saturating_add(test.plan.warmup.0))
        }
        Request::Command(command) => Duration::from_millis(command.limit_ms),
        // One order a setting, and a driver may take its time for each.
        Request::Apply { settings, .. } => {
            let count = u32::try_from(settings.len()).unwrap_or(u32::MAX);
            ANSWER_LIMIT.saturating_add(BEYOND.saturating_mul(count))
        }
        Request::Restore | Request::Reboot { .. } => ANSWER_LIMIT,
        _ => Duration::ZERO,
    };
    time.saturating_add(BEYOND)
}

impl Remote {
    /// Waits for an answer, for so long. Once it is to stop, what takes long is given up, all else after a while, and the
    /// host is waited for until it has ended it: only then is that an interruption, else the host may still be at it.
    fn hear(&mut self, answered: &Receiver<Answer>, takes_long: bool, most: Duration) -> Answer {
        let begun = Instant::now();
        let mut stopped = None;
        loop {
            match answered.recv_timeout(LOOK_EVERY) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.stop.seen() {
                let since = stopped.get_or_insert_with(Instant::now);
                if takes_long || since.elapsed() > GOODBYE_LIMIT {
                    return Err(if self.let_go() { given_up(&self.name) } else { gone() });
                }
            }
            if begun.elapsed() > most {
                self.ask = None;
                let what = format!("gave up what {} was asked for", self.name);
                let why = "it says that it is there, and has no answer long after the time for one";
                let hint = "see what holds its server up, or start that again";
                return Err(ErrorRecord::new(ErrorKind::TimedOut, what, why, &[hint]));
            }
        }
    }

    /// Says goodbye, and waits for the host's end. Says whether it has ended all that it was asked for.
    fn let_go(&mut self) -> bool {
        self.ask = None;
        self.thread.take().is_some_and(|thread| thread.join().unwrap_or(false))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.let_go();
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
    let hello = proven::hello(Some(&access.key)).map_err(|e| lost(&e))?;
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
    /// request is answered with that. Says whether the host has ended all that it was asked for, and put its settings back.
    async fn keep(self, mut asked: UnboundedReceiver<Ask>, stop: &Stop) -> bool {
        let Self { name, peer, control, seals: Seals { mut ours, theirs } } = self;
        let (read, mut write) = control.into_split();
        let mut replies = read_all::<Reply>(read, Some(theirs));
        let epoch = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0);
        let ttl_ms = u32::try_from(SILENCE_LIMIT.as_millis()).unwrap_or(u32::MAX);
        let lease = Request::Lease(Lease { epoch, ttl_ms });
        let mut heard = Instant::now();
        let is_silent = |heard: Instant| {
            heard.elapsed() > if stop.seen() { STOPPED_SILENCE } else { SILENCE_LIMIT }
        };
        let mut tick = tokio::time::interval(ALIVE_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut waiting: Option<Sender<Answer>> = None;
        let mut document = String::new();
        let trouble = loop {
            tokio::select! {
                // One asks at a time; while it waits, only the end can come.
                ask = asked.recv() => {
                    let Some((request, answer)) = ask else {
                        if is_silent(heard) {
                            return false;
                        }
                        let bye = write_message(&mut write, Some(&mut ours), &Request::Bye).await;
                        // Its end of the connection closes when its settings are back.
                        let end = async {
                            loop {
                                match replies.recv().await {
                                    Some(Ok(_)) => {}
                                    end => break matches!(end, Some(Err(ControlError::Closed))),
                                }
                            }
                        };
                        let ended = tokio::time::timeout(GOODBYE_LIMIT, end).await;
                        return bye.is_ok() && ended.unwrap_or(false);
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
                    if is_silent(heard) {
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
        false
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
    // As bytes, as frames are: a `str` is read by a copy of all the code.
    serde_json::from_slice(std::mem::take(document).as_bytes()).map(Some).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use linerate_wire::native::agent::CommandRequest;
    use linerate_wire::native::auth::{Offer, answer};

    use super::*;
    use crate::control::read_all;

    #[test]
    fn a_host_that_takes_connections_and_says_nothing_is_given_up_at_a_stop() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let key = b"a key for tests only, 32 bytes.".to_vec();
        let access = Access { name: "127.0.0.1".into(), port, ip: None, bind: None, key };
        let stop = Stop::default();
        let stopped = stop.clone();
        let connecting = std::thread::spawn(move || Remote::connect_until(&access, &stopped).err());
        // It is in the middle of the greeting, and stays there.
        let (_held, _) = listener.accept().unwrap();
        stop.now();
        let error = connecting.join().unwrap().expect("nobody answered");
        assert_eq!(error.kind, ErrorKind::Interrupted, "{error:?}");
        let error = listens("127.0.0.1", port, &stop).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Interrupted, "{error:?}");
        assert!(listens("127.0.0.1", port, &Stop::default()).is_ok());
    }

    #[test]
    fn an_answer_that_does_not_come_is_waited_for_as_long_as_a_test_may_take() {
        let (answer, answered) = channel();
        let (name, stop) = ("host".to_owned(), Stop::default());
        let mut remote = Remote { name, stop: stop.clone(), ask: None, thread: None };
        let error = remote.hear(&answered, true, Duration::ZERO).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TimedOut, "{error:?}");
        // Nobody has said that it ended what it was asked for.
        stop.now();
        assert_ne!(remote.hear(&answered, true, HOURS).unwrap_err().kind, ErrorKind::Interrupted);
        remote.thread = Some(std::thread::spawn(|| true));
        let error = remote.hear(&answered, true, HOURS).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Interrupted, "{error:?}");
        drop(answer);
        let command = CommandRequest { argv: vec!["true".into()], limit_ms: 7_000, keep_bytes: 0 };
        assert_eq!(longest(&Request::Command(command)), Duration::from_secs(7) + BEYOND);
        // Its monitor gives up first, and says why.
        let apply = Request::Apply { device: None, settings: vec![] };
        for longer in [apply, Request::Restore, Request::Reboot { command: None }] {
            assert!(longest(&longer) > ANSWER_LIMIT, "{longer:?}");
        }
        assert_eq!(longest(&Request::Facts), BEYOND);
    }

    /// Only a hang reaches it.
    const HOURS: Duration = Duration::from_secs(7_200);

    /// A host that says that it is there, and nothing else.
    fn one_that_never_answers(stop: &Stop) -> Remote {
        let (ask, asked) = unbounded_channel();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let peer = listener.local_addr().unwrap();
                let (control, host) = tokio::join!(TcpStream::connect(peer), listener.accept());
                let (seals, mut its) = seals();
                let line = Line { name: "host".into(), peer, control: control.unwrap(), seals };
                let mut host = host.unwrap().0;
                let host = async {
                    while write_message(&mut host, Some(&mut its.ours), &Reply::Alive).await.is_ok()
                    {
                        tokio::time::sleep(LOOK_EVERY).await;
                    }
                };
                tokio::join!(line.keep(asked, &stopped), host).0
            })
        });
        Remote { name: "host".into(), stop: stop.clone(), ask: Some(ask), thread: Some(thread) }
    }

    #[test]
    fn a_host_that_says_that_it_is_there_and_never_answers_is_given_up() {
        let mut remote = one_that_never_answers(&Stop::default());
        let error = remote.facts().unwrap_err();
        assert_eq!(error.kind, ErrorKind::TimedOut, "{error:?}");
        assert!(remote.ping().is_err(), "it is not asked any more");
        let stop = Stop::default();
        let mut remote = one_that_never_answers(&stop);
        let (answer, answered) = channel();
        remote.ask.as_ref().unwrap().send((Request::Restore, answer)).ok().unwrap();
        stop.now();
        let error = remote.hear(&answered, false, HOURS).unwrap_err();
        let not = [ErrorKind::TimedOut, ErrorKind::Interrupted];
        assert!(!not.contains(&error.kind), "nobody has said that it ended: {error:?}");
    }

    fn seals() -> (Seals, Seals) {
        let key = b"a key for tests only, 32 bytes.";
        let (offer, nonce) = Offer::new([1; 32]).unwrap();
        let greeting = (&b"hello"[..], &b"welcome"[..]);
        let (frame, client) = answer(&nonce, [2; 32], key, greeting, &"request").unwrap();
        let (_, server) = offer.taken::<String>(key, greeting, &frame[4..]).unwrap();
        (client, server)
    }

    #[tokio::test]
    async fn a_host_that_falls_silent_is_not_waited_for_once_it_is_to_stop() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = listener.local_addr().unwrap();
        let (control, host) = tokio::join!(TcpStream::connect(peer), listener.accept());
        let (seals, its) = seals();
        let line = Line { name: "host".into(), peer, control: control.unwrap(), seals };
        let (stop, (ask, asked), (answer, answered)) =
            (Stop::default(), unbounded_channel(), channel());
        ask.send((Request::Facts, answer)).ok().unwrap();
        let host = async {
            let (read, _open) = host.unwrap().0.into_split();
            let mut requests = read_all::<Request>(read, Some(its.theirs));
            while !matches!(requests.recv().await.unwrap().unwrap(), Request::Facts) {}
            stop.now();
            let mut leases = 0;
            while let Some(Ok(Request::Lease(_))) = requests.recv().await {
                leases += 1;
            }
            drop(ask);
            leases
        };
        let (ended, leases) = tokio::join!(line.keep(asked, &stop), host);
        assert!(!ended, "nobody knows what it is at");
        assert_eq!(answered.recv().unwrap().unwrap_err().kind, ErrorKind::ServerLost);
        // One a second: so many are said before a host that falls silent is given up without a stop.
        assert!(leases < SILENCE_LIMIT.as_secs() - 5, "{leases}");
    }
}
