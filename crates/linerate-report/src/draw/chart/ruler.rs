//! The axes of a chart: from values to places, round numbers beside them, and how those are written.

use std::fmt::Write;

use super::{Axis, Unit};
use crate::draw::scale::{Scale, ticks};
use crate::draw::{WIDTH, beside_axis, escape, shortened};
use crate::number::prefix_between;

/// The plot's rectangle.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Area {
    pub(super) fn x(self, share: f64) -> f64 {
        self.left + share * (self.right - self.left)
    }

    pub(super) fn y(self, share: f64) -> f64 {
        self.bottom - share * (self.bottom - self.top)
    }
}

/// An axis with its range.
pub(super) struct Ruler<'a> {
    axis: &'a Axis,
    scale: Scale,
}

impl<'a> Ruler<'a> {
    pub(super) fn new(axis: &'a Axis, values: impl Iterator<Item = f64>) -> Option<Self> {
        let log = axis.log;
        let values = values.filter(|v| v.is_finite() && (!log || *v > 0.0));
        let (mut low, mut high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            return None;
        }
        if axis.zero && !log {
            low = low.min(0.0);
        }
        if let Some(top) = axis.least_top {
            high = high.max(top);
        }
        if let Some(top) = axis.most_top.filter(|top| *top > low) {
            high = high.min(top);
        }
        if axis.zero && high <= 0.0 {
            high = 1.0;
        }
        if log {
            (low, high) = (low.log10(), high.log10());
        }
        // A little room above, so that the largest does not stand on the frame.
        let room = (high - low) * if axis.least_top == Some(high) { 0.0 } else { 0.04 };
        let below = if axis.zero || axis.unit == Unit::Nines { 0.0 } else { room };
        let scale = Scale::covering([low - below, high + room].into_iter(), 2)?;
        Some(Self { axis, scale })
    }

    pub(super) fn shows(&self, value: f64) -> bool {
        !self.axis.log || value > 0.0
    }

    pub(super) fn share(&self, value: f64) -> f64 {
        if self.axis.log {
            return self.scale.share(value.max(f64::MIN_POSITIVE).log10());
        }
        self.scale.share(value)
    }

    /// The same without an end: above 1 for what lies beyond the top.
    pub(super) fn share_beyond(&self, value: f64) -> f64 {
        let (low, high) = self.scale.ends();
        let share = self.share(value);
        // Only an axis with a limit has anything above it.
        if share < 1.0 || self.axis.most_top.is_none() || self.axis.log || high <= low {
            return share;
        }
        (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)
    }

    /// Where a number stands, and what it says.
    fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let (low, high) = self.scale.ends();
        if self.axis.unit == Unit::Nines {
            return (0..=high.floor() as i64)
                .map(|nines| (nines as f64, nines_text(nines as f64)))
                .filter(|(at, _)| *at >= low)
                .collect();
        }
        if self.axis.log {
            return log_ticks(low, high, wanted)
                .into_iter()
                .map(|v| (v, tick_text(v, v, self.axis.unit)))
                .collect();
        }
        let top = low.abs().max(high.abs());
        let mut values = ticks(&self.scale, wanted);
        if self.axis.unit == Unit::Whole {
            values.retain(|v| (v - v.round()).abs() < 1e-9);
        }
        values.into_iter().map(|v| (v, tick_text(v, top, self.axis.unit))).collect()
    }

    pub(super) fn draw_below(&self, out: &mut String, area: Area) {
        let mut free = f64::NEG_INFINITY;
        for (value, text) in self.ticks(9) {
            let at = area.x(self.share(value));
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{at:.1} {:.1}V{:.1}\"/>",
                area.top, area.bottom
            );
            let half = 3.6 * text.chars().count() as f64;
            if at - half > free {
                free = at + half + 6.0;
                beside_axis(out, "middle", at, area.bottom + 16.0, &text);
            }
        }
        let Area { left, right, bottom, .. } = area;
        let _ = write!(out, "<path class=\"edge\" d=\"M{left:.1} {bottom:.1}H{right:.1}\"/>");
        beside_axis(out, "middle", (left + right) / 2.0, bottom + 34.0, &self.axis.label);
    }

    pub(super) fn draw_beside(&self, out: &mut String, area: Area, right: bool) {
        for (value, text) in self.ticks(6) {
            let at = area.y(self.share(value));
            if !right {
                let _ = writeln!(
                    out,
                    "<path class=\"grid\" d=\"M{:.1} {at:.1}H{:.1}\"/>",
                    area.left, area.right
                );
            }
            let (x, anchor) =
                if right { (area.right + 7.0, "start") } else { (area.left - 7.0, "end") };
            beside_axis(out, anchor, x, at + 4.0, &text);
        }
        let edge = if right { area.right } else { area.left };
        let (x, turn) = if right { (WIDTH - 14.0, 90) } else { (13.0, -90) };
        let middle = (area.top + area.bottom) / 2.0;
        let _ = writeln!(
            out,
            "<path class=\"edge\" d=\"M{edge:.1} {:.1}V{:.1}\"/><text class=\"soft\" \
             transform=\"translate({x:.1} {middle:.1}) rotate({turn})\" text-anchor=\"middle\">{}</text>",
            area.top,
            area.bottom,
            escape(&shortened(&self.axis.label, 44))
        );
    }
}

/// Values at 1, and where there is room at 2 and 5, of each power of ten.
pub(super) fn log_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let decades = high - low;
    let steps: &[f64] = match decades {
        d if d * 3.0 <= wanted as f64 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let every = (decades / wanted.max(1) as f64).ceil().max(1.0) as i64;
    let first = low.floor() as i64;
    (first..=high.ceil() as i64)
        .filter(|power| (power - first) % every == 0)
        .flat_map(|power| steps.iter().map(move |s| s * 10f64.powi(power as i32)))
        .filter(|v| {
            let at = v.log10();
            at >= low - 1e-9 && at <= high + 1e-9
        })
        .collect()
}

/// The number at a tick. `top` is the largest of its axis, which chooses the prefix.
pub(super) fn tick_text(value: f64, top: f64, unit: Unit) -> String {
    let most = top.abs() * 1.000_001;
    let (prefix, ending) = match unit {
        Unit::Nines => return nines_text(value),
        Unit::BitRate | Unit::Count | Unit::Whole => (prefix_between(1.0, 1e12, most), ""),
        // Of datagrams every byte counts.
        Unit::Bytes if top.abs() < 1e4 => (None, "B"),
        Unit::Bytes => (prefix_between(1.0, 1e12, most), "B"),
        Unit::Seconds => (prefix_between(1e-9, 1.0, most).or(Some((1e-9, "n"))), "s"),
        Unit::Percent => (None, "%"),
    };
    if value == 0.0 && unit != Unit::Percent {
        return "0".to_owned();
    }
    let (size, prefix) = prefix.unwrap_or((1.0, ""));
    let text = format!("{:.6}", value / size);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let text = if text == "-0" { "0" } else { text };
    format!("{text} {prefix}{ending}").trim_end().to_owned()
}

/// A number of nines as the percentile it is.
pub(super) fn nines_text(nines: f64) -> String {
    if nines == 0.0 {
        return "0 %".to_owned();
    }
    let share = 100.0 * (1.0 - 10f64.powf(-nines));
    let text = format!("{share:.*}", (nines - 2.0).ceil().max(0.0) as usize);
    format!("{text} %")
}
