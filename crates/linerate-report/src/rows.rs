//! Tables whose rows are printed as they come, so that no later row can move a column. What does not
//! fit the width is left out by its rank, and never wraps.

use crate::run::table::Cell;
use crate::style::{Paint, Tone};

/// Between two columns.
const GAP: usize = 2;

/// One column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its head.
    pub name: &'static str,
    /// Least width. The last column takes what is left.
    pub width: usize,
    /// Text begins at the left, numbers end at the right.
    pub left: bool,
    /// Columns with the highest rank go first when there is no room; 0 stays.
    pub rank: u8,
}

/// The columns that fit a width, with their places in the table; all without one.
pub fn kept(columns: &[Column], width: Option<usize>) -> Vec<usize> {
    let rank = rank_that_fits(columns.iter().map(|c| (c.width, c.rank)), width);
    (0..columns.len()).filter(|i| columns.get(*i).is_some_and(|c| c.rank <= rank)).collect()
}

/// The rank up to which columns of these widths and ranks fit; all ranks without a width.
pub(crate) fn rank_that_fits(
    columns: impl Iterator<Item = (usize, u8)> + Clone,
    width: Option<usize>,
) -> u8 {
    let most = columns.clone().map(|(_, rank)| rank).max().unwrap_or(0);
    let fits = |most: &u8| {
        let kept = columns.clone().filter(|(_, rank)| rank <= most);
        let needed: usize = kept.map(|(width, _)| width + GAP).sum();
        width.is_none_or(|width| needed <= width + GAP)
    };
    (0..=most).rev().find(fits).unwrap_or(0)
}

/// The line of names.
pub fn head(columns: &[Column], width: Option<usize>, paint: Paint) -> String {
    let names = columns.iter().map(|c| Cell { text: c.name.to_owned(), tone: Tone::Label });
    line(columns, &names.collect::<Vec<_>>(), width, paint)
}

/// One row, a cell for each of `columns`, of which those that fit are shown.
pub fn line(columns: &[Column], cells: &[Cell], width: Option<usize>, paint: Paint) -> String {
    let kept = kept(columns, width);
    let last = kept.last().copied();
    // A blank is written when something follows it, so that no line ends in one.
    let (mut out, mut used, mut blank) = (String::new(), 0, 0);
    for i in kept {
        let (Some(column), Some(cell)) = (columns.get(i), cells.get(i)) else { continue };
        let most = match width {
            Some(width) if last == Some(i) => width.saturating_sub(used + blank),
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

    const COLUMNS: &[Column] = &[
        Column { name: "n", width: 3, left: false, rank: 0 },
        Column { name: "asked", width: 8, left: false, rank: 2 },
        Column { name: "name", width: 8, left: true, rank: 1 },
        Column { name: "note", width: 6, left: true, rank: 0 },
    ];

    #[test]
    fn columns_go_by_rank_and_nothing_is_wider() {
        let cell = |text: &str| Cell { text: text.into(), tone: Tone::Good };
        let cells = [cell("1"), cell("10.00 M"), cell("fast"), cell("a note without an end")];
        let show = |width: Option<usize>| {
            let paint = Paint { colour: false };
            head(COLUMNS, width, paint) + &line(COLUMNS, &cells, width, paint)
        };
        insta::assert_snapshot!([None, Some(31), Some(30), Some(12)].map(show).join("---\n"));
        for width in 0..60 {
            let widest = show(Some(width)).lines().map(|l| l.chars().count()).max();
            assert!(widest <= Some(width.max(11)), "{width}: {widest:?}");
        }
    }
}
