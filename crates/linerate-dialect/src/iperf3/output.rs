//! What a client gets that asks for the server's output: the test as this end saw it, in lines.

use std::fmt::Write;

use linerate_model::plan::{TestPlan, Transport};
use linerate_model::test_event::{Row, Rows};

/// Lines kept at most; a longer test shows its first ones and its end.
const MOST_LINES: usize = 4_000;

#[derive(Debug)]
pub(super) struct Output {
    lines: usize,
    udp: bool,
    text: String,
}

impl Output {
    /// `title` says who serves whom with what.
    pub(super) fn new(title: &str, plan: &TestPlan) -> Self {
        let udp = plan.traffic.transport() == Transport::Udp;
        Self { lines: 0, udp, text: format!("{title}\n") }
    }

    pub(super) fn show(&mut self, rows: &Rows) {
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
                        write!(self.text, ", {datagrams} datagrams, {refused} local send errors")
                    }
                    Row::Recv(recv) => {
                        let counts = &recv.counts;
                        let (_, here, _) = counts.loss_by_place();
                        write!(
                            self.text,
                            ", lost {} of {} datagrams ({here} in this host's socket buffer), \
                             {} dup, {} out of order",
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
