//! Runs a campaign: asks the controller for the next step, does it, keeps what came of it.

use std::path::Path;
use std::time::{Duration, Instant};

use linerate_experiment::campaign::control::{Controller, Pace, Step};
use linerate_experiment::campaign::plan::Plan;
use linerate_model::campaign::{Event, RunState, Slot, StoredRun};
use linerate_model::record::ErrorRecord;
use linerate_runner::signals::Interrupts;
use linerate_store::Campaign;

use super::hosts::{Fleet, Trouble, failure, folder};
use super::show::{Show, place};
use super::tests::Prepared;
use super::{now, store_error, work};
use crate::exit::Exit;

/// After its reboot command, this machine has so long to go down.
const GO_DOWN: Duration = Duration::from_secs(300);

/// During a pause, Ctrl-C is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A campaign under way.
pub struct Drive<'a> {
    plan: &'a Plan,
    prepared: &'a [Prepared],
    store: Campaign,
    controller: Controller,
    fleet: Fleet,
    show: Show,
    interrupts: Interrupts,
    pace: Pace,
    /// Runs whose time has been learnt.
    learnt: u32,
    /// How often in a row a setting did not hold before its run.
    unheld: u32,
}

/// How it ended.
pub enum Ended {
    /// Every slot is settled.
    Done,
    /// Ctrl-C, SIGTERM.
    Interrupted,
    /// This machine goes down for a reboot of the design.
    Rebooting,
}

impl<'a> Drive<'a> {
    /// Goes on where the store stands.
    pub fn new(
        plan: &'a Plan,
        prepared: &'a [Prepared],
        plan_path: &Path,
        store: Campaign,
        show: Show,
    ) -> Result<Self, ErrorRecord> {
        let reader = store.reader().map_err(store_error)?;
        let interrupts = Interrupts::watch()
            .map_err(|e| failure("unable", "cannot listen for Ctrl-C", e.to_string(), &[]))?;
        let fleet = Fleet::new(plan, prepared, &folder(plan_path), interrupts.clone())?;
        let rebooted = plan.rebooted().iter().map(|&h| plan.hosts[h].name.clone()).collect();
        let slots = reader.slots().map_err(store_error)?;
        let mut controller = Controller::new(slots, rebooted, fleet.watched(), plan.repeat.retries);
        super::replay(&mut controller, &reader)?;
        let pace = Pace::default();
        Ok(Self {
            plan,
            prepared,
            store,
            controller,
            fleet,
            show,
            interrupts,
            pace,
            learnt: 0,
            unheld: 0,
        })
    }

    /// Whether there is nothing left to run.
    pub fn is_settled(&self) -> bool {
        self.controller.open().next().is_none()
    }

    /// Runs it to its end, or to where it must stop; then the hosts are put back.
    pub fn run(mut self) -> Result<Exit, ErrorRecord> {
        let opened = Event::Opened {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: super::hostname(),
            boot_id: super::boot_id(),
        };
        self.keep(&opened)?;
        self.show.begin(self.plan, &self.controller);
        let ended = self.steps();
        let (event, result) = match ended {
            Ok(Ended::Done) => (Event::Done, Ok(Exit::Complete)),
            Ok(Ended::Rebooting) => {
                let why = "this machine reboots; `campaign resume` goes on".to_owned();
                (Event::Stopped { why }, Ok(Exit::Complete))
            }
            Ok(Ended::Interrupted) => {
                (Event::Stopped { why: "interrupted".into() }, Ok(Exit::Interrupted))
            }
            Err(error) => {
                let why = format!("{}: {}", error.what, error.why);
                (Event::Stopped { why }, Err(error))
            }
        };
        for (host, left) in self.fleet.restore() {
            self.show.restored(&host, &left);
            // Putting back matters more than keeping that it was.
            let _ = self.keep(&Event::Restored { host, left });
        }
        if let Err(error) = self.keep(&event)
            && result.is_ok()
        {
            return Err(error);
        }
        self.show.end(
            self.plan,
            &self.controller,
            self.store.path(),
            result.as_ref().ok().copied(),
        );
        match result {
            Ok(Exit::Complete) if event == Event::Done && !self.controller.short().is_empty() => {
                Ok(Exit::Failed)
            }
            result => result,
        }
    }

    fn keep(&mut self, event: &Event) -> Result<(), ErrorRecord> {
        self.store.keep(&now(), event).map_err(store_error)?;
        self.controller.observe(event, None);
        self.show.event(event);
        Ok(())
    }

    fn steps(&mut self) -> Result<Ended, ErrorRecord> {
        // A host that does not answer now is awaited when its turn comes.
        self.fleet.connect_all()?;
        let limit = Duration::from_nanos(self.plan.repeat.wait.0);
        loop {
            if self.interrupts.seen() {
                return Ok(Ended::Interrupted);
            }
            for note in std::mem::take(&mut self.fleet.notes) {
                self.show.note(&note);
            }
            match self.controller.next(&self.fleet.world()) {
                Step::Done => return Ok(Ended::Done),
                Step::MarkCut { slot, attempt, extra } => self.mark_cut(slot, attempt, extra)?,
                Step::Reboot { boot, host, old } => {
                    let here = self.fleet.is_here(&host);
                    self.keep(&Event::BootBegan { boot, host: host.clone(), old })?;
                    if here {
                        for (host, left) in self.fleet.restore() {
                            self.keep(&Event::Restored { host, left })?;
                        }
                    }
                    self.fleet.reboot(&host)?;
                    if here {
                        return self.go_down();
                    }
                }
                Step::Await { host, not } => {
                    let what = match &not {
                        Some(_) => format!("{host} to come back from its reboot"),
                        None => format!("{host} to answer"),
                    };
                    self.keep(&Event::Waiting { what: what.clone() })?;
                    let interrupts = self.interrupts.clone();
                    let took =
                        self.fleet.wait(&host, not.as_deref(), limit, &|| interrupts.seen())?;
                    match (took, not) {
                        (Some(seconds), None) => {
                            let why = "it did not answer".to_owned();
                            self.keep(&Event::Gap { host, seconds, why })?;
                        }
                        (Some(seconds), Some(_)) => self.pace.boot_s = seconds.max(1.0),
                        (None, _) => {}
                    }
                }
                Step::Prove { boot, host, boot_id } => {
                    self.keep(&Event::BootProved { boot, host, boot_id })?;
                }
                Step::Seen { boot, host, boot_id } => {
                    self.keep(&Event::BootSeen { boot, host, boot_id })?;
                }
                Step::Set { setting } => {
                    let at = self.setting(&setting);
                    match self.fleet.apply(self.plan, at, &self.prepared[at]) {
                        Ok(()) | Err(Trouble::Gone(_)) => {}
                        Err(Trouble::Fatal(error)) => return Err(error),
                    }
                }
                Step::GiveUp { slot, why } => self.keep(&Event::Short { slot, why })?,
                Step::Run { slot, attempt, extra } => {
                    if let Some(ended) = self.one_run(slot, attempt, extra, limit)? {
                        return Ok(ended);
                    }
                }
            }
        }
    }

    fn setting(&self, name: &str) -> usize {
        self.plan.settings.iter().position(|s| s.name == name).unwrap_or(0)
    }

    /// Waits until this process is ended by the reboot it asked for.
    fn go_down(&mut self) -> Result<Ended, ErrorRecord> {
        self.show.note("this machine reboots now; `linerate campaign resume` goes on");
        let begun = Instant::now();
        while begun.elapsed() < GO_DOWN {
            if self.interrupts.seen() {
                return Ok(Ended::Rebooting);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(failure(
            "reboot",
            "this machine did not go down",
            format!("its reboot command ended well {} s ago", GO_DOWN.as_secs()),
            &["check `reboot` of the host in the plan"],
        ))
    }

    fn blank(&self, slot: &Slot, attempt: u32, state: RunState) -> StoredRun {
        let prepared = &self.prepared[self.setting(&slot.setting)];
        StoredRun {
            id: 0,
            slot: slot.index,
            attempt,
            state,
            boot: slot.boot,
            boot_id: self.fleet.boots(),
            block: slot.block,
            setting: slot.setting.clone(),
            warmup: slot.warmup,
            number: slot.number,
            started: now(),
            seconds: 0.0,
            value: None,
            metric: prepared.metric.clone(),
            unit: prepared.unit.clone(),
            record: None,
            settings: Vec::new(),
            doubts: Vec::new(),
            error: None,
        }
    }

    fn mark_cut(&mut self, slot: u32, attempt: u32, extra: bool) -> Result<(), ErrorRecord> {
        let Some(of) = self.controller.slots().get(slot as usize).cloned() else { return Ok(()) };
        let error = Some("its controller ended during this run".to_owned());
        // On which boot it ran is not known any more.
        let run = StoredRun { error, boot_id: None, ..self.blank(&of, attempt, RunState::Cut) };
        self.keep_run(run, extra)
    }

    fn keep_run(&mut self, run: StoredRun, extra: bool) -> Result<(), ErrorRecord> {
        let (slot, attempt, state) = (run.slot, run.attempt, run.state);
        let event = Event::RunEnded { slot, attempt, extra, state };
        let id = self.store.keep_run(&now(), &run, &event).map_err(store_error)?;
        self.controller.observe(&event, run.error.as_deref());
        // Only now, with its commit on the disk, is it told.
        self.show.run(&StoredRun { id, ..run }, &self.controller, self.left());
        Ok(())
    }

    /// Seconds that are left.
    fn left(&self) -> f64 {
        super::left(self.plan, self.prepared, &self.controller, self.pace)
    }

    fn one_run(
        &mut self,
        slot: u32,
        attempt: u32,
        extra: bool,
        limit: Duration,
    ) -> Result<Option<Ended>, ErrorRecord> {
        let Some(of) = self.controller.slots().get(slot as usize).cloned() else {
            return Ok(Some(Ended::Done));
        };
        let at = self.setting(&of.setting);
        if !self.pause() {
            return Ok(Some(Ended::Interrupted));
        }
        let wrong = match self.fleet.verify(self.plan, at) {
            Ok(wrong) => wrong,
            Err(Trouble::Gone(_)) => return Ok(None),
            Err(Trouble::Fatal(error)) => return Err(error),
        };
        if !wrong.is_empty() {
            return self.does_not_hold(&of, (slot, attempt, extra), &wrong);
        }
        self.unheld = 0;
        self.keep(&Event::RunBegan { slot, attempt, extra })?;
        let times = (self.prepared[at].seconds, self.left());
        self.show.running(&of, attempt, &self.controller, times);
        let counts = if extra { RunState::Extra } else { RunState::Counted };
        let begun = Instant::now();
        let mut run = self.blank(&of, attempt, counts);
        run.settings = self.fleet.settings();
        run.doubts = self.fleet.doubts();
        let ran = work::run(self.plan, at, &self.prepared[at], &mut self.fleet);
        run.seconds = begun.elapsed().as_secs_f64();
        let mut unreached = false;
        match ran {
            Err(Trouble::Fatal(error)) => {
                run.error = Some(format!("{}: {}", error.what, error.why));
                run.state = RunState::Failed;
                self.keep_run(run, extra)?;
                return Err(error);
            }
            Err(Trouble::Gone(_)) if self.interrupts.seen() => {
                return self.interrupted(run, extra).map(Some);
            }
            Err(Trouble::Gone(why)) => run.error = Some(why),
            Ok(ran) => {
                if ran.interrupted || self.interrupts.seen() && ran.error.is_some() {
                    return self.interrupted(run, extra).map(Some);
                }
                (run.value, run.record, run.error) = (ran.value, ran.record, ran.error);
                unreached = ran.unreached;
                match self.fleet.verify(self.plan, at) {
                    Ok(wrong) if wrong.is_empty() => {}
                    Ok(wrong) => {
                        run.error = Some(format!("after the run {}", wrong.join("; ")));
                    }
                    Err(Trouble::Gone(why)) => run.error = Some(why),
                    Err(Trouble::Fatal(error)) => {
                        run.error = Some(format!("{}: {}", error.what, error.why));
                    }
                }
            }
        }
        if run.error.is_some() {
            run.state = RunState::Failed;
        } else {
            self.learn(run.seconds - self.prepared[at].seconds);
        }
        let why = run.error.clone();
        self.keep_run(run, extra)?;
        if let (true, Some(host), Some(why)) =
            (unreached, self.prepared[at].test.as_ref().and_then(|t| t.server), why)
        {
            let name = self.plan.hosts[host].name.clone();
            self.keep(&Event::Waiting { what: format!("{name} to answer") })?;
            let interrupts = self.interrupts.clone();
            let took = self.fleet.wait_for_server(host, limit, &|| interrupts.seen())?;
            if let Some(seconds) = took {
                self.keep(&Event::Gap { host: name, seconds, why })?;
            }
        }
        Ok(None)
    }

    /// Ends a run that Ctrl-C has cut.
    fn interrupted(&mut self, mut run: StoredRun, extra: bool) -> Result<Ended, ErrorRecord> {
        run.state = RunState::Cut;
        run.error = Some("interrupted".into());
        self.keep_run(run, extra)?;
        Ok(Ended::Interrupted)
    }

    /// The plan's pause before a run; `false` at Ctrl-C.
    fn pause(&self) -> bool {
        let (begun, whole) = (Instant::now(), Duration::from_nanos(self.plan.repeat.pause.0));
        loop {
            if self.interrupts.seen() {
                return false;
            }
            let left = whole.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// What was set for a run is otherwise before it has begun: it is set anew, so often as a run
    /// is tried; then the run has failed, so that this has an end.
    fn does_not_hold(
        &mut self,
        of: &Slot,
        (slot, attempt, extra): (u32, u32, bool),
        wrong: &[String],
    ) -> Result<Option<Ended>, ErrorRecord> {
        let why = format!("before the run {}", wrong.join("; "));
        self.unheld = self.unheld.saturating_add(1);
        if self.unheld <= self.plan.repeat.retries {
            self.show.note(&format!("{}: {why}; it is set anew", place(of)));
            return Ok(None);
        }
        self.unheld = 0;
        self.keep(&Event::RunBegan { slot, attempt, extra })?;
        let mut run = self.blank(of, attempt, RunState::Failed);
        run.settings = self.fleet.settings();
        run.error = Some(why);
        self.keep_run(run, extra)?;
        Ok(None)
    }

    /// The mean of what runs took beyond their own time.
    fn learn(&mut self, overhead_s: f64) {
        self.learnt += 1;
        let weight = 1.0 / f64::from(self.learnt);
        let before = if self.learnt == 1 { 0.0 } else { self.pace.overhead_s };
        self.pace.overhead_s = before + (overhead_s.max(0.0) - before) * weight;
    }
}
