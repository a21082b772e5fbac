//! The doctor's findings as text: the gravest first, what cannot be known, and how many of each.

use linerate_model::doctor::{DoctorDocument, Finding, Severity, Unlooked};
use linerate_model::record::TestEnd;
use linerate_model::setting::core_list;

use crate::clean::{clean, clean_command};
use crate::number;
use crate::run::text::Layout;
use crate::run::words::plural;
use crate::style::Tone;

/// Columns of the first words of each line.
const LABEL: usize = 9;

/// All of it; `all` shows every note and unknown whole.
pub fn text(document: &DoctorDocument, layout: Layout, all: bool) -> String {
    let mut out = String::new();
    layout.wrapped(&mut out, &label("doctor"), &clean(&head(document)), Tone::Label, LABEL);
    for finding in &document.findings {
        if all || finding.severity > Severity::Note {
            whole(&mut out, document, finding, layout);
        }
    }
    let mut notes =
        document.findings.iter().filter(|f| f.severity == Severity::Note && !all).peekable();
    if notes.peek().is_some() {
        out.push('\n');
    }
    for note in notes {
        let words = format!("{}{}", place(document, note.host), note.what);
        layout.wrapped(&mut out, &label("note"), &clean(&words), Tone::Dim, LABEL);
    }
    unknown(&mut out, document, layout, all);
    out.push('\n');
    proof(&mut out, document, layout);
    let (count, tone) = counts(document);
    layout.wrapped(&mut out, &label("found"), &count, tone, LABEL);
    out
}

fn label(word: &str) -> String {
    format!("{word:LABEL$}")
}

/// Whose path it is, by which interface, and its goal.
pub(crate) fn head(document: &DoctorDocument) -> String {
    let here = &document.here;
    let device = here.host.nic.as_ref().map_or("an unknown interface".to_owned(), |nic| {
        let kind = here.device.kind.known().and_then(Option::as_deref).or(nic.driver.as_deref());
        let kind = kind.map_or(String::new(), |kind| format!("{kind}, "));
        let mtu = nic.mtu.map_or("?".to_owned(), |mtu| mtu.to_string());
        let cores = &nic.irq_cores;
        let interrupts =
            (!cores.is_empty()).then(|| format!(", interrupts on {}", core_list(cores)));
        format!("{} ({kind}MTU {mtu}{})", nic.name, interrupts.unwrap_or_default())
    });
    let to = document.target.as_ref().map_or(String::new(), |to| format!(" to {to}"));
    let goal =
        document.goal.rate_bps.map_or("no rate asked".to_owned(), |rate| number::rate(rate as f64));
    let rtt = document
        .goal
        .rtt_s
        .map_or(String::new(), |rtt| format!(" · round trip {}", number::seconds_short(rtt)));
    format!("{}{to} by {device} · {goal}{rtt}", here.host.hostname)
}

/// Whose it is, where there are two.
pub(crate) fn place(document: &DoctorDocument, host: TestEnd) -> String {
    match (host, &document.far) {
        (TestEnd::Server, _) => "server: ".to_owned(),
        (TestEnd::Client, Some(_)) => "here: ".to_owned(),
        (TestEnd::Client, None) => String::new(),
    }
}

fn whole(out: &mut String, document: &DoctorDocument, finding: &Finding, layout: Layout) {
    let tone = match finding.severity {
        Severity::Note => Tone::Dim,
        Severity::Warning => Tone::Warn,
        Severity::Problem => Tone::Bad,
    };
    out.push('\n');
    let what = format!("{}{}", place(document, finding.host), finding.what);
    layout.wrapped(out, &label(finding.severity.name()), &clean(&what), tone, LABEL);
    layout.wrapped(out, &label("  why"), &clean(&finding.why), Tone::Dim, LABEL);
    // Commands stay on a line, so that they can be copied.
    for (word, commands) in [("  run", &finding.change), ("  undo", &finding.undo)] {
        for command in commands {
            let word = layout.paint.apply(Tone::Dim, &label(word));
            out.push_str(&format!("{word}{}\n", clean_command(command)));
        }
    }
    let mut say = |word: &str, text: &str| {
        layout.wrapped(out, &label(word), &clean(text), Tone::Dim, LABEL);
    };
    if let Some(setting) = &finding.setting {
        say("  set", &format!("{} = {} (linerate's own setting)", setting.name, setting.value));
    }
    say("  worth", &finding.effect);
    say("  id", &finding.id);
}

fn unknown(out: &mut String, document: &DoctorDocument, layout: Layout, all: bool) {
    let mut left: Vec<&Unlooked> = document.unknown.iter().collect();
    if !left.is_empty() {
        out.push('\n');
    }
    while let Some(first) = left.first().copied() {
        let (same, others): (Vec<&Unlooked>, Vec<&Unlooked>) =
            left.into_iter().partition(|other| other.host == first.host && other.why == first.why);
        let ids: Vec<&str> = same.iter().map(|unlooked| unlooked.id.as_str()).collect();
        let which =
            if all || ids.len() <= 3 { ids.join(", ") } else { format!("{} checks", ids.len()) };
        let words = format!("{}{which}: {}", place(document, first.host), first.why);
        layout.wrapped(out, &label("unknown"), &clean(&words), Tone::Dim, LABEL);
        left = others;
    }
}

fn proof(out: &mut String, document: &DoctorDocument, layout: Layout) {
    let Some(proof) = &document.proof else { return };
    let name = format!("{} = {}", proof.setting.name, proof.setting.value);
    let words = match &proof.error {
        None => format!("{name}: {} ({} pairs of runs)", proof.words, proof.without.len()),
        Some(error) => format!("{name}: {}: {}", error.what, error.why),
    };
    let tone = if proof.error.is_some() { Tone::Bad } else { Tone::Good };
    layout.wrapped(out, &label("proof"), &clean(&words), tone, LABEL);
    let back = match &proof.left[..] {
        [] if proof.kept => {
            "the change was kept; what to run to undo it stands above, and a reboot does too"
                .to_owned()
        }
        [] => "the host is as before; what to run to keep the change stands above".to_owned(),
        left => format!("not put back: {}", left.join("; ")),
    };
    layout.wrapped(out, &label(""), &clean(&back), Tone::Plain, LABEL);
}

/// How many of each severity there are.
pub(crate) fn counts(document: &DoctorDocument) -> (String, Tone) {
    let of = |severity| document.findings.iter().filter(|f| f.severity == severity).count() as u64;
    let (problems, warnings, notes) =
        (of(Severity::Problem), of(Severity::Warning), of(Severity::Note));
    let tone = match (problems, warnings) {
        (0, 0) => Tone::Good,
        (0, _) => Tone::Warn,
        _ => Tone::Bad,
    };
    let words = format!(
        "{}, {}, {} in {} checks; {} could not be made",
        plural(problems, "problem"),
        plural(warnings, "warning"),
        plural(notes, "note"),
        document.checks,
        document.unknown.len()
    );
    (words, tone)
}

#[cfg(test)]
mod tests {
    use linerate_model::doctor::{FORMAT, Gain, Goal, HostDetails, Proof};
    use linerate_model::host::NicFacts;
    use linerate_model::record::ProgramFacts;
    use linerate_model::setting::{Setting, SettingValue};

    use super::*;
    use crate::run::table::Room;
    use crate::style::Paint;

    fn document() -> DoctorDocument {
        let mut here = HostDetails::default();
        here.host.hostname = "hydra1".into();
        here.host.nic = Some(NicFacts {
            name: "eth0".into(),
            driver: Some("mlx5_core".into()),
            mtu: Some(9_000),
            ..NicFacts::default()
        });
        let finding = |id: &str, severity, what: &str| {
            Finding {
            id: id.into(),
            host: TestEnd::Client,
            severity,
            what: what.into(),
            why: "on one link nobody tells a sender that its packet was too large, and what is longer vanishes".into(),
            change: vec!["ip link set dev eth0 mtu 1500".into()],
            undo: vec!["ip link set dev eth0 mtu 9000".into()],
            setting: Setting::new("mtu", SettingValue::Number(1_500)).ok(),
            effect: "not measured; RFC 4821 section 1".into(),
        }
        };
        let unlooked = |id: &str, why: &str| Unlooked {
            id: id.into(),
            host: TestEnd::Server,
            why: why.into(),
        };
        DoctorDocument {
            format: FORMAT,
            kind: "doctor".into(),
            started: "2026-01-01T00:00:00Z".into(),
            linerate: ProgramFacts { version: "0.1.0".into() },
            command: vec![],
            target: Some("hydra2".into()),
            goal: Goal { rate_bps: Some(25_000_000_000), rtt_s: Some(0.000_25) },
            checks: 118,
            findings: vec![
                finding("path.mtu-mismatch", Severity::Problem, "eth0 sends packets of 9000 bytes"),
                finding("clock.sync", Severity::Note, "no program\u{1b}[2J keeps the clock"),
            ],
            unknown: vec![
                unlooked("nic.ring", "untold"),
                unlooked("nic.numa", "untold"),
                unlooked("far.facts", "it speaks iperf3"),
            ],
            proof: None,
            far: Some(HostDetails::default()),
            here,
        }
    }

    fn shown(document: &DoctorDocument, all: bool) -> String {
        let room = Room { width: Some(80), spark: false };
        text(document, Layout { room, paint: Paint { colour: false } }, all)
    }

    #[test]
    fn the_gravest_is_whole_and_notes_are_a_line() {
        insta::assert_snapshot!(shown(&document(), false), @r"
        doctor   hydra1 to hydra2 by eth0 (mlx5_core, MTU 9000) · 25.00 Gbit/s · round
                 trip 250 µs

        problem  here: eth0 sends packets of 9000 bytes
          why    on one link nobody tells a sender that its packet was too large, and
                 what is longer vanishes
          run    ip link set dev eth0 mtu 1500
          undo   ip link set dev eth0 mtu 9000
          set    mtu = 1500 (linerate's own setting)
          worth  not measured; RFC 4821 section 1
          id     path.mtu-mismatch

        note     here: no program[2J keeps the clock

        unknown  server: nic.ring, nic.numa: untold
        unknown  server: far.facts: it speaks iperf3

        found    1 problem, 0 warnings, 1 note in 118 checks; 3 could not be made
        ");
        let all = shown(&document(), true);
        assert!(all.contains("  id     clock.sync") && !all.contains('\u{1b}'), "{all}");
        assert!(all.lines().all(|line| line.chars().count() <= 80), "{all}");
    }

    #[test]
    fn commands_are_whole_whatever_their_length() {
        let mut document = document();
        let loops = |list: &str| format!("for i in {}; do echo $i; done", list.repeat(400));
        let finding = &mut document.findings[0];
        (finding.change, finding.undo) = (vec![loops(" 100:1")], vec![loops(" 100:\u{1b}0-7")]);
        let text = shown(&document, false);
        assert!(text.contains(&format!("  run    {}\n", loops(" 100:1"))), "{text}");
        assert!(text.contains(&format!("  undo   {}\n", loops(" 100:0-7"))), "{text}");
    }

    #[test]
    fn a_proof_says_what_it_is_worth_and_what_is_left() {
        let mut document = document();
        document.proof = Some(Proof {
            id: "path.mtu-mismatch".into(),
            setting: Setting::new("mtu", SettingValue::Number(1_500)).unwrap(),
            metric: "received_bps".into(),
            without: vec![1.0; 10],
            with: vec![1.2; 10],
            margin_percent: 2.0,
            verdict: Some("different".into()),
            gain_percent: Some(Gain { mean: 18.0, low: 12.0, high: 24.0 }),
            words: "worth 18 % (12 to 24)".into(),
            doubts: vec![],
            left: vec![],
            kept: false,
            error: None,
        });
        let text = shown(&document, false);
        assert!(
            text.contains("proof    mtu = 1500: worth 18 % (12 to 24) (10 pairs of runs)"),
            "{text}"
        );
        assert!(text.contains("the host is as before"), "{text}");
        document.proof.as_mut().unwrap().kept = true;
        assert!(shown(&document, false).contains("the change was kept"));
        document.proof.as_mut().unwrap().left = vec!["MTU of eth0: busy".into()];
        assert!(shown(&document, false).contains("not put back: MTU of eth0: busy"));
    }
}
