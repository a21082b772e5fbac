//! The kernel's own receiving: its budget, and the backlog of each core.

use linerate_model::doctor::Severity::{Note, Warning};

use crate::Check;
use crate::case::Case;
use crate::draft::{Draft, found};

pub(crate) const CHECKS: &[Check] = &[
    Check {
        id: "softnet.budget",
        judge: |case| {
            let why = "a softirq ends before the ring is empty, and the rest waits for its turn among threads";
            least(case, "net.core.netdev_budget", 300, why)
        },
    },
    Check {
        id: "softnet.budget-time",
        judge: |case| {
            let why = "a softirq ends before the ring is empty, and the rest waits for its turn among threads";
            least(case, "net.core.netdev_budget_usecs", 2_000, why)
        },
    },
    Check {
        id: "softnet.backlog",
        judge: |case| {
            let why = "a core that is busy drops what RPS or a virtual interface hands to it";
            least(case, "net.core.netdev_max_backlog", 1_000, why)
        },
    },
    Check { id: "softnet.dropped", judge: dropped },
    Check { id: "softnet.squeezed", judge: squeezed },
];

const SOURCE: &str = "Documentation/admin-guide/sysctl/net.rst";

/// A parameter below what every kernel starts with.
fn least(case: &Case<'_>, name: &str, usual: u64, why: &str) -> Result<Option<Draft>, String> {
    let now = case.number(name)?;
    Ok((now < usual).then(|| {
        found(Warning, format!("{name} is {now}; the kernel starts with {usual} or more"), why)
            .sysctl(name, &now.to_string(), &usual.to_string())
            .source(SOURCE)
    }))
}

fn dropped(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let watched = case.host.watched.get()?;
    let dropped = watched.softnet_dropped.ok_or("the counter is not there")?;
    let (name, now) = ("net.core.netdev_max_backlog", case.number("net.core.netdev_max_backlog"));
    Ok((dropped > 0).then(|| {
        let draft = found(
            Warning,
            format!(
                "backlogs of this host's cores dropped {dropped} packets in {} ms",
                watched.for_ms
            ),
            "a core had more to receive than it could",
        );
        let draft = match now {
            Ok(now) => draft.sysctl(name, &now.to_string(), &now.saturating_mul(4).to_string()),
            Err(_) => draft,
        };
        draft.source("measured while it was watched: /proc/net/softnet_stat")
    }))
}

fn squeezed(case: &Case<'_>) -> Result<Option<Draft>, String> {
    let watched = case.host.watched.get()?;
    let squeezed = watched.softnet_squeezed.ok_or("the counter is not there")?;
    let name = "net.core.netdev_budget";
    let now = case.number(name);
    Ok((squeezed > 0).then(|| {
        let draft = found(
            Note,
            format!("softirqs ran out of budget or time {squeezed} times in {} ms", watched.for_ms),
            "what was left waited for another turn; it is no loss by itself",
        );
        let draft = match now {
            Ok(now) => draft.sysctl(name, &now.to_string(), &now.saturating_mul(2).to_string()),
            Err(_) => draft,
        };
        draft.source("measured while it was watched: time_squeeze of /proc/net/softnet_stat")
    }))
}
