//! Sockets and the system calls that carry data. All of linerate's `unsafe` is in this crate, each
//! block with its reason.
//!
//! Knows nothing of tests, headers or accounting: it is handed bytes to send and hands on what the
//! kernel delivered. Raw `libc` calls stand only where `nix` and `socket2` have none that neither
//! allocates nor rebuilds its arrays on every call (`sendmmsg`, `recvmmsg`), or none at all.
//!
//! ```
//! use std::net::UdpSocket;
//! use std::time::Duration;
//!
//! use linerate_engine::datagram::{Config, Context, Duty, Ladder, SendBatch};
//! use linerate_model::plan::EngineChoice;
//!
//! let (near, far) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
//! near.connect(far.local_addr()?)?;
//! let config = Config {
//!     duty: Duty::Send,
//!     datagram: 100,
//!     send_buffer: None,
//!     receive_buffer: None,
//!     most_forced: None,
//!     dscp: None,
//!     checksum: true,
//!     stamps: false,
//!     contents: true,
//!     receive_wait: Duration::ZERO,
//!     send_wait: Duration::from_secs(1),
//! };
//! // The engine asked for, or the next that this kernel can.
//! let mut engines = Ladder::new(EngineChoice::Mmsg, config, Context::of_socket(near.into(), None)?);
//! let sent = engines.open()?.send(&SendBatch { bytes: &[0; 200], segment: 100, train: 1 })?;
//! assert_eq!(sent.datagrams, 2);
//! assert_eq!(far.recv(&mut [0; 200])?, 100);
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod clock;
pub mod datagram;
pub mod process;
pub mod stream;
pub mod sys;
mod system;
