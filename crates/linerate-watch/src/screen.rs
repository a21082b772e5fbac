//! A screen without a terminal.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

/// Draws into an empty screen of this many columns and rows.
pub fn draw(columns: u16, rows: u16, draw: impl FnOnce(&mut Buffer)) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    draw(&mut buffer);
    buffer
}

/// What stands on a screen, a line a row, without the blanks at their ends.
pub fn text(buffer: &Buffer) -> String {
    let columns = usize::from(buffer.area.width.max(1));
    let mut text = String::new();
    for row in buffer.content().chunks(columns) {
        let row: String = row.iter().map(|cell| cell.symbol()).collect();
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}
