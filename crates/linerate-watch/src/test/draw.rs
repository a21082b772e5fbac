//! The screen of a test.

use linerate_model::activity::CoreActivity;
use linerate_model::host::HostFacts;
use linerate_model::plan::PlanDirection;
use linerate_model::record::{CpuFigures, Interval, PlanRecord, RunRecord};
use linerate_report::clean::clean;
use linerate_report::number;
use linerate_report::run::view::Head;
use linerate_report::style::wrap;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use super::TestView;
use super::flows::{Flow, Lost, cpus, flows};
use crate::chart::{LEAST_ROWS, Rates, Series};
use crate::cores::{self, Cores};
use crate::help;
use crate::look::Look;
use crate::page::{Page, ends, write};

/// Rows for what the verdict says.
const VERDICT_ROWS: u16 = 3;

impl TestView {
    /// Draws the whole screen.
    pub fn draw(&self, buffer: &mut Buffer, look: Look) {
        let shown = self.held.as_deref().unwrap_or(self);
        let mut page = Page::new(buffer);
        let foot = page.take_last();
        match &shown.record {
            None => page.text("asking for the test …", look.dim()),
            Some(record) => shown.draw_test(record, &mut page, look),
        }
        let keys = match &self.message {
            Some(message) => message.as_str(),
            None if self.rate.fixed().is_some() => {
                "q end · space pause · m mark · s save screen · ? help"
            }
            None => "q end · + - rate · space pause · m mark · s save screen · ? help",
        };
        let state = match (self.ending, &self.held) {
            (true, _) => "ENDING",
            (_, Some(_)) => "PAUSED",
            _ => "",
        };
        let style = if self.message.is_some() { look.title() } else { look.dim() };
        let keys = Line::from(Span::styled(clean(keys).into_owned(), style));
        ends(buffer, foot, &keys, state, look.bar());
        if self.help {
            help::draw(KEYS, buffer, look);
        }
    }

    fn draw_test(&self, record: &RunRecord, page: &mut Page<'_>, look: Look) {
        let plan = record.agreed.as_ref().unwrap_or(&record.asked);
        let head = Head::new(record);
        let row = page.take(1);
        let title = Line::from(Span::styled(head.title, look.title()));
        ends(page.buffer, row, &title, &self.passed(plan), look.plain());
        page.text(&head.summary, look.dim());
        self.draw_now(page, look);
        // What is below the chart is of a fixed height, but for the cores.
        let ends = self.ends(record);
        let beside = ends.len() > 1;
        let width = if beside { page.width() / 2 } else { page.width() };
        let needed = ends.iter().map(|end| end.shown().rows(width)).max().unwrap_or(0);
        let details = self.details(page.width());
        let below = details.len() as u16 + 2 + VERDICT_ROWS;
        let free = page.left().saturating_sub(below);
        let cores = needed.min((free.saturating_sub(LEAST_ROWS)).max(free / 3)).max(1);
        let chart = free.saturating_sub(cores);
        let area = page.take(chart);
        self.chart(plan, look).draw(area, page.buffer, look);
        for (words, bad) in details {
            page.text(&words, if bad { look.bad() } else { look.plain() });
        }
        page.line(&cores::legend(look, true));
        draw_ends(&ends, page, cores, look);
        self.draw_verdict(page, look);
    }

    /// Time that has passed, and is left.
    fn passed(&self, plan: &PlanRecord) -> String {
        let measured = self.measured_s.unwrap_or(0.0 - plan.warmup_s);
        let whole = |seconds: f64| number::chosen_seconds(seconds.round());
        match plan.duration_s {
            _ if measured < 0.0 => format!("warming up, {} left", whole(-measured)),
            Some(all) => format!("{} of {}", whole(measured.min(all)), number::chosen_seconds(all)),
            None => whole(measured),
        }
    }

    /// The last interval: what arrives, and what is lost.
    fn draw_now(&self, page: &mut Page<'_>, look: Look) {
        let Some(last) = self.rows.last() else {
            return page.text("no interval is over yet", look.dim());
        };
        if let Some(rr) = &last.figures.rr {
            let rate = number::measured(rr.transactions_per_second, Some("transactions/s"));
            return page.text(&rate, look.title());
        }
        for flow in flows(&last.figures) {
            let received = flow.received_bps().map(|bps| {
                let words = format!("received {}", number::rate(bps));
                Span::styled(words, look.received().patch(look.title()))
            });
            let sent = flow.sent_bps().map(|bps| {
                let words = format!("sent {}", number::rate(bps));
                Span::styled(words, look.sent())
            });
            let lost = flow.receiver.and_then(|receiver| receiver.lost_ratio).map(|lost| {
                let style = if lost > 0.0 { look.bad() } else { look.plain() };
                Span::styled(format!("{} lost", number::loss(lost)), style)
            });
            // Each of them may be unknown.
            let mut spans = Vec::new();
            for part in [received, sent, lost].into_iter().flatten() {
                let first = || flow.name.map_or(String::new(), |name| format!("{name}: "));
                let before = if spans.is_empty() { first() } else { " · ".to_owned() };
                spans.extend([Span::raw(before), part]);
            }
            page.line(&Line::from(spans));
        }
    }

    /// Lines on loss and delay, of so many columns at most; whether each is bad news.
    fn details(&self, columns: u16) -> Vec<(String, bool)> {
        let Some(last) = self.rows.last() else { return vec![(String::new(), false)] };
        if let Some(rr) = &last.figures.rr {
            let latency = rr.latency_s.as_ref().map(|latency| {
                let [p50, p99, max] =
                    [latency.p50, latency.p99, latency.max].map(number::seconds_short);
                format!("latency median {p50} · 99 % {p99} · most {max}")
            });
            return vec![(latency.unwrap_or_default(), false)];
        }
        let details = flows(&last.figures).into_iter().zip(&self.lost);
        let lines = details.flat_map(|(flow, lost)| {
            let (words, bad) = detail(&flow, lost);
            wrap(&words, usize::from(columns), "  ").into_iter().map(move |line| (line, bad))
        });
        lines.collect()
    }

    fn chart(&self, plan: &PlanRecord, look: Look) -> Rates {
        let until = self.rows.last().map_or(0.0, |row| row.end_s);
        let oldest = self.rows.first().map_or(0.0, |row| row.start_s);
        let from = (until - 120.0).max(oldest);
        let points = |rate: &dyn Fn(&Interval) -> Option<f64>| -> Vec<(f64, f64)> {
            let rows = self.rows.iter().filter(|row| row.end_s >= from);
            rows.filter_map(|row| Some((row.end_s, rate(row)?))).collect()
        };
        let series = |name, points, style: Style, dotted| Series { name, points, style, dotted };
        let of = |row: &Interval, name: Option<&str>, pick: fn(&Flow<'_>) -> Option<f64>| {
            flows(&row.figures).iter().find(|flow| flow.name == name).and_then(pick)
        };
        let is_rr = self.rows.last().is_some_and(|row| row.figures.rr.is_some());
        let all = if is_rr {
            let rate = |row: &Interval| Some(row.figures.rr.as_ref()?.transactions_per_second);
            vec![series("transactions", points(&rate), look.received(), false)]
        } else if plan.direction == PlanDirection::Both {
            let way = |name| points(&move |row| of(row, Some(name), |flow| flow.received_bps()));
            vec![
                series("forward received", way("forward"), look.received(), false),
                series("reverse received", way("reverse"), look.sent(), true),
            ]
        } else {
            vec![
                series(
                    "received",
                    points(&|row| of(row, None, |flow| flow.received_bps())),
                    look.received(),
                    false,
                ),
                series(
                    "sent",
                    points(&|row| of(row, None, |flow| flow.sent_bps())),
                    look.sent(),
                    true,
                ),
            ]
        };
        let to = until.max(plan.duration_s.unwrap_or(0.0).min(from + 120.0)).max(1.0);
        let words = |seconds: f64| number::chosen_seconds(seconds.round());
        Rates {
            title: self.chart_title(),
            unit: if is_rr { "transactions/s" } else { "bit/s" },
            series: all,
            from: (from, words(from)),
            to: (to, words(to)),
        }
    }

    /// With the rate that was chosen, and how many moments were marked.
    fn chart_title(&self) -> String {
        let now = number::or_absent(self.rate.now(), |bps| number::rate(bps as f64));
        let planned = self.rate.planned_beside();
        let title = planned.map_or("rates".to_owned(), |at| format!("rate {now}, planned {at}"));
        match self.marks {
            0 => title,
            1 => format!("{title}, 1 mark"),
            marks => format!("{title}, {marks} marks"),
        }
    }

    /// What is known of the cores of both ends; of one, where they are the same.
    fn ends(&self, record: &RunRecord) -> Vec<End> {
        let plan = record.agreed.as_ref().unwrap_or(&record.asked);
        let reverse = plan.direction == PlanDirection::Reverse;
        let empty = Default::default();
        let figures = self.rows.last().map_or(&empty, |row| &row.figures);
        let [client, server] = cpus(figures, reverse);
        let near = End::new("client", &record.client, &self.cores[0], &client);
        let boot = |host: &HostFacts| host.boot_id.clone();
        match &record.server {
            // One kernel: its cores are shown once, with the threads of both.
            Some(host) if boot(host).is_some() && boot(host) == boot(&record.client) => {
                let both: Vec<&CpuFigures> = client.into_iter().chain(server).collect();
                vec![End::new("both ends", &record.client, &self.cores[0], &both)]
            }
            Some(host) => vec![near, End::new("server", host, &self.cores[1], &server)],
            None => vec![near],
        }
    }

    fn draw_verdict(&self, page: &mut Page<'_>, look: Look) {
        let lines = wrap(&clean(&self.so_far()), usize::from(page.width()), "  ");
        for line in lines.iter().take(usize::from(page.left().min(VERDICT_ROWS))) {
            page.text(line, look.title());
        }
    }
}

/// Loss of one direction by its place over the whole test, and delay of the last interval; whether anything is lost.
fn detail(flow: &Flow<'_>, lost: &Lost) -> (String, bool) {
    let by_place = [
        ("path", lost.path),
        ("rcvbuf", lost.receiver),
        ("local err", lost.local),
        ("either", lost.either.filter(|n| *n > 0)),
    ];
    let shown = |(label, value): (&str, Option<u64>)| {
        value.map(|value| format!("{label} {}", number::count(value, 9)))
    };
    let mut words = by_place.into_iter().filter_map(shown).collect::<Vec<_>>().join(" · ");
    if flow.receiver.is_some_and(|receiver| receiver.lost.is_some()) {
        words = format!("lost so far: {words}");
    }
    words.extend(shown((" · retransmits", lost.retransmits)));
    if let Some(tcp) = flow.sender.and_then(|sender| sender.tcp.as_ref()) {
        let rtt = tcp.rtt_s.map(|rtt| format!(" · RTT {}", number::seconds_short(rtt)));
        let min = tcp.min_rtt_s.map(|min| format!(" (min {})", number::seconds_short(min)));
        let cwnd = tcp.cwnd_bytes.map(|cwnd| format!(" · cwnd {}", number::bytes(cwnd)));
        words.extend([rtt, min, cwnd].into_iter().flatten());
    }
    if let Some(receiver) = flow.receiver {
        let jitter = receiver.jitter_s.map(|s| format!(" · jitter {}", number::seconds_short(s)));
        let delay = receiver.delay_variation_mean_s.zip(receiver.delay_variation_max_s);
        let delay = delay.map(|(mean, max)| {
            let [mean, max] = [mean, max].map(number::seconds_short);
            format!(" · delay {mean}, at most {max} over the least")
        });
        words.extend(jitter.into_iter().chain(delay));
    }
    let name = flow.name.map_or(String::new(), |name| format!("{name}: "));
    let any = by_place.iter().any(|(_, value)| value.is_some_and(|n| n > 0));
    (format!("{name}{}", words.trim_start_matches(" · ")), any)
}

/// One host of a test.
struct End {
    title: String,
    cores: Vec<CoreActivity>,
    interrupts: Vec<u32>,
    data: Vec<u32>,
}

impl End {
    /// Where a host does not report its cores, those of its data threads are known.
    fn new(name: &str, host: &HostFacts, cores: &[CoreActivity], threads: &[&CpuFigures]) -> Self {
        let mut title = format!("{name} {}", clean(&host.hostname));
        match threads {
            [] => {}
            [cpu] => {
                let on = cpu.core.map_or(String::new(), |core| format!(" on core {core}"));
                title.push_str(&format!(" · thread {}{on}", number::cpu(cpu.thread_percent)));
            }
            // Their cores are marked below; beside each other they take more than half of 80 columns.
            several => {
                let shares: Vec<String> =
                    several.iter().map(|cpu| number::cpu(cpu.thread_percent)).collect();
                title.push_str(&format!(" · threads {}", shares.join(", ")));
            }
        }
        let mut cores = cores.to_vec();
        if cores.is_empty() {
            cores.extend(threads.iter().filter_map(|cpu| core_of(cpu)));
            cores.dedup_by_key(|core| core.core);
        }
        let interrupts = host.nic.as_ref().map(|nic| nic.irq_cores.clone()).unwrap_or_default();
        let data = threads.iter().filter_map(|cpu| cpu.core).collect();
        Self { title, cores, interrupts, data }
    }

    fn shown(&self) -> Cores<'_> {
        Cores { cores: &self.cores, interrupts: &self.interrupts, data: &self.data }
    }
}

fn core_of(cpu: &CpuFigures) -> Option<CoreActivity> {
    let (core, busy) = (cpu.core?, cpu.core_percent?);
    let steal_percent = cpu.steal_percent.unwrap_or(0.0);
    Some(CoreActivity {
        core,
        user_percent: cpu.user_percent.unwrap_or(0.0),
        system_percent: cpu.system_percent.unwrap_or(0.0),
        softirq_percent: cpu.softirq_percent.unwrap_or(0.0),
        steal_percent,
        idle_percent: (100.0 - busy - steal_percent).max(0.0),
        ..CoreActivity::default()
    })
}

/// The hosts beside each other, each with its title.
fn draw_ends(ends: &[End], page: &mut Page<'_>, rows: u16, look: Look) {
    let area = page.take(rows + 1);
    let columns = u16::try_from(ends.len()).unwrap_or(1).max(1);
    let width = area.width / columns;
    for (column, end) in (0..).zip(ends) {
        let place = Rect { x: area.x + column * width, width, ..area };
        let inner = Rect { width: width.saturating_sub(if columns > 1 { 2 } else { 0 }), ..place };
        write(page.buffer, inner, &Line::from(Span::styled(end.title.clone(), look.title())));
        let below = Rect {
            y: inner.y + inner.height.min(1),
            height: inner.height.saturating_sub(1),
            ..inner
        };
        if end.cores.is_empty() {
            let words = Line::from(Span::styled("does not report its cores", look.dim()));
            write(page.buffer, below, &words);
        }
        end.shown().draw(below, page.buffer, look);
    }
}

const KEYS: &[(&str, &str)] = &[
    ("q, Ctrl-C", "end the test in order; what was measured is kept"),
    ("+  -", "a ninth more, a tenth less of the rate at which this end sends"),
    ("space", "hold the screen still, and go on; the test runs on"),
    ("m", "mark this moment in the record"),
    ("s", "save this screen as text into this folder"),
    ("?", "these keys, and back"),
];
