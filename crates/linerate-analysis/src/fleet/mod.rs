//! Which host or link is bad, of a table of pairs of hosts that were measured with each other several times.
//!
//! A value is what all have in common, what its two hosts add, and what its link does. A host or link is named only
//! where two questions that rest on different things both say so: whether it is further from the others than the
//! worst of as many alike (against made-up tables of the same shape), and whether it is the worst time after
//! time (by ranks, which rest on no distribution). The worst host is named first and left out, then the next, then
//! links: so one bad host is not a row of bad links, nor a bad link two bad hosts.

pub mod change;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use linerate_stats::offline::polish::{Cell, polish};
use linerate_stats::offline::summary::{Moments, median, sorted};
use linerate_stats::offline::{bootstrap, extreme_rank};

use self::shape::{Fit, Shape};
use crate::metric::Better;

/// Chance that anything at all is named where nothing is bad.
pub const ALPHA: f64 = 0.05;
/// Of the intervals.
pub const LEVEL: f64 = 0.95;
/// A quarter of the pairs may be bad at most, which of fewer is none.
pub const FEWEST_PAIRS: usize = 4;
/// The same of hosts.
const FEWEST_HOSTS: usize = 4;
/// Made-up tables of more pairs take minutes.
pub const MOST_PAIRS: usize = 10_000;
/// More hosts, or more links, are not named: who wants to mend them begins with the worst.
const MOST_NAMED: usize = 10;

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    /// The hosts of each pair by their numbers: client, server.
    pub pairs: &'a [(usize, usize)],
    /// A row each time, with the figure of each pair, or none where there is no result.
    pub times: &'a [Vec<Option<f64>>],
    /// Of the figure.
    pub better: Better,
}

/// In which part a host is bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// In tests that it was the client of.
    Client,
    /// In those that it was the server of.
    Server,
    /// In both; or in all of its tests, where pairs were measured one way only.
    Both,
}

/// Who is bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A host, by its number.
    Host(usize, Role),
    /// What is between two hosts, by the place of the pair.
    Link(usize),
}

/// One that is bad.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bad {
    /// Who.
    pub what: What,
    /// By how much its figure is worse than that of others, in the figure's unit: the mean over the times.
    pub worse_by: f64,
    /// Low and high end of that, at [`LEVEL`], by Student's t over the times; `None` of one time.
    pub interval: Option<(f64, f64)>,
}

/// Whether it could be asked at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Yes: who is not named was not found to be bad.
    Judged,
    /// Not before so many times.
    NeedsTimes(u32),
    /// Hosts cannot be told from links in pairs of this shape.
    NotApart,
    /// Fewer than [`FEWEST_PAIRS`] pairs have a result.
    FewPairs,
    /// They are more than [`MOST_PAIRS`].
    ManyPairs,
}

/// What can be said.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Hosts, the worst first, then links.
    pub bad: Vec<Bad>,
    /// Of hosts.
    pub hosts: Answer,
    /// Of links.
    pub links: Answer,
    /// Median of the figures of all that is not bad; `None` without any.
    pub usual: Option<f64>,
}

/// Names what is bad. Results that are missing are missing, and nothing stands for them.
pub fn judge(table: &Table<'_>) -> Verdict {
    let known = |pair: &usize| table.value_at_any_time(*pair);
    let cells: Vec<usize> = (0..table.pairs.len()).filter(known).collect();
    let none = |answer| Verdict {
        bad: Vec::new(),
        hosts: answer,
        links: answer,
        usual: table.usual(&cells),
    };
    match cells.len() {
        0..FEWEST_PAIRS => none(Answer::FewPairs),
        FEWEST_PAIRS..=MOST_PAIRS => Search::new(table, cells).verdict(),
        _ => none(Answer::ManyPairs),
    }
}

/// The figure of a pair of all times: the median of those with a result; `None` without any.
pub fn median_of(values: &[Option<f64>]) -> Option<f64> {
    median(&sorted(&values.iter().flatten().copied().collect::<Vec<_>>()))
}

impl Table<'_> {
    fn value(&self, time: usize, pair: usize) -> Option<f64> {
        self.times.get(time)?.get(pair).copied().flatten().filter(|value| value.is_finite())
    }

    fn value_at_any_time(&self, pair: usize) -> bool {
        (0..self.times.len()).any(|time| self.value(time, pair).is_some())
    }

    /// The same so that more is worse.
    fn badness(&self, time: usize, pair: usize) -> Option<f64> {
        let value = self.value(time, pair)?;
        Some(if self.better == Better::Higher { -value } else { value })
    }

    fn usual(&self, cells: &[usize]) -> Option<f64> {
        let times = 0..self.times.len();
        let of_time = |time| cells.iter().map(move |pair| self.value(time, *pair));
        median_of(&times.flat_map(of_time).collect::<Vec<_>>())
    }

    /// What each pair is on its own: the median over the times of its figure less what that time did to all.
    fn typical(&self, cells: &[usize]) -> Vec<f64> {
        let times = self.times.len();
        let cell = |(own, pair): (usize, &usize), time: usize| {
            let value = self.badness(time, *pair)?;
            Some(Cell { value, of: [Some(time), Some(times + own)] })
        };
        let of_pair = |pair| (0..times).filter_map(move |time| cell(pair, time));
        let cells_of_all: Vec<Cell> = cells.iter().enumerate().flat_map(of_pair).collect();
        let found = polish(&cells_of_all, &[times, cells.len()]);
        let effects = found.map(|found| found.effects).unwrap_or_default();
        effects.into_iter().skip(times).map(Option::unwrap_or_default).collect()
    }
}

/// What is left to be named, and how it looks.
struct Search<'a> {
    table: &'a Table<'a>,
    each_way: bool,
    /// Of each kind, where hosts and links can be told apart; all is the links' where they cannot.
    alpha: f64,
    cells: Vec<usize>,
    shape: Shape,
    fit: Fit,
    /// At each time, with the places in `cells` of the pairs that had a result.
    by_time: Vec<(Vec<usize>, Fit)>,
    /// Made when they are first asked for.
    nulls: Vec<Fit>,
}

impl<'a> Search<'a> {
    fn new(table: &'a Table<'a>, cells: Vec<usize>) -> Self {
        let all: HashSet<_> = table.pairs.iter().collect();
        let each_way = table.pairs.iter().any(|(from, to)| all.contains(&(*to, *from)));
        let shape = Shape::default();
        let (by_time, nulls, fit) = (Vec::new(), Vec::new(), Fit::default());
        let mut search = Self { table, each_way, alpha: ALPHA, cells, shape, fit, by_time, nulls };
        search.look();
        if search.fit.hosts().count() >= FEWEST_HOSTS {
            search.alpha = ALPHA / 2.0;
        }
        search
    }

    /// Of the pairs that are left.
    fn look(&mut self) {
        let ends = |cells: &[usize]| -> Vec<(usize, usize)> {
            cells.iter().filter_map(|pair| self.table.pairs.get(*pair).copied()).collect()
        };
        self.shape = Shape::of(&ends(&self.cells), self.each_way);
        self.fit = self.shape.fit(&self.table.typical(&self.cells));
        let at = |time: usize| {
            let places = 0..self.cells.len();
            let known = places.filter_map(|place| {
                let pair = *self.cells.get(place)?;
                Some((place, pair, self.table.badness(time, pair)?))
            });
            let known: Vec<_> = known.collect();
            let pairs: Vec<usize> = known.iter().map(|(_, pair, _)| *pair).collect();
            let values: Vec<f64> = known.iter().map(|(.., value)| *value).collect();
            let fit = Shape::of(&ends(&pairs), self.each_way).fit(&values);
            (known.iter().map(|(place, ..)| *place).collect(), fit)
        };
        self.by_time = (0..self.table.times.len()).map(at).collect();
        self.nulls.clear();
    }

    fn verdict(mut self) -> Verdict {
        let hosts = self.fit.hosts().count();
        let of_hosts = match hosts {
            0..FEWEST_HOSTS => Answer::NotApart,
            _ => self.answer(hosts, |(_, fit)| fit.hosts().count()),
        };
        let of_links = self.answer(self.cells.len(), |(places, _)| places.len());
        let mut bad = Vec::new();
        // A distance is measured by the smaller three quarters of all: with more that are bad, by theirs.
        while of_hosts == Answer::Judged && bad.len() < (hosts / 4).min(MOST_NAMED) {
            let Some(found) = self.worst_host() else { break };
            bad.push(found);
        }
        let links = (self.cells.len() / 4).min(MOST_NAMED);
        let named = bad.len();
        while of_links == Answer::Judged && bad.len() < named + links {
            let Some(found) = self.worst_link() else { break };
            bad.push(found);
        }
        Verdict { bad, hosts: of_hosts, links: of_links, usual: self.table.usual(&self.cells) }
    }

    /// Whether there are enough times that say something of at least half of the candidates.
    fn answer(&self, candidates: usize, known: impl Fn(&(Vec<usize>, Fit)) -> usize) -> Answer {
        let says = |time: &&(Vec<usize>, Fit)| known(time).saturating_mul(2) >= candidates;
        let says = self.by_time.iter().filter(says).count();
        let whole = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let silent = whole(self.by_time.len().saturating_sub(says));
        match extreme_rank::fewest_times(candidates, self.alpha) {
            Some(needed) if needed <= whole(says) => Answer::Judged,
            Some(needed) => Answer::NeedsTimes(needed.saturating_add(silent)),
            None => Answer::NotApart,
        }
    }

    /// Names it and leaves its pairs out, if it is bad.
    fn worst_host(&mut self) -> Option<Bad> {
        let (host, _) = self.fit.hosts().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let most = self.fit.hosts().map(|(host, _)| host).max()?;
        let far = |fit: &Fit| fit.furthest_host();
        let ranked = |(_, fit): &(Vec<usize>, Fit)| {
            (0..=most).map(|host| fit.host(host, Role::Both)).collect::<Vec<_>>()
        };
        let rows: Vec<_> = self.by_time.iter().map(ranked).collect();
        self.stands_out(far, &rows, host)?;
        let role = self.fit.role(host);
        let bad = self.sized(What::Host(host, role), |(_, fit)| match role {
            Role::Both => fit.mean_of(host),
            role => fit.host(host, role),
        });
        let pairs = self.table.pairs;
        let other = |pair: &usize| pairs.get(*pair).is_some_and(|(a, b)| ![a, b].contains(&&host));
        self.cells.retain(other);
        self.look();
        Some(bad)
    }

    /// Names it and leaves it out, if it is bad.
    fn worst_link(&mut self) -> Option<Bad> {
        let rest = self.fit.rest.iter().enumerate();
        let (place, _) = rest.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let at = |(places, fit): &(Vec<usize>, Fit), of: usize| {
            let found = places.binary_search(&of).ok()?;
            fit.rest.get(found).copied()
        };
        let row = |time| (0..self.cells.len()).map(|of| at(time, of)).collect::<Vec<_>>();
        let rows: Vec<_> = self.by_time.iter().map(row).collect();
        self.stands_out(Fit::furthest_link, &rows, place)?;
        let bad = self.sized(What::Link(*self.cells.get(place)?), |time| at(time, place));
        self.cells.remove(place);
        self.look();
        Some(bad)
    }

    /// Whether the candidate, which is the furthest of all, is too far to be one of many alike, and the worst too often.
    fn stands_out(
        &mut self,
        far: impl Fn(&Fit) -> Option<f64>,
        ranked: &[Vec<Option<f64>>],
        candidate: usize,
    ) -> Option<()> {
        let own = far(&self.fit)?;
        if self.nulls.is_empty() {
            self.nulls = self.shape.nulls(bootstrap::DEFAULT_SEED);
        }
        let as_far = self.nulls.iter().filter(|null| far(null).is_some_and(|far| far >= own));
        let p = (1 + as_far.count()) as f64 / (1 + self.nulls.len()) as f64;
        let often = extreme_rank::p(ranked, candidate)?;
        (own > 0.0 && p < self.alpha && often < self.alpha).then_some(())
    }

    fn sized(&self, what: What, at: impl Fn(&(Vec<usize>, Fit)) -> Option<f64>) -> Bad {
        let values: Vec<f64> = self.by_time.iter().filter_map(at).collect();
        let moments = Moments::of(&values);
        let worse_by = moments.map(|moments| moments.mean);
        let half = moments.and_then(|moments| moments.half_width(LEVEL));
        let interval = worse_by.zip(half).map(|(mean, half)| (mean - half, mean + half));
        let worse_by = worse_by.or_else(|| values.first().copied()).unwrap_or_default();
        Bad { what, worse_by, interval }
    }
}
