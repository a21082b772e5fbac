//! Between the start and the server's wish for results: when the test ends, and when it is given up.

use linerate_model::plan::{End, Traffic};
use linerate_wire::iperf3::State;

use super::{COUNT_EVERY_NS, Client, Phase, SILENCE_EVERY_NS};
use crate::ending::Failure;
use crate::stream::Report;
use crate::{Action, Seen};

impl Client {
    pub(super) fn settle_running(&mut self, now_ns: u64, seen: &Seen) {
        let done = self.is_done(now_ns, seen);
        let receives = self.terms.plan.direction.has_reverse();
        let sends = self.terms.plan.direction.has_forward();
        let counts = self.wanted_bytes().is_some();
        let Phase::Running(running) = &mut self.phase else { return };
        if running.warm_ns.is_some_and(|at| now_ns >= at) {
            running.warm_ns = None;
            self.actions.push_back(Action::HostWarm);
        }
        running.over |= running.over_ns.is_some_and(|at| now_ns >= at);
        if running.end_ns.is_none() && done {
            self.actions.push_back(Action::HostOver);
            // What is on its way counts only before the end is said.
            let settle_ns = if sends { self.terms.settle_ns } else { 0 };
            running.end_ns = Some(now_ns.saturating_add(settle_ns));
        }
        if now_ns >= running.look_ns {
            let every = if counts { COUNT_EVERY_NS } else { SILENCE_EVERY_NS };
            running.look_ns = now_ns.saturating_add(every);
        }
        let silent_ns = seen.data_silence_ns.min(now_ns.saturating_sub(running.began_ns));
        let silent = silent_ns.min(seen.ran_ns) > self.terms.silence_ns;
        if receives && !running.end_said && silent {
            return self.fail_server(now_ns, "no data came for too long".into());
        }
        if running.end_ns.is_some_and(|at| now_ns >= at) && !running.end_said {
            running.end_said = true;
            // The server has nothing to do any more but to ask for the results.
            let limit = self.terms.patience_ns.saturating_add(self.terms.settle_ns);
            running.deadline_ns = now_ns.saturating_add(limit);
            self.ended_ns = Some(now_ns);
            self.actions.push_back(Action::Stop);
            self.say(now_ns, &[State::TestEnd.byte()]);
        } else if now_ns >= running.deadline_ns && running.end_ns.is_none() && sends {
            self.fail(now_ns, Failure::Here("its data threads did not end in time".into()));
        } else if now_ns >= running.deadline_ns {
            self.fail_server(now_ns, "the test did not end in time".into());
        } else if self.threads_over && self.reports.len() < self.ids.len() {
            self.fail(now_ns, Failure::Here("a data thread ended without a word".into()));
        }
    }

    /// Bytes after which a receiving client has enough.
    pub(super) fn wanted_bytes(&self) -> Option<u64> {
        let End::Datagrams(count) = self.terms.plan.end else { return None };
        let size = match &self.terms.plan.traffic {
            Traffic::Udp(udp) => u64::from(udp.size.bytes()),
            Traffic::Tcp(tcp) => u64::from(tcp.block),
            Traffic::Rr(_) => return None,
        };
        Some(count.saturating_mul(size))
    }

    pub(super) fn is_done(&self, now_ns: u64, seen: &Seen) -> bool {
        let Phase::Running(running) = &self.phase else { return false };
        let plan = &self.terms.plan;
        let senders = if plan.direction.has_forward() { usize::from(plan.streams) } else { 0 };
        let sent = self.reports.values().filter(|report| matches!(report, Report::Send(_)));
        let heard = !plan.direction.has_reverse()
            || self.wanted_bytes().is_some_and(|wanted| seen.received >= wanted)
            || running.over_ns.is_some_and(|over| now_ns >= over);
        sent.count() >= senders && heard
    }
}
