//! What is looked at of agents.

use std::collections::BTreeMap;

use linerate_model::doctor::Severity::{Note, Problem, Warning};
use linerate_model::fleet_agents::{AgentState, FleetAgent, Heartbeat, Nat};

use super::{Check, Draft, Found, long};

/// A run that goes on takes a result within seconds; one that nobody took for so long waits for `--resume`.
const OLD_S: u64 = 3_600;
/// Agents and broker forget a result after a week: two days are left.
const ALMOST_FORGOTTEN_S: u64 = 5 * 86_400;
/// What may be done about an end takes as long as this.
const SOON_S: i64 = 30 * 86_400;
/// Too late for many to notice in time.
const VERY_SOON_S: i64 = 3 * 86_400;
/// Agents that are named in words; all of them are in the document.
const MOST_NAMED: usize = 8;

pub(super) const CHECKS: [Check<FleetAgent>; 6] = [
    ("agent.silent", silent),
    ("agent.outbox-old", old),
    ("agent.outbox-growing", growing),
    ("agent.policy", policy),
    ("agent.clock", clock),
    ("agent.expires", expires),
];

pub(super) const OF_ALL: [Check<[FleetAgent]>; 2] =
    [("fleet.versions", versions), ("fleet.nat", nat)];

fn silent(agent: &FleetAgent) -> Found {
    let name = agent.name.as_str();
    let what = match (agent.state, agent.heard_s, &agent.heard) {
        (AgentState::Silent, Some(seconds), Some(at)) => {
            format!("{name} has not been heard for {}, since {at}", long(seconds))
        }
        (AgentState::Silent, ..) => format!("{name} has not been heard for a minute or longer"),
        (AgentState::Unheard, ..) => {
            format!("{name} is enrolled, and has not been heard since the broker was started")
        }
        (AgentState::Idle | AgentState::Leased, ..) => return Ok(None),
    };
    Ok(Some(
        Draft::new(
            Warning,
            what,
            "its pairs are not measured, and what it has measured waits on its disk",
        )
        .of(&[name])
        .run(format!("on {name}: systemctl status linerate-agent; journalctl -u linerate-agent"))
        .run(format!("linerate fleet revoke DIR {name}, if it is not to come back")),
    ))
}

fn said(agent: &FleetAgent) -> Option<&Heartbeat> {
    agent.said.as_ref()
}

fn old(agent: &FleetAgent) -> Found {
    // Of one that is silent it has waited since as well.
    let oldest_s = said(agent).and_then(|beat| beat.oldest_s);
    let oldest_s = oldest_s.map(|seconds| seconds.saturating_add(agent.heard_s.unwrap_or(0)));
    Ok(oldest_s.filter(|seconds| *seconds >= OLD_S).map(|seconds| {
        let name = agent.name.as_str();
        let severity = if seconds >= ALMOST_FORGOTTEN_S { Problem } else { Warning };
        let results = match said(agent).map_or(0, |beat| beat.waiting) {
            1 => "1 result".to_owned(),
            count => format!("{count} results"),
        };
        Draft::new(
            severity,
            format!("{name} has {results} that no store has, the oldest for {}", long(seconds)),
            "nobody has taken them, and after a week agents and broker forget them",
        )
        .of(&[name])
        .run("linerate fleet run --resume with the words and the file of the run that asked for them")
    }))
}

fn growing(agent: &FleetAgent) -> Found {
    let Some(beat) = said(agent) else { return Ok(None) };
    let more = beat.waiting_before.filter(|before| beat.waiting > *before);
    // In the middle of a run some always wait.
    let stays = beat.oldest_s.is_some_and(|seconds| seconds >= 600);
    Ok(more.filter(|_| stays).map(|before| {
        let name = agent.name.as_str();
        Draft::new(
            Warning,
            format!("results wait on {name}, and become more: {before} before, {} now", beat.waiting),
            "tests go on while nobody keeps what comes of them: the run's store cannot be written, or the broker not be reached",
        )
        .of(&[name])
        .run("the output of the run or schedule that measures it")
        .run(format!("on {name}: journalctl -u linerate-agent"))
    }))
}

fn policy(agent: &FleetAgent) -> Found {
    let none = said(agent).is_some_and(|beat| !beat.policy);
    Ok(none.then(|| {
        let name = agent.name.as_str();
        Draft::new(
            Warning,
            format!("{name} has no policy, or one with a line that is not understood"),
            "it refuses every test",
        )
        .of(&[name])
        .run(format!(
            "on {name}: /etc/linerate/policy.toml, or the file of --policy; its log says which line"
        ))
    }))
}

fn clock(agent: &FleetAgent) -> Found {
    let inventory = said(agent).and_then(|beat| beat.inventory.as_ref());
    let keepers = inventory.and_then(|inventory| inventory.clock_keepers.as_ref());
    Ok(keepers.filter(|keepers| keepers.is_empty()).map(|_| {
        let name = agent.name.as_str();
        Draft::new(
            Note,
            format!("on {name} no program that keeps the clock in step was seen running"),
            "one-way delays hold two clocks' difference, and its log is hard to lay beside others; rates and round trips do not mind",
        )
        .of(&[name])
        .run(format!("on {name}: systemctl start chronyd, or another NTP or PTP client"))
    }))
}

fn expires(agent: &FleetAgent) -> Found {
    let Some(left_s) = agent.expires_in_s.filter(|left_s| *left_s < SOON_S) else {
        return Ok(None);
    };
    let name = agent.name.as_str();
    let what = match u64::try_from(left_s) {
        Ok(left_s) => format!("the broker lets {name} in for {} more", long(left_s)),
        Err(_) => format!("the broker lets {name} in no more: what it was enrolled for is over"),
    };
    let severity = if left_s < VERY_SOON_S { Problem } else { Warning };
    Ok(Some(
        Draft::new(severity, what, "it is cut off then, also in the middle of a test")
            .of(&[name])
            .run(format!("linerate fleet enrol DIR {name} --lifetime 8760h"))
            .run(format!("on {name}: linerate agent --enrol TOKEN, and start it again")),
    ))
}

fn versions(agents: &[FleetAgent]) -> Found {
    let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, beat) in agents.iter().filter_map(|agent| Some((agent.name.as_str(), said(agent)?)))
    {
        of.entry(beat.version.as_str()).or_default().push(name);
    }
    // Those that fewest have.
    let usual = of.values().map(Vec::len).max().unwrap_or(0);
    let Some(most) = of.iter().find(|(_, names)| names.len() == usual).map(|(version, _)| *version)
    else {
        return Ok(None);
    };
    let others: Vec<&str> = of
        .iter()
        .filter(|(version, _)| **version != most)
        .flat_map(|(_, names)| names)
        .copied()
        .collect();
    let words: Vec<String> =
        of.iter().map(|(version, names)| format!("{version} on {}", listed(names))).collect();
    Ok((of.len() > 1).then(|| {
        Draft::new(
            Note,
            format!("agents are of different releases: {}", words.join("; ")),
            "both ends of a test agree on what the older one knows, and figures of two releases are not always alike",
        )
        .of(&others)
        .run("the same release on all of them")
    }))
}

fn nat(agents: &[FleetAgent]) -> Found {
    let behind =
        |agent: &&FleetAgent| said(agent).is_some_and(|beat| beat.nat == Some(Nat::Behind));
    let names: Vec<&str> = agents.iter().filter(behind).map(|agent| agent.name.as_str()).collect();
    let shown = listed(&names);
    Ok(match names.len() {
        0 => None,
        1 => Some(
            Draft::new(
                Note,
                format!("{shown} is behind NAT"),
                "it can be the client of a pair; its server is reached only where its --port is forwarded to it",
            )
            .of(&names)
            .run(format!("--pairs with {shown} before the slash, and without --each-way")),
        ),
        _ => Some(
            Draft::new(
                Warning,
                format!("{shown} are behind NAT: pairs of two of them cannot be measured"),
                "neither reaches the other's server, and nothing relays tests",
            )
            .of(&names)
            .run(format!("--pairs bipartite={}/OTHER,OTHER", first(&names, ",", ",…")))
            .run("--address and --port of an agent whose port is forwarded to it"),
        ),
    })
}

/// Names, of many the first.
fn listed(names: &[&str]) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    first(names, ", ", &format!(" and {more} more"))
}

/// The same with these words between them, and for all others.
fn first(names: &[&str], between: &str, others: &str) -> String {
    let shown = names.get(..MOST_NAMED).unwrap_or(names).join(between);
    if names.len() > MOST_NAMED { format!("{shown}{others}") } else { shown }
}
