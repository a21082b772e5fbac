//! What is looked after while a test runs: the owner's limits, and whether somebody is there.

use std::time::Duration;

use linerate_model::served::Outcome;
use linerate_wire::iperf3::ErrorNumber;

use super::{LOOK_EVERY_NS, Phase, Server, Trouble, silence_limit_ns};
use crate::{Action, Over, Seen, TOO_LONG};

impl Server {
    /// Holds the test against the owner's limits, and sees to it that somebody is there.
    pub(super) fn watch(&mut self, now_ns: u64, seen: &Seen) {
        // That of time is looked at with the rest.
        if let Some(over) = seen.over.filter(|over| *over != Over::Time) {
            return self.trouble(now_ns, Trouble::new(ErrorNumber::END_CONDITIONS, over.words()));
        }
        let Phase::Running(running) = &mut self.phase else { return };
        if now_ns < running.look_ns {
            return;
        }
        running.look_ns = now_ns.saturating_add(LOOK_EVERY_NS);
        self.actions.push_back(Action::AskPeer);
        if let Err(trouble) = self.look(now_ns, seen) {
            self.trouble(now_ns, trouble);
        }
    }

    pub(super) fn look(&mut self, now_ns: u64, seen: &Seen) -> Result<(), Trouble> {
        let (direction, no_data_ns) = (self.plan().direction, self.terms.no_data_ns);
        let no_data = Duration::from_nanos(no_data_ns);
        let Phase::Running(running) = &mut self.phase else { return Ok(()) };
        if self.fault.is_some() && std::mem::replace(&mut running.fault_seen, true) {
            // The client had a moment to say by itself that it stops.
            return self.no_fault();
        }
        let lasted_ns = now_ns.saturating_sub(running.began_ns);
        if lasted_ns > running.most_ns || seen.over == Some(Over::Time) {
            return Err(Trouble::new(ErrorNumber::TOO_LONG, TOO_LONG));
        }
        if let Some(meter) = &mut running.meter
            && !meter.keeps(seen.arrived, now_ns)
        {
            let why = "the client sends faster than this server allows";
            return Err(Trouble::new(ErrorNumber::RATE, why));
        }
        if seen.peer_gone {
            let why = "the client's host is gone, or has not answered for too long";
            return Err(Trouble::quiet(Outcome::Vanished, why));
        }
        let receives = direction.has_forward();
        // Nobody was silent while this end did not run.
        let silence_ns = seen.data_silence_ns.min(lasted_ns).min(seen.ran_ns);
        if receives && silence_ns > no_data_ns {
            return Err(Trouble::new(ErrorNumber::NO_DATA, format!("no data for {no_data:?}")));
        }
        if running.idle.lasts(seen.moved, now_ns).min(seen.ran_ns) > no_data_ns {
            let why = format!("no data moved for {no_data:?}");
            return Err(Trouble::new(ErrorNumber::NO_DATA, why));
        }
        // Where the kernel does not say, its own limit holds.
        let answered_ns = seen.answer_silence_ns.unwrap_or(0).min(seen.ran_ns);
        let silent_ns = if receives { answered_ns.min(silence_ns) } else { answered_ns };
        let limit_ns = silence_limit_ns(direction);
        if silent_ns > limit_ns {
            let limit = Duration::from_nanos(limit_ns);
            let why = format!("the client's host has not answered for {limit:?}");
            return Err(Trouble::quiet(Outcome::Vanished, why));
        }
        Ok(())
    }
}
