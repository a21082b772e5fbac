//! What several crates' tests share. Nothing here is part of the program.

#![forbid(unsafe_code)]

pub mod records;
