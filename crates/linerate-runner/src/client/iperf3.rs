//! The near end in iperf3's dialect: the same data threads, pacing, accounting, record and verdict
//! as in linerate's own, over iperf3's control connection. `docs/iperf3.md` has the sequence.
//!
//! The far end tells totals of each stream when the test is over, and nothing before. So a client
//! that sends waits a moment before it says that the test is over: what is on its way then would
//! not be counted at the far end.

mod account;
mod ask;
mod control;

pub use ask::Extras;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use linerate_engine::{clock, sys};
use linerate_host::facts::facts;
use linerate_host::sampler::Sampler;
use linerate_model::plan::{AgreedPlan, Dialect, End, TestPlan, Traffic, Transport, Way};
use linerate_model::record::{Doubt, DoubtKind, ErrorRecord};
use linerate_model::sample::HostSample;
use linerate_model::told::{self, Connected, Cpu, ServerOutput, Side, StreamEnd, Told};
use linerate_model::units::DatagramSize;
use linerate_session::assemble::{self, HostSamples, LiveSide, StreamOutcome};
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use linerate_wire::iperf3::{Cookie, Parameters, Results, State, hello, stream_id};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, timeout, timeout_at};

use self::account::{far_receiver, far_sender, far_stream, far_thread, our_results, place_drops};
use self::ask::{fitted, parameters};
use self::control::{Control, Heard};
use super::{Ended, Near, StopOnDrop, with_port};
use crate::data::{self, Context, DataEvent, Report, Role, Shared, StreamId, StreamSocket, Tick};
use crate::errors;
use crate::rows::{ProcessCpu, RowBook};
use crate::serving::{HEAD_START_NS, random, trim};
use crate::ticks::Ticks;

/// Waits this long beyond two round trips for what is on its way, before the end is told. Less than
/// a tenth of iperf3's usual interval, which it then leaves out of its report.
const SETTLE: Duration = Duration::from_millis(50);
/// Most of that.
const MOST_SETTLE: Duration = Duration::from_secs(5);
/// After the end, receivers here wait this long for their TCP streams to end.
const STREAM_END: Duration = Duration::from_secs(5);
/// How often a receiver that ends by count is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// Whether the first octet that a server says can be only iperf3's.
pub(super) fn is_first_octet(octet: u8) -> bool {
    // A message of linerate's own begins with a length below 2^24.
    matches!(
        State::from_octet(octet),
        Some(State::ParamExchange | State::AccessDenied | State::ServerError)
    )
}

/// Runs the test. `cookie` has been sent already when the server was found to be an iperf3 by its
/// answer.
pub(super) async fn conduct(
    near: &mut Near<'_>,
    control: TcpStream,
    greeted: Option<Cookie>,
    observer: &mut dyn Observer,
) -> Result<(), ErrorRecord> {
    let extras = near.request.iperf3.clone();
    let mss = sys::tcp_sample(&control)
        .and_then(|tcp| tcp.mss_bytes)
        .and_then(|mss| u32::try_from(mss).ok());
    if extras.size_from_mss
        && let (Traffic::Udp(udp), Some(mss)) = (&mut near.plan.traffic, mss)
    {
        udp.size = DatagramSize::new(mss.min(65_507)).unwrap_or(udp.size);
        near.record.asked.datagram_bytes = Some(u32::from(udp.size.octets()));
    }
    let (plan, cuts) = fitted(&near.plan)?;
    let parameters = parameters(&plan, &extras, &near.plan);
    near.plan = plan;
    for text in cuts {
        near.record.doubts.push(Doubt { kind: DoubtKind::Degraded, text });
    }
    parameters.check().map_err(|e| {
        errors::no_such_test(&format!("--dialect iperf3: {}", e.why.name), &e.to_string())
    })?;
    let settle = sys::tcp_sample(&control)
        .and_then(|tcp| tcp.rtt_ns)
        .map_or(SETTLE, |rtt| SETTLE + 2 * Duration::from_nanos(rtt))
        .min(MOST_SETTLE);
    let connected = Connected { peer: near.peer, local: near.local, mss };
    observer.told(&Told::Connected(connected.clone()));
    let (read, write) = control.into_split();
    let mut control = Control { read, write, early: None, patience: extras.patience };
    let cookie = match greeted {
        Some(cookie) => cookie,
        None => {
            let cookie = Cookie::from_random(random());
            control
                .say(cookie.octets())
                .await
                .map_err(|why| near.lost("agreeing on the test", &why))?;
            cookie
        }
    };
    let doing = "agreeing on the test";
    control.expect(near, State::ParamExchange, doing).await?;
    let bytes = parameters
        .encode()
        .map_err(|e| errors::no_such_test("--dialect iperf3", &e.to_string()))?;
    control.say(&bytes).await.map_err(|why| near.lost(doing, &why))?;
    control.expect(near, State::CreateStreams, doing).await.map_err(|mut error| {
        if error.kind == "server_lost" {
            error.hints.insert(
                0,
                "an iperf3 server that wants a user name, or allows no such rate, may just close"
                    .to_owned(),
            );
        }
        error
    })?;

    let mut agreed_record = assemble::plan_record(&near.plan, Some(near.ip));
    agreed_record.dialect = Dialect::Iperf3.name().into();
    near.record.asked.ip = Some(near.ip.number());
    near.record.agreed = Some(agreed_record);
    // Both ends in one network namespace: its counters are the receiver's.
    let same_host = near.peer.ip() == near.local.ip();
    near.record.client = facts(Some(near.peer.ip()));
    if same_host {
        near.record.server = Some(near.record.client.clone());
    }
    let ids = data::streams(near.plan.direction, near.plan.streams);
    let sockets = open_streams(near, &mut control, &ids, &cookie, &extras).await?;
    let start = start_told(near, &connected, &cookie, &parameters, &ids, &sockets);
    let congestion = sockets.iter().find_map(StreamSocket::congestion);
    let counters_wide = parameters.udp_counters_64bit;

    let cpu = ProcessCpu::start();
    let shared = Shared::new(ids.len());
    let _stop = StopOnDrop(Arc::clone(&shared));
    let (events, told) = mpsc::unbounded_channel();
    let agreed = Arc::new(AgreedPlan { plan: near.plan.clone(), cuts: vec![] });
    let cores = near.cores(&ids, false, &[]);
    // iperf3's streams end when both ends have said all: the data threads end before that.
    let mut kept = Vec::new();
    for ((id, socket), core) in ids.iter().zip(sockets).zip(cores) {
        if let StreamSocket::Tcp(tcp) = &socket {
            kept.extend(tcp.try_clone());
        }
        let context = Context {
            shared: Arc::clone(&shared),
            agreed: Arc::clone(&agreed),
            ip: near.ip,
            token: u64::from_be_bytes(random()),
            framing: Framing::Iperf3 { wide: counters_wide },
            digits: false,
            id: *id,
            role: data::role(&near.plan.traffic, id.way, true),
            core,
            events: events.clone(),
        };
        data::spawn(context, socket)
            .map_err(|e| errors::unable("start a data thread", &e.to_string()))?;
    }
    drop(events);
    let doing = "starting the test";
    control.expect(near, State::TestStart, doing).await?;
    control.expect(near, State::TestRunning, doing).await?;
    observer.start(&near.record);
    observer.told(&Told::Start(Box::new(start)));
    let head = if near.plan.direction.has_forward() { HEAD_START_NS } else { 0 };
    let start_ns = clock::monotonic_ns() + head;
    shared.start(start_ns);

    let nic = near.record.client.nic.as_ref().map(|nic| nic.name.clone());
    let count = |role: Role| {
        ids.iter().filter(|id| data::role(&near.plan.traffic, id.way, true) == role).count()
    };
    let (plan, warmup) = (near.plan.clone(), near.plan.warmup.0);
    let mut running = Running {
        senders: count(Role::Send),
        ticks: (Ticks::new(count(Role::Send)), Ticks::new(count(Role::Receive))),
        rows: RowBook::new(plan.interval.0, warmup, ids.len()),
        plan,
        shared: Arc::clone(&shared),
        samplers: (Sampler::new(nic.as_deref()), Sampler::new(nic.as_deref())),
        samples: Vec::new(),
        local: BTreeMap::new(),
        streams: ids.len(),
        congestion,
        live: BTreeMap::new(),
        shown: 0,
        interrupted: false,
        start_ns,
        ended_ns: None,
    };
    let ended = running.run(near, &mut control, told, settle, observer).await;
    let (results, trouble) = match ended {
        Ok(mut told) => {
            let span_ns = running.span_ns();
            let drain = if near.plan.traffic.transport() == Transport::Tcp {
                STREAM_END
            } else {
                settle.max(Duration::from_millis(250))
            };
            running.collect(&mut told, drain, observer).await;
            let ours = our_results(&running, &ids, cpu.percent(), span_ns);
            match exchange(near, &mut control, &ours).await {
                Ok(results) => (Some(results), None),
                Err(error) => (None, Some(error)),
            }
        }
        Err((error, mut told)) => {
            shared.stop();
            shared.drain_until(0);
            running.collect(&mut told, Duration::ZERO, observer).await;
            (None, Some(error))
        }
    };
    drop(kept);
    if results.is_some() {
        let _ = control.say(&[State::IperfDone.octet()]).await;
        let _ = control.write.shutdown().await;
    }
    finish(near, running, &ids, results, trouble, (cpu.percent(), same_host), observer);
    Ok(())
}

/// Results there and back.
async fn exchange(
    near: &Near<'_>,
    control: &mut Control,
    ours: &Results,
) -> Result<Results, ErrorRecord> {
    let doing = "exchanging results";
    let bytes = ours.encode().map_err(|e| near.lost(doing, &e.to_string()))?;
    control.say(&bytes).await.map_err(|why| near.lost(doing, &why))?;
    let results = control.results(near).await?;
    // Without this last word the results are whole all the same.
    let _ = control.expect(near, State::DisplayResults, doing).await;
    Ok(results)
}

/// Opens the streams one after another, as iperf3 expects them.
async fn open_streams(
    near: &Near<'_>,
    control: &mut Control,
    ids: &[StreamId],
    cookie: &Cookie,
    extras: &Extras,
) -> Result<Vec<StreamSocket>, ErrorRecord> {
    let mut sockets = Vec::new();
    for id in ids {
        let port = extras.first_port.map_or(0, |first| first.wrapping_add(id.stream));
        let local = with_port(near.local, port);
        sockets.push(match near.plan.traffic.transport() {
            Transport::Udp => {
                open_udp(near, control, local, id.stream as usize + 1 == ids.len()).await?
            }
            Transport::Tcp => {
                let mut stream = near.connect_tcp(local)?;
                std::io::Write::write_all(&mut stream, cookie.octets())
                    .map_err(|e| errors::tcp_stream(&near.name, near.peer, &e.to_string()))?;
                StreamSocket::Tcp(stream)
            }
        });
    }
    Ok(sockets)
}

/// Says hello once and waits for the answer: a second hello would be taken for data by a server that
/// has heard the first. For the last stream the start of the test is an answer too.
async fn open_udp(
    near: &Near<'_>,
    control: &mut Control,
    local: SocketAddr,
    last: bool,
) -> Result<StreamSocket, ErrorRecord> {
    let fault = |e: &std::io::Error| errors::udp_stream(&near.name, near.peer, &e.to_string());
    let socket = sys::udp_socket(local).map_err(|e| fault(&e))?;
    socket.connect(&near.peer.into()).map_err(|e| fault(&e))?;
    socket.set_read_timeout(Some(Duration::from_millis(20))).map_err(|e| fault(&e))?;
    socket.send(&hello::HELLO).map_err(|e| fault(&e))?;
    let deadline = Instant::now() + control.patience;
    while Instant::now() < deadline {
        let mut datagram = [std::mem::MaybeUninit::<u8>::uninit(); hello::HELLO_OCTETS + 1];
        match socket.peek(&mut datagram) {
            // Data that overtook the answer: the stream is there. The data stays for its receiver.
            Ok(n) if n > hello::HELLO_OCTETS => return Ok(StreamSocket::Udp(socket, None)),
            Ok(_) => {
                let mut answer = [0; hello::HELLO_OCTETS];
                let n = std::io::Read::read(&mut &socket, &mut answer).map_err(|e| fault(&e))?;
                if answer.get(..n).is_some_and(hello::is_answer) {
                    return Ok(StreamSocket::Udp(socket, None));
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(fault(&e)),
        }
        let heard =
            timeout(Duration::from_millis(1), control.state(near, "opening the data streams"));
        match heard.await {
            Ok(Heard::State(State::TestStart)) if last => {
                control.early = Some(State::TestStart);
                return Ok(StreamSocket::Udp(socket, None));
            }
            Ok(Heard::State(state)) => {
                let why = format!("it said {state:?} before all streams were open");
                return Err(near.lost("opening the data streams", &why));
            }
            Ok(Heard::Failed(error)) => return Err(error),
            Err(_) => {}
        }
    }
    let why = format!("no answer within {:?}", control.patience);
    Err(errors::udp_stream(&near.name, near.peer, &why))
}

fn start_told(
    near: &Near<'_>,
    connected: &Connected,
    cookie: &Cookie,
    parameters: &Parameters,
    ids: &[StreamId],
    sockets: &[StreamSocket],
) -> told::Start {
    let number = |value: Option<i64>| value.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    let small = |value: Option<i64>| u32::try_from(number(value)).unwrap_or(u32::MAX);
    let addresses = |socket: &StreamSocket| match socket {
        StreamSocket::Udp(socket, _) => {
            (socket.as_raw_fd(), socket.local_addr().ok().and_then(|a| a.as_socket()))
        }
        StreamSocket::Tcp(socket) => (socket.as_raw_fd(), socket.local_addr().ok()),
    };
    let buffers = |socket: &StreamSocket| match socket {
        StreamSocket::Udp(socket, _) => (sys::send_buffer(socket), sys::receive_buffer(socket)),
        StreamSocket::Tcp(socket) => (sys::send_buffer(socket), sys::receive_buffer(socket)),
    };
    let first = sockets.first().map(buffers);
    told::Start {
        client: true,
        control: connected.clone(),
        cookie: cookie.text(),
        asked: told::Asked {
            transport: near.plan.traffic.transport(),
            direction: near.plan.direction,
            parallel: near.plan.streams,
            block_bytes: small(parameters.len),
            rate_bps: number(parameters.bandwidth),
            fq_rate_bps: number(parameters.fqrate),
            burst: small(parameters.burst),
            omit_s: small(parameters.omit),
            time_s: small(parameters.time),
            bytes: number(parameters.num),
            blocks: number(parameters.blockcount),
            tos: u8::try_from(number(parameters.tos)).unwrap_or(0),
            window_bytes: small(parameters.window),
            mss_bytes: small(parameters.mss),
            title: parameters.title.clone(),
            extra_data: parameters.extra_data.clone(),
        },
        streams: ids
            .iter()
            .zip(sockets)
            .map(|(id, socket)| {
                let (descriptor, local) = addresses(socket);
                told::Stream {
                    id: stream_id(id.stream),
                    socket: descriptor,
                    local: local.unwrap_or(near.local),
                    remote: near.peer,
                    sends: id.way == Way::Forward,
                }
            })
            .collect(),
        send_buffer: first.map(|b| b.0),
        receive_buffer: first.map(|b| b.1),
    }
}

/// The part between "running" and the results.
struct Running {
    plan: TestPlan,
    shared: Arc<Shared>,
    samplers: (Sampler, Sampler),
    samples: Vec<HostSample>,
    local: BTreeMap<u16, Report>,
    streams: usize,
    /// Of TCP: what this end's streams use, receivers too.
    congestion: Option<String>,
    senders: usize,
    ticks: (Ticks, Ticks),
    rows: RowBook,
    live: BTreeMap<u64, LiveSide>,
    shown: u64,
    interrupted: bool,
    start_ns: u64,
    /// When the end was told.
    ended_ns: Option<u64>,
}

type Events = UnboundedReceiver<DataEvent>;

impl Running {
    /// Until the server wants results, or something goes wrong.
    async fn run(
        &mut self,
        near: &Near<'_>,
        control: &mut Control,
        mut told: Events,
        settle: Duration,
        observer: &mut dyn Observer,
    ) -> Result<Events, (ErrorRecord, Events)> {
        let doing = "running the test";
        let warmup = self.plan.warmup.as_duration();
        let begun = Instant::now()
            + Duration::from_nanos(self.start_ns.saturating_sub(clock::monotonic_ns()));
        let warm = begun + warmup;
        let mut cold = self.plan.warmup.0 > 0;
        let interval = self.plan.interval.as_duration();
        let mut sampling = tokio::time::interval_at(warm + interval, interval);
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let signals = crate::signals::first();
        tokio::pin!(signals);
        let receives = self.plan.direction.has_reverse();
        let wanted = self.wanted_octets();
        let over = self.plan.duration().map(|d| warm + d.as_duration());
        let longest = Duration::from_secs(86_400);
        let deadline = over.unwrap_or(warm + longest) + control.patience + MOST_SETTLE;
        let mut silent_since = Instant::now();
        let mut received = 0;
        // When the end is told, and whether it has been.
        let mut end_at: Option<Instant> = None;
        let mut end_told = false;
        loop {
            if end_at.is_none() && self.is_done(over, wanted) {
                // What is on its way counts only before the end is told.
                let sends = self.senders > 0;
                end_at = Some(Instant::now() + if sends { settle } else { Duration::ZERO });
            }
            let counting = receives && !end_told;
            tokio::select! {
                heard = control.state(near, doing) => match heard {
                    Heard::State(State::ExchangeResults) if end_told => return Ok(told),
                    Heard::State(state) => {
                        let why = format!("it said {state:?} while the test ran");
                        return Err((near.lost(doing, &why), told));
                    }
                    Heard::Failed(error) => return Err((error, told)),
                },
                event = told.recv() => match event {
                    Some(event) => self.on_event(event, observer),
                    None if self.local.len() < self.streams => {
                        return Err((near.lost(doing, "a data thread ended without a word"), told));
                    }
                    // All threads have ended: wait for the other arms.
                    None => tokio::time::sleep(LOOK).await,
                },
                () = tokio::time::sleep_until(warm), if cold => {
                    cold = false;
                    let _ = (self.samplers.0.sample(), self.samplers.1.sample());
                }
                _ = sampling.tick() => self.samples.push(trim(self.samplers.0.sample())),
                _ = look.tick(), if counting => {
                    let now = self.shared.received();
                    if now != received || self.shared.heard_within(control.patience) {
                        received = now;
                        silent_since = Instant::now();
                    }
                    if silent_since.elapsed() > near.request.iperf3.silence {
                        let why = "no data came for too long";
                        return Err((near.lost(doing, why), told));
                    }
                }
                () = tokio::time::sleep_until(end_at.unwrap_or(deadline)), if end_at.is_some() && !end_told => {
                    end_told = true;
                    self.ended_ns = Some(clock::monotonic_ns());
                    self.shared.stop();
                    if let Err(why) = control.say(&[State::TestEnd.octet()]).await {
                        return Err((near.lost(doing, &why), told));
                    }
                }
                () = tokio::time::sleep_until(over.unwrap_or(deadline)), if end_at.is_none() && over.is_some_and(|o| o > Instant::now()) => {}
                () = tokio::time::sleep_until(deadline) => {
                    return Err((near.lost(doing, "the test did not end in time"), told));
                }
                () = &mut signals, if !self.interrupted => {
                    self.interrupted = true;
                    observer.note("interrupted: ending with what was measured");
                    self.shared.stop();
                    end_at = end_at.or(Some(Instant::now() + settle));
                }
            }
        }
    }

    /// Octets after which a receiving client has enough.
    fn wanted_octets(&self) -> Option<u64> {
        let End::Datagrams(count) = self.plan.end else { return None };
        let size = match &self.plan.traffic {
            Traffic::Udp(udp) => u64::from(udp.size.octets()),
            Traffic::Tcp(tcp) => u64::from(tcp.block),
            Traffic::Rr(_) => return None,
        };
        Some(count.saturating_mul(size))
    }

    fn is_done(&self, over: Option<Instant>, wanted: Option<u64>) -> bool {
        let sent = self.local.values().filter(|report| matches!(report, Report::Send(_))).count()
            >= self.senders;
        let heard = !self.plan.direction.has_reverse()
            || wanted.is_some_and(|wanted| self.shared.received() >= wanted)
            || over.is_some_and(|over| Instant::now() >= over);
        sent && heard
    }

    /// Until all data threads have told their report; they have been told to end.
    async fn collect(&mut self, told: &mut Events, drain: Duration, observer: &mut dyn Observer) {
        let ns = u64::try_from(drain.as_nanos()).unwrap_or(u64::MAX);
        self.shared.drain_until(clock::monotonic_ns().saturating_add(ns));
        let limit = Instant::now() + drain + Duration::from_secs(4);
        while self.local.len() < self.streams {
            match timeout_at(limit, told.recv()).await {
                Ok(Some(event)) => self.on_event(event, observer),
                _ => break,
            }
        }
    }

    fn on_event(&mut self, event: DataEvent, observer: &mut dyn Observer) {
        match event {
            DataEvent::Done(stream, report) => {
                self.local.insert(stream, *report);
            }
            DataEvent::Warm(stream, index, tick) => {
                if let Some(rows) = self.rows.add(true, stream, index, tick) {
                    observer.told(&Told::Rows(rows));
                }
            }
            DataEvent::Tick(stream, index, tick) => {
                if let Some(rows) = self.rows.add(false, stream, index, tick) {
                    observer.told(&Told::Rows(rows));
                }
                let sum = match tick {
                    Tick::Send(_) => self.ticks.0.add(index, tick),
                    _ => self.ticks.1.add(index, tick),
                };
                let side = self.live.entry(index).or_default();
                side.host = self.samples.get(index as usize).or(self.samples.last()).cloned();
                match sum {
                    Some(Tick::Send(send)) => side.send = Some(send),
                    Some(Tick::Recv(recv)) => side.recv = Some(recv),
                    _ => return,
                }
                let (sends, receives) =
                    (self.plan.direction.has_forward(), self.plan.direction.has_reverse());
                if (sends && side.send.is_none()) || (receives && side.recv.is_none()) {
                    return;
                }
                let Some(side) = self.live.remove(&index) else { return };
                self.shown = index + 1;
                let far = LiveSide::default();
                observer.interval(&assemble::live_interval(&self.plan, index, &side, &far, None));
            }
        }
    }

    /// Measured time of this end.
    fn span_ns(&self) -> u64 {
        let sent = self.local.values().filter_map(|report| match report {
            Report::Send(report) => Some(report.span_ns),
            _ => None,
        });
        let measured = self.start_ns.saturating_add(self.plan.warmup.0);
        let ended = self.ended_ns.unwrap_or_else(clock::monotonic_ns).saturating_sub(measured);
        // A receiver counts until the end was told.
        if self.plan.direction.has_reverse() { ended } else { sent.max().unwrap_or(ended) }
    }
}

fn finish(
    near: &mut Near<'_>,
    mut running: Running,
    ids: &[StreamId],
    results: Option<Results>,
    trouble: Option<ErrorRecord>,
    (cpu, same_host): (Cpu, bool),
    observer: &mut dyn Observer,
) {
    let span_ns = running.span_ns();
    let reports: Vec<&Report> = ids.iter().filter_map(|id| running.local.get(&id.stream)).collect();
    if reports.len() == ids.len() {
        for rows in running.rows.rest(&reports, span_ns) {
            observer.told(&Told::Rows(rows));
        }
    }
    let datagram = match &near.plan.traffic {
        Traffic::Udp(udp) => Some(u64::from(udp.size.octets())),
        _ => None,
    };
    let total = trim(running.samplers.1.sample());
    let each_way = usize::from(near.plan.streams);
    let mut ends = Vec::new();
    let mut streams = Vec::new();
    for id in ids {
        let mut outcome = StreamOutcome {
            index: id.index,
            reverse: id.way == Way::Reverse,
            ..StreamOutcome::default()
        };
        let number = stream_id(id.stream);
        let far = results.as_ref().and_then(|r| r.streams.iter().find(|s| s.id == number));
        let far_span =
            far.and_then(|far| far.end_s).filter(|s| s.is_finite() && *s > 0.0 && *s < 1e6);
        let far_ns = far_span.map_or(span_ns, |s| (s * 1e9) as u64);
        let thread = results.as_ref().map(|r| far_thread(r, far_ns, each_way)).unwrap_or_default();
        let here = match running.local.remove(&id.stream) {
            Some(Report::Send(sent)) => {
                if let Some(far) = far {
                    let mut recv = far_receiver(&sent, far, datagram, near.plan.warmup.0 > 0);
                    recv.thread = thread;
                    outcome.recv = Some(recv);
                }
                let side = Side::Send(Box::new(sent.clone()));
                outcome.send = Some(sent);
                side
            }
            Some(Report::Recv(mut recv)) => {
                let side = Side::Recv(Box::new(recv.clone()));
                if let Some(far) = far {
                    let mut send = far_sender(&mut recv, far, datagram, far_ns);
                    send.thread = thread;
                    outcome.send = Some(send);
                }
                outcome.recv = Some(recv);
                side
            }
            _ => Side::Send(Box::default()),
        };
        ends.push(StreamEnd { here, far: far.map(|far| far_stream(far, far_span)) });
        streams.push(outcome);
    }
    if same_host {
        place_drops(&mut streams, total.counters.udp_receive_buffer_errors);
    }
    let client = HostSamples {
        intervals: std::mem::take(&mut running.samples),
        total: Some(total),
        irq_cores: running.samplers.1.irq_cores_delta(),
    };
    let server = if same_host { client.clone() } else { HostSamples::default() };
    let shown = running.shown as usize;
    let congestion = running.congestion.take();
    let ended = Ended {
        interrupted: running.interrupted,
        trouble,
        stopping: None,
        results: results.is_some(),
    };
    near.conclude(streams, ended, (client, server), None, same_host, Dialect::Iperf3);
    near.record.intervals.iter().skip(shown).for_each(|interval| observer.interval(interval));
    observer.told(&Told::End(Box::new(told::End {
        streams: ends,
        span_ns,
        cpu,
        far_cpu: results.as_ref().map(|r| Cpu {
            total: r.cpu_total.unwrap_or(0.0),
            user: r.cpu_user.unwrap_or(0.0),
            system: r.cpu_system.unwrap_or(0.0),
        }),
        congestion,
        far_congestion: results.as_ref().and_then(|r| r.congestion_used.clone()),
        server_output: results.and_then(|r| {
            r.server_output_text
                .map(ServerOutput::Text)
                .or(r.server_output_json.map(ServerOutput::Json))
        }),
        error: near.record.error.clone(),
        interrupted: running.interrupted,
    })));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_iperf3_begins_with_these_octets() {
        assert!(is_first_octet(9) && is_first_octet(0xff) && is_first_octet(0xfe));
        assert!(!is_first_octet(0) && !is_first_octet(1) && !is_first_octet(b'H'));
    }
}
