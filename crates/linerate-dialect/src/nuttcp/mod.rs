//! nuttcp's dialect. Who sends datagrams says before them that they come, and after them that none do, in
//! datagrams of four bytes.

pub mod client;
pub mod server;
mod words;
