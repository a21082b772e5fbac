//! The dot plot, with the original's height rule: the height is that of the last set drawn, so a
//! lower later set hides the tops of the earlier ones and a taller one then wipes them.

use std::io::{self, Write};

use linerate_stats::offline::ministat::SetFigures;

use super::{Options, SYMBOLS, Set};

/// The original computes a cell outside its plot here: it crashes, or spoils other memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the values or the width make a plot that cannot be drawn")]
pub struct StrayMemory;

/// A finished plot.
pub struct Plot {
    width: usize,
    /// Rows to show.
    height: usize,
    /// Row 0 at the bottom and unused, as in the original.
    cells: Vec<u8>,
    bars: Vec<Option<Vec<u8>>>,
    flat: bool,
}

struct Scale {
    min: f64,
    max: f64,
    span: f64,
    step: f64,
    origin: f64,
}

impl Scale {
    fn include(&mut self, value: f64, width: i32) {
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
        self.span = self.max - self.min;
        self.step = self.span / (f64::from(width) - 1.0);
        self.origin = self.min - 0.5 * self.step;
    }

    /// The column of a value, by C's conversion: what does not fit is the least integer.
    fn column(&self, value: f64) -> i64 {
        let x = (value - self.origin) / self.step;
        if x > -2_147_483_649.0 && x < 2_147_483_648.0 { x as i64 } else { i64::from(i32::MIN) }
    }
}

impl Plot {
    /// Draws all sets.
    pub fn draw(
        sets: &[(Vec<u8>, Set)],
        figures: &[SetFigures],
        options: &Options,
    ) -> Result<Self, StrayMemory> {
        let width = usize::try_from(options.width).map_err(|_| StrayMemory)?;
        // The limits are those of the original, beyond any that a plot could need.
        let mut scale = Scale { min: 999e99, max: -999e99, span: 0.0, step: 0.0, origin: 0.0 };
        for f in figures {
            for value in [f.min, f.max, f.average - f.sd(), f.average + f.sd()] {
                scale.include(value, options.width);
            }
        }
        let mut plot = Self {
            width,
            height: 0,
            cells: Vec::new(),
            bars: vec![None; sets.len()],
            flat: scale.span == 0.0,
        };
        if plot.flat {
            return Ok(plot);
        }
        for (index, ((_, set), f)) in sets.iter().zip(figures).enumerate() {
            let number = u8::try_from(index + 1).map_err(|_| StrayMemory)?;
            plot.stack(set, number, &scale)?;
            plot.bar(if options.separate_bars { index } else { 0 }, f, &scale)?;
        }
        Ok(plot)
    }

    fn stack(&mut self, set: &Set, number: u8, scale: &Scale) -> Result<(), StrayMemory> {
        // Sorted or not, the values of a column are together; counting does without the sorting.
        let mut counts = vec![0usize; self.width.max(1) + 1];
        for value in set.values() {
            let column = usize::try_from(scale.column(*value)).map_err(|_| StrayMemory)?;
            *counts.get_mut(column).ok_or(StrayMemory)? += 1;
        }
        let rows = counts.iter().copied().max().unwrap_or(0) + 1;
        let size = self.width.checked_mul(rows).filter(|s| *s <= i32::MAX as usize);
        let size = size.ok_or(StrayMemory)?;
        if rows > self.height {
            if self.width == 0 && self.height > 0 {
                // No bytes asked for: the original's memory is given back, and written to.
                return Err(StrayMemory);
            }
            if self.cells.len() < size {
                self.cells.resize(size, 0);
            }
            self.cells[self.height * self.width..size].fill(0);
        }
        self.height = rows;
        if self.width == 0 {
            // Every point falls on the one spare byte of an empty allocation, which is not shown.
            return Ok(());
        }
        for (column, count) in counts.into_iter().enumerate() {
            for row in 1..=count {
                // A column one too far right is the first of the row above, as in the original.
                *self.cells.get_mut(row * self.width + column).ok_or(StrayMemory)? |= number;
            }
        }
        Ok(())
    }

    fn bar(&mut self, row: usize, f: &SetFigures, scale: &Scale) -> Result<(), StrayMemory> {
        let width = self.width;
        let bar = self.bars.get_mut(row).ok_or(StrayMemory)?;
        // An empty bar holds one spare byte, for the same reason as above.
        let bar = bar.get_or_insert_with(|| vec![0; width.max(1)]);
        let put = |bar: &mut Vec<u8>, value: f64, mark: u8| -> Result<usize, StrayMemory> {
            let column = usize::try_from(scale.column(value)).map_err(|_| StrayMemory)?;
            *bar.get_mut(column).ok_or(StrayMemory)? = mark;
            Ok(column)
        };
        if !f.sd().is_nan() {
            let high = put(bar, f.average + f.sd(), b'|')?;
            let low = put(bar, f.average - f.sd(), b'|')?;
            for cell in bar.get_mut(low + 1..high).unwrap_or_default() {
                if *cell == 0 {
                    *cell = b'_';
                }
            }
        }
        put(bar, f.median, b'M')?;
        put(bar, f.average, b'A').map(|_| ())
    }

    /// Prints it.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        if self.flat {
            return out.write_all(b"[no plot, span is zero width]\n");
        }
        let border = [b"+".to_vec(), vec![b'-'; self.width], b"+\n".to_vec()].concat();
        out.write_all(&border)?;
        let mut line = Vec::with_capacity(self.width + 3);
        for row in (1..self.height).rev() {
            let cells = self.cells.get(row * self.width..(row + 1) * self.width);
            line.clear();
            line.push(b'|');
            line.extend(cells.unwrap_or_default().iter().map(|set| SYMBOLS[usize::from(set & 7)]));
            line.extend_from_slice(b"|\n");
            out.write_all(&line)?;
        }
        for bar in self.bars.iter().flatten() {
            line.clear();
            line.push(b'|');
            let shown = bar.iter().take(self.width);
            line.extend(shown.map(|mark| if *mark == 0 { b' ' } else { *mark }));
            line.extend_from_slice(b"|\n");
            out.write_all(&line)?;
        }
        out.write_all(&border)
    }
}
