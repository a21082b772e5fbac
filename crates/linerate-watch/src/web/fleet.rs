//! The pages of a fleet's file of results: the matrix of all pairs, and a page for each pair. Both are whole as they are
//! sent; their script puts in place what has changed since.

mod body;
mod matrix;
mod pair;

use std::collections::BTreeSet;

use linerate_model::fleet_now::{FleetNow, FleetTest};
use linerate_model::record::ErrorRecord;
use linerate_report::clean::clean;
use linerate_report::run::json;

use self::body::Part;
use super::page::Html;

/// Tests under way that are named; of more, how many there are.
const MOST_NAMED: usize = 12;

/// What a file says, and when that was read.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// What it said when it could be read last.
    pub now: &'a FleetNow,
    /// Number of the look at it, which grows with each that found something new.
    pub look: u64,
    /// Why it cannot be read now.
    pub fault: Option<&'a ErrorRecord>,
}

/// Pairs whose pages are others than they were, by their places in the document.
pub fn changed(before: &FleetNow, now: &FleetNow) -> Vec<usize> {
    let (was, is) = (&before.document, &now.document);
    let all = was.id != is.id
        || was.times != is.times
        || was.verdict != is.verdict
        || was.changes != is.changes
        || before.running != now.running;
    let of = |now: &FleetNow| {
        let mut tests = vec![Vec::new(); is.pairs.len()];
        for test in &now.tests {
            tests.get_mut(test.pair).into_iter().for_each(|of| of.push(test.clone()));
        }
        tests
    };
    let (old, new) = (of(before), of(now));
    let pairs = old.iter().zip(&new).enumerate();
    pairs.filter(|(_, (old, new))| all || old != new).map(|(place, _)| place).collect()
}

impl Shown<'_> {
    /// The page of all pairs.
    pub fn matrix(&self) -> Html {
        let title = format!("linerate fleet: {} hosts", self.now.document.hosts.len());
        Html::of_fleet(&title, &matrix::body(self).out)
    }

    /// What the page of all pairs has in its changing places, in their order, as JSON: the file's id, the number of the
    /// look, then class, text and title of each place.
    pub fn places(&self) -> String {
        let parts = matrix::body(self).parts;
        let of_json = (&self.now.document.id, self.look, parts);
        // Nothing of ours can fail to become JSON.
        json::line(&of_json).unwrap_or_default()
    }

    /// The page of a pair, by its place in the document; none where there is no such pair.
    pub fn pair(&self, place: usize) -> Option<Html> {
        let pair = self.now.document.pairs.get(place)?;
        let title = format!("linerate fleet: {} -> {}", clean(&pair.from), clean(&pair.to));
        Some(Html::of_fleet(&title, &pair::body(self, place, pair)))
    }

    /// Where a page begins, for its script.
    fn main(&self) -> String {
        let id = linerate_report::draw::escape(&self.now.document.id);
        format!("<main data-look=\"{}\" data-id=\"{id}\"", self.look)
    }

    /// That the file cannot be read.
    fn fault(&self) -> Option<String> {
        let why = self.fault.map(|fault| format!("{}: {}", fault.what, fault.why))?;
        Some(format!("{}. What stands here was read before", clean(&why)))
    }

    /// Where the run stands.
    fn state(&self) -> Part {
        let document = &self.now.document;
        let (class, words) = match self.fault() {
            Some(words) => ("bad", words),
            None if self.now.running => ("good", self.progress()),
            None if document.interrupted => {
                let words = "no run writes this file, and not every pair has had its turn: --resume goes on";
                ("bad", words.to_owned())
            }
            // A schedule goes on with another time, whether its last one is whole or not.
            None if !self.is_whole() => {
                ("", "no run writes this file, and not every pair has had its turn".to_owned())
            }
            None => ("", "every pair has had its turn".to_owned()),
        };
        Part::new(class, words)
    }

    /// Whether each pair has a test of the last time.
    fn is_whole(&self) -> bool {
        let document = &self.now.document;
        let last = document.deleted.saturating_add(document.times);
        let tests = self.now.tests.iter().filter(|test| test.time == last);
        let pairs: BTreeSet<usize> = tests.map(|test| test.pair).collect();
        pairs.len() == document.pairs.len()
    }

    fn progress(&self) -> String {
        let document = &self.now.document;
        let Some(time) = document.begun.iter().rposition(Option::is_some) else {
            return "running".to_owned();
        };
        let measured = |values: &[Option<f64>]| values.get(time).is_some_and(Option::is_some);
        let measured = document.pairs.iter().filter(|pair| measured(&pair.values)).count();
        let deleted = document.deleted as usize;
        let number = deleted.saturating_add(time).saturating_add(1);
        let (of, all) = (deleted.saturating_add(document.times as usize), document.pairs.len());
        format!("running: time {number} of {of}, {measured} of {all} pairs measured in it")
    }

    /// Which tests are under way.
    fn under_way(&self) -> Part {
        let all = self.now.under_way().count();
        let named = self.now.under_way().take(MOST_NAMED).map(|test| self.named(test));
        let mut words = named.collect::<Vec<_>>().join(", ");
        if all > MOST_NAMED {
            words.push_str(&format!(", and {} more", all.saturating_sub(MOST_NAMED)));
        }
        let words = if all == 0 { String::new() } else { format!("under way: {words}") };
        Part::new("note", words)
    }

    /// `a -> b since 12:30:05 UTC`.
    fn named(&self, test: &FleetTest) -> String {
        let pair = self.now.document.pairs.get(test.pair);
        let ends = pair.map(|pair| format!("{} -> {}", pair.from, pair.to)).unwrap_or_default();
        format!("{} since {} UTC", clean(&ends), clean(time_of_day(&test.began)))
    }
}

/// The time of a date of RFC 3339 to the second; all of what is none.
fn time_of_day(date: &str) -> &str {
    date.get(11..19).unwrap_or(date)
}

#[cfg(test)]
mod tests;
