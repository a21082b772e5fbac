//! linerate's own dialect.

pub mod client;
mod live;
mod results;
pub mod server;
