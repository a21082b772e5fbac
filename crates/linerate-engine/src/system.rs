//! System calls of this crate in which systems differ, a file for each.
//!
//! What a system cannot do it refuses, with the reason; what it does not say is absent. Of FreeBSD and macOS this is type-checked
//! and was never run.

#[cfg(not(target_os = "linux"))]
mod absent;
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
mod common;
#[cfg(target_os = "freebsd")]
mod freebsd;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
mod macos;

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use libc::{c_int, c_void, socklen_t};

#[cfg(target_os = "freebsd")]
pub use freebsd::*;
#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
pub use macos::*;

pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

pub(crate) fn set_int(fd: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    set(fd, level, name, value)
}

pub(crate) fn set<T: Integers>(
    fd: impl AsFd,
    level: c_int,
    name: c_int,
    value: T,
) -> io::Result<()> {
    let value: *const T = &raw const value;
    let length = size_of::<T>() as socklen_t;
    // SAFETY: the descriptor is open for the borrow's life; `value` points to one T that lives
    // across the call and `length` is its size. The kernel only reads it.
    check(unsafe {
        libc::setsockopt(fd.as_fd().as_raw_fd(), level, name, value.cast::<c_void>(), length)
    })
    .map(drop)
}

/// Values of socket options that are integers alone, so that any bytes are one.
///
/// # Safety
/// Neither padding nor anything else in it may matter.
pub(crate) unsafe trait Integers: Copy {}

// SAFETY: one integer.
unsafe impl Integers for c_int {}

/// The value of an option, and how many bytes of it the kernel wrote; the rest is zero.
pub(crate) fn get<T: Integers>(fd: impl AsFd, level: c_int, name: c_int) -> io::Result<(T, usize)> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as socklen_t;
    // SAFETY: the descriptor is open for the borrow's life; the kernel writes at most `length`
    // bytes to `value`, which is that large, and how many to `length`.
    check(unsafe {
        let to = value.as_mut_ptr().cast::<c_void>();
        libc::getsockopt(fd.as_fd().as_raw_fd(), level, name, to, &raw mut length)
    })?;
    // SAFETY: integers, zero where nothing was written.
    Ok((unsafe { value.assume_init() }, length as usize))
}

pub(crate) fn get_int(fd: impl AsFd, level: c_int, name: c_int) -> io::Result<c_int> {
    get(fd, level, name).map(|(value, _)| value)
}

/// What the kernel knows of the other end of a TCP connection, nothing read from it.
#[derive(Debug, Clone, Copy)]
pub struct TcpPeer {
    /// Neither end has closed it, and it has not failed (`tcpi_state`).
    pub is_open: bool,
    /// How long no data came (`tcpi_last_data_recv`, in milliseconds).
    pub no_data: Duration,
    /// How long nothing was acknowledged (`tcpi_last_ack_recv`, in milliseconds).
    pub no_ack: Duration,
}

impl TcpPeer {
    /// How long its kernel has said nothing: neither data nor an acknowledgement.
    pub fn silence(&self) -> Duration {
        self.no_data.min(self.no_ack)
    }
}
