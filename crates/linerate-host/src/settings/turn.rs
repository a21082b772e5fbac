//! Turning knobs.

use std::collections::BTreeMap;

use linerate_model::undo::{Device, Knob, wanted};

use super::files;
use super::kernel::{Kernel, NO_ETHTOOL, interrupt};
use crate::netlink::link::{self, Number};
use crate::netlink::parameters::{self, Group};
use crate::netlink::{ethtool, tree};

impl Kernel {
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
            let wanted = match &mut self.ethtool {
                Some(ethtool) => ethtool::want(ethtool, device.index, &switches)
                    .map_err(|refusal| refusal.to_string()),
                None => Err(NO_ETHTOOL.to_owned()),
            };
            if let Err(why) = wanted {
                refused.extend(switches.iter().map(|(name, _)| {
                    (Knob::Feature(device.clone(), (*name).to_owned()), why.clone())
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
            Knob::Ipv6Mtu(device) => {
                let name = self.present(device)?.name;
                files::write(&self.roots, &files::ipv6_mtu(&name), value)
            }
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
            Knob::RxQueueCores(device, queue) | Knob::TxQueueCores(device, queue) => {
                let receive = matches!(knob, Knob::RxQueueCores(..));
                let name = self.present(device)?.name;
                files::write(&self.roots, &files::queue(&name, receive, *queue), &cores()?)
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
        let ethtool = self.ethtool.as_mut().ok_or(NO_ETHTOOL)?;
        parameters::set(ethtool, device.index, group, name, value)
            .map_err(|refusal| refusal.to_string())
    }
}
