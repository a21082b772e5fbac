//! `campaign check` and `campaign explain`.

use std::fmt::Write as _;
use std::io::Write as _;

use linerate_experiment::campaign::control::{Controller, Pace};
use linerate_experiment::campaign::design;
use linerate_experiment::campaign::plan::{Order, Workload};
use linerate_report::clean::clean;

use super::show::span;
use linerate_drive::campaign::{Read, left};

/// Says what a sound plan amounts to.
pub fn check(read: &Read) {
    print(&head(read));
}

/// Says everything that will happen.
pub fn explain(read: &Read) {
    let mut text = head(read);
    let plan = &read.plan;
    text.push_str("\nsettings\n");
    let width = plan.settings.iter().map(|s| s.name.len()).max().unwrap_or(0);
    for (at, (setting, prepared)) in plan.settings.iter().zip(&read.prepared).enumerate() {
        let command = match (&setting.workload, &prepared.test) {
            (Workload::Command { words, .. }, _) => words.join(" "),
            (_, Some(test)) => test.words.join(" "),
            (_, None) => String::new(),
        };
        let client = prepared.test.as_ref().map_or(setting.from, |t| t.client);
        let _ = writeln!(
            text,
            "  {:width$}  {command}  (on {}){}",
            setting.name,
            plan.hosts[client].name,
            if at == plan.baseline { "  baseline" } else { "" }
        );
        for (host, list) in &prepared.changes {
            let list: Vec<String> = list.iter().map(ToString::to_string).collect();
            let _ = writeln!(
                text,
                "  {:width$}    sets on {}: {}",
                "",
                plan.hosts[*host].name,
                list.join(", ")
            );
        }
        for note in &prepared.notes {
            let _ = writeln!(text, "  {:width$}    note: {note}", "");
        }
    }
    text.push_str("\n   run  boot  block  setting\n");
    let mut boot = 0;
    for slot in design::slots(plan, read.seed()) {
        if slot.boot != boot {
            boot = slot.boot;
            for &host in &plan.rebooted() {
                let host = &plan.hosts[host];
                let command = host.reboot.as_deref().unwrap_or_default();
                let _ =
                    writeln!(text, "        {boot:>4}         reboot {} ({command})", host.name);
            }
        }
        let block = if slot.block > 0 { slot.block.to_string() } else { "-".into() };
        let _ = writeln!(
            text,
            "{:>6}  {:>4}  {block:>5}  {}{}",
            slot.index + 1,
            if slot.boot > 0 { slot.boot.to_string() } else { "-".into() },
            slot.setting,
            if slot.warmup { "  (warm-up)" } else { "" }
        );
    }
    print(&text);
}

fn print(text: &str) {
    let lines: Vec<String> = text.lines().map(|l| clean(l).into_owned()).collect();
    // Whoever closed the output has read enough.
    let _ = writeln!(std::io::stdout(), "{}", lines.join("\n"));
}

fn head(read: &Read) -> String {
    let plan = &read.plan;
    let repeat = &plan.repeat;
    let slots = design::slots(plan, read.seed());
    let total = slots.len();
    let rebooted: Vec<String> =
        plan.rebooted().iter().map(|&h| plan.hosts[h].name.clone()).collect();
    let controller = Controller::new(slots, rebooted, Vec::new(), repeat.retries);
    let seconds = left(plan, &read.prepared, &controller, Pace::default());
    let mut text = format!("{}: ", plan.name);
    let boots = match repeat.boots {
        0 => String::new(),
        1 => "1 boot x ".to_owned(),
        n => format!("{n} boots x "),
    };
    let _ = writeln!(
        text,
        "{} settings x {boots}({} warm-up + {} runs) = {total} runs, about {}",
        plan.settings.len(),
        repeat.warmup,
        repeat.runs,
        span(seconds)
    );
    let _ = match repeat.order {
        Order::Shuffled => writeln!(
            text,
            "order: complete blocks, shuffled; seed {}{}",
            read.seed(),
            if repeat.seed.is_some() { "" } else { " (of the plan's text)" }
        ),
        Order::AsWritten => writeln!(text, "order: complete blocks, as written"),
        Order::Grouped => writeln!(
            text,
            "order: grouped by setting; a drift of the hosts looks like a difference"
        ),
    };
    if repeat.boots > 0 {
        let pace = Pace::default();
        let _ = writeln!(
            text,
            "time: {} s for each reboot and {} s beside each run are guesses until the first ones",
            pace.boot_s, pace.overhead_s
        );
    }
    for note in &plan.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}
