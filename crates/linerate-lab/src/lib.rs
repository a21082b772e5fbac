//! Two throw-away machines with a kernel of their own, for what a network namespace cannot show:
//! reboots, power cuts, a wall clock that is set, `netem`, offloads of a card (tests only).
//!
//! Each [`Machine`] is a `qemu-system-x86_64` that translates (no KVM), with Debian's cloud kernel and
//! an initramfs of busybox, iproute2, ethtool and the programs under test. A tap device
//! each joins them to a bridge in a network namespace. `docs/lab.md` says what that can prove.
//!
//! Faults of the lab itself panic, as in any test support; what this host lacks is an error of
//! [`Lab::prepare`], so that a test can be skipped aloud.

#![forbid(unsafe_code)]

mod channel;
mod image;
mod machine;
mod network;
mod tool;

pub use channel::{Done, Unanswered};
pub use image::Image;
pub use machine::{Hardware, Machine};
pub use network::Lab;
