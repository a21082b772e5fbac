//! What the owner of this host allows a test that somebody else asks for, and the watch over it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use linerate_dialect::Over;
use linerate_dialect::rate_meter::RateMeter;
use linerate_engine::clock;
use linerate_model::exit::Exit;
use linerate_model::plan::TestPlan;
use linerate_model::record::{ErrorKind, ErrorRecord};
use tokio::time::Interval;

use crate::data::{DayBudget, Limits, Shared};
use crate::demand::rate_bps;

/// How often what arrives is held against the largest rate.
const LOOK: Duration = Duration::from_millis(250);
const TOO_FAST: &str =
    "more arrived than this server's --max-rate, or the budget of the key, allows";

/// What the owner of this host allows one test, whatever its plan says. Nothing limits a test of the owner's own.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    limits: Limits,
    days: Vec<DayBudget>,
    broken: Arc<OnceLock<&'static str>>,
}

impl Bounds {
    /// Its bytes count towards `days`, warm-up included.
    pub(crate) fn new(limits: Limits, days: Vec<DayBudget>) -> Self {
        Self { limits, days, broken: Arc::default() }
    }

    /// Whether the owner lets it have this plan, now that the path has said its part: what is one datagram's size may be
    /// another than was asked for, and datagrams a second another rate.
    ///
    /// # Errors
    /// When it is faster than the owner allows.
    pub(super) fn allow(&self, plan: &TestPlan) -> Result<(), ErrorRecord> {
        let Some(most) = self.limits.rate else { return Ok(()) };
        if rate_bps(plan).is_some_and(|asked| asked <= most.bits_per_second()) {
            return Ok(());
        }
        let why = format!("with datagrams as large as the path's packets its rate is above {most}");
        let hints = ["ask for a lower rate, or name the size of datagrams"];
        let what = "this host refuses to run such a test";
        Err(ErrorRecord::new(ErrorKind::Policy, what, why, &hints).ending(Exit::Unreachable))
    }

    /// The most of a window that is forced beyond the kernel's limits, in bytes; `None` is all.
    pub(super) fn window(&self) -> Option<u32> {
        self.limits.window
    }

    /// What its threads keep to.
    pub(super) fn shared(&self, streams: usize) -> Arc<Shared> {
        let shared = Shared::within(self.limits, streams);
        shared.charge_to(self.days.clone());
        shared
    }

    pub(super) fn watch(&self) -> Watch {
        let rate = self.limits.rate.map(|rate| rate.bits_per_second());
        Watch {
            bounds: self.clone(),
            meter: rate.map(|rate| {
                let meter = RateMeter::new(rate, clock::monotonic_ns());
                (meter, tokio::time::interval(LOOK))
            }),
        }
    }

    /// Why the test was ended, if it went beyond.
    pub(crate) fn broken(&self) -> Option<&'static str> {
        self.broken.get().copied()
    }

    /// Whether a day that its bytes count towards is used up.
    pub(crate) fn day_is_over(&self) -> bool {
        self.days.iter().any(DayBudget::is_over)
    }
}

/// Looks whether a test keeps within its [`Bounds`].
pub(super) struct Watch {
    bounds: Bounds,
    /// Of what arrives: this host sends no more than the plan says, which was checked before.
    meter: Option<(RateMeter, Interval)>,
}

impl Watch {
    /// The next time to look, where nothing else wakes who watches.
    pub(super) async fn turn(&mut self) {
        match &mut self.meter {
            Some((_, interval)) => drop(interval.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Why the test has to end, once. Its threads were stopped.
    pub(super) fn broken(&mut self, shared: &Shared, now_ns: u64) -> Option<&'static str> {
        let over = shared.over_day().map(Over::Day);
        let over = over.or(shared.over_budget().then_some(Over::Bytes));
        let over = over.or(shared.over_time().then_some(Over::Time));
        let fast = || self.is_fast(shared.arrived(), now_ns).then_some(TOO_FAST);
        let why = over.map(Over::words).or_else(fast)?;
        self.bounds.broken.set(why).ok()?;
        shared.stop();
        shared.drain_until(0);
        Some(why)
    }

    /// Whether so many bytes have arrived at `now_ns` faster than they may.
    fn is_fast(&mut self, arrived: u64, now_ns: u64) -> bool {
        self.meter.as_mut().is_some_and(|(meter, _)| !meter.keeps(arrived, now_ns))
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::Traffic;
    use linerate_model::units::{BitRate, DatagramSize};
    use linerate_testkit::plans;

    use super::*;

    #[test]
    fn a_plan_is_held_to_the_rate_with_the_size_that_the_path_gave() {
        let mut plan = plans::plan(Traffic::Udp(plans::udp()));
        let limits = Limits { rate: BitRate::new(2_560_000), ..Limits::default() };
        let bounds = Bounds::new(limits, Vec::new());
        for (bytes, fits) in [(32, true), (33, false)] {
            if let Traffic::Udp(udp) = &mut plan.traffic {
                udp.rate = serde_json::from_str(r#"{"datagrams":10000}"#).unwrap();
                udp.size = DatagramSize::new(bytes).unwrap();
            }
            assert_eq!(bounds.allow(&plan).is_ok(), fits, "{bytes}");
        }
        assert!(Bounds::default().allow(&plan).is_ok());
    }

    #[tokio::test]
    async fn what_arrives_faster_than_the_owner_allows_ends_the_test() {
        let limits = Limits { rate: BitRate::new(8_000_000), ..Limits::default() };
        let bounds = Bounds::new(limits, Vec::new());
        let (mut watch, shared) = (bounds.watch(), bounds.shared(1));
        let now_ns = clock::monotonic_ns() + 1_000_000_000;
        assert!(!watch.is_fast(1_000_000, now_ns));
        assert_eq!((watch.broken(&shared, now_ns), bounds.broken()), (None, None));
        assert!(watch.is_fast(5_000_000, now_ns));
        watch.turn().await;
        // Nobody but its user limits a test of the owner's own.
        let mut own = Bounds::default().watch();
        assert!(!own.is_fast(u64::MAX, now_ns) && own.broken(&shared, now_ns).is_none());
    }
}
