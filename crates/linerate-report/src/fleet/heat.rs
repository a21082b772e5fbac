//! The matrix of hosts measured with each other, with how much worse than usual each pair is. A page lays it out.

use std::collections::{BTreeMap, BTreeSet};

use linerate_analysis::fleet::median_of;
use linerate_analysis::metric::{self, Better};
use linerate_model::fleet::{FleetDocument, FleetPair, FleetRole};

use super::bad_one;
use crate::clean::clean;
use crate::number::{self, ABSENT};

/// From which share of the usual level on a cell has its next colour. Each is about twice the one before, so that one
/// pair that is far off does not make all others look alike.
pub const STEPS: [f64; 5] = [0.02, 0.05, 0.1, 0.25, 0.5];
/// Hosts up to which a cell has room for a fourth digit.
const MOST_WIDE: usize = 16;

/// A matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// What its figures are, with their unit.
    pub title: String,
    /// What a cell without colour is, then from which figure on it has each colour. Empty without any figure.
    pub legend: Vec<String>,
    /// The hosts, in the rows as clients.
    pub clients: Vec<Head>,
    /// The same in the columns as servers.
    pub servers: Vec<Head>,
    /// A row a client, in it a cell a server.
    pub rows: Vec<Vec<Cell>>,
    /// Median of each row.
    pub of_clients: Vec<Cell>,
    /// Median of each column.
    pub of_servers: Vec<Cell>,
}

/// A host at the edge of the matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// Its name.
    pub name: String,
    /// That it is bad in this part, in a sentence.
    pub bad: Option<String>,
}

/// A place of the matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Place of the pair in the document; none at the edge, and where nobody asked.
    pub pair: Option<usize>,
    /// What is known.
    pub level: Level,
    /// The figure without its unit, or a dash.
    pub text: String,
    /// All figures in a sentence.
    pub words: String,
    /// Whether the link is bad.
    pub bad: bool,
}

/// What is known of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Nobody asked.
    Blank,
    /// It has no figure.
    Missing,
    /// It has one: so many of [`STEPS`] worse than usual.
    Worse(usize),
}

/// How figures are told apart, and written.
struct Scale<'a> {
    document: &'a FleetDocument,
    better: Better,
    usual: Option<f64>,
    /// What [`STEPS`] are shares of: the usual level, or the worst distance from it where it is 0.
    whole: f64,
    /// Of the prefix.
    size: f64,
    prefix: &'static str,
    digits: usize,
}

impl<'a> Scale<'a> {
    fn new(document: &'a FleetDocument) -> Self {
        let better = metric::find(&document.metric).map_or(Better::Higher, |metric| metric.better);
        let values = || document.pairs.iter().filter_map(|pair| pair.value);
        let most = values().fold(0.0_f64, |most, value| most.max(value.abs()));
        let (size, prefix) = number::prefix(Some(&document.unit), most);
        let usual = document.verdict.usual.filter(|usual| usual.is_finite());
        let digits = if document.hosts.len() <= MOST_WIDE { 4 } else { 3 };
        let mut scale = Self { document, better, usual, whole: 0.0, size, prefix, digits };
        let worst = values().map(|value| scale.worse_by(value)).fold(0.0, f64::max);
        scale.whole = usual.map(f64::abs).filter(|usual| *usual > 0.0).unwrap_or(worst);
        scale
    }

    /// Less than 0 of one that is better.
    fn worse_by(&self, value: f64) -> f64 {
        let usual = self.usual.unwrap_or(value);
        if self.better == Better::Higher { usual - value } else { value - usual }
    }

    fn level(&self, value: f64) -> Level {
        let worse_by = self.worse_by(value);
        let reached = |step: &&f64| self.whole > 0.0 && worse_by >= *step * self.whole;
        Level::Worse(STEPS.iter().filter(reached).count())
    }

    fn text(&self, value: f64) -> String {
        number::general(value / self.size, self.digits)
    }

    fn shown(&self, value: f64) -> String {
        let value = number::general(value, 4).parse().unwrap_or(value);
        number::measured(value, Some(&self.document.unit))
    }

    /// `26.6 % less than the usual 94.10 Mbit/s`.
    fn beside_usual(&self, value: f64) -> Option<String> {
        let usual = self.usual?;
        let share = (value - usual) / usual.abs() * 100.0;
        let shown = self.shown(usual);
        if !share.is_finite() {
            return Some(format!("usual is {shown}"));
        }
        Some(match (number::general(share.abs(), 3), share > 0.0) {
            (share, _) if share == "0" => format!("as usual, {shown}"),
            (share, true) => format!("{share} % more than the usual {shown}"),
            (share, false) => format!("{share} % less than the usual {shown}"),
        })
    }

    fn legend(&self) -> Vec<String> {
        let Some(usual) = self.usual else { return Vec::new() };
        let sign = if self.better == Better::Higher { -1.0 } else { 1.0 };
        let from = |step: &f64| self.text(usual + sign * step * self.whole);
        let unit = format!("{}{}", self.prefix, self.document.unit);
        let first = format!("usual {} {unit}", self.text(usual));
        std::iter::once(first).chain(STEPS.iter().map(from)).collect()
    }

    /// All figures of a pair, in a sentence.
    fn words(&self, pair: &FleetPair) -> String {
        let mut words = format!("{} -> {}: ", clean(&pair.from), clean(&pair.to));
        let Some(value) = pair.value else {
            words.push_str(&format!(
                "no result, {}",
                clean(pair.missing.as_deref().unwrap_or(ABSENT))
            ));
            return words;
        };
        words.push_str(&self.shown(value));
        words.extend(self.beside_usual(value).map(|beside| format!("; {beside}")));
        if self.document.times > 1 {
            let known = pair.values.iter().flatten();
            let (low, high) = known
                .clone()
                .fold((value, value), |(low, high), value| (low.min(*value), high.max(*value)));
            words.push_str(&format!(
                "; median of {} of {} times, {} to {}",
                known.count(),
                self.document.times,
                self.shown(low),
                self.shown(high)
            ));
        }
        words
    }

    fn cell(&self, (place, pair): (usize, &FleetPair), bad: bool) -> Cell {
        let (level, text) = match pair.value {
            Some(value) => (self.level(value), self.text(value)),
            None => (Level::Missing, ABSENT.to_owned()),
        };
        let bad_link = if bad { "bad link: " } else { "" };
        let words = format!("{bad_link}{}", self.words(pair));
        Cell { pair: Some(place), level, text, words, bad }
    }

    /// At the edge: the median of these pairs.
    fn median(&self, pairs: &[&FleetPair], of: &str) -> Cell {
        let values: Vec<Option<f64>> = pairs.iter().map(|pair| pair.value).collect();
        let (level, text, words) = match median_of(&values) {
            _ if pairs.is_empty() => return BLANK,
            None => (Level::Missing, ABSENT.to_owned(), "no result".to_owned()),
            Some(value) => {
                let beside = self.beside_usual(value).map(|beside| format!("; {beside}"));
                let words = format!("{}{}", self.shown(value), beside.unwrap_or_default());
                (self.level(value), self.text(value), words)
            }
        };
        Cell { pair: None, level, text, words: format!("median of {of}: {words}"), bad: false }
    }
}

const BLANK: Cell =
    Cell { pair: None, level: Level::Blank, text: String::new(), words: String::new(), bad: false };

impl Heat {
    /// Of a document.
    pub fn new(document: &FleetDocument) -> Self {
        let scale = Scale::new(document);
        let bad: BTreeSet<_> = document
            .verdict
            .bad
            .iter()
            .filter_map(|bad| Some((bad.from.as_deref()?, bad.to.as_deref()?)))
            .collect();
        let pairs: BTreeMap<(&str, &str), (usize, &FleetPair)> =
            (document.pairs.iter().enumerate())
                .map(|(place, pair)| ((&*pair.from, &*pair.to), (place, pair)))
                .collect();
        let hosts = || document.hosts.iter().map(String::as_str);
        let cell = |ends: (&str, &str)| match pairs.get(&ends) {
            Some(found) => scale.cell(*found, bad.contains(&ends)),
            None => BLANK,
        };
        let row = |from| hosts().map(|to| cell((from, to))).collect();
        let median = |host: &str, as_what: &str, mine: &dyn Fn(&FleetPair) -> bool| {
            let mine: Vec<_> = document.pairs.iter().filter(|pair| mine(pair)).collect();
            scale.median(&mine, &format!("{} as {as_what}", clean(host)))
        };
        let of_times = if document.times > 1 {
            format!(", median of {} times", document.times)
        } else {
            String::new()
        };
        Self {
            title: format!("{}, {}{}{of_times}", document.metric, scale.prefix, document.unit),
            legend: scale.legend(),
            clients: hosts().map(|host| head(document, host, FleetRole::Client)).collect(),
            servers: hosts().map(|host| head(document, host, FleetRole::Server)).collect(),
            rows: hosts().map(row).collect(),
            of_clients: hosts().map(|host| median(host, "client", &|p| p.from == host)).collect(),
            of_servers: hosts().map(|host| median(host, "server", &|p| p.to == host)).collect(),
        }
    }
}

fn head(document: &FleetDocument, host: &str, part: FleetRole) -> Head {
    let is = |role: FleetRole| role == part || role == FleetRole::Both;
    let bad = document
        .verdict
        .bad
        .iter()
        .find(|bad| bad.host.as_deref() == Some(host) && bad.role.is_none_or(is));
    Head { name: clean(host).into_owned(), bad: bad.map(|bad| bad_one(document, bad)) }
}
