//! Bytes and handshakes of the protocols that linerate speaks. No sockets, no clock: bytes in,
//! values out, and back.
//!
//! Each dialect is one folder; [`native`] is linerate's own, the others are those of the tools.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod depth;
pub mod framing;
pub mod iperf2;
pub mod iperf3;
pub mod native;
pub mod netperf;
pub mod nuttcp;
mod prefixed;
