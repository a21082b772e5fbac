//! What a tuning says, at its end or wherever it was stopped.

use linerate_model::tune::{Gain, Reason};
use linerate_stats::offline::summary::{Moments, mean};

use super::race::Entrant;
use super::space::Combination;
use super::{FEWEST_PAIRS, Stage, Tune};

/// Confidence of the intervals.
const LEVEL: f64 = 0.95;

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What to use: the default, unless the other's gain is shown and may reach the width, and it gave a figure
    /// wherever the default did.
    pub best: Combination,
    /// What was compared with the default at the end, or would have been.
    pub candidate: Combination,
    /// What that gains, percent, by fresh pairs of runs; nothing where there were none.
    pub gain: Option<Gain>,
    /// Pairs behind it.
    pub pairs: usize,
    /// Fresh blocks in which the default gave a figure and the candidate none.
    pub missed: usize,
    /// The mean of the default in the unit of the figures: in those pairs, or else at the beginning.
    pub default_mean: Option<f64>,
    /// The mean of the candidate in those pairs.
    pub candidate_mean: Option<f64>,
    /// Whether `best` is another than the default.
    pub recommended: bool,
    /// Why it ended; `Stopped` while it goes on.
    pub reason: Reason,
    /// Factor by factor.
    pub factors: Vec<FactorFound>,
}

/// What is known of a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct FactorFound {
    /// Its level in `best`.
    pub best: usize,
    /// What the candidate's level gains over the default's, percent, all else being the candidate's; nothing where it
    /// is the default's.
    pub worth: Option<Gain>,
    /// The most that any other of its levels could add, percent; nothing where not all were compared.
    pub others_most: Option<f64>,
    /// What each level gains over that of the combination that the search ended at, and comparisons behind it.
    pub levels: Vec<Option<(Gain, usize)>>,
}

impl Tune {
    /// What is known now.
    pub fn found(&self) -> Found {
        let candidate = self
            .confirmed
            .as_ref()
            .map_or_else(|| self.leader.clone(), |race| race.reference.clone());
        let default = self.space.default();
        let pairs = self.confirmed.as_ref().and_then(|race| race.find(&default));
        let gain = pairs.and_then(|entrant| self.over(entrant));
        // What is surely less than matters is not worth a change, however sure it is.
        let matters = self.percent(self.width(), self.width(), self.width()).low;
        // What failed is in no gain: those that are left may be the ones that chance spared.
        let missed = self.confirmed.as_ref().map_or(0, |race| race.missed);
        let shown = gain.is_some_and(|gain| gain.low > 0.0 && gain.high >= matters);
        let enough = pairs.is_some_and(|entrant| entrant.gains.len() >= FEWEST_PAIRS);
        let recommended = shown && enough && missed == 0;
        let best = if recommended { candidate.clone() } else { default.clone() };
        let factors =
            (0..self.space.factors()).map(|factor| self.factor(factor, &candidate, &best));
        let those = if self.confirmed.is_some() { &self.shown } else { &self.figures };
        let figure = |of: &Combination| {
            let figures = those.iter().filter(|(c, _)| c == of).map(|(_, value)| *value);
            mean(&figures.collect::<Vec<_>>())
        };
        Found {
            gain,
            pairs: pairs.map_or(0, |entrant| entrant.gains.len()),
            missed,
            default_mean: figure(&default),
            candidate_mean: gain.and_then(|_| figure(&candidate)),
            recommended,
            reason: match self.stage {
                Stage::Done(reason) => reason,
                _ => Reason::Stopped,
            },
            factors: factors.collect(),
            best,
            candidate,
        }
    }

    /// What the reference of a race gains over an entrant, by the entrant's own differences alone.
    fn over(&self, entrant: &Entrant) -> Option<Gain> {
        let gains: Vec<f64> = entrant.gains.iter().map(|gain| -gain).collect();
        let moments = Moments::of(&gains)?;
        let half = moments.half_width(LEVEL)?;
        Some(self.percent(moments.mean, moments.mean - half, moments.mean + half))
    }

    /// Logarithms as shares of what they are compared with: more of what is wanted large, less of what is wanted small.
    fn percent(&self, mean: f64, low: f64, high: f64) -> Gain {
        let percent = |gain: f64| {
            let share = if self.settings.lower { -(-gain).exp_m1() } else { gain.exp_m1() };
            share * 100.0
        };
        Gain { mean: percent(mean), low: percent(low), high: percent(high) }
    }

    fn factor(&self, factor: usize, candidate: &Combination, best: &Combination) -> FactorFound {
        let back = candidate.with(factor, 0);
        let race = self.confirmed.as_ref().filter(|_| candidate.level(factor) > 0);
        let worth = race.and_then(|race| self.over(race.find(&back)?));
        let count = self.space.levels_of_all(factor);
        let levels: Vec<_> = (0..count).map(|level| self.level(factor, level)).collect();
        let known = |level: usize| {
            let out = self.space.left_out().contains(&(factor, level));
            let own =
                self.around.as_ref().is_some_and(|(race, _)| race.reference.level(factor) == level);
            (!out && !own).then(|| self.most(factor, level))
        };
        let others: Option<Vec<f64>> = (0..count).filter_map(known).collect();
        let others_most =
            others.filter(|o| !o.is_empty()).map(|o| o.into_iter().fold(f64::MIN, f64::max));
        FactorFound { best: best.level(factor), worth, others_most, levels }
    }

    /// The most that a level could add, percent.
    fn most(&self, factor: usize, level: usize) -> Option<f64> {
        let (race, noise) = self.around.as_ref()?;
        let entrant = race.find(&race.reference.with(factor, level))?;
        let bounds = race.ends(entrant, *noise)?;
        Some(self.percent(bounds.mean, bounds.low, bounds.high).high)
    }

    fn level(&self, factor: usize, level: usize) -> Option<(Gain, usize)> {
        let (race, noise) = self.around.as_ref()?;
        let entrant = race.find(&race.reference.with(factor, level))?;
        let bounds = race.bounds(entrant, *noise)?;
        Some((self.percent(bounds.mean, bounds.low, bounds.high), entrant.gains.len()))
    }
}
