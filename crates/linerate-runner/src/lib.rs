//! The one place with clocks, threads and control sockets: joins the session's pure parts to the
//! engines, at the client and at the server.
//!
//! ```
//! use linerate_model::plan::{End, TestPlan, Traffic, UdpPlan};
//! use linerate_model::record::Status;
//! use linerate_model::units::DatagramSize;
//! use linerate_runner::client::{Request, Target};
//! use linerate_runner::signals::Stop;
//!
//! // Twenty datagrams over loopback, with a server of this process.
//! let udp = UdpPlan::new(DatagramSize::new(1_000).expect("a size"));
//! let plan = TestPlan { end: End::Datagrams(20), ..TestPlan::new(Traffic::Udp(udp)) };
//! let record = linerate_runner::run(&Request::new(Target::Local, plan), &mut (), &Stop::default());
//! assert_eq!(record.status, Status::Complete, "{:?}", record.error);
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod address;
mod admission;
// Much of it cannot be reached without a host to control, which is what that is for.
#[cfg_attr(not(feature = "control"), allow(dead_code, unreachable_code, unused_variables))]
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
