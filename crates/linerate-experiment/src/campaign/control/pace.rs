//! How long a campaign still takes.

use linerate_model::campaign::Slot;

/// What time the runs take beyond their own, learnt from those that ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Seconds of a run beyond its nominal time: set-up, settings, keeping.
    pub overhead_s: f64,
    /// Seconds of a reboot until the host answers again.
    pub boot_s: f64,
}

impl Default for Pace {
    /// Guesses for the time before the first run; a virtual machine boots in a tenth of this, a
    /// server with much memory takes five times as long.
    fn default() -> Self {
        Self { overhead_s: 1.0, boot_s: 60.0 }
    }
}

impl Pace {
    /// Seconds that `open` slots and `reboots` still take; `nominal` is the time of a setting's run.
    pub fn left<'a>(
        &self,
        open: impl Iterator<Item = &'a Slot>,
        reboots: u32,
        nominal: impl Fn(&str) -> f64,
    ) -> f64 {
        let runs: f64 = open.map(|slot| nominal(&slot.setting) + self.overhead_s).sum();
        runs + f64::from(reboots) * self.boot_s
    }
}
