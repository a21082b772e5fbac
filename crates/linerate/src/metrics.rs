//! `serve --metrics`: what happens at a server, counted for Prometheus. What a test carried is counted when it ends.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use linerate_model::plan::{Dialect, TrafficKind};
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::served::{Outcome, RefusalKind, ServedResult, ServedTest};
use linerate_runner::clock;
use linerate_runner::server::Event;
use nix::sys::resource::{UsageWho, getrusage};
use prometheus::core::Collector;
use prometheus::{
    Counter, Gauge, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder,
};

/// What tests carried; each is `linerate_server_…_total`.
const CARRIED: &[(&str, &str)] = &[
    (RECEIVED, "Bytes of payload that tests received here, warm-up not included"),
    (SENT, "Bytes of payload that tests sent from here, warm-up not included"),
    ("received_datagrams", "Distinct datagrams that tests received here"),
    ("lost_datagrams", "Datagrams that should have come here and did not"),
    (
        "rcvbuf_dropped_datagrams",
        "Datagrams among the lost that this host's receive buffers dropped",
    ),
    ("sent_datagrams", "Datagrams that tests sent from here"),
    ("retransmitted_segments", "TCP segments that tests retransmitted from here"),
    ("answered_requests", "Requests of request/response tests that were answered"),
];
const RECEIVED: &str = "received_bytes";
const SENT: &str = "sent_bytes";

/// No path carries so many datagrams a second: of a test with more, a client made the numbers up.
const MOST_PER_SECOND: f64 = 1e9;
/// A test may be so much longer than what is known of its time.
const SPARE_S: f64 = 60.0;

/// Of which a test is.
const TEST: &[&str] = &["dialect", "kind"];

/// What is counted, from the server's start on.
pub struct Metrics {
    registry: Registry,
    /// Of tests that run: their dialect and client.
    running: Mutex<HashSet<(&'static str, String)>>,
    tests: IntGaugeVec,
    ended: IntCounterVec,
    /// Each of [`CARRIED`].
    carried: BTreeMap<&'static str, IntCounterVec>,
    refusals: IntCounterVec,
    log_dropped_events: IntCounter,
    cpu: Counter,
}

/// Makes them known to what collects them.
struct Making<'a>(&'a Registry);

impl Making<'_> {
    fn known<C: Collector + Clone + 'static>(
        &self,
        made: prometheus::Result<C>,
    ) -> prometheus::Result<C> {
        let made = made?;
        self.0.register(Box::new(made.clone()))?;
        Ok(made)
    }
}

impl Metrics {
    /// Nothing has happened yet.
    pub fn new() -> Result<Self, ErrorRecord> {
        Self::made().map_err(|e| {
            ErrorRecord::new(ErrorKind::Unable, "cannot make metrics", e.to_string(), &[])
        })
    }

    fn made() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let making = Making(&registry);
        let version = Opts::new("linerate_build_info", "The release that serves; always 1.")
            .const_label("version", env!("CARGO_PKG_VERSION"));
        making.known(Gauge::with_opts(version))?.set(1.0);
        let start = "Start of the server, seconds since 1970.";
        let start = Gauge::new("process_start_time_seconds", start);
        making.known(start)?.set(clock::wall().as_millisecond() as f64 / 1e3);
        let cpu = "CPU time of the server's process, user and system, in seconds.";
        let refusals = Opts::new(
            "linerate_server_refusals_total",
            "Connections that were turned away before they had a test, by the ground.",
        );
        let refusals = making.known(IntCounterVec::new(refusals, &["reason"]))?;
        for kind in RefusalKind::ALL {
            // Known from the start, so that the first one is an increase.
            refusals.with_label_values(&[kind.name()]);
        }
        let mut carried = BTreeMap::new();
        for (name, help) in CARRIED {
            let full = format!("linerate_server_{name}_total");
            let opts = Opts::new(full, format!("{help}; counted at a test's end."));
            carried.insert(*name, making.known(IntCounterVec::new(opts, TEST))?);
        }
        Ok(Self {
            running: Mutex::default(),
            tests: making.known(IntGaugeVec::new(
                Opts::new("linerate_server_tests", "Tests that run now."),
                TEST,
            ))?,
            ended: making.known(IntCounterVec::new(
                Opts::new(
                    "linerate_server_tests_ended_total",
                    "Tests that were admitted and ended, by how they ended.",
                ),
                &["dialect", "kind", "outcome"],
            ))?,
            carried,
            refusals,
            log_dropped_events: making.known(IntCounter::new(
                "linerate_server_log_dropped_events_total",
                "Events that the log lacks, as it was read too slowly.",
            ))?,
            cpu: making.known(Counter::new("process_cpu_seconds_total", cpu))?,
            registry,
        })
    }

    /// Counts what happened.
    pub fn take(&self, event: &Event) {
        match event {
            Event::Listening(Dialect::Native, _) => {
                self.expect(Dialect::Native);
                self.expect(Dialect::Iperf3);
            }
            Event::Listening(dialect, _) => self.expect(*dialect),
            Event::TestStarted(test) => self.started(test),
            Event::TestEnded(test, result) => self.ended(test, result),
            Event::Refused { kind, .. } => self.refusals.with_label_values(&[kind.name()]).inc(),
            Event::LogDropped { events } => self.log_dropped_events.inc_by(*events),
            _ => {}
        }
    }

    /// Series of these tests are there before the first one, so that it is an increase.
    fn expect(&self, dialect: Dialect) {
        let rr = matches!(dialect, Dialect::Native | Dialect::Netperf);
        let kinds = [TrafficKind::Udp, TrafficKind::Tcp].into_iter();
        for kind in kinds.chain(rr.then_some(TrafficKind::Rr)) {
            let of = [dialect.name(), kind.name()];
            self.tests.with_label_values(&of);
            for outcome in Outcome::ALL {
                self.ended.with_label_values(&[of[0], of[1], outcome.name()]);
            }
            for bytes in [RECEIVED, SENT].iter().filter_map(|name| self.carried.get(name)) {
                bytes.with_label_values(&of);
            }
        }
    }

    fn started(&self, test: &ServedTest) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.insert((test.dialect.name(), test.peer.clone())) {
            self.tests.with_label_values(&of(test)).inc();
        }
    }

    fn ended(&self, test: &ServedTest, result: &ServedResult) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // One that never started is reported, too.
        if running.remove(&(test.dialect.name(), test.peer.clone())) {
            self.tests.with_label_values(&of(test)).dec();
        }
        let count = |name: &str, figure: Option<u64>| {
            // What is unknown is no 0.
            if let Some((counter, figure)) = self.carried.get(name).zip(figure) {
                counter.with_label_values(&of(test)).inc_by(figure);
            }
        };
        if let Some(received) = &result.received {
            count(RECEIVED, Some(received.bytes));
            // One of those would spoil a sum for good.
            let most = MOST_PER_SECOND * (result.seconds.unwrap_or(0.0) + SPARE_S);
            let came = received.expected.filter(|all| *all as f64 <= most).zip(received.lost);
            count("received_datagrams", came.and_then(|(all, lost)| all.checked_sub(lost)));
            count("lost_datagrams", came.map(|(_, lost)| lost));
            count("rcvbuf_dropped_datagrams", received.rcvbuf_drops);
        }
        if let Some(sent) = &result.sent {
            count(SENT, Some(sent.bytes));
            count("sent_datagrams", sent.datagrams);
            count("retransmitted_segments", sent.retransmits);
        }
        count("answered_requests", result.answered);
        // Last: who sees that a test has ended sees what it carried.
        let [dialect, kind] = of(test);
        self.ended.with_label_values(&[dialect, kind, result.outcome.name()]).inc();
    }

    /// As Prometheus reads it: its text format 0.0.4.
    pub fn text(&self) -> String {
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
            let seconds =
                |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
            let used = seconds(usage.user_time()) + seconds(usage.system_time());
            // Two may ask at once, and a counter does not fall.
            self.cpu.inc_by((used - self.cpu.get()).max(0.0));
        }
        let mut text = String::new();
        // It fails where a metric has no name or value, which none of these is.
        let _ = TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text);
        text
    }
}

fn of(test: &ServedTest) -> [&str; 2] {
    [test.dialect.name(), test.kind.name()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use linerate_model::served::ServedReceived;
    use linerate_testkit::served;

    use super::*;

    const RULES: &str = include_str!("../../../deploy/prometheus/linerate.rules.yml");
    const DASHBOARD: &str = include_str!("../../../deploy/grafana/linerate.json");

    /// Words of a text that are names of metrics.
    fn names(text: &str) -> BTreeSet<&str> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let ours = [
            "linerate_server_",
            "linerate_probe_",
            "linerate_fleet_",
            "linerate_build_",
            "probe_",
            "process_",
        ];
        words.filter(|word| ours.iter().any(|start| word.starts_with(start))).collect()
    }

    #[test]
    fn numbers_that_nobody_can_have_sent_are_in_no_sum() {
        let metrics = Metrics::new().unwrap();
        for (expected, lost) in [(u64::MAX / 2, u64::MAX / 2 - 2), (u64::MAX, u64::MAX), (10, 3)] {
            let received = ServedReceived {
                bytes: 2_000,
                seconds: Some(1.0),
                bits_per_second: Some(16_000.0),
                warmup: None,
                expected: Some(expected),
                lost: Some(lost),
                rcvbuf_drops: None,
                wall_clock_delay_s: None,
            };
            let (seconds, received) = (Some(1.0), Some(received));
            let result = ServedResult { seconds, received, ..served::done() };
            metrics.take(&Event::TestEnded(Box::new(served::test(40_000)), Box::new(result)));
        }
        let text = metrics.text();
        for (name, value) in
            [("lost_datagrams", 3), ("received_datagrams", 7), ("received_bytes", 6_000)]
        {
            let labels = "dialect=\"native\",kind=\"udp\"";
            let series = format!("linerate_server_{name}_total{{{labels}}} {value}\n");
            assert!(text.contains(&series), "{series}: {text}");
        }
    }

    #[test]
    fn rules_and_dashboard_ask_for_what_there_is() {
        let metrics = Metrics::new().unwrap();
        metrics.expect(Dialect::Native);
        let (text, probe) = (metrics.text(), crate::probe::names());
        let carried = CARRIED.iter().map(|(name, _)| format!("linerate_server_{name}_total"));
        let there = carried.chain(probe).chain(names(&text).into_iter().map(String::from));
        let fleet = crate::fleet::metrics::NAMES.iter().map(|(name, _)| (*name).to_owned());
        let there: Vec<String> = there.chain(fleet).collect();
        let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
        assert_eq!(dashboard["panels"].as_array().map(Vec::len), Some(21));
        for asked in names(RULES).union(&names(DASHBOARD)) {
            assert!(there.iter().any(|known| known == asked), "{asked} is none of {there:?}");
        }
        let page = include_str!("../../../docs/prometheus.md");
        let starts = ["linerate_server_", "linerate_fleet_"];
        for name in there.iter().filter(|name| starts.iter().any(|start| name.starts_with(start))) {
            assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/prometheus.md");
        }
    }
}
