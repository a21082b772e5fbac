//! `linerate fleet hosts`: the agents of a broker.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use linerate_broker::{Broker, Credentials, Seen};
use linerate_fleet::health::state;
use linerate_model::exit::Exit;
use linerate_model::fleet_agents::{FORMAT, FleetAgent, FleetHosts};
use linerate_model::record::{ErrorKind, ErrorRecord, ProgramFacts};
use linerate_report::fleet::agents::{details, rows};
use linerate_report::run::json;

use super::args::HostsArgs;
use super::broker::{credentials, millis, moment, runtime};
use crate::output::{self, Look};

/// Prometheus gives up after 10 s (`scrape_timeout`).
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the verb.
pub fn run(args: &HostsArgs, look: Look) -> Result<Exit, ErrorRecord> {
    let credentials = credentials(&args.dir)?;
    let mut document = runtime()?.block_on(async {
        let broker = Broker::connect(&credentials).await?;
        broker.make_streams(millis()).await?;
        document(&broker).await
    })?;
    if let Some(host) = &args.host {
        document.agents.retain(|agent| agent.name == *host);
        if document.agents.is_empty() {
            let what = format!("cannot show the agent {host}");
            let (why, hint) = ("the broker knows none of this name", "linerate fleet hosts DIR");
            return Err(ErrorRecord::new(ErrorKind::UnknownHost, what, why, &[hint]));
        }
    }
    let shown = match (args.json, args.verbose || args.host.is_some()) {
        (true, _) => json::document(&document).map_err(|why| output::failed(&why, &[]))?,
        (false, true) => details(&document, look.layout()),
        (false, false) => rows(&document, look.layout()),
    };
    output::print(shown.as_bytes())
}

/// What the broker says to whoever asks now and then; nothing where it does not answer. What it keeps is not made.
pub fn asked(credentials: &Credentials) -> Option<FleetHosts> {
    let answer = async { document(&Broker::connect(credentials).await?).await };
    let answer = async { tokio::time::timeout(PATIENCE, Box::pin(answer)).await };
    let runtime = runtime().ok()?;
    let answer = runtime.block_on(answer);
    // A name that is still looked up is not waited for.
    runtime.shutdown_background();
    answer.ok()?.ok()
}

/// What the broker knows.
pub async fn document(broker: &Broker) -> Result<FleetHosts, ErrorRecord> {
    let (enrolled, seen) = (broker.enrolled().await?, broker.seen().await?);
    let leased = broker.leased().await?;
    let now = leased.now.parse::<Timestamp>().ok();
    let since = |at: Timestamp| now.map(|now| now.duration_since(at).as_secs());
    let mut agents: BTreeMap<String, FleetAgent> = BTreeMap::new();
    for (name, hosts) in enrolled {
        let Some(host) = hosts.last() else { continue };
        let expires = host.expires_s.and_then(moment);
        let agent = FleetAgent {
            name: name.clone(),
            enrolled: moment(host.at_s).map(|at| at.to_string()),
            expires: expires.map(|at| at.to_string()),
            expires_in_s: expires.and_then(since).map(i64::saturating_neg),
            ..FleetAgent::default()
        };
        agents.insert(name, agent);
    }
    for Seen { name, at, heartbeat } in seen {
        let agent = agents.entry(name.clone()).or_default();
        let heard = at.parse::<Timestamp>().ok();
        agent.heard_s = heard.and_then(since).map(|seconds| u64::try_from(seconds).unwrap_or(0));
        (agent.name, agent.heard, agent.said) = (name, Some(at), Some(heartbeat));
    }
    for agent in agents.values_mut() {
        agent.state = state(agent.heard_s, leased.hosts.contains(&agent.name));
    }
    Ok(FleetHosts {
        format: FORMAT,
        kind: "fleet_hosts".to_owned(),
        linerate: ProgramFacts { version: env!("CARGO_PKG_VERSION").to_owned() },
        broker_version: broker.version(),
        agents: agents.into_values().collect(),
        at: leased.now,
    })
}
