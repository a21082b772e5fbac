//! A bar for each core: what its time went to, and who works there.

use linerate_model::activity::CoreActivity;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::text::{Line, Span};

use crate::look::{Look, Part};
use crate::page::write;

/// Columns of one core: number, bar, share and marks.
const LEAST_CELL: u16 = 36;
/// Those beside the bar.
const BESIDE: u16 = 15;
/// A core that is busier than this is full.
const FULL_PERCENT: f64 = 95.0;

/// The cores of a host, and what is known of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores<'a> {
    pub(crate) cores: &'a [CoreActivity],
    /// Those that take the interrupts of an interface.
    pub(crate) interrupts: &'a [u32],
    /// Those on which data threads run.
    pub(crate) data: &'a [u32],
}

/// The signs of the bars, and of the marks behind them.
pub(crate) fn legend(look: Look, data: bool) -> Line<'static> {
    let mut spans = Vec::new();
    for part in Part::ALL {
        spans.push(Span::styled(part.sign(), look.part(part)));
        spans.push(Span::styled(format!(" {}  ", part.name()), look.dim()));
    }
    spans.push(Span::raw("I"));
    spans.push(Span::styled(" takes NIC interrupts", look.dim()));
    if data {
        spans.push(Span::raw("  D"));
        spans.push(Span::styled(" data thread", look.dim()));
    }
    Line::from(spans)
}

impl Cores<'_> {
    fn columns(width: u16) -> u16 {
        (width / LEAST_CELL).max(1)
    }

    /// Rows in which all have their place.
    pub(crate) fn rows(&self, width: u16) -> u16 {
        let rows = self.cores.len().div_ceil(usize::from(Self::columns(width)));
        u16::try_from(rows).unwrap_or(u16::MAX)
    }

    /// Where there are more cores than room, the busiest are drawn, and the last place says how many are not.
    pub(crate) fn draw(&self, area: Rect, buffer: &mut Buffer, look: Look) {
        if area.width == 0 || area.height == 0 {
            return;
        }
        let needed = self.rows(area.width).max(1);
        let columns = Self::columns(area.width);
        let rows = needed.min(area.height);
        let room = usize::from(columns) * usize::from(rows);
        let (shown, rest) = self.most(room);
        let width = area.width / columns;
        for (place, core) in shown.iter().enumerate() {
            let cell = cell(area, place, rows, width);
            self.bar(core, cell, buffer, look);
        }
        if let Some(rest) = rest {
            let words = Line::from(Span::styled(rest, look.dim()));
            write(buffer, cell(area, shown.len(), rows, width), &words);
        }
    }

    /// As many as there is room for, by number, and what the others do.
    fn most(&self, room: usize) -> (Vec<&CoreActivity>, Option<String>) {
        let mut cores: Vec<&CoreActivity> = self.cores.iter().collect();
        if cores.len() <= room {
            return (cores, None);
        }
        cores.sort_by(|a, b| a.idle_percent.total_cmp(&b.idle_percent));
        let others = cores.split_off(room.saturating_sub(1));
        cores.sort_unstable_by_key(|core| core.core);
        // Not the first, which is the least idle: stolen time is neither idle nor busy.
        let busiest = others.iter().map(|core| core.busy_percent()).fold(0.0, f64::max);
        (cores, Some(format!("  {} more cores, none above {busiest:.0} %", others.len())))
    }

    fn bar(&self, core: &CoreActivity, cell: Rect, buffer: &mut Buffer, look: Look) {
        let width = cell.width.saturating_sub(BESIDE);
        let mut spans = vec![Span::raw(format!("{:>3} ", core.core))];
        let (mut percent, mut drawn) = (0.0, 0);
        for part in Part::ALL {
            percent += share(core, part);
            let until = (percent / 100.0 * f64::from(width)).round().clamp(0.0, f64::from(width));
            let until = until as u16;
            let signs = part.sign().repeat(usize::from(until.saturating_sub(drawn)));
            spans.push(Span::styled(signs, look.part(part)));
            drawn = until.max(drawn);
        }
        spans.push(Span::styled("·".repeat(usize::from(width - drawn)), look.dim()));
        let busy = core.busy_percent();
        let style = if busy >= FULL_PERCENT { look.bad() } else { Default::default() };
        spans.push(Span::styled(format!(" {busy:>3.0} % "), style));
        let mark = |cores: &[u32], sign| if cores.contains(&core.core) { sign } else { " " };
        spans.push(Span::raw(mark(self.interrupts, "I")));
        spans.push(Span::raw(mark(self.data, "D")));
        write(buffer, cell, &Line::from(spans));
    }
}

fn share(core: &CoreActivity, part: Part) -> f64 {
    match part {
        Part::User => core.user_percent,
        Part::System => core.system_percent,
        Part::Softirq => core.softirq_percent,
        Part::Steal => core.steal_percent,
    }
}

/// Places go down a column first, so that neighbours stand below each other.
fn cell(area: Rect, place: usize, rows: u16, width: u16) -> Rect {
    let place = u16::try_from(place).unwrap_or(u16::MAX);
    let (column, row) = (place / rows.max(1), place % rows.max(1));
    let x = area.x.saturating_add(column.saturating_mul(width));
    Rect { x, y: area.y + row, width: width.min(area.right().saturating_sub(x)), height: 1 }
}
