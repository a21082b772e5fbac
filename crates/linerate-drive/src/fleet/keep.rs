//! Results of a fleet in a file or a database: each is kept before what it was measured with is used again, so that a
//! run that was killed can go on. The file is a store as a campaign's; its plan is what was asked for, as JSON, and a slot
//! is a pair at one of the times.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use linerate_ask::usage;
use linerate_fleet::coordinator::{Ending, Event as Happened};
use linerate_fleet::lease::Epoch;
use linerate_fleet::matrix::Cell;
use linerate_model::campaign::{Event, RunState, StoredRun};
use linerate_model::fleet::FleetDocument;
use linerate_model::record::{ErrorKind, ErrorRecord, RunRecord};
use linerate_runner::signals::Stop;
use linerate_store::{LeaseAudit, Meta, Place, StoreError, StoreReader, StoreWriter};

use super::results::{Deleted, Head, Results};
use super::{ASK_EVERY, NO_ANSWER};
use crate::Clock;
use crate::campaign::store_error;

/// What a store of a fleet calls itself.
const NAME: &str = "fleet";
const UNDER_WAY: &str = "it is under way, or was when linerate ended";

/// Where results are kept.
pub struct Keep {
    /// The file, or the database.
    pub place: Place,
    /// It is there, and is gone on with.
    pub resume: bool,
}

/// A store that a run writes.
pub(super) struct Store {
    writer: Box<dyn StoreWriter>,
    place: Place,
    pairs: usize,
    metric: String,
    unit: &'static str,
}

/// What a store holds.
pub(super) struct Log {
    pub(super) head: Head,
    pub(super) results: Results,
    /// What happened at each time, in its order.
    pub(super) events: Vec<Vec<Happened>>,
    /// The highest epoch that was granted: they are counted from 1.
    pub(super) last: Epoch,
    /// When what has begun and not ended did, by its time and test; RFC 3339.
    pub(super) open: BTreeMap<(usize, usize), String>,
    /// Whether something was cut, and not tried again since.
    cut: bool,
    /// It is of a schedule, whose moments do not come again.
    schedule: bool,
    /// What has been said of changes, and to whom.
    pub(super) delivered: BTreeSet<(String, String)>,
}

/// A test that has ended, to be kept.
pub(super) struct Ended<'a> {
    pub(super) time: usize,
    pub(super) test: usize,
    /// From 1.
    pub(super) attempt: u32,
    /// Of its time, from 0.
    pub(super) round: usize,
    /// RFC 3339.
    pub(super) started: String,
    pub(super) seconds: f64,
    pub(super) pair: String,
    pub(super) cell: &'a Cell,
    pub(super) how: Ending,
    pub(super) record: Option<&'a RunRecord>,
}

pub(super) fn fault(error: StoreError, place: &Place) -> ErrorRecord {
    let what = format!("cannot use the results in {place}");
    let hint = match &error {
        StoreError::Exists(_) => "--resume goes on with it",
        StoreError::Foreign(..) | StoreError::Version(..) => "give another file or database",
        StoreError::Locked(_) => "one process at a time writes it",
        StoreError::Damaged(..) => "begin anew in another file or database",
        StoreError::Unbuilt(_) => {
            let hint = "cargo build --release --features postgres";
            return usage::error(what, error.to_string(), &[hint]);
        }
        StoreError::Io { .. } => "then go on with --resume: no result that was reported is lost",
    };
    ErrorRecord { what, hints: vec![hint.to_owned()], ..store_error(error) }
}

/// The number of a pair at a time.
fn slot(pairs: usize, time: usize, test: usize) -> Result<u32, StoreError> {
    let slot = time.checked_mul(pairs).and_then(|first| first.checked_add(test));
    slot.and_then(|slot| u32::try_from(slot).ok()).ok_or_else(|| StoreError::Io {
        what: "count the results of",
        place: "this run".to_owned(),
        why: "they are more than a file can have".to_owned(),
        full: false,
    })
}

impl Store {
    /// Begins, or goes on with what is there.
    pub(super) fn open(
        keep: &Keep,
        head: &Head,
        unit: &'static str,
        until_ns: u64,
    ) -> Result<(Self, Log), ErrorRecord> {
        let place = &keep.place;
        let fault = |error| fault(error, place);
        let writer = match keep.resume {
            true => place.open(),
            false => place.create(&meta(head)),
        };
        let writer = writer.map_err(fault)?;
        let log = Log::of(place, (until_ns, head.times))?;
        if let Some(what) = log.head.changed(head) {
            let why = format!("{what} was another when it began");
            let what = format!("cannot go on with the results in {place}");
            let hints = ["say it as then, or begin anew in another file or database"];
            return Err(ErrorRecord::new(ErrorKind::PlanChanged, what, why, &hints));
        }
        let (pairs, metric) = (head.pairs.len(), head.metric.clone());
        Ok((Self { writer, place: place.clone(), pairs, metric, unit }, log))
    }

    pub(super) fn began(
        &mut self,
        at: &str,
        (time, test): (usize, usize),
        attempt: u32,
    ) -> Result<(), ErrorRecord> {
        let slot = slot(self.pairs, time, test);
        let event = |slot| Event::RunBegan { slot, attempt, extra: false };
        let kept = slot.and_then(|slot| self.writer.keep(at, &event(slot)));
        kept.map_err(|error| fault(error, &self.place))
    }

    pub(super) fn ended(&mut self, at: &str, ended: Ended<'_>) -> Result<(), ErrorRecord> {
        let (state, value, error) = match (ended.cell, ended.how) {
            (Cell::Value(value), _) => (RunState::Counted, Some(*value), None),
            (Cell::Missing(why), Ending::Cut) => (RunState::Cut, None, Some(why.clone())),
            (Cell::Missing(why), _) => (RunState::Failed, None, Some(why.clone())),
        };
        let record = ended.record.map(serde_json::to_string).transpose().unwrap_or_default();
        let kept = slot(self.pairs, ended.time, ended.test).and_then(|slot| {
            let attempt = ended.attempt;
            let run = StoredRun {
                id: 0,
                slot,
                attempt,
                state,
                boot: 0,
                boot_id: None,
                block: u32::try_from(ended.round).unwrap_or(u32::MAX).saturating_add(1),
                setting: ended.pair,
                warmup: false,
                number: u32::try_from(ended.time).unwrap_or(u32::MAX).saturating_add(1),
                started: ended.started,
                seconds: ended.seconds,
                value,
                metric: self.metric.clone(),
                unit: Some(self.unit.to_owned()),
                record,
                settings: Vec::new(),
                doubts: Vec::new(),
                error,
            };
            let event = Event::RunEnded { slot, attempt, extra: false, state };
            self.writer.keep_run(at, &run, &event)
        });
        kept.map(|_| ()).map_err(|error| fault(error, &self.place))
    }

    /// Somebody knows of a change.
    pub(super) fn delivered(&mut self, at: &str, id: &str, to: &str) -> Result<(), ErrorRecord> {
        let event = Event::Delivered { id: id.to_owned(), to: to.to_owned() };
        self.writer.keep(at, &event).map_err(|error| fault(error, &self.place))
    }

    /// Whether the end of this run was asked for by [`end`].
    pub(super) fn asked_to_stop(&mut self) -> Result<bool, ErrorRecord> {
        self.writer.asked_to_stop().map_err(|error| fault(error, &self.place))
    }

    /// Deletes the times before the first that is kept, with all their records.
    pub(super) fn delete(&mut self, deleted: &Deleted) -> Result<(), ErrorRecord> {
        let state = serde_json::to_string(deleted).unwrap_or_default();
        let slot = slot(self.pairs, deleted.times, 0);
        let done = slot.and_then(|slot| self.writer.delete_before(slot, &state));
        done.map_err(|error| fault(error, &self.place))
    }
}

fn meta(head: &Head) -> Meta {
    Meta {
        name: NAME.to_owned(),
        plan: serde_json::to_string(head).unwrap_or_default(),
        plan_path: PathBuf::new(),
        seed: 0,
        created: head.started.clone(),
        version: head.version.clone(),
    }
}

/// What was asked for when it was begun.
pub(super) fn head_of(reader: &mut dyn StoreReader, place: &Place) -> Result<Head, ErrorRecord> {
    let meta = reader.meta().map_err(|error| fault(error, place))?;
    serde_json::from_slice(meta.plan.as_bytes()).map_err(|_| {
        let why = "it has no results of a fleet".to_owned();
        fault(StoreError::Foreign(place.to_string(), why), place)
    })
}

/// What is known of times whose results were deleted, and how many events and runs they were.
pub(super) fn deleted_of(
    reader: &mut dyn StoreReader,
    place: &Place,
    head: &Head,
) -> Result<(Deleted, (u64, u64)), ErrorRecord> {
    let fault = |error| fault(error, place);
    let found = reader.deleted().map_err(fault)?;
    let known = match found.state.as_str() {
        "" => Deleted::nothing(head),
        state => serde_json::from_slice(state.as_bytes())
            .map_err(|why| fault(StoreError::Damaged(place.to_string(), why.to_string())))?,
    };
    Ok((known, (found.events, found.runs)))
}

impl Log {
    /// Reads a place. A test that has begun and not ended has its lease until `until_ns`; there is room for the results
    /// of so many times at least.
    fn of(place: &Place, (until_ns, times): (u64, u32)) -> Result<Self, ErrorRecord> {
        let fault = |error| fault(error, place);
        let mut reader = place.read().map_err(fault)?;
        let head = head_of(&mut *reader, place)?;
        let events = reader.events_after(0).map_err(fault)?;
        let runs = reader.runs_after(0).map_err(fault)?;
        let (deleted, _) = deleted_of(&mut *reader, place, &head)?;
        let mut runs = runs.iter().map(|(run, _)| run);
        Ok(Self::made((head, deleted), &events, &mut runs, (until_ns, times)))
    }

    /// The same of what was read.
    pub(super) fn made(
        (mut head, deleted): (Head, Deleted),
        events: &[(String, Event)],
        runs: &mut dyn Iterator<Item = &StoredRun>,
        (until_ns, times): (u64, u32),
    ) -> Self {
        let pairs = head.pairs.len();
        let place = |slot: u32| {
            let slot = slot as usize;
            slot.checked_div(pairs).zip(slot.checked_rem(pairs))
        };
        let slots = events.iter().filter_map(|(_, event)| match event {
            Event::RunBegan { slot, .. } => Some(*slot),
            _ => None,
        });
        let schedule = head.times == 0;
        // It may have been gone on with for more times than it began with.
        head.times = head.times.max(times);
        if let Some((time, _)) = slots.max().and_then(place) {
            head.times = head.times.max(u32::try_from(time).unwrap_or(u32::MAX).saturating_add(1));
        }
        let mut log = Self {
            events: vec![Vec::new(); head.times as usize],
            results: Results::new(&head, deleted),
            head,
            last: Epoch(0),
            open: BTreeMap::new(),
            cut: false,
            schedule,
            delivered: BTreeSet::new(),
        };
        let (mut open, mut cut) = (BTreeMap::new(), BTreeSet::new());
        for (at, event) in events {
            if let Event::RunBegan { slot, .. } = event
                && let Some((time, _)) = place(*slot)
            {
                log.results.begun_at(time, at);
            }
            log.take((at, event), place, until_ns, &mut open);
        }
        for run in runs {
            let Some((time, test)) = place(run.slot) else { continue };
            let round = run.block.saturating_sub(1) as usize;
            log.results.began(time, test, round);
            let missing = || run.error.clone().unwrap_or_else(|| NO_ANSWER.to_owned());
            let cell = run.value.map_or_else(|| Cell::Missing(missing()), Cell::Value);
            log.results.set(time, test, cell);
            match run.state {
                RunState::Cut => cut.insert(run.slot),
                _ => cut.remove(&run.slot),
            };
        }
        log.cut = !cut.is_empty();
        for (_, event) in events {
            if let Event::Delivered { id, to } = event {
                log.delivered.insert((id.clone(), to.clone()));
            }
        }
        for (slot, (_, at)) in open {
            let Some((time, test)) = place(slot) else { continue };
            log.open.insert((time, test), at.to_owned());
            log.results.began(time, test, 0);
            log.results.set(time, test, Cell::Missing(UNDER_WAY.to_owned()));
        }
        log
    }

    pub(super) fn document(&self) -> FleetDocument {
        let interrupted = !self.open.is_empty() || self.cut || self.results.waiting();
        self.results.document(&self.head, interrupted && !self.schedule)
    }

    /// An event with its date. `open` has of each slot that has begun and not ended with which epoch, and when.
    fn take<'a>(
        &mut self,
        (at, event): (&'a str, &Event),
        place: impl Fn(u32) -> Option<(usize, usize)>,
        until_ns: u64,
        open: &mut BTreeMap<u32, (Epoch, &'a str)>,
    ) {
        let (slot, happened) = match *event {
            Event::RunBegan { slot, .. } => {
                self.last = Epoch(self.last.0.saturating_add(1));
                let epoch = self.last;
                open.insert(slot, (epoch, at));
                let Some((_, test)) = place(slot) else { return };
                (slot, Happened::Began { test, epoch, until_ns })
            }
            Event::RunEnded { slot, state, .. } => {
                let Some((epoch, _)) = open.remove(&slot) else { return };
                let how = match state {
                    RunState::Counted => Ending::Measured,
                    RunState::Cut => Ending::Cut,
                    _ => Ending::Failed,
                };
                (slot, Happened::Ended { epoch, how })
            }
            _ => return,
        };
        if let Some(events) = place(slot).and_then(|(time, _)| self.events.get_mut(time)) {
            events.push(happened);
        }
    }
}

/// What a file or database of results says, also while they are measured.
///
/// # Errors
/// When it cannot be read, or holds something else.
pub fn results(place: &Place) -> Result<FleetDocument, ErrorRecord> {
    Ok(Log::of(place, (0, 0))?.document())
}

/// Whether somebody measures into a place now.
///
/// # Errors
/// When it cannot be known.
pub fn is_under_way(place: &Place) -> Result<bool, ErrorRecord> {
    place.is_locked().map_err(|error| fault(error, place))
}

/// Ends whoever measures into a place as Ctrl-C does, and waits for that until `stop` is set. Says whether there was
/// somebody.
///
/// # Errors
/// When the place cannot be asked, or holds something else: whoever writes that would never hear of it.
pub fn end(place: &Place, clock: &dyn Clock, stop: &Stop) -> Result<bool, ErrorRecord> {
    head_of(&mut *place.read().map_err(|error| fault(error, place))?, place)?;
    let asked = place.stop().map_err(|error| fault(error, place))?;
    while asked && !stop.seen() && is_under_way(place)? {
        clock.sleep(ASK_EVERY);
    }
    Ok(asked)
}

/// Where the leases of the agents that measure are written down; nothing of a file.
///
/// # Errors
/// When the address of the place cannot be understood.
pub fn audit(place: &Place) -> Result<Option<Box<dyn LeaseAudit>>, ErrorRecord> {
    place.audit().map_err(|error| fault(error, place))
}

/// Whether results are kept in a place.
///
/// # Errors
/// When it cannot be known.
pub fn is_kept(place: &Place) -> Result<bool, ErrorRecord> {
    place.exists().map_err(|error| fault(error, place))
}
