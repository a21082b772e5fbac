//! What came of all pairs at all times.

mod document;

use std::cmp::Ordering;

use linerate_analysis::fleet::change::{Changed, Watched};
use linerate_analysis::metric::{self, Metric};
use linerate_fleet::matrix::{Cell, Matrix};
use linerate_fleet::plan::Pair;
use linerate_model::fleet::FleetChange;
use linerate_model::setting::Setting;
use serde::{Deserialize, Serialize};

use super::{Asked, NO_TURN};

/// What was asked for, as it is kept beside the results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) id: String,
    /// RFC 3339.
    pub(super) started: String,
    pub(super) version: String,
    pub(super) command: Vec<String>,
    pub(super) hosts: Vec<String>,
    /// By the places of their hosts: client, server.
    pub(super) pairs: Vec<(usize, usize)>,
    /// Whether tests may meet.
    #[serde(default)]
    pub(super) at_once: bool,
    /// What hosts share; not known of what was begun before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) share: Option<Vec<String>>,
    pub(super) test: Vec<String>,
    /// What is set on both hosts of a test.
    #[serde(default)]
    pub(super) set: Vec<Setting>,
    pub(super) metric: String,
    pub(super) times: u32,
}

impl Head {
    pub(super) fn new(asked: &Asked, metric: &Metric) -> Self {
        let (id, started) = linerate_runner::client::stamp();
        Self {
            id,
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: asked.command.clone(),
            hosts: asked.fleet.hosts().to_vec(),
            pairs: asked.pairs.iter().map(|pair| (pair.from, pair.to)).collect(),
            at_once: asked.fleet.may_meet(),
            share: Some(asked.fleet.shares()),
            test: asked.test.clone(),
            set: asked.set.clone(),
            metric: metric.name.to_owned(),
            times: asked.times,
        }
    }

    /// What is not as it was, of what decides what is measured.
    pub(super) fn changed(&self, now: &Self) -> Option<&'static str> {
        // Of a schedule nobody says how many times there will be.
        let times = now.times == 0 || self.times <= now.times;
        let same = [
            ("--hosts", self.hosts == now.hosts),
            ("--pairs", self.pairs == now.pairs),
            ("--at-once", self.at_once == now.at_once),
            ("--share", self.share.is_none() || self.share == now.share),
            ("the test", self.test == now.test),
            ("--set", self.set == now.set),
            ("--metric", self.metric == now.metric),
            ("--times", times),
        ];
        same.into_iter().find_map(|(what, same)| (!same).then_some(what))
    }

    fn pairs(&self) -> Vec<Pair> {
        self.pairs.iter().map(|(from, to)| Pair { from: *from, to: *to }).collect()
    }

    pub(super) fn host(&self, host: usize) -> String {
        self.hosts.get(host).cloned().unwrap_or_default()
    }
}

/// What is known of times whose results were deleted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Deleted {
    /// How many they were.
    pub(super) times: usize,
    /// All that they say of changes to come.
    watched: Watched,
}

impl Deleted {
    pub(super) fn nothing(head: &Head) -> Self {
        Self { times: 0, watched: Watched::new(head.pairs.len()) }
    }
}

/// What came of all pairs at all times. Times are counted from 0, deleted ones among them.
pub(super) struct Results {
    pairs: Vec<Pair>,
    /// In the order of the table.
    ordered: Vec<Pair>,
    metric: &'static Metric,
    deleted: Deleted,
    times: Vec<Time>,
    /// What the times that were looked at say of changes to come, and how many they are, deleted ones among them.
    watched: (Watched, usize),
    found: Vec<Found>,
}

/// A change of level.
#[derive(Clone)]
pub(super) struct Found {
    /// The time whose result reported it.
    at: usize,
    pub(super) change: FleetChange,
}

impl Found {
    /// Of this change and no other.
    pub(super) fn id(&self, head: &Head) -> String {
        let FleetChange { from, to, .. } = &self.change;
        format!("{}/{}/{from}/{to}", head.id, self.at.saturating_add(1))
    }
}

/// What came of all pairs once.
#[derive(Clone)]
struct Time {
    cells: Matrix,
    /// Of each pair, in the order of the table.
    tries: Vec<u32>,
    /// As far as it came.
    rounds: usize,
    /// When its first test began, RFC 3339.
    begun: Option<String>,
}

impl Results {
    pub(super) fn new(head: &Head, deleted: Deleted) -> Self {
        let pairs = head.pairs();
        let mut ordered = pairs.clone();
        ordered.sort_unstable();
        ordered.dedup();
        let metric = metric::find(&head.metric).unwrap_or(metric::DEFAULT);
        let watched = (deleted.watched.clone(), deleted.times);
        let (times, found) = (Vec::new(), Vec::new());
        let mut results = Self { pairs, ordered, metric, deleted, times, watched, found };
        results.make_room(head.times as usize);
        results
    }

    /// For so many times in all.
    pub(super) fn make_room(&mut self, times: usize) {
        let empty = Time {
            cells: Matrix::new(&self.pairs, NO_TURN),
            tries: vec![0; self.pairs.len()],
            rounds: 0,
            begun: None,
        };
        let kept = times.saturating_sub(self.deleted.times).max(self.times.len());
        self.times.resize(kept, empty);
    }

    fn time(&mut self, time: usize) -> Option<&mut Time> {
        self.times.get_mut(time.checked_sub(self.deleted.times)?)
    }

    /// A test of a pair began, in a round of its time, from 0.
    pub(super) fn began(&mut self, time: usize, test: usize, round: usize) {
        let pair = self.pairs.get(test);
        let place = pair.and_then(|pair| self.ordered.binary_search(pair).ok());
        let Some(time) = self.time(time) else { return };
        time.rounds = time.rounds.max(round.saturating_add(1));
        if let Some(tries) = place.and_then(|place| time.tries.get_mut(place)) {
            *tries = tries.saturating_add(1);
        }
    }

    /// Something was measured in a round of its time, from 0.
    pub(super) fn reached(&mut self, time: usize, round: usize) {
        if let Some(time) = self.time(time) {
            time.rounds = time.rounds.max(round.saturating_add(1));
        }
    }

    /// Something of a time began, by the date.
    pub(super) fn begun_at(&mut self, time: usize, date: &str) {
        if let Some(time) = self.time(time) {
            time.begun.get_or_insert_with(|| date.to_owned());
        }
    }

    /// Something came of it.
    pub(super) fn set(&mut self, time: usize, test: usize, cell: Cell) {
        let pair = self.pairs.get(test).copied();
        if let Some((time, pair)) = self.time(time).zip(pair) {
            time.cells.set(pair, cell);
        }
    }

    pub(super) fn get(&self, time: usize, test: usize) -> Option<&Cell> {
        let time = self.times.get(time.checked_sub(self.deleted.times)?)?;
        time.cells.get(*self.pairs.get(test)?)
    }

    /// Whether everything has a result.
    pub(super) fn complete(&self) -> bool {
        self.times.iter().all(|time| time.cells.counts().missing == 0)
    }

    /// Whether the turn of something is still to come.
    pub(super) fn waiting(&self) -> bool {
        let waits = |cell: &Cell| matches!(cell, Cell::Missing(why) if why == NO_TURN);
        self.times.iter().any(|time| time.cells.cells().any(|(_, cell)| waits(cell)))
    }

    /// The figure of each pair at a time, by its place in what is kept.
    fn row(&self, kept: usize) -> Vec<Option<f64>> {
        let Some(time) = self.times.get(kept) else { return Vec::new() };
        let value = |pair: &Pair| match time.cells.get(*pair) {
            Some(Cell::Value(value)) => Some(*value),
            _ => None,
        };
        self.ordered.iter().map(value).collect()
    }

    /// What a time says beside all before it.
    fn look(&self, watched: &mut Watched, time: usize, head: &Head) -> Vec<Found> {
        let Some(kept) = time.checked_sub(self.deleted.times) else { return Vec::new() };
        let number = time.saturating_add(1) as u64;
        let found = watched.take(number, &self.row(kept), self.metric.better);
        let change = |changed| Some(Found { at: time, change: self.change(changed, head)? });
        found.iter().filter_map(change).collect()
    }

    /// How many times there are, deleted ones among them.
    pub(super) fn all_times(&self) -> usize {
        self.deleted.times.saturating_add(self.times.len())
    }

    pub(super) fn deleted(&self) -> &Deleted {
        &self.deleted
    }

    /// All times before this one are over, or all there are: nothing comes of them any more. Returns all changes that they
    /// report, as far as they are kept.
    pub(super) fn look_before(&mut self, time: Option<usize>, head: &Head) -> &[Found] {
        let (mut watched, looked) = std::mem::take(&mut self.watched);
        let until = time.unwrap_or(usize::MAX).min(self.all_times()).max(looked);
        for time in looked..until {
            let found = self.look(&mut watched, time, head);
            self.found.extend(found);
        }
        self.watched = (watched, until);
        &self.found
    }

    /// How many pairs were measured at the last time, when it began and what its number is, from 1; nothing where none of it has
    /// begun.
    pub(super) fn last(&self) -> Option<(usize, &str, u32)> {
        let time = self.times.last()?;
        let measured = time.cells.counts().measured;
        let number = u32::try_from(self.all_times()).unwrap_or(u32::MAX);
        Some((measured, time.begun.as_deref()?, number))
    }

    /// How many of the first times are old, never the last: `age` is `Less` of a date that is old, and `Greater` of one to
    /// come, which a clock has said that was wrong. A time of such a date is as old as the one after it.
    pub(super) fn older(&self, age: impl Fn(&str) -> Ordering) -> usize {
        let age = |time: &Time| time.begun.as_deref().map_or(Ordering::Less, &age);
        let most = self.times.len().saturating_sub(1);
        let ages = self.times.iter().take(most).map(age).take_while(|age| age.is_ne());
        // Where all dates are to come, it is the clock of now that is wrong.
        ages.zip(1..).filter(|(age, _)| age.is_lt()).last().map_or(0, |(_, count)| count)
    }

    /// Forgets the first times, and what they reported.
    pub(super) fn delete(&mut self, count: usize, head: &Head) {
        let mut watched = std::mem::take(&mut self.deleted.watched);
        let first = self.deleted.times;
        for time in first..first.saturating_add(count) {
            self.look(&mut watched, time, head);
        }
        self.times.drain(..count.min(self.times.len()));
        self.deleted = Deleted { times: first.saturating_add(count), watched };
        let kept = self.deleted.times;
        self.found.retain(|found| found.at >= kept);
        if self.watched.1 < kept {
            self.watched = (self.deleted.watched.clone(), kept);
        }
    }

    fn change(&self, found: &Changed, head: &Head) -> Option<FleetChange> {
        let pair = self.ordered.get(found.pair)?;
        let time = u32::try_from(found.since).unwrap_or(u32::MAX);
        let kept = (time as usize).checked_sub(self.deleted.times.saturating_add(1));
        Some(FleetChange {
            from: head.host(pair.from),
            to: head.host(pair.to),
            since: kept.and_then(|kept| self.times.get(kept)).and_then(|time| time.begun.clone()),
            time,
            before: found.before,
            after: found.after,
            low: found.interval.map(|(low, _)| low),
            high: found.interval.map(|(_, high)| high),
            worse: found.worse,
        })
    }
}
