//! Bytes and handshakes of the protocols that linerate speaks. No sockets, no clock: bytes in,
//! values out, and back.
//!
//! Each dialect is one folder; [`native`] is linerate's own, the others are those of the tools; [`http`] is what pages,
//! metrics and probes need.
//!
//! ```
//! use std::num::NonZeroU8;
//!
//! use linerate_wire::framing::{Framing, Mark};
//!
//! let framing = Framing::Native { token: 7, stream: 0 };
//! let train = NonZeroU8::MIN;
//! let mark = Mark { number: 3, sent_ns: 5, warmup: false, position: 0, train };
//! let mut datagram = [0; 100];
//! framing.write(&mark, &mut datagram);
//! assert_eq!(framing.read(&datagram).expect("ours").number, 3);
//! datagram[20] ^= 1;
//! assert!(framing.read(&datagram).is_err(), "damage is found");
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod depth;
pub mod framing;
pub mod http;
pub mod iperf2;
pub mod iperf3;
pub mod native;
pub mod netperf;
pub mod nuttcp;
mod prefixed;
