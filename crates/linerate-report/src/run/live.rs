//! A test as text while it runs: rows on the output as intervals end, progress and notes on the
//! side, which is standard error. The two never mix, even when they are the same terminal.

use std::io::{self, Write};

use linerate_model::record::{Interval, RunRecord, Status};

use super::table::Table;
use super::text::{self, Layout};
use super::view::{Ending, Head};
use crate::clean::clean;
use crate::number;
use crate::style::{Paint, Tone};

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
}

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
        }
    }

    /// The streams exist.
    pub fn start(&mut self, record: &RunRecord) -> io::Result<()> {
        let plan = record.agreed.as_ref().unwrap_or(&record.asked);
        self.goal = match (plan.duration_s, plan.bytes, plan.datagrams) {
            (Some(seconds), _, _) => Goal::Seconds(seconds),
            (_, Some(bytes), _) => Goal::Bytes(bytes),
            (_, _, Some(datagrams)) => Goal::Datagrams(datagrams),
            _ => Goal::Open,
        };
        let table = Table::new(record, self.layout.room);
        let mut head = text::head(&Head::new(record), &table, self.layout);
        head.push_str(&text::table_head(&table, self.layout));
        self.table = Some(table);
        self.data(&head)?;
        let warmup = plan.warmup_s;
        self.status(&if warmup > 0.0 {
            format!("warming up for {}", number::chosen_seconds(warmup))
        } else {
            "running".to_owned()
        });
        Ok(())
    }

    /// An interval is over.
    pub fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        let Some(table) = &mut self.table else { return Ok(()) };
        let rows = table.interval(interval);
        let text: String =
            rows.iter().map(|row| text::table_row(table, row, self.layout, Tone::Plain)).collect();
        self.rows += 1;
        self.data(&text)?;
        let status = self.progress_words(interval);
        self.status(&status);
        Ok(())
    }

    /// Something worth a line on the side.
    pub fn note(&mut self, note: &str) {
        self.clear();
        let label = self.side_paint.apply(Tone::Dim, "note:");
        let _ = writeln!(self.side, "{label} {}", clean(note));
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
        let text = text::ending(&Ending::new(record, table), table, self.layout);
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
            self.clear();
            let _ = write!(self.side, "{}", self.side_paint.apply(Tone::Dim, text));
            let _ = self.side.flush();
            self.standing = true;
        }
    }

    fn progress_words(&mut self, interval: &Interval) -> String {
        let figures = &interval.figures;
        let pairs = [&figures.forward, &figures.reverse].into_iter().flatten();
        let sent = |s: Option<&linerate_model::record::SenderFigures>, goal: Goal| match goal {
            Goal::Bytes(_) => s.map_or(0, |s| s.bytes),
            _ => s.and_then(|s| s.datagrams).unwrap_or(0),
        };
        let one = sent(figures.sender.as_ref(), self.goal);
        // A budget is each direction's own: the slower one tells how far it is.
        let moved = pairs.map(|p| sent(p.sender.as_ref(), self.goal)).min().unwrap_or(one);
        self.moved = self.moved.saturating_add(moved);
        let left = match self.goal {
            Goal::Seconds(all) => {
                format!("{} left", number::chosen_seconds((all - interval.end_s).max(0.0)))
            }
            Goal::Bytes(goal) | Goal::Datagrams(goal) => {
                let percent = (self.moved as f64 / goal.max(1) as f64 * 100.0).min(100.0);
                format!("{percent:.0} % done")
            }
            Goal::Open => format!("{} so far", number::chosen_seconds(interval.end_s)),
        };
        format!("{left} · Ctrl-C ends it and keeps the figures so far")
    }
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
                assert_eq!(out, text::render(&record, layout));
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
    fn a_failed_test_leaves_the_output_empty() {
        let mut out = Vec::new();
        let mut live = LiveText::new(&mut out, io::sink(), text::PLAIN, true);
        live.end(&records::failed()).unwrap();
        assert!(out.is_empty());
    }

    #[test]
    fn intervals_that_never_came_live_are_told_at_the_end() {
        let record = records::tcp();
        let mut out = Vec::new();
        let mut live = LiveText::new(&mut out, io::sink(), text::PLAIN, true);
        live.start(&record).unwrap();
        live.end(&record).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), text::render(&record, text::PLAIN));
    }
}
