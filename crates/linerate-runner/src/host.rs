//! This host's own counters beside a test.

use linerate_host::sampler::{Reading, Sampler};
use linerate_model::sample::HostSample;
use linerate_session::assemble::HostSamples;

use crate::data::DataEvent;

/// Cores that are told: the busiest, where a host has more.
pub(crate) const MOST_CORES: usize = 128;

/// Reads the host's counters when the data threads say that a span begins or ends, so that the
/// shares of cores are over the same time as those of threads, in rows and in totals.
///
/// Cores and the pressure on them are counted over the measured time: from the first datagram or
/// octet until nothing more is sent. Counters are counted from before it (or from the end of the
/// warm-up) until the last datagram was waited for, because a drop at either edge is this test's.
#[derive(Debug)]
pub(crate) struct HostWatch {
    sampler: Sampler,
    counters_from: Reading,
    begun: Option<Reading>,
    over: Option<Reading>,
    row_from: Reading,
    rows: Vec<HostSample>,
}

impl HostWatch {
    /// Before the first data; `nic` is the interface of the test.
    pub(crate) fn new(nic: Option<&str>) -> Self {
        let mut sampler = Sampler::new(nic);
        let now = sampler.read();
        Self {
            sampler,
            counters_from: now.clone(),
            begun: None,
            over: None,
            row_from: now,
            rows: Vec::new(),
        }
    }

    /// What was counted so far belongs to the warm-up.
    pub(crate) fn warm(&mut self) {
        self.counters_from = self.sampler.read();
    }

    /// The first stream's word counts: the others' spans begin and end with it.
    pub(crate) fn on_event(&mut self, event: &DataEvent) {
        match event {
            DataEvent::Begun if self.begun.is_none() => {
                let now = self.sampler.read();
                self.row_from = now.clone();
                self.begun = Some(now);
            }
            DataEvent::Tick(_, index, _)
                if self.over.is_none() && self.rows.len() as u64 <= *index =>
            {
                self.end_row();
            }
            _ => {}
        }
    }

    fn end_row(&mut self) -> Reading {
        let now = self.sampler.read();
        self.rows.push(trim(now.since(&self.row_from)));
        self.row_from = now.clone();
        now
    }

    /// Nothing more is sent, at neither end.
    pub(crate) fn over(&mut self) {
        if self.begun.is_some() && self.over.is_none() {
            self.over = Some(self.end_row());
        }
    }

    /// One interval, once it is over.
    pub(crate) fn row(&self, index: u64) -> Option<HostSample> {
        self.rows.get(usize::try_from(index).ok()?).cloned()
    }

    /// Everything, once nothing is waited for any more.
    pub(crate) fn finish(&mut self) -> HostSamples {
        self.over();
        let now = self.sampler.read();
        let mut total = now.since(&self.counters_from);
        if let (Some(begun), Some(over)) = (&self.begun, &self.over) {
            let HostSample { cores, cpu_pressure, span_ns, .. } = over.since(begun);
            total = HostSample { cores, cpu_pressure, span_ns, ..total };
        }
        HostSamples {
            intervals: std::mem::take(&mut self.rows),
            total: Some(trim(total)),
            irq_cores: self.sampler.irq_cores_delta(),
        }
    }
}

/// Keeps the busiest cores of a large host.
fn trim(mut sample: HostSample) -> HostSample {
    if sample.cores.len() > MOST_CORES {
        sample.cores.sort_by_key(|core| core.idle);
        sample.cores.truncate(MOST_CORES);
        sample.cores.sort_by_key(|core| core.core);
    }
    sample
}
