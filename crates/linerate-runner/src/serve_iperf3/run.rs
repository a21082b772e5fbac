//! One iperf3 test at the server, from its turn to its results.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linerate_engine::{clock, sys};
use linerate_model::plan::{Direction, IpVersion, Transport};
use linerate_model::sample::{RecvReport, SendReport};
use linerate_wire::iperf3::frame::MAX_CLIENT_RESULTS;
use linerate_wire::iperf3::{
    Cookie, ErrorNumber, Failure, Results, State, StreamResults, stream_id,
};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::control::{Broken, Control, TALK_LIMIT};
use super::lobby::{Arrival, Expectation};
use super::output::Output;
use super::plan;
use super::story::Story;
use crate::admission::Slot;
use crate::data::{self, Context, DataEvent, Report, Shared, StreamId, StreamSocket, Tick};
use crate::rows::ProcessCpu;
use crate::server::{Event, Server};
use crate::serving::{StopOnDrop, straggler_ns};

/// A UDP hello that does not come at once was lost, and iperf3's clients never send it again; until
/// then no other test of that address can open streams.
const HELLO_LIMIT: Duration = Duration::from_secs(3);
/// TCP streams must arrive within this time each.
const STREAM_LIMIT: Duration = Duration::from_secs(10);
/// From the last stream to the first datagram: all threads are awake by then.
const HEAD_START: Duration = Duration::from_millis(25);
/// As long as iperf3's receivers wait for data by default.
const NO_DATA_LIMIT: Duration = Duration::from_secs(120);
/// What is still in a client's send buffer may take this long; clients wait 10 s for results.
const TCP_DRAIN_NS: u64 = 5_000_000_000;
/// Rates are looked at over this time, and may be above the server's limit by a tenth of it.
const RATE_CHECK: Duration = Duration::from_secs(5);

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
struct Trouble {
    failure: Option<Failure>,
    why: String,
}

impl Trouble {
    fn new(number: ErrorNumber, why: impl Into<String>) -> Self {
        Self { failure: Some(Failure { number, errno: 0 }), why: why.into() }
    }

    /// The client is gone or says so itself: nothing more goes to it.
    fn quiet(why: impl Into<String>) -> Self {
        Self { failure: None, why: why.into() }
    }
}

impl From<Broken> for Trouble {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Unknown(_) => Self::new(ErrorNumber::UNKNOWN_MESSAGE, broken.to_string()),
            Broken::Frame(_) => Self::new(ErrorNumber::RECEIVE_RESULTS, broken.to_string()),
            _ => Self::quiet(broken.to_string()),
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
        let peer = self.peer;
        let what = match self.conduct(server).await {
            Ok(what) => {
                // Its goodbye, or its end without one.
                let _ = timeout(TALK_LIMIT, self.control.state()).await;
                what
            }
            Err(trouble) => {
                if let Some(failure) = trouble.failure {
                    let octets = if failure.number == ErrorNumber::SERVER_TERMINATED {
                        vec![State::ServerTerminate.octet()]
                    } else {
                        failure.encode().to_vec()
                    };
                    let _ = self.control.octets(&octets).await;
                }
                format!("ended early: {}", trouble.why)
            }
        };
        let _ = server.events.send(Event::TestEnded { peer, what });
        self.control.close().await;
    }

    async fn conduct(&mut self, server: &Arc<Server>) -> Result<String, Trouble> {
        let what = self.test.describe();
        let _alone = tokio::select! {
            alone = server.lobby.wait_alone() => match alone {
                Ok(alone) => alone,
                Err(()) => {
                    let _ = self.control.say(&[State::AccessDenied]).await;
                    return Err(Trouble::quiet("another test runs, and too many wait already"));
                }
            },
            state = self.control.state() => return Err(early(state)),
        };
        let _ = server.events.send(Event::TestStarted { peer: self.peer, what });
        let ids = data::streams(self.test.plan.plan.direction, self.test.plan.plan.streams);
        let (sockets, _expectation) = self.open(server, ids.len()).await?;
        let mut running = self.start(server, ids, sockets)?;
        sleep(HEAD_START).await;
        self.control.say(&[State::TestStart, State::TestRunning]).await?;
        let sends = self.test.asked.direction != Direction::Forward;
        self.control.watch(if sends { 2 } else { 4 });
        let done = match running.run(&mut self.control, server).await {
            Ok(()) => running.finish(&mut self.control, &self.test).await,
            Err(trouble) => Err(trouble),
        };
        if let Err(trouble) = &done {
            running.story.fail(&trouble.why);
        }
        done
    }

    /// Says "open your streams" and waits for all of them, in the order of their creation.
    async fn open(
        &mut self,
        server: &Arc<Server>,
        count: usize,
    ) -> Result<(Vec<StreamSocket>, Expectation), Trouble> {
        let ends = (self.peer.ip(), self.local);
        let (tell, mut arrivals) = mpsc::unbounded_channel::<Arrival>();
        let mut turn = None;
        let (limit, expectation) = match self.test.asked.transport {
            Transport::Tcp => {
                let expectation = server.lobby.expect_tcp(self.cookie, ends, count, tell);
                let expectation = expectation.ok_or_else(|| {
                    Trouble::new(ErrorNumber::RECEIVE_COOKIE, "another test has the same cookie")
                })?;
                (STREAM_LIMIT, expectation)
            }
            Transport::Udp => {
                let held = tokio::select! {
                    held = server.lobby.turn(self.peer.ip()) => held,
                    state = self.control.state() => return Err(early(state)),
                };
                let expectation = server.lobby.expect_udp(&held, ends, count, tell);
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
        Ok((streams.into_values().collect(), expectation))
    }

    /// Starts the data threads; data flows after [`HEAD_START`].
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
            self.dress(socket);
            data::prepare_tcp(socket, &agreed.plan);
        }
        let congestion = sockets.iter().find_map(StreamSocket::congestion);
        let story = Story::begin(events, ends, &self.cookie, &self.test, &ids, &sockets);
        let shared = Shared::new(ids.len());
        // Whatever happens below, no thread outlives the test.
        let _stop = StopOnDrop(Arc::clone(&shared));
        let (events, told) = mpsc::unbounded_channel();
        for (id, socket) in ids.iter().zip(sockets) {
            let context = Context {
                shared: Arc::clone(&shared),
                agreed: Arc::clone(&agreed),
                ip: self.ip,
                token: self.slot.token,
                framing: self.test.framing,
                digits: self.test.digits,
                id: *id,
                role: data::role(&agreed.plan.traffic, id.way, false),
                core: self.slot.cores.get(usize::from(id.stream)).copied().flatten(),
                events: events.clone(),
            };
            data::spawn(context, socket)
                .map_err(|e| Trouble::new(ErrorNumber::THREAD, format!("no thread: {e}")))?;
        }
        let head_start = u64::try_from(HEAD_START.as_nanos()).unwrap_or(0);
        let start_ns = clock::monotonic_ns() + head_start;
        shared.start(start_ns);
        Ok(Running {
            shared,
            _stop,
            ids,
            measured_ns: start_ns.saturating_add(agreed.plan.warmup.0),
            told,
            reports: BTreeMap::new(),
            received: 0,
            carried: 0,
            congestion,
            ended_ns: None,
            cpu: ProcessCpu::start(),
            transport: self.test.asked.transport,
            story,
            output: self.test.output.then(|| Output::new(self.peer, &self.test)),
        })
    }

    /// What iperf3's options ask of any data socket.
    fn dress(&self, socket: &StreamSocket) {
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
            Trouble::quiet("the client stopped before the start")
        }
        Ok(state) => Trouble::new(ErrorNumber::UNKNOWN_MESSAGE, format!("{state:?} out of turn")),
        Err(broken) => broken.into(),
    }
}

fn terminated() -> Trouble {
    Trouble::new(ErrorNumber::SERVER_TERMINATED, "the server is shutting down")
}

/// The part between "running" and the results.
struct Running {
    shared: Arc<Shared>,
    _stop: StopOnDrop,
    ids: Vec<StreamId>,
    measured_ns: u64,
    told: UnboundedReceiver<DataEvent>,
    reports: BTreeMap<u16, Report>,
    /// Octets received since the last look at the rate.
    received: u64,
    /// Octets received and sent so far.
    carried: u64,
    congestion: Option<String>,
    ended_ns: Option<u64>,
    cpu: ProcessCpu,
    transport: Transport,
    story: Story,
    /// What this server shows of the test, if the client wants to see it.
    output: Option<Output>,
}

impl Running {
    /// Until the client says that the test is over.
    async fn run(&mut self, control: &mut Control, server: &Arc<Server>) -> Result<(), Trouble> {
        let options = &server.options;
        let began = Instant::now();
        // A client that never ends its test.
        let most = options.max_duration.as_duration().saturating_add(Duration::from_secs(2));
        let mut rate_check = tokio::time::interval_at(began + RATE_CHECK, RATE_CHECK);
        let mut watch = tokio::time::interval(Duration::from_millis(250));
        let mut shut = server.shut.clone();
        let receives = self.ids.iter().any(|id| id.way == linerate_model::plan::Way::Forward);
        loop {
            tokio::select! {
                state = control.state() => match state? {
                    State::TestEnd => {
                        self.ended_ns = Some(clock::monotonic_ns());
                        return Ok(());
                    }
                    State::TestStart => {}
                    State::ClientTerminate => {
                        return Err(Trouble::new(
                            ErrorNumber::CLIENT_TERMINATED,
                            "the client was told to stop",
                        ));
                    }
                    State::IperfDone => return Err(Trouble::quiet("the client said goodbye")),
                    state => {
                        return Err(Trouble::new(
                            ErrorNumber::UNKNOWN_MESSAGE,
                            format!("{state:?} out of turn"),
                        ));
                    }
                },
                event = self.told.recv() => match event {
                    Some(event) => self.on_event(event),
                    // All streams have ended; the client has not said so yet.
                    None => sleep(Duration::from_millis(20)).await,
                },
                _ = rate_check.tick() => {
                    let bits = std::mem::take(&mut self.received).saturating_mul(8);
                    if let Some(limit) = options.max_rate {
                        let limit = limit.bits_per_second().saturating_mul(RATE_CHECK.as_secs());
                        if bits > limit.saturating_add(limit / 10) {
                            return Err(Trouble::new(
                                ErrorNumber::RATE,
                                "the client sends faster than this server allows",
                            ));
                        }
                    }
                }
                _ = watch.tick() => {
                    if began.elapsed() > most {
                        return Err(Trouble::new(
                            ErrorNumber::TOO_LONG,
                            "the server's longest test time is over",
                        ));
                    }
                    if options.max_bytes.is_some_and(|most| self.carried > most) {
                        return Err(Trouble::new(
                            ErrorNumber::RATE,
                            "more bytes than this server allows in a test",
                        ));
                    }
                    if receives
                        && began.elapsed() > NO_DATA_LIMIT
                        && !self.shared.heard_within(NO_DATA_LIMIT)
                    {
                        return Err(Trouble::new(ErrorNumber::NO_DATA, "no data for 120 s"));
                    }
                }
                _ = shut.changed() => return Err(terminated()),
            }
        }
    }

    fn on_event(&mut self, event: DataEvent) {
        self.story.on_event(&event);
        if let Some(output) = &mut self.output {
            output.on_event(&event);
        }
        match event {
            DataEvent::Done(stream, report) => drop(self.reports.insert(stream, *report)),
            DataEvent::Tick(_, _, tick) | DataEvent::Warm(_, _, tick) => match tick {
                Tick::Recv(interval) => {
                    self.received = self.received.saturating_add(interval.counts.bytes);
                    self.carried = self.carried.saturating_add(interval.counts.bytes);
                }
                Tick::Send(interval) => {
                    self.carried = self.carried.saturating_add(interval.counts.bytes);
                }
                Tick::Rr(_) => {}
            },
        }
    }

    /// The exchange of results. The client's come first, and say how much it sent: this end reads
    /// on until it has that, so that what was under way at the end counts where it belongs.
    async fn finish(
        &mut self,
        control: &mut Control,
        test: &plan::Test,
    ) -> Result<String, Trouble> {
        self.shared.stop();
        control.say(&[State::ExchangeResults]).await?;
        let body = control.document(MAX_CLIENT_RESULTS).await?;
        let client = Results::decode_client(&body)
            .map_err(|e| Trouble::new(ErrorNumber::RECEIVE_RESULTS, e.to_string()))?;
        for told in &client.streams {
            let id = linerate_wire::iperf3::stream_index(told.id)
                .and_then(|index| self.ids.get(usize::from(index)))
                .ok_or_else(|| {
                    Trouble::new(
                        ErrorNumber::STREAM_ID,
                        format!("no stream has the id {}", told.id),
                    )
                })?;
            let sent = match self.transport {
                Transport::Udp => u64::try_from(told.packets).ok(),
                // What was sent before the measured time is not told, so that there the end of a
                // stream cannot be known by its length.
                Transport::Tcp => Some(told.bytes).filter(|_| test.asked.omit_s == 0),
            };
            if let Some(sent) = sent {
                self.shared.far_end_sent(id.stream, sent);
            }
        }
        let drain = match self.transport {
            Transport::Tcp if test.asked.omit_s == 0 => TCP_DRAIN_NS,
            _ => straggler_ns(&control.0),
        };
        self.shared.drain_until(clock::monotonic_ns().saturating_add(drain));
        while self.reports.len() < self.ids.len() {
            match self.told.recv().await {
                Some(event) => self.on_event(event),
                None => {
                    return Err(Trouble::new(
                        ErrorNumber::STREAM_CLOSED,
                        "a data thread ended without a word",
                    ));
                }
            }
        }
        let span_ns = self.ended_ns.unwrap_or(0).saturating_sub(self.measured_ns);
        self.story.end(self.reports.values(), span_ns, None);
        let results = self.results(test);
        let frame =
            results.encode().map_err(|e| Trouble::new(ErrorNumber::PACK_RESULTS, e.to_string()))?;
        control.octets(&frame).await?;
        control.say(&[State::DisplayResults]).await?;
        Ok(self.in_words())
    }

    fn results(&self, test: &plan::Test) -> Results {
        let sends = test.asked.direction != Direction::Forward;
        let cpu = self.cpu.percent();
        let streams = self.reports.iter().filter_map(|(stream, report)| {
            let id = stream_id(*stream);
            match report {
                Report::Send(report) => Some(sent(id, report)),
                Report::Recv(report) => {
                    let end_ns = self.ended_ns.unwrap_or(0).max(report.last_ns.unwrap_or(0));
                    Some(received(id, report, end_ns.saturating_sub(self.measured_ns)))
                }
                Report::Rr(_) | Report::Respond(_) => None,
            }
        });
        Results {
            cpu_total: Some(cpu.total),
            cpu_user: Some(cpu.user),
            cpu_system: Some(cpu.system),
            sender_has_retransmits: match (sends, test.asked.transport) {
                (true, Transport::Tcp) => 1,
                (true, Transport::Udp) => 0,
                (false, _) => -1,
            },
            congestion_used: self.congestion.clone(),
            server_output_text: self.output.as_ref().map(|output| output.text(&self.in_words())),
            server_output_json: None,
            streams: streams.collect(),
        }
    }

    fn in_words(&self) -> String {
        let mut words = vec![];
        let received: Vec<&RecvReport> = self
            .reports
            .values()
            .filter_map(|report| match report {
                Report::Recv(report) => Some(report),
                _ => None,
            })
            .collect();
        let sent: Vec<&SendReport> = self
            .reports
            .values()
            .filter_map(|report| match report {
                Report::Send(report) => Some(report),
                _ => None,
            })
            .collect();
        let warmup = |octets: u64| {
            if octets > 0 { format!(" after {octets} in the warm-up") } else { String::new() }
        };
        if !received.is_empty() {
            let bytes: u64 = received.iter().map(|r| r.counts.bytes).sum();
            let warm: u64 = received.iter().map(|r| r.warmup).sum();
            words.push(match self.transport {
                Transport::Tcp => format!("received {bytes} bytes{}", warmup(warm)),
                Transport::Udp => {
                    let lost: u64 = received.iter().map(|r| r.counts.lost).sum();
                    let of: u64 = received.iter().map(|r| r.counts.expected).sum();
                    let here: u64 = received.iter().map(|r| r.counts.loss_by_place().1).sum();
                    format!(
                        "received {bytes} bytes, lost {lost} of {of} datagrams ({here} in this host's socket buffers){}",
                        warmup(warm)
                    )
                }
            });
        }
        if !sent.is_empty() {
            let bytes: u64 = sent.iter().map(|s| s.counts.bytes).sum();
            let warm: u64 = sent.iter().map(|s| s.warmup).sum();
            words.push(format!("sent {bytes} bytes{}", warmup(warm)));
        }
        format!("done: {}", words.join(", "))
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn seconds(ns: u64) -> Option<f64> {
    Some(ns as f64 / 1e9)
}

fn sent(id: u32, report: &SendReport) -> StreamResults {
    let tcp = report.tcp.is_some();
    let warmup = if tcp { 0 } else { report.warmup };
    StreamResults {
        id,
        bytes: report.counts.bytes,
        retransmits: report.tcp.and_then(|tcp| tcp.retransmits).map_or(-1, signed),
        jitter_s: Some(0.0),
        errors: 0,
        omitted_errors: Some(0),
        packets: signed(warmup.saturating_add(report.counts.datagrams)),
        omitted_packets: Some(signed(warmup)),
        start_s: Some(0.0),
        end_s: seconds(report.span_ns),
    }
}

fn received(id: u32, report: &RecvReport, span_ns: u64) -> StreamResults {
    let (omitted, omitted_lost) = (report.warmup_expected, report.warmup_lost);
    StreamResults {
        id,
        bytes: report.counts.bytes,
        retransmits: -1,
        jitter_s: seconds(report.jitter_ns.unwrap_or(0)),
        errors: signed(omitted_lost.saturating_add(report.counts.lost)),
        omitted_errors: Some(signed(omitted_lost)),
        packets: signed(omitted.saturating_add(report.counts.expected)),
        omitted_packets: Some(signed(omitted)),
        start_s: Some(0.0),
        end_s: seconds(span_ns),
    }
}
