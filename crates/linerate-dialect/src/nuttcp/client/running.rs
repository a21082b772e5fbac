//! Between the start and the results: when the data ends, and when the server is given up.

use linerate_model::test_event::TestEvent;

use super::{
    Client, HEAD_START_NS, INTERRUPTED_NS, LONGEST_NS, PAD_NS, Phase, RUNNING, THREADS_LIMIT_NS,
};
use crate::ending::{Failure, Trouble};
use crate::lookout::Lookout;
use crate::nuttcp::words::Beginning;
use crate::stream::{self, Report};
use crate::{Action, Seen};

impl Client {
    pub(super) fn prepared(&mut self, now_ns: u64) {
        if !matches!(self.phase, Phase::Preparing) {
            return;
        }
        if self.sends_datagrams() {
            self.phase = Phase::Beginning(Beginning::say(now_ns, &mut self.actions));
        } else {
            self.begin(now_ns);
        }
    }

    fn begin(&mut self, now_ns: u64) {
        let start_ns = now_ns.saturating_add(HEAD_START_NS);
        self.actions.push_back(Action::Begin(start_ns));
        let time_ns = self.terms.plan.duration().map(|time| time.0);
        // Of an amount there may be a time as well: whichever comes first ends it.
        let time_ns = time_ns.or(self.terms.asked.time_us.map(|us| us.saturating_mul(1_000)));
        let over_ns = time_ns.map(|ns| start_ns.saturating_add(ns));
        let latest = over_ns.unwrap_or(start_ns.saturating_add(LONGEST_NS));
        let deadline_ns = latest.saturating_add(2 * PAD_NS).saturating_add(THREADS_LIMIT_NS);
        let lookout = Lookout::new(now_ns);
        self.phase = Phase::Running { over_ns, deadline_ns, lookout };
    }

    /// The data threads end, with what they have.
    pub(super) fn stop(&mut self, now_ns: u64) {
        self.actions.extend([Action::Stop, Action::DrainUntil(0)]);
        self.phase = Phase::Ending { deadline_ns: now_ns.saturating_add(THREADS_LIMIT_NS) };
    }

    pub(super) fn interrupt(&mut self, now_ns: u64) {
        let again = std::mem::replace(&mut self.interrupted, true);
        let patience_ns = self.terms.patience_ns.min(INTERRUPTED_NS);
        match &mut self.phase {
            Phase::Running { .. } => {
                let note = "interrupted: ending with what was measured".into();
                self.actions.push_back(Action::Note(note));
                self.terms.patience_ns = patience_ns;
                self.stop(now_ns);
            }
            // Whoever asks again does not wait for the results.
            Phase::Ending { .. } | Phase::Counting if !again => {
                self.terms.patience_ns = patience_ns;
            }
            Phase::Waiting { deadline_ns } if !again => {
                *deadline_ns = (*deadline_ns).min(now_ns.saturating_add(INTERRUPTED_NS));
            }
            _ => self.fail(now_ns, Failure::Interrupted),
        }
    }

    /// What follows from the time, and from all that is known by now.
    pub(super) fn settle(&mut self, now_ns: u64) {
        let all = self.reports.len() == self.ids.len();
        match &mut self.phase {
            Phase::Asking { deadline_ns, .. } if now_ns >= *deadline_ns => {
                if let Some(lines) = self.refusal.take() {
                    return self.refused(now_ns, &lines);
                }
                let patience = std::time::Duration::from_nanos(self.terms.patience_ns);
                let why = format!("no answer within {patience:?}");
                self.fail(now_ns, Failure::Server(why));
            }
            Phase::Beginning(beginning) if beginning.is_over(now_ns, &mut self.actions) => {
                self.begin(now_ns);
            }
            Phase::Running { .. } | Phase::Ending { .. } if all => self.count(),
            Phase::Running { .. } | Phase::Ending { .. } if self.threads_over => {
                let failure = Failure::Here("a data thread ended without a word".into());
                self.trouble.get_or_insert(Trouble { doing: RUNNING, failure });
                self.count();
            }
            Phase::Running { over_ns, .. } if over_ns.is_some_and(|at| now_ns >= at) => {
                *over_ns = None;
                self.actions.push_back(Action::HostOver);
                // All words of the end may be lost.
                if self.terms.plan.direction.has_reverse() {
                    let until = now_ns.saturating_add(PAD_NS);
                    self.actions.push_back(Action::DrainUntil(until));
                } else if self.terms.plan.duration().is_none() {
                    self.actions.push_back(Action::Stop);
                }
            }
            Phase::Running { deadline_ns, .. } if now_ns >= *deadline_ns => {
                self.fail(now_ns, Failure::Here("the test did not end in time".into()));
            }
            Phase::Ending { deadline_ns } if now_ns >= *deadline_ns => self.count(),
            // It closes when it has said all.
            Phase::Waiting { deadline_ns }
                if self.far.totals.is_some() && (self.closed || now_ns >= *deadline_ns) =>
            {
                self.conclude();
            }
            Phase::Waiting { deadline_ns } if now_ns >= *deadline_ns => {
                let failure = if self.interrupted {
                    Failure::Interrupted
                } else {
                    Failure::Server("its results did not come in time".into())
                };
                self.fail(now_ns, failure);
            }
            _ => {}
        }
        if matches!(self.phase, Phase::Counting | Phase::Waiting { .. }) && self.sends_datagrams() {
            self.farewell.say(now_ns, &self.ids, &mut self.actions);
        }
    }

    pub(super) fn look(&mut self, now_ns: u64, seen: &Seen) {
        let Phase::Running { lookout, .. } = &mut self.phase else { return };
        let moved = seen.moved;
        if let Some(failure) = lookout.look(now_ns, (&self.terms.plan, seen, moved)) {
            self.fail(now_ns, failure);
        }
    }

    /// All figures are there; of a server that sends they may be of less than was asked for.
    fn conclude(&mut self) {
        let shortfall = stream::shortfall(&self.terms.plan, self.reports.values());
        let by_amount = self.terms.asked.time_us.is_none();
        if let Some(failure) = shortfall.filter(|_| by_amount && !self.interrupted) {
            self.trouble.get_or_insert(Trouble { doing: RUNNING, failure });
        }
        self.end(Ok(()));
    }

    pub(super) fn count(&mut self) {
        self.phase = Phase::Counting;
        let reports: Vec<&Report> =
            self.ids.iter().filter_map(|id| self.reports.get(&id.stream)).collect();
        if reports.len() == self.ids.len() {
            let span_ns = reports.iter().map(|report| stream::span_ns(report)).max();
            let rows = self.rows.rest(&reports, span_ns.unwrap_or(0));
            let events = rows.into_iter().map(|rows| Box::new(TestEvent::Rows(rows)));
            self.actions.extend(events.map(Action::Event));
        }
        self.actions.extend([Action::HostOver, Action::FinishHost]);
    }

    /// All that this end measured is there.
    pub(super) fn on_host(&mut self, now_ns: u64) {
        if !matches!(self.phase, Phase::Counting) {
            return;
        }
        if self.trouble.is_some() {
            return self.end(Ok(()));
        }
        let deadline_ns = now_ns.saturating_add(self.terms.patience_ns);
        self.phase = Phase::Waiting { deadline_ns };
        if self.closed && self.far.totals.is_none() {
            self.fail(now_ns, Failure::Server("it closed the control connection".into()));
        }
    }
}
