//! An agent at work: its orders, what it says of itself, what it sends and keeps.
//!
//! It does one test at a time, and nothing else meanwhile: no heartbeat and no result leaves while a test may be under
//! way. A test ends by this host's own clock, whatever the network does.

use std::path::PathBuf;
use std::time::Duration;

use linerate_broker::Broker;
use linerate_drive::{Clock as _, SystemClock};
use linerate_fleet::lease::{Epoch, Fence};
use linerate_fleet::message::{Answer, Came, Heartbeat, Order, Outcome, Prepare, Role};
use linerate_model::fleet_events::{FleetEvent, RefusalGround};
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_runner::signals::Stop;
use linerate_store::outbox::Outbox;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinError, JoinSet};

use super::consent::{Consent, permitted, policy, reach, refused};
use super::diary::Diary;
use super::made::Made;
use super::mail::{Mail, Sent};
use super::portrait::{Portrait, nat};
use super::words::{log, seconds};
use super::work::{self, Said};

/// It says this often that it is there.
const BEAT_EVERY: Duration = Duration::from_secs(5);
/// What a server needs to begin, and a test to end.
const SOON: Duration = Duration::from_secs(10);

/// When a test is to begin a result that is on its way has so long to arrive: both hosts have twice as long to be ready.
const HUSH: Duration = Duration::from_secs(5);

/// After an order was refused for such a result no other is begun for so long: the pair's next try is to find none.
const HUSHED: Duration = Duration::from_secs(30);

/// A lease that is lower by so many is of another stream: it is their first number in milliseconds, and this is a quarter of an
/// hour, in which no agent is granted as many.
const ANOTHER_STREAM: u64 = 900_000;

/// Where an agent is, and what rules it.
pub struct Place {
    /// The owner's policy.
    pub policy: PathBuf,
    /// At which other hosts reach this one.
    pub address: String,
    /// Port of its servers.
    pub port: u16,
    /// Where is kept what is to be undone of settings.
    pub settings: PathBuf,
}

/// The test of a lease.
struct Slot {
    prepare: Prepare,
    stop: Stop,
    /// A thread is at it.
    begun: bool,
    /// What is set meanwhile.
    made: Option<Made>,
}

/// An agent at work.
pub struct Duty {
    broker: Broker,
    mail: Mail,
    place: Place,
    clock: SystemClock,
    portrait: Portrait,
    diary: Diary,
    fence: Fence,
    slot: Option<Slot>,
    /// Settings of a test that this host answered did not hold: what its client has measured does not count.
    spoiled: Option<(u64, ErrorRecord)>,
    /// That the broker lets it in no more was said.
    refused: bool,
    events: UnboundedSender<Said>,
    said: UnboundedReceiver<Said>,
}

impl Duty {
    /// At a connection, with what it has kept.
    pub fn new(broker: Broker, outbox: Outbox, place: Place) -> Result<Self, ErrorRecord> {
        let mail = Mail::new(outbox);
        let fence = Fence::after(mail.epoch()?);
        let (events, said) = unbounded_channel();
        let (clock, portrait, mut diary) =
            (SystemClock::default(), Portrait::default(), Diary::default());
        let (version, address) = (env!("CARGO_PKG_VERSION").to_owned(), place.address.clone());
        diary.note(FleetEvent::Came { version, address });
        let (slot, spoiled, refused) = (None, None, false);
        Ok(Self {
            broker,
            mail,
            place,
            clock,
            portrait,
            diary,
            fence,
            slot,
            spoiled,
            refused,
            events,
            said,
        })
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Until `stop`.
    pub async fn run(mut self, stop: &Stop) -> Result<(), ErrorRecord> {
        let mut orders = self.broker.orders().await?;
        let mut confirmations = self.broker.confirmations().await?;
        let mut tick = tokio::time::interval(BEAT_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut courier: JoinSet<(String, Sent)> = JoinSet::new();
        let mut reporter: JoinSet<(String, bool)> = JoinSet::new();
        let mut hushed_until = Duration::ZERO;
        loop {
            let over = self.over();
            tokio::select! {
                biased;
                () = over => self.close(),
                () = stop.asked() => break,
                Some(said) = self.said.recv() => self.hear(said),
                order = orders.next() => {
                    let Some((order, asker)) = order else { return Err(gone()) };
                    let begins = matches!(order, Order::Prepare(_)) && self.slot.is_none();
                    let ready = !begins || ended(&mut courier, HUSH, |sent| self.sent(sent)).await;
                    let answer = match ready {
                        true => self.obey(order).await,
                        false => {
                            hushed_until = self.clock.elapsed().saturating_add(HUSHED);
                            Answer::Failed(Box::new(still_sends()))
                        }
                    };
                    // Too long, or to nowhere: whoever asked gives up, and others go on.
                    if let Err(error) = self.broker.answer(asker, &answer).await {
                        log(&format!("{}: {}", error.what, error.why));
                    }
                }
                turn = confirmations.next() => {
                    let Some(turn) = turn else { return Err(gone()) };
                    self.mail.forget(&turn, self.clock.elapsed());
                }
                Some(sent) = courier.join_next() => self.sent(sent),
                Some(reported) = reporter.join_next() => {
                    if let Ok((id, taken)) = reported {
                        self.diary.sent(&id, taken, self.clock.elapsed());
                    }
                }
                _ = tick.tick() => {
                    self.look();
                    // Why it cannot was said.
                    let _ = self.mail.settle();
                    if self.may_speak() {
                        self.beat().await?;
                    }
                }
            }
            if self.may_speak() && reporter.is_empty() {
                self.diary.send_next(&mut reporter, &self.broker, self.clock.elapsed());
            }
            let hushed = self.clock.elapsed() < hushed_until;
            if self.may_speak() && courier.is_empty() && !hushed {
                self.mail.send_next(&mut courier, &self.broker, self.clock.elapsed())?;
            }
        }
        self.end_slot().await;
        self.diary.note(FleetEvent::Went);
        self.diary.finish(&self.broker).await;
        self.mail.settle()
    }

    /// What became of a result that was sent.
    fn sent(&mut self, sent: Result<(String, Sent), JoinError>) {
        if let Ok((turn, sent)) = sent {
            self.mail.note(&turn, sent, self.clock.elapsed());
        }
    }

    /// No test may be under way, and somebody hears it: what is said without a connection would pile up in memory.
    fn may_speak(&self) -> bool {
        self.slot.is_none() && self.broker.is_connected()
    }

    /// Says once that the broker lets this agent in no more.
    fn look(&mut self) {
        let refused = self.broker.is_refused();
        if refused && !self.refused {
            log("the broker lets this agent in no more: it was revoked, or its time is over");
        }
        self.refused = refused;
    }

    /// Resolves when what runs has to be over.
    fn over(&self) -> impl Future<Output = ()> + use<> {
        let left = self.fence.closes_ns().filter(|_| self.slot.is_some());
        let left =
            left.map(|closes_ns| Duration::from_nanos(closes_ns.saturating_sub(self.now_ns())));
        async move {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        }
    }

    /// The lease is over for this host.
    fn close(&mut self) {
        let Some(slot) = &mut self.slot else { return };
        slot.stop.now();
        self.fence.close(Epoch(slot.prepare.epoch));
        log(&format!("the lease of {} is over, or this host's hours are", slot.prepare.turn));
        if !slot.begun {
            self.slot = None;
        }
    }

    async fn obey(&mut self, order: Order) -> Answer {
        let done = match order {
            Order::Ping => Ok(Answer::Done),
            Order::Prepare(prepare) => {
                let (turn, peer) = (prepare.turn.clone(), prepare.peer.clone());
                let prepared = self.prepare(*prepare).await;
                if let Err(error) = &prepared {
                    log(&format!("refused {turn} with {peer}: {}", error.why));
                }
                prepared
            }
            Order::Start { epoch, address, port } => self.start(epoch, (address, port)).await,
            Order::End { epoch } => {
                if self.slot.as_ref().is_some_and(|slot| slot.prepare.epoch == epoch) {
                    self.end_slot().await;
                }
                let spoiled = self.spoiled.take_if(|(of, _)| *of == epoch);
                match (&self.slot, spoiled) {
                    (None, None) => Ok(Answer::Done),
                    (None, Some((_, error))) => Err(error),
                    (Some(_), _) => {
                        Err(refused(ErrorKind::Busy, "another test is under way", "later"))
                    }
                }
            }
        };
        done.unwrap_or_else(|error| Answer::Failed(Box::new(error)))
    }

    fn note_refused(&mut self, ground: RefusalGround, why: &str, prepare: &Prepare) {
        let (lease, turn) = (prepare.epoch, Some(prepare.turn.clone()));
        self.diary.note(FleetEvent::Refused { ground, why: why.to_owned(), lease, turn });
    }

    /// What the owner says of a test now.
    fn consent(&mut self, prepare: &Prepare) -> Result<Consent, ErrorRecord> {
        let permitted = permitted(&self.place.policy, prepare);
        permitted.inspect_err(|error| {
            self.note_refused(RefusalGround::Policy, &error.why, prepare);
        })
    }

    /// A test ends with the owner's hours.
    fn close_after(&mut self, now_ns: u64, left_ns: Option<u64>) {
        if let Some(left_ns) = left_ns {
            self.fence.close_by(now_ns.saturating_add(left_ns));
        }
    }

    async fn prepare(&mut self, prepare: Prepare) -> Result<Answer, ErrorRecord> {
        let now_ns = self.now_ns();
        let consent = self.consent(&prepare)?;
        if !self.fence.prepare(now_ns, prepare.epoch(), prepare.term()) {
            let (why, hint) = late(prepare.epoch, self.fence.highest());
            self.note_refused(RefusalGround::Lease, &why, &prepare);
            return Err(refused(ErrorKind::Busy, why, hint));
        }
        self.close_after(now_ns, consent.left_ns);
        self.mail.raise(prepare.epoch())?;
        self.end_slot().await;
        if self.slot.is_some() {
            self.fence.close(prepare.epoch());
            return Err(refused(
                ErrorKind::Busy,
                "the test before this one has not ended",
                "later",
            ));
        }
        let made = match prepare.set.is_empty() {
            true => None,
            false => Some(self.make(&prepare, consent.policy.device()).await?),
        };
        let stop = Stop::default();
        let (role, epoch) = (prepare.role, prepare.epoch);
        log(&format!("ready for {} as {role:?} with {}", prepare.turn, prepare.peer).to_lowercase());
        if role == Role::Server {
            work::serve(&prepare, self.place.port, &consent, stop.clone(), &self.events);
        }
        self.slot = Some(Slot { prepare, stop, begun: role == Role::Server, made });
        match role {
            Role::Client => Ok(Answer::Done),
            Role::Server => self.listening(epoch).await,
        }
    }

    /// Has set what a test wants.
    async fn make(&mut self, prepare: &Prepare, device: Option<&str>) -> Result<Made, ErrorRecord> {
        let (state, device) = (self.place.settings.clone(), device.map(str::to_owned));
        let (set, epoch) = (prepare.set.clone(), prepare.epoch());
        let shown = set.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let made = tokio::task::spawn_blocking(move || Made::new(state, device, set));
        // One that comes later is put back at once.
        let made = match tokio::time::timeout(SOON, made).await {
            Ok(Ok(made)) => made,
            _ => Err(refused(ErrorKind::Busy, "its settings were not made in time", "later")),
        };
        match &made {
            Ok(_) => log(&format!("set {shown} for {}", prepare.turn)),
            Err(_) => self.fence.close(epoch),
        }
        made
    }

    /// Waits for the server of a lease.
    async fn listening(&mut self, epoch: u64) -> Result<Answer, ErrorRecord> {
        let said = async {
            loop {
                match self.said.recv().await {
                    Some(Said::Listening(of, port)) if of == epoch => return Some(Ok(port)),
                    Some(Said::Ended(of, came)) if of == epoch => return Some(Err(came)),
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        let said = tokio::time::timeout(SOON, said).await.ok().flatten();
        if let Some(Ok(port)) = said {
            return Ok(Answer::Ready { address: self.place.address.clone(), port });
        }
        self.fence.close(Epoch(epoch));
        if let Some(slot) = &self.slot {
            slot.stop.now();
        }
        match said {
            Some(Err(came)) => {
                self.slot = None;
                match came {
                    Some(Came::Failed(error)) => Err(*error),
                    _ => Err(refused(ErrorKind::Busy, "its server ended at once", "later")),
                }
            }
            _ => Err(refused(ErrorKind::Busy, "its server did not begin", "later")),
        }
    }

    async fn start(&mut self, epoch: u64, at: (String, u16)) -> Result<Answer, ErrorRecord> {
        let now_ns = self.now_ns();
        let open = self.fence.is_open(now_ns, Epoch(epoch));
        let is_next = |slot: &Slot| {
            open && slot.prepare.epoch == epoch && slot.prepare.role == Role::Client && !slot.begun
        };
        let Some(prepare) =
            self.slot.as_ref().filter(|slot| is_next(slot)).map(|s| s.prepare.clone())
        else {
            return Err(self.refuse_start(epoch));
        };
        // Much may have passed since it was asked, and its policy may be another one.
        let allowed = match self.consent(&prepare) {
            Ok(consent) => reach(&consent.networks, at, prepare.test.ip)
                .await
                .inspect_err(|error| self.note_refused(RefusalGround::Policy, &error.why, &prepare))
                .map(|at| (at, consent.left_ns)),
            Err(error) => Err(error),
        };
        let (at, left_ns) = allowed.inspect_err(|error| {
            log(&format!("refused to start {}: {}", prepare.turn, error.why));
        })?;
        self.close_after(now_ns, left_ns);
        if !self.fence.is_open(self.now_ns(), Epoch(epoch)) {
            return Err(self.refuse_start(epoch));
        }
        if let Some(slot) = &mut self.slot {
            slot.begun = true;
            work::test(&slot.prepare, at, slot.stop.clone(), &self.events);
        }
        Ok(Answer::Done)
    }

    /// There is nothing under this lease that may begin now.
    fn refuse_start(&mut self, epoch: u64) -> ErrorRecord {
        let why = format!("lease {epoch} is over, was never told, or its test has begun");
        log(&format!("refused to start: {why}"));
        let (ground, why_not, turn) = (RefusalGround::Lease, why.clone(), None);
        self.diary.note(FleetEvent::Refused { ground, why: why_not, lease: epoch, turn });
        refused(ErrorKind::Busy, why, "ask for another lease")
    }

    /// Ends what is under way, and waits for its end for some time.
    async fn end_slot(&mut self) {
        let Some(slot) = &self.slot else { return };
        slot.stop.now();
        if !slot.begun {
            self.fence.close(Epoch(slot.prepare.epoch));
            self.slot = None;
        }
        let ended = async {
            while self.slot.is_some() {
                let Some(said) = self.said.recv().await else { return };
                self.hear(said);
            }
        };
        let _ = tokio::time::timeout(SOON, ended).await;
    }

    /// Something of a thread of a test. What is not of the lease of now is late.
    fn hear(&mut self, said: Said) {
        let (epoch, came) = match said {
            Said::Ended(epoch, came) => (epoch, came),
            Said::Stranger(lease, why) => {
                let (ground, turn) = (RefusalGround::Token, None);
                self.diary.note(FleetEvent::Refused { ground, why, lease, turn });
                return;
            }
            Said::Listening(..) => return,
        };
        let Some(slot) = self.slot.take_if(|slot| slot.prepare.epoch == epoch) else { return };
        self.fence.close(Epoch(epoch));
        let held = slot.made.map_or(Ok(()), Made::end);
        let came = match (held, slot.prepare.role) {
            (Ok(()), _) => came,
            (Err(error), Role::Client) => Some(Came::Failed(Box::new(error))),
            (Err(error), Role::Server) => {
                log(&format!("{}: {}", error.what, error.why));
                self.spoiled = Some((epoch, error));
                came
            }
        };
        let Prepare { role, turn, .. } = slot.prepare;
        if let (Role::Client, Some(came)) = (role, came) {
            let outcome = Outcome { turn: turn.clone(), epoch, came };
            if let Err(error) = self.mail.keep(outcome, self.broker.most_bytes()) {
                let kept = format!("{turn} has ended, and what came of it waits in memory");
                return log(&format!("{kept}: {}: {}", error.what, error.why));
            }
        }
        // Whoever reads this may kill it: what came of it is on the disk by now.
        log(&format!("{turn} has ended"));
    }

    async fn beat(&mut self) -> Result<(), ErrorRecord> {
        let now_s = seconds();
        let waiting = self.mail.waiting(now_s, self.clock.elapsed())?;
        let policy = policy(&self.place.policy).ok().map(|(policy, _)| policy);
        let beat = Heartbeat {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            address: self.place.address.clone(),
            epoch: self.fence.highest().0,
            waiting: waiting.count,
            oldest_s: waiting.oldest_s.map(|at_s| now_s.saturating_sub(at_s)),
            policy: policy.is_some(),
            allows: policy.map(|policy| policy.words()),
            nat: self.broker.seen_as().and_then(nat),
            ..self.portrait.now(self.clock.elapsed(), waiting.count)
        };
        self.broker.beat(&beat).await
    }
}

/// Waits for the end of all these tasks, for so long, and hands over what they say. Says whether all have ended.
async fn ended<T: 'static>(
    tasks: &mut JoinSet<T>,
    limit: Duration,
    mut take: impl FnMut(Result<T, JoinError>),
) -> bool {
    let all = async {
        while let Some(task) = tasks.join_next().await {
            take(task);
        }
    };
    tokio::time::timeout(limit, all).await.is_ok()
}

fn still_sends() -> ErrorRecord {
    let why = "a result of before is still on its way to the broker, and would be beside the test";
    refused(ErrorKind::Busy, why, "later")
}

/// Why a lease is not obeyed, and what to do about it.
fn late(epoch: u64, highest: Epoch) -> (String, &'static str) {
    let why = format!("lease {epoch} is not later than all before, which came to {}", highest.0);
    let hint = match highest.0.saturating_sub(epoch) {
        ..ANOTHER_STREAM => "what was sent before is not obeyed again",
        _ => {
            "the clock was wrong where the broker's LR_LEASE was made, now or before: docs/agents.md"
        }
    };
    (why, hint)
}

fn gone() -> ErrorRecord {
    let hint = "linerate agent, started again, sends what it has kept";
    let why = "the connection to the broker was given up";
    ErrorRecord::new(ErrorKind::Connect, "this agent cannot go on", why, &[hint])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_a_wrong_clock_is_told_from_an_order_that_came_late() {
        let (why, hint) = late(1_764_000_000_000, Epoch(1_764_000_000_007));
        assert!(why.ends_with("which came to 1764000000007"), "{why}");
        assert!(hint.starts_with("what was sent before"), "{hint}");
        assert!(late(7, Epoch(1_764_000_000_007)).1.contains("the clock was wrong"));
        assert!(late(9, Epoch(7)).1.starts_with("what was sent before"));
    }

    #[tokio::test]
    async fn a_result_that_is_still_on_its_way_is_told_from_one_that_has_left() {
        let mut courier = JoinSet::new();
        let mut left = Vec::new();
        let mut take = |turn: Result<&'static str, JoinError>| left.push(turn.unwrap());
        courier.spawn(async { "run.0.1" });
        let hangs = Duration::from_secs(60);
        assert!(ended(&mut courier, hangs, &mut take).await);
        courier.spawn(std::future::pending::<&'static str>());
        assert!(!ended(&mut courier, Duration::ZERO, &mut take).await);
        assert_eq!((left, courier.len()), (vec!["run.0.1"], 1), "it goes on");
    }
}
