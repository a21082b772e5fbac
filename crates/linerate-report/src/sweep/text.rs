//! A sweep as text.

use linerate_model::plan::Way;
use linerate_model::sweep::{SweepDocument, SweepPoint, Variable};

use super::{chart, table};
use crate::clean::clean;
use crate::live::span;
use crate::number;
use crate::report::words::way_words;
use crate::rows::{grouped_head, whole};
use crate::run::text::Layout;
use crate::run::words::plural;
use crate::style::Tone;

/// Columns of the chart where nothing says how many there are.
const CHART_WIDTH: usize = 100;

/// The whole sweep. With several directions a table and a chart for each.
pub fn render(document: &SweepDocument, layout: Layout) -> String {
    let mut out = head(document, layout);
    for way in &document.sweep.directions {
        let points: Vec<&SweepPoint> =
            document.points.iter().filter(|p| p.direction == *way).collect();
        if points.is_empty() {
            continue;
        }
        if document.sweep.directions.len() > 1 || *way == Way::Reverse {
            let words = way_words(*way);
            out.push_str(&format!("\n{}\n", layout.paint.apply(Tone::Label, words)));
        }
        rows(document, &points, layout, &mut out);
        drawing(document, &points, layout, &mut out);
        regimes(document, *way, layout, &mut out);
    }
    out.push('\n');
    let mut say = |label: &str, text: &str, tone: Tone| {
        layout.wrapped(&mut out, label, &clean(text), tone, 2);
    };
    for because in &document.because {
        say("", because, Tone::Plain);
    }
    for advice in &document.advice {
        say("try: ", advice, Tone::Label);
    }
    for doubt in &document.doubts {
        say("doubt: ", &doubt.text, Tone::Warn);
    }
    if let Some(error) = &document.error {
        say("not finished: ", &format!("{}: {}", error.what, error.why), Tone::Bad);
    }
    out
}

fn head(document: &SweepDocument, layout: Layout) -> String {
    let sweep = &document.sweep;
    let title = if document.command.is_empty() {
        "linerate sweep".to_owned()
    } else {
        clean(&document.command.join(" ")).into_owned()
    };
    let mut facts = vec![match sweep.variable {
        Variable::Rate => "UDP rate".to_owned(),
        other => {
            let rate =
                sweep.rate_bps.map_or("no rate limit".to_owned(), |r| number::rate(r as f64));
            format!("UDP {} at {rate}", other.name())
        }
    }];
    if let Some(plan) = &document.plan {
        facts.extend(plan.ip.map(|ip| format!("IPv{ip}")));
        facts.extend(
            plan.datagram_bytes
                .filter(|_| sweep.variable != Variable::Size)
                .map(|bytes| format!("{bytes} B")),
        );
    }
    let trials = plural(document.trials.len() as u64, "trial");
    facts.push(format!("{trials} of {}", number::chosen_seconds(sweep.trial_s)));
    if sweep.repeat > 1 {
        facts.push(format!("{} passes, seed {}", sweep.repeat, sweep.seed));
    }
    facts.push(format!("took {}", span(document.seconds)));
    let host = |facts: &linerate_model::host::HostFacts| {
        let cores = facts.cores.map(|n| format!(", {}", plural(u64::from(n), "core")));
        format!("{}{}", clean(&facts.hostname), cores.unwrap_or_default())
    };
    let mut out = format!("{}\n", layout.paint.apply(Tone::Label, &title));
    layout.wrapped(&mut out, "", &facts.join(" · "), Tone::Plain, 2);
    if let (Some(client), Some(server)) = (&document.client, &document.server) {
        let same = client.boot_id.is_some() && client.boot_id == server.boot_id;
        let far = if same { "itself".to_owned() } else { host(server) };
        let line = format!("{} → {far}", host(client));
        out.push_str(&format!("{}\n", layout.paint.apply(Tone::Dim, &line)));
    }
    out
}

fn rows(document: &SweepDocument, points: &[&SweepPoint], layout: Layout, out: &mut String) {
    let columns = table::columns(&document.sweep, layout.room.width);
    out.push_str(&grouped_head(&columns, layout.paint));
    for point in points {
        let cells: Vec<_> = columns.iter().map(|c| (c.cell)(&document.sweep, point)).collect();
        out.push_str(&whole(&columns, &cells, layout.paint, Tone::Plain));
        out.push('\n');
    }
}

fn drawing(document: &SweepDocument, points: &[&SweepPoint], layout: Layout, out: &mut String) {
    let width = layout.room.width.unwrap_or(CHART_WIDTH).min(CHART_WIDTH);
    let lines = chart::draw(&document.sweep, points, width);
    if lines.is_empty() {
        return;
    }
    let legend = match document.sweep.variable {
        Variable::Rate => "bit/s:  ● received  ○ sent  · asked".to_owned(),
        other => format!("bit/s by {}:  ● received  ○ sent  · asked", other.name()),
    };
    out.push_str(&format!("\n{}\n", layout.paint.apply(Tone::Label, &legend)));
    for line in lines {
        out.push_str(&format!("{line}\n"));
    }
}

fn regimes(document: &SweepDocument, way: Way, layout: Layout, out: &mut String) {
    out.push('\n');
    for regime in document.regimes.iter().filter(|r| r.direction == way) {
        let label = format!("{:<9} ", regime.kind.name());
        layout.wrapped(out, &label, &clean(&regime.text), table::tone(regime.kind), 10);
    }
}
