//! This host's own counters beside a test.

mod counters;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linerate_host::sampler::{IrqCounts, Reading};
use linerate_model::host::HostFacts;
use linerate_model::sample::{HostSample, LostLink};
use linerate_session::assemble::HostSamples;

use crate::data::DataEvent;
use crate::standstill;
use counters::{Counted, Counters};

/// Cores that are reported: the busiest, where a host has more.
pub(crate) const MOST_CORES: usize = 128;

/// Reads the host's counters when the data threads say that a span begins or ends, so that the
/// shares of cores are over the same time as those of threads, in rows and in totals.
///
/// Cores and the pressure on them are counted over the measured time: from the first datagram or
/// byte until nothing more is sent. Counters are counted from before it (or from the end of the
/// warm-up) until the last datagram was waited for, because a drop at either edge is this test's.
///
/// A thread of its own reads them, for all tests; whoever asks waits without holding others up, and not for long.
#[derive(Debug)]
pub(crate) struct HostWatch {
    counters: Option<Counters>,
    counters_from: Option<Arc<Reading>>,
    irqs_from: Option<IrqCounts>,
    nic: Option<String>,
    stopped_from_ns: u64,
    links_from: Option<LostLink>,
    begun: Option<Arc<Reading>>,
    over: Option<Arc<Reading>>,
    row_from: Option<Arc<Reading>>,
    rows: Vec<HostSample>,
}

impl HostWatch {
    /// Before the first data; `nic` is the interface of the test.
    pub(crate) async fn new(nic: Option<&str>) -> Self {
        let counters = Counters::open(nic);
        let now = match &counters {
            Some(counters) => counters.read(true).await,
            None => None,
        };
        let counters = counters.filter(|_| now.is_some());
        let reading = now.as_ref().map(|now| Arc::clone(&now.reading));
        Self {
            counters,
            counters_from: reading.clone(),
            irqs_from: now.and_then(|now| now.irqs),
            nic: nic.map(str::to_owned),
            stopped_from_ns: standstill::stopped_ns(),
            links_from: nic.and_then(standstill::lost_links),
            begun: None,
            over: None,
            row_from: reading,
            rows: Vec::new(),
        }
    }

    /// Where one is missing, so are all after it: what was counted until then would be counted for a longer time.
    async fn read(&mut self) -> Option<Arc<Reading>> {
        let read = self.counters.as_ref()?.read(false).await;
        if read.is_none() {
            self.counters = None;
        }
        Some(read?.reading)
    }

    /// What was counted so far belongs to the warm-up.
    pub(crate) async fn warm(&mut self) {
        self.counters_from = self.read().await;
        self.stopped_from_ns = standstill::stopped_ns();
        self.links_from = self.links();
    }

    fn links(&self) -> Option<LostLink> {
        standstill::lost_links(self.nic.as_deref()?)
    }

    /// The first stream's word counts: the others' spans begin and end with it.
    pub(crate) async fn on_event(&mut self, event: &DataEvent) {
        match event {
            DataEvent::Begun if self.begun.is_none() => {
                self.begun = self.read().await;
                self.row_from.clone_from(&self.begun);
            }
            DataEvent::Tick(_, index, _)
                if self.over.is_none() && self.rows.len() as u64 <= *index =>
            {
                self.end_row().await;
            }
            _ => {}
        }
    }

    async fn end_row(&mut self) -> Option<Arc<Reading>> {
        let now = self.read().await;
        let row = now.as_ref().zip(self.row_from.as_ref()).map(|(now, from)| now.since(from));
        self.rows.push(trim(row.unwrap_or_default()));
        self.row_from.clone_from(&now);
        now
    }

    /// Nothing more is sent, at neither end.
    pub(crate) async fn over(&mut self) {
        if self.begun.is_some() && self.over.is_none() {
            self.over = self.end_row().await;
        }
    }

    /// One interval, once it is over.
    pub(crate) fn row(&self, index: u64) -> Option<HostSample> {
        self.rows.get(usize::try_from(index).ok()?).cloned()
    }

    /// Everything, once nothing is waited for any more.
    pub(crate) async fn finish(&mut self) -> HostSamples {
        self.over().await;
        let now = match &self.counters {
            Some(counters) => counters.read(true).await,
            None => None,
        };
        let grown = |now: &Counted| Some(now.reading.since(self.counters_from.as_ref()?));
        let mut total = now.as_ref().and_then(grown);
        if let (Some(all), Some(begun), Some(over)) = (&mut total, &self.begun, &self.over) {
            let HostSample { cores, cpu_pressure, span_ns, .. } = over.since(begun);
            *all = HostSample { cores, cpu_pressure, span_ns, ..std::mem::take(all) };
        }
        // After a stop this may run before the thread that notices it.
        for _ in 0..MOST_LATE {
            if !standstill::is_late() {
                break;
            }
            tokio::time::sleep(LATE).await;
        }
        if let Some(total) = &mut total {
            let stopped_ns = standstill::stopped_ns().saturating_sub(self.stopped_from_ns);
            total.stopped_ns = Some(stopped_ns);
        }
        // Not of the counters: a driver that takes its time over a change of the link keeps the kernel from all of them.
        let lost_link = self.links().zip(self.links_from).map(|(now, from)| now.since(from));
        if let Some(lost) = lost_link.filter(|lost| *lost != LostLink::default()) {
            total.get_or_insert_default().lost_link = Some(lost);
        }
        let irqs = now.and_then(|now| now.irqs).zip(self.irqs_from.as_ref());
        HostSamples {
            intervals: std::mem::take(&mut self.rows),
            total: total.map(trim),
            irq_cores: irqs.map(|(now, from)| now.main_cores_since(from)).unwrap_or_default(),
        }
    }
}

/// What this host is, and its interface towards a test's other end: without one where the kernel does not answer in
/// time, and never for long.
pub(crate) async fn facts(towards: SocketAddr) -> HostFacts {
    let found = counters::facts(towards.into()).await;
    found.unwrap_or_else(counters::last_facts)
}

/// Whoever notices stops is waited for so often …
const MOST_LATE: u32 = 50;
/// … and so long.
const LATE: Duration = Duration::from_millis(20);

/// Starts the threads that read and beat, so that a server holds as much before its first test as after it.
pub(crate) fn prepare() {
    let _ = (counters::host(), counters::last_facts());
    standstill::prepare();
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
