//! Hosts measured with each other, as text: a row a pair while it runs, then all of them in one matrix.

use std::collections::BTreeMap;

use linerate_model::fleet::{FleetDocument, FleetPair};

use crate::clean::clean;
use crate::number::{self, ABSENT};

/// A matrix of more hosts than this is wider than what people read.
const MOST_COLUMNS: usize = 16;
/// Columns of a host's name in the matrix.
const MOST_NAME: usize = 24;

/// What came of a pair: `a -> b  9.41 Gbit/s`.
pub fn row(from: &str, to: &str, value: Result<f64, &str>, unit: &str) -> String {
    let came = match value {
        Ok(value) => number::measured(value, Some(unit)),
        Err(why) => format!("{ABSENT}  {}", clean(why)),
    };
    format!("{} -> {}  {came}\n", clean(from), clean(to))
}

/// All pairs: who is the client in the rows, whose server answers in the columns. A dash is a pair that was to be
/// measured and was not, a blank one that nobody asked for.
pub fn text(document: &FleetDocument) -> String {
    let mut out = String::new();
    let measured = document.pairs.iter().filter_map(|pair| pair.value);
    let most = measured.clone().fold(0.0_f64, |most, value| most.max(value.abs()));
    if document.hosts.len() <= MOST_COLUMNS {
        let unit = (document.unit != "s").then_some(document.unit.as_str());
        let (size, prefix) = number::prefix(unit, most);
        let cells: BTreeMap<(&str, &str), String> = document
            .pairs
            .iter()
            .map(|pair| ((&*pair.from, &*pair.to), cell(pair, size)))
            .collect();
        out.push_str(&format!("\n{}, {prefix}{}\n", document.metric, document.unit));
        matrix(&mut out, &document.hosts, &cells);
    }
    let measured = measured.count();
    let (all, rounds) = (document.pairs.len(), document.rounds);
    let plural = if rounds == 1 { "" } else { "s" };
    out.push_str(&format!("\n{measured} of {all} pairs measured in {rounds} round{plural}\n"));
    out
}

fn cell(pair: &FleetPair, size: f64) -> String {
    pair.value.map_or_else(|| ABSENT.to_owned(), |value| number::general(value / size, 4))
}

fn matrix(out: &mut String, hosts: &[String], cells: &BTreeMap<(&str, &str), String>) {
    let short = |name: &str| clean(name).chars().take(MOST_NAME).collect::<String>();
    let names: Vec<String> = hosts.iter().map(|host| short(host)).collect();
    let first = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let width = |to: usize| {
        let of_name = names.get(to).map_or(0, |name| name.chars().count());
        let column = hosts.get(to).map(String::as_str).unwrap_or_default();
        let of_cells = cells.iter().filter(|((_, to), _)| *to == column);
        of_cells.map(|(_, cell)| cell.chars().count()).max().unwrap_or(0).max(of_name)
    };
    let widths: Vec<usize> = (0..hosts.len()).map(width).collect();
    let mut line = |head: &str, row: &mut dyn Iterator<Item = &str>| {
        let mut text = format!("{head:first$}");
        for (cell, width) in row.zip(&widths) {
            text.push_str(&format!("  {cell:>width$}"));
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line("", &mut names.iter().map(String::as_str));
    for (from, name) in hosts.iter().zip(&names) {
        let row = hosts.iter().map(|to| cells.get(&(from.as_str(), to.as_str())));
        line(name, &mut row.map(|cell| cell.map_or("", String::as_str)));
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::record::ProgramFacts;

    use super::*;

    fn pair(from: &str, to: &str, value: Option<f64>) -> FleetPair {
        let missing = value.is_none().then(|| "no route".to_owned());
        FleetPair { from: from.into(), to: to.into(), tries: 1, value, missing }
    }

    #[test]
    fn what_is_missing_is_no_zero_and_what_was_not_asked_is_neither() {
        let document = FleetDocument {
            format: 1,
            kind: "fleet".into(),
            id: String::new(),
            started: String::new(),
            linerate: ProgramFacts { version: String::new() },
            command: vec![],
            hosts: ["a", "b.example", "c"].map(str::to_owned).to_vec(),
            metric: "received_bps".into(),
            unit: "bit/s".into(),
            rounds: 2,
            interrupted: false,
            pairs: vec![
                pair("a", "b.example", Some(9.412e9)),
                pair("a", "c", None),
                pair("b.example", "c", Some(0.0)),
            ],
        };
        insta::assert_snapshot!(text(&document), @r"

        received_bps, Gbit/s
                   a  b.example  c
        a                 9.412  -
        b.example                0
        c

        2 of 3 pairs measured in 2 rounds
        ");
        assert_eq!(row("a", "b", Ok(9.412e9), "bit/s"), "a -> b  9.412 Gbit/s\n");
        assert_eq!(row("a", "c\u{1b}[2J", Err("no route"), "bit/s"), "a -> c[2J  -  no route\n");
    }
}
