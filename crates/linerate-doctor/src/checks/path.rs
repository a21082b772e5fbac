//! The link and the size of its packets.

use std::net::IpAddr;

use linerate_model::doctor::Severity::{Note, Problem, Warning};
use linerate_model::setting::SettingValue;

use crate::Check;
use crate::case::{Case, rate_words};
use crate::draft::{Draft, found};

pub(crate) const CHECKS: &[Check] = &[
    Check { id: "path.carrier", judge: carrier },
    Check { id: "path.duplex", judge: duplex },
    Check { id: "path.speed", judge: speed },
    Check { id: "path.mtu-mismatch", judge: mtu_mismatch },
    Check { id: "path.mtu-route", judge: mtu_route },
    Check { id: "path.black-hole", judge: black_hole },
    Check { id: "path.jumbo", judge: jumbo },
];

/// Ethernet's own, RFC 894.
const ETHERNET_MTU: u32 = 1_500;
/// Packets per second that one core handles one by one on common hosts with a full stack; above it, larger
/// packets are no luxury. See docs/doctor.md.
const MANY_PACKETS: u64 = 2_000_000;

fn carrier(case: &Case<'_>) -> Result<Option<Draft>, String> {
    if case.is_local() {
        return Ok(None);
    }
    let name = &case.nic()?.name;
    Ok((!*case.host.device.carrier.get()?).then(|| {
        found(Problem, format!("{name} has no carrier"), "nothing leaves by it")
            // It is up, or no route would use it: setting it up does nothing, and down would take its routes.
            .run(format!("ip link show dev {name}  # its cable, and the other end of it"), "")
            .source("netdevice(7), IFF_RUNNING")
    }))
}

fn duplex(case: &Case<'_>) -> Result<Option<Draft>, String> {
    if !case.is_card()? {
        return Ok(None);
    }
    let name = &case.nic()?.name;
    Ok((case.host.device.duplex.get()?.as_deref() == Some("half")).then(|| {
        found(
            Problem,
            format!("{name} runs at half duplex"),
            "both ends negotiated differently: frames collide, and both directions share one rate",
        )
        .run(
            format!("ethtool -s {name} autoneg on"),
            format!("ethtool -s {name} autoneg off duplex half"),
        )
        .source("IEEE 802.3 clause 28")
    }))
}

fn speed(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let (Some(rate), true) = (case.goal.rate_bps, case.is_card()?) else { return Ok(None) };
    let nic = case.nic()?;
    let mbps =
        nic.speed_mbps.ok_or_else(|| format!("the driver of {} tells no speed", nic.name))?;
    let bps = u64::from(mbps).saturating_mul(1_000_000);
    Ok((bps < rate).then(|| {
        found(
            Problem,
            format!("{} runs at {}", nic.name, rate_words(bps)),
            format!("{} do not fit through it", rate_words(rate)),
        )
        .run(format!("ethtool {}  # which speeds both ends offer", nic.name), "")
        .source("the driver's own figure")
    }))
}

fn mtu_mismatch(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let Some(other) = case.other.filter(|_| !case.is_local()) else { return Ok(None) };
    let nic = case.nic()?;
    let own = nic.mtu.ok_or("the MTU is not known")?;
    let far = other.host.nic.as_ref().and_then(|nic| nic.mtu);
    let far = far.ok_or("the MTU of the other host is not known")?;
    // Said once, of the host whose packets are too large; a route may hold them smaller than the interface does.
    let route_mtu = case.host.route.known().and_then(|route| route.mtu_bytes);
    let sends = own.min(route_mtu.unwrap_or(own));
    if sends <= far {
        return Ok(None);
    }
    let name = &nic.name;
    let one_link = case.is_one_link();
    let severity = if one_link { Warning } else { Note };
    let why = if one_link {
        "on one link nobody tells a sender that its packet was too large: datagrams that the other host does not take \
         vanish. TCP's two ends agree on the smaller of their sizes"
    } else {
        "a router between has to tell the sender; where its messages are filtered, large packets vanish"
    };
    Ok(Some(
        found(
            severity,
            format!("{name} sends packets of {sends} bytes, the other host takes {far}"),
            why,
        )
        .run(
            format!("ip link set dev {name} mtu {far}"),
            format!("ip link set dev {name} mtu {own}"),
        )
        .set("mtu", SettingValue::Number(u64::from(far)))
        .source("RFC 4821 section 1, RFC 8899"),
    ))
}

fn mtu_route(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let route = case.host.route.get()?;
    let nic = case.nic()?;
    let (Some(path), Some(own)) = (route.mtu_bytes, nic.mtu) else { return Ok(None) };
    Ok((path < own).then(|| {
        let to = route.to.map(|to| to.to_string()).unwrap_or_default();
        let by = if is_link_local(route.to) { format!(" oif {}", nic.name) } else { String::new() };
        found(
            Warning,
            format!("the route to {to} carries {path} bytes, {} {own}", nic.name),
            "larger datagrams are cut into fragments or refused, and any lost fragment loses the whole",
        )
        .run(format!("ip route get {to}{by}  # whether it was set by hand (`lock`) or learned"), "")
        .source("RFC 1191, RFC 8201, RFC 8900")
    }))
}

/// An address that every link has, so that commands need the interface beside it.
fn is_link_local(to: Option<IpAddr>) -> bool {
    matches!(to, Some(IpAddr::V6(to)) if to.is_unicast_link_local())
}

fn black_hole(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let route = case.host.route.get()?;
    if case.is_local() {
        return Ok(None);
    }
    let nic = case.nic()?;
    let get_through = route.full_packets.ok_or("no test with the other host showed it")?;
    // A path whose MTU is known is none.
    let known = route.mtu_bytes.is_some_and(|path| Some(path) < nic.mtu);
    let (Some(mtu), false, false) = (nic.mtu, get_through, known) else { return Ok(None) };
    let zone = if is_link_local(route.to) { format!("%{}", nic.name) } else { String::new() };
    let to = route.to.map(|to| format!("{to}{zone}")).unwrap_or_default();
    Ok(Some(
        found(
            Problem,
            format!("packets of {mtu} bytes do not reach {to}, small ones do"),
            "something on the way drops them and tells nobody: TCP stops at its first full packet, and larger datagrams \
             vanish",
        )
        .run(format!("tracepath -n {to}  # from where on nothing answers"), "")
        .source("RFC 2923 section 2.1, RFC 4821"),
    ))
}

fn jumbo(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let Some(rate) = case.goal.rate_bps.filter(|_| !case.is_local()) else { return Ok(None) };
    let nic = case.nic()?;
    let mtu = nic.mtu.ok_or("the MTU is not known")?;
    let packets = rate / u64::from(mtu.max(1)).saturating_mul(8);
    if mtu > ETHERNET_MTU || packets < MANY_PACKETS / 4 {
        return Ok(None);
    }
    let most = case.host.device.largest_mtu_bytes.get()?.unwrap_or(9_000).min(9_000);
    if most <= mtu {
        return Ok(None);
    }
    let severity = if packets >= MANY_PACKETS { Warning } else { Note };
    let name = &nic.name;
    let draft = found(
        severity,
        format!("packets of {name} have {mtu} bytes: {} are {packets} a second", rate_words(rate)),
        "each packet costs CPU at both ends; the whole path, switches too, has to take larger ones",
    );
    let draft = match case.host.device.kind.get()?.as_deref() {
        None | Some("veth") => draft
            .run(
                format!("ip link set dev {name} mtu {most}"),
                format!("ip link set dev {name} mtu {mtu}"),
            )
            .set("mtu", SettingValue::Number(u64::from(most))),
        Some(kind) => draft.run(what_is_below(kind, name), ""),
    };
    Ok(Some(draft.source("ESnet, fasterdata.es.net: MTU issues")))
}

/// What to look at where other interfaces carry the packets of one: the kernel refuses a larger MTU, or drops or cuts
/// what is larger, as long as these do not take it.
fn what_is_below(kind: &str, name: &str) -> String {
    match kind {
        "bridge" | "bond" | "team" => {
            format!(
                "ip link show master {name}  # its ports: each has to take larger ones before it does"
            )
        }
        "vlan" | "macvlan" | "macvtap" | "ipvlan" | "ipvtap" | "macsec" => format!(
            "ip link show dev {name}  # after @ the interface below it, which has to take larger ones before it does"
        ),
        _ => format!(
            "ip -d link show dev {name}  # what carries its packets has to take larger ones, with the header of {kind}, \
             before it does"
        ),
    }
}
