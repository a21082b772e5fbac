//! Of systems without netlink, for which `netlink-sys` has no sockets: there are none.

use std::convert::Infallible;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Whom to ask, were it there.
pub(super) mod protocols {
    pub const NETLINK_ROUTE: isize = 0;
    pub const NETLINK_NETFILTER: isize = 12;
    pub const NETLINK_GENERIC: isize = 16;
}

pub(super) struct Socket(Infallible);

impl Socket {
    pub fn new(_: isize) -> Result<Self> {
        Err(Error::from(ErrorKind::Unsupported))
    }
    pub fn set_ext_ack(&self, _: bool) -> Result<()> {
        match self.0 {}
    }
    pub fn set_cap_ack(&self, _: bool) -> Result<()> {
        match self.0 {}
    }
    pub fn bind_auto(&mut self) -> Result<()> {
        match self.0 {}
    }
    pub fn add_membership(&mut self, _: u32) -> Result<()> {
        match self.0 {}
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        match self.0 {}
    }
}
