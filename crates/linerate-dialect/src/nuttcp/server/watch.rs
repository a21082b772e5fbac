//! What is looked after while a test runs: its end by time, the owner's limits, and whether somebody is
//! there.

use std::time::Duration;

use linerate_model::served::Outcome;

use super::{LOOK_EVERY_NS, PAD_NS, Phase, Server};
use crate::ending::Early;
use crate::iperf3::server::silence_limit_ns;
use crate::{Action, Seen, TOO_LONG};

impl Server {
    pub(super) fn watch(&mut self, now_ns: u64, seen: &Seen) {
        if let Some(over) = seen.over {
            return self.trouble(now_ns, Early::new(Outcome::Cut, over.words()));
        }
        let Phase::Running(running) = &mut self.phase else { return };
        if running.end_ns.is_some_and(|at| now_ns >= at) {
            running.end_ns = None;
            self.actions.extend([Action::Stop, Action::DrainUntil(now_ns)]);
        }
        if now_ns < running.look_ns {
            return;
        }
        running.look_ns = now_ns.saturating_add(LOOK_EVERY_NS);
        self.actions.push_back(Action::AskPeer);
        if let Err(early) = self.look(now_ns, seen) {
            self.trouble(now_ns, early);
        }
    }

    fn look(&mut self, now_ns: u64, seen: &Seen) -> Result<(), Early> {
        let (asked, no_data_ns) = (&self.terms.asked, self.terms.no_data_ns);
        let longest_ns = self.terms.longest_ns.saturating_add(PAD_NS);
        let Phase::Running(running) = &mut self.phase else { return Ok(()) };
        let lasted_ns = now_ns.saturating_sub(running.began_ns);
        if lasted_ns > longest_ns {
            return Err(Early::new(Outcome::Cut, TOO_LONG));
        }
        if let Some(meter) = &mut running.meter
            && !meter.keeps(seen.arrived, now_ns)
        {
            let why = "the client sends faster than this server allows";
            return Err(Early::new(Outcome::Cut, why));
        }
        let silence_ns = seen.data_silence_ns.min(lasted_ns).min(seen.ran_ns);
        let answered_ns = seen.answer_silence_ns.unwrap_or(0).min(seen.ran_ns);
        if seen.peer_gone
            || answered_ns.min(silence_ns) > silence_limit_ns(self.terms.agreed.plan.direction)
        {
            let why = "the client's host is gone, or has not answered for too long";
            return Err(Early::vanished(why));
        }
        // Of a count of datagrams nobody knows how many will come: all words of the end may be lost.
        if asked.udp && asked.client_sends && asked.time_us.is_none() && silence_ns > PAD_NS {
            self.actions.extend([Action::Stop, Action::DrainUntil(now_ns)]);
        } else if running.idle.lasts(seen.moved, now_ns) > no_data_ns {
            let no_data = Duration::from_nanos(no_data_ns);
            let why = format!("no data moved for {no_data:?}");
            return Err(Early::new(Outcome::Cut, why));
        }
        Ok(())
    }
}
