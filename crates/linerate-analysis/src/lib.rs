//! From records to figures, sets of runs and comparisons; no words for people.
//!
//! [`metric::METRICS`] is the one list of figures that a run has. [`input`] makes [`set::Set`]s of the
//! bytes of files, [`results`] makes everything of them that can be reported, and
//! [`compare::compare`] shows which settings differ, [`fleet::judge`] which host or link is bad. Nothing here opens a file,
//! reads a clock or lays anything out.
//!
//! ```
//! use linerate_analysis::compare::{Options, Verdict, compare};
//! use linerate_analysis::input::{ReadOptions, read};
//!
//! // A value a line, of five runs each.
//! let old = read("old.txt", b"940\n938\n941\n939\n940\n", &ReadOptions::default()).unwrap();
//! let new = read("new.txt", b"951\n950\n952\n949\n951\n", &ReadOptions::default()).unwrap();
//! let found = compare(&[old, new].concat(), &Options::default()).unwrap();
//! assert_eq!(found.comparisons[0].verdict, Some(Verdict::Different));
//! ```
#![forbid(unsafe_code)]

pub mod compare;
pub mod fleet;
pub mod input;
pub mod metric;
pub mod profile;
pub mod results;
pub mod runs;
pub mod set;
