//! What a host is, reported once a run.

use std::collections::HashMap;

use linerate_model::host::{HostFacts, NicFacts, Offload};
use linerate_model::setting::is_interface_name;
use nix::net::if_::if_indextoname;

use crate::irq::NicIrqs;
use crate::netlink::{Netlink, ethtool, route};
use crate::roots::Roots;
use crate::text::{cpuinfo, cpulist, os_release};
pub use crate::towards::Towards;

/// Facts about this host, and about the interface that packets to `nic_towards` leave by. Without
/// an address, or with a link-local one that does not say its link, `nic` is absent.
///
/// Never fails: what this host does not say is absent. Of the calling thread's network namespace;
/// sends no packet.
pub fn facts(nic_towards: Option<Towards>) -> HostFacts {
    let roots = Roots::host();
    HostFacts { nic: nic_towards.and_then(|to| nic_facts(&roots, to)), ..facts_at(&roots) }
}

/// All but the interface, from the files of a host or from captured ones.
///
/// Sources: /proc/sys/kernel/{hostname,osrelease,random/boot_id}, /etc/os-release,
/// /proc/cpuinfo, /sys/devices/system/cpu/online and /proc/sys/net/core/{rmem,wmem}_max. The last
/// two are absent in a network namespace whose kernel shows them in the first one only.
pub fn facts_at(roots: &Roots) -> HostFacts {
    let os_release = roots.read("etc/os-release").or_else(|| roots.read("usr/lib/os-release"));
    let fixed = HostFacts {
        os: os_release.and_then(|text| os_release::parse_pretty_name(&text)),
        kernel: roots.line("proc/sys/kernel/osrelease"),
        cpu_model: roots.read("proc/cpuinfo").and_then(|text| cpuinfo::parse_model(&text)),
        boot_id: roots.line("proc/sys/kernel/random/boot_id"),
        linerate: env!("CARGO_PKG_VERSION").to_owned(),
        ..HostFacts::default()
    };
    as_now(roots, fixed)
}

/// With what may change while a process runs.
fn as_now(roots: &Roots, fixed: HostFacts) -> HostFacts {
    let online = roots.line("sys/devices/system/cpu/online").map(|list| cpulist::parse(&list));
    HostFacts {
        hostname: roots.line("proc/sys/kernel/hostname").unwrap_or_default(),
        cores: online.and_then(|list| u32::try_from(list.len()).ok()).filter(|cores| *cores > 0),
        rmem_max_bytes: roots.number("proc/sys/net/core/rmem_max"),
        wmem_max_bytes: roots.number("proc/sys/net/core/wmem_max"),
        ..fixed
    }
}

/// Facts for many who ask: each interface is read once however many addresses lie behind it, and what a process
/// cannot see change but once. Of the network namespace of the thread that uses it.
#[derive(Debug)]
pub struct Known {
    roots: Roots,
    host: HostFacts,
    nics: HashMap<u32, Option<NicFacts>>,
}

impl Known {
    /// Of now, read in the files of `roots`.
    pub fn at(roots: Roots) -> Self {
        let host = facts_at(&roots);
        Self { roots, host, nics: HashMap::new() }
    }

    /// Reads anew what may have changed, and each interface when it is next asked for.
    pub fn renew(&mut self) {
        self.host = as_now(&self.roots, std::mem::take(&mut self.host));
        self.nics.clear();
    }

    /// All but the interface; reads nothing.
    pub fn host(&self) -> &HostFacts {
        &self.host
    }

    /// As [`facts`] says.
    pub fn towards(&mut self, to: Towards) -> HostFacts {
        let index = Netlink::route().and_then(|mut route| route::interface_towards(&mut route, to));
        let nic = index.and_then(|index| {
            let read = || nic_at(&self.roots, index);
            self.nics.entry(index).or_insert_with(read).clone()
        });
        HostFacts { nic, ..self.host.clone() }
    }
}

fn nic_facts(roots: &Roots, towards: Towards) -> Option<NicFacts> {
    nic_at(roots, route::interface_towards(&mut Netlink::route()?, towards)?)
}

fn nic_at(roots: &Roots, index: u32) -> Option<NicFacts> {
    let name = if_indextoname(index).ok()?.into_string().ok()?;
    let offloads = ethtool::features(index);
    if roots.shows(&name) {
        Some(nic_facts_at(roots, &name, offloads))
    } else {
        Some(NicFacts { name, offloads, ..NicFacts::default() })
    }
}

fn nic_facts_at(roots: &Roots, name: &str, offloads: Vec<Offload>) -> NicFacts {
    let mut facts = NicFacts { name: name.to_owned(), offloads, ..NicFacts::default() };
    if !is_interface_name(name) {
        return facts;
    }
    facts.driver = driver(roots, name);
    facts.speed_mbps = speed_mbps(roots, name);
    facts.mtu = roots.number(&format!("sys/class/net/{name}/mtu"));
    facts.irq_cores = NicIrqs::of(roots, name).cores_now(roots);
    facts
}

/// The kernel driver of an interface's device.
pub(crate) fn driver(roots: &Roots, name: &str) -> Option<String> {
    let path = roots.path(&format!("sys/class/net/{name}/device/driver")).read_link().ok()?;
    Some(path.file_name()?.to_str()?.to_owned())
}

/// The speed of its link in Mbit/s.
pub(crate) fn speed_mbps(roots: &Roots, name: &str) -> Option<u32> {
    // An unknown speed is -1, or 2^32 - 1 with some drivers; 0 where the link is down.
    let speed = roots.number::<i64>(&format!("sys/class/net/{name}/speed"))?;
    u32::try_from(speed).ok().filter(|speed| (1..u32::MAX).contains(speed))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn captured() -> Roots {
        Roots::at(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/captured/before"))
    }

    #[test]
    fn known_answer_of_a_captured_host() {
        let expected = HostFacts {
            hostname: "sender".into(),
            os: Some("Debian GNU/Linux 13 (trixie)".into()),
            kernel: Some("6.12.48+deb13-amd64".into()),
            cpu_model: Some("AMD EPYC 7R13 Processor".into()),
            cores: Some(3),
            boot_id: Some("0f4e7a52-9c1d-4b6e-8a33-5d2c1e0b7f96".into()),
            nic: None,
            rmem_max_bytes: Some(212_992),
            wmem_max_bytes: None,
            linerate: env!("CARGO_PKG_VERSION").into(),
        };
        assert_eq!(facts_at(&captured()), expected);
    }

    #[test]
    fn known_answer_of_a_captured_interface() {
        let expected = NicFacts {
            name: "eth0".into(),
            driver: Some("virtio_net".into()),
            speed_mbps: None,
            mtu: Some(1400),
            offloads: Vec::new(),
            irq_cores: vec![0, 1],
        };
        assert_eq!(nic_facts_at(&captured(), "eth0", Vec::new()), expected);
    }

    #[test]
    fn a_host_without_files_is_not_an_error() {
        let nowhere = Roots::at("/nonexistent");
        let linerate = env!("CARGO_PKG_VERSION").to_owned();
        assert_eq!(facts_at(&nowhere), HostFacts { linerate, ..HostFacts::default() });
        assert_eq!(nic_facts_at(&nowhere, "eth0", Vec::new()).mtu, None);
    }

    #[test]
    fn many_addresses_share_what_is_read_of_their_interface() {
        let to = |last| Towards::from(IpAddr::from([127, 0, 0, last]));
        let mut known = Known::at(Roots::host());
        let first = known.towards(to(1));
        assert_eq!(first, facts(Some(to(1))));
        // As no file has it.
        let kept = NicFacts { name: "read once".into(), ..NicFacts::default() };
        known.nics.values_mut().for_each(|nic| *nic = Some(kept.clone()));
        known.host.cpu_model = Some("read once".into());
        let second = known.towards(to(2));
        assert_eq!(second.nic, Some(kept));
        known.renew();
        let third = known.towards(to(3));
        assert_eq!((third.nic, &third.cpu_model), (first.nic, &second.cpu_model));
        assert_eq!(known.host().rmem_max_bytes, first.rmem_max_bytes);
    }

    #[test]
    fn this_host_is_reached_by_lo() {
        let facts = facts(Some(IpAddr::from([127, 0, 0, 1]).into()));
        let nic = facts.nic.expect("every host has a loopback interface");
        assert_eq!((nic.name.as_str(), nic.driver), ("lo", None));
        assert!(facts.cores.is_some_and(|cores| cores > 0));
        assert!(facts.kernel.is_some());
    }
}
