//! Who is here under a key or from a network with a budget: what lets them in, what they count for, and how they
//! learn that they may stay no longer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jiff::{Timestamp, Zoned};
use linerate_model::hours;
use linerate_model::plan::TestPlan;
use linerate_model::units::BitRate;
use linerate_wire::native::message::{RefusalKind, Refused};
use tokio::sync::watch;

use super::file::{Budget, Key, Right, Table};
use crate::data::DayBudget;
use crate::demand::rate_bps;
use crate::shares::{Carried, Days, Whom};

/// What is told to whoever asks for more than a budget has.
pub(crate) const BUDGET_HINT: &str = "the server's owner sets budgets in its file of keys";

/// What holds at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    pub(crate) table: Arc<Table>,
    pub(crate) at: Timestamp,
    /// Of the day in local time.
    pub(crate) minute: u16,
    /// The same moment for what is counted from another one.
    pub(crate) since: Instant,
}

fn refuse(kind: RefusalKind, why: String, hint: &str) -> Refused {
    Refused { kind, why, hints: vec![hint.to_owned()] }
}

impl Standing {
    /// Now.
    pub(crate) fn now(table: Arc<Table>) -> Self {
        let now = Zoned::now();
        // Neither is ever negative.
        let minute = now.hour().unsigned_abs().into();
        let minute = u16::saturating_mul(minute, 60) + u16::from(now.minute().unsigned_abs());
        Self { table, at: now.timestamp(), minute, since: Instant::now() }
    }

    /// The key as it is in the file by now, if it lets its client do that.
    fn current(&self, key: &Key, right: Right) -> Result<Arc<Key>, Refused> {
        const OTHER: &str = "ask the server's owner for another key";
        let now = self.table.keys.iter().find(|now| now.id == key.id && now.secret == key.secret);
        let Some(now) = now else {
            let why = format!("the key `{}` is in the server's file no more", key.name);
            return Err(refuse(RefusalKind::Key, why, OTHER));
        };
        now.holds(self.at).map_err(|why| refuse(RefusalKind::Key, why, OTHER))?;
        if !now.may(right) {
            let (name, right) = (&now.name, right.name());
            let why = format!("the key `{name}` does not have the right `{right}`");
            return Err(refuse(
                RefusalKind::Policy,
                why,
                "its owner sets rights in the file of keys",
            ));
        }
        Ok(Arc::clone(now))
    }

    /// Budgets of whoever comes from there with that key.
    fn budgets<'a>(
        &'a self,
        peer: IpAddr,
        key: Option<&'a Key>,
    ) -> impl Iterator<Item = (Whom, &'a Budget)> {
        let of_key = key.map(|key| {
            let (id, name) = (key.id.clone(), key.name.clone());
            (Whom::Key { id, name }, &key.budget)
        });
        let networks = self.table.networks.iter().filter(move |network| network.cidr.has(peer));
        of_key.into_iter().chain(networks.map(|n| (Whom::Network(n.cidr), &n.budget)))
    }

    fn open(&self, whom: &Whom, budget: &Budget) -> Result<(), Refused> {
        if hours::allow(&budget.hours, self.minute) {
            return Ok(());
        }
        let hours: Vec<String> = budget.hours.iter().map(ToString::to_string).collect();
        let next = hours::next(&budget.hours, self.minute).unwrap_or_default();
        let why = format!(
            "the hours of {whom} are {} by this server's local time; it may go on at {next}",
            hours.join(", ")
        );
        Err(refuse(RefusalKind::Policy, why, BUDGET_HINT))
    }
}

/// All who are here.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    held: Mutex<BTreeMap<u64, Held>>,
    days: Days,
    /// Of streams from addresses that nobody has proven; they end with the server.
    claimed_days: Days,
}

#[derive(Debug)]
struct Held {
    peer: IpAddr,
    key: Option<Arc<Key>>,
    /// What the key must let it do.
    right: Right,
    /// As [`Permit::claimed`].
    claimed: bool,
    end: watch::Sender<Option<String>>,
}

impl Held {
    /// Whoever forges addresses takes nothing of a budget from those who have them.
    fn counts_for(&self, whom: &Whom, claimed: bool) -> bool {
        let test = self.right == Right::Test && self.claimed == claimed;
        test && match whom {
            Whom::Key { id, .. } => self.key.as_ref().is_some_and(|key| key.id == *id),
            Whom::Network(cidr) => cidr.has(self.peer),
            Whom::Address(_) => false,
        }
    }

    /// Why it may stay no longer.
    fn stays(&self, standing: &Standing) -> Result<(), Refused> {
        let key = self.key.as_ref().map(|key| standing.current(key, self.right)).transpose()?;
        let budgets = standing.budgets(self.peer, key.as_deref());
        budgets.into_iter().try_for_each(|(whom, budget)| standing.open(&whom, budget))
    }
}

fn lock(held: &Mutex<BTreeMap<u64, Held>>) -> MutexGuard<'_, BTreeMap<u64, Held>> {
    // A panic elsewhere leaves the map whole: every change is one call.
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Permits {
    /// Lets a test in, if key and budgets do. `claimed`: nobody has proven that it comes from there, and it counts with
    /// others of its kind alone.
    pub(crate) fn test(
        self: &Arc<Self>,
        standing: &Standing,
        (peer, key, claimed): (IpAddr, Option<&Key>, bool),
        plan: &TestPlan,
    ) -> Result<Permit, Refused> {
        let key = key.map(|key| standing.current(key, Right::Test)).transpose()?;
        let mut held = lock(&self.held);
        let mut terms = Terms::default();
        let days = if claimed { &self.claimed_days } else { &self.days };
        for (whom, budget) in standing.budgets(peer, key.as_deref()) {
            standing.open(&whom, budget)?;
            let running = held.values().filter(|held| held.counts_for(&whom, claimed)).count();
            if budget.tests.is_some_and(|most| running >= most) {
                let why =
                    format!("{running} tests of {whom} are running, and its budget has no more");
                let hint = "try again when one of them has ended";
                return Err(refuse(RefusalKind::Busy, why, hint));
            }
            terms.narrow(days, standing, (&whom, budget), plan)?;
        }
        Ok(self.hold(&mut held, (peer, key, claimed), Right::Test, terms))
    }

    /// Lets a controller in, if its key does.
    pub(crate) fn control(
        self: &Arc<Self>,
        standing: &Standing,
        (peer, key): (IpAddr, Option<&Key>),
    ) -> Result<Permit, Refused> {
        let key = key.map(|key| standing.current(key, Right::Control)).transpose()?;
        for (whom, budget) in standing.budgets(peer, key.as_deref()) {
            standing.open(&whom, budget)?;
        }
        // Who could change settings and may no more has them put back, and its commands ended, with its session.
        let settings = key.as_deref().is_some_and(|key| key.may(Right::Settings));
        let right = if settings { Right::Settings } else { Right::Control };
        Ok(self.hold(&mut lock(&self.held), (peer, key, false), right, Terms::default()))
    }

    fn hold(
        self: &Arc<Self>,
        held: &mut BTreeMap<u64, Held>,
        (peer, key, claimed): (IpAddr, Option<Arc<Key>>, bool),
        right: Right,
        terms: Terms,
    ) -> Permit {
        let number = held.last_key_value().map_or(0, |(last, _)| last + 1);
        let (end, ended) = watch::channel(None);
        held.insert(number, Held { peer, key: key.clone(), right, claimed, end });
        let here = Some(Here { permits: Arc::clone(self), peer, number, ended });
        Permit { key, terms, claimed, here }
    }

    /// What was carried in days that go on, at a moment of both clocks: the monotonic one, and Unix time in seconds.
    pub(crate) fn carried(&self, now: (Instant, i64)) -> Vec<Carried> {
        self.days.carried(now)
    }

    /// Goes on with those days of an earlier server; how many there were.
    pub(crate) fn take_up(&self, carried: &[Carried], now: (Instant, i64)) -> usize {
        self.days.take_up(carried, now)
    }

    /// Ends what may go on no longer.
    pub(crate) fn look_after(&self, standing: &Standing) {
        for held in lock(&self.held).values() {
            if let Err(refused) = held.stays(standing) {
                held.end.send_if_modified(|why| {
                    let first = why.is_none();
                    why.get_or_insert(refused.why);
                    first
                });
            }
        }
    }
}

/// What a test is held to beyond the server's own limits.
#[derive(Debug, Default)]
struct Terms {
    days: Vec<DayBudget>,
    rate: Option<BitRate>,
}

impl Terms {
    fn narrow(
        &mut self,
        days: &Days,
        standing: &Standing,
        (whom, budget): (&Whom, &Budget),
        plan: &TestPlan,
    ) -> Result<(), Refused> {
        if let Some(most) = budget.rate {
            if rate_bps(plan).is_none_or(|asked| asked > most.bits_per_second()) {
                let why = format!("the rate asked for is above the {most} of {whom}");
                return Err(refuse(RefusalKind::Policy, why, "ask for less with --rate"));
            }
            self.rate = self.rate.into_iter().chain([most]).min();
        }
        if let Some(most) = budget.bytes_per_day {
            self.days.push(days.budget(whom.clone(), most, plan, standing.since)?);
        }
        Ok(())
    }
}

/// The right to be here, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Permit {
    key: Option<Arc<Key>>,
    terms: Terms,
    /// The address is what datagrams say, and nobody has proven it.
    claimed: bool,
    /// Nothing at a server without a file of keys.
    here: Option<Here>,
}

#[derive(Debug)]
struct Here {
    permits: Arc<Permits>,
    peer: IpAddr,
    number: u64,
    ended: watch::Receiver<Option<String>>,
}

impl Drop for Here {
    fn drop(&mut self) {
        lock(&self.permits.held).remove(&self.number);
    }
}

impl Permit {
    /// At a server without a file of keys.
    pub(crate) fn free(claimed: bool) -> Self {
        Self { claimed, ..Self::default() }
    }

    /// Whether it counts apart from the tests of addresses that are proven.
    pub(crate) fn is_claimed(&self) -> bool {
        self.claimed
    }

    /// Whose it is.
    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_deref()
    }

    /// Where the bytes of a test count.
    pub(crate) fn days(&self) -> &[DayBudget] {
        &self.terms.days
    }

    /// The narrower of this rate and that of its budgets.
    pub(crate) fn rate(&self, own: Option<BitRate>) -> Option<BitRate> {
        self.terms.rate.into_iter().chain(own).min()
    }

    /// Whether its key lets it do that by now; who needs none may.
    pub(crate) fn may(&self, standing: &Standing, right: Right) -> bool {
        self.key().is_none_or(|key| standing.current(key, right).is_ok())
    }

    /// Whether a controller may run that with this host as the client; the days that come back are to be
    /// charged with all that it carries, and it goes no faster than the rate.
    pub(crate) fn runs(
        &self,
        standing: &Standing,
        plan: &TestPlan,
    ) -> Result<(Vec<DayBudget>, Option<BitRate>), Refused> {
        let Some(here) = &self.here else { return Ok((Vec::new(), None)) };
        let key = self.key().map(|key| standing.current(key, Right::Control)).transpose()?;
        let mut terms = Terms::default();
        for (whom, budget) in standing.budgets(here.peer, key.as_deref()) {
            terms.narrow(&here.permits.days, standing, (&whom, budget), plan)?;
        }
        Ok((terms.days, terms.rate))
    }

    /// Learns when it is over.
    pub(crate) fn ending(&self) -> Ending {
        Ending(self.here.as_ref().map(|here| here.ended.clone()))
    }
}

/// The end of a [`Permit`] that is not dropped.
pub(crate) struct Ending(Option<watch::Receiver<Option<String>>>);

impl Ending {
    /// Why it ended; nothing else ends this.
    pub(crate) async fn why(&mut self) -> String {
        if let Some(ended) = &mut self.0
            && let Ok(why) = ended.wait_for(Option::is_some).await
        {
            return why.clone().unwrap_or_default();
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use linerate_model::plan::{Direction, End, EngineChoice, Traffic, UdpPlan};
    use linerate_model::units::{DatagramSize, Nanos, Rate};

    use super::super::file::tests::written;
    use super::*;

    /// A file at a made-up time.
    fn at(text: &str, stamp: &str, minute: u16) -> Standing {
        let table = Arc::new(Table::read(text).unwrap());
        Standing { table, at: stamp.parse().unwrap(), minute, since: Instant::now() }
    }

    fn noon(text: &str) -> Standing {
        at(text, "2026-01-05T12:00:00Z", 12 * 60)
    }

    fn plan(bits: u64, end: End) -> TestPlan {
        TestPlan {
            traffic: Traffic::Udp(UdpPlan {
                size: DatagramSize::new(1_000).unwrap(),
                rate: BitRate::new(bits).map(Rate::Bits),
                burst: Nanos(0),
                engine: EngineChoice::Auto,
                checksum: true,
            }),
            direction: Direction::Forward,
            streams: 1,
            end,
            warmup: Nanos(0),
            interval: Nanos::from_secs(1),
            window: None,
            client_cpus: vec![],
            server_cpus: vec![],
            dscp: None,
        }
    }

    fn second() -> TestPlan {
        plan(1_000_000, End::Time(Nanos::from_secs(1)))
    }

    const PEER: &str = "192.0.2.7";

    fn test(
        permits: &Arc<Permits>,
        standing: &Standing,
        peer: &str,
        plan: &TestPlan,
    ) -> Result<Permit, Refused> {
        let key = standing.table.keys.first().cloned();
        permits.test(standing, (peer.parse().unwrap(), key.as_deref(), false), plan)
    }

    fn network(more: &str) -> String {
        format!("[[network]]\ncidr = \"192.0.2.0/24\"\n{more}\n")
    }

    fn why(result: Result<Permit, Refused>, kind: RefusalKind) -> String {
        let refused = result.expect_err("refused");
        assert_eq!(refused.kind, kind, "{refused:?}");
        refused.why
    }

    #[test]
    fn tests_at_once_are_counted_for_a_key_and_for_a_network() {
        let permits = Arc::<Permits>::default();
        let standing = noon(&(written("ci", 'a', "max-tests = 2") + &network("max-tests = 1")));
        let one = test(&permits, &standing, PEER, &second()).unwrap();
        let full = why(test(&permits, &standing, "192.0.2.8", &second()), RefusalKind::Busy);
        assert_eq!(
            full,
            "1 tests of the network 192.0.2.0/24 are running, and its budget has no more"
        );
        let two = test(&permits, &standing, "198.51.100.1", &second()).unwrap();
        let full = why(test(&permits, &standing, "198.51.100.2", &second()), RefusalKind::Busy);
        assert_eq!(full, "2 tests of the key `ci` are running, and its budget has no more");
        drop((one, two));
        test(&permits, &standing, PEER, &second()).unwrap();
        assert!(lock(&permits.held).is_empty());
    }

    #[test]
    fn who_only_claims_an_address_takes_nothing_of_its_budget() {
        let permits = Arc::<Permits>::default();
        let standing = noon(&network("max-tests = 1\nmax-bytes-per-day = \"1000\""));
        let peer = PEER.parse().unwrap();
        let claimed = || permits.test(&standing, (peer, None, true), &second());
        let forged = claimed().unwrap();
        // It is held to as much of its own.
        assert!(forged.is_claimed() && forged.days().iter().all(|day| !day.charge(1_000)));
        why(claimed(), RefusalKind::Busy);
        let proven = test(&permits, &standing, PEER, &second()).unwrap();
        assert_eq!(proven.days().iter().map(DayBudget::left).collect::<Vec<_>>(), [1_000]);
        why(test(&permits, &standing, PEER, &second()), RefusalKind::Busy);
        drop(forged);
        why(claimed(), RefusalKind::Policy);
        assert!(!proven.is_claimed() && !Permit::free(false).is_claimed());
    }

    #[test]
    fn the_narrowest_rate_holds_and_a_test_without_one_is_refused() {
        let permits = Arc::<Permits>::default();
        let standing =
            noon(&(written("ci", 'a', "max-rate = \"5M\"") + &network("max-rate = \"3M\"")));
        let rate = |bits| BitRate::new(bits);
        let granted = test(&permits, &standing, PEER, &plan(3_000_000, End::Datagrams(1))).unwrap();
        assert_eq!((granted.rate(None), granted.rate(rate(1_000))), (rate(3_000_000), rate(1_000)));
        for (peer, bits, whose) in [
            (PEER, 3_000_001, "3.000 Mbit/s of the network 192.0.2.0/24"),
            (PEER, 5_000_001, "5.000 Mbit/s of the key `ci`"),
            ("198.51.100.1", 0, "5.000 Mbit/s of the key `ci`"),
        ] {
            let why = why(
                test(&permits, &standing, peer, &plan(bits, End::Datagrams(1))),
                RefusalKind::Policy,
            );
            assert!(why.contains(whose), "{why}");
        }
    }

    #[test]
    fn bytes_of_a_day_are_those_of_all_tests_of_the_key() {
        let permits = Arc::<Permits>::default();
        let text = written("ci", 'a', "max-bytes-per-day = \"5000\"");
        let standing = noon(&text);
        let granted = test(&permits, &standing, PEER, &plan(1_000, End::Bytes(5_000))).unwrap();
        assert!(!granted.days()[0].charge(4_000));
        let rest = test(&permits, &standing, "198.51.100.1", &plan(1_000, End::Bytes(1_001)));
        let rest = why(rest, RefusalKind::Policy);
        assert_eq!(rest, "1001 bytes are more than the 1000 that the key `ci` has left of its day");
        assert!(granted.days()[0].charge(1_001));
        let hour = Standing { since: standing.since + Duration::from_secs(3_600), ..noon(&text) };
        let used = why(test(&permits, &hour, PEER, &second()), RefusalKind::Policy);
        assert!(
            used.contains("the key `ci` has carried 5001 bytes")
                && used.ends_with("go on in 23 h 0 min"),
            "{used}"
        );
        let day = Standing { since: standing.since + Duration::from_secs(86_400), ..noon(&text) };
        test(&permits, &day, PEER, &second()).unwrap();
    }

    #[tokio::test]
    async fn hours_let_in_and_end_what_runs() {
        let permits = Arc::<Permits>::default();
        let text = network("hours = \"22:00-06:00\"");
        let refused = why(test(&permits, &noon(&text), PEER, &second()), RefusalKind::Policy);
        let words = "the hours of the network 192.0.2.0/24 are 22:00-06:00 by this server's local time; it may go on at 22:00";
        assert_eq!(refused, words);
        test(&permits, &noon(&text), "198.51.100.1", &second()).unwrap();
        let night = |minute| at(&text, "2026-01-05T23:00:00Z", minute);
        let granted = test(&permits, &night(23 * 60), PEER, &second()).unwrap();
        permits.look_after(&night(5 * 60 + 59));
        assert!(granted.here.as_ref().unwrap().ended.borrow().is_none());
        permits.look_after(&night(6 * 60));
        assert_eq!(granted.ending().why().await, words);
    }

    #[tokio::test]
    async fn a_key_that_is_revoked_expired_changed_or_gone_ends_what_runs() {
        let permits = Arc::<Permits>::default();
        let first = noon(&written("ci", 'a', ""));
        let now = |more: &str| noon(&written("ci", 'a', more));
        let (later, before) =
            ("expires = \"2026-01-05T12:00:01Z\"", "expires = \"2026-01-05T12:00:00Z\"");
        let less = noon(&written("ci", 'a', "").replace("[\"test\"]", "[]"));
        for (then, said) in [
            (now("revoked = \"2026-01-05T11:00:00Z\""), "was revoked"),
            (now(before), "has expired"),
            (noon(&written("other", 'b', "")), "is in the server's file no more"),
            (less, "does not have the right `test`"),
        ] {
            let granted = test(&permits, &first, PEER, &second()).unwrap();
            permits.look_after(&now(later));
            permits.look_after(&then);
            let why = granted.ending().why().await;
            assert!(why.starts_with("the key `ci` ") && why.contains(said), "{why}");
            // Nor is another let in, whatever was known of the key when it was proven.
            let key = first.table.keys[0].clone();
            let refused =
                permits.test(&then, (PEER.parse().unwrap(), Some(&*key), false), &second());
            assert_eq!(refused.expect_err("refused").why, why);
        }
    }

    #[test]
    fn a_controller_needs_its_right_and_counts_for_no_tests() {
        let permits = Arc::<Permits>::default();
        let peer = PEER.parse().unwrap();
        let text =
            written("ci", 'a', "max-tests = 1\nmax-rate = \"3M\"\nmax-bytes-per-day = \"5000\"");
        let control = |rights: &str| noon(&text.replace("[\"test\"]", rights));
        for (rights, may) in
            [("[\"test\"]", false), ("[\"control\"]", true), ("[\"settings\"]", true)]
        {
            let standing = control(rights);
            let granted =
                permits.control(&standing, (peer, standing.table.keys.first().map(|key| &**key)));
            assert_eq!(granted.is_ok(), may, "{rights}");
        }
        let standing = control("[\"test\", \"control\"]");
        let key = Some(&*standing.table.keys[0]);
        let granted = permits.control(&standing, (peer, key)).unwrap();
        test(&permits, &standing, PEER, &second()).unwrap();
        let (days, rate) = granted.runs(&standing, &second()).unwrap();
        assert_eq!(rate, BitRate::new(3_000_000));
        assert!(granted.may(&standing, Right::Control) && !granted.may(&standing, Right::Settings));
        assert!(granted.may(&control("[\"settings\"]"), Right::Settings), "it was given since");
        assert!(granted.runs(&standing, &plan(3_000_001, End::Bytes(1))).is_err());
        assert!(days[0].charge(5_001));
        assert!(granted.runs(&standing, &second()).is_err());
    }
}
