//! A sweep for people: a row a point, a chart, the regimes in words.

mod chart;
mod table;
pub mod text;
