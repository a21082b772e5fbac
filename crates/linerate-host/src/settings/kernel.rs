//! Reading and turning knobs: the one place that knows which of them is netlink and which a file.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use linerate_model::setting::{
    Cores, Setting, SettingName, SettingValue, core_list, is_interface_name,
};
use linerate_model::undo::{Device, Knob};
use nix::errno::Errno;

use super::files;
use super::knobs::{knobs_of, of_group, of_queue, switched};
use super::reading::{NoDevice, Now, Part, Reading, Values};
use crate::irq::NicIrqs;
use crate::netlink::ethtool::{self, Ethtool};
use crate::netlink::link::{self, Link, Port};
use crate::netlink::parameters::{self, Group};
use crate::netlink::{Netlink, Refusal, tree};
use crate::roots::Roots;
use crate::text::cpulist;

/// The running kernel, in the network namespace of the thread that opened it.
pub(crate) struct Kernel {
    pub(crate) roots: Roots,
    pub(super) route: Option<Netlink>,
    pub(super) ethtool: Option<Ethtool>,
    /// Interfaces under the names and addresses that something was changed by.
    pub(super) known: Vec<Device>,
}

impl Kernel {
    pub(crate) fn open(roots: Roots) -> Self {
        let host = roots.is_host();
        Self {
            route: host.then(Netlink::route).flatten(),
            ethtool: host.then(Ethtool::open).flatten(),
            known: Vec::new(),
            roots,
        }
    }

    /// The interface as it is known, else as it is.
    pub(super) fn known(&self, device: Device) -> Device {
        self.known.iter().find(|known| known.is(&device)).cloned().unwrap_or(device)
    }

    /// The interface of this name as it is now.
    pub(crate) fn device(&mut self, name: &str) -> Result<Device, NoDevice> {
        let unreadable = |why: String| NoDevice::Unreadable(why);
        if !is_interface_name(name) {
            return Err(unreadable(format!("{name:?} is no name of an interface")));
        }
        if !self.roots.is_host() {
            // A tree of files has no netlink.
            let path = format!("sys/class/net/{name}/ifindex");
            let text = self.roots.try_read(&path).map_err(|e| match e.kind() {
                io::ErrorKind::NotFound => NoDevice::Gone(name.to_owned()),
                _ => unreadable(format!("cannot read /{path}: {e}")),
            })?;
            let index = text.trim().parse();
            return index
                .map(|index| Device { name: name.to_owned(), index, address: String::new() })
                .map_err(|_| unreadable(format!("/{path} has no number")));
        }
        self.link(name, |route| link::by_name(route, name)).map(device_of)
    }

    /// The interface as it is now, by whatever name.
    pub(super) fn present(&mut self, device: &Device) -> Result<Device, NoDevice> {
        let found = if self.roots.is_host() {
            device_of(self.link(&device.name, |route| link::by_index(route, device.index))?)
        } else {
            self.device(&device.name)?
        };
        if found.is(device) { Ok(found) } else { Err(NoDevice::Gone(device.name.clone())) }
    }

    fn link(
        &mut self,
        name: &str,
        ask: impl FnOnce(&mut Netlink) -> Result<Link, Refusal>,
    ) -> Result<Link, NoDevice> {
        let route = self
            .route
            .as_mut()
            .ok_or_else(|| NoDevice::Unreadable("this kernel has no netlink".into()))?;
        ask(route).map_err(|refusal| match refusal.errno {
            Errno::ENODEV => NoDevice::Gone(name.to_owned()),
            _ => NoDevice::Unreadable(format!("the kernel does not report {name}: {refusal}")),
        })
    }

    /// Whether the files in /sys are those of the interface that has this name now: /sys shows the
    /// network namespace of whoever mounted it.
    fn in_sys(&self, name: &str, index: u32) -> bool {
        self.roots.number(&format!("sys/class/net/{name}/ifindex")) == Some(index)
    }

    /// Every knob of an interface, and what of it cannot be read.
    pub(crate) fn of_device(&mut self, device: &Device) -> Reading {
        let mut reading = Reading::default();
        if self.roots.is_host() {
            self.by_rtnetlink(device, &mut reading);
            self.by_ethtool(device, &mut reading);
        }
        let name = self.present(device).map_or_else(|_| device.name.clone(), |now| now.name);
        if self.in_sys(&name, device.index) {
            self.queues(device, &name, &mut reading);
        } else {
            for part in [Part::RxQueues, Part::TxQueues, Part::Interrupts] {
                let why =
                    format!("/sys here does not show {name}: it is of another network namespace");
                reading.cannot(part, why);
            }
        }
        reading
    }

    fn by_rtnetlink(&mut self, device: &Device, reading: &mut Reading) {
        match self.link(&device.name, |route| link::by_index(route, device.index)) {
            Ok(link) => {
                reading.put(Knob::Mtu(device.clone()), Ok(Some(link.mtu.to_string())));
                reading.put(Knob::Ipv6Mtu(device.clone()), self.ipv6_mtu(&link));
                let length = link.queue_length.to_string();
                reading.put(Knob::TxQueueLength(device.clone()), Ok(Some(length)));
            }
            Err(why) => reading.cannot(Part::Link, why),
        }
        let Some(route) = &mut self.route else {
            reading.cannot(Part::Qdisc, "this kernel has no netlink");
            return;
        };
        let tree = there(tree::read(route, device.index));
        reading.put(Knob::Qdisc(device.clone()), tree.map(|tree| tree.map(|tree| tree.text())));
    }

    /// Nothing where it is the interface's.
    fn ipv6_mtu(&self, link: &Link) -> Result<Option<String>, String> {
        let own = files::words(&self.roots, &files::ipv6_mtu(&link.name))?;
        Ok(own.filter(|own| *own != link.mtu.to_string()))
    }

    /// What moves with the MTU of an interface, a bridge among it, which follows its ports.
    fn moved(&mut self, device: &Device) -> Result<Vec<Port>, String> {
        // A tree of files has no netlink.
        let Some(route) = &mut self.route else { return Ok(Vec::new()) };
        let all = link::all(route)
            .map_err(|refusal| format!("the kernel does not report its interfaces: {refusal}"))?;
        Ok(link::moved(all, device.index))
    }

    fn by_ethtool(&mut self, device: &Device, reading: &mut Reading) {
        let groups = [Group::Rings, Group::Channels, Group::Coalesce];
        if self.ethtool.is_none() {
            self.ethtool = Ethtool::open();
        }
        let Some(ethtool) = &mut self.ethtool else {
            for part in [Part::Features].into_iter().chain(groups.map(Part::from)) {
                reading.cannot(part, NO_ETHTOOL);
            }
            return;
        };
        match there(ethtool::states(ethtool, device.index)) {
            Ok(features) => {
                for feature in features.unwrap_or_default().into_iter().filter(|f| f.changeable) {
                    let knob = Knob::Feature(device.clone(), feature.name);
                    reading.put(knob, Ok(Some(switched(feature.active, feature.wanted))));
                }
            }
            Err(why) => reading.cannot(Part::Features, why),
        }
        for group in groups {
            match there(parameters::read(ethtool, device.index, group)) {
                Ok(numbers) => {
                    for (name, value) in numbers.unwrap_or_default() {
                        reading.put(of_group(device, group, name), Ok(Some(value.to_string())));
                    }
                }
                Err(why) => reading.cannot(group.into(), why),
            }
        }
    }

    fn queues(&self, device: &Device, name: &str, reading: &mut Reading) {
        for (receive, part) in [(true, Part::RxQueues), (false, Part::TxQueues)] {
            let queues = match files::queues(&self.roots, name, receive) {
                Ok(queues) => queues,
                Err(why) => {
                    reading.cannot(part, why);
                    continue;
                }
            };
            for queue in queues {
                let path = files::queue(name, receive, queue);
                let list = files::words(&self.roots, &path).and_then(|mask| match mask {
                    Some(mask) => files::list_of_mask(&mask)
                        .map(Some)
                        .ok_or_else(|| format!("/{path} is no mask of cores: {mask:?}")),
                    None => Ok(None),
                });
                reading.put(of_queue(device, receive, queue), list);
            }
        }
        for irq in NicIrqs::of(&self.roots, name).message_signalled() {
            let list = files::words(&self.roots, &interrupt(*irq));
            let list = list.map(|list| list.map(|list| core_list(&cpulist::parse(&list))));
            reading.put(Knob::Interrupt(device.clone(), *irq), list);
        }
    }

    /// Every knob that a setting may touch, and on an interface all there are: one may change with
    /// another. With an MTU move those of other interfaces.
    pub(crate) fn around(&mut self, name: &SettingName, device: Option<&Device>) -> Reading {
        let mut reading = Reading::default();
        match (name, device) {
            (SettingName::Sysctl(name), _) => {
                for name in files::sysctl_companions(&self.roots, name) {
                    let value = files::words(&self.roots, &files::sysctl(&name));
                    reading.put(Knob::Sysctl(name), value);
                }
            }
            (SettingName::Governor, _) => match files::governed(&self.roots) {
                Ok(cores) => {
                    for core in cores {
                        let value = files::words(&self.roots, &files::governor(core));
                        reading.put(Knob::Governor(core), value);
                    }
                }
                Err(why) => reading.cannot(Part::Governors, why),
            },
            (_, Some(device)) => {
                reading = self.of_device(device);
                if *name == SettingName::Mtu {
                    self.of_moved(device, &mut reading);
                }
            }
            (_, None) => {}
        }
        reading
    }

    fn of_moved(&mut self, device: &Device, reading: &mut Reading) {
        let moved = match self.moved(device) {
            Ok(moved) => moved,
            Err(why) => return reading.cannot(Part::Link, why),
        };
        for Port { link, kind, .. } in moved {
            let (mtu, ipv6) = (link.mtu.to_string(), self.ipv6_mtu(&link));
            let device = self.known(device_of(link));
            reading.put(Knob::Ipv6Mtu(device.clone()), ipv6);
            // A bridge that is told an MTU does not follow its ports any more.
            if kind.as_deref() != Some("bridge") {
                reading.put(Knob::Mtu(device), Ok(Some(mtu)));
            }
        }
    }

    /// As [`Kernel::around`] after a change: a driver that starts its card anew cannot be read for a
    /// while, so what could be read `before` is given some time.
    pub(crate) fn again(
        &mut self,
        name: &SettingName,
        device: Option<&Device>,
        before: &Values,
    ) -> Reading {
        let mut reading = self.around(name, device);
        for _ in 0..READ_TRIES {
            if before.keys().all(|knob| reading.why_not(knob).is_none()) {
                break;
            }
            std::thread::sleep(READ_PAUSE);
            reading = self.around(name, device);
        }
        reading
    }

    /// What these knobs are now. Of interfaces only if they are still the same ones; what cannot be
    /// read is given some time.
    pub(crate) fn values(&mut self, knobs: &[Knob]) -> BTreeMap<Knob, Now> {
        let mut values = self.values_now(knobs);
        for _ in 0..READ_TRIES {
            if !values.values().any(|now| matches!(now, Now::Unreadable(_))) {
                break;
            }
            std::thread::sleep(READ_PAUSE);
            values = self.values_now(knobs);
        }
        values
    }

    fn values_now(&mut self, knobs: &[Knob]) -> BTreeMap<Knob, Now> {
        let mut values = BTreeMap::new();
        let mut devices: Vec<&Device> = knobs.iter().filter_map(Knob::device).collect();
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            let of_device = knobs.iter().filter(|knob| knob.device() == Some(device));
            match self.present(device) {
                Ok(_) => {
                    let reading = self.of_device(device);
                    values.extend(of_device.map(|knob| (knob.clone(), reading.now(knob))));
                }
                Err(NoDevice::Gone(_)) => {
                    values.extend(of_device.map(|knob| (knob.clone(), Now::Gone)));
                }
                Err(NoDevice::Unreadable(why)) => values
                    .extend(of_device.map(|knob| (knob.clone(), Now::Unreadable(why.clone())))),
            }
        }
        let mut reading = Reading::default();
        for knob in knobs {
            let path = match knob {
                Knob::Sysctl(name) => files::sysctl(name),
                Knob::Governor(core) => files::governor(*core),
                _ => continue,
            };
            reading.put(knob.clone(), files::words(&self.roots, &path));
            values.insert(knob.clone(), reading.now(knob));
        }
        values
    }

    /// Why a setting must not be tried though the kernel would take it: it could not be undone.
    pub(crate) fn obstacle(
        &mut self,
        setting: &Setting,
        device: Option<&Device>,
    ) -> Option<String> {
        let device = device?;
        match (&setting.name, &setting.value) {
            (SettingName::Qdisc, _) => {
                let route = self.route.as_mut()?;
                let tree = tree::read(route, device.index).ok()?;
                tree.obstacle(route, device.index)
            }
            // IPv6 needs 1,280 bytes (RFC 8200 section 5): below, the kernel takes its addresses
            // and routes away, and they do not come back with the MTU.
            (SettingName::Mtu, SettingValue::Number(mtu)) if *mtu < 1_280 => {
                let addresses =
                    self.roots.read("proc/thread-self/net/if_inet6").unwrap_or_default();
                let has_any = |name: &&String| {
                    let mut lines = addresses.lines();
                    lines.any(|line| line.split_whitespace().last() == Some(name.as_str()))
                };
                let moved = self.moved(device).unwrap_or_default();
                let moved = moved.iter().map(|port| &port.link.name);
                let name = [&device.name].into_iter().chain(moved).find(has_any)?;
                Some(format!(
                    "{name} has IPv6 addresses, which the kernel takes away below 1280 bytes"
                ))
            }
            (_, SettingValue::Switch(false)) if setting.name.features().contains(&LRO) => {
                let all = link::all(self.route.as_mut()?).ok()?;
                let ethtool = self.ethtool.as_mut()?;
                let has_it = |port: &&Port| {
                    let all = ethtool::states(ethtool, port.link.index).unwrap_or_default();
                    all.iter().any(|feature| feature.name == LRO && feature.active)
                };
                let port = link::below(&all, device.index).find(has_it)?;
                let (below, above) = (&port.link.name, &device.name);
                Some(format!(
                    "{below} below {above} would lose {LRO} for good: switch it off there"
                ))
            }
            _ => None,
        }
    }

    /// The knobs of a setting and what they shall be, `values` being those around it now.
    pub(crate) fn expand(
        &mut self,
        setting: &Setting,
        device: Option<&Device>,
        values: &Values,
    ) -> Result<Vec<(Knob, String)>, String> {
        let value = setting.value.to_string();
        let knobs = knobs_of(&setting.name, device, values);
        if knobs.is_empty() {
            return Err(self.missing(&setting.name, device));
        }
        let cores = |knobs: Vec<Knob>| -> Result<Vec<(Knob, String)>, String> {
            let cores = Cores::parse(&value).ok_or("it takes cores")?;
            let queues = knobs.into_iter().enumerate();
            Ok(queues.map(|(queue, knob)| (knob, core_list(&cores.of_queue(queue)))).collect())
        };
        match (&setting.name, &setting.value) {
            (SettingName::IrqAffinity | SettingName::Rps | SettingName::Xps, _) => cores(knobs),
            (SettingName::Offload(_), SettingValue::Switch(true))
                if knobs
                    .iter()
                    .any(|knob| values.get(knob).is_some_and(|v| v.starts_with("on"))) =>
            {
                // A group is on when any of it is, as ethtool has it: what is on suffices.
                let on = |knob: &Knob| values.get(knob).is_some_and(|v| v.starts_with("on"));
                Ok(knobs.into_iter().filter(on).map(|knob| (knob, "on".to_owned())).collect())
            }
            (SettingName::Coalesce(_) | SettingName::Sysctl(_), SettingValue::Switch(on)) => {
                Ok(knobs.into_iter().map(|knob| (knob, u8::from(*on).to_string())).collect())
            }
            (SettingName::Sysctl(_), _) => {
                let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
                Ok(knobs.into_iter().map(|knob| (knob, value.clone())).collect())
            }
            _ => Ok(knobs.into_iter().map(|knob| (knob, value.clone())).collect()),
        }
    }

    /// Why a setting has no knob here.
    pub(super) fn missing(&mut self, name: &SettingName, device: Option<&Device>) -> String {
        match (name, device) {
            (SettingName::Sysctl(name), _) => {
                format!("this kernel, or this network namespace, has no parameter {name}")
            }
            (SettingName::Governor, _) => {
                "the cores of this host have no frequency governor (a virtual machine has none)"
                    .into()
            }
            (_, None) => "it is a setting of an interface, and none was named".into(),
            (SettingName::Offload(short), Some(device)) => {
                let all = self
                    .ethtool
                    .as_mut()
                    .and_then(|ethtool| ethtool::states(ethtool, device.index).ok())
                    .unwrap_or_default();
                let fixed = name
                    .features()
                    .iter()
                    .any(|feature| all.iter().any(|known| known.name == *feature));
                if fixed {
                    format!("the driver of {} does not let it be switched", device.name)
                } else {
                    format!("this kernel has no feature {short}")
                }
            }
            (SettingName::IrqAffinity, Some(device)) => {
                format!("{} has no interrupts of its own", device.name)
            }
            (_, Some(device)) => format!("the driver of {} has no such setting", device.name),
        }
    }
}

fn device_of(link: Link) -> Device {
    Device { name: link.name, index: link.index, address: link.address }
}

/// What the kernel takes from all below an interface that loses it (`netdev_sync_lower_features` of net/core/dev.c).
const LRO: &str = "rx-lro";
pub(super) const NO_ETHTOOL: &str = "this kernel has no ethtool netlink family";
/// What cannot be read is tried again for 3 s: that is how long cards take to start anew.
const READ_TRIES: u32 = 30;
const READ_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 100 });

/// An answer of the kernel; nothing where the driver has no such thing.
fn there<T>(answer: Result<T, Refusal>) -> Result<Option<T>, String> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(refusal) if refusal.errno == Errno::EOPNOTSUPP => Ok(None),
        Err(refusal) => Err(refusal.to_string()),
    }
}

pub(super) fn interrupt(irq: u32) -> String {
    format!("proc/irq/{irq}/smp_affinity_list")
}
