//! A host without a test: cores, interfaces, drops and interrupts.

use linerate_model::activity::{HostActivity, InterfaceActivity};
use linerate_model::host::HostFacts;
use linerate_report::clean::clean;
use linerate_report::number;
use ratatui_core::buffer::Buffer;
use ratatui_core::text::{Line, Span};

use crate::chart::{LEAST_ROWS, Rates, Series};
use crate::cores::{self, Cores};
use crate::help;
use crate::look::Look;
use crate::page::{Page, ends, write};

/// Samples that are kept for the chart.
const KEPT: usize = 600;

/// What is known of the host.
#[derive(Debug, Clone)]
pub struct HostView {
    host: HostFacts,
    interval_s: f64,
    history: Vec<HostActivity>,
    /// Time of day of the newest.
    at: String,
    /// What is shown while the screen stands still.
    held: Option<(Vec<HostActivity>, String)>,
    /// The interface in the chart, where the user chose one.
    chosen: Option<String>,
    /// Over the keys, until the next key.
    message: Option<String>,
    help: bool,
}

impl HostView {
    /// Nothing is known yet; a sample will come so often.
    pub fn new(host: HostFacts, interval_s: f64) -> Self {
        Self {
            host,
            interval_s,
            history: Vec::new(),
            at: String::new(),
            held: None,
            chosen: None,
            message: None,
            help: false,
        }
    }

    /// A span is over, at this time of day.
    pub fn push(&mut self, activity: HostActivity, at: &str) {
        if self.history.len() >= KEPT {
            self.history.remove(0);
        }
        self.history.push(activity);
        at.clone_into(&mut self.at);
    }

    /// Stands still, or goes on.
    pub fn pause(&mut self) {
        self.held = match self.held {
            Some(_) => None,
            None => Some((self.history.clone(), self.at.clone())),
        };
    }

    /// Shows the keys, or no longer.
    pub fn toggle_help(&mut self) {
        self.help = !self.help;
    }

    /// Says something in place of the keys; nothing brings them back.
    pub fn say(&mut self, message: Option<String>) {
        self.message = message;
    }

    /// Shows the next interface in the chart.
    pub fn next_interface(&mut self) {
        let Some(last) = self.history.last() else { return };
        let names: Vec<&str> = last.interfaces.iter().map(|i| i.name.as_str()).collect();
        let now = self.focus(&self.history).map(str::to_owned);
        let at = names.iter().position(|name| Some(*name) == now.as_deref());
        let next = at.map_or(0, |at| at + 1);
        self.chosen = names.get(next).or(names.first()).map(|name| (*name).to_owned());
    }

    /// The interface in the chart: the chosen one, else the one that carried most.
    fn focus<'a>(&'a self, history: &'a [HostActivity]) -> Option<&'a str> {
        let last = history.last()?;
        let there = |name: &str| last.interfaces.iter().any(|i| i.name == name);
        if let Some(chosen) = self.chosen.as_deref().filter(|name| there(name)) {
            return Some(chosen);
        }
        let carried = |name: &str| -> f64 {
            let all = history.iter().flat_map(|activity| &activity.interfaces);
            all.filter(|i| i.name == name).map(|i| i.received_bps + i.sent_bps).sum()
        };
        let most = last.interfaces.iter().map(|i| i.name.as_str());
        most.max_by(|a, b| carried(a).total_cmp(&carried(b)))
    }

    /// Draws the whole screen.
    pub fn draw(&self, buffer: &mut Buffer, look: Look) {
        let held = self.held.as_ref();
        let (history, at) = held.map_or((&self.history, &self.at), |(history, at)| (history, at));
        let mut page = Page::new(buffer);
        self.head(&mut page, at, look);
        let foot = page.take_last();
        match history.last() {
            None => page.text("reading the counters …", look.dim()),
            Some(now) => {
                draw_cores(now, &mut page, look);
                draw_interfaces(now, &mut page, look);
                draw_interrupts(now, &mut page, look);
                draw_backlog(now, &mut page, look);
                self.draw_chart(history, &mut page, look);
            }
        }
        let keys = match &self.message {
            Some(message) => message.as_str(),
            None => "q quit · space pause · Tab interface · s save screen · ? help",
        };
        let state = if held.is_some() { "PAUSED" } else { "" };
        ends(
            buffer,
            foot,
            &Line::from(Span::styled(clean(keys).into_owned(), look.dim())),
            state,
            look.bar(),
        );
        if self.help {
            help::draw(KEYS, buffer, look);
        }
    }

    fn head(&self, page: &mut Page<'_>, at: &str, look: Look) {
        let mut parts = vec!["linerate watch".to_owned(), clean(&self.host.hostname).into_owned()];
        parts.extend(self.host.kernel.as_ref().map(|kernel| format!("Linux {}", clean(kernel))));
        parts.extend(self.host.cores.map(|cores| format!("{cores} cores")));
        let head = Line::from(Span::styled(parts.join(" · "), look.title()));
        let every = format!("every {} · {at}", number::chosen_seconds(self.interval_s));
        let row = page.take(1);
        ends(page.buffer, row, &head, &every, look.dim());
    }

    fn draw_chart(&self, history: &[HostActivity], page: &mut Page<'_>, look: Look) {
        let Some(name) = self.focus(history) else { return };
        if page.left() <= LEAST_ROWS {
            return;
        }
        page.take(1);
        let area = page.take(page.left());
        // Where there is one point for each column of dots, more would hide each other.
        let most = usize::from(area.width) * 2;
        let newest = history.get(history.len().saturating_sub(most)..).unwrap_or_default();
        let length = (newest.len().max(60)) as f64 * self.interval_s;
        let points = |rate: fn(&InterfaceActivity) -> f64| {
            let ago = (0..newest.len()).rev().map(|n| -(n as f64) * self.interval_s);
            let of = newest.iter().zip(ago).filter_map(|(activity, at)| {
                let interface = activity.interfaces.iter().find(|i| i.name == name)?;
                Some((at, rate(interface)))
            });
            of.collect()
        };
        let rates = Rates {
            title: clean(name).into_owned(),
            unit: "bit/s",
            series: vec![
                Series {
                    name: "received",
                    points: points(|i| i.received_bps),
                    style: look.received(),
                    dotted: false,
                },
                Series {
                    name: "sent",
                    points: points(|i| i.sent_bps),
                    style: look.sent(),
                    dotted: true,
                },
            ],
            from: (-length, format!("-{}", number::chosen_seconds(length))),
            to: (0.0, "now".to_owned()),
        };
        rates.draw(area, page.buffer, look);
    }
}

const KEYS: &[(&str, &str)] = &[
    ("q, Ctrl-C", "quit"),
    ("space", "hold the screen still, and go on"),
    ("Tab", "the next interface in the chart"),
    ("s", "save this screen as text into this folder"),
    ("?", "these keys, and back"),
];

fn draw_cores(now: &HostActivity, page: &mut Page<'_>, look: Look) {
    let title = page.take(1);
    write(page.buffer, title, &Line::from(Span::styled("cores", look.title())));
    let beside = ratatui_core::layout::Rect {
        x: title.x + 7.min(title.width),
        width: title.width.saturating_sub(7),
        ..title
    };
    write(page.buffer, beside, &cores::legend(look, false));
    let interrupts = now.interrupt_cores();
    let cores = Cores { cores: &now.cores, interrupts: &interrupts, data: &[] };
    // The rest of the screen is for what the cores do.
    let most = (page.left() / 3).max(1);
    let area = page.take(cores.rows(page.width()).min(most));
    cores.draw(area, page.buffer, look);
}

/// Columns of a row of an interface behind its name.
const HEADS: [&str; 7] =
    ["rx bit/s", "tx bit/s", "rx pkt/s", "tx pkt/s", "rx drop", "tx drop", "of link"];
const NAME_WIDTH: usize = 12;
const CELL_WIDTH: usize = 9;

fn draw_interfaces(now: &HostActivity, page: &mut Page<'_>, look: Look) {
    let heads: String = HEADS.iter().map(|head| format!("{head:>CELL_WIDTH$}")).collect();
    page.text(&format!("{:<NAME_WIDTH$}{heads}", "interfaces"), look.title());
    // Interrupts and backlogs come below.
    let room = usize::from(page.left().saturating_sub(4).min((page.left() / 2).max(2)));
    let mut shown: Vec<&InterfaceActivity> = now.interfaces.iter().collect();
    if shown.len() > room {
        let carried = |i: &InterfaceActivity| i.received_bps + i.sent_bps;
        shown.sort_by(|a, b| carried(b).total_cmp(&carried(a)));
        let busiest: Vec<&str> =
            shown.iter().take(room.saturating_sub(1)).map(|i| i.name.as_str()).collect();
        let left_out = shown.len() - busiest.len();
        let kept = now.interfaces.iter().filter(|i| busiest.contains(&i.name.as_str()));
        kept.for_each(|interface| page.line(&row(interface, look)));
        page.text(&format!("{left_out} more, which carry less"), look.dim());
        return;
    }
    shown.iter().for_each(|interface| page.line(&row(interface, look)));
}

fn row(interface: &InterfaceActivity, look: Look) -> Line<'static> {
    let name: String = clean(&interface.name).chars().take(NAME_WIDTH - 1).collect();
    let mut spans = vec![Span::raw(format!("{name:<NAME_WIDTH$}"))];
    let rates = [
        interface.received_bps,
        interface.sent_bps,
        interface.received_packets_per_second,
        interface.sent_packets_per_second,
    ];
    for rate in rates {
        let words = if rate < 1.0 { "0".to_owned() } else { number::short(rate) };
        spans.push(Span::raw(format!("{words:>CELL_WIDTH$}")));
    }
    for dropped in [interface.received_dropped_packets, interface.sent_dropped_packets] {
        let style = if dropped > 0 { look.bad() } else { look.dim() };
        let words = number::count(dropped, CELL_WIDTH - 1);
        spans.push(Span::styled(format!("{words:>CELL_WIDTH$}"), style));
    }
    let share = interface.speed_mbps.map(|speed| {
        let most = interface.received_bps.max(interface.sent_bps);
        format!("{:.0} %", most / (f64::from(speed) * 1e4))
    });
    let share = share.unwrap_or_else(|| number::ABSENT.to_owned());
    spans.push(Span::styled(format!("{share:>CELL_WIDTH$}"), look.dim()));
    Line::from(spans)
}

fn draw_interrupts(now: &HostActivity, page: &mut Page<'_>, look: Look) {
    page.text("interrupts/s of interfaces, by core", look.title());
    let with: Vec<_> = now.interfaces.iter().filter(|i| !i.interrupts.is_empty()).collect();
    if with.is_empty() {
        page.text("none, or the kernel does not say whose they are", look.dim());
        return;
    }
    let room = usize::from(page.left().saturating_sub(1)).clamp(1, 6);
    for interface in with.iter().take(room) {
        let mut took: Vec<_> = interface.interrupts.iter().collect();
        took.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
        let words: Vec<String> = took
            .iter()
            .map(|took| format!("core {}: {}", took.core, number::short(took.per_second.round())))
            .collect();
        let name: String = clean(&interface.name).chars().take(NAME_WIDTH - 1).collect();
        page.text(&format!("{name:<NAME_WIDTH$}{}", words.join(" · ")), look.plain());
    }
}

fn draw_backlog(now: &HostActivity, page: &mut Page<'_>, look: Look) {
    let all = |pick: fn(&linerate_model::activity::CoreActivity) -> Option<u64>| -> Option<u64> {
        let known: Vec<u64> = now.cores.iter().filter_map(pick).collect();
        (!known.is_empty()).then(|| known.iter().sum())
    };
    let Some((dropped, squeezed)) =
        all(|c| c.softnet_dropped_packets).zip(all(|c| c.softnet_squeezed))
    else {
        return;
    };
    let on: Vec<String> = now
        .cores
        .iter()
        .filter(|core| core.softnet_dropped_packets.is_some_and(|n| n > 0))
        .map(|core| core.core.to_string())
        .collect();
    let on = if on.is_empty() { String::new() } else { format!(" on core {}", on.join(", ")) };
    let words = format!(
        "dropped {}{on} · cut short {} times",
        number::integer(dropped),
        number::integer(squeezed)
    );
    let style = if dropped > 0 { look.bad() } else { look.plain() };
    page.line(&Line::from(vec![
        Span::styled(format!("{:<NAME_WIDTH$}", "backlog"), look.title()),
        Span::styled(words, style),
    ]));
}
