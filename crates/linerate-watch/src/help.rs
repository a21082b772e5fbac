//! The keys, over the rest of a screen.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::text::{Line, Span};
use ratatui_core::widgets::Widget;
use ratatui_widgets::block::Block;
use ratatui_widgets::clear::Clear;

use crate::look::Look;
use crate::page::write;

/// Draws a box with these keys and what each does.
pub(crate) fn draw(keys: &[(&str, &str)], buffer: &mut Buffer, look: Look) {
    let key_width = keys.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    let widest = keys.iter().map(|(_, does)| does.chars().count()).max().unwrap_or(0);
    let small = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let area = buffer.area;
    let width = small(key_width + widest + 6).min(area.width);
    let height = small(keys.len() + 2).min(area.height);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    Clear.render(place, buffer);
    Block::bordered().title(" keys ").render(place, buffer);
    for (at, (key, does)) in keys.iter().enumerate() {
        let row = Rect {
            x: place.x + 2,
            y: place.y + 1 + small(at),
            width: width.saturating_sub(4),
            height: 1,
        };
        if row.y + 1 < place.bottom() {
            let key = Span::styled(format!("{key:<key_width$}"), look.title());
            write(buffer, row, &Line::from(vec![key, Span::raw(format!("  {does}"))]));
        }
    }
}
