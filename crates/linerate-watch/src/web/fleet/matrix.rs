//! The page of all pairs: who is bad in words, and the matrix as a heatmap.

use std::collections::BTreeSet;

use linerate_report::clean::clean;
use linerate_report::fleet::heat::{Cell, Head, Heat, Level};
use linerate_report::fleet::{counts, history, verdict};

use super::Shown;
use super::body::{Body, Part};

/// Hosts up to which figures are as large as other text, and up to which they are in the cells at all.
const MOST_WIDE: usize = 16;
const MOST_DENSE: usize = 40;
/// Letters up to which the names of as many hosts as fit stand level above the columns.
const MOST_LEVEL: usize = 8;

pub(super) fn body(shown: &Shown<'_>) -> Body {
    let document = &shown.now.document;
    let heat = Heat::new(document);
    let mut body = Body::default();
    body.push("<header>");
    body.element("h1", &format!("{} hosts measured with each other", document.hosts.len()));
    let begun = format!("begun {}: {}", document.started, document.command.join(" "));
    body.element("p class=\"head\"", &clean(&begun));
    body.push(&format!("</header>\n{}>\n", shown.main()));
    body.part("p id=\"state\" role=\"status\"", shown.state());
    body.part("p", shown.under_way());
    let said = format!("{}{}", verdict(document), history::standing(document));
    body.part("p", Part::new("verdict", said.trim_end().to_owned()));
    body.part("p", Part::new("note lines", counts(document).trim_end().to_owned()));
    table(&mut body, shown, &heat);
    legend(&mut body, &heat);
    body.push("</main>\n");
    body
}

fn size(hosts: usize) -> &'static str {
    if hosts <= MOST_WIDE {
        "wide"
    } else if hosts <= MOST_DENSE {
        "dense"
    } else {
        "tiny"
    }
}

fn table(body: &mut Body, shown: &Shown<'_>, heat: &Heat) {
    let under_way: BTreeSet<usize> = shown.now.under_way().map(|test| test.pair).collect();
    let longest = heat.servers.iter().map(|head| head.short.chars().count()).max().unwrap_or(0);
    let level = heat.servers.len() <= MOST_WIDE && longest <= MOST_LEVEL;
    let names = if level { "level" } else { "upright" };
    let ending = match heat.ending.as_str() {
        "" => String::new(),
        ending => format!("; names without {ending}"),
    };
    let caption = format!("{}; clients in the rows, servers in the columns{ending}", heat.title);
    body.part("p id=\"figures\"", Part::new("note", caption));
    body.push(&format!(
        "<div class=\"box {} {names}\" tabindex=\"0\" role=\"region\" aria-labelledby=\"figures\"><table class=\"heat\">\n",
        size(heat.rows.len())
    ));
    body.push("<thead><tr><td></td>");
    for server in &heat.servers {
        head(body, "col", server);
    }
    body.push("<th scope=\"col\"><span>median</span></th></tr></thead>\n<tbody>\n");
    for ((client, cells), median) in heat.clients.iter().zip(&heat.rows).zip(&heat.of_clients) {
        body.push("<tr>");
        head(body, "row", client);
        for (cell, server) in cells.iter().zip(&heat.servers) {
            let of_bad = client.bad.is_some() || server.bad.is_some();
            self::cell(body, cell, of_bad, &under_way);
        }
        edge(body, median);
        body.push("</tr>\n");
    }
    body.push("<tr><th scope=\"row\">median</th>");
    for median in &heat.of_servers {
        edge(body, median);
    }
    body.push("<td></td></tr>\n</tbody></table></div>\n");
}

fn head(body: &mut Body, scope: &str, head: &Head) {
    let (class, title) = match &head.bad {
        Some(words) => ("bad", words.clone()),
        None => ("", head.name.clone()),
    };
    body.push(&format!("<th scope=\"{scope}\">"));
    body.part("span", Part { class: class.to_owned(), text: head.short.clone(), title });
    body.push("</th>");
}

fn class(level: Level) -> String {
    match level {
        Level::Blank => String::new(),
        Level::Missing => "missing".to_owned(),
        Level::Worse(steps) => format!("w{steps}"),
    }
}

fn cell(body: &mut Body, cell: &Cell, of_bad: bool, under_way: &BTreeSet<usize>) {
    let Some(pair) = cell.pair else { return body.push("<td></td>") };
    let (mut class, mut title) = (class(cell.level), cell.words.clone());
    for (is, name) in [(cell.bad, " link"), (of_bad, " of")] {
        class.push_str(if is { name } else { "" });
    }
    if under_way.contains(&pair) {
        class.push_str(" busy");
        title.push_str("; under way now");
    }
    body.push("<td>");
    let part = Part { class, text: cell.text.clone(), title };
    body.part(&format!("a href=\"pair-{pair}\""), part);
    body.push("</td>");
}

/// A median at the edge.
fn edge(body: &mut Body, cell: &Cell) {
    if cell.level == Level::Blank {
        return body.push("<td></td>");
    }
    body.push("<td class=\"edge\">");
    let (text, title) = (cell.text.clone(), cell.words.clone());
    body.part("span", Part { class: class(cell.level), text, title });
    body.push("</td>");
}

fn legend(body: &mut Body, heat: &Heat) {
    body.push("<p class=\"legend\">");
    for (steps, text) in heat.legend.iter().enumerate() {
        body.push(&format!("<span><i class=\"w{steps}\"></i> "));
        body.part("span", Part::new("", text.clone()));
        body.push("</span> ");
    }
    body.push(
        "<span><i class=\"missing\"></i> no result</span> <span><i class=\"w0 link\"></i> bad link</span> \
         <span><i class=\"w0 of\"></i> of a bad host</span> <span><i class=\"w0 busy\"></i> under way</span></p>\n",
    );
}
