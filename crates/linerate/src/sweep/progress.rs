//! What is seen of a sweep while it runs: a row a trial, and below it how far it is.

use linerate_experiment::sweep::{Job, Sweep};
use linerate_model::plan::Way;
use linerate_model::sweep::{SweepPlan, Variable};
use linerate_report::live::Live;
use linerate_report::number;
use linerate_report::run::text::Layout;
use linerate_report::sweep::rows;
use linerate_runner::clock::Stopwatch;

/// Set-up, clock exchange and drain around each trial, before one was seen.
const AROUND_S: f64 = 0.3;

/// Rows as text, and what is said below them.
pub struct Progress {
    headed: bool,
    /// Trials of this call, and their time.
    done: u32,
    begun: Stopwatch,
}

impl Progress {
    /// Before the first trial.
    pub fn new() -> Self {
        Self { headed: false, done: 0, begun: Stopwatch::start() }
    }

    /// A trial begins.
    pub fn begin(&self, job: &Job, sweep: &Sweep) -> Live {
        let plan = sweep.plan();
        let (done, left) = (sweep.trials().len(), sweep.left().max(1));
        let way = match job.way {
            Way::Forward if plan.directions.len() > 1 => "→ ",
            Way::Reverse => "← ",
            Way::Forward => "",
        };
        let zoom = if job.zoom { ", zoom" } else { "" };
        Live {
            unit: "trial",
            number: done + 1,
            of: Some(done + left),
            what: format!("{way}{}{zoom}", value(plan, job.value)),
            length_s: Some(plan.trial_s),
            curve: rows::curve(sweep.trials(), job.way),
            left_s: Some(self.per_trial(plan) * left as f64),
            ..Live::default()
        }
    }

    /// It is over: its row, with the head before the first.
    pub fn end(&mut self, sweep: &Sweep, layout: Layout) -> String {
        self.done += 1;
        let (plan, width, number) = (sweep.plan(), layout.room.width, sweep.trials().len());
        let Some(trial) = sweep.trials().last() else { return String::new() };
        let row = rows::row(plan, number, trial, width, layout.paint);
        match std::mem::replace(&mut self.headed, true) {
            true => row,
            false => rows::head(plan, width, layout.paint) + &row,
        }
    }

    /// Seconds.
    fn per_trial(&self, plan: &SweepPlan) -> f64 {
        if self.done == 0 {
            return plan.trial_s + AROUND_S;
        }
        self.begun.elapsed().as_secs_f64() / f64::from(self.done)
    }
}

fn value(plan: &SweepPlan, value: Option<u64>) -> String {
    match (value, plan.variable) {
        (None, _) => "max".to_owned(),
        (Some(value), Variable::Rate) => number::rate(value as f64),
        (Some(value), Variable::Streams) => format!("{value} streams"),
        (Some(value), Variable::Size | Variable::Window) => number::bytes(value),
    }
}
