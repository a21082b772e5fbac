//! What a search found, for the record, and what of it did not go by the book, in words.

mod irregular;

use std::collections::BTreeMap;

use linerate_model::record::Limit;
use linerate_model::search::{BoundRecord, GoalRecord, KneeRecord, TrialRecord};
use linerate_model::units::si;
use linerate_stats::offline::summary;

use super::classify::{self, Board, Bounds};
use super::goal::Goal;
use super::mlr;
use super::{Made, Search, fitted, judge};

impl Search {
    /// The answer to every goal, as far as it is known.
    pub fn goals(&self) -> Vec<GoalRecord> {
        let goals = self.settings.goals.iter().enumerate();
        goals.map(|(i, goal)| self.goal(i, goal)).collect()
    }

    /// Every trial, for the record. `search` counts whole searches from 1.
    pub fn trials(&self, search: u64) -> Vec<TrialRecord> {
        self.made.iter().map(|made| self.trial(made, search)).collect()
    }

    fn trial(&self, made: &Made, search: u64) -> TrialRecord {
        let judged = made.load.is_some() && made.outcome.invalid.is_none();
        let goals = self.settings.goals.iter().filter(|_| judged);
        let meets: Vec<String> = goals
            .filter(|goal| judge(goal, made).is_some_and(|j| j.good))
            .map(|goal| goal.name.clone())
            .collect();
        let o = &made.outcome;
        TrialRecord {
            search,
            purpose: made.purpose,
            asked_bps: made.trial.rate.map(|rate| rate.bits_per_second() as f64),
            sent_bps: o.sent_bps,
            received_bps: o.received_bps,
            seconds: made.trial.time.as_secs_f64(),
            took_s: o.took_s,
            lost_ratio: o.lost_ratio,
            undelivered_ratio: o.undelivered_ratio,
            lost_path: o.lost_path,
            dropped_receiver: o.dropped_receiver,
            jitter_s: o.jitter_s,
            delay_p99_s: o.delay_p99_s,
            cpu_sender_percent: o.cpu_sender_percent,
            cpu_receiver_percent: o.cpu_receiver_percent,
            limit: o.limit,
            good: judged.then_some(meets.len() == self.settings.goals.len()),
            meets,
            invalid: o.invalid.clone(),
            run: o.run.clone(),
        }
    }

    fn goal(&self, i: usize, goal: &Goal) -> GoalRecord {
        let target = mlr::final_target(goal);
        let judged = self.made.iter().filter(|m| m.load.is_some() && m.outcome.invalid.is_none());
        let seconds: f64 = judged.clone().map(|m| m.outcome.took_s).sum();
        let mut record = GoalRecord {
            name: goal.name.clone(),
            loss: goal.loss,
            delay_p99_s: goal.delay_p99.map(|d| d.as_secs_f64()),
            exceed: goal.exceed,
            trial_s: target.time_s,
            sum_s: target.sum_s,
            width: goal.width(),
            lower_bps: None,
            upper_bps: None,
            throughput_bps: None,
            trials: judged.count() as u64,
            seconds,
            settled: false,
            irregular: self.no_range(),
            knee_bps: None,
            at_lower: None,
            at_upper: None,
            limit: None,
            repeated: None,
        };
        let Some((range, board)) = self.range.as_ref().and_then(|r| Some((r, r.boards.get(i)?)))
        else {
            return record;
        };
        let bounds = self.bounds(goal, board);
        let load = |at: usize| range.grid.load(at);
        let at = |at: usize| {
            let bound = classify::record(load(at), board.get(&at)?, &target);
            Some(BoundRecord { received_bps: self.received_at(at), ..bound })
        };
        record.lower_bps = bounds.lower.map(load);
        record.upper_bps = bounds.upper.map(load);
        record.at_lower = bounds.lower.and_then(at);
        record.at_upper = bounds.upper.and_then(at);
        // A bound that the sum has not settled has time missing, and would count as lost.
        let settled_lower = bounds
            .lower
            .filter(|l| record.at_lower.is_some_and(|b| b.settled && board.contains_key(l)));
        record.throughput_bps = settled_lower
            .map(|lower| load(lower) * classify::conditional_delivery(&board[&lower], &target));
        record.settled = mlr::next(goal, board, &range.grid, 0).is_none();
        // Nobody knows what a load is that gave no valid trial.
        record.settled &= bounds.upper.is_none_or(|upper| !range.given_up.contains(&upper));
        if let Some(fit) = range.fits.get(i) {
            // At an end of the range the interval is of the range and not of the limit.
            let within = fit.knee().filter(|knee| knee.reaches(&range.grid) == (false, false));
            // Loads that could not be tried may be those that would have moved the knee.
            record.settled = self.settings.ci.is_some_and(|ci| fitted(fit, ci))
                && within.is_some()
                && range.given_up.is_empty();
            record.knee_bps = within.map(|knee| KneeRecord {
                median: knee.median,
                low: knee.low,
                high: knee.high,
                background: knee.background,
            });
        }
        record.limit = self.limit(goal, bounds.upper);
        record.irregular = words(self.irregular(i, goal, range, board, bounds, &record));
        record
    }

    /// Bounds under the goal or, when the fit or the end of time left them open, under the finest
    /// coarser target that has both.
    pub(super) fn bounds(&self, goal: &Goal, board: &Board) -> Bounds {
        let stages = (0..=mlr::last_stage(goal)).rev();
        let mut found = stages.map(|stage| classify::bounds(board, &mlr::target(goal, stage)));
        let last = found.next().unwrap_or_default();
        if last.lower.is_some() && last.upper.is_some() {
            return last;
        }
        let both = found.find(|b| b.lower.is_some() && b.upper.is_some());
        both.filter(|_| last == Bounds::default()).unwrap_or(last)
    }

    /// Why there is no range, if there is none.
    fn no_range(&self) -> Option<String> {
        let last = self.made.last()?;
        if let Some(why) = &last.outcome.invalid {
            let count = self.made.len();
            return Some(format!("{count} trials in a row said nothing: {why}"));
        }
        self.range.is_none().then(|| {
            format!(
                "generator-limited: the sender reached {}, which is less than the least load, {}",
                si(last.outcome.sent_bps, "bit/s"),
                self.settings.min
            )
        })
    }

    /// The verdict that most of the bad trials at the upper bound share.
    fn limit(&self, goal: &Goal, upper: Option<usize>) -> Option<Limit> {
        let mut votes: BTreeMap<&str, (usize, Limit)> = BTreeMap::new();
        for made in self.made.iter().filter(|m| m.load.is_some() && m.load == upper) {
            let bad = judge(goal, made).is_some_and(|j| !j.good);
            if let Some(limit) = made.outcome.limit.filter(|l| bad && *l != Limit::RequestedRate) {
                votes.entry(limit.name()).or_insert((0, limit)).0 += 1;
            }
        }
        votes.into_values().max_by_key(|(count, _)| *count).map(|(_, limit)| limit)
    }

    /// The valid trials at a load, of whatever length.
    fn valid_at(&self, load: usize) -> impl Iterator<Item = &Made> {
        self.made.iter().filter(move |m| m.load == Some(load) && m.outcome.invalid.is_none())
    }

    /// Median of what arrived at a load, over its valid trials.
    fn received_at(&self, load: usize) -> Option<f64> {
        let received: Vec<f64> = self.valid_at(load).map(|m| m.outcome.received_bps).collect();
        summary::median(&summary::sorted(&received))
    }

    /// Mean of what the sender sent at a load, over its valid trials.
    fn sent_at(&self, load: usize) -> Option<f64> {
        let sent: Vec<f64> = self.valid_at(load).map(|m| m.outcome.sent_bps).collect();
        summary::mean(&sent)
    }

    /// Sentences for a person: which end, and by what evidence.
    pub fn because(&self) -> Vec<String> {
        (0..self.settings.goals.len()).filter_map(|i| self.because_of(i)).collect()
    }

    /// The sentence of one goal; `None` where no trial shows why its load fails.
    pub(super) fn because_of(&self, i: usize) -> Option<String> {
        let (range, goal) = self.range.as_ref().zip(self.settings.goals.get(i))?;
        let upper = self.bounds(goal, range.boards.get(i)?).upper?;
        // The bad ones are some of these.
        let there: Vec<&Made> = self.valid_at(upper).collect();
        let is_bad = |m: &&Made| judge(goal, m).is_some_and(|j| !j.good);
        let bad: Vec<&Made> = there.iter().copied().filter(is_bad).collect();
        if bad.is_empty() {
            return None;
        }
        let mean = |of: fn(&Made) -> f64| bad.iter().map(|m| of(m)).sum::<f64>() / bad.len() as f64;
        let (sent, received) = (mean(|m| m.outcome.sent_bps), mean(|m| m.outcome.received_bps));
        let late = mean(|m| m.outcome.undelivered_ratio) - mean(|m| m.outcome.lost_ratio);
        let upper_bps = range.grid.load(upper);
        let mut text = format!(
            "{}: at {} {} of {} trials were bad: {} was sent, {} arrived; {}",
            goal.name,
            si(upper_bps, "bit/s"),
            bad.len(),
            there.len(),
            si(sent, "bit/s"),
            si(received, "bit/s"),
            places(&bad),
        );
        let unsent = 1.0 - sent / upper_bps;
        if unsent > 0.005 {
            text.push_str(&format!("; {:.1} % was never sent", 100.0 * unsent));
        } else if late > 0.005 {
            text.push_str(&format!(
                "; {:.1} % came, or was read, later than the trial lasted",
                100.0 * late
            ));
        }
        let limit = match self.limit(goal, Some(upper)) {
            Some(Limit::SenderCpu) => "the sender's CPU",
            Some(Limit::SenderHost) => "the sender's host",
            Some(Limit::Path) => "the path",
            Some(Limit::ReceiverCpu) => "the receiver's CPU",
            Some(Limit::ReceiverBuffer) => "the receiver's buffer",
            Some(Limit::OtherWork) => "other work on the hosts",
            _ => "not known",
        };
        text.push_str(&format!("; the limit is {limit}"));
        Some(text)
    }
}

/// Where the datagrams of these trials were lost, as far as every one of them reports it.
fn places(trials: &[&Made]) -> String {
    let sum = |of: fn(&Made) -> Option<u64>| -> Option<u64> {
        trials.iter().try_fold(0_u64, |sum, m| Some(sum.saturating_add(of(m)?)))
    };
    let known = (sum(|m| m.outcome.lost_path), sum(|m| m.outcome.dropped_receiver));
    let mut text = match known {
        (Some(path), Some(socket)) => format!(
            "{path} datagrams were lost on the path, {socket} dropped by the receiver's socket"
        ),
        (Some(path), None) => format!(
            "{path} datagrams were lost on the path, and what the receiver's socket dropped is not known"
        ),
        (None, Some(socket)) => format!(
            "{socket} datagrams were dropped by the receiver's socket, and what the path lost is not known"
        ),
        (None, None) if trials.iter().all(|m| m.outcome.lost_ratio == 0.0) => {
            "none was lost".to_owned()
        }
        (None, None) => "where datagrams were lost is not known".to_owned(),
    };
    let either = sum(|m| Some(m.outcome.unattributed.unwrap_or(0))).filter(|n| *n > 0);
    if let Some(either) = either {
        text.push_str(&format!(", {either} more by one of the two"));
    }
    text
}

fn words(said: Vec<String>) -> Option<String> {
    (!said.is_empty()).then(|| said.join("; "))
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::Way;
    use linerate_model::units::BitRate;

    use super::super::{Next, Settings};
    use super::*;
    use crate::trial::Outcome;

    /// Between 1 and 2 Mbit/s.
    fn search() -> Search {
        Search::new(Settings {
            way: Way::Forward,
            min: BitRate::new(1_000_000).unwrap(),
            max: BitRate::new(2_000_000),
            goals: vec![Goal::parse("loss=0,time=1s,sum=3s,width=50%").unwrap()],
            ci: None,
            shape: false,
            max_time: None,
        })
    }

    #[test]
    fn what_a_sender_sends_is_not_the_mean_with_trials_that_say_nothing() {
        let mut search = search();
        let mut seen = std::collections::BTreeSet::new();
        while let Next::Run { trial, load, .. } = search.next() {
            let asked = trial.rate.unwrap().bits_per_second() as f64;
            // Other work ruins the first trial at each load.
            let ruined = load.is_some() && seen.insert(load);
            let sent_bps = if ruined { 1e5 } else { asked.min(1.5e6) };
            search.take(Outcome {
                sent_bps,
                received_bps: sent_bps,
                undelivered_ratio: 1.0 - sent_bps / asked,
                took_s: 1.0,
                invalid: ruined.then(|| "other work".to_owned()),
                ..Outcome::default()
            });
        }
        let goals = search.goals();
        let goal = &goals[0];
        assert_eq!((goal.lower_bps, goal.upper_bps), (Some(1e6), Some(2e6)));
        let said = goal.irregular.as_deref().unwrap();
        assert!(said.contains("the sender itself sent only 1.500 Mbit/s"), "{said}");
    }

    #[test]
    fn the_median_of_two_trials_is_between_them() {
        let mut search = search();
        let mut received_bps = 1.9e6;
        while matches!(search.next(), Next::Run { .. }) {
            received_bps += 1e4;
            search.take(Outcome { sent_bps: 2e6, received_bps, took_s: 1.0, ..Outcome::default() });
        }
        let bound = search.goals()[0].at_lower.unwrap();
        let most = BitRate::new(2_000_000);
        let at_it = |made: &&Made| made.load.is_some() && made.trial.rate == most;
        let there = search.made().iter().filter(at_it);
        let received: Vec<f64> = there.map(|made| made.outcome.received_bps).collect();
        assert_eq!((received, bound.load_bps), (vec![1.94e6, 1.95e6], 2e6));
        assert_eq!(bound.received_bps, Some(1.945e6));
    }
}
