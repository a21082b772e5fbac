//! What one address, or one /64 of IPv6, may have of a server: places to wait, and bytes a day. Its
//! share of running tests is [`crate::admission`]'s.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linerate_dialect::Whose;
use linerate_model::plan::TestPlan;
use linerate_wire::native::message::{RefusalKind, Refused};

use crate::data::DayBudget;
use crate::demand;
use crate::network::{Cidr, Network};

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves the map whole: every change is one call.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connections that have not yet asked for a test, or tests of iperf3's clients that wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<WaitingNow>);

#[derive(Debug, Default)]
struct WaitingNow {
    all: usize,
    of: HashMap<Network, usize>,
}

/// A place to wait; free again when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    waiting: Arc<Waiting>,
    network: Network,
}

impl Waiting {
    /// # Errors
    /// When `most` wait already, or `most_of_one` of the peer's network: why, in words.
    pub(crate) fn enter(
        self: &Arc<Self>,
        peer: IpAddr,
        most: usize,
        most_of_one: usize,
    ) -> Result<Place, String> {
        let network = Network::of(peer);
        let mut now = lock(&self.0);
        if now.all >= most {
            return Err(format!("{most} connections wait to ask for a test already"));
        }
        let of = now.of.entry(network).or_default();
        if *of >= most_of_one {
            return Err(format!(
                "{of} connections of {network} wait to ask for a test already (--max-waiting-per-address)"
            ));
        }
        *of += 1;
        now.all += 1;
        Ok(Place { waiting: Arc::clone(self), network })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut now = lock(&self.waiting.0);
        now.all = now.all.saturating_sub(1);
        if let Some(of) = now.of.get_mut(&self.network) {
            *of = of.saturating_sub(1);
            if *of == 0 {
                now.of.remove(&self.network);
            }
        }
    }
}

/// From the first byte of a network's day to its next day.
const DAY: Duration = Duration::from_secs(86_400);
/// Networks whose days are known: some 100 bytes each.
const MOST_DAYS: usize = 65_536;

/// Whose bytes are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Whom {
    /// One address, or one /64 of IPv6.
    Address(Network),
    /// A network with a budget.
    Network(Cidr),
    /// A key with one.
    Key {
        /// What tells it from others.
        id: String,
        /// What it is called.
        name: String,
    },
}

impl Whom {
    fn whose(&self) -> Whose {
        match self {
            Self::Address(_) => Whose::Address,
            Self::Network(_) => Whose::Network,
            Self::Key { .. } => Whose::Key,
        }
    }
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(network) => network.fmt(f),
            Self::Network(cidr) => write!(f, "the network {cidr}"),
            Self::Key { name, .. } => write!(f, "the key `{name}`"),
        }
    }
}

/// What each address, network and key has carried in its day.
#[derive(Debug, Default)]
pub(crate) struct Days(Mutex<HashMap<Whom, Day>>);

#[derive(Debug)]
struct Day {
    since: Instant,
    /// How old it was then.
    before: Duration,
    carried: Arc<AtomicU64>,
}

impl Day {
    fn age(&self, now: Instant) -> Duration {
        self.before.saturating_add(now.saturating_duration_since(self.since))
    }
}

/// What was carried in a day that goes on, for the next server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) whom: Whom,
    /// When the day began, in seconds of Unix time.
    pub(crate) since_s: i64,
    pub(crate) bytes: u64,
}

impl Days {
    /// What was carried in days that go on at `now`: of the monotonic clock, and in seconds of Unix time.
    pub(crate) fn carried(&self, (now, unix_s): (Instant, i64)) -> Vec<Carried> {
        let days = lock(&self.0);
        let young = days.iter().filter(|(_, day)| day.age(now) < DAY);
        let carried = young.map(|(whom, day)| {
            let age_s = i64::try_from(day.age(now).as_secs()).unwrap_or(i64::MAX);
            let (since_s, bytes) =
                (unix_s.saturating_sub(age_s), day.carried.load(Ordering::Relaxed));
            Carried { whom: whom.clone(), since_s, bytes }
        });
        carried.filter(|day| day.bytes > 0).collect()
    }

    /// Goes on with those days; how many there were. One that begins in the future, as the clock was set back,
    /// begins now.
    pub(crate) fn take_up(&self, carried: &[Carried], (now, unix_s): (Instant, i64)) -> usize {
        let mut days = lock(&self.0);
        for Carried { whom, since_s, bytes } in carried {
            let age_s = u64::try_from(unix_s.saturating_sub(*since_s)).unwrap_or(0);
            let before = Duration::from_secs(age_s);
            if before < DAY && days.len() < MOST_DAYS {
                let carried = Arc::new(AtomicU64::new(*bytes));
                days.insert(whom.clone(), Day { since: now, before, carried });
            }
        }
        days.len()
    }

    /// The bytes of the day of `whom`, which may carry `most` of them in it, where they leave room for a plan.
    ///
    /// # Errors
    /// When they do not: what is left, or when there is more.
    pub(crate) fn budget(
        &self,
        whom: Whom,
        most: u64,
        plan: &TestPlan,
        now: Instant,
    ) -> Result<DayBudget, Refused> {
        let hint = match &whom {
            Whom::Address(_) => "start the server with a larger --max-bytes-per-day",
            Whom::Network(_) | Whom::Key { .. } => {
                "give it a larger max-bytes-per-day in the server's file of keys"
            }
        };
        let refuse = |why: String, hint: String| Refused {
            kind: RefusalKind::Policy,
            why,
            hints: vec![hint],
        };
        let day = self.day(&whom, most, now).map_err(|why| refuse(why, hint.to_owned()))?;
        match demand::bytes(plan).filter(|bytes| *bytes > day.left()) {
            None => Ok(day),
            Some(bytes) => Err(refuse(
                format!(
                    "{bytes} bytes are more than the {} that {whom} has left of its day",
                    day.left()
                ),
                format!("ask for fewer with --bytes or --count, or {hint}"),
            )),
        }
    }

    fn day(&self, whom: &Whom, most: u64, now: Instant) -> Result<DayBudget, String> {
        let mut days = lock(&self.0);
        if days.len() >= MOST_DAYS && !days.contains_key(whom) {
            days.retain(|_, day| day.age(now) < DAY);
            // Whoever carried least is forgotten, if need be.
            let least = days.iter().min_by_key(|(_, day)| day.carried.load(Ordering::Relaxed));
            let least = least.map(|(whom, _)| whom.clone());
            if let Some(least) = least.filter(|_| days.len() >= MOST_DAYS) {
                days.remove(&least);
            }
        }
        let fresh = || Day { since: now, before: Duration::ZERO, carried: Arc::default() };
        let day = days.entry(whom.clone()).or_insert_with(fresh);
        if day.age(now) >= DAY {
            *day = fresh();
        }
        let carried = day.carried.load(Ordering::Relaxed);
        if carried >= most {
            let minutes = DAY.saturating_sub(day.age(now)).as_secs().div_ceil(60);
            let limit = match whom {
                Whom::Address(_) => "this server allows an address",
                Whom::Network(_) | Whom::Key { .. } => "its budget is",
            };
            return Err(format!(
                "{whom} has carried {carried} bytes, and {limit} {most} in 24 h; it may go on in {} h {} min",
                minutes / 60,
                minutes % 60
            ));
        }
        Ok(DayBudget::new(Arc::clone(&day.carried), most, whom.whose()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_network_does_not_take_all_places_to_wait() {
        let waiting = Arc::new(Waiting::default());
        let enter = |peer: &str| waiting.enter(ip(peer), 5, 3);
        let mut places: Vec<Place> =
            (1..=3).map(|host| enter(&format!("2001:db8::{host}")).unwrap()).collect();
        let why = enter("2001:db8::4").unwrap_err();
        assert!(why.starts_with("3 connections of 2001:db8::/64 wait"), "{why}");
        places.push(enter("2001:db8:0:1::1").unwrap());
        places.push(enter("192.0.2.7").unwrap());
        assert!(enter("192.0.2.8").unwrap_err().starts_with("5 connections wait"));
        places.remove(0);
        assert!(enter("2001:db8::4").is_ok());
        drop(places);
        let now = lock(&waiting.0);
        assert_eq!((now.all, now.of.len()), (0, 0));
    }

    #[test]
    fn a_day_is_shared_by_a_networks_tests_and_ends() {
        let days = Days::default();
        let now = Instant::now();
        let budget = |peer: &str, at| days.day(&Whom::Address(Network::of(ip(peer))), 1_000, at);
        let one = budget("2001:db8::1", now).unwrap();
        let two = budget("2001:db8::2", now).unwrap();
        assert!(!one.charge(600) && !two.charge(400));
        assert_eq!((one.left(), two.left()), (0, 0));
        assert!(one.charge(1));
        let later = now + Duration::from_secs(3_600);
        let why = budget("2001:db8::3", later).unwrap_err();
        assert!(why.contains("2001:db8::/64 has carried 1001 bytes"), "{why}");
        assert!(why.contains("it may go on in 23 h 0 min"), "{why}");
        assert_eq!(budget("192.0.2.7", later).unwrap().left(), 1_000);
        assert_eq!(budget("2001:db8::3", now + DAY).unwrap().left(), 1_000);
    }

    #[test]
    fn a_day_goes_on_at_the_next_server() {
        let whom = Whom::Network("192.0.2.0/24".parse().unwrap());
        let (now, hour) = (Instant::now(), Duration::from_secs(3_600));
        let days = Days::default();
        days.take_up(&[], (now, 50_000));
        assert!(!days.day(&whom, 1_000, now).unwrap().charge(600));
        let address = Whom::Address(Network::of(ip("192.0.2.7")));
        days.day(&address, 1_000, now).unwrap();
        let carried = days.carried((now + hour, 53_600));
        assert_eq!(carried, [Carried { whom: whom.clone(), since_s: 50_000, bytes: 600 }]);
        // Ten hours later on another host's monotonic clock.
        let next = Days::default();
        assert_eq!(next.take_up(&carried, (now, 86_000)), 1);
        assert_eq!(next.day(&whom, 1_000, now).unwrap().left(), 400);
        let why = next.day(&whom, 600, now).unwrap_err();
        assert!(why.ends_with("it may go on in 14 h 0 min"), "{why}");
        assert_eq!(next.day(&whom, 1_000, now + 14 * hour).unwrap().left(), 1_000);
        // A clock that was set back makes no day longer, and one that is over is none.
        assert_eq!(Days::default().take_up(&carried, (now, 50_000 + 86_400)), 0);
        let back = Days::default();
        assert_eq!(back.take_up(&carried, (now, 0)), 1);
        assert_eq!(back.day(&whom, 1_000, now + 24 * hour).unwrap().left(), 1_000);
    }

    #[test]
    fn who_carried_least_is_forgotten_first() {
        let days = Days::default();
        let now = Instant::now();
        let host =
            |n: usize| Whom::Address(Network::of(std::net::Ipv4Addr::from_bits(n as u32).into()));
        for n in 0..MOST_DAYS {
            let charged = days.day(&host(n), 10, now).unwrap().charge(if n == 7 { 1 } else { 2 });
            assert!(!charged);
        }
        days.day(&host(MOST_DAYS), 10, now).unwrap();
        assert_eq!(lock(&days.0).len(), MOST_DAYS);
        assert!(!lock(&days.0).contains_key(&host(7)));
    }
}
