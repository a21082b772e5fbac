//! A made-up world: a path with a capacity, hosts that reboot, and a clock that stands still while
//! nobody waits. Everything that an experiment does in it is a step, and at one of them it can be
//! told to stop.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linerate_drive::campaign::Hosts;
use linerate_drive::{Clock, Env, Executor, Watcher, campaign, search, sweep};
use linerate_experiment::campaign::plan::Host;
use linerate_model::campaign::StoredRun;
use linerate_model::plan::{End, TestPlan, Traffic};
use linerate_model::record::{
    Doubt, DoubtKind, ErrorKind, ErrorRecord, Figures, PlanRecord, RunRecord, Status,
};
use linerate_model::setting::{
    ReadBack, Restoration, RestoreOutcome, RestoredKnob, SettingName, SettingValue,
};
use linerate_model::units::Rate;
use linerate_runner::agent::{
    CommandOutcome, DeviceChoice, HostAgent, Permissions, Reply, Request as Ask,
};
use linerate_runner::client::Request;
use linerate_runner::signals::Stop;

use linerate_session::observer::Observer;
use linerate_testkit::records;
use linerate_testkit::settings::applied;
use linerate_testkit::whole::chance::Chance;

/// What the path carries, bit/s.
const CAPACITY_BPS: u64 = 100_000_000;
/// In datagrams of so many bytes it carries twice as much.
const BEST_SIZE: u16 = 1_400;
/// What the sender can.
const SENDER_BPS: u64 = 400_000_000;

#[derive(Default)]
struct State {
    now: Duration,
    steps: u32,
    cut_at: Option<u32>,
    stop: Stop,
    tests: u32,
    /// What test of this number becomes instead.
    fails: Option<(u32, ErrorRecord)>,
    /// By host: how often it booted, what is set, and how often it does not answer yet.
    machines: BTreeMap<String, Machine>,
    log: Vec<String>,
    fate: Fate,
    /// Orders to set something or to run a command.
    orders: u32,
    /// How often the host `dut` had booted at each test.
    boots_at_tests: Vec<u32>,
    /// Where somebody looked whether anything listens.
    looked_at: Vec<(String, u16)>,
    /// How often something still goes wrong by chance.
    chance: Option<(Chance, u32)>,
    /// Runs of campaigns of which was said that they are kept.
    kept: Vec<StoredRun>,
}

/// What goes wrong with the hosts of a campaign.
#[derive(Default)]
pub struct Fate {
    /// Once so many tests are kept, this host boots by itself.
    pub crash: Option<(u32, &'static str)>,
    /// The order of this number loses its helper.
    pub helper_lost: Option<u32>,
    /// The test of this number has a doubt.
    pub doubt: Option<(u32, DoubtKind)>,
    /// So many tests after it have it too.
    pub doubt_stays: u32,
    /// What goes wrong at one number does so at all after it.
    pub for_ever: bool,
    /// What becomes of all that is to be put back.
    pub not_restored: Option<RestoreOutcome>,
    /// The order to put back ends the connection.
    pub restore_ends: bool,
    /// Without being put back, a host takes so many settings only.
    pub most_orders: Option<usize>,
    /// So many commands to reboot fail.
    pub reboots_fail: u32,
    /// A command to reboot ends well, and nothing comes of it.
    pub no_reboot: bool,
    /// What a command prints.
    pub prints: Option<String>,
}

impl State {
    fn boot(&mut self, host: &str) {
        let machine = self.machines.entry(host.to_owned()).or_default();
        *machine = Machine { boots: machine.boots + 1, away: 3, ..Machine::default() };
    }

    fn crash(&mut self) {
        let tests = self.tests;
        if let Some((_, host)) = self.fate.crash.take_if(|(at, _)| *at == tests) {
            self.boot(host);
        }
    }

    /// Which of so many faults happens now, once in `rare` times.
    fn fault(&mut self, rare: u64, of: u64) -> Option<u64> {
        let (chance, left) = self.chance.as_mut()?;
        if *left == 0 || !chance.one_in(rare) {
            return None;
        }
        *left -= 1;
        Some(chance.below(of))
    }

    /// By chance a test is refused, ends half-way, loses its control connection, or has a record that is damaged.
    fn spoiled(&mut self, mut record: RunRecord) -> RunRecord {
        let Some(fault) = self.fault(4, 9) else { return record };
        let (status, kind, exit) = match fault {
            0 => (Status::Failed, "refused", 3),
            1 => (Status::Failed, "timed_out", 3),
            2 => (Status::Failed, "udp_blocked", 3),
            3 => (Status::Failed, "server_lost", 1),
            // With what was measured until then.
            4 => (Status::Partial, "server_lost", 1),
            5 => (Status::Invalid, "accounting", 4),
            6 => {
                record.totals = Figures::default();
                return record;
            }
            7 => {
                record.totals.receiver.as_mut().expect("measured").bits_per_second = f64::NAN;
                return record;
            }
            _ => {
                record.doubts.push(Doubt::new(DoubtKind::LinkLost, "by chance"));
                return record;
            }
        };
        if status == Status::Failed {
            record.totals = Figures::default();
        }
        RunRecord { status, error: Some(error(kind, exit)), ..record }
    }

    /// Whether what is due at `number` is so at the one of now.
    fn is_due(&self, number: u32, now: u32) -> bool {
        now == number || self.fate.for_ever && now > number
    }
}

#[derive(Default)]
struct Machine {
    boots: u32,
    set: BTreeMap<SettingName, SettingValue>,
    /// Its interface on which that is set.
    device: Option<DeviceChoice>,
    away: u32,
    /// Settings since it was put back.
    orders: usize,
}

/// Clones are one world.
#[derive(Clone, Default)]
pub struct World(Arc<Mutex<State>>);

pub fn error(kind: &str, exit_code: u8) -> ErrorRecord {
    let why = format!("to see what {kind} does");
    let made_up = ErrorRecord::new(ErrorKind::from(kind.to_owned()), "made up", why, &[]);
    ErrorRecord { exit_code, ..made_up }
}

impl World {
    /// One in which the experiment is told to stop at a step.
    pub fn stopped_at(step: Option<u32>) -> Self {
        let world = Self::default();
        world.with(|state| state.cut_at = step);
        world
    }

    /// One in which a test, by its number from 1, becomes an error.
    pub fn failing(test: u32, error: ErrorRecord) -> Self {
        let world = Self::default();
        world.with(|state| state.fails = Some((test, error)));
        world
    }

    /// The same hosts under another process, which nobody stops.
    pub fn again(&self) -> Self {
        self.with(|state| (state.stop, state.cut_at) = (Stop::default(), None));
        self.clone()
    }

    /// The same world, in which this goes wrong from now on.
    pub fn fated(self, fate: Fate) -> Self {
        self.with(|state| state.fate = fate);
        self
    }

    /// The same world, in which so much goes wrong by chance from now on.
    pub fn by_chance(self, seed: u64, most: u32) -> Self {
        self.with(|state| state.chance = Some((Chance::new(seed), most)));
        self
    }

    /// The experiment is told to stop after so many more steps.
    pub fn stop_after(&self, steps: u32) {
        self.with(|state| state.cut_at = Some(state.steps + 1 + steps));
    }

    /// Runs of campaigns of which was said that they are kept.
    pub fn kept(&self) -> Vec<StoredRun> {
        self.with(|state| state.kept.clone())
    }

    /// A host boots, and nobody is told.
    pub fn boot(&self, host: &str) {
        self.with(|state| state.boot(host));
    }

    /// How often the host `dut` had booted at each test.
    pub fn boots_at_tests(&self) -> Vec<u32> {
        self.with(|state| state.boots_at_tests.clone())
    }

    /// Where somebody looked whether anything listens.
    pub fn looked_at(&self) -> Vec<(String, u16)> {
        self.with(|state| state.looked_at.clone())
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap())
    }

    fn step(&self) {
        self.with(|state| {
            state.steps += 1;
            if state.cut_at == Some(state.steps) {
                state.stop.now();
            }
        });
    }

    pub fn steps(&self) -> u32 {
        self.with(|state| state.steps)
    }

    pub fn tests(&self) -> u32 {
        self.with(|state| state.tests)
    }

    pub fn now(&self) -> Duration {
        self.with(|state| state.now)
    }

    pub fn events(&self) -> Vec<String> {
        self.with(|state| state.log.clone())
    }

    /// Whether nothing is left set anywhere.
    pub fn is_put_back(&self) -> bool {
        self.with(|state| state.machines.values().all(|machine| machine.set.is_empty()))
    }

    /// Runs something in it.
    pub fn run<T>(&self, work: impl FnOnce(&mut Env<'_>) -> T) -> T {
        let (mut executor, mut watcher) = (self.clone(), self.clone());
        let stop = self.with(|state| state.stop.clone());
        work(&mut Env { executor: &mut executor, clock: self, stop, watcher: &mut watcher })
    }

    fn test(&self, plan: &TestPlan) -> RunRecord {
        self.step();
        let mut record = self.with(|state| {
            state.tests += 1;
            let mut record = measured(plan, state.tests);
            state.now += Duration::from_secs_f64(record.asked.duration_s.unwrap_or(1.0) + 0.1);
            let boots = state.machines.get("dut").map_or(0, |machine| machine.boots);
            state.boots_at_tests.push(boots);
            if let Some((test, kind)) = &state.fate.doubt
                && (0..=state.fate.doubt_stays).any(|more| state.is_due(test + more, state.tests))
            {
                record.doubts.push(Doubt::new(kind.clone(), format!("made up: {kind}")));
            }
            match &state.fails {
                Some((test, error)) if state.is_due(*test, state.tests) => {
                    let status =
                        if error.exit_code == 4 { Status::Invalid } else { Status::Failed };
                    RunRecord { status, error: Some(error.clone()), ..record }
                }
                _ => state.spoiled(record),
            }
        });
        if self.with(|state| state.stop.seen()) {
            record.status = Status::Partial;
            record.error = Some(error("interrupted", 130));
        }
        record
    }
}

/// What the path makes of a test.
fn measured(plan: &TestPlan, number: u32) -> RunRecord {
    let End::Time(time) = plan.end else { panic!("{:?}", plan.end) };
    let (seconds, mut record) = (time.as_secs_f64(), records::empty(plan.traffic.name()));
    let (offered, size) = match &plan.traffic {
        Traffic::Udp(udp) => match udp.rate {
            Some(Rate::Bits(rate)) => (rate.bits_per_second().min(SENDER_BPS), udp.size.bytes()),
            _ => (SENDER_BPS, udp.size.bytes()),
        },
        _ => (CAPACITY_BPS, 1_000),
    };
    let datagrams = |bps: u64| (bps as f64 * seconds / f64::from(size * 8)) as u64;
    let capacity = if size == BEST_SIZE { 2 * CAPACITY_BPS } else { CAPACITY_BPS };
    let (sent, carried) = (datagrams(offered), datagrams(offered.min(capacity)));
    record.id = format!("{number:012}");
    record.asked = PlanRecord::of(plan, None);
    record.agreed = Some(record.asked.clone());
    record.totals.sender = Some(records::udp_sender(seconds, u64::from(size), sent, 0));
    record.totals.receiver = Some(records::udp_receiver(
        seconds,
        u64::from(size),
        sent.max(1),
        sent.max(1) - carried.max(1),
        0,
        0,
    ));
    record
}

impl Executor for World {
    fn run(&mut self, request: &Request, observer: &mut dyn Observer, _stop: &Stop) -> RunRecord {
        let record = self.test(&request.plan);
        observer.start(&record);
        observer.end(&record);
        record
    }
}

impl Clock for World {
    fn elapsed(&self) -> Duration {
        self.with(|state| state.now)
    }
    fn date(&self) -> String {
        format!("2026-01-02T03:04:05.{:09}Z", self.with(|state| state.now.subsec_nanos()))
    }
    fn sleep(&self, time: Duration) {
        self.step();
        self.with(|state| state.now += time);
    }
}

impl Observer for World {}

impl Watcher for World {
    fn sweep(&mut self, event: &sweep::Event<'_>) {
        self.step();
        let name = match event {
            sweep::Event::Started(_) => "started",
            sweep::Event::Trial(..) => "trial",
            sweep::Event::Ended(_) => "ended",
            sweep::Event::Unkept(_) => "unkept",
        };
        self.with(|state| state.log.push(name.into()));
    }
    fn search(&mut self, event: &search::Event<'_>) {
        self.step();
        let name = match event {
            search::Event::Note(_) => "note",
            search::Event::Started => "started",
            search::Event::Trial { .. } => "trial",
            search::Event::Ended { .. } => "ended",
        };
        self.with(|state| state.log.push(name.into()));
    }
    fn campaign(&mut self, event: &campaign::Event<'_>) {
        self.step();
        let name = match event {
            campaign::Event::Began { .. } => "began".to_owned(),
            campaign::Event::Happened(_) => return,
            campaign::Event::Running { .. } => "running".to_owned(),
            campaign::Event::Ran { run, .. } => {
                self.with(|state| {
                    state.crash();
                    state.kept.push((*run).clone());
                });
                "ran".to_owned()
            }
            campaign::Event::Restored { host, left } => format!("restored {host} {left:?}"),
            campaign::Event::Note(text) => format!("note {text}"),
            campaign::Event::Over { complete, left, .. } if left.is_empty() => {
                format!("over {complete}")
            }
            campaign::Event::Over { complete, left, .. } => format!("over {complete} {left:?}"),
        };
        self.with(|state| state.log.push(name));
    }
}

/// A host's agent.
struct Agent {
    world: World,
    name: String,
    boots: u32,
    /// Nothing comes through to it any more.
    lost: bool,
}

impl Agent {
    /// By chance its host boots, its helper is killed, or its connection is lost: then what it had set is put back.
    fn fails(&mut self, request: &Ask) -> Result<(), ErrorRecord> {
        // That a host does not boot when it is asked to is for its owner to mend.
        if matches!(request, Ask::Reboot { .. }) {
            return Ok(());
        }
        let helps = matches!(request, Ask::Apply { .. } | Ask::Command(_));
        let (name, lost) = (&self.name, &mut self.lost);
        self.world.with(|state| {
            match state.fault(40, 3) {
                None if !*lost => return Ok(()),
                None => {}
                Some(0) if name != "local" => state.boot(name),
                Some(1) if helps => {
                    state.machines.entry(name.clone()).or_default().set.clear();
                    return Err(error("helper_lost", 3));
                }
                Some(_) => {
                    state.machines.entry(name.clone()).or_default().set.clear();
                    *lost = true;
                }
            }
            Err(error("gone", 3))
        })
    }
}

impl Hosts for World {
    fn connect(
        &mut self,
        host: &Host,
        _key: Option<&[u8]>,
        _changed: bool,
        _stop: &Stop,
    ) -> Result<(Box<dyn HostAgent>, Restoration), ErrorRecord> {
        self.step();
        let boots = self.with(|state| {
            if let Some(fault) = state.fault(10, 3) {
                let kinds = ["refused", "timed_out", "not_linerate"];
                return Err(error(kinds[fault as usize], 3));
            }
            let machine = state.machines.entry(host.name.clone()).or_default();
            machine.away = machine.away.saturating_sub(1);
            if machine.away > 0 { Err(error("refused", 3)) } else { Ok(machine.boots) }
        })?;
        let agent = Agent { world: self.clone(), name: host.name.clone(), boots, lost: false };
        Ok((Box::new(agent), Restoration::default()))
    }

    fn listens(&mut self, name: &str, port: u16, _stop: &Stop) -> Result<(), ErrorRecord> {
        self.step();
        self.with(|state| {
            state.looked_at.push((name.to_owned(), port));
            state.fault(3, 1).map_or(Ok(()), |_| Err(error("refused", 3)))
        })
    }
}

impl HostAgent for Agent {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, request: Ask) -> Result<Reply, ErrorRecord> {
        self.world.step();
        self.fails(&request)?;
        if let Ask::Test(test) = &request {
            return Ok(Reply::Record(Box::new(self.world.test(&test.plan))));
        }
        let boots = self.boots;
        self.world.with(|state| {
            if state.machines.get(&self.name).expect("it was connected to").boots != boots {
                return Err(error("gone", 3));
            }
            if matches!(request, Ask::Apply { .. } | Ask::Command(_)) {
                state.orders += 1;
                if state.fate.helper_lost.is_some_and(|at| state.is_due(at, state.orders)) {
                    // What it had set is put back.
                    state.machines.entry(self.name.clone()).or_default().set.clear();
                    return Err(error("helper_lost", 3));
                }
            }
            let machine = state.machines.get_mut(&self.name).expect("it was connected to");
            Ok(match request {
                Ask::Facts => {
                    let mut host = records::empty("tcp").client;
                    host.boot_id = Some(format!("{}-{boots}", self.name));
                    let permissions = Permissions {
                        settings: true,
                        commands: true,
                        reboot: true,
                        profile: false,
                    };
                    Reply::Facts { host: Box::new(host), permissions }
                }
                Ask::Apply { device, settings } => {
                    machine.orders += settings.len();
                    if machine.set.is_empty() {
                        machine.device = device;
                    } else if machine.device != device {
                        state.log.push(format!("two interfaces of {} are set", self.name));
                    }
                    if state.fate.most_orders.is_some_and(|most| machine.orders > most) {
                        return Err(error("journal", 1));
                    }
                    Reply::Applied(
                        settings
                            .into_iter()
                            .map(|asked| {
                                machine.set.insert(asked.name.clone(), asked.value.clone());
                                applied(asked)
                            })
                            .collect(),
                    )
                }
                Ask::Read { names, .. } => {
                    let read = |name: SettingName| {
                        let value = machine.set.get(&name).cloned();
                        ReadBack { name, device: None, value, why: None }
                    };
                    Reply::Read(names.into_iter().map(read).collect())
                }
                Ask::Restore => {
                    if state.fate.restore_ends {
                        state.boot(&self.name);
                        return Err(error("gone", 3));
                    }
                    machine.set.clear();
                    machine.orders = 0;
                    let knobs = state.fate.not_restored.map(knob).into_iter().collect();
                    Reply::Restored(Restoration { knobs, ..Restoration::default() })
                }
                Ask::Reboot { .. } => {
                    state.log.push(format!("reboot {}", self.name));
                    if state.fate.reboots_fail > 0 {
                        state.fate.reboots_fail -= 1;
                        return Err(error("reboot", 1));
                    }
                    if !state.fate.no_reboot {
                        state.boot(&self.name);
                    }
                    Reply::Done
                }
                Ask::Command(command) => {
                    let fault = state.fault(4, 3);
                    let all = match fault {
                        Some(0) => "no figure\n",
                        _ => state.fate.prints.as_deref().unwrap_or("rate 12.5\n"),
                    };
                    let kept = all.len().min(command.keep_bytes as usize);
                    Reply::Command(CommandOutcome {
                        code: Some(i32::from(fault == Some(1))),
                        signal: None,
                        timed_out: fault == Some(2),
                        out: all[..kept].to_owned(),
                        err: String::new(),
                        truncated: kept < all.len(),
                        took_ms: 10,
                    })
                }
                _ => Reply::Done,
            })
        })
    }
}

fn knob(outcome: RestoreOutcome) -> RestoredKnob {
    RestoredKnob {
        what: "feature tso of eth0".into(),
        before: "on".into(),
        set: "off".into(),
        now: None,
        outcome,
        why: Some("made up".into()),
    }
}

/// A folder of its own, which goes when this is dropped.
pub struct Folder(pub std::path::PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        // Each commit of a store waits for its disk, and there are thousands: memory, where it is.
        let memory = std::path::Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = base.join(format!("linerate-drive-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str) -> std::path::PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
