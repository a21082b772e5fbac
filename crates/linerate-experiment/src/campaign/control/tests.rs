//! The controller against made-up hosts that reboot, vanish and lose power.

use super::*;
use proptest::prelude::*;

/// Hosts and a store that keeps events, as the binary has them, under a made-up fate.
struct Lab {
    slots: Vec<Slot>,
    events: Vec<(Event, Option<String>)>,
    boot_number: u32,
    set: Option<String>,
    /// Runs that were acknowledged: slot and whether it counted.
    acknowledged: Vec<(u32, RunState)>,
    ran: u32,
}

const HOST: &str = "dut";

impl Lab {
    fn new(boots: u32, warmup: u32, runs: u32, settings: &[&str]) -> Self {
        let mut slots = Vec::new();
        let numbers = if boots == 0 { 0..=0 } else { 1..=boots };
        for boot in numbers {
            for (warm, count) in [(true, warmup), (false, runs)] {
                for number in 1..=count {
                    for setting in settings {
                        let index = slots.len() as u32;
                        slots.push(Slot {
                            index,
                            boot,
                            block: number,
                            setting: (*setting).into(),
                            warmup: warm,
                            number,
                        });
                    }
                }
            }
        }
        Self {
            slots,
            events: Vec::new(),
            boot_number: 0,
            set: None,
            acknowledged: Vec::new(),
            ran: 0,
        }
    }

    fn controller(&self) -> Controller {
        let mut c = Controller::new(self.slots.clone(), vec![HOST.into()], vec![HOST.into()], 2);
        for (event, why) in &self.events {
            c.observe(event, why.as_deref());
        }
        c
    }

    fn world(&self) -> HostStates {
        let id = format!("boot-{}", self.boot_number);
        HostStates { boots: BTreeMap::from([(HOST.to_owned(), id)]), set: self.set.clone() }
    }

    fn keep(&mut self, event: Event) {
        self.events.push((event, None));
    }

    /// One step of a fresh controller; false when done. `cut` dies in the middle of it.
    fn step(&mut self, cut: bool, fails: bool) -> bool {
        match self.controller().next(&self.world()) {
            Step::MarkCut(Attempt { slot, attempt, extra }) => {
                self.keep(Event::RunEnded { slot, attempt, extra, state: RunState::Cut });
            }
            Step::Reboot { boot, host, old } => {
                self.keep(Event::BootBegan { boot, host, old });
                if !cut {
                    self.boot_number += 1;
                    self.set = None;
                }
            }
            // Somebody sees to it by hand.
            Step::Stuck { .. } => {
                self.boot_number += 1;
                self.set = None;
            }
            Step::Await { .. } => unreachable!("this host always answers"),
            Step::Prove { boot, host, boot_id } => {
                if !cut {
                    self.keep(Event::BootProved { boot, host, boot_id });
                }
            }
            Step::Seen { boot, host, boot_id } => {
                if !cut {
                    self.keep(Event::BootSeen { boot, host, boot_id });
                }
            }
            Step::Set { setting } => self.set = Some(setting),
            Step::Run(Attempt { slot, attempt, extra }) => {
                self.keep(Event::RunBegan { slot, attempt, extra });
                if !cut {
                    self.ran += 1;
                    let state = match (fails, extra) {
                        (true, _) => RunState::Failed,
                        (false, true) => RunState::Extra,
                        (false, false) => RunState::Counted,
                    };
                    self.keep(Event::RunEnded { slot, attempt, extra, state });
                    self.acknowledged.push((slot, state));
                }
            }
            Step::GiveUp { slot, why } => self.keep(Event::Short { slot, why }),
            Step::Done => return false,
        }
        if cut {
            self.set = None;
        }
        true
    }

    fn counted(&self) -> Vec<u32> {
        let counted = self.acknowledged.iter().filter(|(_, s)| *s == RunState::Counted);
        counted.map(|(slot, _)| *slot).collect()
    }
}

#[test]
fn a_quiet_campaign_runs_its_design_in_order() {
    let mut lab = Lab::new(3, 1, 2, &["a", "b"]);
    while lab.step(false, false) {}
    assert_eq!(lab.counted(), (0..18).collect::<Vec<_>>());
    assert_eq!((lab.boot_number, lab.ran), (3, 18));
    let done = lab.controller();
    assert_eq!(done.boots_done(), (3, 3));
    assert_eq!((done.filled(), done.reboots_left(), done.short()), (18, 0, vec![]));
}

#[test]
fn a_boot_nobody_asked_for_warms_up_again_and_loses_nothing() {
    let mut lab = Lab::new(0, 1, 3, &["a", "b"]);
    for _ in 0..9 {
        lab.step(false, false);
    }
    let before = lab.counted();
    assert!(before.len() > 2, "past the warm-ups");
    lab.boot_number += 1;
    lab.set = None;
    while lab.step(false, false) {}
    assert_eq!(lab.counted(), (0..8).collect::<Vec<_>>());
    let extra = lab.acknowledged.iter().filter(|(_, s)| *s == RunState::Extra).count();
    assert_eq!(extra, 2, "each setting once");
}

#[test]
fn a_slot_that_never_succeeds_is_short_and_the_rest_is_full() {
    let mut lab = Lab::new(1, 0, 2, &["a", "b"]);
    while {
        let next = lab.controller().next(&lab.world());
        let fails = matches!(next, Step::Run(Attempt { slot: 1, .. }));
        lab.step(false, fails)
    } {}
    assert_eq!(lab.counted(), [0, 2, 3]);
    let short = lab.controller().short();
    assert_eq!(short.len(), 1);
    assert_eq!((short[0].setting.as_str(), short[0].boot), ("b", 1));
    assert_eq!((short[0].have, short[0].want), (1, 2));
    assert!(short[0].why.starts_with("3 attempts failed"), "{}", short[0].why);
}

#[test]
fn a_run_that_kills_its_host_is_given_up() {
    let mut lab = Lab::new(0, 0, 1, &["a"]);
    let mut steps = 0;
    loop {
        let kills = matches!(lab.controller().next(&lab.world()), Step::Run { .. });
        if !lab.step(kills, false) {
            break;
        }
        lab.boot_number += u32::from(kills);
        steps += 1;
        assert!(steps < 100);
    }
    assert_eq!(lab.controller().cut_and_failed().0, u64::from(MOST_CRASHES));
    assert!(lab.controller().short()[0].why.contains("went down 5 times"));
}

#[test]
fn a_host_that_is_away_is_waited_for() {
    let lab = Lab::new(1, 1, 1, &["a"]);
    let mut c = lab.controller();
    let away = HostStates::default();
    assert_eq!(c.next(&away), Step::Await { host: HOST.into(), not: None });
    let old = "boot-0".to_owned();
    c.observe(&Event::BootBegan { boot: 1, host: HOST.into(), old: old.clone() }, None);
    assert_eq!(c.next(&away), Step::Await { host: HOST.into(), not: Some(old.clone()) });
    // It never went down: asked again.
    assert_eq!(c.next(&lab.world()), Step::Reboot { boot: 1, host: HOST.into(), old });
}

#[test]
fn a_reboot_that_does_not_come_is_asked_for_three_times() {
    let lab = Lab::new(1, 1, 1, &["a"]);
    let mut c = lab.controller();
    let old = "boot-0".to_owned();
    for _ in 0..MOST_REBOOTS {
        let step = Step::Reboot { boot: 1, host: HOST.into(), old: old.clone() };
        assert_eq!(c.next(&lab.world()), step);
        c.observe(&Event::BootBegan { boot: 1, host: HOST.into(), old: old.clone() }, None);
    }
    // Whoever goes on with it asks no more.
    c.observe(&Event::Stopped { by: None, why: String::new() }, None);
    assert_eq!(c.next(&lab.world()), Step::Stuck { boot: 1, host: HOST.into() });
    // Somebody has rebooted it by hand.
    let by_hand = Lab { boot_number: 1, ..lab };
    let boot_id = "boot-1".to_owned();
    assert_eq!(c.next(&by_hand.world()), Step::Prove { boot: 1, host: HOST.into(), boot_id });
}

#[test]
fn a_reboot_that_could_not_be_asked_for_does_not_count() {
    let lab = Lab::new(1, 1, 1, &["a"]);
    let mut c = lab.controller();
    let old = "boot-0".to_owned();
    let stopped = |by| Event::Stopped { by: Some(by), why: String::new() };
    for by in [StoppedBy::Error, StoppedBy::User, StoppedBy::Error, StoppedBy::Error] {
        let step = Step::Reboot { boot: 1, host: HOST.into(), old: old.clone() };
        assert_eq!(c.next(&lab.world()), step);
        c.observe(&Event::BootBegan { boot: 1, host: HOST.into(), old: old.clone() }, None);
        c.observe(&Event::Restored { host: HOST.into(), left: vec![] }, None);
        c.observe(&stopped(by), None);
    }
    // It was accepted, and nothing came of it.
    for _ in 0..MOST_REBOOTS {
        c.observe(&Event::BootBegan { boot: 1, host: HOST.into(), old: old.clone() }, None);
        c.observe(&Event::Waiting { what: String::new() }, None);
        c.observe(&stopped(StoppedBy::Error), None);
    }
    assert_eq!(c.next(&lab.world()), Step::Stuck { boot: 1, host: HOST.into() });
}

#[test]
fn a_warm_up_beyond_the_design_that_kills_its_controller_is_given_up() {
    let mut lab = Lab::new(0, 1, 1, &["a"]);
    // The host is seen, the warm-up set and run, and then the host boots.
    for _ in 0..3 {
        lab.step(false, false);
    }
    (lab.boot_number, lab.set) = (1, None);
    // It is seen again, and set.
    lab.step(false, false);
    lab.step(false, false);
    let mut c = lab.controller();
    let run = Step::Run(Attempt { slot: 1, attempt: 1, extra: true });
    assert_eq!(c.next(&lab.world()), run);
    for attempt in 1..=MOST_CUTS {
        c.observe(&Event::RunBegan { slot: 1, attempt, extra: true }, None);
        let state = RunState::Cut;
        c.observe(&Event::RunEnded { slot: 1, attempt, extra: true, state }, None);
    }
    let why = format!("its controller ended {MOST_CUTS} times during it");
    assert_eq!(c.next(&lab.world()), Step::GiveUp { slot: 1, why });
}

#[test]
fn the_time_left() {
    let lab = Lab::new(2, 1, 2, &["a", "b"]);
    let c = lab.controller();
    let pace = Pace { overhead_s: 0.5, boot_s: 30.0 };
    assert_eq!(c.reboots_left(), 2);
    assert_eq!(pace.left(c.open(), c.reboots_left(), |_| 10.0), 12.0 * 10.5 + 60.0);
}

proptest! {
    /// Whatever dies, fails or loses power, however often: each slot is filled once or said to be
    /// short, nothing acknowledged is forgotten, and each cut costs one run at most.
    #[test]
    fn full_or_short_never_lost_never_doubled(
        boots in 0u32..3, warmup in 0u32..2, runs in 1u32..4,
        fate in proptest::collection::vec((0u8..10, 0u8..10), 0..200),
    ) {
        let mut lab = Lab::new(boots, warmup, runs, &["a", "b", "c"]);
        let mut fate = fate.into_iter();
        let mut cuts = 0;
        for step in 0.. {
            prop_assert!(step < 2_000, "it does not end");
            let (what, fails) = fate.next().unwrap_or((9, 9));
            if what == 1 {
                lab.boot_number += 1;
                lab.set = None;
            }
            cuts += u32::from(what == 0);
            if !lab.step(what == 0, fails == 0) {
                break;
            }
        }
        let counted = lab.counted();
        let mut unique = counted.clone();
        unique.sort_unstable();
        unique.dedup();
        prop_assert_eq!(unique.len(), counted.len(), "none doubled");
        let c = lab.controller();
        prop_assert_eq!(c.filled() as usize, counted.len(), "none lost");
        let given_up = lab.events.iter().filter(|(e, _)| matches!(e, Event::Short { .. })).count();
        prop_assert_eq!(counted.len() + given_up, lab.slots.len());
        prop_assert!(c.cut_and_failed().0 <= u64::from(cuts));
    }
}
