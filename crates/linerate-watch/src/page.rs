//! Lines from the top of a screen down.

use linerate_report::clean::clean;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

/// What is left of a screen below what was written.
pub(crate) struct Page<'a> {
    pub(crate) buffer: &'a mut Buffer,
    area: Rect,
}

impl<'a> Page<'a> {
    pub(crate) fn new(buffer: &'a mut Buffer) -> Self {
        let area = buffer.area;
        Self { buffer, area }
    }

    /// Rows that are left.
    pub(crate) fn left(&self) -> u16 {
        self.area.height
    }

    pub(crate) fn width(&self) -> u16 {
        self.area.width
    }

    /// Takes so many rows off the top, as far as they are left.
    pub(crate) fn take(&mut self, rows: u16) -> Rect {
        let rows = rows.min(self.area.height);
        let taken = Rect { height: rows, ..self.area };
        self.area.y += rows;
        self.area.height -= rows;
        taken
    }

    /// Takes the last row.
    pub(crate) fn take_last(&mut self) -> Rect {
        let rows = self.area.height.min(1);
        self.area.height -= rows;
        Rect { y: self.area.y + self.area.height, height: rows, ..self.area }
    }

    /// Writes a line into the next row; what does not fit is cut off.
    pub(crate) fn line(&mut self, line: &Line<'_>) {
        let row = self.take(1);
        write(self.buffer, row, line);
    }

    /// Writes text of one style into the next row.
    pub(crate) fn text(&mut self, text: &str, style: Style) {
        self.line(&Line::from(Span::styled(clean(text).into_owned(), style)));
    }
}

/// Writes a line into the first row of an area, if it has one.
pub(crate) fn write(buffer: &mut Buffer, area: Rect, line: &Line<'_>) {
    if area.height > 0 && area.width > 0 {
        buffer.set_line(area.x, area.y, line, area.width);
    }
}

/// A line with something at its right end, which goes where both do not fit.
pub(crate) fn ends(buffer: &mut Buffer, area: Rect, left: &Line<'_>, right: &str, style: Style) {
    write(buffer, area, left);
    let right = clean(right);
    let columns = right.chars().count();
    let room = usize::from(area.width);
    if area.height > 0 && left.width() + columns < room {
        let x = area.x + u16::try_from(room - columns).unwrap_or(area.width);
        buffer.set_stringn(x, area.y, right, columns, style);
    }
}
