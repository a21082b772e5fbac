//! iperf3's dialect. `docs/iperf3.md` has the sequence.

mod account;
pub mod client;
mod output;
mod results;
pub mod server;
