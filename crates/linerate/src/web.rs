//! `--web` and `--metrics`: serve the page of a test or a server with its events, or figures for Prometheus, each from a
//! thread of its own.
//!
//! Whoever publishes an event waits for nobody: it goes into a queue of bounded length, and a reader who falls behind is cut
//! off. Its browser comes again, and gets every event from the start.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use linerate_ask::value::WebAddress;
use linerate_model::record::{ErrorKind, ErrorRecord, Interval, RunRecord};
use linerate_model::sample::HostSample;
use linerate_runner::Cidr;
use linerate_runner::random::random;
use linerate_session::observer::Observer;
use linerate_session::verdict::so_far;
use linerate_watch::test::TestView;
use linerate_watch::web::events::{self, History, PageEvent};
use linerate_watch::web::page::Html;
use linerate_wire::http::{self, Asked, Request, Token};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Connections at once that have not asked for events; more are closed unread.
const MOST_WAITING: usize = 32;
/// Pages that are open at once.
const MOST_LISTENERS: usize = 16;
/// A request has so long to come, and each part of an answer to be taken.
const LIMIT: Duration = Duration::from_secs(5);
/// Events that wait for a reader at most.
const MOST_QUEUED: usize = 256;
/// Bytes that are one part of an answer.
const PART: usize = 64 << 10;
/// Where nothing happens, a reader is asked this often whether it is still there.
const QUIET: Duration = Duration::from_secs(15);
/// Pause after a connection that could not be taken, as the next one most likely cannot either.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// At the end, whoever reads has so long for the last events.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What happens, for who reads now and who comes later.
pub struct Feed {
    state: Mutex<State>,
    over: watch::Sender<bool>,
}

struct State {
    history: History,
    /// None once all is published.
    news: Option<broadcast::Sender<Arc<str>>>,
}

impl Feed {
    fn new() -> Self {
        let news = Some(broadcast::Sender::new(MOST_QUEUED));
        let state = Mutex::new(State { history: History::default(), news });
        Self { state, over: watch::Sender::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whoever reads; never waits for them.
    pub fn publish(&self, event: PageEvent) {
        let mut state = self.lock();
        if let Some(news) = &state.news {
            // Fails where nobody reads.
            let _ = news.send(Arc::clone(&event.text));
        }
        state.history.keep(event);
    }

    /// What was published and is kept, and what will be.
    fn join(&self) -> (String, Option<broadcast::Receiver<Arc<str>>>) {
        let state = self.lock();
        let (kept, news) =
            (state.history.texts(), state.news.as_ref().map(broadcast::Sender::subscribe));
        drop(state);
        (kept.concat(), news)
    }

    fn end(&self) {
        self.lock().news = None;
        self.over.send_replace(true);
    }

    async fn over(&self) {
        let mut over = self.over.subscribe();
        let _ = over.wait_for(|over| *over).await;
    }
}

/// Whole answers to paths with their queries.
pub type Site = Box<dyn Fn(&str) -> Answer + Send + Sync>;
/// One that may take its time; it is dropped where whoever asked goes before.
pub type Answer = Pin<Box<dyn Future<Output = String> + Send>>;

/// A page or metrics, served from [`Web::begin`] until this is dropped.
pub struct Web {
    feed: Arc<Feed>,
    words: String,
    /// Until it is served.
    door: Option<Door>,
    thread: Option<JoinHandle<()>>,
    /// Of a test: what its verdict so far is made of, and what was lost.
    view: Box<TestView>,
    /// Nobody changes the test's rate.
    judges: bool,
    ended: bool,
}

impl Web {
    /// A screen beside it changes the test's rate, and has the verdict so far alone.
    pub fn leave_verdict(&mut self) {
        self.judges = false;
    }

    /// Takes the port of a page that is the same for everybody.
    pub fn bind(at: WebAddress, page: &Html) -> Result<Self, ErrorRecord> {
        let page = http::page(page.as_str());
        let site = move |path: &str| -> Answer {
            let answer = if path.is_empty() { &page } else { http::NOT_FOUND };
            Box::pin(std::future::ready(answer.to_owned()))
        };
        Self::page(at, Box::new(site))
    }

    /// Takes the port of a page and what belongs to it: `site` answers what stands behind the token.
    pub fn page(at: WebAddress, site: Site) -> Result<Self, ErrorRecord> {
        let token = Token::new(random());
        let path = format!("{token}/");
        let hint = "--web alone takes a free port, which this host alone reaches";
        let behind = Behind { token: Some(token), site };
        Self::open(at.0, behind, ("the page", "is", "--web", &path), hint)
    }

    /// Takes the port of what has no secret in its address; `option` says where it is to be.
    pub fn site(
        at: SocketAddr,
        (what, option, path): (&str, &str, &str),
        site: Site,
    ) -> Result<Self, ErrorRecord> {
        let hint = format!("another port with {option}=PORT, which this host alone reaches");
        Self::open(at, Behind { token: None, site }, (what, "are", option, path), &hint)
    }

    fn open(
        at: SocketAddr,
        behind: Behind,
        (what, are, option, path): (&str, &str, &str, &str),
        hint: &str,
    ) -> Result<Self, ErrorRecord> {
        let unable = |why: io::Error| {
            let what = format!("cannot serve {what} of {option} at {at}");
            ErrorRecord::new(ErrorKind::Unable, what, why.to_string(), &[hint])
        };
        let listener = std::net::TcpListener::bind(at).map_err(unable)?;
        listener.set_nonblocking(true).map_err(unable)?;
        let mut local = listener.local_addr().map_err(unable)?;
        let any = local.ip().is_unspecified();
        if any {
            let v6 = local.is_ipv6();
            local.set_ip(if v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() });
        }
        let others = if any { ", and at any other address of this host" } else { "" };
        let words = format!("{what} {are} at http://{local}/{path}{others}");
        let feed = Arc::new(Feed::new());
        let door = Door { listener, behind, feed: Arc::clone(&feed), allow: Vec::new() };
        Ok(Self {
            feed,
            words,
            door: Some(door),
            thread: None,
            view: Box::default(),
            judges: true,
            ended: false,
        })
    }

    /// Where it is, for the user alone.
    pub fn words(&self) -> String {
        self.words.clone()
    }

    /// Where events are published.
    pub fn feed(&self) -> Arc<Feed> {
        Arc::clone(&self.feed)
    }

    /// Whoever comes neither from there nor over loopback is hung up on; no network is every network.
    pub fn allow(&mut self, networks: &[Cidr]) {
        if let Some(door) = &mut self.door {
            door.allow = networks.to_vec();
        }
    }

    /// Serves it, in a thread that is restricted as the calling one is.
    pub fn begin(&mut self) -> Result<(), ErrorRecord> {
        let Some(door) = self.door.take() else { return Ok(()) };
        let thread = thread::Builder::new().name("web".into()).spawn(move || door.serve());
        let thread = thread.map_err(|e| {
            ErrorRecord::new(
                ErrorKind::Unable,
                "cannot serve the page of --web, or metrics",
                e.to_string(),
                &[],
            )
        })?;
        self.thread = Some(thread);
        Ok(())
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.feed.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Observer for Web {
    fn start(&mut self, record: &RunRecord) {
        events::start(record).into_iter().for_each(|event| self.feed.publish(event));
        self.view.start(record);
    }

    fn hosts(&mut self, client: Option<&HostSample>, server: Option<&HostSample>) {
        self.feed.publish(events::hosts(client, server));
    }

    fn interval(&mut self, interval: &Interval) {
        self.feed.publish(events::interval(interval));
        let view = &mut self.view;
        view.interval(interval);
        self.feed.publish(events::lost(view));
        if self.judges {
            let verdict = view.judged().and_then(|(record, rows, bps)| so_far(record, rows, bps));
            view.judge(verdict);
            self.feed.publish(events::so_far(view.so_far()));
        }
    }

    fn note(&mut self, text: &str) {
        self.feed.publish(events::note(text));
    }

    fn end(&mut self, record: &RunRecord) {
        // Reported by the runner, and once more by who cannot know whether it was.
        if !std::mem::replace(&mut self.ended, true) {
            events::end(record).into_iter().for_each(|event| self.feed.publish(event));
        }
    }
}

/// What is behind a port.
struct Behind {
    /// Who knows it is answered, and may ask for events; without one everybody is.
    token: Option<Token>,
    site: Site,
}

impl Behind {
    fn asked<'a>(&self, head: &'a [u8]) -> Asked<'a> {
        match (&self.token, http::request(head)) {
            (Some(token), _) => http::asked(head, token),
            (None, Request::Get(path)) => Asked::Path(path),
            (None, _) => Asked::Nothing,
        }
    }
}

/// The port, and what stands behind it.
struct Door {
    listener: std::net::TcpListener,
    behind: Behind,
    feed: Arc<Feed>,
    allow: Vec<Cidr>,
}

impl Door {
    fn serve(self) {
        // Else there is no page, and the test or the server goes on.
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(self.accept());
        }
    }

    async fn accept(self) {
        let Self { listener, behind, feed, allow } = self;
        let Ok(listener) = TcpListener::from_std(listener) else { return };
        let waiting = Arc::new(Semaphore::new(MOST_WAITING));
        let listening = Semaphore::new(MOST_LISTENERS);
        let room = Arc::new(Room { behind, feed, listening });
        let mut guests = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = room.feed.over() => break,
                Some(_) = guests.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            let strange = |peer: SocketAddr| {
                let peer = peer.ip().to_canonical();
                let allowed = || allow.iter().any(|network| network.has(peer));
                !allow.is_empty() && !peer.is_loopback() && !allowed()
            };
            match (accepted, Arc::clone(&waiting).try_acquire_owned()) {
                (Ok((_, peer)), _) if strange(peer) => {}
                (Ok((stream, _)), Ok(place)) => {
                    guests.spawn(Arc::clone(&room).answer(stream, place));
                }
                (Ok(_), Err(_)) => {}
                (Err(_), _) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
        drop(listener);
        let _ = timeout(LAST_WORDS, async { while guests.join_next().await.is_some() {} }).await;
    }
}

/// What all connections share.
struct Room {
    behind: Behind,
    feed: Arc<Feed>,
    listening: Semaphore,
}

impl Room {
    async fn answer(self: Arc<Self>, mut stream: TcpStream, place: OwnedSemaphorePermit) {
        let _ = stream.set_nodelay(true);
        let asked = tokio::select! {
            asked = timeout(LIMIT, self.asked(&mut stream)) => asked,
            () = self.feed.over() => return,
        };
        let Ok(Some(head)) = asked else { return };
        let _ = match self.behind.asked(&head) {
            Asked::Events => match self.listening.try_acquire() {
                Ok(_listens) => {
                    drop(place);
                    self.send_events(&mut stream).await
                }
                Err(_) => send(&mut stream, http::TOO_MANY.as_bytes()).await,
            },
            Asked::Path(_) if self.is_foreign(&stream, &head) => {
                let answer = http::refused("403 Forbidden", http::FOREIGN);
                send(&mut stream, answer.as_bytes()).await
            }
            Asked::Path(path) => self.show(&mut stream, path).await,
            Asked::Nothing | Asked::Part => send(&mut stream, http::NOT_FOUND.as_bytes()).await,
        };
        let _ = stream.shutdown().await;
    }

    /// Where no token says who may ask, no page of another site may have a browser do it.
    fn is_foreign(&self, stream: &TcpStream, head: &[u8]) -> bool {
        let far = stream.local_addr().is_ok_and(|at| !at.ip().to_canonical().is_loopback());
        self.behind.token.is_none() && http::is_foreign(head, !far)
    }

    /// The head of a request; none where whoever connected goes before.
    async fn asked(&self, stream: &mut TcpStream) -> Option<Vec<u8>> {
        let (mut head, mut bytes) = (Vec::new(), [0; 1_024]);
        while http::request(&head) == Request::Part {
            let came = stream.read(&mut bytes).await.ok().filter(|came| *came > 0)?;
            head.extend_from_slice(bytes.get(..came)?);
        }
        Some(head)
    }

    /// Answers unless whoever asked goes, or it is over.
    async fn show(&self, stream: &mut TcpStream, path: &str) -> io::Result<()> {
        let answer = (self.behind.site)(path);
        let (mut from, mut to) = stream.split();
        let mut byte = [0; 1];
        let answer = tokio::select! {
            biased;
            answer = answer => answer,
            // Who asked has nothing more to say, and goes.
            _ = from.read(&mut byte) => return Ok(()),
            () = self.feed.over() => return Ok(()),
        };
        send(&mut to, answer.as_bytes()).await
    }

    /// Sends what is kept and what comes, until it is over or the reader falls behind.
    async fn send_events(&self, stream: &mut TcpStream) -> io::Result<()> {
        let (kept, news) = self.feed.join();
        let (mut from, mut to) = stream.split();
        send(&mut to, http::events().as_bytes()).await?;
        send(&mut to, kept.as_bytes()).await?;
        let Some(mut news) = news else { return Ok(()) };
        let mut byte = [0; 1];
        loop {
            let event: Arc<str> = tokio::select! {
                // Who asked has nothing more to say, and goes.
                _ = from.read(&mut byte) => return Ok(()),
                event = timeout(QUIET, news.recv()) => match event {
                    Ok(Ok(event)) => event,
                    Ok(Err(_)) => return Ok(()),
                    Err(_) => http::STILL_THERE.into(),
                },
            };
            send(&mut to, event.as_bytes()).await?;
        }
    }
}

/// Sends them, or fails where a part of them is not taken in time.
async fn send(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    for part in bytes.chunks(PART) {
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        timeout(LIMIT, to.write_all(part)).await.map_err(late)??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use linerate_model::record::{Figures, ReceiverFigures};
    use linerate_testkit::records;

    use super::*;

    fn here() -> WebAddress {
        WebAddress::DEFAULT.parse().unwrap()
    }

    #[test]
    fn what_needs_no_token_is_not_for_pages_of_other_sites() {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let site = move |_: &str| -> Answer {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::ready(http::metrics("a 1\n")))
        };
        let what = ("probes", "--listen", "probe");
        let mut web = Web::site(here().0, what, Box::new(site)).unwrap();
        web.begin().unwrap();
        let words = web.words();
        let at = words.strip_prefix("probes are at http://").unwrap();
        let at = at.strip_suffix("/probe").unwrap();
        let status = |fields: &str| {
            let mut stream = std::net::TcpStream::connect(at).unwrap();
            write!(stream, "GET /probe HTTP/1.1\r\n{fields}\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer.split(' ').nth(1).unwrap_or_default().to_owned()
        };
        for foreign in ["Host: evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
            assert_eq!(status(foreign), "403", "{foreign}");
        }
        assert_eq!(made.load(Ordering::SeqCst), 0);
        for own in [&*format!("Host: {at}\r\n"), ""] {
            assert_eq!(status(own), "200", "{own}");
        }
        assert_eq!(made.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn who_comes_late_is_told_what_was_lost_from_the_start_on() {
        let mut web = Web::bind(here(), &Html::of_test()).unwrap();
        web.leave_verdict();
        let record = records::udp_both();
        web.start(&record);
        let receiver = ReceiverFigures { lost_path: Some(1), ..ReceiverFigures::default() };
        let figures = Figures { receiver: Some(receiver), ..Figures::default() };
        let row = Interval { start_s: 0.0, end_s: 1.0, figures };
        (0..1_300).for_each(|_| web.interval(&row));
        let (told, _) = web.feed.join();
        assert_eq!(told.matches("{\"event\":\"interval\"").count(), 1_200);
        assert_eq!(told.matches("event: lost\n").count(), 1);
        assert!(told.contains("event: lost\ndata: [{\"lost_path\":1300}]\n\n"), "{told}");
    }
}
