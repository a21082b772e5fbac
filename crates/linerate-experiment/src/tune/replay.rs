//! A tuning that goes on: the trials that were made are gone through again, as the controller asks for them.

use linerate_model::tune::Purpose;

use super::space::Combination;
use super::{Measured, Settings, Tune};

/// A trial that was made, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// What was tried.
    pub combination: Combination,
    /// What for.
    pub purpose: Purpose,
    /// What came of it.
    pub measured: Measured,
}

/// A trial is not the one that the controller makes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherTrial {
    /// Counted from 1.
    pub trial: usize,
}

impl Tune {
    /// The tuning as it was after these trials, and how many of them hold. All figures are compared within their block,
    /// and between the two halves of a block that was cut lies whatever happened meanwhile: so the trials of a last block
    /// that is not whole do not hold, and are made anew; and so are those of the last blocks that were cut into, which ended
    /// it if they were too many.
    ///
    /// # Errors
    /// When other trials would have been made with these levels and settings.
    pub fn replay(
        levels: &[usize],
        settings: &Settings,
        made: &[Made],
    ) -> Result<(Self, usize), OtherTrial> {
        let mut tune = Self::new(levels.to_vec(), settings.clone());
        let mut whole = 0;
        for (trial, one) in (1..).zip(made) {
            tune.repeat(one).ok_or(OtherTrial { trial })?;
            if tune.block.is_empty() && tune.cut == 0 {
                whole = trial;
            }
        }
        if whole < made.len() {
            tune = Self::new(levels.to_vec(), settings.clone());
            for (trial, one) in (1..=whole).zip(made) {
                tune.repeat(one).ok_or(OtherTrial { trial })?;
            }
        }
        Ok((tune, whole))
    }

    /// Takes a trial that was made, if it is the one to be made now.
    fn repeat(&mut self, made: &Made) -> Option<()> {
        let (combination, purpose) = self.next()?;
        if *combination != made.combination || purpose != made.purpose {
            return None;
        }
        self.take(made.measured.clone());
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use linerate_stats::offline::bootstrap::Random;

    use super::*;

    const LEVELS: [usize; 3] = [3, 3, 2];
    const SETTINGS: Settings =
        Settings { width: 0.02, lower: false, max_s: Some(400.0), trial_s: 1.0, seed: 3 };

    /// What a trial gives: the second factor helps, and one level of the first never runs.
    fn measured(combination: &Combination, chance: &mut Random) -> Measured {
        let at_fault = (combination.level(0) == 1).then(|| vec![(0, 1)]);
        let gain = 1.0 + 0.1 * combination.level(1) as f64;
        let value = at_fault.is_none().then(|| gain * (0.01 * chance.normal()).exp());
        let took_s = if value.is_some() { 1.1 } else { 0.0 };
        Measured { value, at_fault, took_s, ..Measured::default() }
    }

    fn to_the_end(tune: &mut Tune, chance: &mut Random) -> Vec<Made> {
        let mut made = Vec::new();
        while let Some((combination, purpose)) = tune.next() {
            let combination = combination.clone();
            let measured = measured(&combination, chance);
            tune.take(measured.clone());
            made.push(Made { combination, purpose, measured });
            assert!(made.len() < 2_000, "no end");
        }
        made
    }

    #[test]
    fn wherever_it_was_cut_the_same_trials_follow() {
        for max_s in [400.0, 45.0] {
            let settings = Settings { max_s: Some(max_s), ..SETTINGS };
            let mut whole = Tune::new(LEVELS.to_vec(), settings.clone());
            let made = to_the_end(&mut whole, &mut Random::new(9));
            let found = whole.found();
            assert!(max_s < 400.0 || found.recommended && made.len() > 30, "{found:?}");
            // As a tuning that goes on has it.
            let settings = Settings { trial_s: 0.0, ..settings };
            for cut in 0..=made.len() {
                let (tune, kept) = Tune::replay(&LEVELS, &settings, &made[..cut]).unwrap();
                // No more is lost than a block, and nothing of a block that was cut is kept.
                assert!(kept <= cut && cut - kept < 6 && tune.block.is_empty(), "{kept} of {cut}");
                let next = tune.next().map(|(combination, purpose)| (combination.clone(), purpose));
                let was = made.get(kept).map(|made| (made.combination.clone(), made.purpose));
                assert_eq!(next, was, "after {kept}");
                let (mut again, all) = (tune, &made[kept..]);
                for one in all {
                    again.repeat(one).unwrap();
                }
                assert_eq!((again.next(), again.found().best), (None, found.best.clone()));
            }
        }
    }

    #[test]
    fn where_trials_were_cut_into_the_same_ones_follow() {
        let (mut whole, mut chance) = (Tune::new(LEVELS.to_vec(), SETTINGS), Random::new(9));
        let (mut made, mut boundaries) = (Vec::new(), vec![0]);
        while let Some((combination, purpose)) = whole.next() {
            let combination = combination.clone();
            let mut measured = measured(&combination, &mut chance);
            // Each thirteenth, and the two after it.
            if made.len() % 13 > 9 {
                let void = measured.at_fault.is_none();
                measured = Measured { value: None, void, ..measured };
            }
            whole.take(measured.clone());
            made.push(Made { combination, purpose, measured });
            if whole.block.is_empty() && whole.cut == 0 {
                boundaries.push(made.len());
            }
            assert!(made.len() < 2_000, "no end");
        }
        assert!(made.iter().filter(|made| made.measured.void).count() > 5);
        for cut in 0..=made.len() {
            let (mut tune, kept) = Tune::replay(&LEVELS, &SETTINGS, &made[..cut]).unwrap();
            // Of what was cut into nothing is kept before a block is whole again.
            assert_eq!(Some(&kept), boundaries.iter().rfind(|at| **at <= cut));
            for one in &made[kept..] {
                tune.repeat(one).unwrap();
            }
            assert_eq!((tune.next(), tune.found()), (None, whole.found()));
        }
    }

    #[test]
    fn one_that_was_cut_short_goes_on() {
        let mut tune = Tune::new(LEVELS.to_vec(), SETTINGS);
        let (mut chance, mut made) = (Random::new(9), Vec::new());
        while let Some((combination, purpose)) = tune.next() {
            let combination = combination.clone();
            let mut measured = measured(&combination, &mut chance);
            if made.len() >= 20 {
                measured = Measured { void: true, took_s: 1.1, ..Measured::default() };
            }
            tune.take(measured.clone());
            made.push(Made { combination, purpose, measured });
        }
        assert!(tune.is_cut_short());
        let (mut tune, kept) = Tune::replay(&LEVELS, &SETTINGS, &made).unwrap();
        assert!(kept > 10 && kept <= 20 && !tune.is_cut_short(), "{kept}");
        to_the_end(&mut tune, &mut chance);
        assert!(tune.found().recommended, "{:?}", tune.found());
    }

    #[test]
    fn other_trials_are_refused() {
        let mut whole = Tune::new(LEVELS.to_vec(), SETTINGS);
        let made = to_the_end(&mut whole, &mut Random::new(9));
        let refused = |made: &[Made]| Tune::replay(&LEVELS, &SETTINGS, made).err();
        assert_eq!(refused(&made), None);
        let mut other = made.clone();
        other[20].combination = Combination(vec![9, 9, 9]);
        assert_eq!(refused(&other), Some(OtherTrial { trial: 21 }));
        let mut other = made.clone();
        other[2].purpose = Purpose::Confirm;
        assert_eq!(refused(&other), Some(OtherTrial { trial: 3 }));
        let mut more = made.clone();
        more.extend(made.last().cloned());
        assert_eq!(refused(&more), Some(OtherTrial { trial: made.len() + 1 }));
    }
}
