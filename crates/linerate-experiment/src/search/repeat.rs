//! Whole searches one after the other, and what they say together.

use linerate_model::search::{GoalRecord, RepeatRecord, RepeatedRecord, TrialRecord};
use linerate_model::units::Nanos;
use linerate_stats::offline::distribution::t_factor;

use super::{Ending, Next, Search, Settings};
use crate::trial::Outcome;

/// A number of searches that know nothing of each other.
#[derive(Debug, Clone)]
pub struct Repeated {
    settings: Settings,
    repeats: u64,
    searches: Vec<Search>,
}

impl Repeated {
    /// `repeats` searches; at least one is made.
    pub fn new(settings: Settings, repeats: u64) -> Self {
        let first = Search::new(settings.clone());
        Self { settings, repeats: repeats.max(1), searches: vec![first] }
    }

    /// The searches so far; the last one is at work.
    pub fn searches(&self) -> &[Search] {
        &self.searches
    }

    /// How many there are to be.
    pub fn repeats(&self) -> u64 {
        self.repeats
    }

    /// Time of all trials, seconds.
    pub fn seconds(&self) -> f64 {
        self.searches.iter().map(Search::seconds).sum()
    }

    /// What to do now.
    pub fn next(&self) -> Next {
        let Some(last) = self.searches.last() else { return Next::Done(Ending::Settled) };
        let next = last.next();
        if next != Next::Done(Ending::Settled) || self.searches.len() as u64 >= self.repeats {
            return next;
        }
        let next = self.following().next();
        // A search makes its first trial whatever the time; of a later one it must fit as well.
        if let (Next::Run { trial, .. }, Some(most)) = (&next, self.settings.max_time)
            && self.seconds() + trial.time.as_secs_f64() + last.overhead_s() > most.as_secs_f64()
        {
            return Next::Done(Ending::OutOfTime);
        }
        next
    }

    /// Changes the time allowed to all searches together.
    pub fn set_max_time(&mut self, most: Option<Nanos>) {
        self.settings.max_time = most;
        let earlier = self.searches.len().saturating_sub(1);
        let spent: f64 = self.searches.iter().take(earlier).map(Search::seconds).sum();
        let spent = Nanos((spent * 1e9) as u64);
        if let Some(last) = self.searches.last_mut() {
            last.set_max_time(most.map(|most| Nanos(most.0.saturating_sub(spent.0))));
        }
    }

    /// How long the rest takes, seconds, as far as it can be foreseen; never more than the time allowed leaves.
    pub fn left_s(&self) -> f64 {
        let Some(last) = self.searches.last() else { return 0.0 };
        let left = last.left_s();
        let more = self.repeats.saturating_sub(self.searches.len() as u64) as f64;
        let allowed = self.settings.max_time.map_or(f64::INFINITY, Nanos::as_secs_f64);
        (left + more * (last.seconds() + left)).min((allowed - self.seconds()).max(0.0))
    }

    /// The next search, with the time that the earlier ones left.
    fn following(&self) -> Search {
        let mut settings = self.settings.clone();
        let spent = Nanos((self.seconds() * 1e9) as u64);
        settings.max_time = settings.max_time.map(|most| Nanos(most.0.saturating_sub(spent.0)));
        Search::new(settings)
    }

    /// Takes in what came of the trial that [`Self::next`] gave.
    pub fn take(&mut self, outcome: Outcome) {
        let done = self.searches.last().map(Search::next);
        if matches!(done, Some(Next::Done(Ending::Settled)))
            && (self.searches.len() as u64) < self.repeats
        {
            let next = self.following();
            self.searches.push(next);
        }
        if let Some(last) = self.searches.last_mut() {
            last.take(outcome);
        }
    }

    /// Every trial.
    pub fn trials(&self) -> Vec<TrialRecord> {
        (1..).zip(&self.searches).flat_map(|(i, search)| search.trials(i)).collect()
    }

    /// Each search by itself, when there is more than one.
    pub fn each(&self) -> Vec<RepeatRecord> {
        if self.searches.len() < 2 {
            return Vec::new();
        }
        (1..)
            .zip(&self.searches)
            .map(|(search, s)| RepeatRecord { search, goals: s.goals(), seconds: s.seconds() })
            .collect()
    }

    /// The answers: of each goal, that of the search with the median lower bound (of two in the
    /// middle the lower one) among those that settled it, and the mean of these with its interval.
    pub fn goals(&self) -> Vec<GoalRecord> {
        let goals = (0..self.settings.goals.len()).filter_map(|i| {
            let of = self.of(i);
            let (_, goal) = of.get(chosen(&of)?)?;
            Some(GoalRecord { repeated: self.repeated(&of), ..goal.clone() })
        });
        goals.collect()
    }

    /// What limits, in sentences: each of the search that [`Self::goals`] has the goal's answer from.
    pub fn because(&self) -> Vec<String> {
        let goals = (0..self.settings.goals.len()).filter_map(|i| {
            let at = chosen(&self.of(i))?;
            let text = self.searches.get(at)?.because_of(i)?;
            let several = self.searches.len() > 1;
            Some(if several { format!("search {}: {text}", at + 1) } else { text })
        });
        goals.collect()
    }

    /// One goal's answer of each search, with whether it counts: its search came to its end and
    /// settled it. What was cut short has stopped anywhere.
    fn of(&self, i: usize) -> Vec<(bool, GoalRecord)> {
        let answer = |search: &Search| {
            let goal = search.goals().into_iter().nth(i)?;
            Some((search.is_finished() && goal.settled, goal))
        };
        self.searches.iter().filter_map(answer).collect()
    }

    fn repeated(&self, of: &[(bool, GoalRecord)]) -> Option<RepeatedRecord> {
        if self.repeats < 2 {
            return None;
        }
        let counted = || of.iter().filter(|(counts, goal)| *counts && is_within(goal));
        let logs: Vec<f64> = counted().filter_map(|(_, goal)| place(goal).map(f64::ln)).collect();
        // What is known of each search is between which loads its limit is, and no more.
        let down = counted().map(|(_, goal)| sides(goal).0).fold(0.0, f64::max);
        let up = counted().map(|(_, goal)| sides(goal).1).fold(0.0, f64::max);
        let n = logs.len() as f64;
        let mean = (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / n);
        let half = mean.filter(|_| logs.len() > 1).and_then(|mean| {
            let variance = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
            t_factor(0.05, n - 1.0).map(|t| t * (variance / n).sqrt())
        });
        let ends = mean.zip(half);
        Some(RepeatedRecord {
            asked: self.repeats,
            finished: self.searches.iter().filter(|search| search.is_finished()).count() as u64,
            searches: logs.len() as u64,
            mean_bps: mean.map(f64::exp),
            low_bps: ends.map(|(mean, half)| (mean - half.max(down)).exp()),
            high_bps: ends.map(|(mean, half)| (mean + half.max(up)).exp()),
        })
    }
}

/// Whether the limit is known from both sides. One beyond an end of the range has no place there, and so none in a mean.
fn is_within(goal: &GoalRecord) -> bool {
    goal.knee_bps.is_some() || (goal.lower_bps.is_some() && goal.upper_bps.is_some())
}

/// What stands for a search: the knee where it was fitted, the lower bound otherwise.
fn place(goal: &GoalRecord) -> Option<f64> {
    goal.knee_bps.map(|k| k.median).or(goal.lower_bps)
}

/// How far below and above its [`place`] the limit of a search may be, as logarithms.
fn sides(goal: &GoalRecord) -> (f64, f64) {
    match (goal.knee_bps, goal.lower_bps.zip(goal.upper_bps)) {
        (Some(knee), _) => ((knee.median / knee.low).ln(), (knee.high / knee.median).ln()),
        (None, Some((lower, upper))) => (0.0, (upper / lower).ln()),
        (None, None) => (0.0, 0.0),
    }
}

/// The search whose answer is shown: the median of those that count, else of those that know
/// anything, else of all.
fn chosen(of: &[(bool, GoalRecord)]) -> Option<usize> {
    let those = |fits: &dyn Fn(&(bool, GoalRecord)) -> bool| -> Vec<usize> {
        (0..of.len()).filter(|at| of.get(*at).is_some_and(fits)).collect()
    };
    let mut among = those(&|(counts, goal)| *counts && place(goal).is_some());
    if among.is_empty() {
        among = those(&|(_, goal)| place(goal).is_some());
    }
    if among.is_empty() {
        among = those(&|_| true);
    }
    let value = |at: &usize| of.get(*at).and_then(|(_, goal)| place(goal)).unwrap_or(0.0);
    among.sort_by(|a, b| value(a).total_cmp(&value(b)));
    among.get(among.len().checked_sub(1)? / 2).copied()
}
