//! A test while it runs: rates, loss by its place, both ends' cores, delay, the verdict so far.

mod draw;
mod flows;
mod rate;

use std::collections::BTreeMap;

use linerate_model::activity::CoreActivity;
use linerate_model::record::{Interval, RunRecord, Verdict};
use linerate_model::sample::HostSample;
use linerate_report::number;
use linerate_report::run::words;

use flows::Lost;

pub use rate::{Rate, Turn};

/// What is known of the test.
#[derive(Debug, Clone, Default)]
pub struct TestView {
    /// As both ends agreed; no figures.
    record: Option<RunRecord>,
    /// The newest.
    rows: Vec<Interval>,
    /// Of all rows, one a direction.
    lost: Vec<Lost>,
    /// The client's cores and the server's in the last interval, as far as they are reported.
    cores: [Vec<CoreActivity>; 2],
    /// Seconds of the measured time, below zero in the warm-up; nothing before the test has begun.
    measured_s: Option<f64>,
    rate: Rate,
    /// When the rate changed last, in seconds of the measured time: what began before is not of this rate alone.
    changed_s: Option<f64>,
    verdict: Option<Verdict>,
    marks: usize,
    /// What is shown while the screen stands still.
    held: Option<Box<TestView>>,
    /// Over the keys, until the next key.
    message: Option<String>,
    help: bool,
    ending: bool,
}

/// Rows that are kept, and as many more until the older ones go.
const KEPT: usize = 1_200;
/// The verdict is of the last so many rows at one rate.
const JUDGED: usize = 10;

impl TestView {
    /// Both ends agreed, and the streams are there.
    pub fn start(&mut self, record: &RunRecord) {
        self.rate = Rate::of(record);
        self.record = Some(record.clone());
    }

    /// What the hosts did in the interval that comes next.
    pub fn hosts(&mut self, client: Option<&HostSample>, server: Option<&HostSample>) {
        let cores = |host: Option<&HostSample>| -> Vec<CoreActivity> {
            host.map(|host| host.cores.iter().map(CoreActivity::from).collect()).unwrap_or_default()
        };
        self.cores = [cores(client), cores(server)];
    }

    /// An interval is over.
    pub fn interval(&mut self, interval: &Interval) {
        if self.rows.len() >= 2 * KEPT {
            self.rows.drain(..KEPT);
        }
        self.rows.push(interval.clone());
        for (place, flow) in flows::flows(&interval.figures).iter().enumerate() {
            if self.lost.len() <= place {
                self.lost.push(Lost::default());
            }
            if let Some(lost) = self.lost.get_mut(place) {
                lost.add(flow);
            }
        }
    }

    /// So many seconds of the measured time have passed, below zero in the warm-up.
    pub fn elapsed(&mut self, measured_s: f64) {
        self.measured_s = Some(measured_s);
    }

    /// What is to be judged: the test as it began, rows that were all at one rate, and that rate (`None` is as fast
    /// as it goes).
    pub fn judged(&self) -> Option<(&RunRecord, &[Interval], Option<u64>)> {
        let record = self.record.as_ref()?;
        // Rows come some time after their end: their start, not their number, says which are of this rate alone.
        let mixed = |row: &Interval| self.changed_s.is_some_and(|at_s| row.start_s < at_s);
        let pure = self.rows.iter().rposition(mixed).map_or(0, |at| at + 1);
        let first = pure.max(self.rows.len().saturating_sub(JUDGED));
        let rows = self.rows.get(first..).filter(|rows| !rows.is_empty())?;
        Some((record, rows, self.rate.now()))
    }

    /// What limits it so far.
    pub fn judge(&mut self, verdict: Option<Verdict>) {
        self.verdict = verdict;
    }

    /// That in words.
    pub fn so_far(&self) -> String {
        let Some(verdict) = &self.verdict else {
            return "so far: too little is known for a verdict".to_owned();
        };
        let because = verdict.because.first().map(|because| format!(": {because}"));
        format!("so far {}{}", words::headline(verdict.limit), because.unwrap_or_default())
    }

    /// What was lost of each direction so far, forward first, by the names that a record has for its places.
    pub(crate) fn lost(&self) -> Vec<BTreeMap<&'static str, u64>> {
        self.lost.iter().map(Lost::known).collect()
    }

    /// A key asks for another rate: the new one in bit/s, or nothing, and in words why not.
    pub fn turn(&mut self, turn: Turn) -> Option<u64> {
        // Not of an interval in which other programs kept the sender from its core.
        let sent = |row: &Interval| flows::flows(&row.figures).first()?.sent_bps();
        let sent = self.rows.iter().rev().filter_map(sent).find(|bps| *bps > 0.0);
        match self.rate.turn(turn, sent) {
            Ok(bps) => {
                self.changed_s = self.measured_s;
                self.verdict = None;
                // A paused screen still shows the old rate.
                if self.held.is_some() {
                    self.say(Some(format!("rate {}", number::rate(bps as f64))));
                }
                Some(bps)
            }
            Err(why) => {
                self.say(Some(why));
                None
            }
        }
    }

    /// A moment was marked with this number, at this second of the measured time, or could not be.
    pub fn marked(&mut self, mark: Option<(u32, f64)>) {
        let Some((number, at_s)) = mark else {
            return self.say(Some("there is nothing to mark yet".to_owned()));
        };
        self.marks += 1;
        self.say(Some(format!("mark {number} at {at_s:.1} s; it is kept in the record")));
    }

    /// Stands still, or goes on.
    pub fn pause(&mut self) {
        self.held = match self.held.take() {
            Some(_) => None,
            None => Some(Box::new(Self { help: false, message: None, ..self.clone() })),
        };
    }

    /// Shows the keys, or no longer.
    pub fn toggle_help(&mut self) {
        self.help = !self.help;
    }

    /// Says something in place of the keys; nothing brings them back.
    pub fn say(&mut self, message: Option<String>) {
        self.message = message;
    }

    /// The test is told to end.
    pub fn end(&mut self) {
        self.ending = true;
    }
}
