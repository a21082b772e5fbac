//! Settings of this host: read, changed, and put back.
//!
//! Everything goes through netlink, /proc and /sys; no program is called. Nothing is changed before
//! the undo journal that says how to undo it is on the disk. What is put back is compared first:
//! what somebody else has set meanwhile is left and reported.

mod change;
mod claims;
pub(crate) mod files;
mod journal;
mod kernel;
mod knobs;
mod put_back;
mod reading;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use linerate_model::exit::Exit;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::{
    Applied, Outcome, ReadBack, Restoration, RestoreOutcome, RestoredKnob, Setting, SettingName,
};
use linerate_model::undo::{self, Device, Knob, Place, Record, Turn, Turned, Undo};
use nix::net::if_::if_indextoname;

use self::change::{already, also, beside, differences, wishes};
use self::claims::Claims;
use self::journal::{Disk, Journal, JournalError, RealDisk};
use self::kernel::Kernel;
use self::knobs::{knobs_of, shown};
use self::put_back::{put_back, untouched};
use self::reading::{Reading, Values};
use crate::netlink::{Netlink, route};
use crate::roots::Roots;
use crate::towards::Towards;

/// The name of the interface that packets there leave by.
pub fn device_towards(to: Towards) -> Option<String> {
    let index = route::interface_towards(&mut Netlink::route()?, to)?;
    if_indextoname(index).ok()?.into_string().ok()
}

/// Settings as they are now, in the order of `names`. `device` is for those of an interface.
pub fn read(device: Option<&str>, names: &[SettingName]) -> Vec<ReadBack> {
    let mut kernel = Kernel::open(Roots::host());
    let found = device.map(|name| kernel.device(name)).transpose();
    let mut of_device: Option<Reading> = None;
    names
        .iter()
        .map(|name| {
            let mut back = ReadBack { name: name.clone(), device: None, value: None, why: None };
            let device = match &found {
                Ok(device) if name.of_device() => device.as_ref(),
                Err(why) if name.of_device() => {
                    back.why = Some(why.to_string());
                    return back;
                }
                _ => None,
            };
            back.device = device.map(|device| device.name.clone());
            // All of an interface is read once, whatever is asked of it.
            let reading = if name.of_device() {
                of_device.get_or_insert_with(|| kernel.around(name, device)).clone()
            } else {
                kernel.around(name, None)
            };
            if let Some(why) = reading.why_not_all(name) {
                back.why = Some(format!("it cannot be read now: {why}"));
                return back;
            }
            let knobs = knobs_of(name, device, &reading.values);
            back.value = shown(name, &knobs, &reading.values);
            if back.value.is_none() {
                back.why = Some(kernel.missing(name, device));
            }
            back
        })
        .collect()
}

/// Changes settings of this host and keeps what is needed to undo it: in memory, and in the undo
/// journal for whoever comes after this process.
///
/// One process at a time may do so with a directory, and, whatever its directory, with an interface of a network
/// namespace and with what is of none. Dropping it puts nothing back; see [`SettingsGuard::restore`].
pub struct SettingsGuard {
    kernel: Kernel,
    journal: Journal,
    /// None of a kernel that is a tree of files.
    claims: Option<Claims>,
}

impl SettingsGuard {
    /// Takes the journal in `directory` and puts back what an earlier process left changed.
    ///
    /// # Errors
    /// When another process has it, or the directory cannot be used.
    pub fn open(directory: &Path) -> Result<(Self, Restoration), ErrorRecord> {
        let roots = Roots::host();
        let place = here(&roots)?;
        Self::open_with(directory, roots, place, Box::<RealDisk>::default())
    }

    fn open_with(
        directory: &Path,
        roots: Roots,
        place: Place,
        disk: Box<dyn Disk>,
    ) -> Result<(Self, Restoration), ErrorRecord> {
        journal::sweep(directory, &place);
        let journal = Journal::open(directory, place, disk).map_err(|e| {
            let (kind, hint) = match &e {
                JournalError::Taken(_) => (ErrorKind::Busy, "wait for it to end, or end it"),
                JournalError::Io { .. } => {
                    (ErrorKind::Journal, "choose another directory with --state-dir")
                }
            };
            error(kind, "cannot keep an undo journal of settings", e.to_string(), hint)
        })?;
        let claims = roots.is_host().then(Claims::default);
        let mut keeper = Self { kernel: Kernel::open(roots), journal, claims };
        let restoration = keeper.restore();
        Ok((keeper, restoration))
    }

    /// Sets in the given order and reads back. Each setting is for itself: what the kernel refuses
    /// is reported in its result.
    pub fn apply(&mut self, device: Option<&str>, settings: &[Setting]) -> Vec<Applied> {
        settings.iter().map(|setting| self.apply_one(device, setting)).collect()
    }

    fn apply_one(&mut self, device: Option<&str>, setting: &Setting) -> Applied {
        let mut result = Applied {
            asked: setting.clone(),
            device: None,
            before: None,
            after: None,
            outcome: Outcome::Refused,
            why: None,
            also: vec![],
        };
        if let Err(why) = self.try_apply(device, setting, &mut result) {
            result.outcome = Outcome::Refused;
            result.why = Some(why);
        }
        result
    }

    fn try_apply(
        &mut self,
        device: Option<&str>,
        setting: &Setting,
        result: &mut Applied,
    ) -> Result<(), String> {
        let name = &setting.name;
        let found = match device.filter(|_| name.of_device()) {
            Some(device) => Some(self.kernel.device(device)?),
            None => None,
        };
        result.device = found.as_ref().map(|device| device.name.clone());
        self.kernel.known = self.journal.known();
        let device = found.clone().map(|device| self.kernel.known(device));
        let device = device.as_ref();
        let before = self.kernel.around(name, device);
        if let Some(why) = before.why_not_all(name) {
            return Err(format!("it cannot be read now, so it could not be put back: {why}"));
        }
        let before = before.values;
        let all = knobs_of(name, device, &before);
        result.before = shown(name, &all, &before);
        result.after.clone_from(&result.before);
        let asked = self.kernel.expand(setting, device, &before)?;
        let wishes = wishes(&before, &asked);
        if wishes.is_empty() {
            result.outcome = Outcome::Already;
            return Ok(());
        }
        if let Some(why) = self.kernel.obstacle(setting, found.as_ref()) {
            return Err(why);
        }
        self.claim(device, &before)?;
        let id = self
            .journal
            .announce(wishes.clone(), beside(&before, &wishes))
            .map_err(|why| format!("{why}; nothing was changed"))?;
        let orders: Vec<(&Knob, &str)> =
            wishes.iter().map(|wish| (&wish.knob, wish.asked.as_str())).collect();
        let refused = self.kernel.turn(&orders);

        let reading = self.kernel.again(name, device, &before);
        let unread: Vec<Knob> =
            before.keys().filter(|knob| reading.why_not(knob).is_some()).cloned().collect();
        let turned = differences(&before, &reading);
        if let Err(why) = self.journal.note(id, turned.clone(), unread) {
            let words = self.unkept(turned);
            let now = self.kernel.around(name, device).values;
            result.after = shown(name, &knobs_of(name, device, &now), &now);
            return Err(format!("{why}; {words}"));
        }
        if let Some(why) = reading.why_not_all(name) {
            // The journal knows what was asked, and puts it back when it can be read.
            result.after = None;
            return Err(format!("it was ordered and cannot be read back: {why}"));
        }
        let after = reading.values;
        result.after = shown(name, &knobs_of(name, device, &after), &after);
        result.also = also(&turned, &wishes);
        let change = Change { id, wishes: &wishes, turned: &turned, after: &after };
        (result.outcome, result.why) = self.outcome(&change, &refused);
        Ok(())
    }

    /// Sees that no other process changes what is to be changed, or the interfaces of what may move with it.
    fn claim(&mut self, device: Option<&Device>, before: &Values) -> Result<(), String> {
        let Some(claims) = &mut self.claims else { return Ok(()) };
        let others: BTreeSet<&Device> = before.keys().filter_map(Knob::device).collect();
        std::iter::once(device)
            .chain(others.into_iter().map(Some))
            .try_for_each(|device| claims.take(device))
            .map_err(|why| format!("{why}; nothing was changed"))
    }

    /// Puts back what cannot be kept. On the disk it says what was asked, which is enough to undo it;
    /// but from now on nothing can be kept, so nothing is left changed.
    fn unkept(&mut self, turned: Vec<Turned>) -> &'static str {
        let undo = |t: Turned| Undo {
            knob: t.knob,
            before: t.before,
            now: Some(t.now),
            pending: None,
            swept: false,
        };
        let undos: Vec<Undo> = turned.into_iter().rev().map(undo).collect();
        let is_back = |knob: &RestoredKnob| {
            matches!(knob.outcome, RestoreOutcome::Restored | RestoreOutcome::Already)
        };
        match put_back(&mut self.kernel, &undos).iter().all(is_back) {
            true => "it was put back",
            false => "it could not be put back whole",
        }
    }

    /// What became of a change, of which the kernel may have `refused` a part.
    fn outcome(
        &self,
        change: &Change<'_>,
        refused: &[(Knob, String)],
    ) -> (Outcome, Option<String>) {
        let Change { id, wishes, turned, after } = change;
        let holds = |wish: &Turn| {
            after.get(&wish.knob).is_some_and(|now| already(&wish.knob, now, &wish.asked))
        };
        if wishes.iter().all(holds) {
            return (Outcome::Set, None);
        }
        let moved = turned.iter().any(|turned| wishes.iter().any(|wish| wish.knob == turned.knob));
        if let [(knob, why), rest @ ..] = refused {
            let outcome = if moved { Outcome::Rounded } else { Outcome::Refused };
            let more = match rest {
                [] => String::new(),
                rest => format!(", and {} more", rest.len()),
            };
            return (outcome, Some(format!("{knob}: {why}{more}")));
        }
        let waits = wishes.iter().find_map(|wish| {
            let now = after.get(&wish.knob)?;
            now.contains("wanted").then(|| format!("{} is {now}", wish.knob))
        });
        let (outcome, why) = match waits {
            Some(why) => {
                let why = format!("{why}: the driver forbids it, or it needs another feature");
                return (Outcome::Refused, Some(why));
            }
            None if moved => (Outcome::Rounded, "the driver made another value of it"),
            // Asked for once more, a number that was rounded stays as it is.
            None if wishes.iter().all(|wish| self.rounds_to(wish, *id)) => {
                (Outcome::Rounded, "the driver makes another value of it")
            }
            None => (Outcome::Refused, "the driver left it as it was"),
        };
        (outcome, Some(why.to_owned()))
    }

    /// Whether asking for the same before `id` made what the knob is now.
    fn rounds_to(&self, wish: &Turn, id: u64) -> bool {
        let records = self.journal.records();
        let asked = |record: &&Record| match record {
            Record::Change { id: of, wishes, .. } => {
                *of != id && wishes.iter().any(|w| w.knob == wish.knob && w.asked == wish.asked)
            }
            _ => false,
        };
        records.iter().filter(asked).any(|change| {
            records.iter().any(|record| match record {
                Record::Done { id: of, turned, .. } => {
                    *of == change.id()
                        && turned.iter().any(|t| t.knob == wish.knob && t.now == wish.before)
                }
                _ => false,
            })
        })
    }

    /// Sets, and forgets how to undo it and all before, so that nothing puts it back. Where it is not as asked then, all is put
    /// back at once: a part of it may have been made, or another value.
    ///
    /// # Errors
    /// When it cannot be forgotten: all is put back. When something could not be put back: what that is.
    pub fn keep(
        &mut self,
        device: Option<&str>,
        setting: &Setting,
    ) -> Result<Applied, ErrorRecord> {
        let what = "cannot make a change for good";
        let applied = self.apply_one(device, setting);
        let kept = if applied.holds() { self.journal.clear() } else { Ok(()) };
        if !applied.holds() || kept.is_err() {
            let back = self.restore();
            if !back.complete() {
                return Err(error(ErrorKind::Restore, what, back.left().join("; "), ""));
            }
        }
        kept.map(|()| applied).map_err(|why| error(ErrorKind::Journal, what, why, ""))
    }

    /// Puts back everything that was changed, by this process or by one before it. Does nothing to
    /// what is as before, and leaves what somebody else has set since; what another process changes now is kept for the
    /// next time. Any number of times.
    pub fn restore(&mut self) -> Restoration {
        let mut restoration = Restoration::default();
        let place = &self.journal.place;
        if undo::of_other_boots(self.journal.records(), &place.boot_id) {
            restoration.notes.push(
                "the host has booted since settings were changed: they are gone by themselves"
                    .into(),
            );
        }
        for damage in self.journal.damages() {
            restoration.notes.push(format!("undo journal: {damage}"));
        }
        let undos = undo::undos(self.journal.records(), place);
        let taken = self.taken(&undos);
        let why_not = |undo: &Undo| taken.get(&undo.knob.device().cloned());
        let (undos, others): (Vec<Undo>, Vec<Undo>) =
            undos.into_iter().partition(|undo| why_not(undo).is_none());
        restoration.knobs = put_back(&mut self.kernel, &undos);
        let settled: Vec<Knob> = undos
            .iter()
            .zip(&restoration.knobs)
            .filter(|(_, knob)| knob.outcome != RestoreOutcome::Failed)
            .map(|(undo, _)| undo.knob.clone())
            .collect();
        let something = !self.journal.records().is_empty() || !self.journal.damages().is_empty();
        let settled_all = others.is_empty() && settled.len() == undos.len();
        let noted = if !settled_all {
            // The rest is tried again, but not what is back: from here on that is others' to set.
            self.journal.settle(settled)
        } else if something {
            self.journal.clear()
        } else {
            Ok(())
        };
        if let Some(claims) = &mut self.claims {
            let tried = undos.iter().zip(&restoration.knobs);
            let open = tried.filter(|(_, knob)| knob.outcome == RestoreOutcome::Failed);
            claims.keep(&open.map(|(undo, _)| undo.knob.device()).collect());
        }
        restoration.notes.extend(noted.err());
        // What only stood beside a change, and did not move with it, is nobody's news.
        let mut undos = undos.iter();
        restoration.knobs.retain(|knob| {
            let turned = undos.next().is_none_or(Undo::was_turned);
            turned || matches!(knob.outcome, RestoreOutcome::Restored | RestoreOutcome::Failed)
        });
        let others = others.iter().filter_map(|undo| Some(untouched(undo, why_not(undo)?)));
        restoration.knobs.extend(others);
        restoration
    }

    /// Interfaces, and what is of none, that another process changes now, with the words for it. What that found and will put
    /// back may be what is to be undone here.
    fn taken(&mut self, undos: &[Undo]) -> BTreeMap<Option<Device>, String> {
        let Some(claims) = &mut self.claims else { return BTreeMap::new() };
        let devices: BTreeSet<Option<&Device>> = undos.iter().map(|u| u.knob.device()).collect();
        let why_not = |device: Option<&Device>| Some((device.cloned(), claims.take(device).err()?));
        devices.into_iter().filter_map(why_not).collect()
    }
}

/// Where this process is.
fn here(roots: &Roots) -> Result<Place, ErrorRecord> {
    let what = "cannot change settings of this host";
    let boot_id = roots.line("proc/sys/kernel/random/boot_id").ok_or_else(|| {
        error(
            ErrorKind::Unable,
            what,
            "it does not report its boot_id, so a reboot could not be seen",
            "",
        )
    })?;
    let namespace = roots
        .path("proc/thread-self/ns/net")
        .metadata()
        .map_err(|e| {
            error(ErrorKind::Unable, what, format!("its network namespace is not known: {e}"), "")
        })?
        .ino();
    Ok(Place { boot_id, namespace })
}

fn error(kind: ErrorKind, what: &str, why: impl Into<String>, hint: &str) -> ErrorRecord {
    let hints: &[&str] = if hint.is_empty() { &[] } else { &[hint] };
    ErrorRecord::new(kind, what, why, hints).ending(Exit::Failed)
}

/// A change of some knobs that was tried.
struct Change<'a> {
    /// In the journal.
    id: u64,
    wishes: &'a [Turn],
    turned: &'a [Turned],
    after: &'a Values,
}
