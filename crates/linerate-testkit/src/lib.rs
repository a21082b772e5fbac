//! What several crates' tests share. Nothing here is part of the program.

pub mod fuzz;
pub mod link;
pub mod records;
