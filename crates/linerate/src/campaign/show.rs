//! What a campaign shows while it runs: a line for each run, with a bar on a terminal; or JSON
//! lines.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Write as _, stdout};
use std::path::Path;

use linerate_drive::Watcher;
use linerate_drive::campaign::{Event as Progress, place};
use linerate_experiment::campaign::control::Controller;
use linerate_experiment::campaign::plan::Plan;
use linerate_model::campaign::{Event, RunState, Slot, StoredRun};
use linerate_model::lines::{CampaignEnd, CampaignEvent, CampaignLine};
use linerate_model::record::ErrorRecord;
use linerate_report::clean::{clean, shell_word};
use linerate_report::live::Live;
pub use linerate_report::live::span;
use linerate_report::number;
use linerate_report::rows::cut;
use linerate_report::run::json;
use linerate_report::style::wrap;
use linerate_session::observer::Observer;

use crate::output::{Look, Output};
use crate::status::StatusLine;

/// A name cut shorter than this says nothing.
const NAME_LEAST: usize = 16;

/// Where it goes.
pub struct Show {
    form: Output,
    /// With --json: the runs so far, shown as one document at the end.
    runs: RefCell<Vec<StoredRun>>,
    /// That document, until it is known whether an error belongs into it.
    end: Option<CampaignEnd>,
    status: StatusLine,
    /// Columns of the terminal on standard output; absent where there is none.
    width: Option<usize>,
    /// The run under way, or the last one.
    known: Live,
    total: u64,
}

/// A line for a run. The name is cut before the figure is, and the figure before the line wraps.
fn row(number: &str, name: &str, figure: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return format!("{number}{name}{figure}") };
    let columns = |text: &str| text.chars().count();
    let room = width.saturating_sub(columns(number) + columns(figure));
    let name = cut(name, room.max(NAME_LEAST));
    cut(&format!("{number}{name}{figure}"), width)
}

/// A line on standard output. A reader who left does not stop a campaign of days: the store has it all.
fn put(line: std::io::Result<String>) {
    let _ = line.and_then(|line| stdout().write_all(line.as_bytes()));
    let _ = stdout().flush();
}

fn count(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

impl Observer for Show {}

impl Watcher for Show {
    fn campaign(&mut self, event: &Progress<'_>) {
        match *event {
            Progress::Began { plan, controller } => self.begin(plan, controller),
            Progress::Happened(event) => self.event(event),
            Progress::Running { slot, attempt, controller, length_s, left_s } => {
                self.running(slot, attempt, controller, (length_s, left_s));
            }
            Progress::Ran { run, controller, left_s } => self.run(run, controller, left_s),
            Progress::Restored { host, left } => self.restored(host, left),
            Progress::Note(text) => self.remark(text),
            Progress::Over { plan, controller, store, left, complete } => {
                self.over(plan, controller, store, left, complete);
            }
        }
    }
}

impl Show {
    /// In the form asked for.
    pub fn new(form: Output) -> Self {
        let width = Look::PLAIN.layout().room.width;
        let known = Live { unit: "run", number: 1, ..Live::default() };
        let (runs, status) = (RefCell::default(), StatusLine::new());
        Self { form, runs, end: None, status, width, known, total: 0 }
    }

    /// Shows the document of `--json`, with what the campaign could not go on after. Whether there is one: a campaign
    /// that did not begin has none.
    pub fn close(&mut self, error: Option<&ErrorRecord>) -> bool {
        let Some(end) = self.end.take() else { return false };
        put(json::line(&CampaignEvent::End(CampaignEnd { error: error.cloned(), ..end })));
        true
    }

    fn line(&self, text: &str) {
        // A word stays whole, so that a command can be copied.
        let lines = wrap(&clean(text), self.width.unwrap_or(usize::MAX), "  ").join("\n");
        self.status.above(|| {
            // A reader who left does not stop a campaign of days: the store has it all.
            let _ = writeln!(stdout(), "{lines}");
            let _ = stdout().flush();
        });
    }

    /// Whether this is no text for people.
    fn json(&self) -> bool {
        self.form != Output::Text
    }

    /// A line, where lines are wanted.
    fn object(&self, line: &CampaignLine<'_>) {
        if self.form == Output::JsonLines {
            put(json::line(line));
        }
    }

    fn report(&self, event: &CampaignEvent) {
        self.object(&CampaignLine::Event(event));
    }

    /// It starts or goes on.
    fn begin(&mut self, plan: &Plan, controller: &Controller) {
        self.total = controller.slots().len() as u64;
        let filled = controller.filled();
        if self.json() {
            let settings: Vec<String> = plan.settings.iter().map(|s| s.name.clone()).collect();
            self.report(&CampaignEvent::Campaign {
                name: plan.name.clone(),
                done: filled,
                total: self.total,
                baseline: settings.get(plan.baseline).cloned(),
                settings,
            });
            return;
        }
        let already = if filled > 0 { format!(", {filled} of them done") } else { String::new() };
        self.line(&format!(
            "{}: {} settings, {} runs{already}",
            plan.name,
            plan.settings.len(),
            self.total
        ));
    }

    /// Something durable happened.
    fn event(&mut self, event: &Event) {
        if self.json() {
            self.object(&CampaignLine::Happened(event));
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
            Event::Waiting { what } if self.status.is_shown() => {
                let what = format!("waits for {what}");
                self.status.begin(Live { what, ..self.known.clone() });
                self.status.flows();
            }
            Event::Waiting { what } => self.line(&format!("waits for {what}")),
            Event::Short { slot, why } => {
                self.line(&format!("run {} stays empty: {why}", slot + 1))
            }
            _ => {}
        }
    }

    /// A run starts, of `length` seconds where that is known, with `left` seconds to the end.
    fn running(
        &mut self,
        slot: &Slot,
        attempt: u32,
        controller: &Controller,
        (length, left): (f64, f64),
    ) {
        if self.json() {
            return;
        }
        let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        self.known = Live {
            unit: "run",
            number: count(controller.filled()) + 1,
            of: Some(count(self.total)),
            what: format!("{}{again}", place(slot)),
            length_s: Some(length).filter(|length| *length > 0.0),
            left_s: Some(left),
            ..Live::default()
        };
        self.status.begin(self.known.clone());
        // Its tests may be programs of their own, which do not report when data flows.
        self.status.flows();
    }

    /// A run was kept: it is acknowledged.
    fn run(&self, run: &StoredRun, controller: &Controller, left: f64) {
        if self.json() {
            let brief = StoredRun { record: None, ..run.clone() };
            if self.form == Output::Json {
                self.runs.borrow_mut().push(brief.clone());
            }
            self.report(&CampaignEvent::Run(Box::new(brief)));
            return;
        }
        let Some(slot) = controller.slots().get(run.slot as usize) else { return };
        let what = match (run.state, run.value) {
            (RunState::Counted | RunState::Extra, Some(value)) => {
                number::measured(value, run.unit.as_deref())
            }
            (RunState::Cut, _) => "cut, is repeated".to_owned(),
            (_, _) => format!("does not count: {}", run.error.as_deref().unwrap_or("no figure")),
        };
        let extra = if run.state == RunState::Extra { " (again, after a boot)" } else { "" };
        let again =
            if run.attempt > 1 { format!(" (attempt {})", run.attempt) } else { String::new() };
        let width = self.total.to_string().len();
        let left = match self.status.is_shown() {
            true => String::new(),
            false => format!(" · {} left", span(left)),
        };
        let number = format!("{:>width$}/{} ", controller.filled(), self.total);
        let name = format!("{}{extra}{again}", place(slot));
        self.line(&row(&number, &name, &format!(": {what}{left}"), self.width));
    }

    /// What could not be put back.
    fn restored(&self, host: &str, left: &[String]) {
        if self.json() {
            return;
        }
        for what in left {
            self.line(&format!("{host} was not put back: {what}"));
        }
    }

    /// For the user.
    fn remark(&self, text: &str) {
        if self.json() {
            self.report(&CampaignEvent::Note { text: text.to_owned() });
        } else {
            self.line(text);
        }
    }

    /// It is over.
    fn over(
        &mut self,
        plan: &Plan,
        controller: &Controller,
        store: &Path,
        left: &BTreeMap<String, Vec<String>>,
        complete: bool,
    ) {
        self.status.clear();
        if self.json() {
            let runs = (self.form == Output::Json).then(|| self.runs.take());
            let end = CampaignEnd {
                name: plan.name.clone(),
                done: controller.filled(),
                total: self.total,
                short: controller.short(),
                left: left.clone(),
                runs,
                error: None,
            };
            match self.form {
                Output::Json => self.end = Some(end),
                _ => put(json::line(&CampaignEvent::End(end))),
            }
            return;
        }
        let store = shell_word(&store.to_string_lossy());
        if !complete || controller.open().next().is_some() {
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
