//! The one place with clocks, threads and control sockets: joins the session's pure parts to the
//! engines, at the client and at the server.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod address;
mod admission;
pub mod agent;
pub mod client;
pub mod clock;
mod control;
pub mod controls;
mod demand;
mod doors;
mod errors;
mod event;
mod event_log;
mod host;
mod in_band;
pub mod keys;
mod line;
mod loan;
mod network;
mod options;
mod place;
mod process_cpu;
mod proven;
pub mod random;
mod run;
pub mod sandbox;
mod serve_iperf3;
mod served;
pub mod server;
mod service;
mod serving;
mod shares;
pub mod signals;

use linerate_data as data;
use linerate_data::standstill;
pub use network::{Cidr, Network};
pub use run::run;
pub use serve_iperf3::logins;
