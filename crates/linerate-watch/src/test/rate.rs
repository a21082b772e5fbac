//! The rate of a test, and what a key makes of it.

use linerate_model::limits;
use linerate_model::plan::{PlanDirection, TrafficKind};
use linerate_model::record::RunRecord;
use linerate_report::number;

/// Which way a key turns the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// A ninth more, back to where one [`Turn::Down`] came from.
    Up,
    /// A tenth less.
    Down,
}

/// The rate at which this end sends.
#[derive(Debug, Clone, Default)]
pub struct Rate {
    /// Of the plan, bit/s; `None` is as fast as it goes.
    planned: Option<u64>,
    chosen: Option<u64>,
    /// Why no key changes it.
    fixed: Option<&'static str>,
    least: u64,
}

/// What is left of a rate after a turn down.
const STEP: f64 = 0.9;

impl Rate {
    pub(super) fn of(record: &RunRecord) -> Self {
        let plan = record.agreed.as_ref().unwrap_or(&record.asked);
        let fixed = if plan.protocol == TrafficKind::Rr {
            Some("the rate of requests cannot be changed while they run")
        } else if plan.direction == PlanDirection::Reverse {
            Some("the server sends in this test: the rate is the server's")
        } else {
            None
        };
        // A datagram a second, or of TCP a block on each stream: below that nothing leaves for long, at no later rate either.
        let (unit, streams) = match plan.datagram_bytes {
            Some(bytes) => (bytes, 1),
            None => (plan.block_bytes.unwrap_or(0), u64::from(plan.streams.max(1))),
        };
        let least = (u64::from(unit) * 8).saturating_mul(streams).max(1_000);
        Self { planned: plan.rate_bps, chosen: None, fixed, least }
    }

    /// The one that holds now, bit/s; `None` is as fast as it goes.
    pub fn now(&self) -> Option<u64> {
        self.chosen.or(self.planned)
    }

    /// The plan's, where another one was chosen.
    pub(super) fn planned_beside(&self) -> Option<String> {
        self.chosen?;
        Some(self.planned.map_or("max".to_owned(), |bps| number::rate(bps as f64)))
    }

    /// Why no key changes it.
    pub(super) fn fixed(&self) -> Option<&'static str> {
        self.fixed
    }

    /// Another one, or why there is none. `sent` is what left in the last interval in which anything did, bit/s.
    pub(super) fn turn(&mut self, turn: Turn, sent: Option<f64>) -> Result<u64, String> {
        if let Some(fixed) = self.fixed {
            return Err(fixed.to_owned());
        }
        let Some(now) = self.now() else {
            if turn == Turn::Up {
                return Err("it goes as fast as it can".to_owned());
            }
            let sent = sent.ok_or("nothing was sent yet")?;
            return Ok(self.choose(sent * STEP));
        };
        match (turn, self.planned) {
            (Turn::Down, _) if now <= self.least => Err("it is as low as it goes".to_owned()),
            (Turn::Down, _) => Ok(self.choose(now as f64 * STEP)),
            (Turn::Up, Some(planned)) if now >= planned => Err(format!(
                "the server agreed to {} and no more: begin with a higher --rate",
                number::rate(planned as f64)
            )),
            (Turn::Up, _) => Ok(self.choose(now as f64 / STEP)),
        }
    }

    fn choose(&mut self, bps: f64) -> u64 {
        let most = self.planned.unwrap_or(limits::RATE_BPS.max);
        let bps = three_digits(bps).clamp(self.least.min(most), most);
        self.chosen = Some(bps);
        bps
    }
}

/// A number that can be said, and typed after --rate.
fn three_digits(value: f64) -> u64 {
    if value < 1.0 || !value.is_finite() {
        return 0;
    }
    let step = 10_f64.powf(value.log10().floor() - 2.0).max(1.0);
    ((value / step).round() * step) as u64
}

#[cfg(test)]
mod tests {
    use linerate_testkit::records;

    use super::*;

    fn udp(rate_bps: Option<u64>) -> Rate {
        let mut record = records::empty("udp");
        record.asked.rate_bps = rate_bps;
        record.asked.datagram_bytes = Some(1_000);
        record.agreed = Some(record.asked.clone());
        Rate::of(&record)
    }

    #[test]
    fn a_rate_goes_down_by_tenths_and_never_above_the_plans() {
        let mut rate = udp(Some(100_000_000));
        assert!(rate.turn(Turn::Up, None).unwrap_err().contains("100.0 Mbit/s and no more"));
        let down: Vec<u64> = (0..4).map(|_| rate.turn(Turn::Down, None).unwrap()).collect();
        assert_eq!(down, [90_000_000, 81_000_000, 72_900_000, 65_600_000]);
        let up: Vec<u64> = (0..4).map(|_| rate.turn(Turn::Up, None).unwrap()).collect();
        assert_eq!(up, [72_900_000, 81_000_000, 90_000_000, 100_000_000]);
        for _ in 0..200 {
            let _ = rate.turn(Turn::Down, None);
        }
        assert_eq!(rate.now(), Some(8_000));
        assert!(rate.turn(Turn::Down, None).is_err());
    }

    #[test]
    fn a_test_as_fast_as_it_goes_turns_down_from_what_it_sends() {
        let mut rate = udp(None);
        assert!(rate.turn(Turn::Up, Some(5e9)).is_err());
        assert!(rate.turn(Turn::Down, None).is_err());
        assert_eq!(rate.turn(Turn::Down, Some(5.678e9)), Ok(5_110_000_000));
        assert_eq!(rate.turn(Turn::Up, Some(1.0)), Ok(5_680_000_000));
        assert_eq!(rate.planned_beside().as_deref(), Some("max"));
    }

    #[test]
    fn streams_of_bytes_are_turned_as_well() {
        let mut record = records::tcp();
        let plan = record.agreed.get_or_insert_with(|| record.asked.clone());
        (plan.block_bytes, plan.streams) = (Some(131_072), 4);
        let mut rate = Rate::of(&record);
        assert_eq!(rate.turn(Turn::Down, Some(1e9)), Ok(900_000_000));
        for _ in 0..200 {
            let _ = rate.turn(Turn::Down, None);
        }
        assert_eq!(rate.now(), Some(4 * 1_048_576));
        assert!(rate.turn(Turn::Down, None).unwrap_err().contains("as low"));
    }

    #[test]
    fn who_does_not_send_from_here_is_told_so() {
        let mut record = records::empty("udp");
        let mut agreed = record.asked.clone();
        agreed.direction = PlanDirection::Reverse.into();
        record.agreed = Some(agreed);
        assert!(Rate::of(&record).turn(Turn::Down, None).unwrap_err().contains("the server's"));
        let requests = Rate::of(&records::rr()).turn(Turn::Down, Some(1e9));
        assert!(requests.unwrap_err().contains("requests"));
    }
}
