//! iperf 2's dialect. `docs/iperf2.md` has the sequence. There is no control connection: neither end has a byte
//! to say on one, and what comes of one is of no matter. Data is all that each end hears of the other.

pub mod client;
pub mod server;
