//! What the client hears of its test: what came in each interval, and the figures.

use linerate_model::sample::SendReport;
use linerate_model::test_event::{Cpu, Row, Rows};
use linerate_wire::nuttcp::results::{self, Span, Totals};

use super::{Server, Terms};
use crate::stream::Report;

impl Server {
    /// A receiver says what came in each interval.
    pub(super) fn shows_rows(&self) -> bool {
        !self.sends() && self.terms.asked.interval_us.is_some()
    }

    pub(super) fn show(&mut self, now_ns: u64, rows: &Rows) {
        if !self.shows_rows() {
            return;
        }
        let mut span = Span { ns: rows.end_ns - rows.start_ns, ..Span::default() };
        let (mut sent, mut lost) = (0u64, 0u64);
        for row in &rows.streams {
            let Row::Recv(row) = row else { continue };
            span.bytes = span.bytes.saturating_add(row.counts.bytes);
            sent = sent.saturating_add(row.counts.expected);
            lost = lost.saturating_add(row.counts.lost);
        }
        let counts = self.terms.asked.counts_sent();
        span.loss = counts.then_some((sent, lost));
        let (all_sent, all_lost) = self.shown.loss.unwrap_or_default();
        let all = (all_sent.saturating_add(sent), all_lost.saturating_add(lost));
        self.shown.loss = counts.then_some(all);
        self.shown.bytes = self.shown.bytes.saturating_add(span.bytes);
        self.shown.ns = self.shown.ns.saturating_add(span.ns);
        let line = results::interval(&self.terms.asked, span, self.shown);
        self.say(now_ns, line.as_bytes());
    }

    /// The last lines.
    pub(super) fn figures(&self, cpu: Cpu) -> String {
        let asked = &self.terms.asked;
        let mut totals = Totals {
            sent: self.sends(),
            bytes: 0,
            ns: 0,
            calls: 0,
            cpu_percent: (cpu.user, cpu.system),
            retransmits: None,
        };
        let (mut first_ns, mut last_ns) = (u64::MAX, 0);
        for report in self.reports.values() {
            let (bytes, calls) = match report {
                Report::Send(report) => {
                    totals.ns = totals.ns.max(report.span_ns);
                    totals.retransmits = added(totals.retransmits, report);
                    let calls = report.counts.datagrams.max(report.counts.calls);
                    (report.counts.bytes, calls)
                }
                Report::Recv(report) => {
                    first_ns = first_ns.min(report.first_ns.unwrap_or(u64::MAX));
                    last_ns = last_ns.max(report.last_ns.unwrap_or(0));
                    let calls = report.counts.datagrams.max(report.counts.calls);
                    (report.counts.bytes, calls)
                }
                Report::Rr(_) | Report::Respond(_) => (0, 0),
            };
            totals.bytes = totals.bytes.saturating_add(bytes);
            totals.calls = totals.calls.saturating_add(calls);
        }
        let gaps_ns = last_ns.saturating_sub(first_ns);
        // Of datagrams the last one's own time belongs to it, as to a client that counts to the word of the end.
        let own_ns =
            if asked.udp { gaps_ns.checked_div(totals.calls.saturating_sub(1)) } else { None };
        totals.ns = totals.ns.max(gaps_ns.saturating_add(own_ns.unwrap_or(0)));
        let done = if self.shows_rows() { results::DONE } else { "" };
        format!("{done}{}{}", self.connected(), results::totals(asked, &totals))
    }

    /// Whoever opens a connection knows its round trip.
    fn connected(&self) -> String {
        let Terms { asked, peer, .. } = &self.terms;
        let opens = self.sends() && !asked.udp && !asked.flipped;
        if !opens || self.round_trip_ns == 0 {
            return String::new();
        }
        let mss = self.reports.values().find_map(|report| match report {
            Report::Send(report) => report.tcp?.mss_bytes,
            _ => None,
        });
        results::connected(asked, *peer, mss, self.round_trip_ns)
    }
}

/// Of all streams together.
fn added(so_far: Option<(u64, Option<u64>)>, more: &SendReport) -> Option<(u64, Option<u64>)> {
    let tcp = more.tcp.and_then(|tcp| Some((tcp.retransmits?, tcp.cwnd_bytes)));
    match (so_far, tcp) {
        (Some((a, window)), Some((b, more))) => {
            let window = window.zip(more).map(|(a, b)| a.saturating_add(b));
            Some((a.saturating_add(b), window))
        }
        (a, b) => a.or(b),
    }
}
