//! The knee with its interval: a Bayesian fit of the probability that a trial is bad.
//!
//! Model (a psychometric function with guess and lapse rates, Wichmann and Hill 2001):
//! `P(bad | load) = g + (1 - g - LAPSE) Phi((ln load - mu) / s)`. `g` is the background failure
//! rate, which no load can cure; `s` is how gradual the limit is. The knee is the load where half of
//! the trials are bad, and takes the place of `mu`, so that its posterior can be read off. All three
//! live on a grid; the prior is even over `s` and `g` on their rows, and over the logarithm of the
//! knee half even, half around the rate that arrived when more was offered.
//!
//! Limits: it knows good and bad, not how bad; it is blind to a plateau (a load range where `P`
//! hardly changes) other than by a wide interval; a background rate of one half or more has no knee.

use linerate_stats::offline::distribution::{normal_cdf, normal_quantile};

use super::FIT_LEAST;
use super::grid::Grid;

/// Knees a grid step is cut into.
const PER_STEP: usize = 2;
/// Standard deviations of the limit, in logarithms of load.
const SPREADS: [f64; 6] = [0.001, 0.002_5, 0.006, 0.015, 0.04, 0.1];
/// Background failure rates.
const BACKGROUNDS: [f64; 7] = [0.003, 0.04, 0.1, 0.18, 0.26, 0.34, 0.42];
/// Share of trials that are good whatever the load.
const LAPSE: f64 = 0.005;
/// Distance of the logarithms beyond which the probability no longer changes.
const REACH: f64 = 0.6;
/// Share of the prior that is even over all loads.
const EVEN: f64 = 0.5;
/// Scale of the rest around what arrived, in logarithms of load.
const AROUND: f64 = 0.05;
/// Knees less likely than this, against the likeliest, are dropped.
const NEGLIGIBLE: f64 = 1e-8;
/// Where the next trial goes: quantiles of the knee, in turn. The middle locates it, the flanks
/// show its steepness.
const TURNS: [f64; 4] = [0.5, 0.1, 0.9, 0.95];

/// One row of steepness and background.
#[derive(Debug, Clone)]
struct Shape {
    background: f64,
    /// Logarithms of P(bad) and P(good) by load less knee, from -reach to +reach.
    bad: Vec<f64>,
    good: Vec<f64>,
    /// Logarithm of the posterior by knee, over the window.
    log: Vec<f64>,
}

/// The posterior so far.
#[derive(Debug, Clone)]
pub struct Fit {
    /// Logarithm of the least load, and the distance of two knees.
    origin: f64,
    cell: f64,
    reach: usize,
    /// First knee of the window.
    first: usize,
    shapes: Vec<Shape>,
    /// Probability of each knee of the window.
    knees: Vec<f64>,
    /// Mean background rate.
    background: f64,
    trials: usize,
}

/// What the fit says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knee {
    /// Median, as a load.
    pub median: f64,
    /// 2.5 % quantile.
    pub low: f64,
    /// 97.5 % quantile.
    pub high: f64,
    /// Mean of the background failure rate.
    pub background: f64,
}

impl Knee {
    /// Width of the interval as a share of the load.
    pub fn width(&self) -> f64 {
        (self.high / self.low).ln()
    }

    /// Whether the interval reaches the least load, and whether the largest one. No knee is known beyond them, so
    /// what lies there piles up at the end.
    pub fn reaches(&self, grid: &Grid) -> (bool, bool) {
        (self.low <= grid.load(0), self.high >= grid.load(grid.last()))
    }
}

impl Fit {
    /// Before any trial. `arrived` is the rate that arrived when more was offered.
    pub fn new(grid: &Grid, arrived: f64) -> Self {
        let cell = grid.step() / PER_STEP as f64;
        let knees = grid.last() * PER_STEP + 1;
        let reach = (REACH / cell).ceil() as usize;
        let origin = grid.load(0).ln();
        let even = EVEN / knees as f64;
        let prior: Vec<f64> = (0..knees)
            .map(|j| {
                let away = (origin + cell * j as f64 - arrived.max(1.0).ln()).abs() / AROUND;
                (even + (1.0 - EVEN) * (-away).exp() * cell / (2.0 * AROUND)).ln()
            })
            .collect();
        let shape = |spread: f64, background: f64| {
            let rise = 1.0 - background - LAPSE;
            // So that the probability at the knee is one half.
            let shift = normal_quantile((0.5 - background) / rise).unwrap_or(0.0);
            let bad = |o: usize| {
                let away = (o as f64 - reach as f64) * cell;
                background + rise * normal_cdf(away / spread + shift)
            };
            let bad: Vec<f64> = (0..=2 * reach).map(bad).collect();
            Shape {
                background,
                good: bad.iter().map(|p| (1.0 - p).ln()).collect(),
                bad: bad.iter().map(|p| p.ln()).collect(),
                log: prior.clone(),
            }
        };
        let shapes = SPREADS
            .iter()
            .flat_map(|s| BACKGROUNDS.iter().map(move |g| (*s, *g)))
            .map(|(s, g)| shape(s, g))
            .collect();
        let mut fit = Self {
            origin,
            cell,
            reach,
            first: 0,
            shapes,
            knees: Vec::new(),
            background: 0.0,
            trials: 0,
        };
        fit.weigh();
        fit
    }

    /// Takes in a trial at the load `index` of the grid.
    pub fn take(&mut self, index: usize, bad: bool) {
        let load = index * PER_STEP;
        let (first, reach) = (self.first, self.reach);
        for shape in &mut self.shapes {
            let table = if bad { &shape.bad } else { &shape.good };
            for (j, log) in shape.log.iter_mut().enumerate() {
                let offset = (load + reach).saturating_sub(first + j).min(2 * reach);
                *log += table[offset];
            }
        }
        self.trials += 1;
        self.weigh();
    }

    /// Number of trials taken in.
    pub fn trials(&self) -> usize {
        self.trials
    }

    fn weigh(&mut self) {
        let cells = self.shapes.first().map_or(0, |s| s.log.len());
        let top = self
            .shapes
            .iter()
            .flat_map(|s| s.log.iter().copied())
            .fold(f64::NEG_INFINITY, f64::max);
        let mut knees = vec![0.0; cells];
        let (mut sum, mut background) = (0.0, 0.0);
        for shape in &self.shapes {
            let mut of_shape = 0.0;
            for (knee, log) in knees.iter_mut().zip(&shape.log) {
                let away = log - top;
                if away > -30.0 {
                    let p = away.exp();
                    *knee += p;
                    of_shape += p;
                }
            }
            sum += of_shape;
            background += of_shape * shape.background;
        }
        self.background = background / sum;
        knees.iter_mut().for_each(|k| *k /= sum);
        let most = knees.iter().copied().fold(0.0, f64::max);
        let keep = |k: &f64| *k >= most * NEGLIGIBLE;
        let from = knees.iter().position(keep).unwrap_or(0);
        let to = knees.iter().rposition(keep).map_or(cells, |last| last + 1);
        if from > 0 || to < cells {
            for shape in &mut self.shapes {
                shape.log.truncate(to);
                shape.log.drain(..from);
            }
            knees.truncate(to);
            knees.drain(..from);
            self.first += from;
        }
        self.knees = knees;
    }

    /// Quantile of the knee, as a load.
    fn quantile(&self, p: f64) -> f64 {
        let mut below = 0.0;
        let mut at = self.knees.len() as f64 - 0.5;
        for (j, knee) in self.knees.iter().enumerate() {
            if below + knee >= p {
                at = j as f64 - 0.5 + (p - below) / knee.max(f64::MIN_POSITIVE);
                break;
            }
            below += knee;
        }
        (self.origin + self.cell * (self.first as f64 + at)).exp()
    }

    /// What the trials so far say; nothing before there are enough of them, for until then
    /// the prior speaks.
    pub fn knee(&self) -> Option<Knee> {
        (self.trials >= FIT_LEAST).then(|| Knee {
            median: self.guess(),
            low: self.quantile(0.025),
            high: self.quantile(0.975),
            background: self.background,
        })
    }

    /// Where the knee seems to be, as a load, be it by the prior alone.
    pub fn guess(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The loads (indices of the grid) that say most about the knee, the one whose turn it is
    /// first.
    pub fn wishes(&self, grid: &Grid) -> [usize; 4] {
        let turn = self.trials % TURNS.len();
        let mut turns = TURNS;
        turns.rotate_left(turn);
        turns.map(|quantile| grid.nearest(self.quantile(quantile)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sharp_limit_is_found_between_its_loads() {
        let grid = Grid::new(1e6, 1e8, 0.005).unwrap();
        let mut fit = Fit::new(&grid, 4e7);
        while fit.knee().is_none_or(|knee| knee.width() > 0.02) {
            let [load, ..] = fit.wishes(&grid);
            fit.take(load, grid.load(load) > 3.3e7);
            assert!(fit.trials() < 40, "{:?}", fit.knee());
        }
        let knee = fit.knee().unwrap();
        assert!(knee.low < 3.3e7 && 3.3e7 < knee.high, "{knee:?}");
        assert!(knee.background < 0.15, "{knee:?}");
    }

    #[test]
    fn background_failures_are_told_from_the_limit() {
        let grid = Grid::new(1e6, 1e8, 0.005).unwrap();
        let mut fit = Fit::new(&grid, 3e7);
        for turn in 0..80 {
            let [load, ..] = fit.wishes(&grid);
            // Every fifth trial fails whatever the load.
            fit.take(load, grid.load(load) > 3.3e7 || turn % 5 == 4);
        }
        let knee = fit.knee().unwrap();
        assert!((knee.median / 3.3e7).ln().abs() < 0.01, "{knee:?}");
        assert!((0.1..0.4).contains(&knee.background), "{knee:?}");
    }

    #[test]
    fn the_prior_alone_is_no_interval() {
        let grid = Grid::new(1e6, 1e8, 0.005).unwrap();
        let mut fit = Fit::new(&grid, 3e7);
        for _ in 0..FIT_LEAST {
            assert_eq!(fit.knee(), None, "{} trials", fit.trials());
            // All the same and nothing said of where: the interval is wide.
            fit.take(grid.last(), true);
        }
        assert!(fit.knee().unwrap().width() > 0.2);
    }
}
