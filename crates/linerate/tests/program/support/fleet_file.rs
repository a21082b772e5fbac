//! Files of a fleet's results, made by hand: what `fleet run --keep` writes.

use std::path::{Path, PathBuf};

use linerate_model::campaign::{Event, RunState, StoredRun};
use linerate_store::{Campaign, Meta};
use linerate_testkit::records;
use serde_json::json;

/// A file that is written as long as this is there: all pairs of its hosts each way, the client in the rows.
pub struct FleetFile {
    campaign: Campaign,
    pairs: Vec<(usize, usize)>,
}

impl FleetFile {
    /// A new one.
    pub fn new(path: &Path, hosts: &[&str], times: u32) -> Self {
        let all = 0..hosts.len();
        let pairs = all.clone().flat_map(|a| all.clone().map(move |b| (a, b)));
        let pairs: Vec<(usize, usize)> = pairs.filter(|(a, b)| a != b).collect();
        let head = json!({
            "id": "019b7d2f", "started": "2026-01-02T03:00:00Z", "version": "0.1.0",
            "command": ["linerate", "fleet", "run"], "hosts": hosts, "pairs": pairs,
            "test": ["tcp", "-t", "5s"], "metric": "received_bps", "times": times,
        });
        let meta = Meta {
            name: "fleet".into(),
            plan: head.to_string(),
            plan_path: PathBuf::new(),
            seed: 0,
            created: "2026-01-02T03:00:00Z".into(),
            version: "0.1.0".into(),
        };
        Self { campaign: Campaign::create(path, &meta, &[]).expect("a new file"), pairs }
    }

    fn slot(&self, pair: usize, time: u32) -> u32 {
        time * self.pairs.len() as u32 + pair as u32
    }

    /// A test begins, at a time from 0.
    pub fn begin(&mut self, pair: usize, time: u32) {
        let event = Event::RunBegan { slot: self.slot(pair, time), attempt: 1, extra: false };
        self.campaign.keep(&date(time), &event).expect("room");
    }

    /// It ends: with a figure and a record, or for a reason without either.
    pub fn end(&mut self, pair: usize, time: u32, result: Result<f64, &str>) {
        let slot = self.slot(pair, time);
        let state = if result.is_ok() { RunState::Counted } else { RunState::Failed };
        let record = serde_json::to_string(&records::tcp()).expect("a record");
        let run = StoredRun {
            id: 0,
            slot,
            attempt: 1,
            state,
            boot: 0,
            boot_id: None,
            block: 1,
            setting: String::new(),
            warmup: false,
            number: time + 1,
            started: date(time),
            seconds: 5.25,
            value: result.ok(),
            metric: "received_bps".into(),
            unit: Some("bit/s".into()),
            record: result.is_ok().then_some(record),
            settings: vec![],
            doubts: vec![],
            error: result.err().map(str::to_owned),
        };
        let event = Event::RunEnded { slot, attempt: 1, extra: false, state };
        self.campaign.keep_run(&date(time), &run, &event).expect("room");
    }

    /// All pairs are measured so many times, with the figures of the hosts by their places and the time, from 0.
    pub fn measured(&mut self, times: u32, figure: impl Fn(usize, usize, u32) -> Option<f64>) {
        for time in 0..times {
            for (pair, (from, to)) in self.pairs.clone().into_iter().enumerate() {
                self.begin(pair, time);
                self.end(pair, time, figure(from, to, time).ok_or("no route"));
            }
        }
    }
}

/// Of a time, from 0.
fn date(time: u32) -> String {
    format!("2026-01-02T{:02}:00:00Z", 3 + time)
}
