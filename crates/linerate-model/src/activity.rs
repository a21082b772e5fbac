//! What a host does, seen without a test: what `linerate watch` shows and prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::host::CoreUse;

/// What a host's own counters gained over a span of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostActivity {
    /// Length of the span.
    pub span_s: f64,
    /// Each core on which a tick passed.
    pub cores: Vec<CoreActivity>,
    /// Each interface that was there all the time, in the kernel's order.
    pub interfaces: Vec<InterfaceActivity>,
}

/// How a core spent the span, as `mpstat -P ALL` splits /proc/stat.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreActivity {
    /// Its number.
    pub core: u32,
    /// user + nice.
    pub user_percent: f64,
    /// system.
    pub system_percent: f64,
    /// irq + softirq.
    pub softirq_percent: f64,
    /// Time the hypervisor gave to others.
    pub steal_percent: f64,
    /// idle + iowait.
    pub idle_percent: f64,
    /// Packets dropped because this core's backlog was full (softnet_stat column 2); absent where the kernel
    /// does not say.
    pub softnet_dropped_packets: Option<u64>,
    /// Times that this core's work on received packets was cut short with some left (softnet_stat column 3).
    pub softnet_squeezed: Option<u64>,
}

impl CoreActivity {
    /// All but idle and steal, percent.
    pub fn busy_percent(&self) -> f64 {
        self.user_percent + self.system_percent + self.softirq_percent
    }
}

impl From<&CoreUse> for CoreActivity {
    fn from(used: &CoreUse) -> Self {
        let percent = |hundredths: u16| f64::from(hundredths) / 100.0;
        Self {
            core: used.core,
            user_percent: percent(used.user),
            system_percent: percent(used.system),
            softirq_percent: percent(used.softirq),
            steal_percent: percent(used.steal),
            idle_percent: percent(used.idle),
            softnet_dropped_packets: None,
            softnet_squeezed: None,
        }
    }
}

/// What an interface carried in the span; a merged train counts as one packet.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceActivity {
    /// Its name.
    pub name: String,
    /// Link speed in Mbit/s, where the driver knows it.
    pub speed_mbps: Option<u32>,
    /// Received, with headers of the link.
    pub received_bps: f64,
    /// Sent, likewise.
    pub sent_bps: f64,
    /// Packets received per second.
    pub received_packets_per_second: f64,
    /// Packets sent per second.
    pub sent_packets_per_second: f64,
    /// Packets dropped on their way in: no room in its ring or in the host's memory, nobody who wanted them.
    pub received_dropped_packets: u64,
    /// Packets dropped on their way out.
    pub sent_dropped_packets: u64,
    /// Its interrupts, of the cores that took any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<CoreInterrupts>,
}

/// Interrupts that one core took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreInterrupts {
    /// The core.
    pub core: u32,
    /// Interrupts per second.
    pub per_second: f64,
}

impl HostActivity {
    /// Cores that take interrupts of an interface: at least a twentieth of what its busiest one takes, ascending.
    pub fn interrupt_cores(&self) -> Vec<u32> {
        let mut cores = Vec::new();
        for interface in &self.interfaces {
            let most = interface.interrupts.iter().map(|took| took.per_second).fold(0.0, f64::max);
            let main = interface.interrupts.iter().filter(|took| took.per_second * 20.0 >= most);
            cores.extend(main.map(|took| took.core));
        }
        cores.sort_unstable();
        cores.dedup();
        cores
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stray_interrupt_makes_no_interrupt_core() {
        let took = |core, per_second| CoreInterrupts { core, per_second };
        let interface = |interrupts| InterfaceActivity { interrupts, ..Default::default() };
        let host = HostActivity {
            interfaces: vec![
                interface(vec![took(3, 1_000.0), took(0, 50.0), took(1, 49.0)]),
                interface(vec![took(3, 2.0)]),
                interface(vec![]),
            ],
            ..HostActivity::default()
        };
        assert_eq!(host.interrupt_cores(), [0, 3]);
    }
}
