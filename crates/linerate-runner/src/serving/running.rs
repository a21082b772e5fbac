//! The part of a test at the server between its start and its results.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use linerate_engine::clock;
use linerate_model::plan::{AgreedPlan, Traffic};
use linerate_model::served::Outcome;
use linerate_wire::native::message::{
    CHUNK_INTERVALS, Chunk, ClientMessage, HostChunk, LiveInterval, Results, ServerMessage,
    StreamReport, StreamResult,
};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};
use tokio::time::Instant;

use crate::control::{ControlError, Outbox, next};
use crate::data::{self, DataEvent, LAST_DATA_NS, Report, Role, Shared, Sign, StreamId, Tick};
use crate::host::HostWatch;
use crate::idle::Idle;
use crate::rate_meter::RateMeter;
use crate::served::Early;
use crate::server::Server;
use crate::standstill;
use crate::ticks::Ticks;

use super::{HEAD_START_NS, MOST_DRAIN_NS, SILENCE_LIMIT, SILENCE_OF_THREADS, answer, count, pong};

/// Rows for the live view are left out while so many bytes wait for a client that reads slowly.
const MOST_LIVE_WAITING: usize = 64 << 10;

/// Beyond the drain, a client may take this long for all results: as long as it waits for them.
const RESULTS_LIMIT: Duration = Duration::from_secs(15);

/// What a client is told at the end of the time that the server's owner allows.
const TOO_LONG: &str = "the server's longest test time is over";

/// A test that runs.
pub(super) struct Running {
    pub(super) shared: Arc<Shared>,
    pub(super) agreed: Arc<AgreedPlan>,
    pub(super) host: HostWatch,
    pub(super) reports: BTreeMap<u16, Report>,
    pub(super) streams: usize,
    pub(super) send_ticks: Ticks,
    pub(super) recv_ticks: Ticks,
    pub(super) drain: u64,
    pub(super) stopped: bool,
    /// Why it ends before its time, and still has results.
    pub(super) early: Option<Early>,
    /// The client has said goodbye: nothing goes to it any more.
    pub(super) gone: bool,
    /// The client has told how much it sent: it sends no more.
    pub(super) far_sent: bool,
}

impl Running {
    /// From the word "started" to the client's goodbye.
    pub(super) async fn through(
        &mut self,
        server: &Arc<Server>,
        messages: &mut Receiver<Result<ClientMessage, ControlError>>,
        out: &mut Outbox,
        told: &mut UnboundedReceiver<DataEvent>,
        ids: &[StreamId],
    ) -> Result<(), Early> {
        // Not before: it may take its time to open streams.
        self.shared
            .watch_peer(out.stream().as_ref(), Sign::Words, SILENCE_OF_THREADS)
            .map_err(|e| Early::failed(format!("cannot watch the client's connection: {e}")))?;
        self.shared.start(clock::monotonic_ns() + HEAD_START_NS);
        out.say(&ServerMessage::Started).await?;
        let outcome = self.run(server, messages, out, told).await;
        self.shared.stop();
        outcome?;
        if self.gone {
            return Ok(());
        }
        // Each message has its limit; this one is of a client that takes them one by one, slowly.
        let most = Duration::from_nanos(self.drain) + RESULTS_LIMIT;
        match tokio::time::timeout(most, self.send_results(out, ids)).await {
            Ok(sent) => sent?,
            Err(_) => return Err(Early::vanished("the client did not take all results in time")),
        }
        // The client asks for the clock once more and says goodbye.
        // It may still be receiving what waits in send buffers; as long as it asks, it is there.
        let end = Instant::now() + Duration::from_nanos(self.drain.max(MOST_DRAIN_NS));
        while Instant::now() < end {
            match next(messages, SILENCE_LIMIT).await {
                Ok(ClientMessage::Ping(ping)) => pong(out, ping).await?,
                Ok(ClientMessage::Bye) => break,
                Ok(_) => {}
                // Its streams end with it, so that the figures look like those of a whole test.
                Err(error) => {
                    let early = Early::from(error);
                    let why = format!("before it said goodbye: {}", early.why);
                    return Err(Early { why, ..early });
                }
            }
        }
        Ok(())
    }

    async fn run(
        &mut self,
        server: &Arc<Server>,
        messages: &mut Receiver<Result<ClientMessage, ControlError>>,
        out: &mut Outbox,
        told: &mut UnboundedReceiver<DataEvent>,
    ) -> Result<(), Early> {
        let plan = &self.agreed.clone().plan;
        // A test by time was admitted with its length, and its data ends by itself: this is for a client
        // that does not say so.
        let grace = plan.duration().map_or(HEAD_START_NS, |_| LAST_DATA_NS + MOST_DRAIN_NS);
        let most = server.options.max_duration.0.saturating_add(grace);
        let hard_end = Instant::now() + Duration::from_nanos(most);
        let mut heard = Instant::now();
        let warm = Instant::now() + plan.warmup.as_duration();
        let mut cold = plan.warmup.0 > 0;
        let mut watch = tokio::time::interval(Duration::from_millis(250));
        let mut shut = server.shut.clone();
        let mut sent_told = false;
        let mut trouble = None;
        let rate = server.options.max_rate.filter(|_| !matches!(plan.traffic, Traffic::Rr(_)));
        let mut meter =
            rate.map(|rate| RateMeter::new(rate.bits_per_second(), clock::monotonic_ns()));
        let mut idle = Idle::new(Instant::now().into_std());
        while self.reports.len() < self.streams {
            tokio::select! {
                message = messages.recv(), if trouble.is_none() => {
                    heard = Instant::now();
                    match message {
                        Some(Ok(message)) => self.on_message(message, out)?,
                        Some(Err(e)) => trouble = Some(self.abandon(e)),
                        None => trouble = Some(self.abandon(ControlError::Closed)),
                    }
                }
                event = told.recv() => match event {
                    Some(event) => {
                        // Nobody to tell once there is trouble: only the reports count then.
                        let told = self.on_event(event, out, trouble.is_none()).await;
                        if let (Err(e), None) = (told, &trouble) {
                            trouble = Some(self.abandon(e));
                        }
                    }
                    None => return Err(Early::failed("a data thread ended without a word")),
                },
                () = tokio::time::sleep_until(warm), if cold => {
                    cold = false;
                    self.host.warm().await;
                }
                carried = out.carry(), if trouble.is_none() => if let Err(e) = carried {
                    trouble = Some(self.abandon(e));
                },
                () = tokio::time::sleep_until(hard_end), if !self.stopped => {
                    self.stop(out, TOO_LONG);
                    // No data comes any more: either all had time to arrive, or the last is told in time.
                    let wait = if plan.duration().is_some() { 0 } else { self.drain.min(MOST_DRAIN_NS) };
                    self.shared.drain_until(clock::monotonic_ns().saturating_add(wait));
                }
                _ = watch.tick() => {
                    let silent = heard.elapsed().min(standstill::ran_for()) > SILENCE_LIMIT
                        && !self.shared.heard_within(SILENCE_LIMIT);
                    if silent && trouble.is_none() {
                        trouble = Some(self.abandon(Early::vanished("the client fell silent")));
                    }
                    let keeps = meter
                        .as_mut()
                        .is_none_or(|m| m.keeps(self.shared.arrived(), clock::monotonic_ns()));
                    if !keeps && !self.stopped {
                        self.stop(out, "the client sends faster than this server allows");
                        self.shared.drain_until(0);
                    }
                    let most = server.options.no_data;
                    let idle = idle.lasts(self.shared.moved(), Instant::now().into_std());
                    if idle > most && !self.stopped {
                        self.stop(out, &format!("no data moved for {most:?} (--max-idle)"));
                    }
                }
                _ = shut.changed(), if !self.stopped => {
                    self.stop(out, "the server is shutting down");
                }
            }
            if self.shared.over_budget() && !self.stopped {
                let why = "the test carried more bytes than this server's --max-bytes allows";
                self.stop(out, why);
            }
            if self.shared.over_time() && !self.stopped {
                self.stop(out, TOO_LONG);
            }
            if self.shared.over_day() && !self.stopped {
                let why = "its address has carried what this server's --max-bytes-per-day allows";
                self.stop(out, why);
            }
            let senders_done =
                self.reports.values().filter(|r| matches!(r, Report::Send(_))).count();
            let all_sent = senders_done == self.streams_of(Role::Send);
            if all_sent && (self.far_sent || senders_done == self.streams) {
                self.host.over().await;
            }
            if !sent_told && senders_done > 0 && all_sent {
                sent_told = true;
                let sent = data::sent_of(&self.reports);
                let _ = out.put(&ServerMessage::Sent(sent));
            }
        }
        match trouble {
            Some(why) => Err(why),
            None if self.shared.peer_gone() => Err(Early::vanished("the client fell silent")),
            None => Ok(out.empty().await?),
        }
    }

    fn streams_of(&self, role: Role) -> usize {
        let plan = &self.agreed.plan;
        count(&data::streams(plan.direction, plan.streams), &self.agreed, role)
    }

    /// The client is gone: nothing more goes to it, and what was under way ends.
    fn abandon(&mut self, why: impl Into<Early>) -> Early {
        self.stopped = true;
        self.shared.stop();
        self.shared.drain_until(0);
        why.into()
    }

    fn stop(&mut self, out: &mut Outbox, why: &str) {
        self.stopped = true;
        self.shared.stop();
        // Receivers go on until the client has told what it sent.
        self.shared.drain_until(clock::monotonic_ns().saturating_add(2 * MOST_DRAIN_NS));
        let _ = out.put(&ServerMessage::Stopping(why.to_owned()));
        self.early = Some(Early::new(Outcome::Cut, why));
    }

    fn on_message(&mut self, message: ClientMessage, out: &mut Outbox) -> Result<(), Early> {
        match message {
            ClientMessage::Ping(ping) => out.put(&answer(ping))?,
            ClientMessage::Alive => {}
            ClientMessage::Sent(streams) => {
                self.far_sent = true;
                for sent in streams {
                    self.shared.far_end_sent(sent.stream, sent.datagrams);
                }
                self.shared.drain_until(clock::monotonic_ns().saturating_add(self.drain));
                if matches!(self.agreed.plan.traffic, Traffic::Rr(_)) {
                    // The asking end has asked all it will.
                    self.shared.stop();
                }
            }
            ClientMessage::Stop => {
                self.shared.stop();
                let early =
                    || Early::new(Outcome::Stopped, "the client stopped it before its time");
                self.early.get_or_insert_with(early);
            }
            ClientMessage::Bye => {
                self.gone = true;
                let early = Early::new(Outcome::Stopped, "the client said goodbye before the end");
                self.early = Some(self.abandon(early));
            }
            _ => return Err(Early::failed("a message out of turn")),
        }
        Ok(())
    }

    async fn on_event(
        &mut self,
        event: DataEvent,
        out: &mut Outbox,
        tell: bool,
    ) -> Result<(), ControlError> {
        self.host.on_event(&event).await;
        match event {
            DataEvent::Done(stream, report) => {
                self.reports.insert(stream, *report);
            }
            DataEvent::Begun | DataEvent::Warm(..) => {}
            DataEvent::Tick(_, index, tick) => {
                let sum = match tick {
                    Tick::Send(_) => self.send_ticks.add(index, tick),
                    Tick::Recv(_) => self.recv_ticks.add(index, tick),
                    Tick::Rr(_) => None,
                };
                let (send, recv) = match sum {
                    Some(Tick::Send(send)) => (Some(send), None),
                    Some(Tick::Recv(recv)) => (None, Some(recv)),
                    _ => return Ok(()),
                };
                if !tell || out.waiting() > MOST_LIVE_WAITING {
                    return Ok(());
                }
                let live = LiveInterval { index, send, recv, host: self.host.row(index) };
                out.put(&ServerMessage::Interval(Box::new(live)))?;
            }
        }
        Ok(())
    }

    async fn send_results(
        &mut self,
        out: &mut Outbox,
        ids: &[StreamId],
    ) -> Result<(), ControlError> {
        let mut complete = !self.stopped;
        for (&stream, report) in &mut self.reports {
            let Some(id) = ids.iter().find(|id| id.stream == stream) else { continue };
            let (mut send, mut recv) = (Vec::new(), Vec::new());
            let report = match report {
                Report::Send(report) => {
                    send = std::mem::take(&mut report.intervals);
                    complete &= report.error.is_none();
                    StreamReport::Send(Box::new(report.clone()))
                }
                Report::Recv(report) => {
                    recv = std::mem::take(&mut report.intervals);
                    complete &= report.error.is_none();
                    StreamReport::Recv(Box::new(report.clone()))
                }
                Report::Respond(report) => {
                    complete &= report.error.is_none();
                    StreamReport::Respond(report.clone())
                }
                Report::Rr(_) => continue,
            };
            let result = StreamResult { stream, way: id.way, report };
            out.say(&ServerMessage::Stream(Box::new(result))).await?;
            for (i, chunk) in send.chunks(CHUNK_INTERVALS).enumerate() {
                let first = (i * CHUNK_INTERVALS) as u64;
                let chunk = Chunk { stream, first, send: chunk.to_vec(), recv: vec![] };
                out.say(&ServerMessage::Chunk(chunk)).await?;
            }
            for (i, chunk) in recv.chunks(CHUNK_INTERVALS).enumerate() {
                let first = (i * CHUNK_INTERVALS) as u64;
                let chunk = Chunk { stream, first, send: vec![], recv: chunk.to_vec() };
                out.say(&ServerMessage::Chunk(chunk)).await?;
            }
        }
        let host = self.host.finish().await;
        for (first, sample) in host.intervals.iter().enumerate() {
            let chunk = HostChunk { first: first as u64, samples: vec![sample.clone()] };
            out.say(&ServerMessage::HostChunk(chunk)).await?;
        }
        let results =
            Results { host: host.total.unwrap_or_default(), irq_cores: host.irq_cores, complete };
        out.say(&ServerMessage::Results(Box::new(results))).await
    }
}
