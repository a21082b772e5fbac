//! Which knobs a setting has, and the setting's value made of theirs.

use linerate_model::setting::{Channels, Ring, SettingName, SettingValue};
use linerate_model::undo::{Device, Knob};

use super::reading::Values;
use crate::netlink::parameters::Group;

/// The knobs of a setting among those that there are.
pub(super) fn knobs_of(name: &SettingName, device: Option<&Device>, values: &Values) -> Vec<Knob> {
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

pub(super) fn of_group(device: &Device, group: Group, name: &str) -> Knob {
    let (device, name) = (device.clone(), name.to_owned());
    match group {
        Group::Rings => Knob::Ring(device, name),
        Group::Channels => Knob::Channels(device, name),
        Group::Coalesce => Knob::Coalesce(device, name),
    }
}

/// A setting's value made of its knobs': one word where they agree, else each queue's.
pub(super) fn shown(name: &SettingName, knobs: &[Knob], values: &Values) -> Option<SettingValue> {
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

pub(super) fn of_queue(device: &Device, receive: bool, queue: u32) -> Knob {
    if receive {
        Knob::RxQueueCores(device.clone(), queue)
    } else {
        Knob::TxQueueCores(device.clone(), queue)
    }
}

/// Of a feature: what it is, and what is wanted where that is not so.
pub(super) fn switched(active: bool, wanted: bool) -> String {
    let word = |on| if on { "on" } else { "off" };
    if active == wanted {
        word(active).to_owned()
    } else {
        format!("{}, wanted {}", word(active), word(wanted))
    }
}
