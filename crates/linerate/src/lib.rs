//! Measures what a network path and the hosts at its ends can carry, from a program of yours.
//!
//! A test is asked for with the options of the command line, has the same defaults and says the same when one
//! makes no sense. It runs in a thread of its own; its events come as an iterator, or as a stream in async code.
//!
//! ```
//! use std::time::Duration;
//! use linerate::{Client, Event, Where};
//!
//! # fn main() -> Result<(), linerate::Failed> {
//! // Waits for the end.
//! let record = Client::tcp(Where::Local).time(Duration::from_millis(200)).run()?;
//! println!("{:?} bit/s", record.summary.and_then(|summary| summary.received_bps));
//!
//! // Sees each interval as it ends.
//! let test = Client::udp(Where::Local).rate_bps(10_000_000).time(Duration::from_millis(200));
//! for event in test.interval(Duration::from_millis(100)).start()? {
//!     if let Event::Interval(interval) = event {
//!         println!("{} to {} s", interval.start_s, interval.end_s);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A program that depends on this crate with `default-features = false` has what is here, and builds no campaigns, fleets,
//! stores, screens or drawings.
//!
//! The server of the other end is the program's: `linerate serve`. A record's types are those of its `--json`.

#![forbid(unsafe_code)]

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use linerate_ask::{Asked, test};
use linerate_model::plan::TrafficKind;
use linerate_runner::client::Request;
use linerate_runner::signals::Stop;
use linerate_session::observer::Observer;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::coop::unconstrained;

/// What a record is made of.
pub use linerate_model::record;
pub use linerate_model::record::{ErrorRecord, Interval, RunRecord, Status};

/// Where a test goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// A host that runs `linerate serve`, or another server that the options name: name or address.
    Host(String),
    /// A server inside this process, over loopback.
    Local,
}

impl From<&str> for Where {
    fn from(host: &str) -> Self {
        Self::Host(host.to_owned())
    }
}

impl From<String> for Where {
    fn from(host: String) -> Self {
        Self::Host(host)
    }
}

/// A test that has not begun: what is asked.
///
/// What is not said has the default of the command line: one stream, ten seconds, over UDP to another host
/// 100 Mbit/s.
#[derive(Debug, Clone)]
pub struct Client {
    kind: TrafficKind,
    options: Vec<(String, Value)>,
}

impl Client {
    /// Datagrams.
    pub fn udp(to: impl Into<Where>) -> Self {
        Self::new(TrafficKind::Udp, to.into())
    }

    /// A byte stream.
    pub fn tcp(to: impl Into<Where>) -> Self {
        Self::new(TrafficKind::Tcp, to.into())
    }

    /// Requests and responses.
    pub fn rr(to: impl Into<Where>) -> Self {
        Self::new(TrafficKind::Rr, to.into())
    }

    fn new(kind: TrafficKind, to: Where) -> Self {
        let client = Self { kind, options: Vec::new() };
        match to {
            Where::Host(host) => client.option("host", host),
            Where::Local => client.option("local", true),
        }
    }

    /// Any option of the command line by its long name: `option("dscp", "EF")`, `option("key-file", "lab.key")`.
    /// What is unknown, makes no sense or is of a screen or a file is refused when the test begins.
    #[must_use]
    pub fn option(mut self, name: &str, value: impl Into<Value>) -> Self {
        let name = name.replace('-', "_");
        self.options.retain(|(known, _)| *known != name);
        self.options.push((name, value.into()));
        self
    }

    /// The server's port, TCP and UDP.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        self.option("port", port)
    }

    /// Measured time, to the nanosecond.
    #[must_use]
    pub fn time(self, time: Duration) -> Self {
        self.option("time", nanos(time))
    }

    /// Traffic before the measured time, counted apart.
    #[must_use]
    pub fn warmup(self, time: Duration) -> Self {
        self.option("warmup", nanos(time))
    }

    /// Time between two intervals.
    #[must_use]
    pub fn interval(self, time: Duration) -> Self {
        self.option("interval", nanos(time))
    }

    /// Bits of payload per second, over all streams of each direction; of udp and tcp. 0 is as fast as it can. Of rr it is
    /// refused when the test begins: there `option("rate", "10k")` is requests per second.
    #[must_use]
    pub fn rate_bps(self, rate: u64) -> Self {
        // A bare number would be one of requests there.
        self.option("rate", if rate == 0 { "max".to_owned() } else { format!("{rate}bit/s") })
    }

    /// Streams each way.
    #[must_use]
    pub fn streams(self, streams: u16) -> Self {
        self.option("streams", streams)
    }

    /// The server sends, this end receives.
    #[must_use]
    pub fn reverse(self) -> Self {
        self.option("reverse", true)
    }

    /// Both send at once.
    #[must_use]
    pub fn both(self) -> Self {
        self.option("both", true)
    }

    /// Runs the test to its end.
    ///
    /// # Errors
    /// What cannot be asked for, or what the test ended with, beside what it measured until then.
    pub fn run(self) -> Result<RunRecord, Failed> {
        self.start()?.finish()
    }

    /// Begins the test.
    ///
    /// # Errors
    /// What cannot be asked for; nothing was sent. How a test ends is the last of its events.
    pub fn start(self) -> Result<Running, Failed> {
        let Asked { request, notes, .. } = test::asked(self.kind, &self.options)
            .map_err(|refusal| Failed { error: refusal.error, record: None })?;
        let (events, come) = unbounded_channel();
        for note in notes {
            let _ = events.send(Event::Note(note));
        }
        let stop = Stop::default();
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("test".into())
            .spawn(move || measure(&request, &events, &stopped))
            .map_err(|error| Failed { error: Box::new(no_thread(&error)), record: None })?;
        Ok(Running { events: come, stop, thread: Some(thread), record: None })
    }
}

fn nanos(time: Duration) -> String {
    format!("{}ns", time.as_nanos())
}

fn no_thread(error: &std::io::Error) -> ErrorRecord {
    let kind = linerate_model::record::ErrorKind::Unable;
    ErrorRecord::new(kind, "cannot start a thread for the test", error.to_string(), &[])
}

fn measure(request: &Request, events: &UnboundedSender<Event>, stop: &Stop) {
    // It reports the end itself.
    let _ = linerate_runner::run(request, &mut Listeners(events), stop);
}

/// What happens in a test.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// Both ends agreed; the record holds the plan and the hosts, no figures yet.
    Start(Box<RunRecord>),
    /// An interval is over. The record at the end may correct its losses downward.
    Interval(Box<Interval>),
    /// Something worth a line, as the program prints on standard error.
    Note(String),
    /// The test is over, well or badly: the whole record.
    End(Box<RunRecord>),
}

/// Gives what happens to whoever listens, if anybody still does.
struct Listeners<'a>(&'a UnboundedSender<Event>);

impl Observer for Listeners<'_> {
    fn start(&mut self, record: &RunRecord) {
        let _ = self.0.send(Event::Start(Box::new(record.clone())));
    }
    fn interval(&mut self, interval: &Interval) {
        let _ = self.0.send(Event::Interval(Box::new(interval.clone())));
    }
    fn note(&mut self, text: &str) {
        let _ = self.0.send(Event::Note(text.to_owned()));
    }
    fn end(&mut self, record: &RunRecord) {
        let _ = self.0.send(Event::End(Box::new(record.clone())));
    }
}

/// A test that runs. Its events come by iterating, in async code by [`Running::next_event`] or as a stream. Dropped,
/// it ends in order at both ends, and nobody waits for it.
#[derive(Debug)]
pub struct Running {
    events: UnboundedReceiver<Event>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
    record: Option<Box<RunRecord>>,
}

impl Running {
    /// Ends the test early, with what was measured.
    pub fn stop(&self) {
        self.stop.now();
    }

    /// The next event; none after the end.
    ///
    /// ```no_run
    /// # async fn shown() -> Result<(), linerate::Failed> {
    /// let mut test = linerate::Client::tcp("192.0.2.1").start()?;
    /// while let Some(event) = test.next_event().await {
    ///     println!("{event:?}");
    /// }
    /// println!("{:?}", test.finished().await?.summary);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_event(&mut self) -> Option<Event> {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// Waits for the end, and leaves out the events until then.
    ///
    /// # Errors
    /// What the test ended with, beside what it measured until then.
    pub fn finish(mut self) -> Result<RunRecord, Failed> {
        self.by_ref().for_each(drop);
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
        self.ended()
    }

    /// The same in async code.
    ///
    /// # Errors
    /// As [`Running::finish`].
    pub async fn finished(mut self) -> Result<RunRecord, Failed> {
        while self.next_event().await.is_some() {}
        self.ended()
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.poll_recv(context).map(|event| self.keep(event))
    }

    fn keep(&mut self, event: Option<Event>) -> Option<Event> {
        if let Some(Event::End(record)) = &event {
            self.record = Some(record.clone());
        }
        event
    }

    fn ended(&mut self) -> Result<RunRecord, Failed> {
        let Some(mut record) = self.record.take() else {
            let kind = linerate_model::record::ErrorKind::Unable;
            let error = ErrorRecord::new(
                kind,
                "the test has no result",
                "its thread did not end in order",
                &[],
            );
            return Err(Failed { error: Box::new(error), record: None });
        };
        match record.error.take() {
            None => Ok(*record),
            Some(error) => {
                record.error = Some(error.clone());
                Err(Failed { error: Box::new(error), record: Some(record) })
            }
        }
    }
}

/// A thread that waits for an event.
struct Woken(Thread);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Iterator for Running {
    type Item = Event;

    // The thread sleeps until the test wakes it. What an async runtime has to wait with panics inside another one.
    fn next(&mut self) -> Option<Event> {
        let waker = Arc::new(Woken(std::thread::current())).into();
        // Within one poll of a task nobody gives its budget back, and without any nothing comes.
        let mut event = pin!(unconstrained(self.next_event()));
        loop {
            match event.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(event) => return event,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl futures_core::Stream for Running {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.get_mut().poll_event(context)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.now();
    }
}

/// A test that could not be asked for or did not come to its end.
#[derive(Debug, Clone)]
pub struct Failed {
    /// What was tried, why it failed and what to try; its `kind` is stable.
    pub error: Box<ErrorRecord>,
    /// What was measured until then, if the test got as far.
    pub record: Option<Box<RunRecord>>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error.what, self.error.why)
    }
}

impl std::error::Error for Failed {}
