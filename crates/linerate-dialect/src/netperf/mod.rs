//! netperf's dialect.

pub mod client;
pub mod server;
