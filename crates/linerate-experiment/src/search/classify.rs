//! What the trials at one load say, by RFC 9971 (MLRsearch), and what follows for all loads.

use std::collections::BTreeMap;

use linerate_model::search::BoundRecord;
use linerate_stats::offline::distribution::f_upper;

/// One trial, as one goal judges it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Measured time, seconds.
    pub time_s: f64,
    /// Time that it counts in sums, seconds: with its set-up and drain.
    pub counts_s: f64,
    /// Not delivered, 0 to 1.
    pub loss: f64,
    /// Whether it met the goal.
    pub good: bool,
    /// It is bad only because the sender did not send what was asked.
    pub unsent: bool,
}

/// The trials of one goal by load (index of the grid).
pub type Board = BTreeMap<usize, Vec<Judged>>;

/// What a search may demand of a load: the goal itself, or a coarser one on the way to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// Trials at least this long count in full, seconds.
    pub time_s: f64,
    /// Time that settles a load, seconds.
    pub sum_s: f64,
    /// Share of it that may be bad.
    pub exceed: f64,
}

/// Class of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The goal holds there, however further trials of this sum came out.
    Lower,
    /// It does not.
    Upper,
    /// Not known yet.
    Undecided,
}

/// Two trials that the sender could not make are proof enough that it cannot.
const UNSENT_IS_PROOF: usize = 2;
/// Sums of seconds are compared with this slack, far below a trial and far above rounding.
const SLACK: f64 = 1e-9;

/// Class of a load by its trials. Short trials count as RFC 9971 has it: bad ones in full, as far
/// as good ones do not make up for them in the allowed proportion.
pub fn class(trials: &[Judged], target: &Target) -> Class {
    let unsent = trials.iter().filter(|t| t.unsent).count();
    if unsent >= UNSENT_IS_PROOF && unsent > trials.iter().filter(|t| t.good).count() {
        return Class::Upper;
    }
    let sum = |long: bool, good: bool| -> f64 {
        let fits = |t: &&Judged| (t.time_s >= target.time_s - SLACK) == long && t.good == good;
        trials.iter().filter(fits).map(|t| t.counts_s).sum()
    };
    let (long_good, long_bad) = (sum(true, true), sum(true, false));
    let (short_good, short_bad) = (sum(false, true), sum(false, false));
    let balancing = short_good * target.exceed / (1.0 - target.exceed);
    let bad = long_bad + (short_bad - balancing).max(0.0);
    let whole = (long_good + bad).max(target.sum_s);
    let allowed = target.exceed * whole + SLACK;
    if whole - long_good <= allowed {
        Class::Lower
    } else if bad > allowed {
        Class::Upper
    } else {
        Class::Undecided
    }
}

/// The two loads between which the limit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Relevant lower bound: the largest load of class lower below the upper one.
    pub lower: Option<usize>,
    /// Relevant upper bound: the smallest load of class upper.
    pub upper: Option<usize>,
}

/// Relevant bounds.
pub fn bounds(board: &Board, target: &Target) -> Bounds {
    let of = |wanted| {
        board.iter().filter(move |(_, t)| class(t, target) == wanted).map(|(load, _)| *load)
    };
    let upper = of(Class::Upper).next();
    Bounds { lower: of(Class::Lower).rfind(|l| upper.is_none_or(|u| *l < u)), upper }
}

/// A load of class lower above the relevant upper bound, if there is one: more load, less loss.
pub fn inversion(board: &Board, target: &Target) -> Option<usize> {
    let upper = bounds(board, target).upper?;
    board.range(upper + 1..).find(|(_, t)| class(t, target) == Class::Lower).map(|(load, _)| *load)
}

/// Share of the load that arrives in all but the worst trials, `exceed` of the time of which may
/// be ignored. Time that is missing to the duration sum counts as lost in full.
///
/// The procedure of RFC 9971's program text, whose prose leaves out the duration sum.
pub fn conditional_delivery(trials: &[Judged], target: &Target) -> f64 {
    let mut long: Vec<&Judged> =
        trials.iter().filter(|t| t.time_s >= target.time_s - SLACK).collect();
    long.sort_by(|a, b| a.loss.total_cmp(&b.loss));
    let known: f64 = long.iter().map(|t| t.counts_s).sum();
    let mut remaining = known.max(target.sum_s) * (1.0 - target.exceed);
    let mut loss = None;
    for trial in long {
        if loss.is_some() && remaining <= SLACK {
            break;
        }
        loss = Some(trial.loss);
        remaining -= trial.counts_s;
    }
    if remaining > SLACK {
        return 0.0;
    }
    1.0 - loss.unwrap_or(1.0)
}

/// 95 % interval of a probability by the Jeffreys prior, Beta(1/2, 1/2): `bad` of `all` trials. Its
/// end is 0 or 1 where no trial, or every one, was bad (Brown, Cai, DasGupta 2001).
pub fn jeffreys(bad: u64, all: u64) -> (f64, f64) {
    let (a, b) = (bad as f64 + 0.5, (all - bad.min(all)) as f64 + 0.5);
    // A Beta(a, b) variable is aF/(aF + b) with F of 2a and 2b degrees of freedom.
    let quantile = |p: f64| f_upper(1.0 - p, 2.0 * a, 2.0 * b).map(|f| a * f / (a * f + b));
    let low = if bad == 0 { Some(0.0) } else { quantile(0.025) };
    let high = if bad >= all { Some(1.0) } else { quantile(0.975) };
    (low.unwrap_or(0.0), high.unwrap_or(1.0))
}

/// The trials at a bound, for the record.
pub fn record(load_bps: f64, trials: &[Judged], target: &Target) -> BoundRecord {
    let long = || trials.iter().filter(|t| t.time_s >= target.time_s - SLACK);
    let (all, bad) = (long().count() as u64, long().filter(|t| !t.good).count() as u64);
    let (fail_low, fail_high) = jeffreys(bad, all);
    let settled = class(trials, target) != Class::Undecided;
    BoundRecord { load_bps, trials: all, bad, received_bps: None, settled, fail_low, fail_high }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target { time_s: 1.0, sum_s: 21.0, exceed: 0.5 };

    fn trials(good: usize, bad: usize, time_s: f64, counts_s: f64) -> Vec<Judged> {
        let one = |good: bool| Judged {
            time_s,
            counts_s,
            loss: if good { 0.001 } else { 0.02 },
            good,
            unsent: false,
        };
        std::iter::repeat_n(one(true), good).chain(std::iter::repeat_n(one(false), bad)).collect()
    }

    #[test]
    fn a_load_is_settled_when_the_rest_cannot_change_it() {
        for (good, bad, wanted) in [
            (0, 0, Class::Undecided),
            (6, 0, Class::Undecided),
            (7, 0, Class::Lower),
            (7, 7, Class::Lower),
            (0, 7, Class::Undecided),
            (6, 7, Class::Undecided),
            (0, 8, Class::Upper),
            (6, 8, Class::Upper),
        ] {
            assert_eq!(class(&trials(good, bad, 1.0, 1.5), &TARGET), wanted, "{good} {bad}");
        }
        let strict = Target { time_s: 60.0, sum_s: 60.0, exceed: 0.0 };
        assert_eq!(class(&trials(1, 0, 60.0, 60.5), &strict), Class::Lower);
        assert_eq!(class(&trials(0, 1, 60.0, 60.5), &strict), Class::Upper);
        assert_eq!(class(&trials(5, 1, 60.0, 60.5), &strict), Class::Upper);
    }

    #[test]
    fn short_trials_can_condemn_and_not_acquit() {
        let target = Target { time_s: 10.0, sum_s: 20.0, exceed: 0.5 };
        assert_eq!(class(&trials(50, 0, 1.0, 1.0), &target), Class::Undecided);
        assert_eq!(class(&trials(0, 11, 1.0, 1.0), &target), Class::Upper);
        // As many good short trials as bad ones balance them.
        assert_eq!(class(&trials(11, 11, 1.0, 1.0), &target), Class::Undecided);
        let mut both = trials(1, 0, 10.0, 10.0);
        both.extend(trials(0, 5, 1.0, 1.0));
        assert_eq!(class(&both, &target), Class::Lower);
    }

    #[test]
    fn what_the_sender_cannot_send_needs_no_vote() {
        let unsent = Judged { time_s: 1.0, counts_s: 1.5, loss: 0.3, good: false, unsent: true };
        assert_eq!(class(&[unsent], &TARGET), Class::Undecided);
        assert_eq!(class(&[unsent; 2], &TARGET), Class::Upper);
        let mut mixed = trials(3, 0, 1.0, 1.5);
        mixed.extend([unsent; 2]);
        assert_eq!(class(&mixed, &TARGET), Class::Undecided);
    }

    #[test]
    fn the_relevant_bounds_ignore_what_is_above_the_upper_one() {
        let mut board = Board::new();
        for (load, good) in [(10, true), (20, true), (30, false), (40, true), (50, false)] {
            let trials = if good { trials(7, 0, 1.0, 1.5) } else { trials(0, 8, 1.0, 1.5) };
            board.insert(load, trials);
        }
        board.insert(25, trials(3, 0, 1.0, 1.5));
        assert_eq!(bounds(&board, &TARGET), Bounds { lower: Some(20), upper: Some(30) });
        assert_eq!(inversion(&board, &TARGET), Some(40));
        board.remove(&40);
        assert_eq!(inversion(&board, &TARGET), None);
        assert_eq!(bounds(&Board::new(), &TARGET), Bounds::default());
    }

    #[test]
    fn conditional_throughput_takes_the_quantile_of_duration() {
        // Seven good trials fill half of the sum: the worst of them is the quantile.
        let mut seven = trials(7, 0, 1.0, 1.5);
        seven[3].loss = 0.004;
        assert!((conditional_delivery(&seven, &TARGET) - 0.996).abs() < 1e-12);
        // Six leave time missing, which is lost in full.
        assert_eq!(conditional_delivery(&trials(6, 0, 1.0, 1.5), &TARGET), 0.0);
        // Eight: the eighth is not needed.
        let mut eight = trials(7, 0, 1.0, 1.5);
        eight.extend(trials(0, 1, 1.0, 1.5));
        assert!((conditional_delivery(&eight, &TARGET) - 0.999).abs() < 1e-12);
        let strict = Target { time_s: 60.0, sum_s: 60.0, exceed: 0.0 };
        let mut two = trials(2, 0, 60.0, 60.5);
        two[1].loss = 0.25;
        assert_eq!(conditional_delivery(&two, &strict), 0.75);
    }

    #[test]
    fn jeffreys_intervals_of_the_literature() {
        // Beta(0.5, 10.5) and Beta(5.5, 5.5); for instance Brown, Cai, DasGupta (2001), n = 10.
        let (low, high) = jeffreys(0, 10);
        assert!(low == 0.0 && (high - 0.217).abs() < 0.001, "{high}");
        let (low, high) = jeffreys(5, 10);
        assert!((low - 0.224).abs() < 0.001 && (high - 0.776).abs() < 0.001, "{low} {high}");
        let (low, high) = jeffreys(10, 10);
        assert!((low - 0.783).abs() < 0.001 && high == 1.0, "{low}");
        assert_eq!(jeffreys(0, 0), (0.0, 1.0));
    }
}
