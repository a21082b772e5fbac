//! The one place with clocks, threads and control sockets: joins the session's pure parts to the
//! engines, at the client and at the server.

pub mod client;
mod data;
pub mod server;
