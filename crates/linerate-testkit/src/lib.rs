//! What several crates' tests share: made-up records, and a simulated link under a made-up clock.
//! Nothing here is part of the program.
#![forbid(unsafe_code)]

pub mod fuzz;
pub mod link;
pub mod records;
pub mod toy;
pub mod whole;
