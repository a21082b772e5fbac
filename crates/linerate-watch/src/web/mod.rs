//! What `--web` shows in a browser: requests and answers as bytes, the events of a test or a server as a stream of
//! them, and the page that draws these. Who accepts connections is not here.
//!
//! HTTP is as much as that, metrics and probes need: a request's line is read, its fields are not, and each connection has
//! one answer.

pub mod events;
pub mod fleet;
pub mod http;
pub mod page;
