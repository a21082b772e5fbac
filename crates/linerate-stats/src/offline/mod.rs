//! Statistics over the results of runs.
//!
//! Every file is one method. Each function states its unit, formula, source and limits. Values are
//! `f64` and must be finite: the callers that read files refuse anything else, with the line it
//! stands on.

pub mod autocorrelation;
pub mod bootstrap;
pub mod distribution;
pub mod drift;
pub mod dunnett;
pub mod effect;
pub mod extreme_rank;
pub mod fieller;
pub mod hodges_lehmann;
pub mod holm;
pub mod level;
pub mod mann_whitney;
pub mod ministat;
pub mod modes;
pub mod mser;
pub mod nested;
pub mod outliers;
pub mod pelt;
pub mod polish;
pub mod power;
pub mod summary;
pub mod tost;
pub mod welch;
