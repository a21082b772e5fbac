//! The one place with clocks, threads and control sockets: joins the session's pure parts to the
//! engines, at the client and at the server.

#![forbid(unsafe_code)]

mod admission;
pub mod client;
mod control;
mod data;
mod discard;
mod errors;
mod place;
pub mod server;
mod serving;
mod signals;
mod ticks;
