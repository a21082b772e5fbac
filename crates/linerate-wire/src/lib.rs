//! Bytes and handshakes of the protocols that linerate speaks. No sockets, no clock: bytes in,
//! values out, and back.
//!
//! Each dialect is one folder; [`native`] is linerate's own.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

pub mod native;
