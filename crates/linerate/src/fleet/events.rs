//! `linerate fleet events`: what happened.

use std::collections::{BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};
use linerate_broker::Broker;
use linerate_model::exit::Exit;
use linerate_model::fleet_events::{FORMAT, FleetEntry, FleetEvent, FleetEvents};
use linerate_model::record::{ErrorRecord, ProgramFacts};
use linerate_report::fleet::events::text;
use linerate_report::run::json;
use linerate_runner::clock;

use super::args::EventsArgs;
use super::broker::{credentials, millis, runtime};
use crate::output;

/// Of more only the last are shown: 30 MB of JSON.
const MOST: usize = 100_000;

/// Runs the verb.
pub fn run(args: &EventsArgs) -> Result<Exit, ErrorRecord> {
    let credentials = credentials(&args.dir)?;
    let back = SignedDuration::from_secs(i64::try_from(args.since).unwrap_or(i64::MAX));
    // Further back than the calendar goes is from its beginning.
    let since = clock::wall().checked_sub(back).unwrap_or(Timestamp::UNIX_EPOCH);
    let since = since.max(Timestamp::UNIX_EPOCH).to_string();
    let (mut events, mut left_out) = (VecDeque::new(), 0_u64);
    let mut leases = BTreeSet::new();
    let take = |entry: FleetEntry| {
        let event = &entry.said.event;
        if args
            .agent
            .as_ref()
            .is_some_and(|name| entry.by != *name && !is_about(event, name, &mut leases))
        {
            return;
        }
        if events.len() >= MOST {
            events.pop_front();
            left_out = left_out.saturating_add(1);
        }
        events.push_back(entry);
    };
    let unread = runtime()?.block_on(async {
        let broker = Broker::connect(&credentials).await?;
        broker.make_streams(millis()).await?;
        broker.events(&since, take).await
    })?;
    let document = FleetEvents {
        format: FORMAT,
        kind: "fleet_events".to_owned(),
        linerate: ProgramFacts { version: env!("CARGO_PKG_VERSION").to_owned() },
        since,
        left_out,
        unread,
        events: events.into(),
    };
    let shown = match args.json {
        true => json::document(&document).map_err(|why| output::failed(&why, &[]))?,
        false => text(&document),
    };
    output::print(shown.as_bytes())
}

/// Whether the operator speaks of this agent; `leases` are those of it.
fn is_about(event: &FleetEvent, name: &str, leases: &mut BTreeSet<u64>) -> bool {
    match event {
        FleetEvent::Granted { takes, lease, .. } => {
            let takes = takes.iter().any(|what| what.strip_prefix("host:") == Some(name));
            takes && leases.insert(*lease)
        }
        FleetEvent::GivenBack { lease, .. } | FleetEvent::Over { lease, .. } => {
            leases.remove(lease)
        }
        FleetEvent::Enrolled { agent, .. } | FleetEvent::Revoked { agent, .. } => agent == name,
        FleetEvent::Refused { .. } | FleetEvent::Came { .. } | FleetEvent::Went => false,
    }
}
