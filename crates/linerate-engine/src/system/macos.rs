//! macOS: type-checked, never run.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use libc::c_int;
use nix::poll::{PollFd, PollTimeout, poll};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, clock_gettime};

pub use super::absent::*;

/// No control message is of this kind.
pub const SCM_STAMP: c_int = -1;
pub const MSG_WAITFORONE: c_int = 0;

/// As recvmmsg(2) of other systems has it.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy)]
pub struct mmsghdr {
    pub msg_hdr: libc::msghdr,
    pub msg_len: libc::c_uint,
}

/// Refused: their time stamps are in microseconds, of which nothing is known here.
pub fn describe_messages(_socket: &impl AsFd) -> io::Result<()> {
    none("a time stamp in nanoseconds")
}

/// Refused: there is no call for many messages.
pub fn has_batches() -> io::Result<()> {
    none("sendmmsg")
}

/// Sends the first of the messages.
///
/// # Safety
/// As of sendmsg(2): `headers` points to one, and what that points to lives.
pub unsafe fn sendmmsg(fd: c_int, headers: *mut mmsghdr, _count: usize, flags: c_int) -> isize {
    // SAFETY: as the caller says.
    let sent = unsafe { libc::sendmsg(fd, &raw const (*headers).msg_hdr, flags) };
    if sent < 0 { sent } else { 1 }
}

/// Receives the first of the messages.
///
/// # Safety
/// As of recvmsg(2): `headers` points to one, and what that points to lives.
pub unsafe fn recvmmsg(
    fd: c_int,
    headers: *mut mmsghdr,
    _count: usize,
    flags: c_int,
    _timeout: *mut libc::timespec,
) -> isize {
    // SAFETY: as the caller says.
    let received = unsafe { libc::recvmsg(fd, &raw mut (*headers).msg_hdr, flags) };
    let Ok(length) = libc::c_uint::try_from(received) else { return received };
    // SAFETY: as above.
    unsafe { (*headers).msg_len = length };
    1
}

/// poll(2), which knows whole milliseconds alone.
pub fn ppoll(
    fds: &mut [PollFd<'_>],
    timeout: Option<TimeSpec>,
    _signals: Option<nix::sys::signal::SigSet>,
) -> nix::Result<c_int> {
    let wait = timeout.and_then(|time| PollTimeout::try_from(time.num_milliseconds()).ok());
    poll(fds, wait.unwrap_or(PollTimeout::ZERO))
}

/// Refused.
pub fn set_congestion(_socket: &impl AsFd, _name: &str) -> io::Result<()> {
    none("TCP_CONGESTION")
}

/// Not known.
pub fn congestion(_socket: &impl AsFd) -> Option<String> {
    None
}

/// Sleeps until `CLOCK_MONOTONIC` reaches `at_ns`.
pub fn sleep_until(at_ns: u64) {
    let now =
        clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(i64::MAX, |time| time.num_nanoseconds());
    let now_ns = u64::try_from(now).unwrap_or(u64::MAX);
    std::thread::sleep(Duration::from_nanos(at_ns.saturating_sub(now_ns)));
}

/// Refused: a thread can be given no core.
///
/// # Errors
/// Always.
pub fn pin_to(_core: u32) -> io::Result<()> {
    none("a core for a thread")
}

/// Does nothing: there is no such order.
pub fn die_with_starter() -> io::Result<()> {
    Ok(())
}
