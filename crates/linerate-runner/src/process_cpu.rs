//! What share of a core this process takes.

use linerate_engine::clock;
use linerate_model::test_event::Cpu;

/// CPU time of this process since some moment, as iperf3 counts it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessCpu {
    at_ns: u64,
    used: (u64, u64),
}

impl ProcessCpu {
    pub(crate) fn start() -> Self {
        Self { at_ns: clock::monotonic_ns(), used: clock::process_cpu_ns() }
    }

    /// Percent of one core since the start.
    pub(crate) fn percent(&self) -> Cpu {
        let span = clock::monotonic_ns().saturating_sub(self.at_ns).max(1) as f64;
        let now = clock::process_cpu_ns();
        let share = |now: u64, before: u64| 100.0 * now.saturating_sub(before) as f64 / span;
        let (user, system) = (share(now.0, self.used.0), share(now.1, self.used.1));
        Cpu { total: user + system, user, system }
    }
}
