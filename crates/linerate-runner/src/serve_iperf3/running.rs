//! A test of iperf3 between the word "running" and its results.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linerate_dialect::idle::Idle;
use linerate_dialect::rate_meter::RateMeter;
use linerate_engine::clock;
use linerate_model::plan::{Direction, Transport};
use linerate_model::served::Outcome;
use linerate_model::test_event::Cpu;
use linerate_wire::iperf3::frame::MAX_CLIENT_RESULTS;
use linerate_wire::iperf3::{ErrorNumber, Results, State, stream_index};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, MissedTickBehavior, sleep, timeout};

use super::control::{Control, RESULTS_LIMIT};
use super::events::TestEvents;
use super::output::Output;
use super::run::{Trouble, terminated};
use super::{plan, results};
use crate::data::{DataEvent, Report, Shared, StreamId};
use crate::process_cpu::ProcessCpu;
use crate::server::{Options, Server};
use crate::serving::{StopOnDrop, straggler_ns};
use crate::standstill;

/// What is still in a client's send buffer may take this long; clients wait 10 s for results.
const TCP_DRAIN_NS: u64 = 5_000_000_000;
/// A data thread that is told to end looks up within 20 ms; on a host that is full, some later.
const GATHER_LIMIT: Duration = Duration::from_secs(2);
/// How often the limits are looked at.
const WATCH: Duration = Duration::from_millis(250);
/// A client to which data goes and whose host does not answer for this long is gone. Not less, as
/// what asks it goes through the queue that the test may keep full: of 38 questions one must pass.
const SILENT_SENDING: Duration = Duration::from_secs(10);
/// A client that only sends, and from which neither data nor an answer comes.
const SILENT_RECEIVING: Duration = Duration::from_secs(30);

/// How long a client's host may be silent.
fn silence_limit(direction: Direction) -> Duration {
    if direction.has_reverse() { SILENT_SENDING } else { SILENT_RECEIVING }
}

/// Should nobody act on that, data threads end by themselves a little later.
pub(super) fn silence_of_threads(direction: Direction) -> Duration {
    silence_limit(direction) + Duration::from_millis(500)
}

/// The test as it runs.
pub(super) struct Running {
    pub(super) shared: Arc<Shared>,
    pub(super) _stop: StopOnDrop,
    pub(super) ids: Vec<StreamId>,
    pub(super) direction: Direction,
    pub(super) warmup_ns: u64,
    /// Agreed time, of a test that ends by time.
    pub(super) time_ns: Option<u64>,
    /// When the measured time begins, once data flows.
    pub(super) measured_ns: u64,
    pub(super) told: UnboundedReceiver<DataEvent>,
    pub(super) reports: BTreeMap<u16, Report>,
    pub(super) congestion: Option<String>,
    pub(super) ended_ns: Option<u64>,
    pub(super) cpu: ProcessCpu,
    pub(super) transport: Transport,
    pub(super) shown: TestEvents,
    /// What this server shows of the test, if the client wants to see it.
    pub(super) output: Option<Output>,
    /// Why a stream ended that should not have.
    pub(super) fault: Option<(ErrorNumber, String)>,
}

/// What is looked at while a test runs, and since when.
struct Watch {
    began: Instant,
    began_ns: u64,
    /// A client that never ends its test.
    most: Duration,
    meter: Option<RateMeter>,
    fault_seen: bool,
    idle: Idle,
}

impl Watch {
    /// A client that ends its test by time may be late with the word: no data is taken meanwhile.
    fn new(options: &Options, by_time: bool) -> Self {
        let began_ns = clock::monotonic_ns();
        let grace = if by_time { Duration::from_secs(2) } else { Duration::ZERO };
        Self {
            began: Instant::now(),
            began_ns,
            most: options.max_duration.as_duration().saturating_add(grace),
            meter: options.max_rate.map(|rate| RateMeter::new(rate.bits_per_second(), began_ns)),
            fault_seen: false,
            idle: Idle::new(0, began_ns),
        }
    }
}

impl Running {
    /// Data flows from `start_ns` of the monotonic clock on.
    pub(super) fn begin(&mut self, start_ns: u64) {
        self.measured_ns = start_ns.saturating_add(self.warmup_ns);
        self.shared.start(start_ns);
    }

    /// Until the client says that the test is over.
    pub(super) async fn run(
        &mut self,
        control: &mut Control,
        server: &Arc<Server>,
    ) -> Result<(), Trouble> {
        let options = &server.options;
        let mut watch = Watch::new(options, self.time_ns.is_some());
        let mut looks = tokio::time::interval(WATCH);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut shut = server.shut.clone();
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
                    State::IperfDone => return Err(Trouble::quiet(
                        Outcome::Stopped,
                        "the client said goodbye before the end",
                    )),
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
                _ = looks.tick() => {
                    control.ask();
                    self.look(&mut watch, control, options)?;
                }
                _ = shut.changed() => return Err(terminated()),
            }
            if self.shared.over_budget() {
                return Err(Trouble::new(
                    ErrorNumber::END_CONDITIONS,
                    "more bytes than this server allows in a test",
                ));
            }
            if self.shared.over_day() {
                return Err(Trouble::new(
                    ErrorNumber::END_CONDITIONS,
                    "more bytes than this server allows an address in a day",
                ));
            }
        }
    }

    /// Holds the test against the server's limits, and sees to it that somebody is there.
    fn look(
        &mut self,
        watch: &mut Watch,
        control: &Control,
        options: &Options,
    ) -> Result<(), Trouble> {
        if self.fault.is_some() && std::mem::replace(&mut watch.fault_seen, true) {
            // The client had a moment to say by itself that it stops.
            return self.no_fault();
        }
        if watch.began.elapsed() > watch.most || self.shared.over_time() {
            let why = "the server's longest test time is over";
            return Err(Trouble::new(ErrorNumber::TOO_LONG, why));
        }
        if let Some(meter) = &mut watch.meter
            && !meter.keeps(self.shared.arrived(), clock::monotonic_ns())
        {
            let why = "the client sends faster than this server allows";
            return Err(Trouble::new(ErrorNumber::RATE, why));
        }
        if self.shared.peer_gone() {
            let why = "the client's host is gone, or has not answered for too long";
            return Err(Trouble::quiet(Outcome::Vanished, why));
        }
        let receives = self.direction.has_forward();
        // Nobody was silent while this end did not run.
        let ran = standstill::ran_for();
        let no_data = self.shared.silence(watch.began_ns).min(ran);
        if receives && no_data > options.no_data {
            let why = format!("no data for {:?}", options.no_data);
            return Err(Trouble::new(ErrorNumber::NO_DATA, why));
        }
        let idle = watch.idle.lasts(self.shared.moved(), clock::monotonic_ns());
        if Duration::from_nanos(idle) > options.no_data {
            let why = format!("no data moved for {:?}", options.no_data);
            return Err(Trouble::new(ErrorNumber::NO_DATA, why));
        }
        // Where the kernel does not tell, its own limit holds.
        let answered = control.silence().unwrap_or_default().min(ran);
        let silent = if receives { answered.min(no_data) } else { answered };
        let limit = silence_limit(self.direction);
        if silent > limit {
            let why = format!("the client's host has not answered for {limit:?}");
            return Err(Trouble::quiet(Outcome::Vanished, why));
        }
        Ok(())
    }

    /// A stream that broke makes no results: what it did not carry was not lost on the path.
    fn no_fault(&mut self) -> Result<(), Trouble> {
        match self.fault.take() {
            Some((number, why)) => Err(Trouble::new(number, why)),
            None => Ok(()),
        }
    }

    fn on_event(&mut self, event: DataEvent) {
        self.shown.on_event(&event);
        if let Some(output) = &mut self.output {
            output.on_event(&event);
        }
        if let DataEvent::Done(stream, report) = event {
            let fault = match report.as_ref() {
                Report::Send(sent) => sent.error.clone().map(|e| (ErrorNumber::STREAM_WRITE, e)),
                Report::Recv(recv) => recv.error.clone().map(|e| (ErrorNumber::STREAM_READ, e)),
                Report::Rr(_) | Report::Respond(_) => None,
            };
            self.fault = self.fault.take().or(fault);
            self.reports.insert(stream, *report);
        }
    }

    /// The exchange of results. The client's come first, and say how much it sent: this end reads
    /// on until it has that, so that what was under way at the end counts where it belongs.
    pub(super) async fn finish(
        &mut self,
        control: &mut Control,
        test: &plan::Test,
    ) -> Result<(), Trouble> {
        self.shared.stop();
        control.say(&[State::ExchangeResults]).await?;
        let body = control.document(MAX_CLIENT_RESULTS, RESULTS_LIMIT).await?;
        let client = Results::decode_client(&body)
            .map_err(|e| Trouble::new(ErrorNumber::RECEIVE_RESULTS, e.to_string()))?;
        for told in &client.streams {
            let id = stream_index(told.id)
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
        self.no_fault()?;
        let output = self
            .output
            .as_ref()
            .map(|output| output.text(&results::in_words(self.reports.values(), self.transport)));
        let results = results::results(self, test, output);
        let frame =
            results.encode().map_err(|e| Trouble::new(ErrorNumber::PACK_RESULTS, e.to_string()))?;
        control.bytes(&frame).await?;
        control.say(&[State::DisplayResults]).await?;
        let far_cpu = far_cpu(&client);
        self.shown.end(self.reports.values(), self.span_ns(), far_cpu, None);
        Ok(())
    }

    /// Told on the screen, with what all streams measured if they did.
    pub(super) fn fail(&mut self, peer: SocketAddr, why: &str) {
        let reports = if self.reports.len() == self.ids.len() {
            self.reports.values().collect()
        } else {
            vec![]
        };
        let span_ns = self.span_ns();
        self.shown.fail(peer, reports, span_ns, why);
    }

    /// After trouble: ends the data threads and takes their reports, which are told nobody but the log.
    pub(super) async fn gather(&mut self) {
        self.shared.stop();
        self.shared.drain_until(0);
        let take = async {
            while self.reports.len() < self.ids.len() {
                match self.told.recv().await {
                    Some(DataEvent::Done(stream, report)) => self.reports.insert(stream, *report),
                    Some(_) => None,
                    None => break,
                };
            }
        };
        let _ = timeout(GATHER_LIMIT, take).await;
    }

    /// The reports, if all streams have one: a sum over some of them would pass for the whole.
    pub(super) fn whole(&mut self) -> Vec<Report> {
        let reports = std::mem::take(&mut self.reports);
        if reports.len() == self.ids.len() { reports.into_values().collect() } else { vec![] }
    }

    fn span_ns(&self) -> u64 {
        let ended_ns = self.ended_ns.unwrap_or(0).saturating_sub(self.measured_ns);
        self.received_ns().unwrap_or(ended_ns)
    }

    /// How long the streams arrived, nanoseconds: the agreed time, or of a test by amount until the last
    /// arrival. A client may wait before it says that the test is over, and nothing comes meanwhile.
    pub(super) fn received_ns(&self) -> Option<u64> {
        let mut receivers = self.reports.values().filter_map(|report| match report {
            Report::Recv(report) => Some(report.last_ns),
            _ => None,
        });
        // No receiver here, or the last arrival on any of them.
        let last_ns = receivers.next()?.into_iter().chain(receivers.flatten()).max();
        let last_ns = last_ns.map(|last| last.saturating_sub(self.measured_ns));
        let ended_ns = self.ended_ns.unwrap_or(0).saturating_sub(self.measured_ns);
        Some(arriving_ns(self.time_ns, ended_ns, last_ns))
    }
}

/// How long data arrived: for the agreed time, but where it was cut short; longer if more came after it;
/// without one until the last arrival.
fn arriving_ns(time_ns: Option<u64>, ended_ns: u64, last_ns: Option<u64>) -> u64 {
    match (time_ns, last_ns) {
        (Some(time), last) => time.min(ended_ns).max(last.unwrap_or(0)),
        (None, Some(last)) => last,
        (None, None) => ended_ns,
    }
}

/// What the client told of its process; nothing where it could not.
fn far_cpu(client: &Results) -> Option<Cpu> {
    Some(Cpu { total: client.cpu_total?, user: client.cpu_user?, system: client.cpu_system? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_arrives_for_the_agreed_time_or_until_the_last() {
        for (time, ended, last, arriving) in [
            // A client that waits before it tells the end, and one that does not.
            (Some(2_000), 2_055, Some(1_999), 2_000),
            (Some(2_000), 2_000, Some(1_999), 2_000),
            // Cut short, late, and nothing at all.
            (Some(2_000), 700, Some(690), 700),
            (Some(2_000), 2_055, Some(2_300), 2_300),
            (Some(2_000), 2_055, None, 2_000),
            // By amount.
            (None, 55, Some(1), 1),
            (None, 55, None, 55),
        ] {
            assert_eq!(arriving_ns(time, ended, last), arriving);
        }
    }
}
