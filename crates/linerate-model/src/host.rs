//! Facts about a host, as they stand in a record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// What a host is: reported once a run, by the host itself. What is not known is absent.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostFacts {
    /// Node name, as in `uname -n`.
    pub hostname: String,
    /// Distribution, as `PRETTY_NAME` of os-release.
    pub os: Option<String>,
    /// Kernel release, as in `uname -r`.
    pub kernel: Option<String>,
    /// CPU model name, as in /proc/cpuinfo.
    pub cpu_model: Option<String>,
    /// Cores on line.
    pub cores: Option<u32>,
    /// Changes with every boot: /proc/sys/kernel/random/boot_id.
    pub boot_id: Option<String>,
    /// The interface that the test's packets use, as the routing table has it.
    pub nic: Option<NicFacts>,
    /// Largest receive buffer a process may ask for, net.core.rmem_max, in bytes.
    pub rmem_max_bytes: Option<u64>,
    /// Largest send buffer a process may ask for, net.core.wmem_max, in bytes.
    pub wmem_max_bytes: Option<u64>,
    /// Version of linerate that ran there.
    pub linerate: String,
}

/// The network interface of a test.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NicFacts {
    /// Interface name.
    pub name: String,
    /// Kernel driver; absent for interfaces without a device (lo, veth).
    pub driver: Option<String>,
    /// Link speed in Mbit/s, where the driver knows it.
    pub speed_mbps: Option<u32>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// Offloads by the kernel's feature names, in the order of its feature bits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offloads: Vec<Offload>,
    /// Cores that the interface's interrupts go to now, or went to since boot where the kernel does not
    /// say: at least a twentieth of the count of the core with most, in /proc/interrupts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub irq_cores: Vec<u32>,
}

/// One offload of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Offload {
    /// The kernel's feature name, such as `tx-udp-segmentation` or `rx-gro`. `ethtool -k` prints the
    /// same, but for a dozen older features: `rx-gro` is its `generic-receive-offload`.
    pub name: String,
    /// Whether it is on.
    pub on: bool,
}

/// One core's time over an interval, in hundredths of a percent of that interval, as
/// `mpstat -P ALL` splits /proc/stat. Integers, so that the shares can be compared exactly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoreUse {
    /// The core's number.
    pub core: u32,
    /// user + nice.
    pub user: u16,
    /// system.
    pub system: u16,
    /// irq + softirq.
    pub softirq: u16,
    /// Time the hypervisor gave to others.
    pub steal: u16,
    /// idle + iowait.
    pub idle: u16,
}

impl CoreUse {
    /// All but idle and steal, in hundredths of a percent.
    pub fn busy(&self) -> u16 {
        self.user.saturating_add(self.system).saturating_add(self.softirq)
    }
}
