//! Runs a campaign: asks the controller for the next step, does it, keeps what came of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use linerate_experiment::campaign::control::{Attempt, Controller, MOST_REBOOTS, Pace, Step};
use linerate_experiment::campaign::plan::Plan;
use linerate_host::facts::facts;
use linerate_model::campaign::{Event as Kept, RunState, Slot, StoppedBy, StoredRun};
use linerate_model::plan::{Dialect, Traffic};
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_runner::client::Target;
use linerate_store::Campaign;

use super::hosts::{Fleet, Trouble, no_server};
use super::prepare::{Prepared, Test};
use super::work::{self, Ran};
use super::{Event, Hosts, place, store_error};
use crate::{Clock, Env};

/// After its reboot command, this machine has so long to go down.
const GO_DOWN: Duration = Duration::from_secs(300);

/// During a pause, whether to stop is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A server that did not answer a client elsewhere is tried again after so long.
const TRY_EVERY: Duration = Duration::from_secs(5);

/// A campaign under way.
pub struct Drive<'a> {
    plan: &'a Plan,
    prepared: &'a [Prepared],
    store: Campaign,
    controller: Controller,
    /// When the last run of a process before began: that which has no end, if there is one.
    began: Option<String>,
    fleet: Fleet<'a>,
    pace: Pace,
    /// Runs whose time has been learnt.
    learnt: u32,
    /// How often in a row a setting was lost while it was made, or did not hold before its run.
    unheld: u32,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every slot is settled.
    Done,
    /// The same, but some stayed empty.
    Short,
    /// It was asked to stop.
    Interrupted,
    /// This machine goes down for a reboot of the design.
    Rebooting,
}

impl<'a> Drive<'a> {
    /// Goes on where the store stands.
    ///
    /// # Errors
    /// When the store or a key cannot be read.
    pub fn new(
        plan: &'a Plan,
        prepared: &'a [Prepared],
        plan_path: &Path,
        store: Campaign,
        hosts: &'a mut dyn Hosts,
    ) -> Result<Self, ErrorRecord> {
        let reader = store.reader().map_err(store_error)?;
        let mut fleet = Fleet::new(plan, prepared, plan_path, hosts)?;
        let mut controller = super::controller(plan, &reader, fleet.watched())?;
        let began = super::replay(&mut controller, &reader)?;
        let ran = controller.ran();
        for setting in plan.settings.iter().filter(|s| ran.contains(s.name.as_str())) {
            fleet.ran(setting);
        }
        let pace = Pace::default();
        Ok(Self { plan, prepared, store, controller, began, fleet, pace, learnt: 0, unheld: 0 })
    }

    /// Whether there is nothing left to run.
    pub fn is_settled(&self) -> bool {
        self.controller.open().next().is_none()
    }

    /// Runs it to its end, or to where it must stop; then the hosts are put back.
    ///
    /// # Errors
    /// What it cannot go on after: a store or host that fails for good.
    pub fn run(mut self, env: &mut Env<'_>) -> Result<Ended, ErrorRecord> {
        let here = facts(None);
        let opened = Kept::Opened {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: here.hostname,
            boot_id: here.boot_id,
        };
        self.keep(env, &opened)?;
        env.watcher.campaign(&Event::Began { plan: self.plan, controller: &self.controller });
        let mut result = self.steps(env);
        let mut left = self.fleet.restore();
        for (host, left) in &left {
            env.watcher.campaign(&Event::Restored { host, left });
            // Putting back matters more than keeping that it was.
            let _ = self.keep(env, &Kept::Restored { host: host.clone(), left: left.clone() });
        }
        left.retain(|_, what| !what.is_empty());
        if !self.fleet.failed.is_empty() && matches!(result, Ok(Ended::Done | Ended::Short)) {
            result = Err(not_restored(&self.fleet.failed));
        }
        let stopped = |by, why| Kept::Stopped { by: Some(by), why };
        let event = match &result {
            Ok(Ended::Done | Ended::Short) => Kept::Done,
            Ok(Ended::Rebooting) => {
                stopped(StoppedBy::Reboot, "this machine reboots; `campaign resume` goes on".into())
            }
            Ok(Ended::Interrupted) => stopped(StoppedBy::User, "interrupted".into()),
            Err(error) => stopped(StoppedBy::Error, format!("{}: {}", error.what, error.why)),
        };
        if let Err(error) = self.keep(env, &event)
            && result.is_ok()
        {
            return Err(error);
        }
        env.watcher.campaign(&Event::Over {
            plan: self.plan,
            controller: &self.controller,
            store: self.store.path(),
            left: &left,
            complete: matches!(result, Ok(Ended::Done | Ended::Rebooting)),
        });
        if let Ok(ended @ Ended::Done) = &mut result
            && !self.controller.short().is_empty()
        {
            *ended = Ended::Short;
        }
        result
    }

    fn keep(&mut self, env: &mut Env<'_>, event: &Kept) -> Result<(), ErrorRecord> {
        self.store.keep(&env.clock.date(), event).map_err(store_error)?;
        self.controller.observe(event, None);
        env.watcher.campaign(&Event::Happened(event));
        Ok(())
    }

    fn steps(&mut self, env: &mut Env<'_>) -> Result<Ended, ErrorRecord> {
        // A host that does not answer now is awaited when its turn comes.
        self.fleet.connect_all(&env.stop)?;
        let limit = Duration::from_nanos(self.plan.repeat.wait.0);
        loop {
            if env.stop.seen() {
                return Ok(Ended::Interrupted);
            }
            for note in std::mem::take(&mut self.fleet.notes) {
                env.watcher.campaign(&Event::Note(&note));
            }
            match self.controller.next(&self.fleet.world()) {
                Step::Done => return Ok(Ended::Done),
                Step::MarkCut(attempt) => self.mark_cut(env, attempt)?,
                Step::Reboot { boot, host, old } => {
                    if let Some(ended) = self.reboot(env, boot, &host, old)? {
                        return Ok(ended);
                    }
                }
                Step::Stuck { boot, host } => return Err(stuck(boot, &host)),
                Step::Await { host, not } => {
                    let what = match &not {
                        Some(_) => format!("{host} to come back from its reboot"),
                        None => format!("{host} to answer"),
                    };
                    self.keep(env, &Kept::Waiting { what: what.clone() })?;
                    let took = self.fleet.wait(env, &host, not.as_deref(), limit)?;
                    match (took, not) {
                        (Some(seconds), None) => {
                            let why = "it did not answer".to_owned();
                            self.keep(env, &Kept::Gap { host, seconds, why })?;
                        }
                        (Some(seconds), Some(_)) => self.pace.boot_s = seconds.max(1.0),
                        (None, _) => {}
                    }
                }
                Step::Prove { boot, host, boot_id } => {
                    self.keep(env, &Kept::BootProved { boot, host, boot_id })?;
                }
                Step::Seen { boot, host, boot_id } => {
                    self.keep(env, &Kept::BootSeen { boot, host, boot_id })?;
                }
                Step::Set { setting } => self.set(env, &setting)?,
                Step::GiveUp { slot, why } => self.keep(env, &Kept::Short { slot, why })?,
                Step::Run(attempt) => {
                    if let Some(ended) = self.one_run(env, attempt, limit)? {
                        return Ok(ended);
                    }
                }
            }
        }
    }

    fn setting(&self, name: &str) -> usize {
        self.plan.settings.iter().position(|s| s.name == name).unwrap_or(0)
    }

    /// Makes the hosts what a setting wants. What is lost meanwhile is set anew, so often as a run is tried.
    fn set(&mut self, env: &mut Env<'_>, setting: &str) -> Result<(), ErrorRecord> {
        let at = self.setting(setting);
        match self.fleet.apply(self.plan, at, &self.prepared[at]) {
            Ok(()) | Err(Trouble::Gone(_)) => Ok(()),
            Err(trouble @ Trouble::Again(_)) if self.unheld < self.plan.repeat.retries => {
                self.unheld += 1;
                let note = format!("{setting}: {}; it is set anew", trouble.words());
                env.watcher.campaign(&Event::Note(&note));
                Ok(())
            }
            Err(Trouble::Again(error) | Trouble::Fatal(error)) => Err(error),
        }
    }

    /// Has a host reboot.
    fn reboot(
        &mut self,
        env: &mut Env<'_>,
        boot: u32,
        host: &str,
        old: String,
    ) -> Result<Option<Ended>, ErrorRecord> {
        // One that went down by itself is awaited first: that boot is none of the design.
        if !self.fleet.answers(host) {
            return Ok(None);
        }
        let here = self.fleet.is_here(host);
        self.keep(env, &Kept::BootBegan { boot, host: host.to_owned(), old })?;
        if here {
            for (host, left) in self.fleet.restore() {
                self.keep(env, &Kept::Restored { host, left })?;
            }
        }
        match self.fleet.reboot(host) {
            Ok(()) if here => self.go_down(env).map(Some),
            Ok(()) => Ok(None),
            Err(error) if error.kind == ErrorKind::Interrupted => Ok(Some(Ended::Interrupted)),
            Err(error) => Err(error),
        }
    }

    /// Waits until this process is ended by the reboot it asked for.
    fn go_down(&mut self, env: &mut Env<'_>) -> Result<Ended, ErrorRecord> {
        let note = "this machine reboots now; `linerate campaign resume` goes on";
        env.watcher.campaign(&Event::Note(note));
        // Its command ended well: from here on it counts as asked.
        self.keep(env, &Kept::Waiting { what: "this machine to go down".to_owned() })?;
        let begun = env.clock.elapsed();
        while env.clock.elapsed().saturating_sub(begun) < GO_DOWN {
            if env.stop.seen() {
                return Ok(Ended::Rebooting);
            }
            env.clock.sleep(LOOK_EVERY);
        }
        Err(ErrorRecord::new(
            ErrorKind::Reboot,
            "this machine did not go down",
            format!("its reboot command ended well {} s ago", GO_DOWN.as_secs()),
            &["check `reboot` of the host in the plan"],
        ))
    }

    fn blank(&self, clock: &dyn Clock, slot: &Slot, attempt: u32, state: RunState) -> StoredRun {
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
            started: clock.date(),
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

    fn mark_cut(&mut self, env: &mut Env<'_>, attempt: Attempt) -> Result<(), ErrorRecord> {
        let Attempt { slot, attempt, extra } = attempt;
        let Some(of) = self.controller.slots().get(slot as usize).cloned() else { return Ok(()) };
        let error = Some("its controller ended during this run".to_owned());
        let mut run = self.blank(env.clock, &of, attempt, RunState::Cut);
        // On which boot it ran is not known any more.
        (run.error, run.boot_id) = (error, None);
        run.started = self.began.take().unwrap_or(run.started);
        self.keep_run(env, run, extra)
    }

    fn keep_run(
        &mut self,
        env: &mut Env<'_>,
        run: StoredRun,
        extra: bool,
    ) -> Result<(), ErrorRecord> {
        let (slot, attempt, state) = (run.slot, run.attempt, run.state);
        let event = Kept::RunEnded { slot, attempt, extra, state };
        let id = self.store.keep_run(&env.clock.date(), &run, &event).map_err(store_error)?;
        self.controller.observe(&event, run.error.as_deref());
        // Only now, with its commit on the disk, is it reported.
        let run = StoredRun { id, ..run };
        env.watcher.campaign(&Event::Ran {
            run: &run,
            controller: &self.controller,
            left_s: self.left(),
        });
        Ok(())
    }

    /// Seconds that are left.
    fn left(&self) -> f64 {
        super::left(self.plan, self.prepared, &self.controller, self.pace)
    }

    fn one_run(
        &mut self,
        env: &mut Env<'_>,
        this: Attempt,
        limit: Duration,
    ) -> Result<Option<Ended>, ErrorRecord> {
        let extra = this.extra;
        let Some(of) = self.controller.slots().get(this.slot as usize).cloned() else {
            return Ok(Some(Ended::Done));
        };
        let at = self.setting(&of.setting);
        if !self.pause(env, Duration::from_nanos(self.plan.repeat.pause.0)) {
            return Ok(Some(Ended::Interrupted));
        }
        let wrong = match self.fleet.verify(self.plan, at) {
            Ok(wrong) => wrong,
            Err(Trouble::Gone(_)) => return Ok(None),
            Err(Trouble::Fatal(error)) => return Err(error),
            Err(again) => vec![again.words()],
        };
        if !wrong.is_empty() {
            return self.does_not_hold(env, &of, this, &wrong);
        }
        self.unheld = 0;
        let mut run = self.begin(env, &of, this)?;
        let mut unreached = false;
        match self.tries(env, at, limit, &mut run)? {
            Err(Trouble::Fatal(error)) => {
                run.error = Some(format!("{}: {}", error.what, error.why));
                run.state = RunState::Failed;
                self.keep_run(env, run, extra)?;
                return Err(error);
            }
            Err(Trouble::Gone(_)) if env.stop.seen() => {
                return self.interrupted(env, run, extra).map(Some);
            }
            Err(trouble) => run.error = Some(trouble.words()),
            Ok(ran) => {
                if ran.interrupted || env.stop.seen() && ran.error.is_some() {
                    return self.interrupted(env, run, extra).map(Some);
                }
                (run.value, run.record, run.error) = (ran.value, ran.record, ran.error);
                unreached = ran.unreached;
                match self.fleet.verify(self.plan, at) {
                    Ok(wrong) if wrong.is_empty() => {}
                    Ok(wrong) => run.error = Some(format!("after the run {}", wrong.join("; "))),
                    Err(trouble) => run.error = Some(trouble.words()),
                }
            }
        }
        if run.error.is_some() {
            run.state = RunState::Failed;
        } else {
            self.learn(run.seconds - self.prepared[at].seconds);
            self.fleet.ran(&self.plan.settings[at]);
        }
        let why = run.error.clone().filter(|_| unreached);
        self.keep_run(env, run, extra)?;
        if let Some(why) = why {
            self.await_server(env, at, why, limit)?;
        }
        Ok(None)
    }

    /// Keeps that a run begins; what is known of it by then.
    fn begin(
        &mut self,
        env: &mut Env<'_>,
        of: &Slot,
        Attempt { slot, attempt, extra }: Attempt,
    ) -> Result<StoredRun, ErrorRecord> {
        self.keep(env, &Kept::RunBegan { slot, attempt, extra })?;
        env.watcher.campaign(&Event::Running {
            slot: of,
            attempt,
            controller: &self.controller,
            length_s: self.prepared[self.setting(&of.setting)].seconds,
            left_s: self.left(),
        });
        let counts = if extra { RunState::Extra } else { RunState::Counted };
        let mut run = self.blank(env.clock, of, attempt, counts);
        run.settings = self.fleet.settings();
        run.doubts = self.fleet.doubts();
        Ok(run)
    }

    /// Runs it. Where only tests show whether a server that did not answer is back, it is tried again until `limit`, and
    /// that is no other attempt.
    fn tries(
        &mut self,
        env: &mut Env<'_>,
        at: usize,
        limit: Duration,
        run: &mut StoredRun,
    ) -> Result<Result<Ran, Trouble>, ErrorRecord> {
        let (plan, prepared) = (self.plan, self.prepared);
        let test = prepared[at].test.as_ref();
        let elsewhere = test.filter(|test| shows_in_tests_alone(plan, test));
        let server = elsewhere.and_then(|test| test.server).map(|host| &plan.hosts[host].name);
        let (begun, mut away) = (env.clock.elapsed(), None);
        loop {
            let since = env.clock.elapsed();
            run.started = env.clock.date();
            let ran = work::run(env, plan, at, &prepared[at], &mut self.fleet);
            run.seconds = env.clock.elapsed().saturating_sub(since).as_secs_f64();
            let waited = since.saturating_sub(begun);
            match (&ran, server) {
                (Ok(Ran { unreached: true, error: Some(why), .. }), Some(host))
                    if waited <= limit =>
                {
                    if away.is_none() {
                        self.keep(env, &Kept::Waiting { what: format!("{host} to answer") })?;
                        away = Some((host.clone(), why.clone()));
                    }
                }
                (Ok(Ran { unreached: false, .. }), _) => {
                    if let Some((host, why)) = away {
                        let seconds = waited.as_secs_f64();
                        self.keep(env, &Kept::Gap { host, seconds, why })?;
                    }
                    return Ok(ran);
                }
                _ => return Ok(ran),
            }
            if !self.pause(env, TRY_EVERY) {
                return Ok(ran);
            }
        }
    }

    /// Waits for the server of a test that nobody answered, where this host can look for it; otherwise it was tried for as
    /// long.
    fn await_server(
        &mut self,
        env: &mut Env<'_>,
        at: usize,
        why: String,
        limit: Duration,
    ) -> Result<(), ErrorRecord> {
        let (plan, prepared) = (self.plan, self.prepared);
        let Some(test @ Test { request, server: Some(host), .. }) = &prepared[at].test else {
            return Ok(());
        };
        let Target::Host { name, port } = &request.target else { return Ok(()) };
        if shows_in_tests_alone(plan, test) {
            return Err(no_server((name, *port), limit, why));
        }
        let host = plan.hosts[*host].name.clone();
        self.keep(env, &Kept::Waiting { what: format!("{host} to answer") })?;
        if let Some(seconds) = self.fleet.wait_for_server(env, (name, *port), limit)? {
            self.keep(env, &Kept::Gap { host, seconds, why })?;
        }
        Ok(())
    }

    /// Ends a run that was asked to stop.
    fn interrupted(
        &mut self,
        env: &mut Env<'_>,
        mut run: StoredRun,
        extra: bool,
    ) -> Result<Ended, ErrorRecord> {
        run.state = RunState::Cut;
        run.error = Some("interrupted".into());
        self.keep_run(env, run, extra)?;
        Ok(Ended::Interrupted)
    }

    /// A pause; `false` when it is to stop.
    fn pause(&self, env: &Env<'_>, whole: Duration) -> bool {
        let begun = env.clock.elapsed();
        loop {
            if env.stop.seen() {
                return false;
            }
            let left = (begun + whole).saturating_sub(env.clock.elapsed());
            if left.is_zero() {
                return true;
            }
            env.clock.sleep(left.min(LOOK_EVERY));
        }
    }

    /// What was set for a run is otherwise before it has begun: it is set anew, so often as a run
    /// is tried; then the run has failed, so that this has an end.
    fn does_not_hold(
        &mut self,
        env: &mut Env<'_>,
        of: &Slot,
        Attempt { slot, attempt, extra }: Attempt,
        wrong: &[String],
    ) -> Result<Option<Ended>, ErrorRecord> {
        let why = format!("before the run {}", wrong.join("; "));
        self.unheld = self.unheld.saturating_add(1);
        if self.unheld <= self.plan.repeat.retries {
            let note = format!("{}: {why}; it is set anew", place(of));
            env.watcher.campaign(&Event::Note(&note));
            return Ok(None);
        }
        self.unheld = 0;
        self.keep(env, &Kept::RunBegan { slot, attempt, extra })?;
        let mut run = self.blank(env.clock, of, attempt, RunState::Failed);
        run.settings = self.fleet.settings();
        run.error = Some(why);
        self.keep_run(env, run, extra)?;
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

/// Whether only tests show that their server is back: the client is elsewhere, or iperf 2 there takes no connections.
fn shows_in_tests_alone(plan: &Plan, test: &Test) -> bool {
    let is_udp = matches!(test.request.plan.traffic, Traffic::Udp(_));
    plan.hosts[test.client].address.is_some()
        || is_udp && test.request.dialect == Some(Dialect::Iperf2)
}

/// Hosts stay changed, though all else went well.
fn not_restored(left: &BTreeMap<String, Vec<String>>) -> ErrorRecord {
    let hosts: Vec<&str> = left.keys().map(String::as_str).collect();
    let why: Vec<String> =
        left.iter().map(|(host, what)| format!("{host}: {}", what.join("; "))).collect();
    let hints = ["settle by hand who sets what, then `linerate campaign restore`"];
    let what = format!("cannot put {} back", hosts.join(", "));
    ErrorRecord::new(ErrorKind::NotRestored, what, why.join("; "), &hints)
}

fn stuck(boot: u32, host: &str) -> ErrorRecord {
    ErrorRecord::new(
        ErrorKind::Reboot,
        format!("{host} does not reboot for boot {boot}"),
        format!("it was asked {MOST_REBOOTS} times, and its boot_id is the one from before"),
        &[
            "check `reboot` of the host in the plan",
            "reboot it by hand, then `linerate campaign resume`",
        ],
    )
}
