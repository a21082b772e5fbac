//! The line that says how far a sweep is and how long it will take, on a terminal only.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use linerate_experiment::sweep::{Job, Sweep};
use linerate_model::plan::Way;
use linerate_model::sweep::{SweepPlan, Variable};
use linerate_report::number;
use linerate_report::sweep::text::minutes;

/// Set-up, clock exchange and drain around each trial, before one was seen.
const AROUND_S: f64 = 0.3;

/// A bar, or nothing.
pub struct Progress {
    bar: Option<ProgressBar>,
    variable: Variable,
    both: bool,
    trial_s: f64,
    /// Trials of this call, and their time.
    done: u32,
    begun: Instant,
    last: String,
}

impl Progress {
    /// `shown` says whether standard error can carry a line that changes.
    pub fn new(shown: bool, plan: &SweepPlan) -> Self {
        let bar = shown.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:16} {pos}/{len}  {wide_msg}");
            bar.set_style(
                style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸ "),
            );
            bar
        });
        Self {
            bar,
            variable: plan.variable,
            both: plan.directions.len() > 1,
            trial_s: plan.trial_s,
            done: 0,
            begun: Instant::now(),
            last: String::new(),
        }
    }

    /// A trial begins.
    pub fn begin(&mut self, job: &Job, sweep: &Sweep) {
        let Some(bar) = &self.bar else { return };
        let (done, left) = (sweep.trials().len() as u64, sweep.left() as u64);
        bar.set_length(done + left.max(1));
        bar.set_position(done);
        let seconds = self.per_trial() * left as f64;
        let way = match job.way {
            Way::Forward if self.both => "→ ",
            Way::Reverse => "← ",
            Way::Forward => "",
        };
        let zoom = if job.zoom { ", zoom" } else { "" };
        // What no narrow terminal may cut comes first.
        bar.set_message(format!(
            "{} left · {way}{}{zoom}{}",
            minutes(seconds),
            self.value(job.value),
            self.last
        ));
        bar.tick();
    }

    /// It is over.
    pub fn end(&mut self, sweep: &Sweep) {
        self.done += 1;
        let Some(trial) = sweep.trials().last() else { return };
        self.last = format!(
            " · last: {} arrived of {}",
            number::short(trial.outcome.received_bps),
            match self.variable {
                Variable::Rate => self.value(trial.value),
                _ => number::short(trial.outcome.sent_bps),
            }
        );
    }

    fn per_trial(&self) -> f64 {
        if self.done == 0 {
            return self.trial_s + AROUND_S;
        }
        self.begun.elapsed().as_secs_f64() / f64::from(self.done)
    }

    fn value(&self, value: Option<u64>) -> String {
        match (value, self.variable) {
            (None, _) => "max".to_owned(),
            (Some(value), Variable::Rate) => number::rate(value as f64),
            (Some(value), Variable::Streams) => format!("{value} streams"),
            (Some(value), Variable::Size | Variable::Window) => number::bytes(value),
        }
    }

    /// A line that stays, where there is no bar as well.
    pub fn note(&mut self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(format!("note: {text}")),
            None => eprintln!("note: {text}"),
        }
    }

    /// Leaves the screen as it was.
    pub fn clear(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
