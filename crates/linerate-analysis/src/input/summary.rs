//! Printed tables: one set a row, `N average sd [label]`, or a row as ministat prints it (mark, N,
//! least, largest, median, average, sd [label]).

use linerate_model::clean::clean;
use linerate_stats::offline::summary::Moments;

use super::{Data, InputError, Set};

pub(super) fn read(file: &str, bytes: &[u8]) -> Result<Vec<Set>, InputError> {
    let text = String::from_utf8_lossy(bytes);
    let mut sets = Vec::new();
    let mut before: Option<String> = None;
    for (index, line) in text.lines().enumerate() {
        // What begins a comment is ministat's mark of its fifth set as well, which follows the fourth's, `%`.
        let fifth = line.strip_prefix("# ").filter(|_| before.as_deref() == Some("%"));
        let row = fifth.unwrap_or_default().split_whitespace().take(6);
        let is_row = row.filter(|f| f.parse::<f64>().is_ok()).count() == 6;
        let comment = line.split_once('#').filter(|_| !is_row);
        let line = comment.map_or(line, |(data, _)| data);
        let mut fields: Vec<&str> = line.split_whitespace().collect();
        // The headline of a ministat table, and lines without anything.
        if fields.is_empty() || fields.first() == Some(&"N") {
            continue;
        }
        let is_mark = |f: &&&str| matches!(**f, "x" | "+" | "*" | "%" | "#" | "@" | "O");
        let mark = fields.first().filter(is_mark).map(|m| (*m).to_owned());
        before.clone_from(&mark);
        if mark.is_some() {
            fields.remove(0);
        }
        let numbers: Vec<f64> = fields.iter().map_while(|f| f.parse().ok()).collect();
        let fail = |what: String| InputError::new(file, what).at(index + 1, None);
        let (figures, range, median, used) = match *numbers.as_slice() {
            [n, min, max, median, mean, sd, ..] => {
                ((n, mean, sd), Some((min, max)), Some(median), 6)
            }
            [n, mean, sd, ..] if mark.is_none() => ((n, mean, sd), None, None, 3),
            _ => {
                let what = format!("expected `N average sd`, found `{}`", line.trim());
                return Err(fail(what).hint("one row a set, for example: 30 8247.04 284.04 tcp6"));
            }
        };
        if let Some(bad) = numbers.iter().take(used).find(|x| !super::in_range(**x)) {
            return Err(fail(format!("`{bad}` is not a number that can be compared")));
        }
        let (n, mean, sd) = figures;
        if n < super::FEWEST_VALUES as f64 || n.fract() != 0.0 || n > 1e15 {
            return Err(fail(format!("expected a count of at least 3, found `{n}`")));
        }
        if sd < 0.0 {
            return Err(fail(format!("a standard deviation cannot be negative, found `{sd}`")));
        }
        let rest = fields.get(used..).unwrap_or_default().join(" ");
        let label = match mark {
            _ if !rest.is_empty() => clean(&rest).into_owned(),
            Some(mark) => mark,
            None => format!("row {}", sets.len() + 1),
        };
        let moments = Moments::printed(n, mean, sd);
        let data = Data::Summary { moments, range, median };
        sets.push(Set { label, unit: None, data, notes: Vec::new() });
    }
    if sets.is_empty() {
        return Err(InputError::new(file, "no row of `N average sd`"));
    }
    Ok(sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its marks are x + * % # @ O, and a deviation may be `-nan`.
    #[test]
    fn a_table_of_ministat_loses_no_set_and_no_number_stands_for_another() {
        let row = |mark: &str| format!("{mark}  30  1 9 5 5.5 2\n");
        let table: String = ["x", "+", "*", "%", "#", "@", "O"].map(row).concat();
        let sets = read("t", format!("{table}# 30 runs each\n").as_bytes()).unwrap();
        let labels: Vec<&str> = sets.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(labels, ["x", "+", "*", "%", "#", "@", "O"]);
        for text in ["x 3 1 2 1.5 1.5 -nan\n", "3 1 2 1.5 1.5 nan\n", "3 1e200 1\n"] {
            let error = read("t", text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("is not a number that can be compared"), "{error}");
        }
        // A row that was cut off.
        assert!(read("t", b"x 30 1 9 5\n").unwrap_err().to_string().contains("expected `N"));
    }

    #[test]
    fn both_kinds_of_rows() {
        let text = "    N  Min Max Median Avg Stddev\nx  30  1 9 5 5.5 2 udp 4\n30 6 2\n";
        let sets = read("t", text.as_bytes()).unwrap();
        assert_eq!((sets[0].label.as_str(), sets[1].label.as_str()), ("udp 4", "row 2"));
        let Data::Summary { moments, range, median } = &sets[0].data else { panic!() };
        assert_eq!(
            (moments.mean, moments.variance, *range, *median),
            (5.5, 4.0, Some((1.0, 9.0)), Some(5.0))
        );
    }

    #[test]
    fn bad_rows() {
        for (text, want) in [
            ("30 5\n", "line 1: expected `N average sd`"),
            ("2 5 1\n", "count of at least 3"),
            ("30 5 -1\n", "cannot be negative"),
            ("\n", "no row"),
        ] {
            let error = read("t", text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(want), "{error}");
        }
    }
}
