//! What happened in a fleet of agents, as text: a line each.

use linerate_model::fleet_events::{FleetEntry, FleetEvent, FleetEvents};

use crate::clean::clean;
use crate::run::words::plural;

/// A line each, the oldest first; then what is not there.
pub fn text(document: &FleetEvents) -> String {
    let mut out = String::new();
    for FleetEntry { by, said, .. } in &document.events {
        let (name, words) = words(&said.event);
        let line = format!("{}  {by:<12}  {name:<10}  {words}", moment(&said.at));
        out.push_str(&format!("{}\n", clean(line.trim_end())));
    }
    let events = plural(document.events.len() as u64, "event");
    out.push_str(&format!("{events} since {}", clean(&document.since)));
    for (count, words) in
        [(document.left_out, "earlier ones left out"), (document.unread, "not understood")]
    {
        if count > 0 {
            out.push_str(&format!("; {count} {words}"));
        }
    }
    out.push('\n');
    out
}

/// To the second, where it is a moment in UTC with a fraction.
fn moment(at: &str) -> String {
    match at.split_once('.') {
        Some((seconds, rest)) if rest.ends_with('Z') => format!("{seconds}Z"),
        _ => at.to_owned(),
    }
}

/// What it is called, and the rest.
fn words(event: &FleetEvent) -> (&'static str, String) {
    match event {
        FleetEvent::Granted { turn, lease, takes, seconds } => {
            ("granted", format!("lease {lease} for {seconds} s: {} ({turn})", takes.join(", ")))
        }
        FleetEvent::GivenBack { turn, lease } => ("given back", format!("lease {lease} ({turn})")),
        FleetEvent::Over { turn, lease } => {
            ("over", format!("lease {lease}, not given back ({turn})"))
        }
        FleetEvent::Enrolled { agent, key, expires } => {
            let until = expires.as_ref().map(|at| format!(", until {at}")).unwrap_or_default();
            ("enrolled", format!("{agent} with the key {key}{until}"))
        }
        FleetEvent::Revoked { agent, keys } => {
            ("revoked", format!("{agent} with the keys {}", keys.join(", ")))
        }
        FleetEvent::Refused { ground, why, lease, turn } => {
            let turn = turn.as_ref().map(|turn| format!(" ({turn})")).unwrap_or_default();
            ("refused", format!("by {}, lease {lease}{turn}: {why}", ground.name()))
        }
        FleetEvent::Came { version, address } => {
            ("came", format!("linerate {version} at {address}"))
        }
        FleetEvent::Went => ("went", String::new()),
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::fleet_events::{FORMAT, FleetSaid, RefusalGround};
    use linerate_model::record::ProgramFacts;

    use super::*;

    #[test]
    fn a_line_each_and_what_is_not_there() {
        let (turn, agent) = ("5f-1.0.1".to_owned(), "rack-1".to_owned());
        let entry = |by: &str, event| FleetEntry {
            kept: "2026-01-01T00:00:00.5Z".into(),
            by: by.into(),
            said: FleetSaid { at: "2026-01-01T00:00:00.123456789Z".into(), event },
        };
        let takes = vec!["host:rack-1".into(), "host:rack-2".into()];
        let events = vec![
            entry(
                "operator",
                FleetEvent::Enrolled { agent: agent.clone(), key: "UA".into(), expires: None },
            ),
            entry(
                "rack-1",
                FleetEvent::Came { version: "0.1.0".into(), address: "h\u{1b}[2J".into() },
            ),
            entry(
                "operator",
                FleetEvent::Granted { turn: turn.clone(), lease: 17, takes, seconds: 41 },
            ),
            entry(
                "rack-1",
                FleetEvent::Refused {
                    ground: RefusalGround::Policy,
                    why: "it allows no test of tcp".into(),
                    lease: 17,
                    turn: Some(turn.clone()),
                },
            ),
            entry("operator", FleetEvent::GivenBack { turn: turn.clone(), lease: 17 }),
            entry("operator", FleetEvent::Over { turn, lease: 18 }),
            entry("operator", FleetEvent::Revoked { agent, keys: vec!["UA".into(), "UB".into()] }),
            entry("rack-1", FleetEvent::Went),
        ];
        let document = FleetEvents {
            format: FORMAT,
            kind: "fleet_events".into(),
            linerate: ProgramFacts { version: "0.1.0".into() },
            since: "2025-12-31T00:00:00Z".into(),
            left_out: 3,
            unread: 1,
            events,
        };
        insta::assert_snapshot!(text(&document), @"
        2026-01-01T00:00:00Z  operator      enrolled    rack-1 with the key UA
        2026-01-01T00:00:00Z  rack-1        came        linerate 0.1.0 at h[2J
        2026-01-01T00:00:00Z  operator      granted     lease 17 for 41 s: host:rack-1, host:rack-2 (5f-1.0.1)
        2026-01-01T00:00:00Z  rack-1        refused     by policy, lease 17 (5f-1.0.1): it allows no test of tcp
        2026-01-01T00:00:00Z  operator      given back  lease 17 (5f-1.0.1)
        2026-01-01T00:00:00Z  operator      over        lease 18, not given back (5f-1.0.1)
        2026-01-01T00:00:00Z  operator      revoked     rack-1 with the keys UA, UB
        2026-01-01T00:00:00Z  rack-1        went
        8 events since 2025-12-31T00:00:00Z; 3 earlier ones left out; 1 not understood
        ");
    }
}
