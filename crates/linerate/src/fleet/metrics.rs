//! `fleet serve --metrics`: what a file of results says, for Prometheus.

use std::collections::HashMap;

use linerate_analysis::metric;
use linerate_model::fleet::{FleetAnswer, FleetDocument, FleetPair, FleetRole};
use linerate_model::fleet_agents::FleetHosts;
use linerate_model::fleet_now::{FleetNow, FleetTest};
use prometheus::{Gauge, GaugeVec, Opts, Registry, TextEncoder};

use crate::probe::base;

const PAIR: &[&str] = &["from", "to"];

const TIMESTAMP: (&str, &str) = (
    "linerate_fleet_result_timestamp_seconds",
    "When the last test of the pair with a result began, seconds since 1970.",
);
const KEPT: (&str, &str) =
    ("linerate_fleet_tests_kept", "Tests that ended and are kept, by whether they had a result.");
const BAD_HOST: (&str, &str) =
    ("linerate_fleet_bad_host", "A host that is bad, and in which part; always 1.");
const BAD_LINK: (&str, &str) = ("linerate_fleet_bad_link", "A link that is bad; always 1.");
const JUDGED: (&str, &str) =
    ("linerate_fleet_judged", "Whether bad hosts or links can be told of these results, 0 or 1.");
const CHANGED: (&str, &str) =
    ("linerate_fleet_changed_level", "Which way the level of the pair changed last; always 1.");
const PAIRS: (&str, &str) = ("linerate_fleet_pairs", "Pairs that are measured.");
const TIMES: (&str, &str) = ("linerate_fleet_times", "How often each is to be measured.");
const ROUNDS: (&str, &str) = ("linerate_fleet_rounds", "Rounds so far.");
const MISSING: (&str, &str) =
    ("linerate_fleet_missing_results", "Results of all pairs at all times that are not there.");
const RUNNING: (&str, &str) = ("linerate_fleet_running", "Whether a run writes the file, 0 or 1.");
const UNDER_WAY: (&str, &str) = ("linerate_fleet_tests", "Tests that run now.");
const BROKER: (&str, &str) =
    ("linerate_fleet_broker_up", "Whether the broker says what it knows of its agents, 0 or 1.");
const STATE: (&str, &str) =
    ("linerate_fleet_agent_state", "What the agent does, as `linerate fleet hosts`; always 1.");
const SILENCE: (&str, &str) = (
    "linerate_fleet_agent_silence_seconds",
    "How long ago the agent was heard last, by the broker's clock.",
);
const WAITING: (&str, &str) = (
    "linerate_fleet_agent_waiting_results",
    "Results on the agent that no store had when it was heard last.",
);
const OLDEST: (&str, &str) = (
    "linerate_fleet_agent_oldest_result_seconds",
    "How long the oldest of them had waited then; absent where none did.",
);

/// Names of all but the figure itself.
#[cfg(test)]
pub const NAMES: &[(&str, &str)] = &[
    TIMESTAMP, KEPT, BAD_HOST, BAD_LINK, JUDGED, CHANGED, PAIRS, TIMES, ROUNDS, MISSING, RUNNING,
    UNDER_WAY, BROKER, STATE, SILENCE, WAITING, OLDEST,
];

/// Metrics of one answer.
struct Making(Registry);

impl Making {
    fn of_labels(
        &self,
        (name, help): (&str, &str),
        labels: &[&str],
    ) -> prometheus::Result<GaugeVec> {
        let gauge = GaugeVec::new(Opts::new(name, help), labels)?;
        self.0.register(Box::new(gauge.clone()))?;
        Ok(gauge)
    }

    fn whole(&self, (name, help): (&str, &str), value: usize) -> prometheus::Result<()> {
        let gauge = Gauge::new(name, help)?;
        gauge.set(value as f64);
        self.0.register(Box::new(gauge))
    }
}

/// What the file says, in the text format of Prometheus. A pair without any result has no figure, as that is no 0.
/// `asked` is what came of asking a broker, if one is asked.
pub fn text(now: &FleetNow, asked: Option<Option<FleetHosts>>) -> prometheus::Result<String> {
    let making = Making(Registry::new());
    let document = &now.document;
    results(&making, now)?;
    who_is_bad(&making, document)?;
    let missing = document.pairs.iter().flat_map(|pair| &pair.values);
    for (of, value) in [
        (PAIRS, document.pairs.len()),
        (TIMES, document.times as usize),
        (ROUNDS, document.rounds),
        (MISSING, missing.filter(|value| value.is_none()).count()),
        (RUNNING, usize::from(now.running)),
        (UNDER_WAY, now.under_way().count()),
    ] {
        making.whole(of, value)?;
    }
    if let Some(answer) = asked {
        agents(&making, answer.as_ref())?;
    }
    let mut text = String::new();
    TextEncoder::new().encode_utf8(&making.0.gather(), &mut text)?;
    Ok(text)
}

fn results(making: &Making, now: &FleetNow) -> prometheus::Result<()> {
    let document = &now.document;
    let metric = metric::find(&document.metric).unwrap_or(metric::DEFAULT);
    let (name, factor) = base("fleet", metric);
    // The factor of `base` is that of a record, which has loss as a share of 1; a file of results has percent.
    let factor = if metric.unit == "%" { 0.01 } else { factor };
    let about = format!("{}: the last result of the pair.", metric.about);
    let figure = making.of_labels((&name, &about), PAIR)?;
    let at = making.of_labels(TIMESTAMP, PAIR)?;
    // They become fewer when old ones are deleted.
    let tests = making.of_labels(KEPT, &["from", "to", "outcome"])?;
    let of_test = |test: &FleetTest| {
        let pair = document.pairs.get(test.pair)?;
        let end = test.end.as_ref()?;
        Some((pair, end.result.as_ref().ok().copied()))
    };
    for pair in &document.pairs {
        for outcome in ["measured", "failed"] {
            // Known from the start: none is 0.
            tests.with_label_values(&[&*pair.from, &*pair.to, outcome]);
        }
    }
    // The newest comes last.
    for test in &now.tests {
        let Some((pair, result)) = of_test(test) else { continue };
        let outcome = if result.is_some() { "measured" } else { "failed" };
        tests.with_label_values(&[&*pair.from, &*pair.to, outcome]).inc();
        if let Some(value) = result {
            figure.with_label_values(&ends(pair)).set(value * factor);
            if let Some(began_s) = test.began_s {
                at.with_label_values(&ends(pair)).set(began_s);
            }
        }
    }
    Ok(())
}

fn ends(pair: &FleetPair) -> [&str; 2] {
    [&pair.from, &pair.to]
}

fn who_is_bad(making: &Making, document: &FleetDocument) -> prometheus::Result<()> {
    let verdict = &document.verdict;
    let judged = making.of_labels(JUDGED, &["of"])?;
    for (of, answer) in [("hosts", verdict.hosts), ("links", verdict.links)] {
        let is = answer == FleetAnswer::Judged;
        judged.with_label_values(&[of]).set(f64::from(u8::from(is)));
    }
    let hosts = making.of_labels(BAD_HOST, &["host", "role"])?;
    let links = making.of_labels(BAD_LINK, PAIR)?;
    for bad in &verdict.bad {
        let role = match bad.role {
            Some(FleetRole::Client) => "client",
            Some(FleetRole::Server) => "server",
            Some(FleetRole::Both) | None => "both",
        };
        if let Some(host) = &bad.host {
            hosts.with_label_values(&[host, role]).set(1.0);
        }
        if let (Some(from), Some(to)) = (&bad.from, &bad.to) {
            links.with_label_values(&[from, to]).set(1.0);
        }
    }
    let changed = making.of_labels(CHANGED, &["from", "to", "way"])?;
    let last: HashMap<_, _> =
        document.changes.iter().map(|change| ((&change.from, &change.to), change)).collect();
    for ((from, to), change) in last {
        let way = if change.worse { "worse" } else { "better" };
        changed.with_label_values(&[from.as_str(), to, way]).set(1.0);
    }
    Ok(())
}

fn agents(making: &Making, answer: Option<&FleetHosts>) -> prometheus::Result<()> {
    making.whole(BROKER, usize::from(answer.is_some()))?;
    let state = making.of_labels(STATE, &["agent", "state"])?;
    let of_agent = |of| making.of_labels(of, &["agent"]);
    let (silence, waiting, oldest) = (of_agent(SILENCE)?, of_agent(WAITING)?, of_agent(OLDEST)?);
    for agent in answer.into_iter().flat_map(|hosts| &hosts.agents) {
        let name = agent.name.as_str();
        state.with_label_values(&[name, agent.state.name()]).set(1.0);
        let said = agent.said.as_ref();
        for (gauge, value) in [
            (&silence, agent.heard_s),
            (&waiting, said.map(|said| said.waiting)),
            (&oldest, said.and_then(|said| said.oldest_s)),
        ] {
            if let Some(value) = value {
                gauge.with_label_values(&[name]).set(value as f64);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use linerate_model::fleet_agents::{AgentState, FORMAT, FleetAgent, Heartbeat};
    use linerate_model::record::ProgramFacts;

    use super::*;

    #[test]
    fn what_waits_on_agents_is_told_and_of_a_broker_that_is_away_nothing_but_that() {
        let now = linerate_testkit::fleet::now(&["a", "b"], 1, |_, _, _| None);
        let said = Heartbeat { waiting: 3, oldest_s: Some(7_200), ..Heartbeat::default() };
        let agents = vec![
            FleetAgent {
                name: "a".to_owned(),
                state: AgentState::Silent,
                heard_s: Some(90),
                said: Some(said),
                ..FleetAgent::default()
            },
            FleetAgent { name: "b".to_owned(), ..FleetAgent::default() },
        ];
        let hosts = FleetHosts {
            format: FORMAT,
            kind: "fleet_hosts".to_owned(),
            at: String::new(),
            linerate: ProgramFacts { version: String::new() },
            broker_version: String::new(),
            agents,
        };
        let known = text(&now, Some(Some(hosts))).unwrap();
        let of_agents = |text: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix("linerate_fleet_"));
            let ours = |line: &&str| line.starts_with("agent_") || line.starts_with("broker_");
            lines.filter(ours).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            of_agents(&known),
            [
                "agent_oldest_result_seconds{agent=\"a\"} 7200",
                "agent_silence_seconds{agent=\"a\"} 90",
                "agent_state{agent=\"a\",state=\"silent\"} 1",
                "agent_state{agent=\"b\",state=\"unheard\"} 1",
                "agent_waiting_results{agent=\"a\"} 3",
                "broker_up 1",
            ]
        );
        assert_eq!(of_agents(&text(&now, Some(None)).unwrap()), ["broker_up 0"]);
        assert_eq!(of_agents(&text(&now, None).unwrap()), Vec::<String>::new());
    }

    #[test]
    fn figures_are_in_base_units_whatever_the_file_has_them_in() {
        let mut now = linerate_testkit::fleet::now(&["a", "b"], 1, |_, _, _| Some(2.5));
        for (metric, unit, series) in [
            ("loss", "%", "loss_ratio{from=\"a\",to=\"b\"} 0.025"),
            ("sender_cpu", "% of a core", "sender_cpu_cores{from=\"a\",to=\"b\"} 0.025"),
            ("jitter", "s", "jitter_seconds{from=\"a\",to=\"b\"} 2.5"),
        ] {
            (now.document.metric, now.document.unit) = (metric.to_owned(), unit.to_owned());
            let text = text(&now, None).unwrap();
            assert!(text.contains(&format!("\nlinerate_fleet_{series}\n")), "{metric}: {text}");
        }
    }
}
