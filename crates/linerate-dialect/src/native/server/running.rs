//! A test at the server while its data threads run.

use linerate_wire::native::message::ServerMessage;

use super::{LOOK_EVERY_NS, Phase, RESULTS_LIMIT_NS, SILENCE_LIMIT_NS, Server};
use crate::ending::Early;
use crate::stream::{self, MOST_DRAIN_NS, Report, Role};
use crate::{Action, Seen, TOO_LONG};

impl Server {
    pub(super) fn settle_running(&mut self, now_ns: u64, seen: &Seen) {
        let Phase::Running(running) = &mut self.phase else { return };
        if running.warm_ns.is_some_and(|at| now_ns >= at) {
            running.warm_ns = None;
            self.actions.push_back(Action::HostWarm);
        }
        if now_ns >= running.hard_end_ns && !self.stopped {
            self.stop(now_ns, TOO_LONG);
            // No data comes any more: either all had time to arrive, or the last is reported in time.
            let by_time = self.terms.agreed.plan.duration().is_some();
            let wait = if by_time { 0 } else { self.terms.drain_ns.min(MOST_DRAIN_NS) };
            self.actions.push_back(Action::DrainUntil(now_ns.saturating_add(wait)));
        }
        if let Phase::Running(running) = &mut self.phase
            && running.cut_ns.is_some_and(|at| now_ns >= at)
        {
            running.cut_ns = None;
            // Whatever the client still sends.
            self.actions.push_back(Action::DrainUntil(0));
        }
        self.look(now_ns, seen);
        if let Some(over) = seen.over.filter(|_| !self.stopped) {
            self.stop(now_ns, over.words());
        }
        self.after_senders(now_ns);
        self.after_reports(now_ns, seen);
    }

    /// Now and then: whether the client is there, and keeps to what the owner allows.
    fn look(&mut self, now_ns: u64, seen: &Seen) {
        let Phase::Running(running) = &mut self.phase else { return };
        if now_ns < running.look_ns {
            return;
        }
        running.look_ns = now_ns.saturating_add(LOOK_EVERY_NS);
        let silence = now_ns.saturating_sub(running.heard_ns).min(seen.ran_ns);
        let keeps = running.meter.as_mut().is_none_or(|m| m.keeps(seen.arrived, now_ns));
        let idle = running.idle.lasts(seen.moved, now_ns).min(seen.ran_ns);
        if silence.min(seen.data_silence_ns) > SILENCE_LIMIT_NS && running.trouble.is_none() {
            self.abandon(Early::vanished("the client fell silent"));
        }
        if !keeps {
            if !self.stopped {
                self.stop(now_ns, "the client sends faster than this server allows");
            }
            // Also when what it shall stop is waited for.
            self.actions.push_back(Action::DrainUntil(0));
        }
        if idle > self.terms.idle_ns && !self.stopped {
            let most = std::time::Duration::from_nanos(self.terms.idle_ns);
            self.stop(now_ns, &format!("no data moved for {most:?} (--max-idle)"));
        }
    }

    /// What follows when this end has sent all it will.
    fn after_senders(&mut self, now_ns: u64) {
        let senders = self.streams_of(Role::Send);
        let Phase::Running(running) = &mut self.phase else { return };
        let done = self.reports.values().filter(|r| matches!(r, Report::Send(_))).count();
        if done < senders {
            return;
        }
        let over = running.peer_sent || done == self.ids.len();
        if over && !std::mem::replace(&mut running.host_over, true) {
            self.actions.push_back(Action::HostOver);
        }
        if done > 0 && !std::mem::replace(&mut running.sent_said, true) {
            // With trouble it stays where it is.
            if running.trouble.is_none() {
                let sent = stream::sent_of(&self.reports);
                let _ = self.out.put(now_ns, &ServerMessage::Sent(sent));
            }
        }
    }

    fn after_reports(&mut self, now_ns: u64, seen: &Seen) {
        let Phase::Running(running) = &mut self.phase else { return };
        if self.reports.len() < self.ids.len() {
            return;
        }
        let trouble = running.trouble.take();
        let silent = || seen.peer_gone.then(|| Early::vanished("the client fell silent"));
        match trouble.or_else(silent) {
            Some(trouble) => self.end(Err(trouble)),
            None if self.gone => self.end(Ok(())),
            None => {
                let most = self.terms.drain_ns.saturating_add(RESULTS_LIMIT_NS);
                self.actions.extend([Action::Stop, Action::FinishHost]);
                self.phase = Phase::Counting { deadline_ns: now_ns.saturating_add(most) };
            }
        }
    }
}
