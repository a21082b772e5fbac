//! Whether an end of a test lacked CPU, and who had it.
//!
//! Only the data threads' own time counts: an end lacked CPU where its busiest thread ran, or stood
//! ready and waited for a core, or had its core taken by interrupts and the hypervisor, for nearly all of
//! the time. A thread that slept was not held back, whatever its core did.

use linerate_model::record::{CpuFigures, HostFigures, Limit, ReceiverFigures, SenderFigures};

/// A thread that wanted a core for this share of the time, in percent, had no time left: a scheduler's
/// tick of the hundred may be lost to rounding.
const FULL_PERCENT: f64 = 90.0;
/// Others had a core that a thread stood ready for, in percent of the time, where they are to blame.
const TAKEN_PERCENT: f64 = 20.0;
/// The same where the thread had time left all the same: it waited in a chain of which every wait counts.
const TAKEN_FROM_CHAIN_PERCENT: f64 = 25.0;
/// The same for a reader, whose buffer overflows within a few milliseconds of waiting.
const TAKEN_FROM_READER_PERCENT: f64 = 15.0;
/// A cgroup that throttled an end for this share of the time, or longer, left it no time.
const THROTTLED: f64 = 0.1;
/// A thread of a throttled cgroup stands ready meanwhile; one that hardly did was not touched.
const THROTTLED_READY_PERCENT: f64 = 5.0;

/// One end of a direction.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    /// client or server.
    pub(super) name: &'static str,
    /// What it is blamed as.
    pub(super) limit: Limit,
    pub(super) cpu: Option<&'a CpuFigures>,
    host: Option<&'a HostFigures>,
    /// Measured time.
    seconds: f64,
}

/// Who had the CPU that an end lacked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Lack {
    /// Its own work: this test's threads and the packets' softirq.
    Own,
    /// Nobody: its cgroup's limit kept it from running for so many seconds, those of all cores added up.
    Throttled(f64),
    /// Other programs of its host.
    Programs,
    /// Other machines of its hypervisor.
    Hypervisor,
}

impl<'a> End<'a> {
    pub(super) fn sender(name: &'static str, figures: &'a SenderFigures) -> Self {
        let (cpu, host) = (figures.cpu.as_ref(), figures.host.as_ref());
        Self { name, limit: Limit::SenderCpu, cpu, host, seconds: figures.seconds }
    }

    pub(super) fn receiver(name: &'static str, figures: &'a ReceiverFigures) -> Self {
        let (cpu, host) = (figures.cpu.as_ref(), figures.host.as_ref());
        Self { name, limit: Limit::ReceiverCpu, cpu, host, seconds: figures.seconds }
    }

    pub(super) fn of(
        name: &'static str,
        limit: Limit,
        cpu: Option<&'a CpuFigures>,
        host: Option<&'a HostFigures>,
        seconds: f64,
    ) -> Self {
        Self { name, limit, cpu, host, seconds }
    }

    fn own(&self) -> f64 {
        self.cpu.map_or(0.0, |cpu| cpu.thread_percent)
    }

    fn ready(&self) -> f64 {
        self.cpu.and_then(|cpu| cpu.ready_percent).unwrap_or(0.0)
    }

    /// Of what took the core from under a thread that did not sleep, the hypervisor's part.
    fn stolen(&self) -> f64 {
        let taken = self.cpu.and_then(|cpu| cpu.interrupted_percent).unwrap_or(0.0);
        taken.min(self.cpu.and_then(|cpu| cpu.steal_percent).unwrap_or(0.0))
    }

    /// Share of the time in which its busiest thread had work to do, in percent.
    pub(super) fn wanted(&self) -> f64 {
        let interrupted = self.cpu.and_then(|cpu| cpu.interrupted_percent).unwrap_or(0.0);
        self.own() + self.ready() + interrupted
    }

    /// Who had the CPU that this end lacked; `None` when it lacked none.
    pub(super) fn lack(&self) -> Option<Lack> {
        if let Some(throttled) = self.throttled() {
            return Some(Lack::Throttled(throttled));
        }
        if self.wanted() < FULL_PERCENT {
            return None;
        }
        Some(self.taken_by(TAKEN_PERCENT).unwrap_or(Lack::Own))
    }

    /// Its own work filled its core.
    pub(super) fn is_full(&self) -> bool {
        self.lack() == Some(Lack::Own)
    }

    /// Others had its cores for a part of the time that it wanted them, though not for all of it.
    pub(super) fn was_kept_waiting(&self) -> Option<Lack> {
        self.taken_by(TAKEN_FROM_CHAIN_PERCENT)
    }

    /// The same for a reader whose buffer overflowed: it overflows while the reader waits, not on average.
    pub(super) fn was_kept_from_reading(&self) -> Option<Lack> {
        self.taken_by(TAKEN_FROM_READER_PERCENT)
    }

    /// Share of the time that others took from it, in percent.
    pub(super) fn taken(&self) -> f64 {
        if self.others_ran() { self.ready() + self.stolen() } else { self.stolen() }
    }

    /// Who had most of what others took from it.
    pub(super) fn taker(&self) -> Lack {
        if self.stolen() * 2.0 >= self.taken() { Lack::Hypervisor } else { Lack::Programs }
    }

    fn taken_by(&self, least: f64) -> Option<Lack> {
        (self.taken() >= least).then(|| self.taker())
    }

    /// Where other programs hardly ran, this test's own threads waited for each other.
    fn others_ran(&self) -> bool {
        self.cpu.and_then(|cpu| cpu.others_percent).is_none_or(|others| others >= TAKEN_PERCENT)
    }

    /// How long its cgroup throttled it, in seconds of all cores together, if that is what left it no time.
    fn throttled(&self) -> Option<f64> {
        let seconds = self.host?.throttled_s?;
        let ready = self.cpu.and_then(|cpu| cpu.ready_percent);
        let felt = ready.is_none_or(|percent| percent >= THROTTLED_READY_PERCENT);
        (self.seconds > 0.0 && felt && seconds >= self.seconds * THROTTLED).then_some(seconds)
    }

    /// The limit that lacking CPU so is.
    pub(super) fn blamed(&self, lack: Lack) -> Limit {
        match lack {
            Lack::Own | Lack::Throttled(_) => self.limit,
            Lack::Programs | Lack::Hypervisor => Limit::OtherWork,
        }
    }

    /// Evidence: "the server's data thread ran 62 % of the time on core 2 (31 % softirq)".
    pub(super) fn lack_text(&self, lack: Lack) -> String {
        let name = self.name;
        let ran = self.thread_text();
        match lack {
            Lack::Own => format!("the {name} had no time left: {ran}"),
            Lack::Throttled(seconds) => format!(
                "the {name} was throttled by its cgroup's CPU limit for {seconds:.2} core-seconds in {:.2} s",
                self.seconds
            ),
            Lack::Programs => format!("other programs had the {name}'s cores: {ran}"),
            Lack::Hypervisor => format!(
                "the hypervisor took {:.0} % of the {name}'s time on its core: {ran}",
                self.stolen()
            ),
        }
    }

    /// "its data thread ran 12 % of the time on core 2 and waited 3 % for it (71 % softirq)".
    pub(super) fn thread_text(&self) -> String {
        let Some(cpu) = self.cpu else { return "its CPU is not known".to_owned() };
        let Some(core) = cpu.core else {
            return format!("its process took {:.0} % of a core", cpu.thread_percent);
        };
        let mut text =
            format!("its data thread ran {:.0} % of the time on core {core}", cpu.thread_percent);
        if let Some(ready) = cpu.ready_percent.filter(|ready| *ready >= 1.0) {
            text.push_str(&format!(" and waited {ready:.0} % for a core"));
        }
        if let Some(softirq) = cpu.softirq_percent.filter(|softirq| *softirq >= 10.0) {
            text.push_str(&format!(" ({softirq:.0} % of that core was softirq)"));
        }
        text
    }
}
