//! What a client gets that asks for the server's output: the test as this end saw it, in lines.

use std::fmt::Write;
use std::net::SocketAddr;

use linerate_dialect::iperf3::rows::RowBook;
use linerate_model::plan::Transport;
use linerate_model::test_event::{Row, Rows};

use super::plan;
use crate::data::DataEvent;

/// Lines kept at most; a longer test shows its first ones and its end.
const MOST_LINES: usize = 4_000;

#[derive(Debug)]
pub(super) struct Output {
    rows: RowBook,
    lines: usize,
    udp: bool,
    text: String,
}

impl Output {
    pub(super) fn new(peer: SocketAddr, test: &plan::Test) -> Self {
        let plan = &test.plan.plan;
        let streams = plan.threads() as usize;
        let version = env!("CARGO_PKG_VERSION");
        let udp = test.asked.transport == Transport::Udp;
        let what = test.describe();
        let text = format!("linerate {version} serves {}: {what}\n", peer.ip());
        Self { rows: RowBook::new(plan.interval.0, plan.warmup.0, streams), lines: 0, udp, text }
    }

    pub(super) fn on_event(&mut self, event: &DataEvent) {
        let rows = match event {
            DataEvent::Tick(stream, index, tick) => self.rows.add(false, *stream, *index, *tick),
            DataEvent::Warm(stream, index, tick) => self.rows.add(true, *stream, *index, *tick),
            DataEvent::Begun | DataEvent::Done(..) => None,
        };
        if let Some(rows) = rows {
            self.show(&rows);
        }
    }

    fn show(&mut self, rows: &Rows) {
        let (start, end) = (rows.start_ns as f64 / 1e9, rows.end_ns as f64 / 1e9);
        let omitted = if rows.omitted { " (omitted)" } else { "" };
        for (i, row) in rows.streams.iter().enumerate() {
            self.lines += 1;
            if self.lines > MOST_LINES {
                return;
            }
            let id = linerate_wire::iperf3::stream_id(i as u16);
            // Writing to a string cannot fail.
            let _ = write!(self.text, "[{id:>3}] {start:>7.2}-{end:<7.2} s ");
            let _ = match row {
                Row::Send(send) => write!(self.text, "sent {} bytes", send.counts.bytes),
                Row::Recv(recv) => write!(self.text, "received {} bytes", recv.counts.bytes),
            };
            if self.udp {
                let _ = match row {
                    Row::Send(send) => {
                        let (datagrams, refused) =
                            (send.counts.datagrams, send.counts.refused_locally);
                        write!(self.text, ", {datagrams} datagrams, {refused} refused by this host")
                    }
                    Row::Recv(recv) => {
                        let counts = &recv.counts;
                        let (_, here, _) = counts.loss_by_place();
                        write!(
                            self.text,
                            ", lost {} of {} datagrams ({here} in this host's socket buffer), \
                             {} twice, {} out of order",
                            counts.lost, counts.expected, counts.duplicates, counts.reordered
                        )
                    }
                };
            }
            let _ = writeln!(self.text, "{omitted}");
        }
    }

    /// All lines, the last of which says how the test ended.
    pub(super) fn text(&self, end: &str) -> String {
        format!("{}{end}\n", self.text)
    }
}
