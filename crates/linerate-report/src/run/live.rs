//! A test as text while it runs: rows on the output as intervals end, progress and notes on the
//! side, which is standard error. The two never mix, even when they are the same terminal.

use std::io::{self, Write};

use linerate_analysis::metric::{Flow, flows};
use linerate_model::record::{Interval, RunRecord, Status};

use super::headline::Detail;
use super::table::Table;
use super::text::{self, Layout};
use super::view::{Ending, Head};
use crate::clean::clean;
use crate::number;
use crate::style::{Paint, Tone, wrap};

/// Writes one test as text.
///
/// Every method gives back the first error of the output: a closed pipe (`BrokenPipe`) means that
/// nobody reads any more. Errors of the side are of no consequence.
#[derive(Debug)]
pub struct LiveText<W, S> {
    out: W,
    side: S,
    layout: Layout,
    /// The side may be a file while the output is a terminal.
    side_paint: Paint,
    /// Whether the side is a terminal, on which a line can be written over.
    progress: bool,
    table: Option<Table>,
    /// A progress line stands on the side and must go before anything else is written.
    standing: bool,
    rows: usize,
    moved: u64,
    goal: Goal,
    detail: Detail,
    warmup_s: f64,
    /// The last rate that was seen, worded.
    rate: Option<String>,
}

/// The whole record as text, as it would have been written while the test ran.
pub fn render(record: &RunRecord, layout: Layout, detail: Detail) -> String {
    let mut out = Vec::new();
    // Memory takes everything that is written.
    let _ = LiveText::new(&mut out, io::sink(), layout, false).detail(detail).end(record);
    String::from_utf8(out).unwrap_or_default()
}

/// Room for the status where the terminal does not report its width.
const STATUS_WIDTH: usize = 80;

#[derive(Debug, Clone, Copy)]
enum Goal {
    Seconds(f64),
    Bytes(u64),
    Datagrams(u64),
    Open,
}

impl<W: Write, S: Write> LiveText<W, S> {
    /// `progress`: the side is a terminal and may carry a line that changes.
    pub fn new(out: W, side: S, layout: Layout, progress: bool) -> Self {
        Self {
            out,
            side,
            layout,
            side_paint: Paint { colour: layout.paint.colour && progress },
            progress,
            table: None,
            standing: false,
            rows: 0,
            moved: 0,
            goal: Goal::Open,
            detail: Detail::default(),
            warmup_s: 0.0,
            rate: None,
        }
    }

    /// Shows so much beside the headline.
    pub fn detail(mut self, detail: Detail) -> Self {
        self.detail = detail;
        self
    }

    /// The streams exist.
    pub fn start(&mut self, record: &RunRecord) -> io::Result<()> {
        let plan = record.agreed.as_ref().unwrap_or(&record.asked);
        // Beside an amount a time is the most that it may take.
        self.goal = match (plan.bytes, plan.datagrams, plan.duration_s) {
            (Some(bytes), _, _) => Goal::Bytes(bytes),
            (_, Some(datagrams), _) => Goal::Datagrams(datagrams),
            (_, _, Some(seconds)) => Goal::Seconds(seconds),
            _ => Goal::Open,
        };
        let table = Table::new(record, self.layout.room);
        let mut head = text::head(&Head::new(record), &table, self.layout);
        head.push_str(&text::table_head(&table, self.layout));
        self.table = Some(table);
        if self.detail != Detail::Headline {
            self.data(&head)?;
        }
        self.warmup_s = plan.warmup_s;
        self.tick(0.0);
        Ok(())
    }

    /// So long ago the streams began, in seconds: the status moves on, whatever the interval is.
    pub fn tick(&mut self, since_start_s: f64) {
        if self.table.is_none() {
            return;
        }
        let measured = since_start_s - self.warmup_s;
        if measured < 0.0 {
            let left = whole_seconds(-measured);
            self.status(&format!("warming up, {left} left"));
        } else {
            let status = self.progress_words(measured);
            self.status(&status);
        }
    }

    /// An interval is over.
    pub fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        let Some(table) = &mut self.table else { return Ok(()) };
        let rows = table.interval(interval);
        let text: String =
            rows.iter().map(|row| text::table_row(table, row, self.layout, Tone::Plain)).collect();
        self.rows += 1;
        self.rate = table.last_rate();
        if self.detail != Detail::Headline {
            self.data(&text)?;
        }
        self.count(interval);
        let status = self.progress_words(interval.end_s);
        self.status(&status);
        Ok(())
    }

    /// Something worth a line on the side.
    pub fn note(&mut self, note: &str) {
        self.clear();
        let label = self.side_paint.apply(Tone::Dim, "note:");
        // Only a terminal has a width.
        let width = self.layout.room.width.filter(|_| self.progress).unwrap_or(usize::MAX);
        let lines = wrap(&format!("note: {}", clean(note)), width, "  ").join("\n");
        let rest = lines.strip_prefix("note:").unwrap_or(&lines);
        let _ = writeln!(self.side, "{label}{rest}");
    }

    /// The test is over. A failed one writes nothing here: there is nothing but its error.
    pub fn end(&mut self, record: &RunRecord) -> io::Result<()> {
        self.clear();
        if record.status == Status::Failed {
            return Ok(());
        }
        if self.table.is_none() {
            self.start(record)?;
            self.clear();
        }
        // A peer that sends no live intervals still has them in the record.
        if self.rows == 0 {
            for interval in &record.intervals {
                self.interval(interval)?;
            }
            self.clear();
        }
        let Some(table) = &self.table else { return Ok(()) };
        let text = text::ending(&Ending::new(record, table), table, self.layout, self.detail);
        self.data(&text)
    }

    fn data(&mut self, text: &str) -> io::Result<()> {
        self.clear();
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn clear(&mut self) {
        if self.standing {
            let _ = write!(self.side, "\r\u{1b}[K");
            let _ = self.side.flush();
            self.standing = false;
        }
    }

    fn status(&mut self, text: &str) {
        if self.progress {
            let width = self.layout.room.width.unwrap_or(STATUS_WIDTH).saturating_sub(1);
            // A line that wraps could not be written over.
            let text: String = text.chars().take(width).collect();
            let text = self.side_paint.apply(Tone::Dim, &text);
            let _ = write!(self.side, "\r\u{1b}[K{text}");
            let _ = self.side.flush();
            self.standing = true;
        }
    }

    /// Adds what the interval moved of a budget.
    fn count(&mut self, interval: &Interval) {
        // Servers of other programs tell nothing meanwhile of what they send: what came is known.
        let moved = |flow: &Flow<'_>| match self.goal {
            Goal::Bytes(_) => {
                flow.sender.map(|s| s.bytes).or_else(|| flow.receiver.map(|r| r.bytes))
            }
            _ => flow.sender.and_then(|s| s.datagrams).or_else(|| flow.receiver?.datagrams),
        };
        // A budget is each direction's own: the slower one shows how far it is.
        let moved = flows(&interval.figures).iter().filter_map(moved).min();
        self.moved = self.moved.saturating_add(moved.unwrap_or(0));
    }

    fn progress_words(&self, measured_s: f64) -> String {
        let mut parts = vec![match self.goal {
            Goal::Seconds(all) => {
                let left = whole_seconds((all - measured_s).max(0.0));
                format!(
                    "{} of {}, {left} left",
                    whole_seconds(measured_s.min(all)),
                    number::chosen_seconds(all)
                )
            }
            Goal::Bytes(goal) | Goal::Datagrams(goal) => {
                let percent = (self.moved as f64 / goal.max(1) as f64 * 100.0).min(100.0);
                format!("{} so far, {percent:.0} % done", whole_seconds(measured_s))
            }
            Goal::Open => format!("{} so far", whole_seconds(measured_s)),
        }];
        parts.extend(self.rate.clone());
        parts.push("Ctrl-C ends it and keeps the figures".to_owned());
        parts.join(" · ")
    }
}

/// A moment of the status line, which moves once a second.
fn whole_seconds(value: f64) -> String {
    number::chosen_seconds(value.round())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::table::{Room, UNBOUNDED};
    use linerate_testkit::records;

    fn play(record: &RunRecord, layout: Layout, progress: bool) -> (String, String) {
        let (mut out, mut side) = (Vec::new(), Vec::new());
        let mut live = LiveText::new(&mut out, &mut side, layout, progress);
        live.start(record).unwrap();
        live.note("waiting\u{1b}[2J for a free slot");
        for interval in &record.intervals {
            live.interval(interval).unwrap();
        }
        live.end(record).unwrap();
        (String::from_utf8(out).unwrap(), String::from_utf8(side).unwrap())
    }

    #[test]
    fn what_is_seen_live_is_what_is_rendered_later() {
        let room = Room { width: Some(80), spark: true };
        for record in [records::udp_receiver_drops(), records::udp_both(), records::rr()] {
            for layout in [text::PLAIN, Layout { room, paint: Paint { colour: true } }] {
                let (out, _) = play(&record, layout, false);
                assert_eq!(out, render(&record, layout, Detail::default()));
            }
        }
    }

    #[test]
    fn progress_stays_on_the_side() {
        let layout = Layout { room: UNBOUNDED, paint: Paint { colour: false } };
        let (out, side) = play(&records::partial(), layout, true);
        assert!(!out.contains('\u{1b}') && !out.contains("left"), "{out}");
        assert!(side.contains("note: waiting[2J for a free slot\n"), "{side:?}");
        assert!(side.contains("8 s left"), "{side:?}");
        assert!(side.ends_with("\r\u{1b}[K"), "{side:?}");
        let (_, side) = play(&records::partial(), layout, false);
        assert_eq!(side, "note: waiting[2J for a free slot\n");
    }

    #[test]
    fn the_status_moves_between_two_intervals() {
        let mut record = records::udp_receiver_drops();
        for plan in [Some(&mut record.asked), record.agreed.as_mut()].into_iter().flatten() {
            plan.warmup_s = 2.0;
        }
        let room = Room { width: Some(50), spark: true };
        let layout = Layout { room, paint: Paint { colour: false } };
        let (mut out, mut side) = (Vec::new(), Vec::new());
        let mut live = LiveText::new(&mut out, &mut side, layout, true);
        live.tick(1.0);
        live.start(&record).unwrap();
        live.tick(1.0);
        live.tick(2.98);
        live.interval(&record.intervals[0]).unwrap();
        live.tick(5.01);
        let side = String::from_utf8(side).unwrap();
        let shown: Vec<&str> = side.split("\r\u{1b}[K").filter(|s| !s.is_empty()).collect();
        assert_eq!(
            shown,
            [
                "warming up, 2 s left",
                "warming up, 1 s left",
                "1 s of 10 s, 9 s left · Ctrl-C ends it and keeps ",
                "1 s of 10 s, 9 s left · 149.3 Mbit/s · Ctrl-C end",
                "3 s of 10 s, 7 s left · 149.3 Mbit/s · Ctrl-C end",
            ]
        );
    }

    #[test]
    fn a_budget_is_counted_where_the_receiver_alone_tells() {
        let mut record = records::udp_receiver_drops();
        let figures = &mut record.intervals[0].figures;
        figures.sender = None;
        let came = figures.receiver.as_ref().unwrap().bytes;
        record.agreed.as_mut().unwrap().bytes = Some(2 * came);
        let (mut out, mut side) = (Vec::new(), Vec::new());
        let mut live = LiveText::new(&mut out, &mut side, text::PLAIN, true);
        live.start(&record).unwrap();
        live.interval(&record.intervals[0]).unwrap();
        let side = String::from_utf8(side).unwrap();
        assert!(side.contains("1 s so far, 50 % done"), "{side:?}");
    }

    #[test]
    fn only_the_headline_when_only_that_was_asked_for() {
        for record in [records::udp_both(), records::rr(), records::partial()] {
            let mut out = Vec::new();
            let mut live =
                LiveText::new(&mut out, io::sink(), text::PLAIN, true).detail(Detail::Headline);
            live.start(&record).unwrap();
            for interval in &record.intervals {
                live.interval(interval).unwrap();
            }
            live.end(&record).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text, render(&record, text::PLAIN, Detail::Headline));
        }
    }

    #[test]
    fn a_failed_test_leaves_the_output_empty() {
        let mut out = Vec::new();
        let mut live = LiveText::new(&mut out, io::sink(), text::PLAIN, true);
        live.end(&records::failed()).unwrap();
        assert!(out.is_empty());
    }

    #[test]
    fn intervals_that_never_came_live_are_shown_at_the_end() {
        let record = records::tcp();
        let mut out = Vec::new();
        let mut live = LiveText::new(&mut out, io::sink(), text::PLAIN, true);
        live.start(&record).unwrap();
        live.end(&record).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            render(&record, text::PLAIN, Detail::default())
        );
    }
}
