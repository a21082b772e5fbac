//! Who changes what of a network namespace now: one process at a time an interface, and one all that is of none,
//! wherever each keeps its journal.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use linerate_model::undo::Device;

use super::journal::{LOCK_PAUSE, LOCK_TRIES};

/// What this process has claimed: an abstract name of a socket for each. Such a name is a network namespace's own, needs no
/// directory that all can write, and ends with its process.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<String, UnixDatagram>);

impl Claims {
    /// Claims an interface, or what is of none.
    pub(super) fn take(&mut self, device: Option<&Device>) -> Result<(), String> {
        let what = device.map_or("this host", |device| device.name.as_str());
        let name = name(device);
        if self.0.contains_key(&name) {
            return Ok(());
        }
        let address = address(&name);
        for _ in 0..LOCK_TRIES {
            match address.as_ref().map(UnixDatagram::bind_addr) {
                Ok(Ok(socket)) => {
                    self.0.insert(name, socket);
                    return Ok(());
                }
                Ok(Err(why)) if why.kind() == io::ErrorKind::AddrInUse => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Ok(Err(why)) => return Err(unsure(what, &why)),
                Err(why) => return Err(unsure(what, why)),
            }
        }
        Err(format!("another linerate, with another --state-dir, changes settings of {what} now"))
    }

    /// All is as before but what is `open`.
    pub(super) fn keep(&mut self, open: &BTreeSet<Option<&Device>>) {
        self.0.retain(|held, _| open.iter().any(|device| name(*device) == *held));
    }
}

fn name(device: Option<&Device>) -> String {
    device.map_or("linerate-settings".to_owned(), |device| {
        format!("linerate-settings-{}", device.index)
    })
}

#[cfg(target_os = "linux")]
fn address(name: &str) -> io::Result<SocketAddr> {
    <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn address(_: &str) -> io::Result<SocketAddr> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "abstract names of sockets are of Linux alone"))
}

fn unsure(what: &str, why: &io::Error) -> String {
    format!("whether another linerate changes settings of {what} is not known: {why}")
}
