//! What comes next in a campaign.
//!
//! [`Controller`] is fed every event of the store, old and new, and knows nothing else: a campaign
//! that goes on after a power cut stands where one stands that never stopped.

mod pace;

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::campaign::{Event, RunState, ShortCell, Slot, StoppedBy};
pub use pace::Pace;

/// A run after whose cut the host was found on another boot so often may well be what brings it
/// down: its slot stays empty.
pub const MOST_CRASHES: u32 = 5;
/// A run that was cut so often, the host being well, brings the controller down.
pub const MOST_CUTS: u32 = 50;
/// A host that was asked so often to reboot and is still on its boot does not.
pub const MOST_REBOOTS: u32 = 3;

/// What is known of the hosts right now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostStates {
    /// Boot id of each watched host that answers.
    pub boots: BTreeMap<String, String>,
    /// Setting whose values were applied to all hosts since they booted.
    pub set: Option<String>,
}

/// One run of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Index of the slot.
    pub slot: u32,
    /// From 1.
    pub attempt: u32,
    /// A warm-up beyond the design.
    pub extra: bool,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Keep [`Event::RunEnded`] with state cut: its controller died during this run.
    MarkCut(Attempt),
    /// Keep [`Event::BootBegan`], then have the host reboot.
    Reboot {
        /// Boot of the design.
        boot: u32,
        /// Host of the plan.
        host: String,
        /// Its boot id now.
        old: String,
    },
    /// The host was asked [`MOST_REBOOTS`] times, and is on the boot from before.
    Stuck {
        /// Boot of the design.
        boot: u32,
        /// Host of the plan.
        host: String,
    },
    /// Wait until the host answers, on another boot than `not` if that is given.
    Await {
        /// Host of the plan.
        host: String,
        /// The boot id it must have left behind.
        not: Option<String>,
    },
    /// Keep [`Event::BootProved`].
    Prove {
        /// Boot of the design.
        boot: u32,
        /// Host of the plan.
        host: String,
        /// Its new boot id.
        boot_id: String,
    },
    /// Keep [`Event::BootSeen`].
    Seen {
        /// Boot of the design.
        boot: u32,
        /// Host of the plan.
        host: String,
        /// Its boot id.
        boot_id: String,
    },
    /// Apply the values of a setting to all hosts and read them back.
    Set {
        /// Name of the setting.
        setting: String,
    },
    /// Keep [`Event::RunBegan`], run, keep the run and [`Event::RunEnded`] as one.
    Run(Attempt),
    /// Keep [`Event::Short`].
    GiveUp {
        /// Index of the slot.
        slot: u32,
        /// Why.
        why: String,
    },
    /// Every slot is settled.
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Open { failed: u32, cut: u32, crashed: u32, why: String },
    Filled,
    Short(String),
}

/// The state of a campaign.
#[derive(Debug, Clone)]
pub struct Controller {
    slots: Vec<Slot>,
    places: Vec<Place>,
    /// The first that may be open; all before it are settled.
    first: usize,
    /// Hosts that each boot of the design reboots, in this order.
    rebooted: Vec<String>,
    /// Hosts whose boot id is known all the time.
    watched: Vec<String>,
    retries: u32,
    warms_up: bool,
    /// Old boot id of each host that was to reboot, and how often it was asked.
    began: BTreeMap<(u32, String), (String, u32)>,
    /// The reboot that was asked for last, while nothing says that it was accepted.
    asking: Option<(u32, String)>,
    proved: BTreeSet<(u32, String)>,
    current: BTreeMap<String, String>,
    running: Option<Attempt>,
    /// The run that was cut last, while nothing has run since.
    just_cut: Option<u32>,
    /// Settings that have warmed up since the hosts booted.
    warm: BTreeSet<String>,
    /// Warm-ups of a setting that went wrong since the hosts booted.
    cold: BTreeMap<String, u32>,
    cuts: u64,
    failures: u64,
}

impl Controller {
    /// At the start. `watched` holds the hosts whose boot ids [`HostStates`] will say.
    pub fn new(
        slots: Vec<Slot>,
        rebooted: Vec<String>,
        watched: Vec<String>,
        retries: u32,
    ) -> Self {
        let places =
            vec![Place::Open { failed: 0, cut: 0, crashed: 0, why: String::new() }; slots.len()];
        let warms_up = slots.iter().any(|s| s.warmup);
        Self {
            slots,
            places,
            first: 0,
            rebooted,
            watched,
            retries,
            warms_up,
            began: BTreeMap::new(),
            asking: None,
            proved: BTreeSet::new(),
            current: BTreeMap::new(),
            running: None,
            just_cut: None,
            warm: BTreeSet::new(),
            cold: BTreeMap::new(),
            cuts: 0,
            failures: 0,
        }
    }

    /// Takes in an event. `why` is the error of a run that failed.
    pub fn observe(&mut self, event: &Event, why: Option<&str>) {
        match event {
            Event::BootBegan { boot, host, old } => {
                let (known, asked) = self.began.entry((*boot, host.clone())).or_default();
                old.clone_into(known);
                *asked += 1;
                self.asking = Some((*boot, host.clone()));
            }
            Event::Waiting { .. } | Event::Opened { .. } => self.asking = None,
            // The command failed or was stopped: that says nothing of whether the host reboots.
            Event::Stopped { by: Some(StoppedBy::Error | StoppedBy::User), .. } => {
                let asked = self.asking.take().and_then(|key| self.began.get_mut(&key));
                if let Some((_, asked)) = asked {
                    *asked = asked.saturating_sub(1);
                }
            }
            Event::BootProved { boot, host, boot_id } => {
                self.proved.insert((*boot, host.clone()));
                self.booted(host, boot_id);
            }
            Event::BootSeen { host, boot_id, .. } => {
                let other = self.current.get(host).is_some_and(|old| old != boot_id);
                let slot = if other { self.just_cut.take() } else { None };
                if let Some(Place::Open { crashed, .. }) =
                    slot.and_then(|slot| self.places.get_mut(slot as usize))
                {
                    *crashed += 1;
                }
                self.booted(host, boot_id);
            }
            &Event::RunBegan { slot, attempt, extra } => {
                self.running = Some(Attempt { slot, attempt, extra });
                self.just_cut = None;
            }
            Event::RunEnded { slot, extra, state, .. } => {
                self.running = None;
                self.just_cut = (*state == RunState::Cut).then_some(*slot);
                self.ended(*slot, *extra, *state, why.unwrap_or_default());
            }
            Event::Short { slot, why } => {
                if let Some(place) = self.places.get_mut(*slot as usize) {
                    *place = Place::Short(why.clone());
                }
            }
            Event::Gap { .. }
            | Event::Delivered { .. }
            | Event::Done
            | Event::Stopped { .. }
            | Event::Restored { .. } => {}
        }
        while self.places.get(self.first).is_some_and(|p| !matches!(p, Place::Open { .. })) {
            self.first += 1;
        }
    }

    fn booted(&mut self, host: &str, boot_id: &str) {
        self.current.insert(host.to_owned(), boot_id.to_owned());
        self.warm.clear();
        self.cold.clear();
    }

    fn ended(&mut self, slot: u32, extra: bool, state: RunState, error: &str) {
        self.cuts += u64::from(state == RunState::Cut);
        self.failures += u64::from(state == RunState::Failed);
        let Some((of, place)) =
            self.slots.get(slot as usize).zip(self.places.get_mut(slot as usize))
        else {
            return;
        };
        let warming = extra || of.warmup;
        match state {
            RunState::Counted | RunState::Extra if warming => {
                self.warm.insert(of.setting.clone());
            }
            RunState::Failed if warming => {
                *self.cold.entry(of.setting.clone()).or_default() += 1;
            }
            _ => {}
        }
        // What brings the controller down does so as a warm-up beyond the design as well.
        if extra && state != RunState::Cut {
            return;
        }
        match (state, place) {
            (RunState::Counted, place) => *place = Place::Filled,
            (RunState::Failed, Place::Open { failed, why, .. }) => {
                *failed += 1;
                error.clone_into(why);
            }
            (RunState::Cut, Place::Open { cut, .. }) => *cut += 1,
            _ => {}
        }
    }

    /// The next step.
    pub fn next(&self, world: &HostStates) -> Step {
        if let Some(attempt) = self.running {
            return Step::MarkCut(attempt);
        }
        let Some((slot, place)) = self.slots.get(self.first).zip(self.places.get(self.first))
        else {
            return Step::Done;
        };
        let Place::Open { failed, cut, crashed, why } = place else { return Step::Done };
        if *failed > self.retries {
            let why = format!("{failed} attempts failed, the last: {why}");
            return Step::GiveUp { slot: slot.index, why };
        }
        if *crashed >= MOST_CRASHES {
            let why = format!("the host went down {crashed} times during it");
            return Step::GiveUp { slot: slot.index, why };
        }
        if *cut >= MOST_CUTS {
            let why = format!("its controller ended {cut} times during it");
            return Step::GiveUp { slot: slot.index, why };
        }
        if let Some(step) = self.boots(slot, world) {
            return step;
        }
        let tries = self.cold.get(&slot.setting).copied().unwrap_or(0);
        let extra = self.warms_up
            && !slot.warmup
            && !self.warm.contains(&slot.setting)
            && tries <= self.retries;
        if world.set.as_deref() != Some(slot.setting.as_str()) {
            return Step::Set { setting: slot.setting.clone() };
        }
        let attempt = if extra { tries + 1 } else { failed + cut + 1 };
        Step::Run(Attempt { slot: slot.index, attempt, extra })
    }

    /// What must be done before the hosts are on the boot that `slot` wants.
    fn boots(&self, slot: &Slot, world: &HostStates) -> Option<Step> {
        if slot.boot > 0 {
            for host in &self.rebooted {
                let key = (slot.boot, host.clone());
                if self.proved.contains(&key) {
                    continue;
                }
                let (boot, host) = (slot.boot, host.clone());
                return Some(match (self.began.get(&key), world.boots.get(&host)) {
                    (began, None) => Step::Await { host, not: began.map(|(old, _)| old.clone()) },
                    (Some((old, _)), Some(now)) if old != now => {
                        Step::Prove { boot, host, boot_id: now.clone() }
                    }
                    (Some((_, asked)), _) if *asked >= MOST_REBOOTS => Step::Stuck { boot, host },
                    (_, Some(now)) => Step::Reboot { boot, host, old: now.clone() },
                });
            }
        }
        for host in &self.watched {
            match world.boots.get(host) {
                None => return Some(Step::Await { host: host.clone(), not: None }),
                Some(now) if self.current.get(host) != Some(now) => {
                    let (boot, boot_id) = (slot.boot, now.clone());
                    return Some(Step::Seen { boot, host: host.clone(), boot_id });
                }
                Some(_) => {}
            }
        }
        None
    }

    /// The design.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Slots that are not settled, in their order.
    pub fn open(&self) -> impl Iterator<Item = &Slot> {
        let open = |(slot, place): (_, &Place)| matches!(place, Place::Open { .. }).then_some(slot);
        self.slots.iter().zip(&self.places).skip(self.first).filter_map(open)
    }

    /// Slots that are filled.
    pub fn filled(&self) -> u64 {
        self.places.iter().filter(|p| **p == Place::Filled).count() as u64
    }

    /// Settings of which a slot is filled.
    pub fn ran(&self) -> BTreeSet<&str> {
        self.slots
            .iter()
            .zip(&self.places)
            .filter(|(_, place)| **place == Place::Filled)
            .map(|(slot, _)| slot.setting.as_str())
            .collect()
    }

    /// Runs that were cut, and runs that failed.
    pub fn cut_and_failed(&self) -> (u64, u64) {
        (self.cuts, self.failures)
    }

    /// Boots of which every slot is settled, and boots of the design.
    pub fn boots_done(&self) -> (u32, u32) {
        let all = self.slots.last().map_or(0, |s| s.boot);
        let done = match self.open().next() {
            Some(open) => open.boot.saturating_sub(1),
            None => all,
        };
        (done, all)
    }

    /// Boots of the design that are still to begin, counting one that has begun and is not proved.
    pub fn reboots_left(&self) -> u32 {
        let Some(open) = self.open().next().filter(|s| s.boot > 0) else { return 0 };
        let all = self.slots.last().map_or(0, |s| s.boot);
        let here = self.rebooted.iter().all(|h| self.proved.contains(&(open.boot, h.clone())));
        all + 1 - open.boot - u32::from(here)
    }

    /// Cells with fewer recorded runs than planned that will stay so.
    pub fn short(&self) -> Vec<ShortCell> {
        let mut cells: Vec<ShortCell> = Vec::new();
        for (slot, place) in self.slots.iter().zip(&self.places) {
            let Place::Short(why) = place else { continue };
            let same = |s: &&Slot| {
                s.setting == slot.setting && s.boot == slot.boot && s.warmup == slot.warmup
            };
            if slot.warmup || cells.iter().any(|c| c.setting == slot.setting && c.boot == slot.boot)
            {
                continue;
            }
            let all = self.slots.iter().zip(&self.places).filter(|(s, _)| same(s));
            let (mut have, mut want) = (0, 0);
            for (_, place) in all {
                want += 1;
                have += u32::from(*place == Place::Filled);
            }
            let (setting, boot, why) = (slot.setting.clone(), slot.boot, why.clone());
            cells.push(ShortCell { setting, boot, have, want, why });
        }
        cells
    }
}

#[cfg(test)]
mod tests;
