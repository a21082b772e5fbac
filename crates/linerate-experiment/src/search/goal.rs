//! What a search looks for, and how a user writes it down.

use linerate_model::units::Nanos;
use serde::{Deserialize, Serialize};

use crate::trial::Outcome;

/// What a load must do to be accepted: the goal of RFC 9971, with a rule for delay besides loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// A preset's name, or the goal as it was given.
    pub name: String,
    /// Share of the datagrams that a good trial may leave undelivered, 0 to below 1.
    pub loss: f64,
    /// The 99th percentile of a good trial's delay above its least is at most this.
    pub delay_p99: Option<Nanos>,
    /// Share of the time at a load that bad trials may take, 0 to below 1.
    pub exceed: f64,
    /// Length of a trial that counts in full.
    pub time: Nanos,
    /// Time at one load after which its class is settled.
    pub sum: Nanos,
    /// The bounds are at most this far apart, as a share of the upper one. Never less than `loss`:
    /// a finer search would measure the loss it allows.
    pub width: f64,
}

/// Why a text is no goal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GoalError(String);

/// Width of the bounds unless the goal says otherwise.
const WIDTH: f64 = 0.005;
/// Share of bad time that RFC 9971 recommends: the majority decides.
const EXCEED: f64 = 0.5;

/// Names of the presets, as in `--preset`.
pub const PRESETS: [&str; 5] = ["quick", "ndr", "pdr", "rfc2544", "tst009"];

impl Goal {
    fn new(name: &str, loss: f64, time_s: u64, sum_s: u64, exceed: f64) -> Self {
        Self {
            name: name.to_owned(),
            loss,
            delay_p99: None,
            exceed,
            time: Nanos::from_secs(time_s),
            sum: Nanos::from_secs(sum_s),
            width: WIDTH,
        }
    }

    /// `quick` and `pdr` allow 0.5 % loss, the others none; `rfc2544` is the throughput of RFC 2544
    /// section 26.1 (60 s without loss), `tst009` that of ETSI GS NFV-TST 009 (half of the trials).
    pub fn preset(name: &str) -> Option<Self> {
        Some(match name {
            "quick" => Self::new(name, 0.005, 1, 7, EXCEED),
            "ndr" => Self::new(name, 0.0, 1, 21, EXCEED),
            "pdr" => Self::new(name, 0.005, 1, 21, EXCEED),
            "rfc2544" => Self::new(name, 0.0, 60, 60, 0.0),
            "tst009" => Self::new(name, 0.0, 60, 120, EXCEED),
            _ => return None,
        })
    }

    /// `loss=0.5%[,delay-p99=5ms][,exceed=50%][,time=2s][,sum=21s][,width=1%]`.
    pub fn parse(text: &str) -> Result<Self, GoalError> {
        let fail = |why: String| Err(GoalError(why));
        let mut goal = Self::new(text, -1.0, 2, 21, EXCEED);
        let mut sum = None;
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',') {
            let Some((key, value)) = part.split_once('=') else {
                return fail(format!(
                    "`{part}` has no value: a goal is written loss=0.5%,delay-p99=5ms"
                ));
            };
            if seen.contains(&key) {
                return fail(format!("`{key}` is given twice in the goal `{text}`"));
            }
            seen.push(key);
            let time = || {
                let time: Nanos = value
                    .parse()
                    .map_err(|e: linerate_model::units::ParseUnitError| GoalError(e.to_string()))?;
                match time.0 {
                    0 => Err(GoalError(format!("`{part}` must be more than nothing"))),
                    _ => Ok(time),
                }
            };
            match key {
                "loss" => goal.loss = share(part, value)?,
                "exceed" => goal.exceed = share(part, value)?,
                "width" => goal.width = share(part, value)?,
                "delay-p99" => goal.delay_p99 = Some(time()?),
                "time" => goal.time = time()?,
                "sum" => sum = Some(time()?),
                _ => {
                    return fail(format!(
                        "`{key}` is no part of a goal; it has loss, delay-p99, exceed, time, sum and width"
                    ));
                }
            }
        }
        if goal.loss < 0.0 {
            return fail(format!(
                "the goal `{text}` does not say how much loss is allowed: loss=0 or loss=0.5%"
            ));
        }
        if !(0.000_1..=0.5).contains(&goal.width) {
            return fail(format!("the width of `{text}` must be 0.01% to 50%"));
        }
        goal.sum = sum.unwrap_or(goal.sum);
        if sum.is_some() && goal.sum < goal.time {
            return fail(format!("in `{text}` the sum is shorter than one trial"));
        }
        Ok(goal.with_time(None))
    }

    /// The same goal with trials of this length. The sum grows with them, so that at least seven
    /// trials vote; a goal that excuses no bad trial needs but one. A sum that the goal was given stays,
    /// unless a trial is longer.
    #[must_use]
    pub fn with_time(mut self, time: Option<Nanos>) -> Self {
        self.time = time.unwrap_or(self.time);
        self.sum = if self.name.split(',').any(|part| part.starts_with("sum=")) {
            self.sum.max(self.time)
        } else if self.exceed == 0.0 && time.is_some() {
            self.time
        } else {
            self.sum.max(Nanos(self.time.0.saturating_mul(if self.exceed > 0.0 { 7 } else { 1 })))
        };
        self
    }

    /// Distance of the bounds that ends the search.
    pub fn width(&self) -> f64 {
        self.width.max(self.loss).min(0.5)
    }

    /// Whether a trial with this outcome is good. `None`: the rule of delay cannot be judged.
    pub fn met(&self, outcome: &Outcome) -> Option<bool> {
        if outcome.undelivered_ratio > self.loss {
            return Some(false);
        }
        match self.delay_p99 {
            None => Some(true),
            Some(most) => outcome.delay_p99_s.map(|delay| delay <= most.as_secs_f64()),
        }
    }
}

/// `0.5%` or `0.005`; 0 to below 1.
fn share(part: &str, text: &str) -> Result<f64, GoalError> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    number
        .parse::<f64>()
        .ok()
        .filter(|_| digits)
        .map(|value| value / scale)
        .filter(|value| (0.0..1.0).contains(value))
        .ok_or_else(|| {
            GoalError(format!("`{part}` is no share, such as 0.5% or 0.005, below 100%"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_as_users_write_them() {
        let goal = Goal::parse("loss=0.5%,delay-p99=5ms").unwrap();
        assert_eq!((goal.loss, goal.delay_p99), (0.005, Some(Nanos::from_millis(5))));
        assert_eq!(
            (goal.exceed, goal.time, goal.sum),
            (0.5, Nanos::from_secs(2), Nanos::from_secs(21))
        );
        assert_eq!(Goal::parse("loss=0").unwrap().loss, 0.0);
        assert_eq!(Goal::parse("loss=0.01").unwrap().width(), 0.01);
        let goal = Goal::parse("loss=0,time=5s,width=2%,exceed=25%").unwrap();
        assert_eq!((goal.sum, goal.width, goal.exceed), (Nanos::from_secs(35), 0.02, 0.25));
        assert_eq!(Goal::parse("loss=0,time=5s,sum=10s").unwrap().sum, Nanos::from_secs(10));
        // What a goal says of its sum stays with other trials.
        for (text, time_s, sum_s) in
            [("loss=0,exceed=0,sum=60s", 2, 60), ("loss=0,sum=5s", 2, 5), ("loss=0,sum=5s", 9, 9)]
        {
            let goal = Goal::parse(text).unwrap().with_time(Some(Nanos::from_secs(time_s)));
            assert_eq!(goal.sum, Nanos::from_secs(sum_s), "{text}");
        }
    }

    #[test]
    fn what_is_no_goal_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "has no value"),
            ("loss", "has no value"),
            ("loss=", "is no share"),
            ("loss=-1", "is no share"),
            ("loss=100%", "is no share"),
            ("loss=nan", "is no share"),
            ("loss=1e-3", "is no share"),
            ("delay-p99=5ms", "how much loss"),
            ("loss=0,loss=1%", "twice"),
            ("loss=0,delay-p99=0", "more than nothing"),
            ("loss=0,delay-p99=fast", "is not a length of time"),
            ("loss=0,jitter=1ms", "is no part of a goal"),
            ("loss=0,width=0", "width"),
            ("loss=0,time=5s,sum=1s", "shorter than one trial"),
        ] {
            let error = Goal::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn presets_have_their_parameters() {
        let of = |name| {
            let g = Goal::preset(name).unwrap();
            (g.loss, g.time.0 / 1_000_000_000, g.sum.0 / 1_000_000_000, g.exceed)
        };
        assert_eq!(of("quick"), (0.005, 1, 7, 0.5));
        assert_eq!(of("ndr"), (0.0, 1, 21, 0.5));
        assert_eq!(of("pdr"), (0.005, 1, 21, 0.5));
        assert_eq!(of("rfc2544"), (0.0, 60, 60, 0.0));
        assert_eq!(of("tst009"), (0.0, 60, 120, 0.5));
        assert!(PRESETS.iter().all(|name| Goal::preset(name).is_some()));
        assert_eq!(
            Goal::preset("pdr").unwrap().with_time(Some(Nanos::from_secs(5))).sum,
            Nanos::from_secs(35)
        );
        assert_eq!(
            Goal::preset("rfc2544").unwrap().with_time(Some(Nanos::from_secs(2))).sum,
            Nanos::from_secs(2)
        );
    }
}
