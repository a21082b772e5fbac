//! What is not well with a fleet of agents, as text: the gravest first, what cannot be known, and how many of each.

use linerate_model::doctor::Severity;
use linerate_model::fleet_doctor::{FleetDoctor, FleetFinding};

use crate::clean::{clean, clean_command};
use crate::run::text::Layout;
use crate::run::words::plural;
use crate::style::Tone;

/// Columns of the first words of each line.
const LABEL: usize = 9;

/// All of it; `all` shows every note whole.
pub fn text(document: &FleetDoctor, layout: Layout, all: bool) -> String {
    let mut out = String::new();
    let (broker, findings) = (&document.facts.broker, &document.judged.findings);
    let agents = plural(document.facts.agents.len() as u64, "agent");
    let head = format!("{agents} at {}, nats-server {}", broker.url, broker.version);
    say(&mut out, layout, "doctor", &head, Tone::Label);
    let is_whole = |finding: &&FleetFinding| all || finding.severity > Severity::Note;
    findings.iter().filter(is_whole).for_each(|finding| whole(&mut out, finding, layout));
    let mut rest: Vec<(&str, &str)> = Vec::new();
    rest.extend(findings.iter().filter(|f| !is_whole(f)).map(|f| ("note", f.what.as_str())));
    let unknown: Vec<String> =
        document.judged.unknown.iter().map(|one| format!("{}: {}", one.id, one.why)).collect();
    rest.extend(unknown.iter().map(|words| ("unknown", words.as_str())));
    if !rest.is_empty() {
        out.push('\n');
    }
    rest.iter().for_each(|(label, words)| say(&mut out, layout, label, words, Tone::Dim));
    out.push('\n');
    let (words, tone) = counts(document);
    say(&mut out, layout, "found", &words, tone);
    out
}

fn say(out: &mut String, layout: Layout, label: &str, words: &str, tone: Tone) {
    layout.wrapped(out, &format!("{label:LABEL$}"), &clean(words), tone, LABEL);
}

fn whole(out: &mut String, finding: &FleetFinding, layout: Layout) {
    let tone = match finding.severity {
        Severity::Note => Tone::Dim,
        Severity::Warning => Tone::Warn,
        Severity::Problem => Tone::Bad,
    };
    out.push('\n');
    say(out, layout, finding.severity.name(), &finding.what, tone);
    say(out, layout, "  why", &finding.why, Tone::Dim);
    // On a line each, so that they can be copied.
    for change in &finding.change {
        let label = layout.paint.apply(Tone::Dim, &format!("{:LABEL$}", "  do"));
        out.push_str(&format!("{label}{}\n", clean_command(change)));
    }
    say(out, layout, "  id", &finding.id, Tone::Dim);
}

fn counts(document: &FleetDoctor) -> (String, Tone) {
    let findings = &document.judged.findings;
    let of = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let counted = [Severity::Problem, Severity::Warning, Severity::Note];
    let words = counted.map(|severity| plural(of(severity) as u64, severity.name()));
    let tone = match (of(Severity::Problem), of(Severity::Warning)) {
        (0, 0) => Tone::Good,
        (0, _) => Tone::Warn,
        _ => Tone::Bad,
    };
    let (checks, unknown) = (document.judged.checks, document.judged.unknown.len());
    (format!("{} in {checks} checks; {unknown} could not be made", words.join(", ")), tone)
}

#[cfg(test)]
mod tests {
    use linerate_model::fleet_doctor::{
        FORMAT, FleetBroker, FleetFacts, FleetJudged, FleetUnlooked,
    };
    use linerate_model::record::ProgramFacts;

    use super::*;
    use crate::run::table::Room;
    use crate::style::Paint;

    fn document() -> FleetDoctor {
        let finding = |id: &str, severity, what: &str| FleetFinding {
            id: id.into(),
            agents: vec!["rack-1".into()],
            severity,
            what: what.into(),
            why: "its pairs are not measured, and what it has measured waits on its disk".into(),
            change: vec![
                "on rack-1: systemctl status linerate-agent; journalctl -u linerate-agent".into(),
            ],
        };
        let broker = FleetBroker {
            url: "tls://192.0.2.1:4222".into(),
            version: "2.15.2".into(),
            ..FleetBroker::default()
        };
        let findings = vec![
            finding("agent.silent", Severity::Warning, "rack-1 has not been heard for 3 hours"),
            finding("agent.clock", Severity::Note, "on rack-1 no program\u{1b}[2J keeps the clock"),
        ];
        let unknown =
            vec![FleetUnlooked { id: "broker.sync".into(), why: "no account.json".into() }];
        FleetDoctor {
            format: FORMAT,
            kind: "fleet_doctor".into(),
            at: "2026-01-01T00:00:00Z".into(),
            linerate: ProgramFacts { version: "0.1.0".into() },
            facts: FleetFacts { broker, agents: vec![] },
            judged: FleetJudged { checks: 19, findings, unknown },
        }
    }

    fn shown(all: bool) -> String {
        let room = Room { width: Some(80), spark: false };
        text(&document(), Layout { room, paint: Paint { colour: false } }, all)
    }

    #[test]
    fn the_gravest_is_whole_and_notes_are_a_line() {
        insta::assert_snapshot!(shown(false), @"
        doctor   0 agents at tls://192.0.2.1:4222, nats-server 2.15.2

        warning  rack-1 has not been heard for 3 hours
          why    its pairs are not measured, and what it has measured waits on its disk
          do     on rack-1: systemctl status linerate-agent; journalctl -u linerate-agent
          id     agent.silent

        note     on rack-1 no program[2J keeps the clock
        unknown  broker.sync: no account.json

        found    0 problems, 1 warning, 1 note in 19 checks; 1 could not be made
        ");
        let all = shown(true);
        assert!(all.contains("  id     agent.clock") && !all.contains('\u{1b}'), "{all}");
    }
}
