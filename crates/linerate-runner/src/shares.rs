//! What one address, or one /64 of IPv6, may have of a server: places to wait, and bytes a day. Its
//! share of running tests is [`crate::admission`]'s.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::data::DayBudget;
use crate::network::Network;

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves the map whole: every change is one call.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connections that have not yet asked for a test.
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

/// What each network has carried in its day.
#[derive(Debug, Default)]
pub(crate) struct Days(Mutex<HashMap<Network, Day>>);

#[derive(Debug)]
struct Day {
    since: Instant,
    carried: Arc<AtomicU64>,
}

impl Days {
    /// The day of the peer's network, which may carry `most` bytes in it.
    ///
    /// # Errors
    /// When it has carried them: why, in words.
    pub(crate) fn budget(
        &self,
        peer: IpAddr,
        most: u64,
        now: Instant,
    ) -> Result<DayBudget, String> {
        let network = Network::of(peer);
        let mut days = lock(&self.0);
        let age = |day: &Day| now.saturating_duration_since(day.since);
        if days.len() >= MOST_DAYS && !days.contains_key(&network) {
            days.retain(|_, day| age(day) < DAY);
            // Whoever carried least is forgotten, if need be.
            let least = days.iter().min_by_key(|(_, day)| day.carried.load(Ordering::Relaxed));
            if let Some(least) =
                least.map(|(network, _)| *network).filter(|_| days.len() >= MOST_DAYS)
            {
                days.remove(&least);
            }
        }
        let fresh = || Day { since: now, carried: Arc::default() };
        let day = days.entry(network).or_insert_with(fresh);
        if age(day) >= DAY {
            *day = fresh();
        }
        let carried = day.carried.load(Ordering::Relaxed);
        if carried >= most {
            let minutes = DAY.saturating_sub(age(day)).as_secs().div_ceil(60);
            return Err(format!(
                "{network} has carried {carried} bytes, and this server allows an address {most} in 24 h; it may go on in {} h {} min",
                minutes / 60,
                minutes % 60
            ));
        }
        Ok(DayBudget::new(Arc::clone(&day.carried), most))
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
        let one = days.budget(ip("2001:db8::1"), 1_000, now).unwrap();
        let two = days.budget(ip("2001:db8::2"), 1_000, now).unwrap();
        assert!(!one.charge(600) && !two.charge(400));
        assert_eq!((one.left(), two.left()), (0, 0));
        assert!(one.charge(1));
        let later = now + Duration::from_secs(3_600);
        let why = days.budget(ip("2001:db8::3"), 1_000, later).unwrap_err();
        assert!(why.contains("2001:db8::/64 has carried 1001 bytes"), "{why}");
        assert!(why.contains("it may go on in 23 h 0 min"), "{why}");
        assert_eq!(days.budget(ip("192.0.2.7"), 1_000, later).unwrap().left(), 1_000);
        assert_eq!(days.budget(ip("2001:db8::3"), 1_000, now + DAY).unwrap().left(), 1_000);
    }

    #[test]
    fn who_carried_least_is_forgotten_first() {
        let days = Days::default();
        let now = Instant::now();
        let host = |n: usize| IpAddr::from(std::net::Ipv4Addr::from_bits(n as u32));
        for n in 0..MOST_DAYS {
            let charged = days.budget(host(n), 10, now).unwrap().charge(if n == 7 { 1 } else { 2 });
            assert!(!charged);
        }
        days.budget(host(MOST_DAYS), 10, now).unwrap();
        assert_eq!(lock(&days.0).len(), MOST_DAYS);
        assert!(!lock(&days.0).contains_key(&Network::of(host(7))));
    }
}
