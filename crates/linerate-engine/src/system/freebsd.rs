//! FreeBSD: type-checked, never run.

use std::io;
use std::mem::size_of;
use std::os::fd::AsFd;

use libc::c_int;

pub use super::absent::*;
pub use super::common::*;
use super::{check, set_int};

/// Of control messages of a socket: when a message came, a `timespec` of the wall clock.
pub const SCM_STAMP: c_int = libc::SCM_REALTIME;

/// Time stamps of the wall clock, in nanoseconds, with every message (`SO_TS_CLOCK`, setsockopt(2)).
pub fn describe_messages(socket: &impl AsFd) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_TS_CLOCK, libc::SO_TS_REALTIME)?;
    set_int(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMP, 1)
}

/// Binds the calling thread to one core (cpuset_setaffinity(2)).
///
/// # Errors
/// `EINVAL` or `EDEADLK` when there is no such core or the process may not use it.
pub fn pin_to(core: u32) -> io::Result<()> {
    if core as usize >= 8 * size_of::<libc::cpuset_t>() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: `cpuset_t` is integers, of which zero is no core; `core` is within it; the call reads it and lives no
    // longer. Thread -1 is the calling one.
    check(unsafe {
        let mut set: libc::cpuset_t = std::mem::zeroed();
        libc::CPU_SET(core as usize, &mut set);
        let (level, which) = (libc::CPU_LEVEL_WHICH, libc::CPU_WHICH_TID);
        libc::cpuset_setaffinity(level, which, -1, size_of::<libc::cpuset_t>(), &raw const set)
    })
    .map(drop)
}

/// Has the kernel kill the calling process when the one that started it ends. Allocates nothing.
pub fn die_with_starter() -> io::Result<()> {
    let mut signal: c_int = libc::SIGKILL;
    // SAFETY: the call reads one c_int, which lives across it. Process 0 is the calling one.
    check(unsafe {
        let data = (&raw mut signal).cast::<libc::c_void>();
        libc::procctl(libc::P_PID, 0, libc::PROC_PDEATHSIG_CTL, data)
    })
    .map(drop)
}
