//! Client and server through this crate's public API, in one process over loopback: each test has a server of
//! its own. What they wait for are states; only a hang reaches a bound.

mod agent;
mod bad_servers;
mod cheats;
mod gone;
mod keys;
mod kinds;
mod liars;
mod log;
mod policy;
mod proven;
mod stops;
mod support;
mod wall_clock;
mod watched;
