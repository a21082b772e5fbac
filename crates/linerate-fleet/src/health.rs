//! Whether the agents of a fleet and their broker are well: what was asked of the broker in, findings out.

mod agents;
mod broker;

use linerate_model::doctor::Severity;
use linerate_model::fleet_agents::AgentState;
use linerate_model::fleet_doctor::{FleetFacts, FleetFinding, FleetJudged, FleetUnlooked};

pub use self::broker::{TESTED, release};

/// An agent that has nothing to do speaks every 5 s, and is back within half a minute where its connection was lost.
const SILENT_S: u64 = 60;

/// What an agent does that spoke `heard_s` seconds ago, or never; `leased` is whether somebody has a lease of it.
pub fn state(heard_s: Option<u64>, leased: bool) -> AgentState {
    match heard_s {
        _ if leased => AgentState::Leased,
        None => AgentState::Unheard,
        Some(SILENT_S..) => AgentState::Silent,
        Some(_) => AgentState::Idle,
    }
}

/// Makes every check.
pub fn judge(facts: &FleetFacts) -> FleetJudged {
    let mut judged = FleetJudged::default();
    for (id, check) in broker::CHECKS {
        take(&mut judged, id, check(&facts.broker));
    }
    for agent in &facts.agents {
        for (id, check) in agents::CHECKS {
            take(&mut judged, id, check(agent));
        }
    }
    for (id, check) in agents::OF_ALL {
        take(&mut judged, id, check(&facts.agents));
    }
    // Of one severity in the order of the checks.
    judged.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    judged
}

/// A check: its stable name, and what it makes of `T`.
type Check<T> = (&'static str, fn(&T) -> Found);

/// What a check makes of what it looks at. What it needs and does not know is an error.
type Found = Result<Option<Draft>, String>;

/// A finding before it has a name.
struct Draft {
    agents: Vec<String>,
    severity: Severity,
    what: String,
    why: &'static str,
    change: Vec<String>,
}

impl Draft {
    fn new(severity: Severity, what: impl Into<String>, why: &'static str) -> Self {
        Self { agents: Vec::new(), severity, what: what.into(), why, change: Vec::new() }
    }

    fn of(mut self, agents: &[&str]) -> Self {
        self.agents = agents.iter().map(|agent| (*agent).to_owned()).collect();
        self
    }

    fn run(mut self, change: impl Into<String>) -> Self {
        self.change.push(change.into());
        self
    }
}

fn take(judged: &mut FleetJudged, id: &str, found: Found) {
    judged.checks = judged.checks.saturating_add(1);
    let id = id.to_owned();
    match found {
        Ok(None) => {}
        Ok(Some(Draft { agents, severity, what, why, change })) => {
            let why = why.to_owned();
            judged.findings.push(FleetFinding { id, agents, severity, what, why, change });
        }
        Err(why) => judged.unknown.push(FleetUnlooked { id, why }),
    }
}

/// A time in the largest unit of which there are two.
fn long(seconds: u64) -> String {
    let units = [(86_400, "days"), (3_600, "hours"), (60, "minutes")];
    let fits = units.into_iter().find(|(size, _)| seconds >= size * 2);
    fits.map_or_else(|| format!("{seconds} s"), |(size, name)| format!("{} {name}", seconds / size))
}

#[cfg(test)]
mod tests;
