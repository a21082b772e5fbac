//! What came of all pairs at all times, and the document that is made of it.

use std::collections::BTreeMap;

use linerate_analysis::fleet::{self as judging, Answer, Bad, Role, Table, What};
use linerate_analysis::metric::{self, Metric};
use linerate_fleet::matrix::{Cell, Matrix};
use linerate_fleet::plan::Pair;
use linerate_model::fleet::{
    FORMAT, FleetAnswer, FleetBad, FleetDocument, FleetPair, FleetRole, FleetVerdict,
};
use linerate_model::record::ProgramFacts;
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
    pub(super) test: Vec<String>,
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
            test: asked.test.clone(),
            metric: metric.name.to_owned(),
            times: asked.times,
        }
    }

    /// What is not as it was, of what decides what is measured.
    pub(super) fn changed(&self, now: &Self) -> Option<&'static str> {
        let same = [
            ("--hosts", self.hosts == now.hosts),
            ("--pairs", self.pairs == now.pairs),
            ("the test", self.test == now.test),
            ("--metric", self.metric == now.metric),
            ("--times", self.times <= now.times),
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

/// What came of all pairs at all times.
pub(super) struct Results {
    pairs: Vec<Pair>,
    times: Vec<Matrix>,
    /// Of each pair, over all times.
    tries: Vec<u32>,
    /// Of each time, as far as it came.
    rounds: Vec<usize>,
    /// When the first test of each time began, RFC 3339.
    begun: Vec<Option<String>>,
}

impl Results {
    pub(super) fn new(head: &Head) -> Self {
        let (pairs, times) = (head.pairs(), head.times as usize);
        Self {
            times: vec![Matrix::new(&pairs, NO_TURN); times],
            tries: vec![0; pairs.len()],
            rounds: vec![0; times],
            begun: vec![None; times],
            pairs,
        }
    }

    /// A test of a pair began, in a round of its time, from 0.
    pub(super) fn began(&mut self, time: usize, test: usize, round: usize) {
        if let Some(tries) = self.tries.get_mut(test) {
            *tries = tries.saturating_add(1);
        }
        if let Some(rounds) = self.rounds.get_mut(time) {
            *rounds = (*rounds).max(round.saturating_add(1));
        }
    }

    /// Something of a time began, by the date.
    pub(super) fn begun_at(&mut self, time: usize, date: &str) {
        if let Some(begun) = self.begun.get_mut(time) {
            begun.get_or_insert_with(|| date.to_owned());
        }
    }

    /// Something came of it.
    pub(super) fn set(&mut self, time: usize, test: usize, cell: Cell) {
        if let Some((matrix, pair)) = self.times.get_mut(time).zip(self.pairs.get(test)) {
            matrix.set(*pair, cell);
        }
    }

    pub(super) fn get(&self, time: usize, test: usize) -> Option<&Cell> {
        self.times.get(time)?.get(*self.pairs.get(test)?)
    }

    /// Whether everything has a result.
    pub(super) fn complete(&self) -> bool {
        self.times.iter().all(|matrix| matrix.counts().missing == 0)
    }

    /// Whether the turn of something is still to come.
    pub(super) fn waiting(&self) -> bool {
        let waits = |cell: &Cell| matches!(cell, Cell::Missing(why) if why == NO_TURN);
        self.times.iter().any(|matrix| matrix.cells().any(|(_, cell)| waits(cell)))
    }

    pub(super) fn document(&self, head: &Head, interrupted: bool) -> FleetDocument {
        let metric = metric::find(&head.metric).unwrap_or(metric::DEFAULT);
        let tries: BTreeMap<Pair, u32> =
            self.pairs.iter().copied().zip(self.tries.iter().copied()).collect();
        let ordered: Vec<Pair> = tries.keys().copied().collect();
        let cell = |matrix: &Matrix, pair: &Pair| match matrix.get(*pair) {
            Some(Cell::Value(value)) => Some(*value),
            _ => None,
        };
        let row = |matrix: &Matrix| ordered.iter().map(|pair| cell(matrix, pair)).collect();
        let rows: Vec<Vec<Option<f64>>> = self.times.iter().map(row).collect();
        let pairs = ordered.iter().enumerate().map(|(at, pair)| {
            let values: Vec<_> = rows.iter().map(|row| row.get(at).copied().flatten()).collect();
            let value = judging::median_of(&values);
            FleetPair {
                from: head.host(pair.from),
                to: head.host(pair.to),
                tries: tries.get(pair).copied().unwrap_or(0),
                missing: value.is_none().then(|| self.why(*pair)),
                value,
                values,
            }
        });
        FleetDocument {
            format: FORMAT,
            kind: "fleet".to_owned(),
            id: head.id.clone(),
            started: head.started.clone(),
            linerate: ProgramFacts { version: head.version.clone() },
            command: head.command.clone(),
            hosts: head.hosts.clone(),
            metric: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            times: head.times,
            begun: self.begun.clone(),
            rounds: self.rounds.iter().sum(),
            interrupted,
            pairs: pairs.collect(),
            verdict: verdict(head, &ordered, &rows, metric),
            changes: Vec::new(),
        }
    }

    /// The last reason why there is no result of a pair that had its turn.
    fn why(&self, pair: Pair) -> String {
        let reasons = self.times.iter().rev().filter_map(|matrix| match matrix.get(pair) {
            Some(Cell::Missing(why)) => Some(why.as_str()),
            _ => None,
        });
        let had_its_turn = reasons.clone().find(|why| *why != NO_TURN);
        had_its_turn.unwrap_or(NO_TURN).to_owned()
    }
}

fn verdict(
    head: &Head,
    pairs: &[Pair],
    times: &[Vec<Option<f64>>],
    metric: &Metric,
) -> FleetVerdict {
    let ends: Vec<_> = pairs.iter().map(|pair| (pair.from, pair.to)).collect();
    let found = judging::judge(&Table { pairs: &ends, times, better: metric.better });
    let answer = |answer| match answer {
        Answer::Told => FleetAnswer::Told,
        Answer::NeedsTimes(times) => FleetAnswer::NeedsTimes { times },
        Answer::NotApart => FleetAnswer::NotApart,
        Answer::FewPairs => FleetAnswer::FewPairs,
        Answer::ManyPairs => FleetAnswer::ManyPairs,
    };
    let role = |role| match role {
        Role::Client => FleetRole::Client,
        Role::Server => FleetRole::Server,
        Role::Both => FleetRole::Both,
    };
    let bad = |bad: Bad| {
        let (host, link) = match bad.what {
            What::Host(host, as_what) => (Some((head.host(host), role(as_what))), None),
            What::Link(pair) => (None, pairs.get(pair)),
        };
        FleetBad {
            role: host.as_ref().map(|(_, role)| *role),
            host: host.map(|(host, _)| host),
            from: link.map(|pair| head.host(pair.from)),
            to: link.map(|pair| head.host(pair.to)),
            worse_by: bad.worse_by,
            low: bad.interval.map(|(low, _)| low),
            high: bad.interval.map(|(_, high)| high),
        }
    };
    FleetVerdict {
        hosts: answer(found.hosts),
        links: answer(found.links),
        usual: found.usual,
        bad: found.bad.into_iter().map(bad).collect(),
    }
}
