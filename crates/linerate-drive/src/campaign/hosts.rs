//! The hosts of a campaign while it runs: connected, on which boot, and with what set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use linerate_experiment::campaign::control::HostStates;
use linerate_experiment::campaign::plan::{self, Plan};
use linerate_model::exit::Exit;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::{Applied, Outcome, Setting, SettingValue};
use linerate_runner::agent::{DeviceChoice, HostAgent, Permissions};
use linerate_runner::signals::Stop;

use super::Hosts;
use super::prepare::Prepared;
use crate::Env;

/// After so many orders to set something a host is put back, so that what it keeps to undo them does not grow for ever.
const MOST_ORDERS: usize = 50;

/// A host that is awaited is asked this often.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// One host.
struct Member {
    host: plan::Host,
    key: Option<Vec<u8>>,
    /// It is asked for its boot, sets things, or runs something.
    watched: bool,
    /// Something is set on it in some setting of the plan.
    changed: bool,
    /// It runs commands of the plan.
    commands: bool,
    /// It reboots.
    reboots: bool,
    /// A run with it has come to its end.
    proven: bool,
    /// What it lets a controller do.
    permissions: Permissions,
    agent: Option<Box<dyn HostAgent>>,
    boot_id: Option<String>,
    /// What is set now, with the values read back when it was set.
    set: Vec<(Setting, Option<SettingValue>)>,
    /// The interface of that.
    device: Option<DeviceChoice>,
    /// What of it the driver made another number of, in words.
    rounded: Vec<String>,
    /// Orders to set something since it was put back.
    orders: usize,
}

impl Member {
    /// Nothing is set on it any more.
    fn clear(&mut self) {
        self.set.clear();
        self.rounded.clear();
        self.orders = 0;
    }
}

/// All hosts of a plan.
pub struct Fleet<'a> {
    members: Vec<Member>,
    hosts: &'a mut dyn Hosts,
    /// For the user, until they are taken.
    pub notes: Vec<String>,
    /// Hosts on which something could not be put back when that was last tried, with what it is, in words.
    pub failed: BTreeMap<String, Vec<String>>,
    /// Setting whose values are set on all of them.
    set: Option<String>,
    /// Values that were rounded, each noted once.
    noted: BTreeSet<String>,
}

/// Why a setting or a check of it did not work.
pub enum Trouble {
    /// The host is gone: wait for it and go on.
    Gone(String),
    /// What was set there was put back: it can be set anew.
    Again(ErrorRecord),
    /// It will not work better later.
    Fatal(ErrorRecord),
}

impl Trouble {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Self::Gone(why) => why.clone(),
            Self::Again(error) | Self::Fatal(error) => format!("{}: {}", error.what, error.why),
        }
    }
}

impl<'a> Fleet<'a> {
    /// Reads the keys; connects to nobody yet. Paths of keys are relative to the plan.
    pub fn new(
        plan: &Plan,
        prepared: &[Prepared],
        path: &Path,
        hosts: &'a mut dyn Hosts,
    ) -> Result<Self, ErrorRecord> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut members = Vec::new();
        for (index, host) in plan.hosts.iter().enumerate() {
            let changed = prepared.iter().any(|p| p.changes.iter().any(|(h, _)| *h == index));
            let runs = prepared.iter().any(|p| p.test.as_ref().is_some_and(|t| t.client == index));
            let reboots = plan.repeat.boots > 0 && host.reboot.is_some();
            let here = |(s, p): (&plan::Setting, &Prepared)| p.test.is_none() && s.from == index;
            let commands = plan.settings.iter().zip(prepared).any(here);
            let file = host.key_file.as_ref();
            let key = file.map(|file| linerate_ask::key::read(&folder.join(file))).transpose()?;
            members.push(Member {
                host: host.clone(),
                key,
                watched: changed || commands || runs || reboots,
                changed,
                commands,
                reboots,
                proven: false,
                permissions: Permissions::default(),
                agent: None,
                boot_id: None,
                set: Vec::new(),
                device: None,
                rounded: Vec::new(),
                orders: 0,
            });
        }
        let (notes, failed) = (Vec::new(), BTreeMap::new());
        Ok(Self { members, hosts, notes, failed, set: None, noted: BTreeSet::new() })
    }

    /// Names of the hosts whose boots are known.
    pub fn watched(&self) -> Vec<String> {
        self.members.iter().filter(|m| m.watched).map(|m| m.host.name.clone()).collect()
    }

    /// What is known of the hosts now.
    pub fn world(&self) -> HostStates {
        let booted = |m: &Member| {
            let id = m.agent.as_ref().and(m.boot_id.clone())?;
            m.watched.then(|| (m.host.name.clone(), id))
        };
        HostStates {
            boots: self.members.iter().filter_map(booted).collect(),
            set: self.set.clone(),
        }
    }

    /// Boot ids of the watched hosts, as runs are marked with them.
    pub fn boots(&self) -> Option<String> {
        let ids: Vec<&str> = self
            .members
            .iter()
            .filter(|m| m.watched)
            .filter_map(|m| m.boot_id.as_deref())
            .collect();
        (!ids.is_empty()).then(|| ids.join("/"))
    }

    /// The key for tests towards a host.
    pub fn key(&self, host: usize) -> Option<Vec<u8>> {
        self.members.get(host).and_then(|m| m.key.clone())
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|m| m.host.name == name)
    }

    /// A run of this setting has come to its end.
    pub fn ran(&mut self, setting: &plan::Setting) {
        for host in [Some(setting.from), setting.to].into_iter().flatten() {
            self.members[host].proven = true;
        }
    }

    /// Whether a run with a host has come to its end.
    pub fn is_proven(&self, host: usize) -> bool {
        self.members[host].proven
    }

    /// Whether a host still answers, on the boot that is known. If not, its connection is dropped.
    pub fn answers(&mut self, name: &str) -> bool {
        self.index(name).is_none_or(|index| self.with(index, |agent| agent.ping()).is_ok())
    }

    /// Connects to every watched host that does not answer yet; one attempt each.
    ///
    /// # Errors
    /// What will not be better later: a wrong key, no permission.
    pub fn connect_all(&mut self, stop: &Stop) -> Result<(), ErrorRecord> {
        for index in 0..self.members.len() {
            if self.members[index].watched && self.members[index].agent.is_none() {
                let _ = self.connect(index, stop)?;
            }
        }
        Ok(())
    }

    /// One attempt; why it failed, if another may not.
    fn connect(&mut self, index: usize, stop: &Stop) -> Result<Option<String>, ErrorRecord> {
        let member = &mut self.members[index];
        let made = self.hosts.connect(&member.host, member.key.as_deref(), member.changed, stop);
        let tried =
            made.and_then(|(mut agent, left)| agent.facts().map(|facts| (agent, left, facts)));
        match tried {
            Ok((agent, earlier, (facts, permissions))) => {
                let name = &member.host.name;
                if facts.boot_id.is_none() {
                    return Err(ErrorRecord::new(
                        ErrorKind::BootId,
                        format!("cannot distinguish the boots of {name}"),
                        "it has no /proc/sys/kernel/random/boot_id",
                        &[],
                    ));
                }
                for (wanted, given, what, option) in [
                    (member.changed, permissions.settings, "settings", "--allow-settings"),
                    (member.commands, permissions.commands, "commands", "--allow-commands"),
                    (member.reboots, permissions.reboot, "reboot", "--allow-reboot"),
                ] {
                    if wanted && !given {
                        return Err(ErrorRecord::new(
                            ErrorKind::Permission,
                            format!("{name} does not let a campaign do what the plan says"),
                            format!("its `linerate serve` permits no {what}"),
                            &[
                                &format!("start it with {option}"),
                                "a key of its own must have the right `settings` as well",
                            ],
                        ));
                    }
                }
                for knob in &earlier.knobs {
                    self.notes.push(format!("{name}: put back from before: {}", knob.what));
                }
                member.boot_id = facts.boot_id;
                member.permissions = permissions;
                member.agent = Some(agent);
                member.clear();
                self.set = None;
                Ok(None)
            }
            Err(error) if is_final(&error, member.proven) => Err(error),
            Err(error) => Ok(Some(format!("{}: {}", error.what, error.why))),
        }
    }

    /// Waits until a watched host answers, on another boot than `not` if that is given. Returns
    /// the seconds it took; `None` if it was stopped.
    pub fn wait(
        &mut self,
        env: &Env<'_>,
        name: &str,
        not: Option<&str>,
        limit: Duration,
    ) -> Result<Option<f64>, ErrorRecord> {
        let Some(index) = self.index(name) else { return Ok(Some(0.0)) };
        let attempt = || {
            let tried = match self.connect(index, &env.stop) {
                // A host on its way down or up takes connections and ends them without a word, or
                // answers when its /proc is unmounted already.
                Err(error) if matches!(error.kind, ErrorKind::NotLinerate | ErrorKind::BootId) => {
                    Some(format!("{}: {}", error.what, error.why))
                }
                tried => tried?,
            };
            let member = &mut self.members[index];
            if tried.is_none() && not.is_some() && member.boot_id.as_deref() == not {
                // It has not gone down yet.
                member.agent = None;
                return Ok(Some("it answers, but is still on the boot from before".to_owned()));
            }
            Ok(tried)
        };
        let took = until(env, limit, attempt)?;
        took.map_err(|why| {
            let back = if not.is_some() { "back with another boot_id" } else { "back" };
            let what = format!("{name} did not come {back} within {:.0} s", limit.as_secs_f64());
            let hints = [
                "`linerate campaign resume` goes on when it is there",
                "[repeat] wait = \"30m\" waits longer",
            ];
            ErrorRecord::new(ErrorKind::HostGone, what, why, &hints)
        })
    }

    /// Waits until something listens where a test goes to. Returns the seconds it took, or nothing
    /// if it was stopped.
    pub fn wait_for_server(
        &mut self,
        env: &Env<'_>,
        (name, port): (&str, u16),
        limit: Duration,
    ) -> Result<Option<f64>, ErrorRecord> {
        let why = |error: ErrorRecord| format!("{}: {}", error.what, error.why);
        let listens = || Ok(self.hosts.listens(name, port, &env.stop).err().map(why));
        let took = until(env, limit, listens)?;
        took.map_err(|why| no_server((name, port), limit, why))
    }

    /// Uses a host's connection. An error after which the host does not answer any more drops it.
    pub fn with<T>(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut dyn HostAgent) -> Result<T, ErrorRecord>,
    ) -> Result<T, Trouble> {
        let member = &mut self.members[index];
        let Some(agent) = member.agent.as_mut() else {
            return Err(Trouble::Gone(format!("{} is gone", member.host.name)));
        };
        let error = match work(agent.as_mut()) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        // Whoever kept the settings there has put them back; this lets the host know that none are held any more.
        if error.kind == ErrorKind::HelperLost && agent.restore().is_ok_and(|back| back.complete())
        {
            member.clear();
            self.set = None;
            return Err(Trouble::Again(error));
        }
        if agent.ping().is_ok() {
            return Err(Trouble::Fatal(error));
        }
        member.agent = None;
        self.set = None;
        Err(Trouble::Gone(format!("{}: {}", error.what, error.why)))
    }

    /// Makes every host what a setting wants: what other settings changed is put back, its own
    /// values are set and read back.
    pub fn apply(&mut self, plan: &Plan, at: usize, prepared: &Prepared) -> Result<(), Trouble> {
        self.set = None;
        for index in 0..self.members.len() {
            if !self.members[index].changed {
                continue;
            }
            let none = Vec::new();
            let wanted =
                prepared.changes.iter().find(|(h, _)| *h == index).map_or(&none, |(_, s)| s);
            let chosen = device(plan, at, index);
            let Member { set, orders, device, .. } = &self.members[index];
            // What was set on one interface does not go when the same is set on another.
            let same = device.as_ref() == Some(&chosen);
            let stays = |(old, _): &(Setting, _)| {
                let again = wanted.iter().any(|new| new.name == old.name);
                again && (same || !old.name.of_device())
            };
            let is_full = *orders > 0 && orders.saturating_add(wanted.len()) > MOST_ORDERS;
            let stays = set.iter().all(stays);
            if is_full || !stays {
                let back = self.with(index, |agent| agent.restore())?;
                if back.failed() || !stays && !back.complete() {
                    return Err(Trouble::Fatal(ErrorRecord::new(
                        ErrorKind::NotRestored,
                        format!("cannot put {} back", self.members[index].host.name),
                        back.left().join("; "),
                        &["settle by hand who sets what, then `linerate campaign resume`"],
                    )));
                }
                self.members[index].clear();
            }
            if wanted.is_empty() {
                continue;
            }
            self.members[index].orders += wanted.len();
            let applied = self.with(index, |agent| agent.apply(Some(&chosen), wanted))?;
            if let Some(bad) = applied.iter().find(|a| !a.holds() && !is_rounded(a)) {
                let setting = &plan.settings[at].name;
                return Err(Trouble::Fatal(ErrorRecord::new(
                    ErrorKind::Setting,
                    format!(
                        "cannot set {} on {} for {setting}",
                        bad.asked, self.members[index].host.name
                    ),
                    bad.why.clone().unwrap_or_else(|| "the host did not take it".into()),
                    &["take the setting out of the plan, or give the host a driver that can"],
                )));
            }
            let name = &self.members[index].host.name;
            let rounded: Vec<String> = applied
                .iter()
                .filter(|a| is_rounded(a))
                .map(|a| {
                    let got = a.after.as_ref().map(ToString::to_string).unwrap_or_default();
                    let Setting { name: setting, value } = &a.asked;
                    format!("{name}: {setting} was asked to be {value}, the driver made it {got}")
                })
                .collect();
            for what in &rounded {
                if self.noted.insert(what.clone()) {
                    self.notes.push(format!("{}: {what}", plan.settings[at].name));
                }
            }
            self.members[index].rounded = rounded;
            self.members[index].device = Some(chosen);
            self.members[index].set = applied.into_iter().map(|a| (a.asked, a.after)).collect();
        }
        self.set = Some(plan.settings[at].name.clone());
        Ok(())
    }

    /// Asks every watched host whether it is there, on the boot that is known, and reads back what is set. What is
    /// other than it was when it was set, in words.
    pub fn verify(&mut self, plan: &Plan, at: usize) -> Result<Vec<String>, Trouble> {
        let mut wrong = Vec::new();
        for index in 0..self.members.len() {
            if !self.members[index].watched {
                continue;
            }
            if self.members[index].set.is_empty() {
                self.with(index, |agent| agent.ping())?;
                continue;
            }
            let set = self.members[index].set.clone();
            let names: Vec<_> = set.iter().map(|(s, _)| s.name.clone()).collect();
            let device = device(plan, at, index);
            let read = self.with(index, |agent| agent.read(Some(&device), &names))?;
            for ((setting, was), now) in set.iter().zip(read) {
                if now.value != *was {
                    let name = &self.members[index].host.name;
                    let now = now.value.map_or("unreadable".to_owned(), |now| now.to_string());
                    wrong.push(format!("{} on {name} was {now} instead", setting));
                }
            }
        }
        if !wrong.is_empty() {
            // Set anew before the next run.
            self.set = None;
        }
        Ok(wrong)
    }

    /// What is set now, in words.
    pub fn settings(&self) -> Vec<String> {
        let line = |host: &str, asked: &Setting, after: &Option<SettingValue>| {
            let now = after.as_ref().unwrap_or(&asked.value);
            let rounded = *now != asked.value && matches!(asked.value, SettingValue::Number(_));
            let so = if rounded { format!(" (asked: {})", asked.value) } else { String::new() };
            format!("{host}: {} = {now}{so}", asked.name)
        };
        let lines =
            |m: &Member| m.set.iter().map(|(s, after)| line(&m.host.name, s, after)).collect();
        self.members.iter().flat_map::<Vec<_>, _>(lines).collect()
    }

    /// Why a run under these settings may not mean what the plan says.
    pub fn doubts(&self) -> Vec<String> {
        self.members.iter().flat_map(|m| m.rounded.iter().cloned()).collect()
    }

    /// Asks a host to reboot. Its connection is gone afterwards.
    pub fn reboot(&mut self, name: &str) -> Result<(), ErrorRecord> {
        let Some(index) = self.index(name) else { return Ok(()) };
        let words = self.members[index].host.reboot.as_deref().map(plan::split);
        let words = words.and_then(Result::ok);
        // A server that runs no commands of others has its own for this.
        let words = words.filter(|_| self.members[index].permissions.commands);
        let done = self.with(index, |agent| agent.reboot(words.as_deref()));
        self.members[index].agent = None;
        self.set = None;
        match done {
            // A host that goes down at once does not answer any more.
            Ok(()) | Err(Trouble::Gone(_)) => Ok(()),
            Err(Trouble::Again(error) | Trouble::Fatal(error)) => Err(error),
        }
    }

    /// Whether the host is this machine.
    pub fn is_here(&self, name: &str) -> bool {
        self.index(name).is_some_and(|i| self.members[i].host.address.is_none())
    }

    /// Puts every host back. What is not as before, in words, by host; of which [`Fleet::failed`] is what failed.
    pub fn restore(&mut self) -> BTreeMap<String, Vec<String>> {
        let mut all = BTreeMap::new();
        self.failed.clear();
        for index in 0..self.members.len() {
            if !self.members[index].changed || self.members[index].agent.is_none() {
                continue;
            }
            let name = self.members[index].host.name.clone();
            let (words, failed) = match self.with(index, |agent| agent.restore()) {
                Ok(back) => (back.left(), back.failed()),
                Err(Trouble::Again(_)) => (Vec::new(), false),
                Err(Trouble::Gone(why)) => (vec![format!("{why}: it puts itself back")], false),
                Err(trouble) => (vec![trouble.words()], true),
            };
            if failed {
                self.failed.insert(name.clone(), words.clone());
            }
            self.members[index].clear();
            all.insert(name, words);
        }
        self.set = None;
        all
    }

    /// Hosts on which something was to be set, and that do not answer.
    pub fn unreached(&self) -> Vec<String> {
        let gone = |m: &&Member| m.changed && m.agent.is_none();
        self.members.iter().filter(gone).map(|m| m.host.name.clone()).collect()
    }
}

/// Whether the driver made another number of what was asked for, which is no refusal.
fn is_rounded(applied: &Applied) -> bool {
    let number = |value: &SettingValue| matches!(value, SettingValue::Number(_));
    applied.outcome == Outcome::Rounded
        && number(&applied.asked.value)
        && applied.after.as_ref().is_some_and(number)
}

/// Whether trying again is of no use. A host with which a run has come to its end is `proven`: a greeting that it cuts
/// short says no more than that it is on its way down or up.
pub fn is_final(error: &ErrorRecord, proven: bool) -> bool {
    Exit::from_code(error.exit_code) == Exit::Usage
        || match error.kind {
            ErrorKind::NotLinerate => !proven,
            ErrorKind::Key
            | ErrorKind::Policy
            | ErrorKind::Permission
            | ErrorKind::Version
            | ErrorKind::OutOfRange
            | ErrorKind::Usage
            | ErrorKind::NoPermission => true,
            _ => false,
        }
}

/// Nobody has answered a test for as long as a host is waited for.
pub fn no_server((name, port): (&str, u16), limit: Duration, why: String) -> ErrorRecord {
    let seconds = limit.as_secs_f64();
    let what = format!("{name} port {port} did not answer for {seconds:.0} s");
    let hints = [
        "is `linerate serve`, or the server of the setting's `dialect`, running there?",
        "`linerate campaign resume` goes on when it is there",
    ];
    ErrorRecord::new(ErrorKind::HostGone, what, why, &hints)
}

/// The interface that a setting's data uses on a host: by name if the plan says, else the one
/// towards the other end.
fn device(plan: &Plan, setting: usize, host: usize) -> DeviceChoice {
    if let Some(device) = &plan.hosts[host].device {
        return DeviceChoice::Named(device.clone());
    }
    let setting = &plan.settings[setting];
    let other = if setting.from == host { setting.to.unwrap_or(host) } else { setting.from };
    match plan.hosts[other].target() {
        // Towards itself: packets of this machine to itself leave by lo.
        _ if other == host => DeviceChoice::Named("lo".into()),
        target => DeviceChoice::Towards(target.to_owned()),
    }
}

/// Tries until nothing is in the way: the seconds that it took, nothing if it was stopped, or what
/// still was in the way after `limit`.
fn until(
    env: &Env<'_>,
    limit: Duration,
    mut attempt: impl FnMut() -> Result<Option<String>, ErrorRecord>,
) -> Result<Result<Option<f64>, String>, ErrorRecord> {
    let begun = env.clock.elapsed();
    loop {
        if env.stop.seen() {
            return Ok(Ok(None));
        }
        let tried = attempt()?;
        let spent = env.clock.elapsed().saturating_sub(begun);
        match tried {
            None => return Ok(Ok(Some(spent.as_secs_f64()))),
            Some(why) if spent > limit => return Ok(Err(why)),
            Some(_) => env.clock.sleep(ASK_EVERY),
        }
    }
}
