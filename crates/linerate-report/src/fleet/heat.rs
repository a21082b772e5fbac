//! The matrix of hosts measured with each other, with how much worse than usual each pair is. A page lays it out.

use std::collections::{HashMap, HashSet};

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
    /// How all names end, from a dot or a colon on: who knows it can tell hosts apart without.
    pub ending: String,
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
    /// The same without [`Heat::ending`].
    pub short: String,
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
        let mut legend: Vec<String> =
            std::iter::once(first).chain(STEPS.iter().map(from)).collect();
        legend.last_mut().into_iter().for_each(|last| last.push_str(" and worse"));
        legend
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
        let bad: HashSet<_> = document
            .verdict
            .bad
            .iter()
            .filter_map(|bad| Some((bad.from.as_deref()?, bad.to.as_deref()?)))
            .collect();
        let placed = document.pairs.iter().enumerate();
        let pairs: HashMap<(&str, &str), (usize, &FleetPair)> =
            placed.map(|(place, pair)| ((&*pair.from, &*pair.to), (place, pair))).collect();
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
        let ending = ending(&document.hosts);
        Self {
            title: format!("{}, {}{}{of_times}", document.metric, scale.prefix, document.unit),
            legend: scale.legend(),
            ending: clean(ending).into_owned(),
            clients: hosts().map(|host| head(document, host, ending, FleetRole::Client)).collect(),
            servers: hosts().map(|host| head(document, host, ending, FleetRole::Server)).collect(),
            rows: hosts().map(row).collect(),
            of_clients: hosts().map(|host| median(host, "client", &|p| p.from == host)).collect(),
            of_servers: hosts().map(|host| median(host, "server", &|p| p.to == host)).collect(),
        }
    }
}

fn head(document: &FleetDocument, host: &str, ending: &str, part: FleetRole) -> Head {
    let is = |role: FleetRole| role == part || role == FleetRole::Both;
    let mut bad = document.verdict.bad.iter();
    let bad = bad.find(|bad| bad.host.as_deref() == Some(host) && bad.role.is_none_or(is));
    let short = host.strip_suffix(ending).unwrap_or(host);
    Head {
        name: clean(host).into_owned(),
        short: clean(short).into_owned(),
        bad: bad.map(|bad| bad_one(document, bad)),
    }
}

/// How all of these names end, from a dot or a colon on, if something stands before it in each.
fn ending(hosts: &[String]) -> &str {
    let [first, others @ ..] = hosts else { return "" };
    let shared = |ending: &str| {
        let before = |host: &String| host.strip_suffix(ending).is_some_and(|left| !left.is_empty());
        !others.is_empty() && hosts.iter().all(before)
    };
    let places = first.char_indices().filter(|(_, letter)| matches!(letter, '.' | ':'));
    let endings = places.filter_map(|(place, _)| first.get(place..));
    endings.into_iter().find(|ending| shared(ending)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use linerate_model::fleet::{FleetAnswer, FleetVerdict};
    use linerate_testkit::fleet;

    use super::*;

    /// Levels of the pairs in their order.
    fn levels(document: &FleetDocument) -> Vec<Level> {
        let heat = Heat::new(document);
        heat.rows.iter().flatten().filter(|cell| cell.pair.is_some()).map(|c| c.level).collect()
    }

    #[test]
    fn colour_is_how_much_worse_than_usual_a_pair_is() {
        let figures = [940e6, 925e6, 921.2e6, 890e6, 845e6, 700e6, 469e6, 0.0, 2e9, 940e6, 940e6];
        let mut at = figures.iter();
        let now = fleet::now(&["a", "b", "c", "d"], 1, |_, _, _| Some(0.0));
        let mut document = now.document;
        for pair in &mut document.pairs {
            pair.value = at.next().copied();
        }
        document.verdict.usual = Some(940e6);
        let mut wanted = [0, 0, 1, 2, 3, 4, 5, 5, 0, 0, 0].map(Level::Worse).to_vec();
        wanted.push(Level::Missing);
        assert_eq!(levels(&document), wanted);
        // Of what is better the lower it is, and is not there usually, the worst is the measure.
        document.metric = "loss".into();
        let figures = [0.0, 0.0, 0.03, 0.3, 2.0, 1.0];
        let mut at = figures.iter().cycle();
        for pair in &mut document.pairs {
            pair.value = at.next().copied();
        }
        document.verdict.usual = Some(0.0);
        let wanted = [0, 0, 0, 3, 5, 5].map(Level::Worse);
        assert_eq!(levels(&document), [wanted, wanted].concat());
        for pair in &mut document.pairs {
            pair.value = Some(0.0);
        }
        assert!(levels(&document).iter().all(|level| *level == Level::Worse(0)));
        let nothing = FleetVerdict {
            hosts: FleetAnswer::FewPairs,
            links: FleetAnswer::FewPairs,
            usual: None,
            bad: vec![],
        };
        let document = FleetDocument { pairs: vec![], verdict: nothing, ..document };
        assert!(Heat::new(&document).legend.is_empty());
    }

    #[test]
    fn names_lose_what_all_of_them_end_with() {
        let of = |hosts: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            ending(&hosts).to_owned()
        };
        assert_eq!(of(&["a.dc1.example:5201", "b.dc1.example:5201"]), ".dc1.example:5201");
        assert_eq!(of(&["10.0.0.1:5201", "10.0.0.2:5201", "10.0.1.1:5201"]), ":5201");
        assert_eq!(of(&["a.example", "b.example:5301"]), "");
        assert_eq!(of(&["a.example"]), "");
        assert_eq!(of(&[".example", "b.example"]), "");
        assert_eq!(of(&[]), "");
    }

    #[test]
    fn medians_at_the_edges_are_of_rows_and_columns() {
        let now = fleet::now(&["a", "b", "c"], 2, |from, to, _| match (from, to) {
            (0, _) => Some(500e6),
            (1, 0) => None,
            _ => Some(900e6 + 1e6 * to as f64),
        });
        let heat = Heat::new(&now.document);
        let words = |cells: &[Cell]| cells.iter().map(|c| c.words.clone()).collect::<Vec<_>>();
        assert!(words(&heat.of_clients)[0].starts_with("median of a as client: 500.0 Mbit/s; "));
        assert!(words(&heat.of_clients)[1].starts_with("median of b as client: 902.0 Mbit/s"));
        assert!(words(&heat.of_servers)[0].starts_with("median of a as server: 900.0 Mbit/s"));
        assert_eq!(heat.title, "received_bps, Mbit/s, median of 2 times");
    }
}
