//! The one list of figures that a run has: names, units, and where a record keeps them. What compares,
//! tabulates, exports or optimises takes its figures from here.
//!
//! ```
//! use linerate_analysis::metric;
//! use linerate_model::record::{Figures, SenderFigures};
//! let sender = Some(SenderFigures { bits_per_second: 5e8, ..SenderFigures::default() });
//! let totals = Figures { sender, ..Figures::default() };
//! assert_eq!(metric::find("sent_bps").unwrap().of_figures(&totals), Some(5e8));
//! assert_eq!(metric::find("received_bps").unwrap().of_figures(&totals), None);
//! ```

use linerate_model::plan::Way;
use linerate_model::record::{
    CpuFigures, Figures, Pair, ReceiverFigures, RrFigures, RunRecord, SenderFigures, TcpFigures,
};
use serde_json::Value;

use self::Better::{Higher, Lower};
use crate::results::iperf3;

/// One figure.
#[derive(Debug)]
pub struct Metric {
    /// As `--metric` takes it.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Which way is better.
    pub better: Better,
    /// What it is, for documents.
    pub about: &'static str,
    /// Column of a report's CSV, in the record's own unit.
    pub column: Option<&'static str>,
    /// What the record's number is multiplied by to be in `unit`.
    scale: f64,
    /// JSON pointer below a record's totals, or below one direction of them: a record need not be
    /// whole to be compared.
    place: &'static str,
    /// The same of shares of cores, percent: the number is that of each core's second of their sum.
    per_core: &'static [&'static str],
    /// JSON pointers into an iperf3 document, the first that is there counts.
    iperf3: &'static [&'static str],
    /// What the number there is multiplied by to be in `unit`.
    iperf3_scale: f64,
}

/// Which values of a metric one wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Large ones.
    Higher,
    /// Small ones.
    Lower,
}

impl Better {
    /// As documents say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
        }
    }
}

/// One direction of some figures: of an interval, of the totals or of a stream.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct Flow<'a> {
    /// None where there is but one.
    #[serde(skip)]
    pub way: Option<Way>,
    /// What the sending end measured.
    pub sender: Option<&'a SenderFigures>,
    /// What the receiving end measured.
    pub receiver: Option<&'a ReceiverFigures>,
    /// Of a request/response test, which has no ends.
    pub rr: Option<&'a RrFigures>,
}

impl<'a> Flow<'a> {
    /// One of two directions, empty where nothing is known of it.
    pub fn of_pair(way: Way, pair: Option<&'a Pair>) -> Self {
        let sender = pair.and_then(|p| p.sender.as_ref());
        let receiver = pair.and_then(|p| p.receiver.as_ref());
        Self { way: Some(way), sender, receiver, rr: None }
    }

    /// Whether anything is known of it.
    pub fn any(&self) -> bool {
        self.sender.is_some() || self.receiver.is_some() || self.rr.is_some()
    }

    /// Rate that the sender's kernel took, bit/s.
    pub fn sent_bps(&self) -> Option<f64> {
        self.sender.map(|s| s.bits_per_second)
    }

    /// Rate of distinct payload that arrived, bit/s.
    pub fn received_bps(&self) -> Option<f64> {
        self.receiver.map(|r| r.bits_per_second)
    }

    /// Share of what was sent that was lost, 0 to 1.
    pub fn lost_ratio(&self) -> Option<f64> {
        self.receiver?.lost_ratio
    }

    /// What TCP reported to the sender.
    pub fn tcp(&self) -> Option<&'a TcpFigures> {
        self.sender?.tcp.as_ref()
    }

    /// CPU of the sender.
    pub fn sender_cpu(&self) -> Option<&'a CpuFigures> {
        self.sender?.cpu.as_ref()
    }

    /// CPU of the receiver.
    pub fn receiver_cpu(&self) -> Option<&'a CpuFigures> {
        self.receiver?.cpu.as_ref()
    }
}

/// The directions of some figures: the pair at their top, or one pair each; none of a
/// request/response test.
pub fn flows(figures: &Figures) -> Vec<Flow<'_>> {
    let (sender, receiver) = (figures.sender.as_ref(), figures.receiver.as_ref());
    let flows = [
        Flow { sender, receiver, ..Flow::default() },
        Flow::of_pair(Way::Forward, figures.forward.as_ref()),
        Flow::of_pair(Way::Reverse, figures.reverse.as_ref()),
    ];
    flows.into_iter().filter(Flow::any).collect()
}

impl Metric {
    const fn column(mut self, column: &'static str) -> Self {
        self.column = Some(column);
        self
    }

    const fn scaled(mut self, scale: f64) -> Self {
        self.scale = scale;
        self
    }

    const fn per_core(mut self, places: &'static [&'static str]) -> Self {
        self.per_core = places;
        self
    }

    const fn iperf3(mut self, places: &'static [&'static str], scale: f64) -> Self {
        (self.iperf3, self.iperf3_scale) = (places, scale);
        self
    }

    /// Of one direction, in the record's own unit: what its `column` holds. `flow` is a [`Flow`].
    pub fn raw(&self, flow: &Value) -> Option<f64> {
        let figure = |place: &str| flow.pointer(place)?.as_f64();
        let number = figure(self.place)?;
        if self.per_core.is_empty() {
            return Some(number);
        }
        let percent = self.per_core.iter().map(|place| figure(place)).sum::<Option<f64>>()?;
        (percent > 0.0).then(|| number / (percent / 100.0))
    }

    /// Of an interval, a stream or totals; of the forward direction when both ran.
    pub fn of_figures(&self, figures: &Figures) -> Option<f64> {
        self.of_totals(&serde_json::to_value(figures).ok()?)
    }

    /// Of a run.
    pub fn of(&self, record: &RunRecord) -> Option<f64> {
        self.of_figures(&record.totals)
    }

    fn of_totals(&self, totals: &Value) -> Option<f64> {
        let figure = self.raw(totals).or_else(|| self.raw(totals.get("forward")?));
        figure.map(|x| x * self.scale)
    }

    /// Of a run's document: a record, or what `iperf3 -J` printed.
    pub fn of_document(&self, run: &Value, of_iperf3: bool) -> Option<f64> {
        if !of_iperf3 {
            return self.of_totals(run.get("totals")?);
        }
        let of_server = iperf3::is_of_server(run);
        let own = |place: &&'static str| match *place {
            HOST_CPU if of_server => REMOTE_CPU,
            REMOTE_CPU if of_server => HOST_CPU,
            place => place,
        };
        let mut places = self.iperf3.iter().map(own);
        let (place, number) = places.find_map(|place| Some((place, run.pointer(place)?)))?;
        let number = number.as_f64()? * self.iperf3_scale;
        // A server has zeros of what it does not know of the client.
        if iperf3::is_unknown(run, place.split('/').nth(2)?)
            || of_server && place == REMOTE_CPU && number == 0.0
        {
            return None;
        }
        // The one sum of an older document of UDP is of what was sent.
        if self.place == RECEIVED && place == ONE_SUM {
            return Some(number * iperf3::arrived(run.pointer("/end/sum")?)?);
        }
        Some(number)
    }
}

/// A figure that no report has a column of and iperf3 does not report, in the record's own unit.
const fn metric(
    (name, unit, better): (&'static str, &'static str, Better),
    about: &'static str,
    place: &'static str,
) -> Metric {
    Metric {
        name,
        unit,
        better,
        about,
        column: None,
        scale: 1.0,
        place,
        per_core: &[],
        iperf3: &[],
        iperf3_scale: 1.0,
    }
}

const RECEIVED: &str = "/receiver/bits_per_second";
/// Of a document with a sum of both ends together.
const ONE_SUM: &str = "/end/sum/bits_per_second";

/// Of the host whose document it is, the client's in its own …
const HOST_CPU: &str = "/end/cpu_utilization_percent/host_total";
/// … and of the other end.
const REMOTE_CPU: &str = "/end/cpu_utilization_percent/remote_total";

/// The list; the first is [`DEFAULT`].
pub const METRICS: &[Metric] = &[
    metric(("received_bps", "bit/s", Higher), "payload that arrived", RECEIVED)
        .column("received_bps")
        .iperf3(&["/end/sum_received/bits_per_second", ONE_SUM], 1.0),
    metric(
        ("sent_bps", "bit/s", Higher),
        "payload that the sender's kernel took",
        "/sender/bits_per_second",
    )
    .column("sent_bps")
    .iperf3(&["/end/sum_sent/bits_per_second", ONE_SUM], 1.0),
    metric(
        ("loss", "%", Lower),
        "datagrams that did not arrive, of those sent",
        "/receiver/lost_ratio",
    )
    .column("lost_ratio")
    .scaled(100.0)
    .iperf3(&["/end/sum_received/lost_percent", "/end/sum/lost_percent"], 1.0),
    metric(("jitter", "s", Lower), "jitter of RFC 3550", "/receiver/jitter_s")
        .column("jitter_s")
        .iperf3(&["/end/sum_received/jitter_ms", "/end/sum/jitter_ms"], 1e-3),
    metric(
        ("delay_variation_p99", "s", Lower),
        "99th percentile of the delay less the least delay",
        "/receiver/delay_variation_s/p99",
    )
    .column("delay_p99_s"),
    metric(
        ("retransmits", "segments", Lower),
        "TCP segments retransmitted",
        "/sender/tcp/retransmits",
    )
    .column("retransmits")
    .iperf3(&["/end/sum_sent/retransmits"], 1.0),
    metric(
        ("received_pps", "datagrams/s", Higher),
        "distinct datagrams that arrived",
        "/receiver/datagrams_per_second",
    ),
    metric(
        ("sent_pps", "datagrams/s", Higher),
        "datagrams that the sender's kernel took",
        "/sender/datagrams_per_second",
    ),
    metric(
        ("transactions_per_second", "transactions/s", Higher),
        "requests answered",
        "/rr/transactions_per_second",
    )
    .column("transactions_per_second"),
    metric(
        ("latency_p99", "s", Lower),
        "99th percentile of the time from request to response",
        "/rr/latency_s/p99",
    )
    .column("latency_p99_s"),
    metric(
        ("sender_cpu", "% of a core", Lower),
        "CPU of the sender's data threads together; of iperf3, of the client",
        "/sender/cpu/threads_percent",
    )
    .iperf3(&[HOST_CPU], 1.0),
    metric(
        ("receiver_cpu", "% of a core", Lower),
        "CPU of the receiver's data threads together; of iperf3, of the server",
        "/receiver/cpu/threads_percent",
    )
    .iperf3(&[REMOTE_CPU], 1.0),
    metric(
        ("sender_thread_cpu", "% of a core", Lower),
        "CPU of the sender's busiest data thread",
        "/sender/cpu/thread_percent",
    )
    .column("cpu_sender_percent"),
    metric(
        ("receiver_thread_cpu", "% of a core", Lower),
        "CPU of the receiver's busiest data thread",
        "/receiver/cpu/thread_percent",
    )
    .column("cpu_receiver_percent"),
    metric(
        ("receiver_softirq", "% of a core", Lower),
        "interrupts and softirq on the receiver's core",
        "/receiver/cpu/softirq_percent",
    )
    .column("softirq_receiver_percent"),
    metric(
        ("bits_per_cpu_second", "bit/CPU-s", Higher),
        "payload that arrived for each second of CPU of both ends' data threads",
        "/receiver/bits_per_second",
    )
    .per_core(&["/sender/cpu/threads_percent", "/receiver/cpu/threads_percent"]),
    metric(
        ("datagrams_sent", "datagrams", Higher),
        "datagrams that the sender's kernel took",
        "/sender/datagrams",
    )
    .column("datagrams_sent"),
    metric(
        ("datagrams_received", "datagrams", Higher),
        "distinct datagrams that arrived",
        "/receiver/datagrams",
    )
    .column("datagrams_received"),
    metric(("lost", "datagrams", Lower), "datagrams that did not arrive", "/receiver/lost")
        .column("lost"),
    metric(
        ("lost_path", "datagrams", Lower),
        "of those lost: between the two hosts' sockets",
        "/receiver/lost_path",
    )
    .column("lost_path"),
    metric(
        ("rcvbuf_drops", "datagrams", Lower),
        "of those lost: in the receiver's socket buffer",
        "/receiver/dropped_receiver",
    )
    .column("dropped_receiver"),
];

/// What is taken where nothing else is asked for.
pub const DEFAULT: &Metric = &METRICS[0];

/// Finds one by name.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|m| m.name == name)
}

/// All names, for a hint.
pub fn names() -> String {
    METRICS.iter().map(|m| m.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_metric_has_a_unit_and_a_place() {
        for (i, m) in METRICS.iter().enumerate() {
            assert!(!m.unit.is_empty() && !m.about.is_empty(), "{}", m.name);
            assert!(m.iperf3.iter().chain([&m.place]).all(|p| p.starts_with('/')), "{}", m.name);
            let others = || METRICS.iter().skip(i + 1);
            assert!(others().all(|o| o.name != m.name), "{} twice", m.name);
            assert!(m.column.is_none() || others().all(|o| o.column != m.column), "{}", m.name);
        }
    }

    /// Every figure has a number of its own here, so that none can be taken for another.
    fn totals() -> Figures {
        use linerate_model::record::{CpuFigures, Quantiles, TcpFigures};
        let cpu = |of: f64| CpuFigures {
            thread_percent: of + 0.25,
            threads_percent: of + 0.5,
            softirq_percent: Some(of + 0.75),
            ..CpuFigures::default()
        };
        let sender = SenderFigures {
            datagrams: Some(1),
            bits_per_second: 2.0,
            datagrams_per_second: Some(3.0),
            cpu: Some(cpu(4.0)),
            tcp: Some(TcpFigures { retransmits: Some(5), ..TcpFigures::default() }),
            ..SenderFigures::default()
        };
        let receiver = ReceiverFigures {
            datagrams: Some(6),
            bits_per_second: 7.0,
            datagrams_per_second: Some(8.0),
            lost: Some(9),
            lost_ratio: Some(0.5),
            lost_path: Some(10),
            dropped_receiver: Some(11),
            jitter_s: Some(12.0),
            delay_variation_s: Some(Quantiles { p99: 13.0, ..Quantiles::default() }),
            cpu: Some(cpu(14.0)),
            ..ReceiverFigures::default()
        };
        let rr = RrFigures {
            transactions_per_second: 15.0,
            latency_s: Some(Quantiles { p99: 16.0, ..Quantiles::default() }),
            ..RrFigures::default()
        };
        let (sender, receiver) = (Some(sender), Some(receiver));
        Figures { sender, receiver, rr: Some(rr), ..Figures::default() }
    }

    /// The pointers must follow the record when its keys change.
    #[test]
    fn a_record_and_its_document_have_the_same_figures() {
        let mut totals = totals();
        let mut seen = Vec::new();
        for both_ways in [false, true] {
            if both_ways {
                let pair = linerate_model::record::Pair {
                    sender: totals.sender.take(),
                    receiver: totals.receiver.take(),
                };
                totals.forward = Some(pair);
                totals.reverse = Some(Default::default());
            }
            let document = serde_json::json!({ "totals": totals });
            for metric in METRICS {
                let figure = metric.of_figures(&totals);
                assert!(figure.is_some(), "{}", metric.name);
                assert_eq!(figure, metric.of_document(&document, false), "{}", metric.name);
                if !both_ways {
                    assert!(!seen.contains(&figure), "{} is another's", metric.name);
                    seen.push(figure);
                }
            }
        }
    }

    /// What was not measured is absent, not 0.
    #[test]
    fn empty_figures_have_no_metric() {
        let empty = Figures::default();
        let document = serde_json::json!({ "totals": empty });
        for metric in METRICS {
            assert_eq!(metric.of_figures(&empty), None, "{}", metric.name);
            assert_eq!(metric.of_document(&document, false), None, "{}", metric.name);
        }
    }

    #[test]
    fn the_documents_list_every_metric() {
        let page = include_str!("../../../docs/compare.md");
        let row = |line: &str| line.starts_with("| `") && line.matches('|').count() == 5;
        let listed: Vec<&str> = page.lines().filter(|line| row(line)).collect();
        let line = |m: &Metric| {
            format!("| `{}` | {} | {} | {} |", m.name, m.unit, m.better.name(), m.about)
        };
        let wanted: Vec<String> = METRICS.iter().map(line).collect();
        assert_eq!(listed, wanted, "the table in docs/compare.md is made of the catalogue");
    }
}
