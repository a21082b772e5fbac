//! A file or database of results that is read again while a run writes it: only what came since is read, and all of it is judged.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use linerate_model::campaign::{Event, StoredRun};
use linerate_model::fleet_now::{FleetNow, FleetTest, FleetTestEnd};
use linerate_model::record::ErrorRecord;
use linerate_store::Place;

use super::NO_ANSWER;
use super::keep::{Log, deleted_of, fault, head_of};
use super::results::{Deleted, Head};

/// A file or database of results, and what was read of it.
pub struct Followed {
    place: Place,
    /// None before it was read, and where it could not be.
    read: Option<Read>,
}

struct Read {
    head: Head,
    /// The numbers of the first event and the first run that were there.
    firsts: [Option<u64>; 2],
    /// How many events and runs were deleted, and what is known of them.
    deleted: (u64, u64),
    known: Deleted,
    /// With their times.
    events: Vec<(String, Event)>,
    /// Without their records, and whether each has one.
    runs: Vec<(StoredRun, bool)>,
    /// Whether a run writes it.
    running: bool,
}

impl Followed {
    /// Reads a place for the first time.
    ///
    /// # Errors
    /// When it cannot be read, or holds something else.
    pub fn open(place: &Place) -> Result<(Self, FleetNow), ErrorRecord> {
        let mut followed = Self { place: place.clone(), read: None };
        let now = followed.read()?.0.now();
        Ok((followed, now))
    }

    /// What is kept there, if that is something else than when it was looked at last, or it could not be read then.
    ///
    /// # Errors
    /// As [`Self::open`]; it may be looked at again.
    pub fn look(&mut self) -> Result<Option<FleetNow>, ErrorRecord> {
        let (read, changed) = self.read()?;
        Ok(changed.then(|| read.now()))
    }

    /// What has come since, and whether anything has.
    fn read(&mut self) -> Result<(&Read, bool), ErrorRecord> {
        let last = self.read.take();
        // Before the rest: a run that ends meanwhile is seen at the next look.
        let fault = |error| fault(error, &self.place);
        let running = self.place.is_locked().map_err(fault)?;
        let mut reader = self.place.read().map_err(fault)?;
        let (events, runs) = reader.counts().map_err(fault)?;
        let head = head_of(&mut *reader, &self.place)?;
        let firsts = reader.firsts().map_err(fault)?;
        // Another file or database may have taken its place.
        let last = last.filter(|last| last.head == head);
        let last = last.filter(|last| last.all_events() <= events && last.all_runs() <= runs);
        let state = |read: &Read| (read.all_events(), read.all_runs(), read.firsts, read.running);
        let was = last.as_ref().map(state);
        let mut read = match last {
            // What is known of what was deleted may be more than all the rest: it is read where that has changed.
            Some(last) if last.firsts == firsts => last,
            last => {
                let (known, deleted) = deleted_of(&mut *reader, &self.place, &head)?;
                let (events, runs) = match last {
                    Some(Read { deleted: (e, r), events, runs, .. })
                        if e <= deleted.0 && r <= deleted.1 =>
                    {
                        let gone = (deleted.0.saturating_sub(e), deleted.1.saturating_sub(r));
                        (without(events, gone.0), without(runs, gone.1))
                    }
                    _ => (vec![], vec![]),
                };
                Read { head, firsts, deleted, known, events, runs, running }
            }
        };
        (read.running, read.firsts) = (running, firsts);
        read.events.extend(reader.events_after(read.all_events()).map_err(fault)?);
        read.runs.extend(reader.runs_after(read.all_runs()).map_err(fault)?);
        let changed = was != Some(state(&read));
        Ok((self.read.insert(read), changed))
    }
}

/// All but the first so many.
fn without<T>(mut rows: Vec<T>, gone: u64) -> Vec<T> {
    let gone = usize::try_from(gone).map_or(rows.len(), |gone| gone.min(rows.len()));
    rows.drain(..gone);
    rows
}

impl Read {
    /// Deleted ones among them.
    fn all_events(&self) -> u64 {
        self.deleted.0.saturating_add(self.events.len() as u64)
    }

    fn all_runs(&self) -> u64 {
        self.deleted.1.saturating_add(self.runs.len() as u64)
    }

    fn now(&self) -> FleetNow {
        let mut runs = self.runs.iter().map(|(run, _)| run);
        let asked = (self.head.clone(), self.known.clone());
        let document = Log::made(asked, &self.events, &mut runs, (0, 0)).document();
        let moment = |date: &Option<String>| seconds(date.as_deref()?);
        let begun_s = document.begun.iter().map(moment).collect();
        FleetNow { document, begun_s, tests: self.tests(), running: self.running }
    }

    fn tests(&self) -> Vec<FleetTest> {
        let pairs = &self.head.pairs;
        // As the document has them.
        let ordered: Vec<_> = pairs.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let place = |slot: u32| {
            let slot = slot as usize;
            let (time, test) = slot.checked_div(pairs.len()).zip(slot.checked_rem(pairs.len()))?;
            let pair = ordered.binary_search(&pairs.get(test)?).ok()?;
            Some((pair, u32::try_from(time).ok()?.saturating_add(1)))
        };
        let ended = self.runs.iter().filter_map(|(run, recorded)| {
            let (pair, time) = place(run.slot)?;
            let missing = || run.error.clone().unwrap_or_else(|| NO_ANSWER.to_owned());
            let end = FleetTestEnd {
                number: run.id,
                seconds: run.seconds,
                result: run.value.ok_or_else(missing),
                recorded: *recorded,
            };
            let (began, began_s) = (run.started.clone(), seconds(&run.started));
            Some(FleetTest { pair, time, attempt: run.attempt, began, began_s, end: Some(end) })
        });
        let mut open = BTreeMap::new();
        for (at, event) in &self.events {
            match event {
                Event::RunBegan { slot, attempt, .. } => drop(open.insert(slot, (attempt, at))),
                Event::RunEnded { slot, .. } => drop(open.remove(slot)),
                _ => {}
            }
        }
        let open = open.into_iter().filter_map(|(slot, (attempt, at))| {
            let (pair, time) = place(*slot)?;
            let (began, began_s) = (at.clone(), seconds(at));
            Some(FleetTest { pair, time, attempt: *attempt, began, began_s, end: None })
        });
        ended.chain(open).collect()
    }
}

/// Seconds since 1970.
fn seconds(date: &str) -> Option<f64> {
    date.parse::<Timestamp>().ok().map(|at| at.as_millisecond() as f64 / 1e3)
}

/// The record of the test of this number, as JSON; none where there is none.
///
/// # Errors
/// When the place cannot be read.
pub fn record(place: &Place, number: u64) -> Result<Option<String>, ErrorRecord> {
    let found = place.read().and_then(|mut reader| reader.run(number));
    Ok(found.map_err(|error| fault(error, place))?.and_then(|run| run.record))
}
