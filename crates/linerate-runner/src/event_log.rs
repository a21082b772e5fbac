//! The way of a server's events to its owner, which no owner can hold up: a queue of bounded length,
//! and a thread of its own that writes.
//!
//! What finds no room is counted, and the count is reported as soon as there is room again. One peer's
//! refusals are reported one by one at a limited rate and counted beyond it, so that a flood of them
//! neither fills the queue nor a disk.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use linerate_model::served::ServedTest;

use crate::event::Event;
use crate::network::Network;

/// Events that wait at most, but for ends of tests whose start was taken in. Each takes some hundred bytes; rows of an
/// iperf3 test with 128 streams some 20 KiB.
const MOST_QUEUED: usize = 2_048;
/// What many of may come at a stranger's wish takes no more places than this: the others are for
/// starts and ends of tests.
const MOST_COMMON: usize = MOST_QUEUED / 4;
/// Refusals of one network that are reported one by one at once. 16 clients behind one address may be
/// refused four times each.
const BURST: u32 = 64;
/// And one more each time so much has passed.
const REFILL: Duration = Duration::from_secs(1);
/// What was counted is reported this often.
const COUNTS_EVERY: Duration = Duration::from_secs(10);
/// Networks whose refusals are counted apart; some 100 bytes each.
const MOST_NETWORKS: usize = 4_096;

/// Where a server's tasks report events; reporting never waits.
#[derive(Clone)]
pub(crate) struct Events(Arc<dyn Fn(Event) + Send + Sync>);

impl Events {
    pub(crate) fn new(report: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }

    pub(crate) fn send(&self, mut event: Event) {
        event.cut();
        (self.0)(event);
    }
}

/// The queue.
#[derive(Default)]
pub(crate) struct EventLog {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Each with the time at which it happened: it may be written much later.
    queue: VecDeque<(SystemTime, Event)>,
    /// Tests whose start was taken in, and that have not ended: their dialect and client.
    begun: HashSet<(&'static str, String)>,
    /// Events that found no room, and were not yet reported.
    dropped: u64,
    refusals: HashMap<Network, Refusals>,
    counts_reported: Option<Instant>,
    closed: bool,
    /// The writer has reported everything there was.
    written: bool,
}

/// A bucket of refusals of one network.
struct Refusals {
    left: u32,
    filled: Instant,
    untold: u64,
}

impl Refusals {
    fn refill(&mut self, now: Instant) {
        let gained = now.saturating_duration_since(self.filled).as_secs() / REFILL.as_secs();
        let gained = u32::try_from(gained).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(gained).min(BURST);
        self.filled += REFILL.saturating_mul(gained);
    }

    /// Nothing would be forgotten with it.
    fn is_idle(&self) -> bool {
        self.left == BURST && self.untold == 0
    }
}

impl State {
    fn put(&mut self, at: SystemTime, now: Instant, event: Event) {
        let most = match &event {
            Event::Refused { peer, .. } => {
                if !self.reports_refusal(Network::of(peer.ip()), now) {
                    return;
                }
                MOST_COMMON
            }
            Event::Test { .. } => MOST_COMMON,
            // Whoever is told of a start waits for the end. There are no more of them than starts that found room.
            Event::TestEnded(test, _) if self.begun.remove(&of(test)) => usize::MAX,
            _ => MOST_QUEUED,
        };
        if self.queue.len() < most {
            if let Event::TestStarted(test) = &event {
                self.begun.insert(of(test));
            }
            self.queue.push_back((at, event));
        } else {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    fn reports_refusal(&mut self, network: Network, now: Instant) -> bool {
        if self.refusals.len() >= MOST_NETWORKS && !self.refusals.contains_key(&network) {
            self.refusals.retain(|_, refusals| {
                refusals.refill(now);
                !refusals.is_idle()
            });
            if self.refusals.len() >= MOST_NETWORKS {
                self.dropped = self.dropped.saturating_add(1);
                return false;
            }
        }
        let fresh = || Refusals { left: BURST, filled: now, untold: 0 };
        let refusals = self.refusals.entry(network).or_insert_with(fresh);
        refusals.refill(now);
        // Once some are only counted, so are those that follow until the count is reported.
        match refusals.left.checked_sub(1).filter(|_| refusals.untold == 0) {
            Some(left) => refusals.left = left,
            None => refusals.untold = refusals.untold.saturating_add(1),
        }
        refusals.untold == 0
    }

    /// Counts that are due, before what follows them in the queue.
    fn counts(&mut self, now: Instant) -> Vec<Event> {
        let mut reported = Vec::new();
        if self.dropped > 0 {
            reported.push(Event::LogDropped { events: std::mem::take(&mut self.dropped) });
        }
        let since = *self.counts_reported.get_or_insert(now);
        if self.closed || now.saturating_duration_since(since) >= COUNTS_EVERY {
            self.counts_reported = Some(now);
            for (network, refusals) in &mut self.refusals {
                refusals.refill(now);
                let count = std::mem::take(&mut refusals.untold);
                if count > 0 {
                    reported.push(Event::RefusedMore { network: *network, count });
                }
            }
            self.refusals.retain(|_, refusals| !refusals.is_idle());
        }
        reported
    }
}

fn of(test: &ServedTest) -> (&'static str, String) {
    (test.dialect.name(), test.peer.clone())
}

impl EventLog {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the queue whole: every change is one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an event of `at`, or counts it; never waits for who writes.
    pub(crate) fn put(&self, at: SystemTime, event: Event) {
        self.lock().put(at, Instant::now(), event);
        self.changed.notify_all();
    }

    /// Reports to `report` what comes, until the log is closed and everything was reported.
    pub(crate) fn write_to(&self, report: &mut dyn FnMut(SystemTime, Event)) {
        loop {
            let mut state = self.lock();
            let counts = state.counts(Instant::now());
            let next = state.queue.pop_front();
            if counts.is_empty() && next.is_none() {
                if state.closed {
                    state.written = true;
                    self.changed.notify_all();
                    return;
                }
                // Looks again for counts that are due, also where nothing comes.
                drop(self.changed.wait_timeout(state, COUNTS_EVERY));
                continue;
            }
            // Nothing is locked while somebody may be slow to read.
            drop(state);
            let counts = counts.into_iter().map(|event| (SystemTime::now(), event));
            for (at, event) in counts.chain(next) {
                report(at, event);
            }
        }
    }

    /// Nothing more will come: waits for the writer, but no longer than `limit`.
    pub(crate) fn close(&self, limit: Duration) {
        let mut state = self.lock();
        state.closed = true;
        self.changed.notify_all();
        let _ = self.changed.wait_timeout_while(state, limit, |state| !state.written);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use linerate_model::plan::Dialect;
    use linerate_testkit::served;
    use linerate_wire::native::message::RefusalKind;

    use super::*;

    fn refused(peer: &str) -> Event {
        let peer: SocketAddr = peer.parse().unwrap();
        Event::Refused {
            peer,
            key: None,
            asked: None,
            kind: RefusalKind::Protocol,
            why: "noise".into(),
        }
    }

    fn written(log: &EventLog) -> Vec<Event> {
        log.lock().closed = true;
        let mut events = Vec::new();
        log.write_to(&mut |_, event| events.push(event));
        events
    }

    #[test]
    fn a_peers_words_in_a_reason_are_cut() {
        let (sender, sent) = std::sync::mpsc::channel();
        let events = Events::new(move |event| sender.send(event).unwrap());
        let peer = SocketAddr::from(([192, 0, 2, 7], 1));
        for (length, chars) in [(65_000, 301), (300, 300)] {
            let (kind, why) = (RefusalKind::Protocol, "漢".repeat(length));
            events.send(Event::Refused { peer, key: None, asked: None, kind, why });
            let Ok(Event::Refused { why, .. }) = sent.recv() else { panic!("a refusal") };
            assert_eq!(why.chars().count(), chars);
            assert!(why.capacity() < 4_096, "{} bytes wait", why.capacity());
        }
    }

    #[test]
    fn a_flood_of_one_network_is_counted_and_the_refusals_of_others_are_told() {
        let log = EventLog::default();
        for host in 0..3_000 {
            log.put(SystemTime::now(), refused(&format!("[2001:db8::{host:x}]:1000")));
        }
        log.put(SystemTime::now(), refused("192.0.2.7:1000"));
        let events = written(&log);
        let reported = events.iter().filter(|e| matches!(e, Event::Refused { .. })).count();
        let more = events.iter().find_map(|e| match e {
            Event::RefusedMore { network, count } => Some((network.to_string(), *count)),
            _ => None,
        });
        // A slow machine may have filled the bucket a little meanwhile.
        let (network, more) = more.expect("the rest is counted");
        assert_eq!(network, "2001:db8::/64");
        assert_eq!(reported as u64 + more, 3_001);
        assert!(more > 2_000, "{more}");
        assert!(events.contains(&refused("192.0.2.7:1000")));
    }

    #[test]
    fn what_finds_no_room_is_counted_and_ends_of_tests_find_room() {
        let log = EventLog::default();
        for host in 0..2_000 {
            log.put(SystemTime::now(), refused(&format!("10.0.{}.{}:1", host / 250, host % 250)));
        }
        let listening = || Event::Listening(Dialect::Native, SocketAddr::from(([0; 4], 5201)));
        for _ in 0..MOST_QUEUED {
            log.put(SystemTime::now(), listening());
        }
        let events = written(&log);
        let count = |event: &dyn Fn(&Event) -> bool| events.iter().filter(|e| event(e)).count();
        assert_eq!(count(&|e| matches!(e, Event::Refused { .. })), MOST_COMMON);
        assert_eq!(count(&|e| *e == listening()), MOST_QUEUED - MOST_COMMON);
        let dropped = (2_000 - MOST_COMMON + MOST_COMMON) as u64;
        assert_eq!(events.first(), Some(&Event::LogDropped { events: dropped }));
    }

    #[test]
    fn every_start_that_was_taken_in_has_its_end() {
        let test = |peer| Box::new(served::test(peer));
        let started = |peer| Event::TestStarted(test(peer));
        let ended = |peer| Event::TestEnded(test(peer), Box::new(served::done()));
        let log = EventLog::default();
        let put = |event| log.put(SystemTime::now(), event);
        // It was written, and ends after all others have.
        put(started(3_000));
        assert_eq!(written(&log), [started(3_000)]);
        (0..3_000).map(started).for_each(put);
        (0..=3_000).map(ended).for_each(put);
        let events = written(&log);
        let dropped = 2 * (3_000 - MOST_QUEUED) as u64;
        assert_eq!(events.first(), Some(&Event::LogDropped { events: dropped }));
        let mut running = HashSet::from(["192.0.2.7:3000"]);
        for event in &events {
            match event {
                Event::TestStarted(test) => assert!(running.insert(&test.peer)),
                Event::TestEnded(test, _) => assert!(running.remove(&*test.peer)),
                _ => {}
            }
        }
        assert!(running.is_empty(), "{running:?}");
        assert!(log.lock().begun.is_empty());
    }

    #[test]
    fn a_bucket_fills_with_time_and_is_forgotten_when_it_is_full() {
        let mut state = State::default();
        let (at, now) = (SystemTime::now(), Instant::now());
        for _ in 0..=BURST {
            state.put(at, now, refused("192.0.2.7:1000"));
        }
        assert_eq!(state.queue.len(), BURST as usize);
        assert!(state.counts(now).is_empty(), "not yet due");
        let later = now + COUNTS_EVERY;
        let network = Network::of("192.0.2.7".parse().unwrap());
        assert_eq!(state.counts(later), [Event::RefusedMore { network, count: 1 }]);
        state.put(at, later, refused("192.0.2.7:1001"));
        assert_eq!(state.queue.len(), BURST as usize + 1, "reported one by one again");
        state.counts(later + REFILL * BURST + COUNTS_EVERY);
        assert!(state.refusals.is_empty());
    }
}
