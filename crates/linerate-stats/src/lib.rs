//! Arithmetic on measurements: numbers in, numbers out.
//!
//! [`online`] keeps statistics while datagrams arrive: each is O(1) a datagram and allocates nothing
//! once made; times come in as nanoseconds of a clock that the caller names. [`offline`] works on the results of whole runs: it describes a set of runs, compares sets and
//! plans how many more runs a question needs. [`strtod`] reads the millions of numbers of a file. Nothing here reads a clock, opens a file, prints or
//! keeps state between calls, and nothing here panics on data: what cannot be computed (the spread
//! of one value, a ratio to a baseline of zero) is `None`, never zero and never `NaN`.
//!
//! ```
//! use linerate_stats::offline::{summary::Moments, welch};
//! let base = Moments::of(&[9.1, 9.3, 9.2, 9.4]).unwrap();
//! let new = Moments::of(&[8.1, 8.0, 8.3, 8.2]).unwrap();
//! let difference = welch::welch(&base, &new).unwrap();
//! assert!(difference.p < 0.001);
//! ```
#![forbid(unsafe_code)]

pub mod offline;
pub mod online;
pub mod strtod;
