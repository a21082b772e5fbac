//! Turns results into what people and programs read.
//!
//! A report is made in two steps: a view, in which everything is computed and worded, and formats,
//! which only lay a finished view out. This crate opens no file and asks no clock; it takes bytes
//! or records and gives back text.
#![forbid(unsafe_code)]

pub mod compare;
pub mod ministat;
