//! The columns of a sweep's points.

use linerate_model::record::Limit;
use linerate_model::sweep::{RegimeKind, SweepPlan, SweepPoint, Variable};

use crate::number;
use crate::run::table::Cell;
use crate::style::Tone;

/// One column.
pub(super) struct Column {
    /// Its two head lines.
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) width: usize,
    /// Columns with the highest rank go first when there is no room.
    rank: u8,
    cell: fn(&SweepPlan, &SweepPoint) -> Cell,
}

impl Column {
    pub(super) fn cell(&self, plan: &SweepPlan, point: &SweepPoint) -> Cell {
        (self.cell)(plan, point)
    }
}

fn plain(text: String) -> Cell {
    Cell { text, tone: Tone::Plain }
}

fn absent() -> Cell {
    Cell { text: number::ABSENT.to_owned(), tone: Tone::Dim }
}

fn or_absent(text: Option<String>) -> Cell {
    text.map_or_else(absent, plain)
}

/// A count or a share, of less weight when it is nothing and worth a look when it is not.
fn harm(is_none: bool, text: String) -> Cell {
    Cell { text, tone: if is_none { Tone::Dim } else { Tone::Warn } }
}

const COLUMNS: &[Column] = &[
    Column {
        group: "",
        name: "trials",
        width: 6,
        rank: 7,
        cell: |_, p| plain(p.trials.to_string()),
    },
    Column {
        group: "bit/s",
        name: "asked",
        width: 8,
        rank: 0,
        cell: |_, p| {
            plain(p.asked_bps.map_or("max".to_owned(), |asked| number::short(asked as f64)))
        },
    },
    Column {
        group: "bit/s",
        name: "sent",
        width: 8,
        rank: 0,
        cell: |_, p| plain(number::short(p.sent_bps)),
    },
    Column {
        group: "bit/s",
        name: "received",
        width: 8,
        rank: 0,
        cell: |_, p| plain(number::short(p.received_bps)),
    },
    Column {
        group: "",
        name: "spread",
        width: 7,
        rank: 4,
        cell: |_, p| {
            // Between trials where there are several, else within the one.
            let sd = p.received_sd_bps.or(p.interval_sd_bps).filter(|_| p.received_bps > 0.0);
            or_absent(sd.map(|sd| format!("{:.1} %", 100.0 * sd / p.received_bps)))
        },
    },
    Column {
        group: "",
        name: "missing",
        width: 8,
        rank: 1,
        cell: |_, p| harm(p.undelivered_ratio <= 0.005, number::loss(p.undelivered_ratio)),
    },
    Column {
        group: "",
        name: "lost",
        width: 7,
        rank: 2,
        cell: |_, p| harm(p.lost_ratio == 0.0, number::loss(p.lost_ratio)),
    },
    Column {
        group: "lost on",
        name: "path",
        width: 9,
        rank: 6,
        cell: |_, p| p.lost_path.map_or_else(absent, |n| harm(n == 0, number::count(n, 9))),
    },
    Column {
        group: "lost on",
        name: "host",
        width: 9,
        rank: 6,
        cell: |_, p| p.dropped_receiver.map_or_else(absent, |n| harm(n == 0, number::count(n, 9))),
    },
    Column {
        group: "",
        name: "jitter",
        width: 7,
        rank: 5,
        cell: |_, p| or_absent(p.jitter_s.map(number::seconds_short)),
    },
    Column {
        group: "delay",
        name: "p99",
        width: 7,
        rank: 4,
        cell: |_, p| or_absent(p.delay_p99_s.map(number::seconds_short)),
    },
    Column {
        group: "cpu",
        name: "tx",
        width: 5,
        rank: 1,
        cell: |_, p| or_absent(p.cpu_sender_percent.map(number::cpu)),
    },
    Column {
        group: "cpu",
        name: "rx",
        width: 5,
        rank: 1,
        cell: |_, p| or_absent(p.cpu_receiver_percent.map(number::cpu)),
    },
    Column {
        group: "",
        name: "regime",
        width: 8,
        rank: 3,
        cell: |_, p| {
            let tone = match p.regime {
                RegimeKind::Sustained => Tone::Good,
                RegimeKind::Plateau | RegimeKind::Rises => Tone::Warn,
                RegimeKind::Unstable | RegimeKind::Collapse => Tone::Bad,
            };
            Cell { text: p.regime.name().to_owned(), tone }
        },
    },
    Column {
        group: "",
        name: "limited by",
        width: 12,
        rank: 0,
        cell: |_, p| {
            let limit = limit(p.limit);
            let text = if p.invalid.is_some() { format!("{limit} ?") } else { limit.to_owned() };
            plain(text)
        },
    },
];

const SWEPT: Column = Column {
    group: "",
    name: "value",
    width: 8,
    rank: 0,
    cell: |plan, p| {
        plain(match (plan.variable, p.value) {
            (_, None) => "max".to_owned(),
            (Variable::Window, Some(value)) => number::bytes(value),
            (_, Some(value)) => number::integer(value),
        })
    },
};

/// A limit in few words.
pub(super) fn limit(limit: Limit) -> &'static str {
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
pub(super) fn columns(plan: &SweepPlan, width: Option<usize>) -> Vec<&'static Column> {
    let swept = (plan.variable != Variable::Rate).then_some(&SWEPT);
    let all: Vec<&Column> = swept.into_iter().chain(COLUMNS).collect();
    let fits = |rank: u8| {
        let kept = all.iter().filter(|c| c.rank <= rank).map(|c| c.width + 2).sum::<usize>();
        width.is_none_or(|width| kept <= width + 2)
    };
    let least = (0..=7).rev().find(|rank| fits(*rank)).unwrap_or(0);
    all.into_iter().filter(|c| c.rank <= least).collect()
}
