//! Which effects a table of pairs has, and how it is taken apart.

use linerate_stats::offline::bootstrap::Random;
use linerate_stats::offline::polish::{Cell, polish};
use linerate_stats::offline::summary::{mean, median, sorted};

use super::Role;

/// An effect is told of a host only with so many pairs of its own and as many of others: of fewer, the median is one
/// of them or the middle of two.
const FEWEST_OWN: usize = 3;
/// Values beyond what the effects take up: with fewer a bad link is fitted away by the effects of its hosts.
const FEWEST_SPARE: usize = 4;
/// Made-up tables: the least p value is one of one more.
const NULLS: usize = 399;
/// A deviation that is smaller than this share of the largest value is rounding.
const ROUNDING: f64 = 1e-9;

/// Which effects each pair has part in.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    /// As [`Cell::of`] of each pair: as a client, as a server. Where pairs were measured one way only a host has one
    /// effect, else two, those of servers after those of clients.
    of: Vec<[Option<usize>; 2]>,
    families: Vec<usize>,
}

/// A table taken apart. More is worse.
#[derive(Debug, Clone, Default)]
pub(super) struct Fit {
    /// By the number of the host, each less the median of its family.
    clients: Vec<Option<f64>>,
    /// The same; empty where pairs were measured one way only.
    servers: Vec<Option<f64>>,
    /// Of each pair, what its hosts do not say.
    pub(super) rest: Vec<f64>,
}

impl Shape {
    /// Of pairs of client and server.
    pub(super) fn of(pairs: &[(usize, usize)], each_way: bool) -> Self {
        let hosts = pairs.iter().map(|(a, b)| a.max(b).saturating_add(1)).max().unwrap_or(0);
        let families = if each_way { vec![hosts; 2] } else { vec![hosts] };
        let second = if each_way { hosts } else { 0 };
        let mut own = vec![0usize; hosts + second];
        let effects = |(from, to): &(usize, usize)| [*from, second + to];
        for effect in pairs.iter().flat_map(effects) {
            if let Some(own) = own.get_mut(effect) {
                *own += 1;
            }
        }
        let is_known = |effect: usize| {
            let own = own.get(effect).copied().unwrap_or(0);
            let others = pairs.len().saturating_sub(own);
            (own.min(others) >= FEWEST_OWN).then_some(effect)
        };
        let of: Vec<_> = pairs.iter().map(|pair| effects(pair).map(is_known)).collect();
        // What the level takes up as well where every pair has part in it: of clients and servers one of each, of
        // hosts that are both, one in all.
        let every = |end: usize| of.iter().all(|of| of.get(end).is_some_and(Option::is_some));
        let shared = match each_way {
            true => usize::from(every(0)) + usize::from(every(1)),
            false => usize::from(every(0) && every(1)),
        };
        let known = (0..own.len()).filter_map(is_known).count();
        let taken = (1 + known).saturating_sub(shared);
        if pairs.len() < taken + FEWEST_SPARE {
            return Self { of: vec![[None; 2]; pairs.len()], families };
        }
        Self { of, families }
    }

    /// Takes values apart, one a pair.
    pub(super) fn fit(&self, values: &[f64]) -> Fit {
        let cell = |(value, of): (&f64, &[Option<usize>; 2])| Cell { value: *value, of: *of };
        let cells: Vec<Cell> = values.iter().zip(&self.of).map(cell).collect();
        let Some(found) = polish(&cells, &self.families) else { return Fit::default() };
        let largest = values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        let rounded = |x: f64| if x.abs() <= ROUNDING * largest { 0.0 } else { x };
        let mut effects = found.effects.into_iter();
        let mut family = |count: Option<&usize>| -> Vec<Option<f64>> {
            let own: Vec<_> = effects.by_ref().take(count.copied().unwrap_or(0)).collect();
            let middle = median(&sorted(&own.iter().flatten().copied().collect::<Vec<_>>()));
            own.iter().map(|own| Some(rounded((*own)? - middle?))).collect()
        };
        let clients = family(self.families.first());
        let servers = family(self.families.get(1));
        Fit { clients, servers, rest: found.rest.into_iter().map(rounded).collect() }
    }

    /// Made-up tables of this shape in which nobody is bad.
    pub(super) fn nulls(&self, seed: u64) -> Vec<Fit> {
        let mut random = Random::new(seed);
        let mut table = || self.of.iter().map(|_| random.normal()).collect::<Vec<_>>();
        (0..NULLS).map(|_| self.fit(&table())).collect()
    }
}

impl Fit {
    /// How bad a host is in a part; in both, that in which it is worse.
    pub(super) fn host(&self, host: usize, role: Role) -> Option<f64> {
        let known = |of: &[Option<f64>]| of.get(host).copied().flatten();
        let (client, server) = (known(&self.clients), known(&self.servers));
        match role {
            Role::Client => client,
            Role::Server => server,
            Role::Both => client.into_iter().chain(server).reduce(f64::max),
        }
    }

    /// How bad it is in the mean of its parts.
    pub(super) fn mean_of(&self, host: usize) -> Option<f64> {
        let parts = [Role::Client, Role::Server].map(|role| self.host(host, role));
        mean(&parts.into_iter().flatten().collect::<Vec<_>>())
    }

    /// The part in which a host is bad: both, where the better of them is at least half as bad.
    pub(super) fn role(&self, host: usize) -> Role {
        match (self.host(host, Role::Client), self.host(host, Role::Server)) {
            (Some(client), Some(server)) if client > 2.0 * server => Role::Client,
            (Some(client), Some(server)) if server > 2.0 * client => Role::Server,
            _ => Role::Both,
        }
    }

    /// All hosts that anything can be said of, and how bad they are in their worse part.
    pub(super) fn hosts(&self) -> impl Iterator<Item = (usize, f64)> {
        let all = 0..self.clients.len().max(self.servers.len());
        all.filter_map(|host| Some((host, self.host(host, Role::Both)?)))
    }

    /// The worst host, in units of the others' distances.
    pub(super) fn furthest_host(&self) -> Option<f64> {
        let worst = self.hosts().map(|(_, badness)| badness).reduce(f64::max)?;
        relative(worst, self.clients.iter().chain(&self.servers).flatten())
    }

    /// The worst link, in units of the others' distances.
    pub(super) fn furthest_link(&self) -> Option<f64> {
        let worst = self.rest.iter().copied().reduce(f64::max)?;
        relative(worst, self.rest.iter())
    }
}

/// Over the mean of the smaller three quarters of the distances: what is bad is not measured by itself. Infinite where
/// these are none.
fn relative<'a>(worst: f64, all: impl Iterator<Item = &'a f64>) -> Option<f64> {
    let distances = sorted(&all.map(|x| x.abs()).collect::<Vec<_>>());
    let smaller = mean(distances.get(..(distances.len() * 3 / 4).max(1))?)?;
    match worst > 0.0 {
        true => Some(worst / smaller),
        false => Some(0.0),
    }
}
