//! Reads one number from each line, by the original's rules: fields parted by any run of delimiter
//! bytes, `#` at the start of a field ends the line, lines without the field are skipped, white
//! space at the end of a line is dropped, a line over 8,191 bytes counts as several.

use std::io::{self, BufRead};

use linerate_stats::offline::ministat::{Arithmetic, RunningSums, SetFigures, two_pass_variance};
use linerate_stats::strtod::{is_space, parse_c_double, plain_number};

use super::{FEWEST_VALUES, Options};

/// What the original's line buffer holds, less its closing zero.
const LINE_BYTES: usize = 8191;

/// Why there is no set.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The field is not a number.
    #[error("Invalid data on line {line}")]
    Invalid {
        /// From 1; pieces of overlong lines count.
        line: u64,
    },
    /// Fewer than 3 values.
    #[error("must contain at least 3 data points")]
    TooFew,
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The values of a file and what was summed while reading them.
#[derive(Debug, Clone)]
pub struct Set {
    /// Sorted only where that shows, see `rank`.
    values: Vec<f64>,
    sums: RunningSums,
    min: f64,
    max: f64,
    /// The values at index (n - 1) / 2 and n / 2 of the sorted set.
    middle: (f64, f64),
}

impl Set {
    /// Reads a set.
    pub fn read(mut input: impl BufRead, options: &Options) -> Result<Self, ReadError> {
        let mut values = Vec::new();
        let mut sums = RunningSums::default();
        let mut line = 0;
        let mut take = |piece: &[u8]| {
            line += 1;
            match number_of(piece, options) {
                Ok(Some(value)) => {
                    sums.add(value);
                    values.push(value);
                    Ok(())
                }
                Ok(None) => Ok(()),
                Err(()) => Err(ReadError::Invalid { line }),
            }
        };
        // What is left of the last block: the start of a line whose end is not yet read.
        let mut pending: Vec<u8> = Vec::new();
        loop {
            let block = match input.fill_buf() {
                Ok(block) => block,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // A directory opens and cannot be read; the original takes it for an empty file.
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => break,
                Err(error) => return Err(error.into()),
            };
            if block.is_empty() {
                break;
            }
            let size = block.len();
            let mut rest = block;
            if !pending.is_empty() {
                let room = LINE_BYTES - pending.len();
                let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |i| i + 1).min(room);
                let (head, tail) = rest.split_at(end);
                pending.extend_from_slice(head);
                rest = tail;
                if pending.len() == LINE_BYTES || pending.last() == Some(&b'\n') {
                    take(&pending)?;
                    pending.clear();
                }
            }
            while !rest.is_empty() {
                let newline = memchr::memchr(b'\n', rest);
                let end = newline.map_or(rest.len(), |i| i + 1).min(LINE_BYTES);
                if newline.is_none() && end < LINE_BYTES {
                    pending.extend_from_slice(rest);
                    break;
                }
                let (head, tail) = rest.split_at(end);
                take(head)?;
                rest = tail;
            }
            input.consume(size);
        }
        if !pending.is_empty() {
            take(&pending)?;
        }
        Self::rank(values, sums)
    }

    /// Finds order statistics. A full sort is needed only where values that compare equal print
    /// differently (zeros of both signs) or do not compare at all (not-a-number).
    fn rank(mut values: Vec<f64>, mut sums: RunningSums) -> Result<Self, ReadError> {
        if (values.len() as u64) < FEWEST_VALUES {
            return Err(ReadError::TooFew);
        }
        let (mut odd, mut zero) = (false, false);
        for value in &values {
            odd |= value.is_nan();
            zero |= *value == 0.0 && value.is_sign_negative();
        }
        let low = (values.len() - 1) / 2;
        let high = values.len() / 2;
        if odd {
            sums = RunningSums::of_any(&values);
            merge_sort(&mut values);
        } else if zero {
            values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        }
        let set = if odd || zero {
            let at = |i: usize| values.get(i).copied().unwrap_or(f64::NAN);
            let (min, max, middle) = (at(0), at(values.len() - 1), (at(low), at(high)));
            Self { values, sums, min, max, middle }
        } else {
            let mut min = f64::INFINITY;
            let mut max = f64::NEG_INFINITY;
            for value in &values {
                min = min.min(*value);
                max = max.max(*value);
            }
            let (below, upper, _) = values.select_nth_unstable_by(high, f64::total_cmp);
            let upper = *upper;
            let lower = if low == high {
                upper
            } else {
                below.iter().copied().fold(f64::NEG_INFINITY, f64::max)
            };
            Self { values, sums, min, max, middle: (lower, upper) }
        };
        Ok(set)
    }

    /// The values: sorted if any is not-a-number or a negative zero, else in no order.
    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    /// The table's row.
    pub fn figures(&self, arithmetic: Arithmetic) -> SetFigures {
        let n = self.values.len() as u64;
        let average = self.sums.average(n);
        let (median, variance) = match arithmetic {
            Arithmetic::Classic => (self.middle.1, self.sums.variance(n)),
            Arithmetic::Modern => (
                if n % 2 == 1 { self.middle.1 } else { (self.middle.0 + self.middle.1) / 2.0 },
                self.modern_variance(average, n),
            ),
        };
        SetFigures { n, min: self.min, max: self.max, median, average, variance }
    }

    fn modern_variance(&self, average: f64, n: u64) -> f64 {
        // The order of summation shows in the last digits, and the modern program sums sorted.
        let mut sorted = self.values.clone();
        if !sorted.iter().any(|v| v.is_nan()) {
            sorted.sort_unstable_by(f64::total_cmp);
        }
        two_pass_variance(sorted.into_iter(), average, n)
    }
}

/// The number of a line, `None` if it has no such field.
fn number_of(piece: &[u8], options: &Options) -> Result<Option<f64>, ()> {
    if options.column == 1 && options.delimiters == b" \t" {
        // A bare decimal and its newline, which nearly every line is.
        if let Some(value) = piece.strip_suffix(b"\n").and_then(plain_number) {
            return Ok(Some(value));
        }
    }
    // The original's functions stop at the first zero byte.
    let mut text = memchr::memchr(0, piece).map_or(piece, |end| &piece[..end]);
    while let [head @ .., last] = text
        && is_space(*last)
    {
        text = head;
    }
    let parts = |b: &u8| options.delimiters.contains(b);
    let mut column = 1;
    loop {
        text = &text[text.iter().take_while(|b| parts(b)).count()..];
        let end = text.iter().position(parts).unwrap_or(text.len());
        let (field, rest) = text.split_at(end);
        if field.is_empty() || field.first() == Some(&b'#') {
            return Ok(None);
        }
        if column == options.column {
            let (value, length) = parse_c_double(field);
            return if length == field.len() { Ok(Some(value)) } else { Err(()) };
        }
        column += 1;
        text = rest;
    }
}

/// The C library's merge sort, step for step: with a not-a-number in the set the order depends on
/// which values are compared, and the printed minimum and median with it.
fn merge_sort(values: &mut [f64]) {
    if values.len() < 2 {
        return;
    }
    let (left, right) = values.split_at_mut(values.len() / 2);
    merge_sort(left);
    merge_sort(right);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut l, mut r) = (left.iter().copied().peekable(), right.iter().copied().peekable());
    while let (Some(a), Some(b)) = (l.peek(), r.peek()) {
        // The comparison function says "equal" for anything not-a-number.
        merged.extend(if a > b { r.next() } else { l.next() });
    }
    merged.extend(l);
    merged.extend(r);
    values.copy_from_slice(&merged);
}
