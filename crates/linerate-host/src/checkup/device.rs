//! The interface of the path.

use linerate_model::doctor::{DeviceDetails, Fact, Feature, InterruptDetails};
use linerate_model::setting::Cores;
use nix::errno::Errno;

use crate::irq::{self, NicIrqs};
use crate::netlink::ethtool::{self, Ethtool};
use crate::netlink::parameters::{self, Group};
use crate::netlink::{Netlink, Refusal, devlink, disciplines, link};
use crate::roots::Roots;
use crate::settings::files;

/// All that can be known of an interface.
pub(super) fn details(roots: &Roots, nic: Option<&str>) -> DeviceDetails {
    let mut found = DeviceDetails::default();
    let Some(nic) = nic else {
        return unknown("the interface of the path is not known");
    };
    if !roots.is_host() {
        return unknown("these are files, and no host");
    }
    let Some(mut route) = Netlink::route() else { return unknown("this kernel has no netlink") };
    let port = match link::port(&mut route, nic) {
        Ok(port) => port,
        Err(refusal) => return unknown(&format!("the kernel does not report {nic}: {refusal}")),
    };
    found.kind = Fact::Known(port.kind);
    found.carrier = Fact::Known(port.carrier);
    found.largest_mtu_bytes = Fact::Known(port.largest_mtu_bytes);
    found.queue_length = Fact::Known(port.link.queue_length);
    found.qdiscs = disciplines::read(&mut route, port.link.index)
        .map_err(|refusal| format!("the kernel tells no queueing disciplines: {refusal}"))
        .into();
    by_ethtool(port.link.index, &mut found);
    in_files(roots, nic, &mut found);
    found
}

fn unknown(why: &str) -> DeviceDetails {
    fn because<T>(why: &str) -> Fact<T> {
        Fact::Unknown(why.to_owned())
    }
    DeviceDetails {
        kind: because(why),
        carrier: because(why),
        duplex: because(why),
        largest_mtu_bytes: because(why),
        queue_length: because(why),
        features: because(why),
        rings: because(why),
        channels: because(why),
        qdiscs: because(why),
        interrupts: because(why),
        numa_node: because(why),
        rps: because(why),
        xps: because(why),
        rx_missed: because(why),
        firmware: because(why),
    }
}

fn by_ethtool(index: u32, found: &mut DeviceDetails) {
    let Some(mut ethtool) = Ethtool::open() else {
        let why = || "this kernel has no ethtool netlink family (Linux 5.6 and later)".to_owned();
        (found.features, found.duplex) = (Fact::Unknown(why()), Fact::Unknown(why()));
        (found.rings, found.channels) = (Fact::Unknown(why()), Fact::Unknown(why()));
        return;
    };
    let features = ethtool::states(&mut ethtool, index).map(|states| {
        let feature = |state: ethtool::Feature| Feature {
            name: state.name,
            on: state.active,
            changeable: Some(state.changeable),
            refused: state.wanted && !state.active,
        };
        states.into_iter().map(feature).collect()
    });
    found.features = fact(features);
    found.duplex = fact(or_nothing(ethtool::duplex(&mut ethtool, index)));
    let mut amounts =
        |group| fact(or_nothing(parameters::read_with_most(&mut ethtool, index, group)));
    found.rings = amounts(Group::Rings);
    found.channels = amounts(Group::Channels);
}

/// A driver that has no such thing says so.
fn or_nothing<T: Default>(read: Result<T, Refusal>) -> Result<T, Refusal> {
    match read {
        Err(refusal) if refusal.errno == Errno::EOPNOTSUPP => Ok(T::default()),
        read => read,
    }
}

fn fact<T>(read: Result<T, Refusal>) -> Fact<T> {
    read.map_err(|refusal| format!("ethtool's netlink family refuses: {refusal}")).into()
}

fn in_files(roots: &Roots, nic: &str, found: &mut DeviceDetails) {
    if !roots.shows(nic) {
        let why = || format!("/sys here does not show {nic}: it is of another network namespace");
        (found.interrupts, found.numa_node) = (Fact::Unknown(why()), Fact::Unknown(why()));
        (found.rps, found.xps) = (Fact::Unknown(why()), Fact::Unknown(why()));
        (found.rx_missed, found.firmware) = (Fact::Unknown(why()), Fact::Unknown(why()));
        return;
    }
    found.firmware = firmware(roots, nic).into();
    found.rps = queues(roots, nic, true).into();
    found.xps = queues(roots, nic, false).into();
    let own = NicIrqs::of(roots, nic);
    found.interrupts = interrupts(roots, own.message_signalled()).into();
    found.numa_node = Fact::Known(numa_node(roots, nic));
    let count = |name: &str| {
        let file = format!("sys/class/net/{nic}/statistics/{name}");
        roots.number::<u64>(&file).ok_or_else(|| format!("/{file} has no number"))
    };
    found.rx_missed = count("rx_missed_errors")
        .and_then(|missed| Ok(missed.saturating_add(count("rx_fifo_errors")?)))
        .into();
}

/// Drivers tell it to devlink or to ethtool's older call alone, an ioctl for which there is no safe function.
fn firmware(roots: &Roots, nic: &str) -> Result<String, String> {
    let device = format!("sys/class/net/{nic}/device");
    let end = |path: &str| {
        let path = roots.path(path).read_link().ok()?;
        Some(path.file_name()?.to_string_lossy().into_owned())
    };
    let named = end(&format!("{device}/subsystem")).zip(end(&device));
    let (bus, name) = named.ok_or_else(|| format!("{nic} has no device of its own"))?;
    let why = match devlink::firmware(&bus, &name) {
        Ok(Some(versions)) => return Ok(versions),
        Ok(None) => "its driver names none".to_owned(),
        Err(refusal) => refusal.to_string(),
    };
    Err(format!("devlink does not tell it: {why}; `ethtool -i {nic}` may"))
}

fn interrupts(roots: &Roots, numbers: &[u32]) -> Result<Vec<InterruptDetails>, String> {
    let placed = numbers.iter().filter_map(|irq| irq::placed(roots, *irq).transpose());
    let placed: Vec<InterruptDetails> = placed.collect::<Result<_, String>>()?;
    if placed.is_empty() && !numbers.is_empty() {
        return Err("/proc/irq has none of its device's interrupts".to_owned());
    }
    Ok(placed)
}

/// The NUMA node of an interface's device, where it has one.
pub(crate) fn numa_node(roots: &Roots, nic: &str) -> Option<u32> {
    // -1 where the device has none; interfaces without a device have no such file.
    let node = |file: &str| roots.number::<i64>(&format!("sys/class/net/{nic}/{file}"));
    let node = node("device/numa_node").or_else(|| node("device/../numa_node"))?;
    u32::try_from(node).ok()
}

/// The cores of each queue; of a device with one queue the kernel reports no senders' cores.
fn queues(roots: &Roots, nic: &str, receive: bool) -> Result<Vec<Vec<u32>>, String> {
    let mut all = Vec::new();
    for queue in files::queues(roots, nic, receive)? {
        let path = files::queue(nic, receive, queue);
        let Some(mask) = files::words(roots, &path)? else { continue };
        let cores = files::list_of_mask(&mask).and_then(|list| Cores::parse(&list));
        all.push(cores.ok_or_else(|| format!("/{path} is no mask of cores: {mask:?}"))?.list);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn interrupts_that_no_driver_asked_for_leave_the_others_known() {
        let root = Scratch::new();
        let roots = root.roots();
        assert_eq!(interrupts(&roots, &[]), Ok(vec![]));
        assert!(interrupts(&roots, &[40]).unwrap_err().starts_with("/proc/irq has none"));
        root.file("proc/irq/41/smp_affinity_list", "0-1\n");
        let found = interrupts(&roots, &[40, 41]).unwrap();
        let only = InterruptDetails { irq: 41, cores: vec![0, 1], effective: None };
        assert_eq!(found, [only]);
    }
}
