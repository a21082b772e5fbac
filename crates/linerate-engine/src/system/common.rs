//! What Linux and FreeBSD have alike.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use socket2::SockRef;

#[cfg(not(target_env = "musl"))]
pub use libc::sendmmsg;
pub use libc::{MSG_WAITFORONE, mmsghdr, recvmmsg};
pub use nix::poll::ppoll;

/// Whether one call can send or receive many messages. FreeBSD's C library makes a system call of each.
pub fn has_batches() -> io::Result<()> {
    Ok(())
}

/// Chooses the congestion control.
pub fn set_congestion(socket: &impl AsFd, name: &str) -> io::Result<()> {
    SockRef::from(socket).set_tcp_congestion(name.as_bytes())
}

/// Name of the congestion control in use.
pub fn congestion(socket: &impl AsFd) -> Option<String> {
    let name = SockRef::from(socket).tcp_congestion().ok()?;
    let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
    String::from_utf8(name).ok()
}

/// Sleeps until `monotonic_ns()` reaches `at_ns`; returns early on a signal.
pub fn sleep_until(at_ns: u64) {
    let until = Duration::from_nanos(at_ns).into();
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &until);
}
