//! Where the kernel's files are found.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use linerate_model::setting::is_interface_name;
use nix::net::if_::if_nametoindex;

/// The directory that holds `proc`, `sys` and `etc`: `/`, or in tests a tree of captured files.
#[derive(Debug, Clone)]
pub struct Roots {
    root: PathBuf,
}

impl Roots {
    /// The running host.
    pub fn host() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// A tree of captured files with the layout of the root directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether this is the running host, whose kernel can be asked by netlink as well.
    pub(crate) fn is_host(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The path of a file, given without the leading `/`.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// Whether the files in /sys are those of this interface of the calling thread's network
    /// namespace: /sys shows that of whoever mounted it, where an interface of the same name is
    /// another one.
    pub(crate) fn shows(&self, nic: &str) -> bool {
        let index = if_nametoindex(nic).ok().filter(|_| is_interface_name(nic));
        index.is_some() && self.number(&format!("sys/class/net/{nic}/ifindex")) == index
    }

    /// The text of a file, given without the leading `/`. Bytes that are not UTF-8 are replaced.
    pub(crate) fn read(&self, below: &str) -> Option<String> {
        self.try_read(below).ok()
    }

    /// As [`Roots::read`], with what stood against it.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn try_read(&self, below: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(self.path(below))?.take(LARGEST_FILE).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The one line of a file such as those of /proc/sys, trimmed; `None` if there is nothing.
    pub(crate) fn line(&self, below: &str) -> Option<String> {
        let text = self.read(below)?;
        let line = text.lines().next()?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// The number in a file of one line.
    pub(crate) fn number<T: std::str::FromStr>(&self, below: &str) -> Option<T> {
        self.line(below)?.parse().ok()
    }
}

/// Most bytes read of one file. /proc/interrupts of a host with 1,000 cores and 2,000 interrupts
/// has about 24 MB; whatever is larger is not one of the files that are wanted.
pub(crate) const LARGEST_FILE: u64 = 64 << 20;
