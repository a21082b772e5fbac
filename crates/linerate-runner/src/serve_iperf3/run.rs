//! One iperf3 test at the server, from its turn to its end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linerate_engine::{clock, sys};
use linerate_model::plan::{Dialect, IpVersion, Transport};
use linerate_model::served::{Outcome, ServedTest};
use linerate_wire::iperf3::{Cookie, ErrorNumber, Failure, State};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::control::{Broken, Control, TALK_LIMIT};
use super::events::TestEvents;
use super::output::Output;
use super::plan;
use super::rendezvous::{Arrival, Expectation};
use super::running::Running;
use crate::admission::Slot;
use crate::data::{self, Context, PROMPT_START_NS, Report, Shared, Sign, StreamId, StreamSocket};
use crate::process_cpu::ProcessCpu;
use crate::served::{self, Early};
use crate::server::{Event, Server};
use crate::serving::StopOnDrop;

/// A UDP hello that does not come at once was lost, and iperf3's clients never send it again; until
/// then no other test of that address can open streams.
const HELLO_LIMIT: Duration = Duration::from_secs(3);
/// TCP streams must arrive within this time each.
const STREAM_LIMIT: Duration = Duration::from_secs(10);
/// From the last stream to the word that the test runs: all threads are awake by then.
const HEAD_START: Duration = Duration::from_millis(25);

/// A test that was granted.
pub(crate) struct Test {
    control: Control,
    peer: SocketAddr,
    local: SocketAddr,
    cookie: Cookie,
    ip: IpVersion,
    test: plan::Test,
    slot: Slot,
}

/// Why a test did not come to its end: told to the client by number, to the log in words.
pub(super) struct Trouble {
    failure: Option<Failure>,
    early: Early,
}

impl Trouble {
    pub(super) fn new(number: ErrorNumber, why: impl Into<String>) -> Self {
        let outcome = match number {
            ErrorNumber::CLIENT_TERMINATED => Outcome::Stopped,
            ErrorNumber::SERVER_TERMINATED
            | ErrorNumber::END_CONDITIONS
            | ErrorNumber::TOO_LONG
            | ErrorNumber::RATE
            | ErrorNumber::NO_DATA => Outcome::Cut,
            _ => Outcome::Failed,
        };
        Self { failure: Some(Failure { number, errno: 0 }), early: Early::new(outcome, why) }
    }

    /// The client is gone or says so itself: nothing more goes to it.
    pub(super) fn quiet(outcome: Outcome, why: impl Into<String>) -> Self {
        Self { failure: None, early: Early::new(outcome, why) }
    }
}

impl From<Broken> for Trouble {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Unknown(_) => Self::new(ErrorNumber::UNKNOWN_MESSAGE, broken.to_string()),
            Broken::Frame(_) => Self::new(ErrorNumber::RECEIVE_RESULTS, broken.to_string()),
            _ => Self::quiet(Outcome::Vanished, broken.to_string()),
        }
    }
}

impl Test {
    pub(super) fn new(
        control: Control,
        peer: SocketAddr,
        local: SocketAddr,
        cookie: Cookie,
        ip: IpVersion,
        test: plan::Test,
        slot: Slot,
    ) -> Self {
        Self { control, peer, local, cookie, ip, test, slot }
    }

    /// Runs the test and sends the results. Ends within seconds of the client's silence.
    pub(crate) async fn run(mut self, server: &Arc<Server>) {
        let served = self.served();
        let mut reports = Vec::new();
        let ended = match self.conduct(server, &served, &mut reports).await {
            Ok(()) => self.farewell().await,
            Err(trouble) => {
                if let Some(failure) = trouble.failure {
                    let bytes = if failure.number == ErrorNumber::SERVER_TERMINATED {
                        vec![State::ServerTerminate.byte()]
                    } else {
                        failure.encode().to_vec()
                    };
                    let _ = self.control.bytes(&bytes).await;
                }
                Err(trouble.early)
            }
        };
        let udp = self.test.asked.transport == Transport::Udp;
        let asked = &self.test.asked;
        let by_time = asked.bytes == 0 && asked.blocks == 0 && asked.time_s > 0;
        let time_ns = by_time.then(|| u64::from(asked.time_s) * 1_000_000_000);
        let ended = ended.map_err(|early| served::explained(early, self.local.ip()));
        let result = Box::new(served::result(ended, udp, time_ns, reports.iter()));
        server.events.send(Event::TestEnded(served, result));
        self.control.close().await;
    }

    fn served(&self) -> Box<ServedTest> {
        let id = self.cookie.text();
        Box::new(served::test(Some(&id), self.peer, Dialect::Iperf3, &self.test.plan))
    }

    /// The client's goodbye. Its streams end with it, so that without one the figures of a client that
    /// was killed look like those of a whole test.
    async fn farewell(&mut self) -> Result<(), Early> {
        match timeout(TALK_LIMIT, self.control.state()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(broken)) => Err(Early::vanished(format!("before it said goodbye: {broken}"))),
            Err(_) => Err(Early::vanished("it had its results and said no goodbye")),
        }
    }

    /// `reports` takes those of all streams, where all came to their end.
    async fn conduct(
        &mut self,
        server: &Arc<Server>,
        served: &ServedTest,
        reports: &mut Vec<Report>,
    ) -> Result<(), Trouble> {
        let _alone = tokio::select! {
            alone = server.rendezvous.wait_alone() => match alone {
                Ok(alone) => alone,
                Err(()) => {
                    let _ = self.control.say(&[State::AccessDenied]).await;
                    return Err(Trouble::quiet(
                        Outcome::Refused,
                        "another test runs, and too many wait already",
                    ));
                }
            },
            state = self.control.state() => return Err(early(state)),
        };
        server.events.send(Event::TestStarted(Box::new(served.clone())));
        let ids = data::streams(self.test.plan.plan.direction, self.test.plan.plan.streams);
        let (sockets, _cookie) = self.open(server, ids.len()).await?;
        let mut running = self.start(server, ids, sockets)?;
        let done = self.through(&mut running, server).await;
        if let Err(trouble) = &done {
            running.fail(self.peer, &trouble.early.why);
            running.gather().await;
        }
        *reports = running.whole();
        done
    }

    /// From the streams to the results.
    async fn through(
        &mut self,
        running: &mut Running,
        server: &Arc<Server>,
    ) -> Result<(), Trouble> {
        sleep(HEAD_START).await;
        self.control.watch();
        self.control.say(&[State::TestStart, State::TestRunning]).await?;
        // Not before the word: a client takes data that comes earlier for something else. What receives
        // begins with it, as the client may send at once.
        let sends = running.direction.has_reverse();
        let head_ns = if sends { PROMPT_START_NS } else { 0 };
        running.begin(clock::monotonic_ns().saturating_add(head_ns));
        running.run(&mut self.control, server).await?;
        running.finish(&mut self.control, &self.test).await
    }

    /// Says "open your streams" and waits for all of them, in the order of their creation. The cookie
    /// of a TCP test stays known as long as what is returned with them; the address of a UDP test is
    /// free for the next one's streams.
    async fn open(
        &mut self,
        server: &Arc<Server>,
        count: usize,
    ) -> Result<(Vec<StreamSocket>, Option<Expectation>), Trouble> {
        let ends = (self.peer.ip(), self.local);
        let (arrived, mut arrivals) = mpsc::unbounded_channel::<Arrival>();
        let mut turn = None;
        let (limit, expectation) = match self.test.asked.transport {
            Transport::Tcp => {
                let expectation = server.rendezvous.expect_tcp(self.cookie, ends, count, arrived);
                let expectation = expectation.ok_or_else(|| {
                    Trouble::new(ErrorNumber::RECEIVE_COOKIE, "another test has the same cookie")
                })?;
                (STREAM_LIMIT, expectation)
            }
            Transport::Udp => {
                let held = tokio::select! {
                    held = server.rendezvous.turn(self.peer.ip()) => held,
                    state = self.control.state() => return Err(early(state)),
                };
                let expectation = server.rendezvous.expect_udp(&held, ends, count, arrived);
                turn = Some(held);
                (HELLO_LIMIT, expectation)
            }
        };
        self.control.say(&[State::CreateStreams]).await?;
        let mut streams: BTreeMap<u64, StreamSocket> = BTreeMap::new();
        let mut deadline = Instant::now() + limit;
        let mut shut = server.shut.clone();
        while streams.len() < count {
            tokio::select! {
                arrival = arrivals.recv() => {
                    let Some((order, socket)) = arrival else { break };
                    streams.insert(order, socket);
                    deadline = Instant::now() + limit;
                }
                state = self.control.state() => return Err(early(state)),
                _ = shut.changed() => return Err(terminated()),
                () = sleep_until(deadline) => {
                    let missing = count - streams.len();
                    let hint = if turn.is_some() {
                        " (a UDP stream must come from the address of the control connection)"
                    } else {
                        ""
                    };
                    return Err(Trouble::new(
                        ErrorNumber::STREAM_ACCEPT,
                        format!("{missing} data streams did not arrive{hint}"),
                    ));
                }
            }
        }
        let streams = streams.into_values().collect();
        Ok((streams, Some(expectation).filter(|_| self.test.asked.transport == Transport::Tcp)))
    }

    /// Starts the data threads, which wait for the word.
    fn start(
        &self,
        server: &Server,
        ids: Vec<StreamId>,
        sockets: Vec<StreamSocket>,
    ) -> Result<Running, Trouble> {
        let ends = (self.peer, self.local);
        let events = server.events.clone();
        let agreed = Arc::new(self.test.plan.clone());
        // First: what is told of the sockets is what the test runs with.
        for socket in &sockets {
            self.apply_options(socket);
            data::prepare_tcp(socket, &agreed.plan, Some(server.options.max_window));
        }
        let congestion = sockets.iter().find_map(StreamSocket::congestion);
        let shown = TestEvents::begin(events, ends, &self.cookie, &self.test, &ids, &sockets);
        let shared = Shared::within(server.options.limits(), ids.len());
        shared.charge_to(self.slot.day.clone());
        // Whatever happens below, no thread outlives the test.
        let _stop = StopOnDrop(Arc::clone(&shared));
        let limit = super::running::silence_of_threads(agreed.plan.direction);
        shared
            .watch_peer(&self.control.0, Sign::Answers, limit)
            .map_err(|e| Trouble::new(ErrorNumber::THREAD, format!("no descriptor: {e}")))?;
        let (events, told) = mpsc::unbounded_channel();
        for (id, socket) in ids.iter().zip(sockets) {
            let context = Context {
                shared: Arc::clone(&shared),
                agreed: Arc::clone(&agreed),
                ip: self.ip,
                token: self.slot.token,
                framing: self.test.framing,
                digits: self.test.digits,
                burst: self.test.asked.burst,
                id: *id,
                role: data::role(&agreed.plan.traffic, id.way, false),
                core: self.slot.cores.get(usize::from(id.stream)).copied().flatten(),
                events: events.clone(),
            };
            data::spawn(context, socket)
                .map_err(|e| Trouble::new(ErrorNumber::THREAD, format!("no thread: {e}")))?;
        }
        Ok(Running {
            shared,
            _stop,
            ids,
            direction: agreed.plan.direction,
            warmup_ns: agreed.plan.warmup.0,
            time_ns: self.test.time_ns(),
            measured_ns: u64::MAX,
            told,
            reports: BTreeMap::new(),
            congestion,
            ended_ns: None,
            cpu: ProcessCpu::start(),
            transport: self.test.asked.transport,
            shown,
            output: self.test.output.then(|| Output::new(self.peer, &self.test)),
            fault: None,
        })
    }

    /// What iperf3's options ask of any data socket.
    fn apply_options(&self, socket: &StreamSocket) {
        let v6 = self.ip == IpVersion::V6;
        let asked = &self.test.asked;
        let (fd, udp): (&dyn std::os::fd::AsFd, bool) = match socket {
            StreamSocket::Udp(udp, _) => (udp, true),
            StreamSocket::Tcp(tcp) => (tcp, false),
        };
        // Wishes, as in iperf3: what the kernel refuses does not end the test.
        if asked.tos != 0 {
            let _ = sys::set_tos(&fd, v6, asked.tos);
        }
        if udp && asked.fq_rate_bps != 0 {
            let _ = sys::set_pacing_rate(&fd, asked.fq_rate_bps);
        }
        if udp && self.test.dont_fragment && !v6 {
            let _ = sys::dont_fragment(&fd);
        }
    }
}

/// What a client may say before the test runs: that it gives up.
fn early(state: Result<State, Broken>) -> Trouble {
    match state {
        Ok(State::ClientTerminate | State::IperfDone | State::TestEnd) => {
            Trouble::quiet(Outcome::Stopped, "the client stopped before the start")
        }
        Ok(state) => Trouble::new(ErrorNumber::UNKNOWN_MESSAGE, format!("{state:?} out of turn")),
        Err(broken) => broken.into(),
    }
}

pub(super) fn terminated() -> Trouble {
    Trouble::new(ErrorNumber::SERVER_TERMINATED, "the server is shutting down")
}
