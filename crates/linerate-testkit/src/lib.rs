//! What several crates' tests share: made-up records and plans, a simulated link under a made-up clock,
//! clients made by hand.
//! Nothing here is part of the program.
#![forbid(unsafe_code)]

pub mod fleet;
pub mod fuzz;
pub mod identities;
pub mod link;
pub mod nats;
pub mod peer;
pub mod plans;
pub mod postgres;
pub mod records;
pub mod runnable;
pub mod toy;
pub mod whole;
