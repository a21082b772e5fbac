//! This host's own counters beside a test.

mod counters;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linerate_host::sampler::{IrqCounts, Reading};
use linerate_model::host::HostFacts;
use linerate_model::sample::{HostSample, LostLink};
use linerate_session::assemble::HostSamples;
use tokio::sync::oneshot::error::TryRecvError;

use crate::data::DataEvent;
use crate::standstill;
use counters::{Counted, Counters, Late};

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
    /// Whether the measured time has begun; its first reading, if that came in time.
    has_begun: bool,
    begun: Option<Arc<Reading>>,
    /// The same of its end.
    is_over: bool,
    over: Option<Arc<Reading>>,
    row_from: Option<Arc<Reading>>,
    /// A reading did not come in time …
    behind: bool,
    /// … and the last of these has not come yet.
    late: Late<Counted>,
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
            None => Err(None),
        };
        let (now, late) = match now {
            Ok(now) => (Some(now), None),
            Err(late) => (None, late),
        };
        let reading = now.as_ref().map(|now| Arc::clone(&now.reading));
        Self {
            counters,
            counters_from: reading.clone(),
            irqs_from: now.and_then(|now| now.irqs),
            nic: nic.map(str::to_owned),
            stopped_from_ns: standstill::stopped_ns(),
            links_from: nic.and_then(standstill::lost_links),
            has_begun: false,
            begun: None,
            is_over: false,
            over: None,
            row_from: reading,
            behind: false,
            late,
            rows: Vec::new(),
        }
    }

    /// `None` at once while a late one has not come yet: a test that waited for each would not say in time that it is there.
    async fn read(&mut self) -> Option<Arc<Reading>> {
        let counters = self.counters.as_ref()?;
        if let Some(late) = &mut self.late
            && matches!(late.try_recv(), Err(TryRecvError::Empty))
        {
            return None;
        }
        let (read, late) = match counters.read(false).await {
            Ok(counted) => (Some(counted.reading), None),
            Err(late) => (None, late),
        };
        self.behind |= read.is_none();
        self.late = late;
        read
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
            DataEvent::Begun if !self.has_begun => {
                self.has_begun = true;
                self.begun = self.read().await;
                self.row_from.clone_from(&self.begun);
            }
            DataEvent::Tick(_, index, _) if !self.is_over && self.rows.len() as u64 <= *index => {
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
        if self.has_begun && !std::mem::replace(&mut self.is_over, true) {
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
            Some(counters) => counters.read(true).await.ok(),
            None => None,
        };
        let grown = |now: &Counted| Some(now.reading.since(self.counters_from.as_ref()?));
        let mut total = now.as_ref().and_then(grown);
        match (&mut total, &self.begun, &self.over) {
            (Some(all), Some(begun), Some(over)) => {
                let HostSample { cores, cpu_pressure, span_ns, .. } = over.since(begun);
                *all = HostSample { cores, cpu_pressure, span_ns, ..std::mem::take(all) };
            }
            // Counted for longer than the data threads ran. What was dropped was dropped.
            (Some(all), ..) if self.behind => {
                *all = HostSample { cores: vec![], cpu_pressure: None, ..std::mem::take(all) };
            }
            _ => {}
        }
        // After a stop this may run before the thread that notices it.
        for _ in 0..MOST_LATE {
            if !standstill::is_late() {
                break;
            }
            tokio::time::sleep(LATE).await;
        }
        let stopped_ns = standstill::stopped_ns().saturating_sub(self.stopped_from_ns);
        let lost_link = self.links().zip(self.links_from).map(|(now, from)| now.since(from));
        let total = told(total, stopped_ns, lost_link);
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

/// With what is told without counters as well: that this end was stopped, and that its link was lost, as a driver that
/// takes its time over a change of the link keeps the kernel from all of them.
fn told(
    mut total: Option<HostSample>,
    stopped_ns: u64,
    lost_link: Option<LostLink>,
) -> Option<HostSample> {
    if total.is_some() || stopped_ns > 0 {
        total.get_or_insert_default().stopped_ns = Some(stopped_ns);
    }
    if let Some(lost) = lost_link.filter(|lost| *lost != LostLink::default()) {
        total.get_or_insert_default().lost_link = Some(lost);
    }
    total
}

/// Keeps the busiest cores of a large host, and the memory that these need.
fn trim(mut sample: HostSample, most: usize) -> HostSample {
    let more = sample.cores.len().saturating_sub(most);
    if more > 0 {
        sample.cores.sort_by_key(|core| core.idle);
        sample.cores.truncate(most);
        sample.cores.sort_unstable_by_key(|core| core.core);
        sample.left_out = Some(u32::try_from(more).unwrap_or(u32::MAX));
    }
    sample.cores.shrink_to_fit();
    sample
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::TryRecvError;

    use linerate_dialect::stream::Tick;
    use linerate_host::roots::Roots;
    use linerate_host::sampler::{Clocks, Sampler};
    use linerate_model::host::CoreUse;
    use linerate_model::sample::SendInterval;
    use linerate_wire::native::frame;
    use linerate_wire::native::message::{Results, ServerMessage};
    use tokio::sync::oneshot;

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

    #[test]
    fn what_is_not_of_the_counters_is_told_without_them() {
        let lost = LostLink { times: 1, least_ns: 5 };
        let of = |total, stopped_ns, lost_link| {
            told(total, stopped_ns, lost_link).map(|total| (total.stopped_ns, total.lost_link))
        };
        assert_eq!(of(None, 0, Some(LostLink::default())), None);
        assert_eq!(of(None, 7, None), Some((Some(7), None)));
        assert_eq!(of(None, 0, Some(lost)), Some((None, Some(lost))));
        assert_eq!(of(Some(HostSample::default()), 0, None), Some((Some(0), None)));
    }

    /// A host at two times.
    fn samplers() -> [Sampler; 2] {
        let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../linerate-host/tests/captured");
        ["before", "after"].map(|tree| Sampler::at(Roots::at(format!("{host}/{tree}")), None))
    }

    fn counted(sampler: &mut Sampler) -> Counted {
        Counted { reading: Arc::new(sampler.read(Clocks::default())), irqs: None }
    }

    /// Others hold the kernel's interfaces for a while of a test of minutes, from before its first row or before that.
    #[test]
    fn rows_are_told_again_once_a_late_reading_has_come() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let of = |late: usize| {
            let (asks, asked) = std::sync::mpsc::channel();
            let (held, came) = (Cell::new(true), Cell::new(false));
            let watch = async {
                let mut watch = HostWatch::of(Some(Counters::of(asks, None)), None).await;
                watch.on_event(&DataEvent::Begun).await;
                for index in 0..4 {
                    if index == 2 {
                        held.set(false);
                        while !came.get() {
                            tokio::time::sleep(LATE / 10).await;
                        }
                    }
                    let tick = Tick::Send(SendInterval::default());
                    watch.on_event(&DataEvent::Tick(0, index, tick)).await;
                }
                watch.finish().await
            };
            let answer = async {
                let [mut before, mut after] = samplers();
                let mut kept: Option<oneshot::Sender<Counted>> = None;
                let (mut number, mut since) = (0, 0);
                loop {
                    if let Some(answer) = kept.take_if(|_| !held.get()) {
                        let _ = answer.send(counted(&mut before));
                        came.set(true);
                    }
                    match asked.try_recv() {
                        Ok(Ask::Read(_, _, answer)) if number == late => {
                            (number, kept) = (number + 1, Some(answer));
                        }
                        Ok(Ask::Read(_, _, answer)) => {
                            (number, since) = (number + 1, since + u32::from(came.get()));
                            let sampler = if since < 2 { &mut before } else { &mut after };
                            let _ = answer.send(counted(sampler));
                        }
                        Ok(_) => {}
                        Err(TryRecvError::Empty) => tokio::time::sleep(LATE / 10).await,
                        Err(TryRecvError::Disconnected) => return,
                    }
                }
            };
            let (samples, ()) = runtime.block_on(async { tokio::join!(watch, answer) });
            let known = |row: &HostSample| !row.cores.is_empty();
            let rows: Vec<bool> = samples.intervals.iter().take(4).map(known).collect();
            (samples.intervals.len(), rows, samples.total.as_ref().map(known))
        };
        // The fifth ends with the test. Of the totals nothing is known without a first reading.
        let rows = vec![false, false, false, true];
        assert_eq!([0, 2].map(of), [(5, rows.clone(), None), (5, rows, Some(true))]);
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
                let mut samplers = samplers();
                let (mut number, mut kept) = (0, None);
                loop {
                    match asked.try_recv() {
                        Ok(Ask::Read(_, _, answer)) if number == late => {
                            (number, kept) = (number + 1, Some(answer));
                        }
                        Ok(Ask::Read(_, _, answer)) => {
                            let _ = answer.send(counted(&mut samplers[number / 2]));
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
