//! What several crates' tests share. Nothing here is part of the program.

pub mod link;
#![forbid(unsafe_code)]

pub mod records;
