//! What each stage decides once its race is over.

use std::collections::BTreeMap;

use linerate_model::tune::Reason;
use linerate_stats::offline::power::pairs_needed;

use super::space::Combination;
use super::{FEWEST_PAIRS, PAIRS, ROUNDS, SCREEN, STAY, Stage, Tune};

/// Moves to a better combination, before it is noise that moves.
const MOST_MOVES: u32 = 12;

impl Tune {
    pub(super) fn screen(&mut self) {
        let rows = self.space.covering();
        self.begin(rows, Stage::Screen(0));
    }

    pub(super) fn screened(&mut self, round: usize) {
        if round + 1 < SCREEN.len() {
            let living = self.race.entrants.iter().filter(|e| !e.out).count();
            if round == 0 {
                let together = self.best_of_each();
                self.race.halve(living.div_ceil(3).max(STAY));
                if together != self.leader && self.possible(&together) {
                    self.race.enter(vec![together]);
                }
            } else {
                self.race.halve(living.div_ceil(3).max(STAY));
            }
            self.stage = Stage::Screen(round + 1);
            return;
        }
        let scatter = self.race.noise(self.noise).variance().unwrap_or(0.0);
        let best = self.race.best().filter(|e| {
            e.mean().is_some_and(|mean| mean > 2.0 * (scatter / e.gains.len() as f64).sqrt())
        });
        let leader = best.map_or_else(|| self.leader.clone(), |e| e.combination.clone());
        self.refine(leader);
    }

    /// Of each factor the level that was best on average over the screen, whatever the others were.
    fn best_of_each(&self) -> Combination {
        // One level that stops everything must not decide over those that it met.
        const FLOOR: f64 = -0.7;
        let default = (&self.race.reference, 0.0);
        let rows = self.race.entrants.iter().filter_map(|e| Some((&e.combination, e.mean()?)));
        let rows: Vec<_> = rows.chain([default]).collect();
        let best = (0..self.space.factors()).map(|factor| {
            let mut levels: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
            for (row, gain) in &rows {
                let (sum, count) = levels.entry(row.level(factor)).or_default();
                *sum += gain.max(FLOOR);
                *count += 1.0;
            }
            let means = levels.into_iter().map(|(level, (sum, count))| (level, sum / count));
            means.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(level, _)| level)
        });
        Combination(best.collect())
    }

    pub(super) fn refine(&mut self, leader: Combination) {
        self.leader = leader;
        let neighbours = self.space.neighbours(&self.leader);
        self.begin(neighbours, Stage::Refine(0));
    }

    /// Takes out what is settled; gives those that are shown to be better than the reference.
    fn settle(&mut self) -> Vec<(Combination, f64)> {
        let (width, noise) = (self.width(), self.race.noise(self.noise));
        let mut better = Vec::new();
        let mut settled = Vec::new();
        for entrant in &self.race.entrants {
            let bounds = self.race.ends(entrant, noise).filter(|_| !entrant.out);
            let reverts = entrant.combination.changed().len() < self.race.reference.changed().len();
            settled.push(bounds.is_some_and(|bounds| {
                if bounds.low > 0.0 {
                    better.push((entrant.combination.clone(), bounds.mean));
                }
                // Of a level that goes back to the default it must be known whether that costs anything.
                let needed = bounds.high < 0.0 || bounds.low >= -width;
                bounds.low > 0.0 || bounds.high <= width && (!reverts || needed)
            }));
        }
        for (entrant, settled) in self.race.entrants.iter_mut().zip(settled) {
            entrant.out |= settled;
        }
        better
    }

    fn is_open(&self) -> bool {
        self.race.entrants.iter().any(|e| !e.out)
    }

    pub(super) fn refined(&mut self, round: usize) {
        let better = self.settle();
        if !better.is_empty() && self.moves < MOST_MOVES {
            self.moves += 1;
            self.go_on(better);
        } else if self.is_open() && round + 1 < ROUNDS.len() {
            self.stage = Stage::Refine(round + 1);
        } else {
            if self.is_open() || !better.is_empty() {
                self.reason = Reason::Noise;
            }
            self.keep_around();
            self.plateau();
        }
    }

    /// What alone changes nothing may be what something else waits for: of the levels that cost nothing every two
    /// together.
    fn plateau(&mut self) {
        let (width, noise) = (self.width(), self.race.noise(self.noise));
        let mut space = self.space.clone();
        for entrant in &self.race.entrants {
            let bounds = self.race.ends(entrant, noise);
            if bounds.is_none_or(|bounds| bounds.mean < -width) {
                let other = |f: &usize| entrant.combination.level(*f) != self.leader.level(*f);
                let factor = (0..space.factors()).find(other).unwrap_or(0);
                space.forbid(factor, entrant.combination.level(factor));
            }
        }
        let rows = space.covering_from(&self.leader);
        let rows: Vec<_> = rows.into_iter().filter(|row| self.race.find(row).is_none()).collect();
        self.begin(rows, Stage::Plateau(0));
    }

    pub(super) fn crossed(&mut self, round: usize) {
        if round + 1 < SCREEN.len() {
            let living = self.race.entrants.iter().filter(|e| !e.out).count();
            self.race.halve(living.div_ceil(3).max(STAY));
            self.stage = Stage::Plateau(round + 1);
            return;
        }
        let noise = self.race.noise(self.noise);
        let best = self.race.best();
        let found = best.and_then(|e| Some((e.combination.clone(), self.race.ends(e, noise)?)));
        match found {
            Some((best, bounds)) if bounds.low > 0.0 && self.moves < MOST_MOVES => {
                self.moves += 1;
                self.refine(best);
            }
            _ => {
                let back = self.leader.changed();
                let back = back.into_iter().map(|factor| self.leader.with(factor, 0)).collect();
                self.begin(back, Stage::Ablate(1));
            }
        }
    }

    /// To the better one, or to the best of each factor together if that is better still.
    fn go_on(&mut self, mut better: Vec<(Combination, f64)>) {
        better.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut together = self.leader.clone();
        for factor in 0..self.space.factors() {
            let other = |c: &&(Combination, f64)| c.0.level(factor) != self.leader.level(factor);
            if let Some((best, _)) = better.iter().find(other) {
                together = together.with(factor, best.level(factor));
            }
        }
        let Some((best, _)) = better.into_iter().next() else { return };
        if together == best || !self.possible(&together) {
            self.refine(best);
        } else {
            self.begin(vec![together, best], Stage::Join);
        }
    }

    /// The search ends here: what its last race says of the levels is kept.
    pub(super) fn keep_around(&mut self) {
        if matches!(self.stage, Stage::Refine(_)) {
            self.around = Some((self.race.clone(), self.race.noise(self.noise)));
        }
    }

    /// Puts back to the default what is not shown to be needed, by the race that has just ended.
    fn prune(&mut self) {
        let noise = self.race.noise(self.noise);
        let mut unneeded: Vec<(usize, f64)> = Vec::new();
        for factor in self.leader.changed() {
            let back = self.race.find(&self.leader.with(factor, 0));
            // What cannot be put back alone stays.
            let bounds = back.and_then(|e| self.race.ends(e, noise));
            if let Some(bounds) = bounds.filter(|bounds| bounds.high >= 0.0) {
                unneeded.push((factor, bounds.mean));
            }
        }
        unneeded.sort_by(|a, b| b.1.total_cmp(&a.1));
        let Some((least, _)) = unneeded.first().copied() else { return self.confirm() };
        let single = self.leader.with(least, 0);
        let mut all = self.leader.clone();
        for (factor, _) in &unneeded {
            all = all.with(*factor, 0);
        }
        if unneeded.len() == 1 || !self.possible(&all) {
            self.begin(vec![single], Stage::Drop(2, None));
        } else {
            self.begin(vec![all], Stage::Drop(2, Some(single)));
        }
    }

    /// `single` is what is put back where not all of it can be.
    pub(super) fn dropped(&mut self, round: usize, single: Option<Combination>) {
        let (width, noise) = (self.width(), self.race.noise(self.noise));
        let all = self.race.entrants.first().filter(|e| !e.out);
        let found =
            all.and_then(|all| Some((all.combination.clone(), self.race.ends(all, noise)?)));
        let last = round + 1 >= ROUNDS.len();
        match (found, single) {
            (Some((all, bounds)), single)
                if bounds.low >= -width || last && bounds.mean > -width / 2.0 =>
            {
                self.leader = all;
                match single {
                    Some(_) => self.confirm(),
                    // What was not needed beside it may be needed without it.
                    None => self.ablate(),
                }
            }
            (Some((_, bounds)), single) if bounds.high >= 0.0 && !last => {
                self.stage = Stage::Drop(round + 1, single);
            }
            // Together they are needed, though no one of them alone was shown to be: all but one stay.
            (_, Some(single)) => self.begin(vec![single], Stage::Drop(2, None)),
            (_, None) => self.confirm(),
        }
    }

    fn ablate(&mut self) {
        let changed = self.leader.changed();
        if changed.len() < 2 {
            // The last comparison asks just that.
            return self.confirm();
        }
        let back = changed.into_iter().map(|factor| self.leader.with(factor, 0)).collect();
        self.begin(back, Stage::Ablate(1));
    }

    pub(super) fn ablated(&mut self, round: usize) {
        self.settle();
        if self.is_open() && round + 1 < ROUNDS.len() {
            self.stage = Stage::Ablate(round + 1);
        } else {
            self.prune();
        }
    }

    /// Fresh pairs with the default, and with each changed factor put back. How many is fixed before they are looked at.
    pub(super) fn confirm(&mut self) {
        let default = self.space.default();
        if self.leader == default {
            return self.end(self.reason);
        }
        let changed = self.leader.changed();
        let back = changed.iter().map(|factor| self.leader.with(*factor, 0));
        let mut back: Vec<_> = back.filter(|_| changed.len() > 1).collect();
        let variance = self.race.noise(self.noise).variance().unwrap_or(0.0);
        let needed = pairs_needed(self.width(), variance, 0.95).unwrap_or(*PAIRS.end());
        let mut pairs = needed.clamp(*PAIRS.start(), *PAIRS.end()) as usize;
        if self.fit(back.len() + 2).is_some_and(|fit| fit < pairs) {
            // Whether it is better at all comes before what makes it so.
            back.clear();
            pairs = self.fit(2).map_or(pairs, |fit| fit.min(pairs));
            self.reason = Reason::MaxTime;
        }
        if pairs < FEWEST_PAIRS {
            return self.end(Reason::MaxTime);
        }
        self.figures.clear();
        let all = [default].into_iter().chain(back).collect();
        self.begin(all, Stage::Confirm(0, pairs));
    }

    /// The default stays unless the interval says otherwise; and what is changed must be needed.
    pub(super) fn confirmed(&mut self) {
        self.confirmed = Some(self.race.clone());
        self.shown = std::mem::take(&mut self.figures);
        let found = self.found();
        let worths = found.factors.iter().enumerate();
        let doubtful =
            worths.filter_map(|(f, factor)| Some((f, factor.worth.filter(|w| w.low <= 0.0)?)));
        let least = doubtful.min_by(|a, b| a.1.mean.total_cmp(&b.1.mean)).map(|(factor, _)| factor);
        match least {
            Some(factor) if found.recommended => {
                self.leader = self.leader.with(factor, 0);
                self.confirm();
            }
            _ => self.end(self.reason),
        }
    }
}
