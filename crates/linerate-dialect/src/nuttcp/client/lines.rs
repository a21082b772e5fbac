//! What a server says, line by line.

use linerate_model::plan::Traffic;
use linerate_model::sample::{RecvCounts, RecvInterval};
use linerate_wire::native::message::{RefusalKind, Refused};
use linerate_wire::nuttcp::heard::{self, Line, ROUNDED_BYTES};
use linerate_wire::nuttcp::parameters::{KNOWS_BURSTS, KNOWS_CORES};
use linerate_wire::nuttcp::results::Span;
use linerate_wire::nuttcp::{MAX_LINE, greeting};

use super::ended::take_back;
use super::{Client, MOST_LINES, MOST_SHOWN, MOST_WARNINGS, Phase, STRAGGLERS_NS, STREAM_END_NS};
use crate::Action;
use crate::ending::Failure;

impl Client {
    pub(super) fn refused(&mut self, now_ns: u64, lines: &[String]) {
        let why = match lines.join(" ") {
            why if why.trim().is_empty() => "it did not say why".to_owned(),
            why => why,
        };
        let kind = if why.contains("busy") || why.contains("in use") {
            RefusalKind::Busy
        } else {
            RefusalKind::Policy
        };
        self.fail(now_ns, Failure::Refused(Refused { kind, why, hints: vec![] }));
    }

    /// Takes whole lines of what was heard.
    pub(super) fn read(&mut self, now_ns: u64, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
        // However many they are, each byte is moved once.
        let heard = std::mem::take(&mut self.heard);
        for line in heard.split_inclusive(|byte| *byte == b'\n') {
            if self.closed {
                return;
            }
            match line.strip_suffix(b"\n") {
                Some(line) => self.on_line(now_ns, line.trim_ascii_end()),
                None => self.heard = line.to_vec(),
            }
        }
        if self.heard.len() > MAX_LINE {
            self.no_protocol(now_ns);
        }
    }

    fn no_protocol(&mut self, now_ns: u64) {
        self.heard.clear();
        self.closed = true;
        let why = "what it said is no line of nuttcp's".to_owned();
        self.fail(now_ns, Failure::Protocol(why));
    }

    fn on_line(&mut self, now_ns: u64, line: &[u8]) {
        let Ok(text) = std::str::from_utf8(line) else { return self.no_protocol(now_ns) };
        if let Some(lines) = &mut self.refusal {
            if text != "KO" && lines.len() < 10 {
                lines.push(plain(text));
                return;
            }
            let lines = std::mem::take(lines);
            self.refusal = None;
            return self.refused(now_ns, &lines);
        }
        match &self.phase {
            Phase::Asking { asked: false, .. } => match greeting::release(line) {
                Some(release) => self.ask(now_ns, release),
                None => self.no_protocol(now_ns),
            },
            Phase::Asking { .. } if text == "KO" => self.refusal = Some(Vec::new()),
            Phase::Asking { .. } if text.starts_with("OK") => self.open(),
            Phase::Asking { .. } => self.no_protocol(now_ns),
            Phase::Done(_) => {}
            _ => self.hear(now_ns, text),
        }
    }

    fn ask(&mut self, now_ns: u64, release: &str) {
        self.release = Some(release.to_owned());
        let deadline_ns = now_ns.saturating_add(self.terms.patience_ns);
        self.phase = Phase::Asking { asked: true, deadline_ns };
        let server = greeting::numbers(release);
        let asked = &self.terms.asked;
        let bursts = asked.burst.is_some() && !asked.client_sends;
        for (wish, since) in [
            (asked.core.map(|core| format!("run on core {core}")), KNOWS_CORES),
            (bursts.then(|| "send in bursts".to_owned()), KNOWS_BURSTS),
        ] {
            let Some(wish) = wish.filter(|_| server < since) else { continue };
            let text =
                format!("the server is of release {release}, which cannot be asked to {wish}");
            self.actions.push_back(Action::Note(text));
        }
        let line = asked.encode(server);
        self.say(now_ns, &line);
    }

    fn open(&mut self) {
        self.phase = Phase::Opening;
        self.actions.extend(self.ids.iter().map(|id| Action::Open(*id, None)));
    }

    /// What the server says of the test.
    fn hear(&mut self, now_ns: u64, text: &str) {
        if self.far.lines.len() < MOST_LINES {
            self.far.lines.push(plain(text));
        }
        match heard::line(text) {
            Line::Interval(span) => self.far_interval(span),
            Line::Totals(span) => {
                // The first of them: another is of its CPU.
                self.far.totals.get_or_insert(span);
                // It sends no more, whether its words of the end have come or not.
                if !self.sends() {
                    let drain_ns = if self.is_udp() { STRAGGLERS_NS } else { STREAM_END_NS };
                    let until_ns = now_ns.saturating_add(drain_ns);
                    self.actions.push_back(Action::DrainUntil(until_ns));
                }
            }
            Line::Cpu(percent) => self.far.cpu_percent = Some(percent),
            Line::Retransmits(again) => self.far.retransmits = Some(again),
            Line::Warning(text) => {
                let text = plain(text);
                if text.contains("Error") {
                    self.far.error.get_or_insert(text);
                } else if self.far.warnings < MOST_WARNINGS {
                    self.far.warnings += 1;
                    self.actions.push_back(Action::Note(format!("the server says: {text}")));
                }
            }
            Line::Done | Line::Other => {}
        }
    }

    /// The server's interval beside this end's of the same number.
    fn far_interval(&mut self, span: Span) {
        if self.far.intervals.len() as u64 >= self.terms.plan.intervals() {
            return;
        }
        let mut counts = RecvCounts { bytes: span.bytes, ..RecvCounts::default() };
        if let Some((sent, lost)) = span.loss {
            counts.lost = lost.min(sent);
            counts.datagrams = sent - counts.lost;
            // It does not say where.
            counts.dropped_max = counts.lost;
            if let Traffic::Udp(udp) = &self.terms.plan.traffic {
                let size = u64::from(udp.size.bytes());
                // Less than nothing is lost where datagrams come late that were lost in an earlier interval.
                let more = span.bytes.saturating_sub(counts.datagrams.saturating_mul(size));
                if more > ROUNDED_BYTES {
                    let late = more.saturating_add(size / 2) / size.max(1);
                    let found = take_back(&mut self.far.intervals, late);
                    counts.datagrams = counts.datagrams.saturating_add(found);
                }
                // Its bytes are rounded, and its datagrams are not.
                counts.bytes = counts.datagrams.saturating_mul(size);
            }
            counts.expected = counts.datagrams.saturating_add(counts.lost);
        }
        self.far.intervals.push(RecvInterval { counts, ..RecvInterval::default() });
        self.show();
    }
}

/// On one line of a screen.
fn plain(text: &str) -> String {
    text.chars().take(MOST_SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
