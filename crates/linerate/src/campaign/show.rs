//! What a campaign shows while it runs: a line for each run, with a bar on a terminal; or JSON
//! lines.

use std::cell::RefCell;
use std::io::{Write as _, stdout};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use linerate_experiment::campaign::control::Controller;
use linerate_experiment::campaign::plan::Plan;
use linerate_model::campaign::{Event, RunState, Slot, StoredRun};
use linerate_model::units::si;
use linerate_report::clean::{clean, clean_json};

use crate::exit::Exit;
use crate::output::{self, Output};

/// Where it goes.
pub struct Show {
    form: Output,
    /// With --json: the runs so far, told as one document at the end.
    runs: RefCell<Vec<serde_json::Value>>,
    bar: Option<ProgressBar>,
    total: u64,
}

/// A time for people: `1 h 02 min`, `3 min 20 s`, `12 s`.
pub fn span(seconds: f64) -> String {
    let whole = if seconds.is_finite() { seconds.max(0.0).round() as u64 } else { 0 };
    let (days, hours, minutes) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, m) => format!("{m} min {:02} s", whole % 60),
        (0, h, m) => format!("{h} h {m:02} min"),
        (d, h, _) => format!("{d} d {h:02} h"),
    }
}

/// A figure with its unit.
pub fn figure(value: f64, unit: Option<&str>) -> String {
    match unit {
        Some(unit @ ("bit/s" | "datagrams/s" | "transactions/s" | "s")) => si(value, unit),
        Some(unit) => format!("{value} {unit}"),
        None => value.to_string(),
    }
}

/// Where a slot is in the design.
pub fn place(slot: &Slot) -> String {
    let boot = if slot.boot > 0 { format!("boot {} · ", slot.boot) } else { String::new() };
    let kind = if slot.warmup { "warm-up" } else { "run" };
    format!("{boot}{kind} {} · {}", slot.number, slot.setting)
}

impl Show {
    /// In the form asked for.
    pub fn new(form: Output) -> Self {
        let bar = (form == Output::Text && output::progress()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len} · {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { form, runs: RefCell::default(), bar, total: 0 }
    }

    fn line(&self, text: &str) {
        let write = || {
            // A reader who left does not stop a campaign of days: the store has it all.
            let _ = writeln!(stdout(), "{}", clean(text));
            let _ = stdout().flush();
        };
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Whether this is no text for people.
    fn json(&self) -> bool {
        self.form != Output::Text
    }

    /// A line, where lines are wanted.
    fn object(&self, value: &serde_json::Value) {
        if self.form == Output::JsonLines {
            self.document(value);
        }
    }

    fn document(&self, value: &serde_json::Value) {
        let _ = writeln!(stdout(), "{}", clean_json(&value.to_string()));
        let _ = stdout().flush();
    }

    /// It starts or goes on.
    pub fn begin(&mut self, plan: &Plan, controller: &Controller) {
        self.total = controller.slots().len() as u64;
        let filled = controller.filled();
        if self.json() {
            let settings: Vec<&str> = plan.settings.iter().map(|s| s.name.as_str()).collect();
            self.object(&serde_json::json!({
                "event": "campaign", "name": plan.name, "done": filled, "total": self.total,
                "settings": settings, "baseline": settings.get(plan.baseline),
            }));
            return;
        }
        let already = if filled > 0 { format!(", {filled} of them done") } else { String::new() };
        self.line(&format!(
            "{}: {} settings, {} runs{already}",
            plan.name,
            plan.settings.len(),
            self.total
        ));
        if let Some(bar) = &self.bar {
            bar.set_length(self.total);
            bar.set_position(filled);
            bar.enable_steady_tick(Duration::from_millis(500));
        }
    }

    /// Something durable happened.
    pub fn event(&mut self, event: &Event) {
        if self.json() {
            if let Ok(value) = serde_json::to_value(event) {
                self.object(&value);
            }
            return;
        }
        match event {
            Event::BootBegan { boot, host, .. } => {
                self.line(&format!("boot {boot}: {host} reboots"))
            }
            Event::BootProved { boot, host, boot_id } => {
                self.line(&format!("boot {boot}: {host} is back, boot_id {boot_id}"));
            }
            Event::Gap { host, seconds, why } => {
                self.line(&format!("gap: {host} was away for {}: {why}", span(*seconds)));
            }
            Event::Waiting { what } => match &self.bar {
                Some(bar) => bar.set_message(format!("waits for {}", clean(what))),
                None => self.line(&format!("waits for {what}")),
            },
            Event::Short { slot, why } => {
                self.line(&format!("run {} stays empty: {why}", slot + 1))
            }
            _ => {}
        }
    }

    /// A run starts.
    pub fn running(&self, slot: &Slot, attempt: u32, controller: &Controller, left: f64) {
        let Some(bar) = &self.bar else { return };
        let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        bar.set_position(controller.filled());
        bar.set_message(format!("{}{again} · {} left", place(slot), span(left)));
    }

    /// A run was kept: it is acknowledged.
    pub fn run(&self, run: &StoredRun, controller: &Controller, left: f64) {
        if self.json() {
            let brief = StoredRun { record: None, ..run.clone() };
            if let Ok(mut value) = serde_json::to_value(brief) {
                if self.form == Output::Json {
                    self.runs.borrow_mut().push(value.clone());
                }
                value["event"] = "run".into();
                self.object(&value);
            }
            return;
        }
        let Some(slot) = controller.slots().get(run.slot as usize) else { return };
        let what = match (run.state, run.value) {
            (RunState::Counted | RunState::Extra, Some(value)) => {
                figure(value, run.unit.as_deref())
            }
            (RunState::Cut, _) => "cut, is repeated".to_owned(),
            (_, _) => format!("does not count: {}", run.error.as_deref().unwrap_or("no figure")),
        };
        let extra = if run.state == RunState::Extra { " (again, after a boot)" } else { "" };
        let again =
            if run.attempt > 1 { format!(" (attempt {})", run.attempt) } else { String::new() };
        let width = self.total.to_string().len();
        let left =
            if self.bar.is_none() { format!(" · {} left", span(left)) } else { String::new() };
        self.line(&format!(
            "{:>width$}/{} {}{extra}{again}: {what}{left}",
            controller.filled(),
            self.total,
            place(slot)
        ));
        if let Some(bar) = &self.bar {
            bar.set_position(controller.filled());
        }
    }

    /// What could not be put back.
    pub fn restored(&self, host: &str, left: &[String]) {
        if self.json() {
            return;
        }
        for what in left {
            self.line(&format!("{host} was not put back: {what}"));
        }
    }

    /// For the user.
    pub fn note(&self, text: &str) {
        if self.json() {
            self.object(&serde_json::json!({ "event": "note", "text": text }));
        } else {
            self.line(text);
        }
    }

    /// It is over.
    pub fn end(&self, plan: &Plan, controller: &Controller, store: &Path, exit: Option<Exit>) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if self.json() {
            let short = serde_json::to_value(controller.short()).unwrap_or_default();
            let mut value = serde_json::json!({
                "event": "end", "name": plan.name, "done": controller.filled(), "total": self.total, "short": short,
            });
            self.object(&value);
            if self.form == Output::Json {
                value["runs"] = self.runs.take().into();
                self.document(&value);
            }
            return;
        }
        let store = store.display();
        if exit != Some(Exit::Complete) || controller.open().next().is_some() {
            self.line(&format!(
                "stopped with {} of {} runs kept; go on: linerate campaign resume {store}",
                controller.filled(),
                self.total
            ));
            return;
        }
        let short = controller.short();
        if short.is_empty() {
            self.line(&format!("done: all {} runs are kept in {store}", self.total));
        }
        for cell in short {
            let boot =
                if cell.boot > 0 { format!(" in boot {}", cell.boot) } else { String::new() };
            self.line(&format!(
                "short: {}{boot} has {} of {} runs: {}",
                cell.setting, cell.have, cell.want, cell.why
            ));
        }
        self.line(&format!("next: linerate compare {store} · linerate campaign export {store}"));
    }
}
