//! Between the start and the results: when the data ends, and when the server is given up.

use linerate_model::plan::Traffic;
use linerate_wire::netperf::PAD_NS;

use super::{Client, HEAD_START_NS, INTERRUPTED_NS, LONGEST_NS, Phase, RUNNING, THREADS_LIMIT_NS};
use crate::ending::{Failure, Trouble};
use crate::lookout::Lookout;
use crate::stream::Report;
use crate::{Action, Seen, stream};

impl Client {
    pub(super) fn begin(&mut self, now_ns: u64) {
        if !matches!(self.phase, Phase::Preparing) {
            return;
        }
        let start_ns = now_ns.saturating_add(HEAD_START_NS);
        self.began_ns = start_ns;
        self.actions.push_back(Action::Begin(start_ns));
        let over_ns = self.terms.plan.duration().map(|time| start_ns.saturating_add(time.0));
        let latest = over_ns.unwrap_or(start_ns.saturating_add(LONGEST_NS));
        let deadline_ns = latest.saturating_add(PAD_NS).saturating_add(THREADS_LIMIT_NS);
        let lookout = Lookout::new(now_ns);
        self.phase = Phase::Running { over_ns, deadline_ns, lookout };
    }

    /// The data thread ends, after `drain_ns` at the latest.
    pub(super) fn stop(&mut self, now_ns: u64, drain_ns: u64) {
        let drained_ns = now_ns.saturating_add(drain_ns);
        let until = if drain_ns > 0 { drained_ns } else { 0 };
        self.actions.extend([Action::Stop, Action::DrainUntil(until)]);
        self.phase = Phase::Ending { deadline_ns: drained_ns.saturating_add(THREADS_LIMIT_NS) };
    }

    pub(super) fn interrupt(&mut self, now_ns: u64) {
        let again = std::mem::replace(&mut self.interrupted, true);
        match &mut self.phase {
            Phase::Running { .. } => {
                let note = "interrupted: ending with what was measured".into();
                self.actions.push_back(Action::Note(note));
                self.terms.patience_ns = self.terms.patience_ns.min(INTERRUPTED_NS);
                self.stop(now_ns, 0);
            }
            // Whoever asks again does not wait for the results.
            Phase::Ending { .. } | Phase::Counting if !again => {
                self.terms.patience_ns = self.terms.patience_ns.min(INTERRUPTED_NS);
            }
            Phase::Waiting { deadline_ns } if !again => {
                *deadline_ns = (*deadline_ns).min(now_ns.saturating_add(INTERRUPTED_NS));
            }
            _ => self.fail(now_ns, Failure::Interrupted),
        }
    }

    /// What follows from the time, and from all that is known by now.
    pub(super) fn settle(&mut self, now_ns: u64) {
        match &mut self.phase {
            Phase::Asking { deadline_ns } if now_ns >= *deadline_ns => {
                let patience = std::time::Duration::from_nanos(self.terms.patience_ns);
                let why = format!(
                    "no answer within {patience:?}: netperf up to 2.5 speaks an older protocol"
                );
                self.fail(now_ns, Failure::Server(why));
            }
            Phase::Running { .. } | Phase::Ending { .. }
                if self.reports.len() == self.ids.len() =>
            {
                self.count();
            }
            Phase::Running { .. } | Phase::Ending { .. } if self.threads_over => {
                let failure = Failure::Here("a data thread ended without a word".into());
                self.trouble.get_or_insert(Trouble { doing: RUNNING, failure });
                self.count();
            }
            Phase::Running { over_ns, .. } if over_ns.is_some_and(|at| now_ns >= at) => {
                *over_ns = None;
                self.actions.push_back(Action::HostOver);
                // All marks of the end may be lost.
                if self.terms.plan.direction.has_reverse() {
                    let until = now_ns.saturating_add(PAD_NS);
                    self.actions.push_back(Action::DrainUntil(until));
                }
            }
            Phase::Running { deadline_ns, .. } if now_ns >= *deadline_ns => {
                self.fail(now_ns, Failure::Here("the test did not end in time".into()));
            }
            Phase::Ending { deadline_ns } if now_ns >= *deadline_ns => self.count(),
            Phase::Waiting { .. } if self.results.is_some() => self.conclude(),
            Phase::Waiting { deadline_ns } if now_ns >= *deadline_ns => {
                let failure = if self.interrupted {
                    Failure::Interrupted
                } else {
                    // A server of connections is ended by its clock, however early this end was over.
                    let broken = self.reports.values().find_map(|report| match report {
                        Report::Rr(rr) => rr.error.as_deref(),
                        _ => None,
                    });
                    let after = broken.map_or_else(String::new, |why| format!(", after {why}"));
                    Failure::Server(format!("its results did not come in time{after}"))
                };
                self.fail(now_ns, failure);
            }
            _ => {}
        }
    }

    pub(super) fn look(&mut self, now_ns: u64, seen: &Seen) {
        let Phase::Running { lookout, .. } = &mut self.phase else { return };
        // Who asks a server that is gone goes on asking.
        let moved = match self.terms.plan.traffic {
            Traffic::Rr(_) => seen.arrived,
            Traffic::Udp(_) | Traffic::Tcp(_) => seen.moved,
        };
        if let Some(failure) = lookout.look(now_ns, (&self.terms.plan, seen, moved)) {
            self.fail(now_ns, failure);
        }
    }

    /// All figures are there; of a server that sends they may be of less than was asked for.
    fn conclude(&mut self) {
        let shortfall = stream::shortfall(&self.terms.plan, self.reports.values());
        if let Some(failure) = shortfall.filter(|_| !self.interrupted) {
            self.trouble.get_or_insert(Trouble { doing: RUNNING, failure });
        }
        self.end(Ok(()));
    }

    pub(super) fn count(&mut self) {
        self.phase = Phase::Counting;
        self.actions.push_back(Action::FinishHost);
    }

    /// All that this end measured is there.
    pub(super) fn on_host(&mut self, now_ns: u64) {
        if !matches!(self.phase, Phase::Counting) {
            return;
        }
        if self.trouble.is_some() {
            return self.end(Ok(()));
        }
        if self.closed && self.results.is_none() {
            return self.fail(now_ns, Failure::Server("it closed the control connection".into()));
        }
        let deadline_ns = now_ns.saturating_add(self.terms.patience_ns);
        self.phase = Phase::Waiting { deadline_ns };
        self.settle(now_ns);
    }
}
