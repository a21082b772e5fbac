//! Filters and connection tracking on the path.

use linerate_model::doctor::Severity::{Note, Problem, Warning};

use crate::Check;
use crate::case::Case;
use crate::draft::{Draft, found};

pub(crate) const CHECKS: &[Check] = &[
    Check { id: "firewall.conntrack", judge: conntrack },
    Check { id: "firewall.conntrack-full", judge: conntrack_full },
    Check { id: "firewall.rules", judge: rules },
];

/// Rules are looked at one by one for each packet, unless they use sets.
const MANY_RULES: u32 = 100;
const MAX: &str = "net.netfilter.nf_conntrack_max";

fn conntrack(case: &Case<'_>) -> Result<Option<Draft>, String> {
    if !*case.host.firewall.tracks.get()? {
        return Ok(None);
    }
    let severity = if case.wants_gbit(1) { Warning } else { Note };
    Ok(Some(
        found(
            severity,
            "connections are tracked on this path",
            "each packet is looked up in a table that all cores share, and a new flow needs a place in it",
        )
        .run(
            "nft list ruleset  # which of its rules ask for ct; where none needs to, notrack in a raw chain of the test's \
             port leaves it out, but a filter that lets established connections in drops what is not tracked",
            "",
        )
        .source("nft(8), notrack"),
    ))
}

fn conntrack_full(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let firewall = &case.host.firewall;
    if !*firewall.tracks.get()? {
        return Ok(None);
    }
    let (entries, most) = (*firewall.entries.get()?, *firewall.most_entries.get()?);
    if most == 0 || entries.saturating_mul(10) < most.saturating_mul(9) {
        return Ok(None);
    }
    let then = most.saturating_mul(4).to_string();
    Ok(Some(
        found(
            Problem,
            format!("{entries} connections are tracked, of {most} that can be"),
            "packets of new flows are dropped when the table is full",
        )
        .run(format!("sysctl -w {MAX}={then}"), format!("sysctl -w {MAX}={most}"))
        .source("Documentation/networking/nf_conntrack-sysctl.rst"),
    ))
}

fn rules(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let rules = *case.host.firewall.rules.get()?;
    if rules == 0 {
        return Ok(None);
    }
    let severity = if rules > MANY_RULES { Warning } else { Note };
    Ok(Some(
        found(
            severity,
            format!("{rules} rules of a packet filter are loaded"),
            "each packet meets the rules of its hooks one after the other, and one may drop the test's",
        )
        .run("nft list ruleset  # what of it the path needs; sets and maps take the place of many rules", "")
        .source("nft(8)"),
    ))
}
