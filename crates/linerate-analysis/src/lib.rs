//! From records to figures, sets of runs and comparisons; no words for people.
//!
//! [`metric::METRICS`] is the one list of figures that a run has. [`input`] makes [`set::Set`]s of the
//! bytes of files, [`results`] makes everything of them that can be reported, and
//! [`compare::compare`] shows which settings differ, [`fleet::judge`] which host or link is bad. Nothing here opens a file,
//! reads a clock or lays anything out.
#![forbid(unsafe_code)]

pub mod compare;
pub mod fleet;
pub mod input;
pub mod metric;
pub mod profile;
pub mod results;
pub mod runs;
pub mod set;
