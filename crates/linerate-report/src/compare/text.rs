//! The view as text for a terminal.

use super::analysis::Verdict;
use super::plot::{Scale, counts, scale_of, stacks};
use super::view::{SetView, View};
use crate::rows::{Cell, Column, line};
use crate::style::{Paint, wrap};

/// Marks of the boots, in their order; a boot beyond them is `*`.
const BOOT_MARKS: &[u8] = b"123456789abcdefghijklmnpqrstuvwxyzABCDEFGHIJKLMNPQRSTUVWXYZ";

/// Mark of a run whose boot is not known.
const RUN_MARK: char = 'o';

/// Lines of marks that a lane may take; beyond, a mark stands for several values, and says so.
const MOST_ROWS: usize = 60;

/// More columns show no more of a plot, and each takes memory.
const WIDEST: usize = 10_000;

/// Lays the view out in `width` columns (40 to 10,000).
pub fn render(view: &View, width: usize) -> String {
    let width = width.clamp(40, WIDEST);
    let mut out = format!("{}\n\n", view.headline);
    let all: Vec<usize> = (0..view.sets.len()).collect();
    plot(&mut out, view, &all, width);
    if let Some(zoom) = &view.zoom {
        out.push_str("zoom\n");
        plot(&mut out, view, zoom, width);
    }
    table(&mut out, view);
    for set in &view.sets {
        for flag in &set.flags {
            wrapped(&mut out, &format!("{}: {}", set.label, flag.text), width, "  ");
        }
    }
    if view.sets.iter().any(|s| !s.flags.is_empty()) {
        out.push('\n');
    }
    for comparison in &view.comparisons {
        let verdict = comparison.figures.verdict.map_or("no verdict", Verdict::name);
        out.push_str(&format!("{} against {}: {verdict}\n", comparison.label, comparison.baseline));
        for (name, text) in &comparison.lines {
            out.push_str(&format!("  {name:<15}{text}\n"));
        }
        out.push('\n');
    }
    for note in &view.notes {
        wrapped(&mut out, note, width, "");
    }
    if !view.notes.is_empty() {
        out.push('\n');
    }
    for sentence in &view.words {
        wrapped(&mut out, sentence, width, "");
    }
    out
}

/// A paragraph; later lines are indented.
fn wrapped(out: &mut String, text: &str, width: usize, indent: &str) {
    for line in wrap(text, width, indent) {
        out.push_str(&format!("{line}\n"));
    }
}

fn table(out: &mut String, view: &View) {
    let boots = view.sets.iter().any(|s| s.boots.is_some());
    let interval = format!("{} % interval", view.level);
    let design = if boots { "boots x runs" } else { "runs" };
    let names = ["set", design, "mean", &interval, "median", "sd", "between", "within", "icc"]
        .map(str::to_owned);
    let names = if boots { &names[..] } else { &names[..6] };
    // Names to the left, numbers to the right.
    let column = |(i, name): (usize, &String)| {
        let cells = view.sets.iter().filter_map(|s| s.cells.get(i)).chain([name]);
        let width = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        Column { group: "", name: "", width, left: i == 0, rank: 0, cell: i }
    };
    let columns: Vec<Column<usize>> = names.iter().enumerate().map(column).collect();
    for row in std::iter::once(names).chain(view.sets.iter().map(|s| s.cells.as_slice())) {
        let cells: Vec<Cell> = row.iter().map(Cell::plain).collect();
        out.push_str(&line(&columns, &cells, None, Paint { colour: false }));
    }
    out.push('\n');
}

fn plot(out: &mut String, view: &View, chosen: &[usize], width: usize) {
    let sets: Vec<&SetView> = chosen.iter().filter_map(|i| view.sets.get(*i)).collect();
    let inner = width - 4;
    let Some(scale) = scale_of(&sets, inner) else { return };
    for set in sets {
        let boots = match set.boots {
            Some(1) => "  (1 boot)".to_owned(),
            Some(n) => format!("  (boots 1 to {n})"),
            None => String::new(),
        };
        out.push_str(&format!("  {}{boots}", set.label));
        let lane = lane(set, &scale);
        debug_assert_eq!(lane.drawn, set.drawn.len(), "every value is drawn exactly once");
        if lane.values_a_mark > 1 {
            let about = lane.values_a_mark;
            out.push_str(&format!("  (a mark is up to {about} values; {} in all)", lane.drawn));
        }
        out.push('\n');
        for row in lane.rows {
            out.push_str("  ");
            out.push_str(row.trim_end());
            out.push('\n');
        }
        for (bar, name) in
            [(quartile_bar(set, &scale), "quartiles"), (mean_bar(set, &scale), "mean")]
        {
            let Some(bar) = bar else { continue };
            let bar = bar.trim_end().to_owned();
            // The name goes where there is room, before the bar or behind it.
            let start = bar.chars().take_while(|c| *c == ' ').count();
            let text = if bar.chars().count() + 2 + name.len() <= inner {
                format!("{bar}  {name}")
            } else if start > name.len() + 2 {
                format!("{name}{}", bar.chars().skip(name.len()).collect::<String>())
            } else {
                bar
            };
            out.push_str(&format!("  {text}\n"));
        }
    }
    axis(out, &scale, view.size, inner);
}

fn axis(out: &mut String, scale: &Scale, size: f64, inner: usize) {
    let ticks = super::plot::ticks(scale, 5);
    let mut line = vec!['─'; inner];
    let mut labels = vec![' '; inner];
    let mut free = 0;
    for tick in ticks {
        let column = scale.column(tick);
        if let Some(cell) = line.get_mut(column) {
            *cell = '┴';
        }
        let text: Vec<char> = crate::number::general(tick / size, 7).chars().collect();
        let start = column.saturating_sub(text.len() / 2).min(inner.saturating_sub(text.len()));
        if start >= free && start + text.len() <= inner {
            for (cell, c) in labels.iter_mut().skip(start).zip(&text) {
                *cell = *c;
            }
            free = start + text.len() + 1;
        }
    }
    let line: String = line.into_iter().collect();
    let labels: String = labels.into_iter().collect();
    out.push_str(&format!("  {line}\n  {}\n\n", labels.trim_end()));
}

struct Lane {
    rows: Vec<String>,
    /// Values that the marks stand for.
    drawn: usize,
    values_a_mark: usize,
}

fn lane(set: &SetView, scale: &Scale) -> Lane {
    let counts = counts(&set.drawn, scale);
    // Which value stands where matters only for the boots' marks.
    let stacks = set.drawn_boot.as_deref().map(|boots| stacks(&set.drawn, Some(boots), scale));
    let tallest = counts.iter().copied().max().unwrap_or(0);
    let values_a_mark = tallest.div_ceil(MOST_ROWS).max(1);
    let height = tallest.div_ceil(values_a_mark);
    let mark = |column: usize, position: usize| {
        let Some(stacks) = &stacks else { return RUN_MARK };
        let index = stacks.get(column).and_then(|s| s.get(position));
        let boot = index.and_then(|i| set.drawn_boot.as_ref()?.get(*i));
        let known = boot.and_then(|b| BOOT_MARKS.get(*b as usize));
        known.map_or('*', |b| char::from(*b))
    };
    let mut rows = vec![vec![' '; scale.columns()]; height];
    let mut drawn = 0;
    for (column, count) in counts.iter().enumerate() {
        for level in 0..count.div_ceil(values_a_mark) {
            let first = level * values_a_mark;
            if let Some(cell) = rows.get_mut(height - 1 - level).and_then(|r| r.get_mut(column)) {
                *cell = mark(column, first);
                drawn += values_a_mark.min(count - first);
            }
        }
    }
    let rows = rows.into_iter().map(|r| r.into_iter().collect()).collect();
    Lane { rows, drawn, values_a_mark }
}

/// Least to largest as a line, the quartiles as a box, the median in it.
fn quartile_bar(set: &SetView, scale: &Scale) -> Option<String> {
    let figures = (set.min?, set.q1?, set.median?, set.q3?, set.max?);
    let at = |x| scale.column(x);
    let mut bar = vec![' '; scale.columns()];
    fill(&mut bar, at(figures.0), at(figures.4), '─');
    put(&mut bar, at(figures.0), '├');
    put(&mut bar, at(figures.4), '┤');
    fill(&mut bar, at(figures.1), at(figures.3), '═');
    put(&mut bar, at(figures.1), '[');
    put(&mut bar, at(figures.3), ']');
    put(&mut bar, at(figures.2), '│');
    Some(bar.into_iter().collect())
}

/// The interval of the mean; the mean alone when there is none.
fn mean_bar(set: &SetView, scale: &Scale) -> Option<String> {
    let mut bar = vec![' '; scale.columns()];
    if let Some(ci) = &set.ci {
        fill(&mut bar, scale.column(ci.low), scale.column(ci.high), '·');
        put(&mut bar, scale.column(ci.low), '(');
        put(&mut bar, scale.column(ci.high), ')');
    }
    put(&mut bar, scale.column(set.mean), '◆');
    Some(bar.into_iter().collect())
}

fn fill(bar: &mut [char], from: usize, to: usize, mark: char) {
    for cell in bar.iter_mut().take(to + 1).skip(from) {
        *cell = mark;
    }
}

fn put(bar: &mut [char], at: usize, mark: char) {
    if let Some(cell) = bar.get_mut(at) {
        *cell = mark;
    }
}

#[cfg(test)]
mod tests {
    use linerate_stats::offline::autocorrelation::Lag1;

    use super::*;
    use crate::compare::{analysis, input};

    fn view(texts: &[(&str, &str)], options: &analysis::Options) -> View {
        let read = |(name, text): &(&str, &str)| {
            input::read(name, text.as_bytes(), &input::ReadOptions::default()).unwrap().remove(0)
        };
        let sets: Vec<_> = texts.iter().map(read).collect();
        View::new(analysis::compare(&sets, options).unwrap())
    }

    fn lines(values: impl Iterator<Item = f64>) -> String {
        values.map(|v| format!("{v}\n")).collect()
    }

    #[test]
    fn every_value_is_drawn_exactly_once() {
        // One tall column, boots and a far value.
        let tall = lines((0..19).map(|i| if i < 15 { 1.0 } else { f64::from(i) }));
        let booted = "boot v\n1 5\n1 5.1\n2 6\n2 6.1\n3 7\n3 99\n".to_owned();
        let flat = view(&[("a", &tall), ("b", "1\n2\n3\n")], &analysis::Options::default());
        let nested = view(&[("a", &booted), ("b", &booted)], &analysis::Options::default());
        for (view, marks) in [(&flat, "o"), (&nested, "123")] {
            for set in &view.sets {
                let scale = Scale::covering(set.drawn.iter().copied(), 60).unwrap();
                let lane = lane(set, &scale);
                let seen = lane.rows.concat().chars().filter(|c| marks.contains(*c)).count();
                assert_eq!(
                    (seen, lane.drawn, lane.values_a_mark),
                    (set.drawn.len(), set.drawn.len(), 1)
                );
            }
        }
        let many = lines((0..5000).map(|i| f64::from(i % 7)));
        let big = view(&[("a", &many)], &analysis::Options::default());
        let scale = Scale::covering(big.sets[0].drawn.iter().copied(), 60).unwrap();
        let lane = lane(&big.sets[0], &scale);
        assert!(lane.drawn == 5000 && lane.values_a_mark > 1 && lane.rows.len() <= MOST_ROWS);
    }

    #[test]
    fn any_width_is_drawn() {
        let view = view(&[("a", "1\n2\n3\n"), ("b", "2\n3\n4\n")], &analysis::Options::default());
        assert_eq!(render(&view, 0), render(&view, 40));
        assert_eq!(render(&view, usize::MAX), render(&view, WIDEST));
    }

    #[test]
    fn each_p_value_says_of_what_it_is() {
        let view =
            view(&[("a", "1\n2\n3\n"), ("b", "91\n92\n93\n")], &analysis::Options::default());
        let said = render(&view, 100);
        assert!(
            said.contains(" < 0.0001 of no difference; 1.00 of one beyond the margin of 1 %\n"),
            "{said}"
        );
    }

    /// A large offset must not cost the difference its digits, with boots and without.
    #[test]
    fn an_offset_changes_no_difference() {
        let base = [3.0, 1.25, 4.0, 1.25, 5.5, 9.0, 2.75, 6.0, 5.0];
        let set = [5.0, 8.75, 4.25, 9.5, 7.0, 9.5, 6.25, 7.0, 8.5];
        for boots in ["", "# boot"] {
            let file = |values: &[f64], offset: f64| -> String {
                let line = |(i, v): (usize, &f64)| {
                    let boot = if boots.is_empty() {
                        String::new()
                    } else {
                        format!("{boots} {}\n", i / 3)
                    };
                    format!("{boot}{}\n", v + offset)
                };
                values.iter().enumerate().map(line).collect()
            };
            let at = |offset: f64| {
                let view = view(
                    &[("a", &file(&base, offset)), ("b", &file(&set, offset))],
                    &analysis::Options::default(),
                );
                let c = view.comparisons[0].figures.clone();
                (c.difference.unwrap(), c.p.unwrap(), c.df.unwrap(), c.shift.unwrap())
            };
            let (one, two) = (at(0.0), at(1e9));
            for (a, b) in [(one.0, two.0), (one.1, two.1), (one.2, two.2), (one.3, two.3)] {
                assert!((a - b).abs() <= 1e-9 * a.abs(), "{boots}: {one:?} {two:?}");
            }
        }
    }

    /// How much boots vary is not seen in one of them, and so not how many would do.
    #[test]
    fn of_one_boot_no_plan_is_made() {
        let (a, b) = ("boot v\n1 5\n1 5.1\n1 5.2\n", "boot v\n1 6\n1 6.1\n1 6.2\n");
        for paired in [false, true] {
            let options = analysis::Options { paired, ..analysis::Options::default() };
            let text = render(&view(&[("a", a), ("b", b)], &options), 80);
            assert!(text.contains(" at least 3 boots of each set\n"), "{text}");
            assert!(!text.contains("million"), "{text}");
        }
    }

    #[test]
    fn only_of_a_rate_more_is_faster() {
        for (unit, word) in [
            ("Mbit/s", "faster"),
            ("kpps", "faster"),
            ("Gbps", "faster"),
            ("tps", "faster"),
            ("krps", "faster"),
            ("drops", "higher"),
            ("hops", "higher"),
            ("µs/send", "higher"),
            ("steps", "higher"),
        ] {
            let of = |values: &str| format!("# unit: {unit}\n{values}");
            let (a, b) = (of("10\n11\n12\n"), of("20\n21\n22\n"));
            let view = view(&[("a", &a), ("b", &b)], &analysis::Options::default());
            assert!(view.words[0].contains(&format!(" % {word} than a")), "{:?}", view.words);
        }
    }

    #[test]
    fn why_there_is_no_verdict_is_true_of_pairs_as_well() {
        let options = analysis::Options { paired: true, ..analysis::Options::default() };
        let (rising, above) = ("1\n2\n3\n", "2\n3\n4\n");
        let why = |a: &str, b: &str| view(&[("a", a), ("b", b)], &options).words.remove(0);
        assert!(why(rising, above).contains("no spread of boot means or of pairs is seen"));
        assert!(why("5\n5\n5\n", "6\n6\n6\n").contains("neither set varies"));
    }

    #[test]
    fn runs_that_resemble_their_neighbours_are_minded() {
        let warned = |text: &str| {
            let set = input::read("a", text.as_bytes(), &input::ReadOptions::default()).unwrap();
            let sets = [set.clone(), set].concat();
            let mut found = analysis::compare(&sets, &analysis::Options::default()).unwrap();
            found.sets[0].checks.autocorrelation = Some(Lag1 { r: 0.6, significant: true });
            let words = View::new(found).words;
            words.iter().any(|words| words.contains("its interval is too narrow"))
        };
        assert!(warned("1\n2\n3\n"));
        // Means of boots do not hang on the order of the runs within them.
        assert!(!warned("boot v\n1 1\n2 2\n3 3\n"));
    }

    #[test]
    fn no_figure_is_rounded_to_what_was_not_asked_or_reached() {
        let options = analysis::Options {
            level: 0.9995,
            margin: analysis::Margin::Relative(0.012_345),
            ..analysis::Options::default()
        };
        let (a, b) = (lines((1..9).map(f64::from)), lines((1..9).map(|i| f64::from(i) * 1.1)));
        let view = view(&[("a", &a), ("b", &b)], &options);
        assert_eq!(view.margin, "1.2345 %");
        // 1 - 2 x 2/C(16, 8).
        let text = render(&view, 100);
        assert!(text.contains("(99.9689 %: "), "{text}");
    }

    #[test]
    fn nothing_that_is_not_a_number_is_shown() {
        let constant = "5\n5\n5\n";
        let zero = "0\n0\n0\n";
        let around = "-1\n0\n1\n";
        let huge = "1e120\n2e120\n3e120\n";
        let tiny = "1e-120\n2e-120\n4e-120\n";
        let all =
            [constant, zero, around, huge, tiny, "1000000000.1\n1000000000.2\n1000000000.4\n"];
        for a in all {
            for b in all {
                for paired in [false, true] {
                    let options = analysis::Options { paired, ..analysis::Options::default() };
                    let view = view(&[("a", a), ("b", b), ("c", a)], &options);
                    let text = render(&view, 80);
                    let json = serde_json::to_string(&view).unwrap();
                    for bad in ["NaN", "nan", "inf "] {
                        assert!(!text.contains(bad), "{a:?} {b:?}:\n{text}");
                    }
                    assert!(!json.contains("NaN") && !json.contains("inf,"), "{json}");
                }
            }
        }
    }
}
