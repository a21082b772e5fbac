//! What a host has, as an agent of a fleet reports it: its clock, and its interfaces.
//!
//! Only reads, as all facts. Interfaces are those of the calling thread's network namespace.

use linerate_model::fleet_agents::{Inventory, NicInventory};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use crate::checkup::{device, system};
use crate::facts::{driver, facts_at, speed_mbps};
use crate::link::without_label;
use crate::netlink::{Netlink, link};
use crate::roots::Roots;

/// A host with containers has hundreds of interfaces, and most of them are not what a fleet measures.
const MOST_NICS: usize = 8;

/// What this host has. Never fails: what it does not say is absent.
pub fn inventory() -> Inventory {
    let roots = Roots::host();
    let mut nics: Vec<NicInventory> = up().iter().map(|name| nic(&roots, name)).collect();
    // Names are in order already.
    nics.sort_by_key(|nic| nic.driver.is_none());
    let more = nics.len().saturating_sub(MOST_NICS);
    nics.truncate(MOST_NICS);
    let (host, system) = (facts_at(&roots), system::details(&roots));
    Inventory {
        kernel: host.kernel,
        cores: host.cores,
        clock_source: system.clock_source.known().cloned(),
        clock_keepers: system.clock_keepers.known().cloned(),
        nics,
        more_nics: u32::try_from(more).unwrap_or(u32::MAX),
    }
}

/// Names of the interfaces that are up, without loopback, in order and each once.
fn up() -> Vec<String> {
    let up = |flags: InterfaceFlags| {
        flags.contains(InterfaceFlags::IFF_UP) && !flags.contains(InterfaceFlags::IFF_LOOPBACK)
    };
    let all = getifaddrs().into_iter().flatten().filter(|interface| up(interface.flags));
    let mut names: Vec<String> = all.map(|interface| without_label(&interface)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn nic(roots: &Roots, name: &str) -> NicInventory {
    let mtu = Netlink::route().and_then(|mut route| link::by_name(&mut route, name).ok());
    let found =
        NicInventory { name: name.to_owned(), mtu: mtu.map(|link| link.mtu), ..Default::default() };
    if !roots.shows(name) {
        return found;
    }
    NicInventory {
        driver: driver(roots, name),
        speed_mbps: speed_mbps(roots, name),
        numa_node: device::numa_node(roots, name),
        ..found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_a_kernel_and_what_is_up_is_found() {
        let found = inventory();
        assert!(found.kernel.is_some() && found.cores.is_some_and(|cores| cores > 0), "{found:?}");
        assert!(found.nics.len() <= MOST_NICS);
        let mut names: Vec<&str> = found.nics.iter().map(|nic| nic.name.as_str()).collect();
        assert!(!names.contains(&"lo"), "{found:?}");
        names.dedup();
        assert_eq!(names.len(), found.nics.len(), "each once");
        assert!(nic(&Roots::host(), "lo").mtu.is_some_and(|mtu| mtu > 0));
        assert_eq!(nic(&Roots::at("/nonexistent"), "lo").speed_mbps, None);
    }
}
