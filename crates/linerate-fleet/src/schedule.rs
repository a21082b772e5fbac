//! When all pairs are measured again and again: at moments of the clock on the wall, as cron does, so that times of many
//! days can be laid over each other. Moments are seconds since 1970-01-01T00:00:00Z, as Unix counts them.

use std::str::FromStr;

const DAY_S: u64 = 86_400;
/// Who comes later than this has missed a moment: the machine slept, or somebody set its clock.
pub const LATE_S: u64 = 60;

/// The moments at which something begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Every {
    /// After so many seconds all begins again, counted from 1970.
    period_s: u64,
    /// Moments within the period, in their order; at least one.
    at_s: Vec<u64>,
}

/// Why there are no such moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoMoments {
    /// The words are none.
    #[error("neither a time from 10s on (5m, 1h, 1d) nor moments of the day in UTC (06:00,18:30)")]
    Words,
    /// All that is shared out would fall on another moment.
    #[error("it is not shorter than what lies between two moments")]
    Jitter,
}

/// When the next time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It is not yet.
    Wait,
    /// Now.
    Begin,
    /// It was: more than [`LATE_S`] ago.
    Missed,
}

impl FromStr for Every {
    type Err = NoMoments;

    fn from_str(text: &str) -> Result<Self, NoMoments> {
        if !text.contains(':') {
            let period_s = seconds(text).filter(|period_s| *period_s >= 10);
            let at_s = vec![0];
            return period_s.map(|period_s| Self { period_s, at_s }).ok_or(NoMoments::Words);
        }
        let moment = |text: &str| {
            let (hour, minute) = text.split_once(':')?;
            let two = |text: &str, below: u64| {
                let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
                text.parse::<u64>().ok().filter(|number| digits && *number < below)
            };
            Some(two(hour, 24)? * 3_600 + two(minute, 60)? * 60)
        };
        let moments: Option<Vec<u64>> = text.split(',').map(moment).collect();
        let mut at_s = moments.ok_or(NoMoments::Words)?;
        at_s.sort_unstable();
        at_s.dedup();
        Ok(Self { period_s: DAY_S, at_s })
    }
}

/// A length of time in whole seconds: a number with `s`, `m`, `h` or `d`. `None` of anything else.
pub fn seconds(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let size = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => DAY_S,
        _ => return None,
    };
    let number = text.strip_suffix(unit)?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    // 100 years: sums of them do not wrap.
    let most = 36_525 * DAY_S;
    number.parse::<u64>().ok()?.checked_mul(size).filter(|s| digits && *s > 0 && *s <= most)
}

/// Moments, each moved by a part of a jitter that is its own, so that many who begin at full hours do not begin
/// together. The same seed moves the same moments by the same parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    every: Every,
    jitter_s: u64,
    seed: u64,
}

impl Schedule {
    /// `seed` should differ from controller to controller.
    ///
    /// # Errors
    /// When the jitter is not shorter than what lies between two moments.
    pub fn new(every: Every, jitter_s: u64, seed: u64) -> Result<Self, NoMoments> {
        let first = every.at_s.first().map(|first| first.saturating_add(every.period_s));
        let next = every.at_s.iter().skip(1).copied().chain(first);
        let least = every.at_s.iter().zip(next).map(|(at, next)| next.saturating_sub(*at)).min();
        match least.is_some_and(|least| jitter_s < least) {
            true => Ok(Self { every, jitter_s, seed }),
            false => Err(NoMoments::Jitter),
        }
    }

    /// The first moment after `now_s`.
    pub fn after(&self, now_s: u64) -> u64 {
        let period_s = self.every.period_s.max(1);
        let period = now_s / period_s;
        // One of an earlier period may have been moved into this one.
        let periods = period.saturating_sub(1)..=period.saturating_add(1);
        let of_period = |period: u64| {
            let begins = period.saturating_mul(period_s);
            self.every.at_s.iter().map(move |at| begins.saturating_add(*at))
        };
        let moved =
            periods.flat_map(of_period).map(|moment| moment.saturating_add(self.part(moment)));
        moved.filter(|moment| *moment > now_s).min().unwrap_or(now_s.saturating_add(period_s))
    }

    /// The moment to wait for now, of one whose last one was `last_s`. That does not come again where the clock was set
    /// back by less than what lies between two.
    pub fn next(&self, now_s: u64, last_s: u64) -> u64 {
        let set_back_s = last_s.saturating_sub(now_s);
        let again = set_back_s > self.after(last_s).saturating_sub(last_s);
        self.after(if again { now_s } else { now_s.max(last_s) })
    }

    /// Which moment was waited for, if it begins now: of a clock that was set back, one it has passed again.
    pub fn begun(&self, due: Due, now_s: u64) -> u64 {
        if now_s < due.at_s { now_s.saturating_add(self.jitter_s) } else { due.at_s }
    }

    /// How many moments lie after `from_s` and not after `to_s`; at most 10,000 are counted.
    pub fn between(&self, from_s: u64, to_s: u64) -> usize {
        let next = |moment: &u64| Some(self.after(*moment));
        let moments = std::iter::successors(Some(self.after(from_s)), next);
        moments.take(10_000).take_while(|moment| *moment <= to_s).count()
    }

    /// SplitMix64 of seed and moment.
    fn part(&self, moment: u64) -> u64 {
        let mut z = self.seed.wrapping_add(moment).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % self.jitter_s.saturating_add(1)
    }
}

/// A moment that is waited for, by a clock that may be set and one that only goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// By the clock on the wall.
    at_s: u64,
    /// By the one that only goes on: no clock on the wall can delay it beyond that.
    ticks_s: u64,
}

impl Due {
    /// `at_s` is after `now_s`, when the other clock says `ticks_s`.
    pub fn new(at_s: u64, now_s: u64, ticks_s: u64) -> Self {
        Self { at_s, ticks_s: ticks_s.saturating_add(at_s.saturating_sub(now_s)) }
    }

    /// When it is, by the clock on the wall.
    pub fn at_s(&self) -> u64 {
        self.at_s
    }

    /// Whether it is now, by both clocks. One on the wall that was set back delays nothing, and one that was set forth,
    /// or went on while this machine slept, is as if it had been late.
    pub fn turn(&self, now_s: u64, ticks_s: u64) -> Turn {
        let late_s = now_s.saturating_sub(self.at_s);
        if late_s > LATE_S {
            Turn::Missed
        } else if now_s >= self.at_s || ticks_s > self.ticks_s.saturating_add(LATE_S) {
            Turn::Begin
        } else {
            Turn::Wait
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-28T00:00:00Z.
    const MIDNIGHT_S: u64 = 1_795_824_000;

    fn schedule(every: &str, jitter_s: u64, seed: u64) -> Schedule {
        Schedule::new(every.parse().unwrap(), jitter_s, seed).unwrap()
    }

    fn moments(schedule: &Schedule, from_s: u64, count: usize) -> Vec<u64> {
        let next = |moment: &u64| Some(schedule.after(*moment));
        std::iter::successors(Some(schedule.after(from_s)), next).take(count).collect()
    }

    #[test]
    fn moments_are_those_of_the_clock_on_the_wall() {
        let hourly = schedule("1h", 0, 1);
        let found = moments(&hourly, MIDNIGHT_S + 1_234, 3);
        assert_eq!(found, [1, 2, 3].map(|hour| MIDNIGHT_S + hour * 3_600));
        assert_eq!(hourly.after(MIDNIGHT_S), MIDNIGHT_S + 3_600, "after, not at");
        let daily = schedule("18:30,06:00", 0, 1);
        let found = moments(&daily, MIDNIGHT_S + 6 * 3_600, 3);
        assert_eq!(found, [66_600, 86_400 + 21_600, 86_400 + 66_600].map(|at| MIDNIGHT_S + at));
        assert_eq!(daily.between(MIDNIGHT_S, MIDNIGHT_S + 10 * DAY_S), 20);
        assert_eq!(hourly.between(0, u64::MAX), 10_000);
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "", "1", "h", "5s", "0d", "-1h", "1w", "1.5h", "24:00", "6:00", "06:60", "06:00,",
            "+1:+2", "é",
        ] {
            assert_eq!(text.parse::<Every>(), Err(NoMoments::Words), "{text}");
        }
        let refused =
            |every: &str, jitter_s| Schedule::new(every.parse().unwrap(), jitter_s, 1).is_err();
        assert!(
            refused("1h", 3_600) && refused("06:00,06:05", 300) && !refused("06:00,06:05", 299)
        );
        assert_eq!([seconds("90s"), seconds("90d")], [Some(90), Some(90 * DAY_S)]);
    }

    #[test]
    fn jitter_is_the_same_for_a_seed_and_moves_no_moment_past_another() {
        for seed in 0..50 {
            let moved = schedule("10m", 599, seed);
            let found = moments(&moved, MIDNIGHT_S + 599, 200);
            assert!(found.is_sorted_by(|a, b| a < b));
            for (number, at) in (1..).zip(&found) {
                let moment = MIDNIGHT_S + number * 600;
                assert!((moment..moment + 600).contains(at), "{seed}: {at}");
            }
            assert_eq!(moments(&moved, MIDNIGHT_S + 599, 200), found);
        }
        let parts: std::collections::BTreeSet<u64> =
            (0..100).map(|seed| schedule("1h", 300, seed).after(MIDNIGHT_S) % 3_600).collect();
        assert!(parts.len() > 60 && parts.last() <= Some(&300), "{parts:?}");
    }

    #[test]
    fn no_moment_comes_again_after_a_clock_was_set_back_a_little() {
        let hourly = schedule("1h", 600, 1);
        let moved = |hour: u64| hourly.after(MIDNIGHT_S + hour * 3_600 - 1);
        let last_s = moved(11);
        assert_eq!(hourly.next(last_s + 5, last_s), moved(12));
        for back_s in [1, 600, 1_800] {
            assert_eq!(hourly.next(last_s - back_s, last_s), moved(12), "{back_s}");
        }
        // By more: else nothing would be measured for as long.
        assert_eq!(hourly.next(MIDNIGHT_S + 2 * 3_600 + 700, last_s), moved(3));
        // It was due at 11, and the clock says 9 when it begins: the next is at 10, whatever the jitter of 9.
        let now_s = MIDNIGHT_S + 9 * 3_600;
        let begun_s = hourly.begun(Due::new(last_s, last_s - 60, 0), now_s);
        assert_eq!(hourly.next(now_s + 5, begun_s), moved(10));
    }

    #[test]
    fn clocks_that_are_set_neither_delay_nor_double() {
        let due = Due::new(7_200, 5_000, 100);
        assert_eq!(due.turn(5_000, 100), Turn::Wait);
        assert_eq!(due.turn(7_199, 2_299), Turn::Wait);
        assert_eq!(due.turn(7_200, 2_300), Turn::Begin);
        assert_eq!(due.turn(7_260, 2_360), Turn::Begin);
        assert_eq!(due.turn(7_261, 2_361), Turn::Missed);
        // Set back by an hour, or to 1970: what has passed is enough.
        assert_eq!(due.turn(3_600, 2_300), Turn::Wait);
        assert_eq!(due.turn(3_661, 2_361), Turn::Begin);
        assert_eq!(due.turn(0, 2_361), Turn::Begin);
    }
}
