//! Reading and turning knobs: the one place that knows which of them is netlink and which a file.

use std::collections::BTreeMap;

use linerate_model::setting::{
    Channels, Cores, Ring, Setting, SettingName, SettingValue, core_list,
};
use linerate_model::undo::{Device, Knob, wanted};
use nix::errno::Errno;

use super::files;
use crate::irq::NicIrqs;
use crate::netlink::ethtool::{self, Ethtool};
use crate::netlink::link::{self, Link, Number};
use crate::netlink::parameters::{self, Group};
use crate::netlink::{Netlink, tree};
use crate::roots::{Roots, is_interface_name};
use crate::text::cpulist;

/// Every knob with its value.
pub(crate) type Values = BTreeMap<Knob, String>;

/// The value of a knob that was there and is not now, such as a queue's that is no more.
pub(crate) const ABSENT: &str = "absent";

/// The running kernel, in the network namespace of the thread that opened it.
pub(crate) struct Kernel {
    pub(crate) roots: Roots,
    route: Option<Netlink>,
    ethtool: Option<Ethtool>,
}

impl Kernel {
    pub(crate) fn open(roots: Roots) -> Self {
        let host = roots.is_host();
        Self {
            route: host.then(Netlink::route).flatten(),
            ethtool: host.then(Ethtool::open).flatten(),
            roots,
        }
    }

    /// The interface of this name as it is now.
    pub(crate) fn device(&mut self, name: &str) -> Result<Device, String> {
        if !is_interface_name(name) {
            return Err(format!("{name:?} is no name of an interface"));
        }
        if !self.roots.is_host() {
            // A tree of files has no netlink.
            let index = self.roots.number(&format!("sys/class/net/{name}/ifindex"));
            return index
                .map(|index| Device { name: name.to_owned(), index, address: String::new() })
                .ok_or_else(|| format!("there is no interface {name}"));
        }
        let link = self.link(name)?;
        Ok(Device { name: link.name, index: link.index, address: link.address })
    }

    fn link(&mut self, name: &str) -> Result<Link, String> {
        let route = self.route.as_mut().ok_or("this kernel has no netlink")?;
        link::by_name(route, name).map_err(|refusal| match refusal.errno {
            Errno::ENODEV => format!("there is no interface {name}"),
            _ => refusal.to_string(),
        })
    }

    /// Whether the files in /sys are those of this interface: /sys shows the network namespace of
    /// whoever mounted it.
    fn in_sys(&self, device: &Device) -> bool {
        self.roots.number(&format!("sys/class/net/{}/ifindex", device.name)) == Some(device.index)
    }

    /// Every knob of an interface that can be read.
    pub(crate) fn of_device(&mut self, device: &Device) -> Values {
        let mut values = Values::new();
        if let Ok(link) = self.link(&device.name) {
            values.insert(Knob::Mtu(device.clone()), link.mtu.to_string());
            values.insert(Knob::TxQueueLength(device.clone()), link.queue_length.to_string());
        }
        if let Some(route) = &mut self.route
            && let Ok(tree) = tree::read(route, device.index)
        {
            values.insert(Knob::Qdisc(device.clone()), tree.text());
        }
        if let Some(ethtool) = &mut self.ethtool {
            for feature in ethtool::states(ethtool, device.index).unwrap_or_default() {
                if feature.changeable {
                    let knob = Knob::Feature(device.clone(), feature.name);
                    values.insert(knob, switched(feature.active, feature.wanted));
                }
            }
            for group in [Group::Rings, Group::Channels, Group::Coalesce] {
                for (name, value) in
                    parameters::read(ethtool, device.index, group).unwrap_or_default()
                {
                    values.insert(of_group(device, group, name), value.to_string());
                }
            }
        }
        if self.in_sys(device) {
            for (receive, queue) in [true, false].into_iter().flat_map(|receive| {
                files::queues(&self.roots, &device.name, receive)
                    .into_iter()
                    .map(move |queue| (receive, queue))
            }) {
                let mask = files::words(&self.roots, &files::queue(&device.name, receive, queue));
                if let Some(list) = mask.and_then(|mask| files::list_of_mask(&mask)) {
                    values.insert(of_queue(device, receive, queue), list);
                }
            }
            for irq in NicIrqs::of(&self.roots, &device.name).message_signalled() {
                if let Some(list) = files::words(&self.roots, &interrupt(*irq)) {
                    let list = core_list(&cpulist::parse(&list));
                    values.insert(Knob::Interrupt(device.clone(), *irq), list);
                }
            }
        }
        values
    }

    /// Every knob that a setting may touch, and on an interface all there are: one may change with
    /// another.
    pub(crate) fn around(&mut self, name: &SettingName, device: Option<&Device>) -> Values {
        match (name, device) {
            (SettingName::Sysctl(name), _) => files::sysctl_companions(&self.roots, name)
                .into_iter()
                .filter_map(|name| {
                    let value = files::words(&self.roots, &files::sysctl(&name))?;
                    Some((Knob::Sysctl(name), value))
                })
                .collect(),
            (SettingName::Governor, _) => files::governed(&self.roots)
                .into_iter()
                .filter_map(|core| {
                    let value = files::words(&self.roots, &files::governor(core))?;
                    Some((Knob::Governor(core), value))
                })
                .collect(),
            (_, Some(device)) => self.of_device(device),
            (_, None) => Values::new(),
        }
    }

    /// The values now of these knobs; of interfaces that are still the same ones.
    pub(crate) fn values(&mut self, knobs: &[Knob]) -> Values {
        let mut values = Values::new();
        let mut devices: Vec<&Device> = knobs.iter().filter_map(Knob::device).collect();
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            if self.device(&device.name).as_ref() == Ok(device) {
                let mut all = self.of_device(device);
                for knob in knobs.iter().filter(|knob| knob.device() == Some(device)) {
                    let value = all.remove(knob).unwrap_or_else(|| ABSENT.to_owned());
                    values.insert(knob.clone(), value);
                }
            }
        }
        for knob in knobs {
            let value = match knob {
                Knob::Sysctl(name) => files::words(&self.roots, &files::sysctl(name)),
                Knob::Governor(core) => files::words(&self.roots, &files::governor(*core)),
                _ => continue,
            };
            values.insert(knob.clone(), value.unwrap_or_else(|| ABSENT.to_owned()));
        }
        values
    }

    /// Turns knobs, those of features of one interface together. Says of each that the kernel
    /// refused why.
    pub(crate) fn turn(&mut self, wishes: &[(&Knob, &str)]) -> Vec<(Knob, String)> {
        let mut refused = Vec::new();
        let mut features: BTreeMap<&Device, Vec<(&str, bool)>> = BTreeMap::new();
        for (knob, value) in wishes {
            if let Knob::Feature(device, name) = knob {
                features.entry(device).or_default().push((name, wanted(value) == "on"));
            } else if let Err(why) = self.turn_one(knob, value) {
                refused.push(((*knob).clone(), why));
            }
        }
        for (device, switches) in features {
            let Some(ethtool) = &mut self.ethtool else { continue };
            if let Err(refusal) = ethtool::want(ethtool, device.index, &switches) {
                refused.extend(switches.iter().map(|(name, _)| {
                    (Knob::Feature(device.clone(), (*name).to_owned()), refusal.to_string())
                }));
            }
        }
        refused
    }

    fn turn_one(&mut self, knob: &Knob, value: &str) -> Result<(), String> {
        let number =
            || value.parse::<u32>().map_err(|_| format!("{value:?} is no number that it takes"));
        let cores = || files::mask_of_list(value).ok_or_else(|| format!("{value:?} are no cores"));
        match knob {
            Knob::Mtu(device) => self.number(device, Number::Mtu, number()?),
            Knob::TxQueueLength(device) => self.number(device, Number::QueueLength, number()?),
            Knob::Qdisc(device) => {
                let route = self.route.as_mut().ok_or("this kernel has no netlink")?;
                // A kind alone is asked for; a whole tree is put back.
                let done = if value.contains(' ') || value == "none" {
                    let tree = tree::Tree::parse(value).ok_or("the tree cannot be understood")?;
                    tree::restore(route, device.index, &tree)
                } else {
                    tree::set(route, device.index, value)
                };
                done.map_err(|refusal| refusal.to_string())
            }
            Knob::Ring(device, name) => self.parameter(device, Group::Rings, name, number()?),
            Knob::Channels(device, name) => {
                self.parameter(device, Group::Channels, name, number()?)
            }
            Knob::Coalesce(device, name) => {
                self.parameter(device, Group::Coalesce, name, number()?)
            }
            Knob::RxQueueCores(device, queue) => {
                files::write(&self.roots, &files::queue(&device.name, true, *queue), &cores()?)
            }
            Knob::TxQueueCores(device, queue) => {
                files::write(&self.roots, &files::queue(&device.name, false, *queue), &cores()?)
            }
            Knob::Interrupt(_, irq) => files::write(&self.roots, &interrupt(*irq), value),
            Knob::Sysctl(name) => files::write(&self.roots, &files::sysctl(name), value),
            Knob::Governor(core) => files::write(&self.roots, &files::governor(*core), value),
            Knob::Feature(..) => Err("features are switched together".into()),
        }
    }

    fn number(&mut self, device: &Device, what: Number, value: u32) -> Result<(), String> {
        let route = self.route.as_mut().ok_or("this kernel has no netlink")?;
        link::set(route, device.index, what, value).map_err(|refusal| refusal.to_string())
    }

    fn parameter(
        &mut self,
        device: &Device,
        group: Group,
        name: &str,
        value: u32,
    ) -> Result<(), String> {
        let ethtool = self.ethtool.as_mut().ok_or("this kernel has no ethtool netlink family")?;
        parameters::set(ethtool, device.index, group, name, value)
            .map_err(|refusal| refusal.to_string())
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
            // IPv6 needs 1,280 octets (RFC 8200 section 5): below, the kernel takes its addresses
            // and routes away, and they do not come back with the MTU.
            (SettingName::Mtu, SettingValue::Number(mtu)) if *mtu < 1_280 => {
                let addresses =
                    self.roots.read("proc/thread-self/net/if_inet6").unwrap_or_default();
                addresses
                    .lines()
                    .any(|line| line.split_whitespace().last() == Some(&device.name))
                    .then(|| {
                        format!(
                            "{} has IPv6 addresses, which the kernel takes away below 1280 octets",
                            device.name
                        )
                    })
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
            (SettingName::Rps | SettingName::Xps | SettingName::IrqAffinity, Some(device))
                if !self.in_sys(device) =>
            {
                format!(
                    "/sys here does not show {}: it is of another network namespace",
                    device.name
                )
            }
            (SettingName::IrqAffinity, Some(device)) => {
                format!("{} has no interrupts of its own", device.name)
            }
            (_, Some(device)) => format!("the driver of {} has no such setting", device.name),
        }
    }
}

/// The knobs of a setting among those that there are.
pub(crate) fn knobs_of(name: &SettingName, device: Option<&Device>, values: &Values) -> Vec<Knob> {
    let wanted: Vec<Knob> = match (name, device) {
        (SettingName::Sysctl(name), _) => vec![Knob::Sysctl(name.clone())],
        (SettingName::Governor, _) => return values.keys().cloned().collect(),
        (_, None) => return vec![],
        (SettingName::Offload(_), Some(device)) => name
            .features()
            .into_iter()
            .map(|feature| Knob::Feature(device.clone(), feature.to_owned()))
            .collect(),
        (SettingName::Ring(ring), Some(device)) => {
            let name = match ring {
                Ring::Rx => "rx",
                Ring::RxMini => "rx-mini",
                Ring::RxJumbo => "rx-jumbo",
                Ring::Tx => "tx",
            };
            vec![of_group(device, Group::Rings, name)]
        }
        (SettingName::Channels(which), Some(device)) => {
            let name = match which {
                Channels::Rx => "rx",
                Channels::Tx => "tx",
                Channels::Other => "other",
                Channels::Combined => "combined",
            };
            vec![of_group(device, Group::Channels, name)]
        }
        (SettingName::Coalesce(name), Some(device)) => {
            vec![of_group(device, Group::Coalesce, name)]
        }
        (SettingName::Mtu, Some(device)) => vec![Knob::Mtu(device.clone())],
        (SettingName::Qdisc, Some(device)) => vec![Knob::Qdisc(device.clone())],
        (SettingName::IrqAffinity, _) => {
            return having(values, |k| matches!(k, Knob::Interrupt(..)));
        }
        (SettingName::Rps, _) => return having(values, |k| matches!(k, Knob::RxQueueCores(..))),
        (SettingName::Xps, _) => return having(values, |k| matches!(k, Knob::TxQueueCores(..))),
    };
    wanted.into_iter().filter(|knob| values.contains_key(knob)).collect()
}

fn having(values: &Values, which: impl Fn(&Knob) -> bool) -> Vec<Knob> {
    values.keys().filter(|knob| which(knob)).cloned().collect()
}

fn of_group(device: &Device, group: Group, name: &str) -> Knob {
    let (device, name) = (device.clone(), name.to_owned());
    match group {
        Group::Rings => Knob::Ring(device, name),
        Group::Channels => Knob::Channels(device, name),
        Group::Coalesce => Knob::Coalesce(device, name),
    }
}

fn of_queue(device: &Device, receive: bool, queue: u32) -> Knob {
    if receive {
        Knob::RxQueueCores(device.clone(), queue)
    } else {
        Knob::TxQueueCores(device.clone(), queue)
    }
}

fn interrupt(irq: u32) -> String {
    format!("proc/irq/{irq}/smp_affinity_list")
}

fn switched(active: bool, wanted: bool) -> String {
    let word = |on| if on { "on" } else { "off" };
    if active == wanted {
        word(active).to_owned()
    } else {
        format!("{}, wanted {}", word(active), word(wanted))
    }
}

/// A setting's value made of its knobs': one word where they agree, else each queue's.
pub(crate) fn shown(name: &SettingName, knobs: &[Knob], values: &Values) -> Option<SettingValue> {
    let of: Vec<&str> =
        knobs.iter().filter_map(|knob| values.get(knob)).map(String::as_str).collect();
    let first = *of.first()?;
    match name {
        SettingName::Offload(_) => {
            Some(SettingValue::Switch(of.iter().any(|value| value.starts_with("on"))))
        }
        SettingName::Coalesce(name) => {
            let number = first.parse::<u64>().ok()?;
            let switch =
                linerate_model::setting::COALESCE.iter().any(|(known, _, s)| known == name && *s);
            Some(if switch {
                SettingValue::Switch(number != 0)
            } else {
                SettingValue::Number(number)
            })
        }
        SettingName::Qdisc => {
            Some(SettingValue::Text(first.split(' ').next().unwrap_or(first).to_owned()))
        }
        _ if of.iter().all(|value| *value == first) => Some(
            first
                .parse::<u64>()
                .ok()
                .filter(|_| {
                    !matches!(name, SettingName::Rps | SettingName::Xps | SettingName::IrqAffinity)
                })
                .map_or_else(|| SettingValue::Text(first.to_owned()), SettingValue::Number),
        ),
        _ => Some(SettingValue::Text(of.join(" "))),
    }
}
