//! The document that is made of the results.

use linerate_analysis::fleet::{self as judging, Answer, Bad, Role, Table, What};
use linerate_analysis::metric::Metric;
use linerate_fleet::matrix::Cell;
use linerate_fleet::plan::Pair;
use linerate_model::fleet::{
    FORMAT, FleetAnswer, FleetBad, FleetChange, FleetDocument, FleetPair, FleetRole, FleetVerdict,
};
use linerate_model::record::ProgramFacts;

use super::{Found, Head, NO_TURN, Results};

impl Results {
    /// The changes that all kept times report, those that are not over among them.
    fn changes(&self, head: &Head) -> Vec<FleetChange> {
        let (mut watched, looked) = self.watched.clone();
        let more = (looked..self.all_times()).flat_map(|time| self.look(&mut watched, time, head));
        let more: Vec<Found> = more.collect();
        self.found.iter().chain(&more).map(|found| found.change.clone()).collect()
    }

    pub(in crate::fleet) fn document(&self, head: &Head, interrupted: bool) -> FleetDocument {
        let metric = self.metric;
        let rows: Vec<_> = (0..self.times.len()).map(|kept| self.row(kept)).collect();
        let pairs = self.ordered.iter().enumerate().map(|(at, pair)| {
            let values: Vec<_> = rows.iter().map(|row| row.get(at).copied().flatten()).collect();
            let value = judging::median_of(&values);
            let tries = self.times.iter().filter_map(|time| time.tries.get(at));
            FleetPair {
                from: head.host(pair.from),
                to: head.host(pair.to),
                tries: tries.fold(0, |sum: u32, tries| sum.saturating_add(*tries)),
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
            times: u32::try_from(self.times.len()).unwrap_or(u32::MAX),
            deleted: u32::try_from(self.deleted.times).unwrap_or(u32::MAX),
            begun: self.times.iter().map(|time| time.begun.clone()).collect(),
            at_once: head.at_once,
            set: head.set.clone(),
            rounds: self.times.iter().map(|time| time.rounds).sum(),
            interrupted,
            pairs: pairs.collect(),
            verdict: verdict(head, &self.ordered, &rows, metric),
            changes: self.changes(head),
        }
    }

    /// The last reason why there is no result of a pair that had its turn.
    fn why(&self, pair: Pair) -> String {
        let reasons = self.times.iter().rev().filter_map(|time| match time.cells.get(pair) {
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
        Answer::Judged => FleetAnswer::Judged,
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
