//! Work that the card, or one pass of the stack, can do for many packets at once.

use linerate_model::doctor::Feature;
use linerate_model::doctor::Severity::{Note, Warning};
use linerate_model::setting::{OFFLOADS, SettingValue};

use crate::Check;
use crate::case::Case;
use crate::draft::{Draft, found};

pub(crate) const CHECKS: &[Check] = &[
    Check {
        id: "offload.tso",
        judge: |case| off(case, "tso", "TCP is cut into packets by the CPU, each by itself"),
    },
    Check {
        id: "offload.gso",
        judge: |case| off(case, "gso", "each packet goes through the whole stack by itself"),
    },
    Check {
        id: "offload.udp-segmentation",
        judge: |case| {
            off(
                case,
                "tx-udp-segmentation",
                "trains of datagrams are cut before the device, not by it",
            )
        },
    },
    Check {
        id: "offload.tx-checksum",
        judge: |case| {
            off(
                case,
                "tx-checksum",
                "the CPU reads each byte once more, and segmentation needs it on",
            )
        },
    },
    Check {
        id: "offload.rx-checksum",
        judge: |case| off(case, "rx-checksum", "the CPU reads each received byte once more"),
    },
    Check {
        id: "offload.scatter-gather",
        judge: |case| {
            off(case, "sg", "each packet is copied into one piece, and segmentation needs it on")
        },
    },
    Check {
        id: "offload.gro",
        judge: |case| {
            off(case, "gro", "each received packet goes through the whole stack by itself")
        },
    },
    Check { id: "offload.udp-gro-forwarding", judge: udp_gro_forwarding },
];

const SOURCE: &str = "Documentation/networking/segmentation-offloads.rst";

fn off(case: &Case<'_>, short: &str, why: &str) -> Result<Option<Draft>, String> {
    if case.is_local() {
        return Ok(None);
    }
    let nic = case.nic()?;
    let features = case.host.device.features.get()?;
    let names =
        OFFLOADS.iter().find(|(name, _)| *name == short).map_or(&[][..], |(_, names)| *names);
    let group: Vec<&Feature> =
        features.iter().filter(|feature| names.contains(&feature.name.as_str())).collect();
    if group.is_empty() || group.iter().any(|feature| feature.on) {
        return Ok(None);
    }
    let name = &nic.name;
    if group.iter().all(|feature| feature.changeable == Some(false)) {
        let what = format!("the driver of {name} has no {short}");
        return Ok(case.is_card()?.then(|| found(Note, what, why).source(SOURCE)));
    }
    if group.iter().any(|feature| feature.refused) {
        let what = format!(
            "{short} of {name} was asked for and is off: the driver, or another offload, refuses it"
        );
        return Ok(Some(found(Note, what, why).source(SOURCE)));
    }
    // Some of its chips stop sending with these, so that the driver leaves them off (r8169_main.c). gso needs sg.
    let is_r8169 = nic.driver.as_deref() == Some("r8169");
    if is_r8169 && matches!(short, "tso" | "sg" | "gso") {
        let what = format!("{short} of {name} is off");
        let why = format!(
            "{why}; the driver r8169 leaves it off, as transmit timeouts were seen with it"
        );
        return Ok(Some(found(Note, what, why).source(SOURCE)));
    }
    // An interface within the kernel hands on whole trains, with their checksums still to be made.
    let receives = matches!(short, "gro" | "rx-checksum");
    let severity = if receives && !case.is_card()? { Note } else { Warning };
    let switch = |on| format!("ethtool -K {name} {} {on}", word(short));
    Ok(Some(
        found(severity, format!("{short} of {name} is off"), why)
            .run(switch("on"), switch("off"))
            .set(&format!("offload.{short}"), SettingValue::Switch(true))
            .source(SOURCE),
    ))
}

/// ethtool's word.
fn word(short: &str) -> &str {
    match short {
        "tx-checksum" => "tx",
        "rx-checksum" => "rx",
        other => other,
    }
}

fn udp_gro_forwarding(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let feature = "rx-udp-gro-forwarding";
    // A host without IPv6 forwards none of it.
    let forwards_v6 = case.number("net.ipv6.conf.all.forwarding").is_ok_and(|on| on > 0);
    if case.is_local() || (!forwards_v6 && case.number("net.ipv4.ip_forward")? == 0) {
        return Ok(None);
    }
    let nic = case.nic()?;
    let features = case.host.device.features.get()?;
    let off = features.iter().any(|f| f.name == feature && !f.on && f.changeable != Some(false));
    let switch = |on| format!("ethtool -K {} {feature} {on}", nic.name);
    Ok(off.then(|| {
        found(
            Note,
            format!("this host forwards, and {feature} of {} is off", nic.name),
            "UDP that it forwards goes through the stack packet by packet",
        )
        .run(switch("on"), switch("off"))
        .set(&format!("offload.{feature}"), SettingValue::Switch(true))
        .source(SOURCE)
    }))
}
