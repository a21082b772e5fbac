//! Where a test's CPU time went, as text: by layer, by where it was called from, by function, and what differs between two tests.

use linerate_model::profile::{
    Difference, FunctionShare, HostProfile, Knee, LayerDifference, LayerShare, PathShare, Profile,
    ProfileDocument, Scope, Unsampled,
};
use linerate_model::record::{CpuFigures, RunRecord, TestEnd};

use crate::clean::clean;
use crate::number;
use crate::rows::{self, Cell, column, keep, text as words};
use crate::run::text::Layout;
use crate::style::Tone;

/// A column of rows of this type.
type Of<T> = rows::Column<fn(&T) -> Cell>;

/// Columns of the first words of each line.
const LABEL: usize = 9;
/// Functions on the screen; a JSON document and `-v` have more.
const FUNCTIONS: usize = 10;
/// Columns of a bar for a share of all.
const BAR: f64 = 20.0;

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Much {
    /// Layers alone.
    Layers,
    /// And the functions that most of the time goes to.
    Some,
    /// All that is known.
    All,
}

/// All of it.
pub fn text(document: &ProfileDocument, layout: Layout, much: Much) -> String {
    let mut out = String::new();
    if let Some(found) = &document.knee {
        // Apart from the trials of the search.
        out.push('\n');
        layout.wrapped(&mut out, &label("knee"), &knee(found), Tone::Label, LABEL);
        out.push('\n');
    }
    for profile in &document.profiles {
        one(&mut out, profile, layout, much);
    }
    for found in &document.differences {
        difference(&mut out, found, document, layout);
    }
    out
}

fn label(word: &str) -> String {
    format!("{word:LABEL$}")
}

/// Where a search found it, and what limited it there: `between 2.000 Gbit/s and 2.010 Gbit/s; limit: path`.
pub(crate) fn knee(found: &Knee) -> String {
    let rate = |bps| number::or_absent(bps, number::rate);
    let settled = if found.settled { "" } else { ", not settled" };
    let limit = found.limit.map_or(String::new(), |limit| format!("; limit: {}", limit.name()));
    format!("between {} and {}{settled}{limit}", rate(found.lower_bps), rate(found.upper_bps))
}

fn one(out: &mut String, profile: &Profile, layout: Layout, much: Much) {
    layout.wrapped(out, &label("profile"), &head(profile), Tone::Label, LABEL);
    for host in &profile.hosts {
        layout.wrapped(out, &label("sampled"), &sampled(host), Tone::Dim, LABEL);
        for note in notes(host) {
            layout.wrapped(out, &label("note"), &note, Tone::Warn, LABEL);
        }
    }
    for Unsampled { host, why, hints } in &profile.unsampled {
        let line = format!("the {}'s host: {why}", host.name());
        layout.wrapped(out, &label("unknown"), &clean(&line), Tone::Warn, LABEL);
        for hint in hints {
            layout.wrapped(out, &label("  try"), &clean(hint), Tone::Dim, LABEL);
        }
        if let Some(cores) = cores(&profile.run, *host).filter(|_| profile.hosts.is_empty()) {
            layout.wrapped(out, &label("  /proc"), &cores, Tone::Plain, LABEL);
        }
    }
    out.push('\n');
    for host in &profile.hosts {
        tables(out, host, layout, much);
    }
}

fn tables(out: &mut String, host: &HostProfile, layout: Layout, much: Much) {
    let name = host.work.map_or("", |work| work.unit.cost());
    let mut layers = LAYERS.to_vec();
    if host.layers.iter().all(|layer| layer.cost.is_none()) {
        layers.retain(|column| column.name != COST);
    } else if let Some(cost) = layers.iter_mut().find(|column| column.name == COST) {
        cost.name = name;
    }
    table(out, layers, &host.layers, layout);
    if much == Much::Layers {
        return;
    }
    table(out, PATHS.to_vec(), &host.paths, layout);
    let most = if much == Much::All { usize::MAX } else { FUNCTIONS };
    let shown = host.functions.iter().take(most).filter(|function| function.samples > 0);
    table(out, FUNCTION.to_vec(), shown, layout);
}

fn table<'a, T: 'a>(
    out: &mut String,
    mut columns: Vec<Of<T>>,
    rows: impl IntoIterator<Item = &'a T>,
    layout: Layout,
) {
    let width = layout.room.width;
    keep(&mut columns, width, |_| 0);
    out.push_str(&rows::head(&columns, width, layout.paint));
    for row in rows {
        let cells: Vec<Cell> = columns.iter().map(|column| (column.cell)(row)).collect();
        out.push_str(&rows::line(&columns, &cells, width, layout.paint));
    }
    out.push('\n');
}

/// Replaced by the unit of the cost.
const COST: &str = "cost";

const LAYERS: &[Of<LayerShare>] = &[
    words("layer", 26, 0, |one| Cell::plain(one.layer.words())),
    column("", "of busy", 8, 0, |one| Cell::plain(percent(one.share))),
    column("", "±", 5, 1, |one| error(one.share_se)),
    column("", COST, 14, 2, |one| Cell::known(one.cost.map(|cost| format!("{cost:.4}")))),
    words("", 20, 3, |one| bar(one.share)),
];

const PATHS: &[Of<PathShare>] = &[
    words("called from", 26, 0, |one| Cell::plain(one.path.words())),
    column("", "of busy", 8, 0, |one| Cell::plain(percent(one.share))),
    column("", "±", 5, 1, |one| error(one.share_se)),
    words("", 36, 3, |one| bar(one.share)),
];

const FUNCTION: &[Of<FunctionShare>] = &[
    words("function", 34, 0, |one| Cell::plain(function(&one.name))),
    column("", "itself", 7, 0, |one| Cell::plain(percent(one.share))),
    column("", "with called", 11, 1, |one| Cell::plain(percent(one.whole_share))),
    words("layer", 22, 2, |one| Cell::toned(Some(one.layer.words().to_owned()), Tone::Dim)),
];

/// A share of samples.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn error(se: f64) -> Cell {
    Cell::toned(Some(format!("{:.1}", se * 100.0)), Tone::Dim)
}

fn bar(share: f64) -> Cell {
    let length = (share * BAR).round().clamp(0.0, BAR) as usize;
    Cell::plain("█".repeat(length))
}

/// A function's name for people.
pub(crate) fn function(name: &str) -> String {
    clean(name.strip_suffix("_[k]").unwrap_or(name)).into_owned()
}

/// What was tested and what came of it.
pub(crate) fn head(profile: &Profile) -> String {
    let run = &profile.run;
    let plan = run.agreed.as_ref().unwrap_or(&run.asked);
    let protocol = plan.protocol.name().to_owned();
    let to = run.target.as_ref().map_or("this machine".to_owned(), |to| format!("`{to}`"));
    let mut line = format!("{protocol} to {to}");
    let summary = run.summary.clone().unwrap_or_default();
    if let Some(rate) = summary.transactions_per_second {
        line.push_str(&format!(": {} transactions/s", number::short(rate)));
    } else if let Some(rate) = summary.received_bps.or(summary.sent_bps) {
        let loss = summary.lost_ratio.filter(|ratio| *ratio > 0.0);
        let loss = loss.map_or(String::new(), |ratio| format!(", {} lost", number::loss(ratio)));
        let verb = if summary.received_bps.is_some() { "received" } else { "sent" };
        line.push_str(&format!(": {} {verb}{loss}", number::rate(rate)));
    }
    if let Some(limit) = summary.limit {
        line.push_str(&format!("; limit: {}", limit.name()));
    }
    let name = if profile.name.is_empty() { String::new() } else { format!("{}: ", profile.name) };
    clean(&format!("{name}{line}")).into_owned()
}

/// Whose cores, how long, how.
pub(crate) fn sampled(host: &HostProfile) -> String {
    let ends = match &host.ends[..] {
        [_, _] => "both ends' host".to_owned(),
        ends => format!("the {}'s host", ends.first().map_or("client", |end| end.name())),
    };
    let what = match host.scope {
        Scope::Cores if host.cores == 1 => "1 core".to_owned(),
        Scope::Cores => format!("{} cores", host.cores),
        Scope::Threads => "linerate's threads".to_owned(),
    };
    let samples = number::integer(host.samples);
    let idle = host.idle_samples.filter(|_| host.scope == Scope::Cores && host.samples > 0);
    let idle = idle.map_or(String::new(), |idle| {
        // Of many cores one that is busy is less than a hundredth.
        format!(", {} of them idle", number::loss(idle as f64 / host.samples as f64))
    });
    let pace = match (host.frequency_hz, host.period_cycles) {
        (Some(hz), _) => format!(" at {hz} Hz"),
        (None, Some(cycles)) => format!(", every {} cycles", number::short(cycles as f64)),
        (None, None) => String::new(),
    };
    format!(
        "{ends}, {what} for {} by {}{pace}: {samples} samples{idle}",
        number::seconds(host.seconds),
        clean(&host.event)
    )
}

/// What limits what can be read of it.
pub(crate) fn notes(host: &HostProfile) -> Vec<String> {
    let mut notes: Vec<String> = host.notes.iter().map(|note| clean(note).into_owned()).collect();
    let many = |n: u64, why: &str| (n > 0).then(|| format!("{} samples {why}", number::integer(n)));
    notes.extend(many(host.lost_samples, "were lost: the sampler did not empty its rings in time"));
    notes.extend(many(host.unstored_samples, "of more different stacks than are kept are missing"));
    notes
}

/// What /proc says of the busiest data thread and its core.
fn cores(run: &RunRecord, host: TestEnd) -> Option<String> {
    let totals = &run.totals;
    let pair = [&totals.forward, &totals.reverse].into_iter().flatten();
    let senders = totals.sender.iter().chain(pair.clone().filter_map(|p| p.sender.as_ref()));
    let receivers = totals.receiver.iter().chain(pair.filter_map(|p| p.receiver.as_ref()));
    let reverse = run.agreed.as_ref().unwrap_or(&run.asked).direction.name() == "reverse";
    // Of a test of one direction the client sends unless it is reversed.
    let sends = (host == TestEnd::Client) != reverse;
    let mut senders = senders.filter_map(|end| end.cpu.as_ref());
    let mut receivers = receivers.filter_map(|end| end.cpu.as_ref());
    let of_end = || if sends { senders.next() } else { receivers.next() };
    let of_rr = totals.rr.as_ref().and_then(|rr| match host {
        TestEnd::Client => rr.cpu.as_ref(),
        TestEnd::Server => rr.server_cpu.as_ref(),
    });
    let cpu: &CpuFigures = of_rr.or_else(of_end)?;
    let core = cpu.core.map_or("its core".to_owned(), |core| format!("core {core}"));
    let line = format!("the data thread took {} of {core}", number::cpu(cpu.thread_percent));
    let parts = [
        ("user", cpu.user_percent),
        ("system", cpu.system_percent),
        ("softirq", cpu.softirq_percent),
        ("steal", cpu.steal_percent),
    ];
    let parts = parts.map(|(name, percent)| Some(format!("{name} {}", number::cpu(percent?))));
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    Some(if parts.is_empty() { line } else { format!("{line}, {} of it", parts.join(", ")) })
}

/// A layer with the names of both tests in its head.
const CHANGES: &[Of<LayerDifference>] = &[
    words("layer", 26, 0, |one| Cell::plain(one.layer.words())),
    column("", "first", 8, 0, |one| Cell::plain(percent(one.shares[0]))),
    column("", "second", 8, 0, |one| Cell::plain(percent(one.shares[1]))),
    column("", "points", 7, 0, |one| {
        let text = format!("{:+.1}", (one.shares[1] - one.shares[0]) * 100.0);
        Cell::toned(Some(text), tone(one))
    }),
    column("", "±", 5, 2, |one| error(one.share_se)),
    column("", COST, 20, 1, |one| Cell::known(one.costs.map(|[a, b]| format!("{a:.4} → {b:.4}")))),
    words("", 7, 0, |one| Cell::toned(Some(differs(one).to_owned()), tone(one))),
];

/// Whether it is more than chance.
pub(crate) fn differs(one: &LayerDifference) -> &'static str {
    if one.differs { "differs" } else { "" }
}

fn tone(one: &LayerDifference) -> Tone {
    if one.differs { Tone::Warn } else { Tone::Dim }
}

fn difference(out: &mut String, found: &Difference, document: &ProfileDocument, layout: Layout) {
    layout.wrapped(out, &label("compared"), &compared(document), Tone::Label, LABEL);
    out.push('\n');
    let mut columns = CHANGES.to_vec();
    match found.unit {
        None => columns.retain(|column| column.name != COST),
        Some(unit) => {
            if let Some(cost) = columns.iter_mut().find(|column| column.name == COST) {
                cost.name = unit.cost();
            }
        }
    }
    table(out, columns, &found.layers, layout);
    layout.wrapped(out, &label("so"), &verdict(found), Tone::Label, LABEL);
}

/// Which is the first and which the second.
pub(crate) fn compared(document: &ProfileDocument) -> String {
    let name = |at: usize| document.profiles.get(at).map_or("", |profile| profile.name.as_str());
    clean(&format!("first: {}; second: {}", name(0), name(1))).into_owned()
}

/// Which layers differ more than chance, in a sentence.
pub(crate) fn verdict(found: &Difference) -> String {
    let real: Vec<String> = found
        .layers
        .iter()
        .filter(|one| one.differs)
        .map(|one| {
            let points = (one.shares[1] - one.shares[0]) * 100.0;
            let ratio = one.costs.filter(|costs| costs[0] > 0.0).map(|[a, b]| b / a);
            let ratio = ratio.map_or(String::new(), |r| format!(", {r:.2} times the cost"));
            format!("{} ({points:+.1} points{ratio})", one.layer.words())
        })
        .collect();
    if real.is_empty() {
        return "no layer differs more than chance explains".to_owned();
    }
    format!("more than chance: {}", real.join("; "))
}

#[cfg(test)]
pub(crate) mod tests {
    use linerate_analysis::profile::{complete, difference as between};
    use linerate_model::profile::{FORMAT, Stack, Work, WorkUnit};
    use linerate_model::record::ProgramFacts;
    use linerate_testkit::records;

    use super::*;
    use crate::run::table::Room;
    use crate::style::Paint;

    fn host(copy: u64) -> HostProfile {
        let stack = |frames: &str, samples| Stack { frames: frames.to_owned(), samples };
        complete(HostProfile {
            ends: vec![TestEnd::Client, TestEnd::Server],
            scope: Scope::Cores,
            event: "cpu-clock".into(),
            frequency_hz: Some(499),
            period_cycles: None,
            cores: 2,
            seconds: 10.0,
            samples: 0,
            idle_samples: None,
            lost_samples: 3,
            unstored_samples: 0,
            notes: vec![],
            work: Some(Work { amount: 40.0, unit: WorkUnit::Gbit }),
            layers: vec![],
            paths: vec![],
            functions: vec![],
            stacks: vec![
                stack("idle task;do_idle_[k]", 5_000),
                stack(
                    "send-0;do_syscall_64_[k];__sys_sendmmsg_[k];udp_sendmsg_[k];_copy_from_iter_[k]",
                    copy,
                ),
                stack("send-0;do_syscall_64_[k];__sys_sendmmsg_[k];udp_sendmsg_[k]", 1_500),
                stack(
                    "send-0;a::very::long::name::of::a::function::in::rust::that::does::not::fit",
                    500,
                ),
            ],
        })
    }

    pub(crate) fn document() -> ProfileDocument {
        let profile = |name: &str, copy| Profile {
            name: name.to_owned(),
            run: Box::new(records::udp_receiver_drops()),
            hosts: vec![host(copy)],
            unsampled: vec![],
        };
        ProfileDocument {
            format: FORMAT,
            kind: "profile".into(),
            started: "2026-01-01T00:00:00Z".into(),
            linerate: ProgramFacts { version: "0.1.0".into() },
            command: vec![],
            target: Some("hydra2".into()),
            knee: Some(Knee {
                lower_bps: Some(2e9),
                upper_bps: Some(2.01e9),
                settled: true,
                limit: None,
            }),
            profiles: vec![profile("below the knee", 1_900), profile("above the knee", 2_900)],
            differences: vec![between(&host(1_900), &host(2_900))],
            error: None,
        }
    }

    fn shown(document: &ProfileDocument, width: usize, much: Much) -> String {
        let room = Room { width: Some(width), spark: false };
        text(document, Layout { room, paint: Paint { colour: false } }, much)
    }

    #[test]
    fn layers_functions_and_differences_fit_a_terminal() {
        let text = shown(&document(), 80, Much::Some);
        for line in [
            "knee     between 2.000 Gbit/s and 2.010 Gbit/s",
            "note     3 samples were lost",
            "called from",
            "more than chance: copying",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        for width in [40, 60, 80, 120] {
            let text = shown(&document(), width, Much::All);
            // The narrowest drops columns, and keeps the shares.
            assert!(text.lines().filter(|line| line.contains(" %")).count() > 5, "{width}: {text}");
            assert!(text.lines().all(|line| line.chars().count() <= width.max(60)), "{text}");
        }
    }

    #[test]
    fn how_often_it_was_sampled_is_told_in_what_drove_it() {
        let clock = host(1_900);
        assert!(sampled(&clock).contains("by cpu-clock at 499 Hz: "), "{}", sampled(&clock));
        let quiet = HostProfile { samples: 5_000, idle_samples: Some(4_990), ..clock.clone() };
        let quiet = sampled(&quiet);
        assert!(quiet.ends_with("000 samples, 99.80 % of them idle"), "{quiet}");
        let cycles = HostProfile {
            event: "cycles".into(),
            frequency_hz: None,
            period_cycles: Some(6_012_023),
            ..clock
        };
        let told = sampled(&cycles);
        assert!(told.contains("by cycles, every 6.012 M cycles: "), "{told}");
    }

    #[test]
    fn what_was_not_sampled_is_told_with_what_proc_says() {
        let mut document = document();
        document.differences.clear();
        document.profiles.truncate(1);
        let profile = &mut document.profiles[0];
        profile.hosts.clear();
        profile.unsampled = vec![Unsampled {
            host: TestEnd::Client,
            why: "kernel.perf_event_paranoid is 2\u{1b}[2J".into(),
            hints: vec!["sysctl kernel.perf_event_paranoid=0".into()],
        }];
        let text = shown(&document, 80, Much::Some);
        assert!(text.contains("the client's host: kernel.perf_event_paranoid is 2[2J"), "{text}");
        assert!(text.contains("try    sysctl"), "{text}");
        let client = &mut document.profiles[0].run;
        client.totals.sender.as_mut().unwrap().cpu = Some(CpuFigures {
            thread_percent: 93.2,
            core: Some(2),
            user_percent: Some(10.0),
            system_percent: Some(80.4),
            ..CpuFigures::default()
        });
        let sentence = |document: &ProfileDocument| {
            let text = shown(document, 200, Much::Some);
            text.lines().find(|line| line.contains("the data thread")).unwrap().trim().to_owned()
        };
        let whole = "/proc  the data thread took 93 % of core 2, user 10 %, system 80 % of it";
        assert_eq!(sentence(&document), whole);
        let client = &mut document.profiles[0].run;
        client.totals.sender.as_mut().unwrap().cpu =
            Some(CpuFigures { thread_percent: 5.0, ..CpuFigures::default() });
        assert_eq!(sentence(&document), "/proc  the data thread took 5.0 % of its core");
        // Requests are sent and answered by threads of their own.
        *document.profiles[0].run = records::rr();
        let whole = "/proc  the data thread took 31 % of core 0";
        assert!(sentence(&document).starts_with(whole), "{}", sentence(&document));
    }
}
