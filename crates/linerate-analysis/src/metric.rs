//! Figures of a run that can be compared, and where each format keeps them.

/// One figure.
pub struct Metric {
    /// As `--metric` takes it.
    pub name: &'static str,
    /// Unit after scaling.
    pub unit: &'static str,
    /// JSON pointers into a linerate record, the first that is there counts.
    pub record: &'static [&'static str],
    /// The same for an iperf3 document.
    pub iperf3: &'static [&'static str],
    /// What the number there is multiplied by.
    pub record_scale: f64,
    /// The same for an iperf3 document.
    pub iperf3_scale: f64,
}

/// The list; the first is the default.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "received_bps",
        unit: "bit/s",
        record: &["/totals/receiver/bits_per_second", "/totals/forward/receiver/bits_per_second"],
        iperf3: &["/end/sum_received/bits_per_second", "/end/sum/bits_per_second"],
        record_scale: 1.0,
        iperf3_scale: 1.0,
    },
    Metric {
        name: "sent_bps",
        unit: "bit/s",
        record: &["/totals/sender/bits_per_second", "/totals/forward/sender/bits_per_second"],
        iperf3: &["/end/sum_sent/bits_per_second", "/end/sum/bits_per_second"],
        record_scale: 1.0,
        iperf3_scale: 1.0,
    },
    Metric {
        name: "loss",
        unit: "%",
        record: &["/totals/receiver/lost_ratio", "/totals/forward/receiver/lost_ratio"],
        iperf3: &["/end/sum_received/lost_percent", "/end/sum/lost_percent"],
        record_scale: 100.0,
        iperf3_scale: 1.0,
    },
    Metric {
        name: "jitter",
        unit: "s",
        record: &["/totals/receiver/jitter_s", "/totals/forward/receiver/jitter_s"],
        iperf3: &["/end/sum_received/jitter_ms", "/end/sum/jitter_ms"],
        record_scale: 1.0,
        iperf3_scale: 1e-3,
    },
    Metric {
        name: "delay_variation_p99",
        unit: "s",
        record: &[
            "/totals/receiver/delay_variation_s/p99",
            "/totals/forward/receiver/delay_variation_s/p99",
        ],
        iperf3: &[],
        record_scale: 1.0,
        iperf3_scale: 1.0,
    },
    Metric {
        name: "retransmits",
        unit: "segments",
        record: &["/totals/sender/tcp/retransmits", "/totals/forward/sender/tcp/retransmits"],
        iperf3: &["/end/sum_sent/retransmits"],
        record_scale: 1.0,
        iperf3_scale: 1.0,
    },
    Metric {
        name: "received_pps",
        unit: "datagrams/s",
        record: &[
            "/totals/receiver/datagrams_per_second",
            "/totals/forward/receiver/datagrams_per_second",
        ],
        iperf3: &[],
        record_scale: 1.0,
        iperf3_scale: 1.0,
    },
    Metric {
        name: "sent_pps",
        unit: "datagrams/s",
        record: &[
            "/totals/sender/datagrams_per_second",
            "/totals/forward/sender/datagrams_per_second",
        ],
        iperf3: &[],
        record_scale: 1.0,
        iperf3_scale: 1.0,
    },
    Metric {
        name: "transactions_per_second",
        unit: "transactions/s",
        record: &["/totals/rr/transactions_per_second"],
        iperf3: &[],
        record_scale: 1.0,
        iperf3_scale: 1.0,
    },
    Metric {
        name: "latency_p99",
        unit: "s",
        record: &["/totals/rr/latency_s/p99"],
        iperf3: &[],
        record_scale: 1.0,
        iperf3_scale: 1.0,
    },
    Metric {
        name: "sender_cpu",
        unit: "% of a core",
        record: &[
            "/totals/sender/cpu/threads_percent",
            "/totals/forward/sender/cpu/threads_percent",
        ],
        iperf3: &["/end/cpu_utilization_percent/host_total"],
        record_scale: 1.0,
        iperf3_scale: 1.0,
    },
    Metric {
        name: "receiver_cpu",
        unit: "% of a core",
        record: &[
            "/totals/receiver/cpu/threads_percent",
            "/totals/forward/receiver/cpu/threads_percent",
        ],
        iperf3: &["/end/cpu_utilization_percent/remote_total"],
        record_scale: 1.0,
        iperf3_scale: 1.0,
    },
];

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
    fn every_metric_has_a_unit_and_a_place() {
        for m in METRICS {
            assert!(!m.unit.is_empty() && !m.record.is_empty(), "{}", m.name);
            assert!(m.record.iter().chain(m.iperf3).all(|p| p.starts_with('/')), "{}", m.name);
        }
    }

    /// The pointers must follow the record when its keys change.
    #[test]
    fn every_metric_is_where_a_record_keeps_it() {
        use linerate_model::record::{
            CpuFigures, Figures, Pair, Quantiles, ReceiverFigures, RrFigures, SenderFigures,
            TcpFigures,
        };
        let sender = SenderFigures {
            datagrams_per_second: Some(1.0),
            cpu: Some(CpuFigures::default()),
            tcp: Some(TcpFigures { retransmits: Some(1), ..TcpFigures::default() }),
            ..SenderFigures::default()
        };
        let receiver = ReceiverFigures {
            datagrams_per_second: Some(1.0),
            lost_ratio: Some(0.5),
            jitter_s: Some(1e-3),
            delay_variation_s: Some(Quantiles::default()),
            cpu: Some(CpuFigures::default()),
            ..ReceiverFigures::default()
        };
        let (sender, receiver) = (Some(sender), Some(receiver));
        let pair = Pair { sender: sender.clone(), receiver: receiver.clone() };
        let latency_s = Some(Quantiles::default());
        let rr = Some(RrFigures { latency_s, ..RrFigures::default() });
        let totals = Figures { sender, receiver, forward: Some(pair), rr, ..Figures::default() };
        let record = serde_json::json!({ "totals": totals });
        for metric in METRICS {
            for place in metric.record {
                let found = record.pointer(place).and_then(serde_json::Value::as_f64);
                assert!(found.is_some(), "{} is not at {place}", metric.name);
            }
        }
    }
}
