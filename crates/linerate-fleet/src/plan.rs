//! What is measured: hosts, groups of them, the pairs of a shape, and what a pair takes while it is measured.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// More hosts than this are no fleet of one plan.
pub const MOST_HOSTS: usize = 10_000;
/// More pairs than this are not one plan: all pairs of 1,000 hosts each way are 999,000.
pub const MOST_PAIRS: usize = 1_000_000;
/// Longest name, in bytes: longer than a DNS name (255) with a port.
pub const MOST_NAME_BYTES: usize = 320;

/// Why something is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct PlanError {
    /// What cannot be used.
    pub what: String,
    /// Why not.
    pub why: String,
    /// What to try.
    pub hint: Option<String>,
}

impl PlanError {
    fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What carries one test at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    /// A host. Every pair takes both of its own.
    Host,
    /// An interface: taken with any of the hosts behind it.
    Nic,
    /// A link between some hosts and all the others: taken by a pair with one end on each side.
    Link,
    /// A machine that hosts are guests of: taken with any of them.
    Hypervisor,
}

impl ResourceKind {
    const ALL: [Self; 4] = [Self::Host, Self::Nic, Self::Link, Self::Hypervisor];

    /// As in text: `hypervisor`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Nic => "nic",
            Self::Link => "link",
            Self::Hypervisor => "hypervisor",
        }
    }
}

/// One of them. As text `link:uplink-3`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// What it is.
    pub kind: ResourceKind,
    /// Which of its kind.
    pub name: String,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.name)
    }
}

impl FromStr for Resource {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let what = || format!("cannot use the resource `{text}`");
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        let Some(kind) = ResourceKind::ALL.into_iter().find(|known| known.name() == kind) else {
            let why = "it is none of `host:`, `nic:`, `link:`, `hypervisor:` with a name";
            return Err(PlanError::new(what(), why).hint("hypervisor:rack3=a,b"));
        };
        check_name(name).map_err(|why| PlanError::new(what(), why))?;
        Ok(Self { kind, name: name.to_owned() })
    }
}

/// Why a text names nothing.
fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a name is empty".to_owned());
    }
    if name.len() > MOST_NAME_BYTES {
        return Err(format!("a name of {} bytes is over {MOST_NAME_BYTES}", name.len()));
    }
    match name.chars().find(|c| c.is_whitespace() || c.is_control() || [',', '/', '='].contains(c))
    {
        Some(c) => Err(format!("{c:?} cannot be part of a name")),
        None => Ok(()),
    }
}

/// Two hosts, by their places in the list of hosts. Data goes from the first to the second unless the test
/// itself says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// Where the test's client runs.
    pub from: usize,
    /// Where its server is.
    pub to: usize,
}

impl Pair {
    /// The same, the other way.
    #[must_use]
    pub fn turned(self) -> Self {
        Self { from: self.to, to: self.from }
    }
}

/// Which hosts are measured with which. Names are those of hosts or groups, in a list those of hosts.
///
/// As text: `all`, `star=a`, `bipartite=a,b/c,d`, or a list of pairs `a/b,c/d`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Every two of all hosts.
    All,
    /// These with each of the others.
    Star(Vec<String>),
    /// Each of the first with each of the second.
    Bipartite(Vec<String>, Vec<String>),
    /// These.
    List(Vec<(String, String)>),
}

impl FromStr for Shape {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let fault = |why: String| {
            PlanError::new(format!("cannot use the pairs `{text}`"), why)
                .hint("all, star=a, bipartite=a,b/c,d, or a list of pairs: a/b,c/d")
        };
        let names = |list: &str| {
            let names = list.split(',').map(|name| check_name(name).map(|()| name.to_owned()));
            names.collect::<Result<Vec<_>, _>>()
        };
        let shape = match text.split_once('=') {
            None if text == "all" => Ok(Self::All),
            None if text.contains('/') => {
                let pair = |pair: &str| {
                    let two = pair.split_once('/');
                    let (a, b) = two.ok_or_else(|| format!("`{pair}` is not two hosts"))?;
                    check_name(a).and_then(|()| check_name(b))?;
                    Ok((a.to_owned(), b.to_owned()))
                };
                text.split(',').map(pair).collect::<Result<_, _>>().map(Self::List)
            }
            Some(("star", hubs)) => names(hubs).map(Self::Star),
            Some(("bipartite", sides)) => match sides.split_once('/') {
                Some((a, b)) => names(a).and_then(|a| Ok(Self::Bipartite(a, names(b)?))),
                None => Err("no `/` is between the two sides".to_owned()),
            },
            _ => Err("it is no shape".to_owned()),
        };
        shape.map_err(fault)
    }
}

/// Something that several hosts share, and that carries one test at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shared {
    resource: Resource,
    hosts: BTreeSet<usize>,
}

/// The hosts, what they are called together, and what they share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    hosts: Vec<String>,
    places: BTreeMap<String, usize>,
    groups: BTreeMap<String, Vec<usize>>,
    shared: Vec<Shared>,
    may_meet: bool,
}

impl Fleet {
    /// Of these hosts, in this order.
    ///
    /// # Errors
    /// When they are fewer than two or more than [`MOST_HOSTS`], or a name is none or said twice.
    pub fn new(hosts: Vec<String>) -> Result<Self, PlanError> {
        if !(2..=MOST_HOSTS).contains(&hosts.len()) {
            let why = format!("{} are outside 2 to {MOST_HOSTS}", hosts.len());
            return Err(PlanError::new("cannot measure between these hosts", why));
        }
        let mut places = BTreeMap::new();
        for (at, host) in hosts.iter().enumerate() {
            let fault = |why: String| PlanError::new(format!("cannot use the host `{host}`"), why);
            check_name(host).map_err(fault)?;
            if places.insert(host.clone(), at).is_some() {
                return Err(fault("it is named twice".to_owned()));
            }
        }
        let (groups, shared) = (BTreeMap::new(), Vec::new());
        Ok(Self { hosts, places, groups, shared, may_meet: false })
    }

    /// Names of the hosts, in their order.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Calls hosts by one name. Members may be groups of before.
    ///
    /// # Errors
    /// When the name is none or taken, or a member is unknown.
    pub fn group(&mut self, name: &str, members: &[String]) -> Result<(), PlanError> {
        let what = format!("cannot use the group `{name}`");
        let fault = |why: String| PlanError::new(what.clone(), why);
        check_name(name).map_err(fault)?;
        if self.places.contains_key(name) || self.groups.contains_key(name) {
            return Err(fault("a host or group has this name".to_owned()));
        }
        let members = self.members(&what, members)?;
        self.groups.insert(name.to_owned(), members);
        Ok(())
    }

    /// Says that hosts share something: a link by the hosts of one side of it, which of the two is the same;
    /// anything else by the hosts that use it.
    ///
    /// # Errors
    /// When a host is unknown, or the resource was said before.
    pub fn share(&mut self, resource: Resource, members: &[String]) -> Result<(), PlanError> {
        let what = format!("cannot use the resource `{resource}`");
        if self.shared.iter().any(|shared| shared.resource == resource) {
            return Err(PlanError::new(what, "it is said twice"));
        }
        if resource.kind == ResourceKind::Host && self.places.contains_key(&resource.name) {
            return Err(PlanError::new(what, "a host takes itself"));
        }
        let hosts = self.members(&what, members)?.into_iter().collect();
        self.shared.push(Shared { resource, hosts });
        Ok(())
    }

    /// What hosts share, in one order however it was said, with the places of these hosts: `link:x=0,1`.
    pub fn shares(&self) -> Vec<String> {
        let of = |shared: &Shared| {
            let hosts: Vec<String> = shared.hosts.iter().map(usize::to_string).collect();
            format!("{}={}", shared.resource, hosts.join(","))
        };
        let mut all: Vec<String> = self.shared.iter().map(of).collect();
        all.sort_unstable();
        all
    }

    /// Lets tests meet: a pair takes its client alone from now on, and neither its server nor what hosts share.
    pub fn meet(&mut self) {
        self.may_meet = true;
    }

    /// Whether tests may meet.
    pub fn may_meet(&self) -> bool {
        self.may_meet
    }

    /// The hosts behind names of hosts and groups, each once, in the order they were said.
    fn members(&self, what: &str, names: &[String]) -> Result<Vec<usize>, PlanError> {
        let mut seen = BTreeSet::new();
        let mut members = Vec::new();
        for name in names {
            let one = self.places.get(name).map(std::slice::from_ref);
            let Some(of_name) = one.or_else(|| self.groups.get(name).map(Vec::as_slice)) else {
                return Err(self.unknown(what, name, "host or group"));
            };
            members.extend(of_name.iter().copied().filter(|host| seen.insert(*host)));
        }
        Ok(members)
    }

    fn unknown(&self, what: &str, name: &str, kind: &str) -> PlanError {
        let known: Vec<&str> = self.hosts.iter().map(String::as_str).take(20).collect();
        let why = format!("there is no {kind} `{name}`");
        PlanError::new(what, why).hint(format!("hosts are {}", known.join(", ")))
    }

    /// What a pair takes while it is measured: both hosts, and what they share with others. Where tests may
    /// [meet](Self::meet) that is its client.
    pub fn resources(&self, pair: Pair) -> BTreeSet<Resource> {
        let both = [pair.from, pair.to];
        let ends = if self.may_meet { &both[..1] } else { &both };
        let own = ends.iter().filter_map(|host| self.hosts.get(*host)).map(|name| {
            let name = name.clone();
            Resource { kind: ResourceKind::Host, name }
        });
        let shared = self.shared.iter().filter(|_| !self.may_meet).filter(|shared| {
            let ends = [pair.from, pair.to].map(|host| shared.hosts.contains(&host));
            match shared.resource.kind {
                ResourceKind::Link => ends[0] != ends[1],
                _ => ends[0] || ends[1],
            }
        });
        own.chain(shared.map(|shared| shared.resource.clone())).collect()
    }

    /// The pairs of a shape, in an order in which each that comes next fits the round of the one before it if
    /// any can: round-robin tournaments of all (by the circle method), Latin squares of two sides. With
    /// `each_way` every pair is there the other way as well.
    ///
    /// # Errors
    /// When a name is unknown, a host would be measured with itself, a pair is said twice, there is none, or
    /// there are more than [`MOST_PAIRS`].
    pub fn pairs(&self, shape: &Shape, each_way: bool) -> Result<Vec<Pair>, PlanError> {
        let hosts = self.hosts.len();
        let ways = 1 + usize::from(each_way);
        let bounded = |count: usize| match count.saturating_mul(ways) {
            0 => Err(PlanError::new(WHAT, "there is none")),
            count if count > MOST_PAIRS => {
                let why = format!("{count} are over {MOST_PAIRS}");
                Err(PlanError::new(WHAT, why)
                    .hint("measure some of the hosts at a time, or a star"))
            }
            _ => Ok(()),
        };
        let between = |a: &[usize], b: &[usize]| {
            bounded(a.len().saturating_mul(b.len()))?;
            match a.iter().find(|host| b.contains(host)).and_then(|host| self.hosts.get(*host)) {
                Some(host) => Err(PlanError::new(WHAT, format!("{host} is on both sides"))),
                None => Ok(latin(a, b)),
            }
        };
        let mut pairs = match shape {
            Shape::All => {
                bounded(hosts.saturating_mul(hosts.saturating_sub(1)) / 2)?;
                tournament(hosts)
            }
            Shape::Star(hubs) => {
                let hubs = self.members(WHAT, hubs)?;
                let others: Vec<usize> = (0..hosts).filter(|host| !hubs.contains(host)).collect();
                between(&hubs, &others)?
            }
            Shape::Bipartite(a, b) => between(&self.members(WHAT, a)?, &self.members(WHAT, b)?)?,
            Shape::List(list) => {
                bounded(list.len())?;
                list.iter().map(|(a, b)| self.listed(a, b)).collect::<Result<_, _>>()?
            }
        };
        if each_way {
            let turned: Vec<Pair> = pairs.iter().map(|pair| pair.turned()).collect();
            pairs.extend(turned);
        }
        let mut seen = BTreeSet::new();
        match pairs.iter().find(|pair| !seen.insert(**pair)) {
            Some(twice) => {
                let shown = [twice.from, twice.to].map(|host| self.hosts.get(host).cloned());
                let shown = shown.map(Option::unwrap_or_default).join("/");
                Err(PlanError::new(WHAT, format!("{shown} is there twice")))
            }
            None => Ok(pairs),
        }
    }

    fn listed(&self, from: &str, to: &str) -> Result<Pair, PlanError> {
        let place = |name: &str| {
            self.places.get(name).copied().ok_or_else(|| self.unknown(WHAT, name, "host"))
        };
        let pair = Pair { from: place(from)?, to: place(to)? };
        if pair.from == pair.to {
            let why = format!("`{from}/{to}` is one host");
            return Err(PlanError::new(WHAT, why).hint("linerate udp --local tests one host alone"));
        }
        Ok(pair)
    }
}

const WHAT: &str = "cannot use these pairs";

/// Every two of `count`, round by round: the last stays where it is and the others go in a circle around it (the
/// circle method of round-robin tournaments). Of an odd count the one that would meet nobody rests.
fn tournament(count: usize) -> Vec<Pair> {
    // The one that stays; of an odd count it is nobody.
    let fixed = if count.is_multiple_of(2) { count.saturating_sub(1) } else { count };
    let met = |a: usize, b: usize| Pair { from: a.min(b), to: a.max(b) };
    let round = |turn: usize| {
        let first = (fixed < count).then(|| met(turn, fixed));
        let others = (1..=fixed.saturating_sub(1) / 2)
            .map(move |step| met((turn + step) % fixed, (turn + fixed - step) % fixed));
        first.into_iter().chain(others)
    };
    (0..fixed).flat_map(round).collect()
}

/// Each of `a` with each of `b`: in each turn all of the smaller side, each with another one, as in a row of a Latin
/// square.
fn latin(a: &[usize], b: &[usize]) -> Vec<Pair> {
    let (small, large) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let turn = |turn: usize| {
        let partners = large.iter().cycle().skip(turn);
        small.iter().zip(partners).map(|(one, other)| {
            let pair = Pair { from: *one, to: *other };
            if a.len() <= b.len() { pair } else { pair.turned() }
        })
    };
    (0..large.len()).flat_map(turn).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(names: &str) -> Vec<String> {
        names.split(',').map(str::to_owned).collect()
    }

    fn shown(fleet: &Fleet, pairs: &str, each_way: bool) -> Result<String, String> {
        let shape = pairs.parse::<Shape>().map_err(|e| e.to_string())?;
        let pairs = fleet.pairs(&shape, each_way).map_err(|e| e.to_string())?;
        let name = |host: usize| fleet.hosts()[host].clone();
        let shown = pairs.iter().map(|pair| format!("{}/{}", name(pair.from), name(pair.to)));
        Ok(shown.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn shapes_make_their_pairs() {
        let mut fleet = Fleet::new(names("a,b,c,d")).unwrap();
        fleet.group("west", &names("a,b")).unwrap();
        fleet.group("most", &names("west,c,a")).unwrap();
        for (shape, each_way, pairs) in [
            ("all", false, "a/d b/c b/d a/c c/d a/b"),
            ("star=c", false, "c/a c/b c/d"),
            ("star=c", true, "c/a c/b c/d a/c b/c d/c"),
            ("star=west", false, "a/c b/d a/d b/c"),
            ("bipartite=west/c,d", false, "a/c b/d a/d b/c"),
            ("bipartite=d/most", false, "d/a d/b d/c"),
            ("bipartite=most/d", false, "a/d b/d c/d"),
            ("a/b,b/a,d/c", false, "a/b b/a d/c"),
        ] {
            assert_eq!(shown(&fleet, shape, each_way).as_deref(), Ok(pairs), "{shape}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut fleet = Fleet::new(names("a,b,c,d")).unwrap();
        fleet.group("west", &names("a,b")).unwrap();
        for (shape, each_way, why) in [
            ("some", false, "it is no shape"),
            ("mesh=a", false, "it is no shape"),
            ("bipartite=a", false, "no `/` is between the two sides"),
            ("bipartite=a,b/b,c", false, "b is on both sides"),
            ("star=x", false, "there is no host or group `x`"),
            ("star=a,,b", false, "a name is empty"),
            ("star=a,b,c,d", false, "there is none"),
            ("a/b,c", false, "`c` is not two hosts"),
            ("a/a", false, "`a/a` is one host"),
            ("a/west", false, "there is no host `west`"),
            ("a/b,a/b", false, "a/b is there twice"),
            ("a/b,b/a", true, "b/a is there twice"),
            ("a/b/c", false, "'/' cannot be part of a name"),
        ] {
            let found = shown(&fleet, shape, each_way).unwrap_err();
            assert!(found.ends_with(why), "{shape}: {found}");
        }
        assert!(Fleet::new(names("a")).is_err());
        assert!(Fleet::new(names("a,b,a")).is_err());
        assert!(Fleet::new(names("a,b c")).is_err());
        assert!(Fleet::new((0..=MOST_HOSTS).map(|at| at.to_string()).collect()).is_err());
        let many = Fleet::new((0..2_000).map(|at| at.to_string()).collect()).unwrap();
        assert!(many.pairs(&Shape::All, false).is_err());
        assert!(fleet.group("a", &names("b")).is_err());
        assert!(fleet.group("west", &names("b")).is_err());
        assert!(fleet.group("east", &names("x")).is_err());
        fleet.share("link:x".parse().unwrap(), &names("west")).unwrap();
        let mut other = fleet.clone();
        let both = [("nic:b", "a"), ("hypervisor:a", "west")];
        let share = |fleet: &mut Fleet, (resource, hosts): (&str, &str)| {
            fleet.share(resource.parse().unwrap(), &names(hosts)).unwrap();
        };
        both.iter().for_each(|one| share(&mut fleet, *one));
        both.iter().rev().for_each(|one| share(&mut other, *one));
        assert_eq!(fleet.shares(), other.shares());
        assert_eq!(fleet.shares().len(), 3);
        assert!(fleet.share("link:x".parse().unwrap(), &names("c")).is_err());
        assert!(fleet.share("host:a".parse().unwrap(), &names("b")).is_err());
        for text in ["", "x", "link", "link:", "router:x", "link:a b"] {
            assert!(text.parse::<Resource>().is_err(), "{text}");
        }
        assert_eq!("nic:a.eth0".parse::<Resource>().unwrap().to_string(), "nic:a.eth0");
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in "(all|star=|bipartite=|)[a-c,/=:]{0,12}", each_way: bool) {
            let fleet = Fleet::new(names("a,b,c")).unwrap();
            if let Ok(shape) = text.parse::<Shape>()
                && let Ok(pairs) = fleet.pairs(&shape, each_way)
            {
                prop_assert!(pairs.iter().all(|p| p.from != p.to && p.from.max(p.to) < 3));
                prop_assert!(!pairs.is_empty());
            }
            let _ = text.parse::<Resource>();
        }
    }
}
