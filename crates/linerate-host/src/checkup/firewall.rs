//! Filters and connection tracking of this network namespace.

use linerate_model::doctor::{Fact, FirewallDetails};
use nix::errno::Errno;

use crate::netlink::nftables::{self, Ruleset};
use crate::roots::Roots;

pub(super) fn details(roots: &Roots) -> FirewallDetails {
    let number = |name: &str| {
        let file = format!("proc/sys/net/netfilter/{name}");
        roots.number::<u64>(&file).ok_or_else(|| format!("there is no /{file}"))
    };
    let (entries, rules) = (number("nf_conntrack_count"), rules(roots));
    // The kernel tracks in a namespace once a rule there asks for it.
    let tracks = match (&entries, &rules) {
        (Err(_), _) => Ok(false),
        (Ok(1..), _) => Ok(true),
        (Ok(0), rules) => rules.as_ref().map(|rules| rules.tracks).map_err(String::clone),
    };
    FirewallDetails {
        rules: rules.map(|rules| rules.rules).into(),
        tracks: tracks.into(),
        entries: entries.into(),
        most_entries: Fact::from(number("nf_conntrack_max")),
    }
}

fn rules(roots: &Roots) -> Result<Ruleset, String> {
    for file in ["ip_tables_names", "ip6_tables_names"] {
        let names = roots.read(&format!("proc/thread-self/net/{file}")).unwrap_or_default();
        if let Some(name) = names.lines().next() {
            return Err(format!("iptables-legacy has a table {name}, which is not read"));
        }
    }
    match nftables::read() {
        Ok(rules) => Ok(rules),
        // This kernel has no nftables.
        Err(refusal) if matches!(refusal.errno, Errno::EINVAL | Errno::EOPNOTSUPP) => {
            Ok(Ruleset::default())
        }
        Err(refusal) if refusal.errno == Errno::EPERM => {
            Err("to list the rules of nftables needs CAP_NET_ADMIN".to_owned())
        }
        Err(refusal) => Err(format!("the kernel does not list the rules of nftables: {refusal}")),
    }
}
