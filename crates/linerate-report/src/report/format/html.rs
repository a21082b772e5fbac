//! One page: words, figures as SVG that a script makes zoomable when they come into sight, tables,
//! and every run behind its line of a table. What is not in sight costs nothing: figures of runs are
//! drawn when a run is opened, from data that stays compressed until then.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, write::DeflateEncoder};
use serde_json::{Value, json};
use std::io::Write;

use super::Look;
use crate::draw::chart::{Axis, Chart, SIGNS, Series};
use crate::draw::{self, escape};
use crate::page::{self, Page};
use crate::report::run;
use crate::report::view::{Figure, HostView, MOST_DRAWN_RUNS, RunView, Section, Table, View};

/// Ours: makes figures zoomable and opens runs.
const SCRIPT: &str = include_str!("../../../assets/report.js");
const STYLE: &str = include_str!("../../../assets/report.css");

/// Columns from which on a table is set smaller, so that a page of 1280 pixels holds it.
const MANY_COLUMNS: usize = 9;

/// Letters of a cell from which on it is a sentence, which may be broken.
const LONG_CELL: usize = 26;

/// Runs whose data are compressed together: enough for the compression to find what repeats, and
/// few enough to be unpacked at once.
const RUNS_TOGETHER: usize = 40;

/// Rows of the table of runs that are laid out together.
const ROWS_TOGETHER: usize = 50;

pub(super) fn render(view: &View, _: &Look) -> Result<Vec<u8>, String> {
    let mut page = Body { out: String::new(), figures: Vec::new() };
    page.head(view);
    for (i, section) in view.sections.iter().enumerate() {
        page.section(section, &format!("part-{}", i + 1));
    }
    page.runs(view);
    page.hosts(&view.hosts);
    let title = format!("linerate {}: {}", view.verb, view.title);
    let mut whole = Page { title: &title, style: STYLE, body: "", ..Page::default() };
    if page.figures.is_empty() && view.runs.len() <= MOST_DRAWN_RUNS {
        page.end(view, "");
        return Ok(page::render(&Page { body: &page.out, ..whole }).into_bytes());
    }
    page.end(view, "<p>Charts by uPlot, MIT licence; its text is in this page's source.</p>\n");
    let figures = json!({ "signs": SIGNS, "figures": page.figures }).to_string();
    let runs = packed(view)?.to_string();
    let style = format!("{}{STYLE}", page::UPLOT_STYLE);
    let uplot = page::uplot();
    (whole.body, whole.style) = (&page.out, &style);
    let data = [("figures", figures.as_str()), ("runs", runs.as_str())];
    let scripts = [uplot.as_str(), SCRIPT];
    Ok(page::render(&Page { scripts: &scripts, data: &data, ..whole }).into_bytes())
}

/// Whether a page begins as [`page::render`] begins one with the title of a report.
pub(super) fn is_report(head: &[u8]) -> bool {
    let Some(rest) = head.strip_prefix(page::BEGIN.as_bytes()) else { return false };
    // Up to here stand our own policy and the version, which have no tag of their own.
    let title = "<title>linerate report: ";
    let found = memchr::memmem::find(rest, title.as_bytes());
    found.and_then(|at| rest.get(..at)).is_some_and(page::is_head)
}

struct Body {
    out: String,
    /// What the script needs to draw the figures that are in the page.
    figures: Vec<Value>,
}

impl Body {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn element(&mut self, name: &str, text: &str) {
        self.out.push_str(&format!("<{name}>{}</{name}>\n", escape(text)));
    }

    fn elements(&mut self, name: &str, texts: &[String]) {
        for text in texts {
            self.element(name, text);
        }
    }

    fn paragraph(&mut self, class: &str, text: &str) {
        self.push(&format!("<p class=\"{class}\">{}</p>\n", escape(text)));
    }

    fn head(&mut self, view: &View) {
        self.push("<header>\n");
        self.element("h1", &view.title);
        if !view.title.contains(&view.holds) {
            self.paragraph("head", &view.holds);
        }
        self.push("</header>\n<main>\n");
        self.headline(&view.headline);
        if !view.words.is_empty() {
            self.push("<div class=\"words\">\n");
            self.elements("p", &view.words);
            self.push("</div>\n");
        }
        if !view.problems.is_empty() {
            self.push("<h2>Not in this report</h2>\n<ul>\n");
            self.elements("li", &view.problems);
            self.push("</ul>\n");
        }
        let parts = (1..).zip(&view.sections);
        let mut links: Vec<(String, &str)> =
            parts.map(|(i, s)| (format!("part-{i}"), s.title.as_str())).collect();
        if !view.runs.is_empty() {
            links.push(("runs-of-all".into(), "Runs"));
        }
        if !view.hosts.is_empty() {
            links.push(("hosts".into(), "Hosts"));
        }
        if links.len() > 2 {
            self.push("<nav aria-label=\"Parts\"><ul>\n");
            for (id, title) in links {
                self.push(&format!("<li><a href=\"#{id}\">{}</a></li>\n", escape(title)));
            }
            self.push("</ul></nav>\n");
        }
    }

    /// The results with their bars, before any sentence.
    fn headline(&mut self, table: &Table) {
        if table.rows.is_empty() {
            return;
        }
        self.push("<div class=\"scroll\"><table class=\"headline\">\n<thead><tr>");
        for (i, column) in table.columns.iter().enumerate() {
            self.push(&format!("<th scope=\"col\">{}</th>", escape(column)));
            if i == 1 {
                self.push("<td></td>");
            }
        }
        self.push("</tr></thead>\n<tbody>\n");
        for (row, share) in table.rows.iter().zip(&table.bars) {
            self.push("<tr>");
            for (i, cell) in row.iter().enumerate() {
                self.push(&format!("<td>{}</td>", escape(cell)));
                if i == 1 {
                    let width = share.map_or(0.0, |s| (s * 200.0).max(1.0));
                    self.push(&format!(
                        "<td><svg class=\"lr\" viewBox=\"0 0 200 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"b0\" \
                         width=\"{width:.1}\" height=\"10\" rx=\"2\"/></svg></td>"
                    ));
                }
            }
            self.push("</tr>\n");
        }
        self.push("</tbody></table></div>\n");
    }

    fn section(&mut self, section: &Section, id: &str) {
        self.push(&format!("<section class=\"part\" id=\"{id}\">\n"));
        self.element("h2", &section.title);
        self.elements("p", &section.words);
        for (what, command) in &section.commands {
            self.copied(what, command);
        }
        for figure in &section.figures {
            self.figure(figure);
        }
        for table in &section.tables {
            self.table(table);
        }
        self.details("Settings", &section.facts);
        self.command(section.command.as_deref());
        self.push("</section>\n");
    }

    fn figure(&mut self, figure: &Figure) {
        let mut attributes = String::new();
        if let Some(chart) = figure.as_chart() {
            attributes = format!(" class=\"chart\" data-figure=\"{}\"", self.figures.len());
            self.figures.push(spec(chart));
        } else if matches!(figure, Figure::Flame(_)) {
            attributes = " class=\"flame\"".to_owned();
        }
        let mut body = String::new();
        let height = figure.draw(&mut body, 0.0);
        let drawing = draw::embedded(height, &figure.label(), &body);
        self.push(&format!("<figure{attributes}>\n{drawing}"));
        self.element("figcaption", figure.words().1);
        self.push("</figure>\n");
    }

    fn table(&mut self, table: &Table) {
        if table.rows.is_empty() {
            return;
        }
        let named = table.columns.iter().any(|c| !c.is_empty());
        // Words stand to the left, numbers to the right.
        let texts: Vec<bool> = (0..table.columns.len())
            .map(|i| {
                let words =
                    |cell: &&String| cell.contains(' ') && cell.starts_with(char::is_alphabetic);
                table.rows.iter().filter_map(|row| row.get(i)).any(|cell| words(&cell))
            })
            .collect();
        // Of names and texts, not of numbers.
        let class = match table.columns.len() {
            _ if !named => " class=\"pairs\"",
            MANY_COLUMNS.. => " class=\"many\"",
            _ => "",
        };
        self.push(&format!("<div class=\"scroll\"><table{class}>\n"));
        self.element("caption", &table.title);
        if named {
            self.push("<thead><tr>");
            for (column, text) in table.columns.iter().zip(&texts) {
                let class = if *text { " class=\"text\"" } else { "" };
                self.push(&format!("<th scope=\"col\"{class}>{}</th>", escape(column)));
            }
            self.push("</tr></thead>\n");
        }
        self.push("<tbody>\n");
        for row in &table.rows {
            self.push("<tr>");
            for (i, cell) in row.iter().enumerate() {
                // Sentences may be broken, numbers may not.
                let class = match cell.chars().count() > LONG_CELL {
                    true => " class=\"long\"",
                    false if texts.get(i) == Some(&true) => " class=\"text\"",
                    false => "",
                };
                self.push(&format!("<td{class}>{}</td>", escape(cell)));
            }
            self.push("</tr>\n");
        }
        self.push("</tbody></table></div>\n");
    }

    fn facts(&mut self, facts: &[(String, String)]) {
        self.push("<dl>\n");
        for (label, text) in facts {
            self.push(&format!("<dt>{}</dt><dd>{}</dd>\n", escape(label), escape(text)));
        }
        self.push("</dl>\n");
    }

    fn details(&mut self, title: &str, facts: &[(String, String)]) {
        if !facts.is_empty() {
            self.push(&format!("<details><summary>{}</summary>\n", escape(title)));
            self.facts(facts);
            self.push("</details>\n");
        }
    }

    fn command(&mut self, command: Option<&str>) {
        if let Some(command) = command {
            self.copied("To repeat it", command);
        }
    }

    fn copied(&mut self, what: &str, command: &str) {
        self.paragraph("note", &format!("{what}:"));
        self.push(&format!("<pre><code>{}</code></pre>\n", escape(command)));
    }

    fn runs(&mut self, view: &View) {
        if view.runs.is_empty() {
            return;
        }
        let few = view.runs.len() <= MOST_DRAWN_RUNS;
        self.push("<section id=\"runs-of-all\">\n<h2>Runs</h2>\n");
        if !few {
            self.push(
                "<p class=\"note\">A run opens when its name is pressed: figures, verdict, settings, hosts and the \
                 command that repeats it. <button type=\"button\" id=\"open-all\">Open all</button></p>\n\
                 <noscript><p>Without scripts the runs cannot be opened; <code>linerate report … -o report.csv</code> \
                 has their numbers.</p></noscript>\n",
            );
        }
        let head: String =
            run::COLUMNS.iter().map(|c| format!("<th scope=\"col\">{}</th>", escape(c))).collect();
        for (block, runs) in view.runs.chunks(ROWS_TOGETHER).enumerate() {
            self.push("<div class=\"block scroll\"><table class=\"runs\">\n");
            self.push(&format!("<thead><tr>{head}</tr></thead>\n<tbody>\n"));
            for (i, run) in runs.iter().enumerate() {
                let number = block * ROWS_TOGETHER + i;
                let mut cells = run.cells.iter();
                let name = cells.next().map(|c| escape(c)).unwrap_or_default();
                if few {
                    self.push(&format!("<tr><td><a href=\"#run-{0}\">{name}</a></td>", number + 1));
                } else {
                    self.push(&format!(
                        "<tr><td><button type=\"button\" data-run=\"{number}\" aria-expanded=\"false\">{name}</button></td>"
                    ));
                }
                for cell in cells {
                    self.push(&format!("<td>{}</td>", escape(cell)));
                }
                self.push("</tr>\n");
            }
            self.push("</tbody></table></div>\n");
        }
        self.push("</section>\n");
        if few {
            for (i, run) in view.runs.iter().enumerate() {
                self.run(run, i + 1, &view.hosts);
            }
        }
    }

    fn run(&mut self, run: &RunView, number: usize, hosts: &[HostView]) {
        self.push(&format!("<section class=\"part\" id=\"run-{number}\">\n"));
        self.element("h2", &format!("Run {}", run.label));
        self.paragraph("head", &run.summary);
        self.elements("p", &run.words);
        for figure in &run.figures {
            self.figure(figure);
        }
        self.facts(&run.facts);
        self.details("Settings of both ends", &run.settings);
        self.push("<p class=\"note\">Hosts: ");
        for (i, host) in run.hosts.iter().enumerate() {
            let name = hosts.get(*host).map_or("", |h| h.name.as_str());
            let comma = if i > 0 { ", " } else { "" };
            self.push(&format!("{comma}<a href=\"#host-{host}\">{}</a>", escape(name)));
        }
        self.push("</p>\n");
        self.command(Some(&run.command));
        self.push("</section>\n");
    }

    fn hosts(&mut self, hosts: &[HostView]) {
        if hosts.is_empty() {
            return;
        }
        self.push("<section class=\"part\" id=\"hosts\">\n<h2>Hosts</h2>\n");
        for (i, host) in hosts.iter().enumerate() {
            self.push(&format!("<h3 id=\"host-{i}\">{}</h3>\n", escape(&host.name)));
            if !host.during.is_empty() {
                self.paragraph("note", &format!("During {}", host.during.join(", ")));
            }
            self.facts(&host.facts);
        }
        self.push("</section>\n");
    }

    fn end(&mut self, view: &View, credit: &str) {
        self.push(&format!(
            "</main>\n<footer class=\"note\">\n<p>Made by linerate {} with</p>\n\
             <pre><code>{}</code></pre>\n{credit}</footer>\n",
            escape(view.version),
            escape(&view.command)
        ));
    }
}

/// A number as short as a picture needs it: seven digits.
fn short(value: f64) -> Value {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { json!(0) } else { Value::Null };
    }
    if value.fract() == 0.0 && value.abs() < 1e7 {
        return json!(value as i64);
    }
    // What Rust prints with an exponent it reads back; JSON has the same form.
    let text = format!("{value:.6e}");
    text.parse::<f64>().map_or(Value::Null, |v| json!(v))
}

fn spec(chart: &Chart) -> Value {
    let axis = |axis: &Axis| json!({ "label": axis.label, "unit": axis.unit, "log": axis.log, "zero": axis.zero, "top": axis.least_top, "cap": axis.most_top });
    let numbers =
        |y: &[Option<f64>]| -> Value { y.iter().map(|y| y.map_or(Value::Null, short)).collect() };
    let series = |s: &Series| {
        json!({
            "label": s.label, "kind": s.kind, "colour": s.colour % draw::COLOURS, "right": s.right,
            "y": numbers(&s.y), "spread": s.spread.as_deref().map(numbers),
        })
    };
    json!({
        "title": chart.title, "alt": chart.alt, "x": axis(&chart.x_axis), "left": axis(&chart.left),
        "right": chart.right.as_ref().map(axis),
        "at": chart.x.iter().map(|x| json!(x)).collect::<Value>(),
        "series": chart.series.iter().map(series).collect::<Value>(),
        "bands": chart.bands.iter().map(|b| json!([b.from, b.to, b.label])).collect::<Value>(),
    })
}

/// The runs that are not in the page itself, compressed in lots.
fn packed(view: &View) -> Result<Value, String> {
    if view.runs.len() <= MOST_DRAWN_RUNS {
        return Ok(json!({ "together": RUNS_TOGETHER, "lots": [] }));
    }
    let mut lots = Vec::new();
    for runs in view.runs.chunks(RUNS_TOGETHER) {
        let list: Vec<Value> = runs
            .iter()
            .map(|run| {
                json!({
                    "summary": run.summary, "words": run.words, "facts": run.facts,
                    "settings": run.settings, "command": run.command,
                    "hosts": run.hosts.iter().map(|h| json!([h, view.hosts.get(*h).map_or("", |v| v.name.as_str())]))
                        .collect::<Value>(),
                    "charts": run.figures.iter().filter_map(Figure::as_chart).map(spec).collect::<Value>(),
                })
            })
            .collect();
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        let text = Value::from(list).to_string();
        let bytes = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
        lots.push(STANDARD.encode(bytes.map_err(|e| format!("the runs cannot be packed: {e}"))?));
    }
    Ok(json!({ "together": RUNS_TOGETHER, "lots": lots }))
}
