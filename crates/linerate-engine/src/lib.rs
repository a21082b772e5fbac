//! Sockets and the system calls that carry data. All of linerate's `unsafe` is in this crate, each
//! block with its reason.
//!
//! Knows nothing of tests, headers or accounting: it is handed bytes to send and hands on what the
//! kernel delivered. Raw `libc` calls stand only where `nix` and `socket2` have none that neither
//! allocates nor rebuilds its arrays on every call (`sendmmsg`, `recvmmsg`), or none at all.

pub mod clock;
pub mod datagram;
pub mod process;
pub mod stream;
pub mod sys;
