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

/// Cores of a row that are reported: the busiest, where a host has more.
const MOST_CORES: usize = 128;
/// The same of totals, in which all cores are added up: as many as one message to the other end has room for.
const MOST_OF_TOTALS: usize = 512;

/// Cores that a row may hold: of a host those on line, whichever this process may use.
pub(crate) fn cores_of_a_row() -> usize {
    let online = counters::last_facts().cores.and_then(|cores| usize::try_from(cores).ok());
    online.map_or(MOST_CORES, |cores| cores.min(MOST_CORES))
}

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
    /// A reading did not come in time.
    behind: bool,
    rows: Vec<HostSample>,
}

impl HostWatch {
    /// Before the first data; `nic` is the interface of the test.
    pub(crate) async fn new(nic: Option<&str>) -> Self {
        Self::of(Counters::open(nic), nic).await
    }

    async fn of(counters: Option<Counters>, nic: Option<&str>) -> Self {
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
            behind: false,
            rows: Vec::new(),
        }
    }

    /// Where one is missing, so are all after it but the last: what was counted until then would be counted for a longer time.
    async fn read(&mut self) -> Option<Arc<Reading>> {
        let counters = self.counters.as_ref().filter(|_| !self.behind)?;
        let read = counters.read(false).await;
        self.behind = read.is_none();
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
        self.rows.push(trim(row.unwrap_or_default(), MOST_CORES));
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
        if let Some(all) = total.as_mut().filter(|_| self.behind) {
            // Counted for longer than the data threads ran. What was dropped was dropped.
            *all = HostSample { cores: vec![], cpu_pressure: None, ..std::mem::take(all) };
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
            total: total.map(|total| trim(total, MOST_OF_TOTALS)),
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

/// Keeps the busiest cores of a large host, and the memory that these need.
fn trim(mut sample: HostSample, most: usize) -> HostSample {
    let more = sample.cores.len().saturating_sub(most);
    if more > 0 {
        sample.cores.sort_by_key(|core| core.idle);
        sample.cores.truncate(most);
        sample.cores.sort_by_key(|core| core.core);
        sample.left_out = Some(u32::try_from(more).unwrap_or(u32::MAX));
    }
    sample.cores.shrink_to_fit();
    sample
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::TryRecvError;

    use linerate_host::roots::Roots;
    use linerate_host::sampler::{Clocks, Sampler};
    use linerate_model::host::CoreUse;
    use linerate_wire::native::frame;
    use linerate_wire::native::message::{Results, ServerMessage};

    use super::counters::Ask;
    use super::*;

    /// So many cores, of which the first ones are busy for 90 % of the time.
    fn host(cores: u32, busy: u32) -> HostSample {
        let core = |core: u32| {
            let user = if core < busy { 9_000 } else { 0 };
            CoreUse { core, user, idle: 10_000 - user, ..CoreUse::default() }
        };
        HostSample { cores: (0..cores).map(core).collect(), ..HostSample::default() }
    }

    #[test]
    fn a_row_is_of_the_busiest_cores_and_holds_no_memory_of_the_others() {
        let row = trim(host(512, 130), MOST_CORES);
        assert_eq!((row.cores.len(), row.left_out), (MOST_CORES, Some(384)));
        assert!(row.cores.capacity() < 2 * MOST_CORES, "{}", row.cores.capacity());
        assert!(row.cores.iter().all(|core| core.user == 9_000), "{row:?}");
        assert!(row.cores.is_sorted_by_key(|core| core.core), "{row:?}");
        assert_eq!(trim(host(MOST_CORES as u32, 3), MOST_CORES).left_out, None);
    }

    #[test]
    fn totals_are_of_all_cores_or_say_that_they_are_not() {
        let total = trim(host(192, 130), MOST_OF_TOTALS);
        let idle = total.cores.iter().filter(|core| core.idle >= 5_000);
        assert_eq!((idle.count(), total.left_out), (62, None));
        let total = trim(host(600, 130), MOST_OF_TOTALS);
        assert_eq!((total.cores.len(), total.left_out), (MOST_OF_TOTALS, Some(88)));
    }

    /// Where others hold the kernel's interfaces for longer than a test waits, for instance.
    #[test]
    fn a_reading_that_comes_too_late_takes_no_counters_of_the_totals_with_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let of = |late: usize| {
            let (asks, asked) = std::sync::mpsc::channel();
            let watch = async {
                let mut watch = HostWatch::of(Some(Counters::of(asks, None)), None).await;
                watch.on_event(&DataEvent::Begun).await;
                watch.over().await;
                watch.finish().await
            };
            // On the same thread: where it has no core, nobody's patience ends.
            let answer = async {
                let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../linerate-host/tests/captured");
                let at = |tree| Sampler::at(Roots::at(format!("{host}/{tree}")), None);
                let mut samplers = [at("before"), at("after")];
                let (mut number, mut kept) = (0, None);
                loop {
                    match asked.try_recv() {
                        Ok(Ask::Read(_, _, answer)) if number == late => {
                            (number, kept) = (number + 1, Some(answer));
                        }
                        Ok(Ask::Read(_, _, answer)) => {
                            let reading = Arc::new(samplers[number / 2].read(Clocks::default()));
                            let _ = answer.send(Counted { reading, irqs: None });
                            number += 1;
                        }
                        Ok(_) => {}
                        Err(TryRecvError::Empty) => tokio::time::sleep(LATE / 10).await,
                        Err(TryRecvError::Disconnected) => return drop(kept),
                    }
                }
            };
            let (samples, ()) = runtime.block_on(async { tokio::join!(watch, answer) });
            samples.total.map(|total| !total.cores.is_empty())
        };
        assert_eq!([9, 1, 2, 3].map(of), [Some(true), Some(false), Some(false), None]);
    }

    #[test]
    fn totals_of_the_most_cores_fit_one_message() {
        let all = 10_000;
        let core =
            CoreUse { core: 8_191, user: all, system: all, softirq: all, steal: all, idle: all };
        let cores = vec![core; MOST_OF_TOTALS];
        let host = HostSample { cores, left_out: Some(u32::MAX), ..HostSample::default() };
        let irq_cores = vec![8_191; MOST_OF_TOTALS];
        let results = Results { host, irq_cores, complete: true };
        let frame = frame::encode(&ServerMessage::Results(Box::new(results))).unwrap();
        // Its counters, and what proves it, have room beside that.
        assert!(frame.len() < frame::MAX_FRAME - 4_096, "{}", frame.len());
    }
}
