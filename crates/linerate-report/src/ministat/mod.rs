//! The text that the program `ministat` prints, byte for byte, in both of its arithmetics.
//!
//! What is kept: number formats, order, plot with its cropping, the symbols that run into each
//! other. What is not kept: where the original writes beyond its memory and crashes, [`print()`]
//! gives [`StrayMemory`] and the caller a sentence.
//!
//! ```
//! use linerate_report::ministat::{Options, Set, print};
//! let set = Set::read(b"1\n2\n3\n".as_slice(), &Options::default()).unwrap();
//! let mut out = Vec::new();
//! print(&mut out, &[(b"a".to_vec(), set)], &Options { plot: false, ..Options::default() }).unwrap();
//! assert!(out.starts_with(b"x a\n    N           Min"));
//! ```

mod plot;
mod read;

use std::io::{self, Write};

use crate::number::general;
use linerate_stats::offline::ministat::{Arithmetic, LEVELS, SetFigures, compare};

pub use plot::StrayMemory;
pub use read::{ReadError, Set};

/// Marks of the sets, in their order; the plot also uses them for overlaps, by bitwise or of the
/// set numbers.
const SYMBOLS: [u8; 8] = *b" x+*%#@O";

/// Most sets in one call.
pub const MOST_SETS: usize = SYMBOLS.len() - 1;

/// Fewest values of a set.
pub const FEWEST_VALUES: u64 = 3;

/// What to print and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// `-A` and `-n` clear it.
    pub plot: bool,
    /// `-n` clears it: the table only.
    pub comparisons: bool,
    /// `-s`: a row of bars for each set.
    pub separate_bars: bool,
    /// `-C`: field of each line, from 1.
    pub column: i32,
    /// `-d`: every byte of it parts fields.
    pub delimiters: Vec<u8>,
    /// `-c`, as an index into [`LEVELS`].
    pub level: usize,
    /// `-w`, or the terminal's; columns between the borders.
    pub width: i32,
    /// `-q` of the modern program: neither names nor headline.
    pub quiet: bool,
    /// Which generation.
    pub arithmetic: Arithmetic,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            plot: true,
            comparisons: true,
            separate_bars: false,
            column: 1,
            delimiters: b" \t".to_vec(),
            level: 2,
            width: 74,
            quiet: false,
            arithmetic: Arithmetic::Classic,
        }
    }
}

/// Why nothing more could be printed.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    /// The reader of the text is gone.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// The original would have written beyond its memory here.
    #[error(transparent)]
    Stray(#[from] StrayMemory),
}

/// Prints named sets as the original does; the first is the baseline. The plot is made before
/// anything is written, so that a plot that cannot be made leaves no half of an output.
pub fn print(
    out: &mut impl Write,
    sets: &[(Vec<u8>, Set)],
    options: &Options,
) -> Result<(), PrintError> {
    let figures: Vec<SetFigures> =
        sets.iter().map(|(_, set)| set.figures(options.arithmetic)).collect();
    let plot = if options.plot && options.comparisons {
        Some(plot::Plot::draw(sets, &figures, options)?)
    } else {
        None
    };
    if !options.quiet {
        for ((name, _), symbol) in sets.iter().zip(&SYMBOLS[1..]) {
            out.write_all(&[*symbol, b' '])?;
            out.write_all(name)?;
            out.write_all(b"\n")?;
        }
    }
    if let Some(plot) = plot {
        plot.print(out)?;
    }
    if !options.quiet {
        out.write_all(
            b"    N           Min           Max        Median           Avg        Stddev\n",
        )?;
    }
    for (figure, symbol) in figures.iter().zip(&SYMBOLS[1..]) {
        write_row(out, figure, *symbol)?;
        let Some(base) = figures.first() else { continue };
        if options.comparisons && !std::ptr::eq(figure, base) {
            write_comparison(out, figure, base, options)?;
        }
    }
    Ok(())
}

fn write_row(out: &mut impl Write, set: &SetFigures, symbol: u8) -> io::Result<()> {
    write!(out, "{} {:3}", char::from(symbol), set.n)?;
    for value in [set.min, set.max, set.median, set.average, set.sd()] {
        write!(out, " {:>13}", general(value, 8))?;
    }
    writeln!(out)
}

fn write_comparison(
    out: &mut impl Write,
    set: &SetFigures,
    base: &SetFigures,
    options: &Options,
) -> io::Result<()> {
    let level = LEVELS.get(options.level).map_or(95.0, |l| l.0);
    let Some(c) = compare(set, base, options.level, options.arithmetic) else { return Ok(()) };
    if !c.proven {
        return writeln!(out, "No difference proven at {level:.1}% confidence");
    }
    writeln!(out, "Difference at {level:.1}% confidence")?;
    writeln!(out, "\t{} +/- {}", general(c.difference, 6), general(c.error, 6))?;
    writeln!(out, "\t{}% +/- {}%", general(c.percent, 6), general(c.percent_error, 6))?;
    writeln!(out, "\t(Student's t, pooled s = {})", general(c.pooled_sd, 6))
}
