//! Tables of a terminal whose rows are printed as they come, so that no later row can move a column. What
//! does not fit the width is left out by its rank, and never wraps.

use crate::number::ABSENT;
use crate::style::{Paint, Tone};

/// Between two columns.
pub(crate) const GAP: usize = 2;

/// One value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Worded.
    pub text: String,
    /// Its meaning.
    pub tone: Tone,
}

impl Cell {
    /// A value without a meaning of its own.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }

    /// A value without a meaning of its own, or the sign that there is none.
    pub fn known(text: Option<String>) -> Self {
        Self::toned(text, Tone::Plain)
    }

    /// A value, or the sign that there is none.
    pub fn toned(text: Option<String>, tone: Tone) -> Self {
        text.map_or_else(
            || Self { text: ABSENT.to_owned(), tone: Tone::Dim },
            |text| Self { text, tone },
        )
    }
}

/// One column; `F` makes its cells.
#[derive(Debug, Clone, Copy)]
pub struct Column<F> {
    /// Head over neighbouring columns: a unit or what they have in common.
    pub group: &'static str,
    /// Its own head.
    pub name: &'static str,
    /// Least width, in columns of text.
    pub width: usize,
    /// Text begins at the left, numbers end at the right.
    pub left: bool,
    /// Columns with the highest rank go first when there is no room; 0 stays.
    pub rank: u8,
    /// Its value of a row.
    pub cell: F,
}

/// A column of numbers.
pub(crate) const fn column<F: Copy>(
    group: &'static str,
    name: &'static str,
    width: usize,
    rank: u8,
    cell: F,
) -> Column<F> {
    Column { group, name, width, left: false, rank, cell }
}

/// A column of text, without a group.
pub(crate) const fn text<F: Copy>(
    name: &'static str,
    width: usize,
    rank: u8,
    cell: F,
) -> Column<F> {
    Column { group: "", name, width, left: true, rank, cell }
}

/// Leaves the columns that fit a width, all of them without one; `spare` is what is kept free beside
/// columns up to a rank.
pub(crate) fn keep<F>(
    columns: &mut Vec<Column<F>>,
    width: Option<usize>,
    spare: impl Fn(u8) -> usize,
) {
    let most = columns.iter().map(|c| c.rank).max().unwrap_or(0);
    let fits = |most: &u8| {
        let kept = columns.iter().filter(|c| c.rank <= *most);
        width.is_none_or(|width| needed(kept) + spare(*most) <= width)
    };
    let rank = (0..=most).rev().find(fits).unwrap_or(0);
    columns.retain(|c| c.rank <= rank);
}

/// Columns of text that a row takes.
pub(crate) fn needed<'a, F: 'a>(columns: impl IntoIterator<Item = &'a Column<F>>) -> usize {
    let all: usize = columns.into_iter().map(|c| c.width + GAP).sum();
    all.saturating_sub(GAP)
}

/// The line of names.
pub(crate) fn head<F>(columns: &[Column<F>], width: Option<usize>, paint: Paint) -> String {
    let names = columns.iter().map(|c| Cell { text: c.name.to_owned(), tone: Tone::Label });
    line(columns, &names.collect::<Vec<_>>(), width, paint)
}

/// One row, a cell for each column; what is longer than its column is cut, the last column takes what is
/// left of the width.
pub(crate) fn line<F>(
    columns: &[Column<F>],
    cells: &[Cell],
    width: Option<usize>,
    paint: Paint,
) -> String {
    // A blank is written when something follows it, so that no line ends in one.
    let (mut out, mut used, mut blank) = (String::new(), 0, 0);
    for (i, (column, cell)) in columns.iter().zip(cells).enumerate() {
        let most = match width {
            Some(width) if i + 1 == columns.len() => width.saturating_sub(used + blank),
            Some(_) => column.width,
            None => usize::MAX,
        };
        let text = cut(&cell.text, most);
        let length = text.chars().count();
        let pad = column.width.saturating_sub(length);
        let (before, after) = if column.left { (0, pad) } else { (pad, 0) };
        if length > 0 {
            out.push_str(&" ".repeat(blank + before));
            out.push_str(&paint.apply(cell.tone, &text));
            used += blank + before + length;
            blank = after + GAP;
        } else {
            blank += before + after + GAP;
        }
    }
    out.push('\n');
    out
}

/// Two lines: what neighbouring columns have in common, then each column's name.
pub(crate) fn grouped_head<F>(columns: &[Column<F>], paint: Paint) -> String {
    let (mut groups, mut names) = (String::new(), String::new());
    for of in columns.chunk_by(|a, b| !a.group.is_empty() && a.group == b.group) {
        let gap = if groups.is_empty() { 0 } else { GAP };
        groups.push_str(&format!("{:>1$}", of[0].group, gap + needed(of)));
        for column in of {
            let gap = if names.is_empty() { 0 } else { GAP };
            names.push_str(&format!("{:>1$}", column.name, gap + column.width));
        }
    }
    let label = |line: &str| paint.apply(Tone::Label, line);
    format!("{}\n{}\n", label(groups.trim_end()), label(&names))
}

/// One row of numbers, whole: a cell wider than its column takes from the gaps of the cells after it.
/// `tone` is that of every cell without its own.
pub(crate) fn whole<F>(columns: &[Column<F>], cells: &[Cell], paint: Paint, tone: Tone) -> String {
    let mut out = String::new();
    let mut owed = 0usize;
    for (i, (column, cell)) in columns.iter().zip(cells).enumerate() {
        let length = cell.text.chars().count();
        let (gap, least) = if i == 0 { (0, 0) } else { (GAP, 1) };
        let room = (column.width + gap).saturating_sub(owed);
        let pad = room.saturating_sub(length).max(least);
        owed = (pad + length).saturating_sub(room);
        out.push_str(&" ".repeat(pad));
        let tone = if cell.tone == Tone::Plain { tone } else { cell.tone };
        out.push_str(&paint.apply(tone, &cell.text));
    }
    out
}

/// At most `most` characters of a text, with a sign where some are missing.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(most.saturating_sub(1)).collect();
    if most > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column<usize>; 4] = [
        column("", "n", 3, 0, 0),
        column("", "asked", 8, 2, 1),
        text("name", 8, 1, 2),
        text("note", 6, 0, 3),
    ];

    #[test]
    fn columns_go_by_rank_and_nothing_is_wider() {
        let cell = |text: &str| Cell { text: text.into(), tone: Tone::Good };
        let cells = [cell("1"), cell("10.00 M"), cell("fast"), cell("a note without an end")];
        let show = |width: Option<usize>| {
            let paint = Paint { colour: false };
            let mut columns = COLUMNS.to_vec();
            keep(&mut columns, width, |_| 0);
            let cells: Vec<Cell> = columns.iter().map(|c| cells[c.cell].clone()).collect();
            head(&columns, width, paint) + &line(&columns, &cells, width, paint)
        };
        insta::assert_snapshot!([None, Some(31), Some(30), Some(12)].map(show).join("---\n"));
        for width in 0..60 {
            let widest = show(Some(width)).lines().map(|l| l.chars().count()).max();
            assert!(widest <= Some(width.max(11)), "{width}: {widest:?}");
        }
    }
}
