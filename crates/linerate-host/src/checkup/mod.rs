//! A close look at this host for one path, for the doctor: facts beside those of a record.
//!
//! Only reads: files of /proc and /sys, and questions by netlink that change nothing. What cannot be read is
//! unknown, with the reason.

mod cpu;
pub(crate) mod device;
mod firewall;
pub(crate) mod system;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use linerate_model::doctor::{Fact, HostDetails, RouteDetails, Watched};
use linerate_model::host::HostFacts;
use linerate_model::sample::HostSample;

use crate::facts::{Towards, facts};
use crate::netlink::{Netlink, route};
use crate::roots::Roots;
use crate::sampler::{Clocks, Reading, Sampler};
use crate::settings::files;

/// Counters are watched for so long at the least: what grows on a host at rest shows within it.
pub const WATCHED: Duration = Duration::from_millis(500);

/// A look under way: the counters are watched from its beginning to its end.
#[derive(Debug)]
pub struct Look {
    towards: Option<Towards>,
    sampler: Sampler,
    before: Reading,
}

impl Look {
    /// Begins to watch. Without an address the interface is that of the default route.
    pub fn begin(towards: Option<SocketAddr>, clocks: Clocks) -> Self {
        let towards = towards.map(Towards::from);
        let nic = of_path(towards).nic;
        let mut sampler = Sampler::at(Roots::host(), nic.as_ref().map(|nic| nic.name.as_str()));
        let before = sampler.read(clocks);
        Self { towards, sampler, before }
    }

    /// Looks at all the rest, and at what the counters gained.
    pub fn end(mut self, clocks: Clocks) -> HostDetails {
        let sample = self.sampler.read(clocks).since(&self.before);
        let roots = Roots::host();
        let host = of_path(self.towards);
        let nic = host.nic.as_ref().map(|nic| nic.name.as_str());
        HostDetails {
            route: self.towards.ok_or_else(|| NOBODY.to_owned()).and_then(way).into(),
            device: device::details(&roots, nic),
            cpu: cpu::details(&roots),
            sysctls: sysctls(&roots),
            system: system::details(&roots),
            firewall: firewall::details(&roots),
            watched: Fact::Known(watched(&sample)),
            host,
        }
    }
}

/// Addresses outside of every network (RFC 5737, RFC 3849): the default route leads to them. No packet is sent.
const OUTSIDE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// This host, with the interface of the path; without an address that of the default route, of IPv4's first.
fn of_path(towards: Option<Towards>) -> HostFacts {
    let [v4, v6] = OUTSIDE.map(Towards::from);
    let host = facts(Some(towards.unwrap_or(v4)));
    if towards.is_none() && host.nic.is_none() { facts(Some(v6)) } else { host }
}

const NOBODY: &str = "no host was named";

fn way(towards: Towards) -> Result<RouteDetails, String> {
    let to = towards.address();
    if towards.is_of_unknown_link() {
        return Err(format!(
            "{to} is an address of each link, and does not say of which: {to}%DEV does"
        ));
    }
    let mut netlink = Netlink::route().ok_or("this kernel has no netlink")?;
    let way = route::way_towards(&mut netlink, towards)
        .map_err(|refusal| format!("the kernel tells no route to {to}: {refusal}"))?
        .ok_or_else(|| format!("the kernel tells no route to {to}"))?;
    Ok(RouteDetails {
        to: Some(to),
        gateway: way.gateway,
        local: way.local,
        mtu_bytes: way.mtu_bytes,
        full_packets: None,
    })
}

/// What is read of the kernel's parameters; `docs/doctor.md` says what for.
const SYSCTLS: &[&str] = &[
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.rmem_default",
    "net.core.wmem_default",
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.ipv4.ip_forward",
    "net.ipv6.conf.all.forwarding",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_mem",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
];

fn sysctls(roots: &Roots) -> BTreeMap<String, Fact<String>> {
    let value = |name: &&str| {
        let value = files::words(roots, &files::sysctl(name)).and_then(|value| {
            value.ok_or_else(|| format!("this kernel, or this network namespace, has no {name}"))
        });
        ((*name).to_owned(), value.into())
    };
    SYSCTLS.iter().map(value).collect()
}

fn watched(sample: &HostSample) -> Watched {
    let counters = &sample.counters;
    Watched {
        for_ms: sample.span_ns / 1_000_000,
        steal_percent: sample
            .cores
            .iter()
            .map(|core| f64::from(core.steal) / 100.0)
            .reduce(f64::max),
        softnet_dropped: counters.softnet_dropped,
        softnet_squeezed: counters.softnet_squeezed,
        nic_rx_dropped: counters.nic_rx_dropped,
        qdisc_dropped: counters.qdisc_dropped,
        udp_receive_buffer_errors: counters.udp_receive_buffer_errors,
        throttled_ms: counters.throttled_ns.map(|ns| ns / 1_000_000),
    }
}

/// The text of a file, or why it cannot be read.
fn text(roots: &Roots, below: &str) -> Result<String, String> {
    roots.try_read(below).map_err(|e| format!("cannot read /{below}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(ms: u64) -> Clocks {
        Clocks { monotonic_ns: ms * 1_000_000, wall_ahead_ns: 0 }
    }

    #[test]
    fn loopback_is_looked_at() {
        let found = Look::begin(Some(([127, 0, 0, 1], 0).into()), clocks(5)).end(clocks(12));
        let route = found.route.known().expect("a route");
        assert!(route.local && route.gateway.is_none());
        assert_eq!(found.interface(), "lo");
        assert!(found.device.features.known().is_some_and(|all| all.iter().any(|f| f.on)));
        assert_eq!(found.device.carrier.known(), Some(&true));
        assert_eq!(found.watched.known().map(|watched| watched.for_ms), Some(7));
        assert!(found.sysctl("net.ipv4.tcp_rmem").unwrap().split(' ').count() == 3);
        assert!(found.cpu.allowed.known().is_some_and(|cores| !cores.is_empty()));
        assert!(found.system.page_bytes.known().is_some_and(|bytes| bytes.is_power_of_two()));
    }

    #[test]
    fn a_link_local_address_without_its_link_has_no_interface() {
        let found = Look::begin("[fe80::1]:5201".parse().ok(), clocks(5)).end(clocks(12));
        assert_eq!(found.host.nic, None);
        assert!(found.route.get().unwrap_err().contains("fe80::1%DEV"), "{:?}", found.route);
        assert!(found.device.carrier.known().is_none());
    }

    #[test]
    fn nowhere_has_reasons() {
        let nowhere = Roots::at("/nonexistent");
        assert!(cpu::details(&nowhere).pressure_percent.get().unwrap_err().contains("cannot read"));
        let device = device::details(&nowhere, None);
        assert_eq!(device.features.get().unwrap_err(), "the interface of the path is not known");
        assert!(sysctls(&nowhere).values().all(|fact| fact.known().is_none()));
    }
}
