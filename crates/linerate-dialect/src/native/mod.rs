//! linerate's own dialect.

mod results;
pub mod server;
