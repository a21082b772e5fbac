//! Turns records into what people and programs read.
//!
//! A view holds everything computed and worded; a format only lays a view out. Nothing here
//! measures, reads a clock or opens a file: a format writes to whatever it is given.
//!
//! ```
//! use linerate_report::{number, clean::clean};
//! assert_eq!(number::integer(20_737), "20 737");
//! assert_eq!(clean("host\u{1b}[2J"), "host[2J");
//! ```
#![forbid(unsafe_code)]

pub mod compare;
pub mod doctor;
pub mod draw;
pub mod error;
mod field;
pub mod fleet;
pub mod iperf2;
pub mod iperf3;
pub mod live;
pub mod ministat;
pub mod netperf;
pub mod number;
pub mod nuttcp;
mod packed;
pub mod page;
pub mod profile;
pub mod report;
pub mod rows;
pub mod run;
pub mod schema;
pub mod search;
pub mod served;
pub mod spark;
pub mod style;
pub mod sweep;
pub mod tune;

pub use linerate_model::clean;
