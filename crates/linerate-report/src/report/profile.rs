//! Profiles: where the CPU time of a test went, with a flame graph; of two tests what differs.

use linerate_model::profile::{Difference, HostProfile, Profile, ProfileDocument};

use super::builder::Builder;
use super::run::{self, Named, Words};
use super::view::{Figure, Section, Table};
use crate::clean::clean;
use crate::draw::flame::Flame;
use crate::number;
use crate::profile::{compared, differs, function, head, knee, notes, percent, sampled, verdict};
use crate::run::view::command_line;

/// Functions that a table has.
const FUNCTIONS: usize = 25;

pub(super) fn add(builder: &mut Builder, source: &str, document: &ProfileDocument) {
    if let Some(found) = &document.knee {
        builder.found(source, &mut vec![format!("The knee lies {}.", knee(found))]);
    }
    for (i, profile) in document.profiles.iter().enumerate() {
        let name = if profile.name.is_empty() { source } else { profile.name.as_str() };
        let mut section = section(profile, source);
        if i == 0 && !document.command.is_empty() {
            section.command = Some(command_line(&document.command));
        }
        for host in &profile.hosts {
            sampled_host(&mut section, host);
        }
        builder.found(source, &mut section.words);
        for unsampled in &profile.unsampled {
            let why = format!("The {}'s host: {}.", unsampled.host.name(), unsampled.why);
            section.words.push(clean(&why).into_owned());
        }
        builder.sections.push(section);
        run::add(builder, source, &profile.run, Named::Alone(&clean(name)), Words::Line);
    }
    for found in &document.differences {
        builder.found(source, &mut vec![format!("Compared: {}.", verdict(found))]);
        builder.sections.push(of_difference(builder.alone, source, document, found));
    }
}

fn section(profile: &Profile, source: &str) -> Section {
    let name = if profile.name.is_empty() { String::new() } else { format!(", {}", profile.name) };
    Section {
        title: clean(&format!("Where the CPU time goes{name} ({source})")).into_owned(),
        words: vec![format!("{}.", head(profile))],
        ..Section::default()
    }
}

fn sampled_host(section: &mut Section, host: &HostProfile) {
    let most: Vec<String> = host
        .layers
        .iter()
        .take(3)
        .map(|layer| format!("{} {}", layer.layer.words(), percent(layer.share)))
        .collect();
    if !most.is_empty() {
        section.words.push(format!("Most of the busy time goes to: {}.", most.join(", ")));
    }
    let about = format!("{}.", sampled(host));
    section.words.extend(notes(host).into_iter().map(|note| format!("Note: {note}.")));
    let title = "Flame graph".to_owned();
    let alt = format!(
        "Each frame is a function, as wide as its share of the samples of busy cores, on the one that called it; {about}"
    );
    section.figures.push(Figure::Flame(Box::new(Flame::new(title, alt, None, host))));
    let unit = host.work.map_or("cost", |work| work.unit.cost());
    let mut layers = Table::new("Layers", &format!("layer|of busy time|±|{unit}|samples"));
    layers.rows.extend(host.layers.iter().map(|one| {
        vec![
            one.layer.words().to_owned(),
            percent(one.share),
            format!("{:.1}", one.share_se * 100.0),
            number::or_absent(one.cost, |cost| format!("{cost:.4}")),
            one.samples.to_string(),
        ]
    }));
    let mut paths = Table::new("Called from", "called from|of busy time|±|samples");
    paths.rows.extend(host.paths.iter().map(|one| {
        let se = format!("{:.1}", one.share_se * 100.0);
        vec![one.path.words().to_owned(), percent(one.share), se, one.samples.to_string()]
    }));
    let mut functions = Table::new("Functions", "function|itself|with called|layer");
    functions.rows.extend(host.functions.iter().take(FUNCTIONS).map(|one| {
        let (own, whole) = (percent(one.share), percent(one.whole_share));
        vec![function(&one.name), own, whole, one.layer.words().to_owned()]
    }));
    section.tables.extend([layers, paths, functions]);
    section.facts.push(("sampled".to_owned(), about));
}

fn of_difference(
    alone: bool,
    source: &str,
    document: &ProfileDocument,
    found: &Difference,
) -> Section {
    let sides = |at: usize| {
        let profile = document.profiles.get(at);
        profile.and_then(|profile| profile.hosts.iter().find(|host| host.ends == found.ends))
    };
    let source = if alone { String::new() } else { format!(" ({source})") };
    let mut section = Section {
        title: format!("What differs{source}"),
        words: vec![format!("{}.", compared(document)), format!("{}.", verdict(found))],
        ..Section::default()
    };
    if let (Some(first), Some(second)) = (sides(0), sides(1)) {
        let title = "Differential flame graph".to_owned();
        let alt = "Frames are as wide as their share in the second profile, and coloured where that share differs from the \
                   first one's by more than chance. What only the first one has is not drawn."
            .to_owned();
        let flame = Flame::new(title, alt, Some(first), second);
        section.figures.push(Figure::Flame(Box::new(flame)));
    }
    let unit = found.unit.map_or("cost", |unit| unit.cost());
    let columns = format!("layer|first|second|points|±|{unit}, first|{unit}, second|chance|");
    let mut table = Table::new("Layers", &columns);
    table.rows.extend(found.layers.iter().map(|one| {
        let cost = |side: fn([f64; 2]) -> f64| {
            number::or_absent(one.costs, |costs| format!("{:.4}", side(costs)))
        };
        vec![
            one.layer.words().to_owned(),
            percent(one.shares[0]),
            percent(one.shares[1]),
            format!("{:+.1}", (one.shares[1] - one.shares[0]) * 100.0),
            format!("{:.1}", one.share_se * 100.0),
            cost(|costs| costs[0]),
            cost(|costs| costs[1]),
            format!("{:.3}", one.p_adjusted),
            differs(one).to_owned(),
        ]
    }));
    section.tables.push(table);
    section
}
