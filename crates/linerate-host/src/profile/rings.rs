//! The kernel's rings of samples, one a core, and the stacks that came out of them.

use std::io;

use linerate_model::profile::Scope;
use nix::errno::Errno;
use perf_event::data::Record;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, SampleFlag, Sampler};

use super::addresses::Raw;
use super::{Event, FREQUENCY_HZ, PERIOD_CYCLES, Taken};
use crate::roots::Roots;
use crate::text::cpulist;

/// Bytes of a ring: with its page of control less than what `kernel.perf_event_mlock_kb` (516) leaves to any user of
/// each core.
const RING_BYTES: usize = 256 << 10;
/// Frames of a stack, kernel and user together: the network's deepest paths have some 60.
const FRAMES: u16 = 100;
/// Different stacks that are kept: at most 25 MiB.
const MOST_STACKS: usize = 1 << 15;

pub(super) struct Rings {
    rings: Vec<Sampler>,
    scope: Scope,
    event: Event,
}

impl Rings {
    /// A ring for each core that is on, of samples that are not taken yet.
    pub fn open(scope: Scope, event: Event) -> io::Result<Self> {
        let online = "sys/devices/system/cpu/online";
        let online = Roots::host()
            .try_read(online)
            .map_err(|error| io::Error::other(format!("cannot read /{online}: {error}")))?;
        let mut rings = Vec::new();
        for core in cpulist::parse(online.trim()) {
            let mut builder = driven_by(event);
            builder
                .sample(SampleFlag::TID | SampleFlag::CALLCHAIN)
                .sample_max_stack(FRAMES)
                .exclude_kernel(false)
                .comm(true)
                .one_cpu(core as usize);
            match scope {
                Scope::Cores => builder.any_pid(),
                // Rings of threads that come later are those of the one that starts them, if they are of one core.
                Scope::Threads => builder.observe_self().inherit(true),
            };
            rings.push(builder.build()?.sampled(RING_BYTES).map_err(no_ring)?);
        }
        if rings.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no core is told to be on"));
        }
        Ok(Self { rings, scope, event })
    }

    /// Lets the kernel take samples.
    pub fn enable(&mut self) -> io::Result<()> {
        self.rings.iter_mut().try_for_each(|ring| ring.enable())
    }

    /// Lets it take no more. What is in the rings stays.
    pub fn disable(&mut self) {
        for ring in &mut self.rings {
            // One that cannot be stopped goes on until it is closed, and nobody reads it.
            let _ = ring.disable();
        }
    }

    /// Takes what the kernel has written.
    pub fn empty(&mut self, taken: &mut Taken) {
        let Taken { counts, tasks, lost, unstored, throttled } = taken;
        for ring in &mut self.rings {
            while let Some(record) = ring.next_record() {
                let Ok(record) = record.parse_record() else { continue };
                match record {
                    Record::Sample(sample) => {
                        let (Some(pid), Some(tid)) = (sample.pid(), sample.tid()) else { continue };
                        tasks.seen(pid, tid);
                        let chain = sample.callchain().unwrap_or_default().into();
                        let raw = Raw { pid, tid, chain };
                        let room = counts.len() < MOST_STACKS;
                        match counts.get_mut(&raw) {
                            Some(count) => *count += 1,
                            None if room => {
                                counts.insert(raw, 1);
                            }
                            None => *unstored += 1,
                        }
                    }
                    Record::Comm(comm) => tasks.named(comm.pid, comm.tid, &comm.comm),
                    Record::Lost(records) => *lost += records.lost,
                    Record::LostSamples(samples) => *lost += samples.lost,
                    Record::Throttle(_) => *throttled = true,
                    _ => {}
                }
            }
        }
    }

    pub fn scope(&self) -> Scope {
        self.scope
    }

    pub fn event(&self) -> Event {
        self.event
    }

    pub fn cores(&self) -> u32 {
        u32::try_from(self.rings.len()).unwrap_or(u32::MAX)
    }
}

/// Samples that each weigh the same: so much time of a core, or so many cycles.
fn driven_by(event: Event) -> Builder<'static> {
    let mut builder = match event {
        Event::Cycles => Builder::new(Hardware::CPU_CYCLES),
        Event::Clock => Builder::new(Software::CPU_CLOCK),
    };
    match event {
        Event::Cycles => builder.sample_period(PERIOD_CYCLES),
        Event::Clock => builder.sample_frequency(FREQUENCY_HZ.into()),
    };
    builder
}

/// Why an event that was opened has no ring: the kernel answers EPERM where too much memory is locked (`perf_mmap`,
/// kernel/events/core.c).
fn no_ring(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(Errno::EPERM as i32) {
        return error;
    }
    let why = format!(
        "a ring of {} KiB for each core is more locked memory than this user may have: {error}",
        RING_BYTES >> 10
    );
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use super::super::refused;
    use super::*;

    #[test]
    fn every_sample_weighs_the_same() {
        let (cycles, clock) = (driven_by(Event::Cycles), driven_by(Event::Clock));
        assert_eq!((cycles.attrs().freq(), cycles.attrs().sample_period), (0, PERIOD_CYCLES));
        assert_eq!((clock.attrs().freq(), clock.attrs().sample_freq), (1, u64::from(FREQUENCY_HZ)));
    }

    #[test]
    fn memory_that_may_not_be_locked_is_no_filter_and_no_setting() {
        let words = refused(&no_ring(io::Error::from_raw_os_error(1)), Scope::Cores, Some(2));
        assert!(words.why.contains("locked memory"), "{words:?}");
        assert!(!words.why.contains("filter") && !words.why.contains("paranoid"), "{words:?}");
        assert!(words.hints[0].contains("perf_event_mlock_kb"), "{words:?}");
        assert_eq!(no_ring(io::Error::from_raw_os_error(12)).raw_os_error(), Some(12));
    }
}
