//! What is done after each time of a schedule: hosts are let go, changes are said, old results are deleted.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use linerate_fleet::coordinator::Event as Kept;
use linerate_fleet::lease::Epoch;
use linerate_fleet::matrix::Cell;
use linerate_model::fleet::{FORMAT, FleetNotice};

use super::super::results::Found;
use super::super::{NO_ANSWER, Webhook};
use super::{Begun, Event, Run, how};

/// To whom changes are reported beside those who get a webhook.
const SCREEN: &str = "screen";

impl Run<'_> {
    /// What earlier times have of results is kept: whoever holds some back for them need not go on.
    pub(in crate::fleet) fn recall(&mut self) {
        for (time, events) in std::mem::take(&mut self.before).iter().enumerate() {
            let (mut tries, mut open) = (BTreeMap::new(), BTreeMap::new());
            for event in events {
                match event {
                    Kept::Began { test, epoch, .. } => {
                        let attempt: &mut u32 = tries.entry(*test).or_default();
                        *attempt = attempt.saturating_add(1);
                        open.insert(*epoch, (*test, *attempt));
                    }
                    Kept::Ended { epoch, .. } => {
                        let ended = open.remove(epoch);
                        let turn = ended.map(|(test, attempt)| self.turn_of(time, test, attempt));
                        turn.iter().for_each(|turn| self.reach.kept(turn));
                    }
                }
            }
            self.left.extend(open.values().map(|(test, attempt)| (time, *test, *attempt)));
        }
    }

    /// Ends what was under way when linerate ended: with its result once that has come, and without one when nothing of it
    /// can be under way any more. Its moment is over.
    pub(in crate::fleet) fn close_left(&mut self) {
        let over = self.now_ns() >= self.free_from_ns;
        for (time, test, attempt) in std::mem::take(&mut self.left) {
            let client = self.asked.pairs.get(test).map(|pair| self.head.host(pair.from));
            let turn = self.turn_of(time, test, attempt);
            let came = self.reach.came(&turn, &client.unwrap_or_default());
            let (cell, record) = match came.map(|came| self.late(came)) {
                Some(late) => late,
                None if over => (Cell::Missing(NO_ANSWER.to_owned()), None),
                None => {
                    self.left.push((time, test, attempt));
                    continue;
                }
            };
            let (started, at_ns) = (self.opened_at(time, test), self.now_ns());
            let (round, before, gone) = (0, true, false);
            let begun = Begun { test, attempt, round, started, at_ns, before, gone };
            // Of no lease of this process.
            self.begun.insert(Epoch(0), begun);
            self.time = time;
            let how = how(&cell);
            self.results.set(time, test, cell);
            self.settle(Epoch(0), how, record.as_ref());
        }
    }

    /// A time is over: its hosts are let go, and what changed is said.
    pub(in crate::fleet) fn over(
        &mut self,
        deliver: Option<&mut Webhook<'_>>,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) {
        self.agents.iter_mut().for_each(|agent| *agent = None);
        if let Some((measured, begun, number)) = self.results.last() {
            on_event(&Event::Over { number, begun, measured, of: self.asked.pairs.len() });
        }
        self.say(deliver, on_event);
    }

    /// Reports each change that was not yet, once to each.
    pub(in crate::fleet) fn say(
        &mut self,
        deliver: Option<&mut Webhook<'_>>,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) {
        let unit = self.wanted.metric.unit;
        // What is still to come of an earlier time may tell a change sooner, which would be said again as another.
        let settled = self.left.iter().map(|(time, ..)| *time).min();
        let found = self.results.look_before(settled, &self.head).to_vec();
        for found in &found {
            let id = found.id(&self.head);
            if !self.knows(&id, SCREEN) {
                on_event(&Event::Changed { change: &found.change, unit });
                self.delivered(id, SCREEN);
            }
        }
        let Some(webhook) = deliver else { return };
        for found in &found {
            let notice = self.notice(found);
            if self.knows(&notice.id, webhook.to) {
                continue;
            }
            if let Err(why) = (webhook.post)(&notice) {
                on_event(&Event::Note(&format!(
                    "the webhook was not told of a change: {why}; it is told again after the next time"
                )));
                return;
            }
            self.delivered(notice.id, webhook.to);
        }
    }

    fn notice(&self, found: &Found) -> FleetNotice {
        FleetNotice {
            format: FORMAT,
            kind: "fleet_change".to_owned(),
            id: found.id(&self.head),
            fleet: self.head.id.clone(),
            metric: self.wanted.metric.name.to_owned(),
            unit: self.wanted.metric.unit.to_owned(),
            change: found.change.clone(),
        }
    }

    fn knows(&self, id: &str, to: &str) -> bool {
        self.delivered.contains(&(id.to_owned(), to.to_owned()))
    }

    fn delivered(&mut self, id: String, to: &str) {
        if let Some(store) = &mut self.store
            && let Err(error) = store.delivered(&self.clock.date(), &id, to)
        {
            self.failed.get_or_insert(error);
        }
        self.delivered.insert((id, to.to_owned()));
    }

    /// Says to whom holds results that nobody asks for those of the first `times` any more, but for what is left of them.
    pub(in crate::fleet) fn say_passed(&self, times: usize) {
        let left = self.left.iter().map(|(time, ..)| *time).min();
        let times = left.map_or(times, |left| left.min(times));
        let below = times.saturating_mul(self.asked.pairs.len());
        self.reach.passed(u64::try_from(below).unwrap_or(u64::MAX));
    }

    /// Deletes the first times that are old, by what [`Results::older`] is told of dates. Two at most, so that a clock that
    /// was set forth for a while takes little with it.
    ///
    /// [`Results::older`]: super::super::results::Results::older
    pub(in crate::fleet) fn delete_old(&mut self, age: impl Fn(&str) -> Ordering) {
        let count = self.results.older(age).min(2);
        if count == 0 {
            return;
        }
        self.results.delete(count, &self.head);
        if let Some(store) = &mut self.store
            && let Err(error) = store.delete(self.results.deleted())
        {
            self.failed.get_or_insert(error);
        }
    }
}
