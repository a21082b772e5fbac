//! The columns of a sweep's points.

use linerate_model::record::Limit;
use linerate_model::sweep::{RegimeKind, SweepPlan, SweepPoint, Variable};

use crate::number::{self, ABSENT};
use crate::rows::{self, Cell, column, keep};
use crate::style::Tone;

/// A column of a sweep's points.
pub(super) type Column = rows::Column<fn(&SweepPlan, &SweepPoint) -> Cell>;

/// A count or a share, of less weight when it is nothing and worth a look when it is not.
fn harm(is_none: bool, text: Option<String>) -> Cell {
    Cell::toned(text, if is_none { Tone::Dim } else { Tone::Warn })
}

fn lost(count: Option<u64>) -> Cell {
    harm(count == Some(0), count.map(|n| number::count(n, 9)))
}

/// What a regime is to a reader.
pub(super) fn tone(kind: RegimeKind) -> Tone {
    match kind {
        RegimeKind::Sustained => Tone::Good,
        RegimeKind::Plateau | RegimeKind::Rises => Tone::Warn,
        RegimeKind::Unstable | RegimeKind::Collapse => Tone::Bad,
    }
}

const COLUMNS: &[Column] = &[
    column("", "trials", 6, 7, |_, p| Cell::plain(p.trials.to_string())),
    column("bit/s", "asked", 8, 0, |_, p| {
        Cell::plain(p.asked_bps.map_or("max".to_owned(), |asked| number::short(asked as f64)))
    }),
    column("bit/s", "sent", 8, 0, |_, p| Cell::plain(number::short(p.sent_bps))),
    column("bit/s", "received", 8, 0, |_, p| Cell::plain(number::short(p.received_bps))),
    column("", "spread", 7, 4, |_, p| {
        // Between trials where there are several, else within the one.
        let sd = p.received_sd_bps.or(p.interval_sd_bps).filter(|_| p.received_bps > 0.0);
        Cell::known(sd.map(|sd| format!("{:.1} %", 100.0 * sd / p.received_bps)))
    }),
    column("", "missing", 8, 1, |_, p| {
        harm(p.undelivered_ratio <= 0.005, Some(number::loss(p.undelivered_ratio)))
    }),
    column("", "lost", 7, 2, |_, p| harm(p.lost_ratio == 0.0, Some(number::loss(p.lost_ratio)))),
    column("lost on", "path", 9, 6, |_, p| lost(p.lost_path)),
    column("lost on", "host", 9, 6, |_, p| lost(p.dropped_receiver)),
    column("", "jitter", 7, 5, |_, p| Cell::known(p.jitter_s.map(number::seconds_short))),
    column("delay", "p99", 7, 4, |_, p| Cell::known(p.delay_p99_s.map(number::seconds_short))),
    column("cpu", "tx", 5, 1, |_, p| Cell::known(p.cpu_sender_percent.map(number::cpu))),
    column("cpu", "rx", 5, 1, |_, p| Cell::known(p.cpu_receiver_percent.map(number::cpu))),
    column("", "regime", 8, 3, |_, p| Cell {
        text: p.regime.name().to_owned(),
        tone: tone(p.regime),
    }),
    column("", "limited by", 12, 0, |_, p| Cell::plain(limited(Some(p.limit), &p.invalid))),
];

const SWEPT: Column = column("", "value", 8, 0, |plan, p| Cell::plain(value(plan, p.value)));

/// A value of the thing that is varied, for a column.
pub(super) fn value(plan: &SweepPlan, value: Option<u64>) -> String {
    match (value, plan.variable) {
        (None, _) => "max".to_owned(),
        (Some(value), Variable::Rate) => number::short(value as f64),
        (Some(value), Variable::Window) => number::bytes(value),
        (Some(value), _) => number::integer(value),
    }
}

/// What limited a trial or a point; with a question mark where that says nothing about the path.
pub(super) fn limited(limit: Option<Limit>, invalid: &Option<String>) -> String {
    let text = limit.map_or(ABSENT, self::limit);
    if invalid.is_some() { format!("{text} ?") } else { text.to_owned() }
}

/// A limit in few words.
fn limit(limit: Limit) -> &'static str {
    match limit {
        Limit::RequestedRate => "-",
        Limit::SenderCpu => "sender CPU",
        Limit::SenderHost => "sender host",
        Limit::Path => "path",
        Limit::ReceiverCpu => "receiver CPU",
        Limit::ReceiverBuffer => "rx buffer",
        Limit::OtherWork => "other work",
        other => other.name(),
    }
}

/// The columns that fit.
pub(super) fn columns(plan: &SweepPlan, width: Option<usize>) -> Vec<Column> {
    let mut columns = COLUMNS.to_vec();
    if plan.variable != Variable::Rate {
        columns.insert(0, Column { name: plan.variable.name(), ..SWEPT });
    }
    keep(&mut columns, width, |_| 0);
    columns
}
