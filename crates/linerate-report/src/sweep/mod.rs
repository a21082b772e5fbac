//! A sweep for people: a row a point, a chart, the regimes in words.

mod chart;
pub mod rows;
mod table;
pub mod text;
