//! The backlog of received packets per core, /proc/net/softnet_stat.

use super::grown_32;

/// One core's row. The kernel counts in 32 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SoftnetRow {
    pub(crate) core: u64,
    pub(crate) dropped: u64,
    pub(crate) squeezed: u64,
}

/// Reads the rows into `rows`, whose memory is used again.
///
/// Hexadecimal columns without names, as `softnet_seq_show` of net/core/net-procfs.c prints them:
/// the second is `dropped`, the third `time_squeeze`, and since Linux 5.10 the 13th is the core.
/// Before, a row's place among the cores on line stands for it.
pub(crate) fn parse(text: &str, rows: &mut Vec<SoftnetRow>) {
    rows.clear();
    for (place, line) in (0_u64..).zip(text.lines()) {
        let mut columns = line.split_ascii_whitespace().map(|word| u64::from_str_radix(word, 16));
        let (Some(Ok(_)), Some(Ok(dropped)), Some(Ok(squeezed))) =
            (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        let core = columns.nth(9).and_then(Result::ok).unwrap_or(place);
        rows.push(SoftnetRow { core, dropped, squeezed });
    }
}

/// What `(dropped, squeezed)` gained over all cores.
///
/// Row by row, since a core that comes on line brings its old counts with it. Counters that
/// passed 2³² go on counting. `None` where no core was seen twice or a counter was reset.
pub(crate) fn growth(before: &[SoftnetRow], after: &[SoftnetRow]) -> Option<(u64, u64)> {
    let mut all = None;
    for now in after {
        let at = before.binary_search_by_key(&now.core, |row| row.core);
        let Some(then) = at.ok().and_then(|at| before.get(at)) else { continue };
        let sum = all.get_or_insert((0_u64, 0_u64));
        sum.0 = sum.0.saturating_add(grown_32(then.dropped, now.dropped)?);
        sum.1 = sum.1.saturating_add(grown_32(then.squeezed, now.squeezed)?);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "\
002c2dde 00000010 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 \
00000000 00000000 00000000 00000000
00000c58 00000001 ffffffff 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 \
00000000 00000003 00000000 00000000
";

    #[test]
    fn known_answer() {
        let mut rows = Vec::new();
        parse(ROWS, &mut rows);
        let second = SoftnetRow { core: 3, dropped: 1, squeezed: 0xffff_ffff };
        assert_eq!(rows, [SoftnetRow { core: 0, dropped: 16, squeezed: 2 }, second]);

        let mut later = rows.clone();
        later[0] = SoftnetRow { core: 0, dropped: 20, squeezed: 5 };
        later[1].squeezed = 4; // passed 2^32
        later.push(SoftnetRow { core: 9, dropped: 7777, squeezed: 1 }); // came on line
        assert_eq!(growth(&rows, &later), Some((4, 3 + 5)));
        later[0].dropped = 0; // reset
        assert_eq!(growth(&rows, &later), None);
    }

    #[test]
    fn old_kernels_have_no_core_column() {
        let mut rows = Vec::new();
        parse("1 2 3 0\n4 5 6 0\nnonsense\n7 8", &mut rows);
        assert_eq!(
            rows,
            [
                SoftnetRow { core: 0, dropped: 2, squeezed: 3 },
                SoftnetRow { core: 1, dropped: 5, squeezed: 6 },
            ]
        );
    }
}
