//! One test as a state machine without I/O: pacing, accounting and the judgement of what limited it.
//!
//! Nothing here reads a clock or opens a socket; time comes in as a value. The runner joins these
//! parts to sockets and threads, the tests to a made-up clock and a simulated link.
#![forbid(unsafe_code)]

pub mod observer;
