//! What is looked at on a host for one path. What cannot be read is unknown, with the reason.

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::host::HostFacts;

/// Why most of a far host is unknown.
pub const NOT_REPORTED: &str = "the server does not report it";

/// Something that is known, or why it is not; what nobody reported is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Fact_{T}")]
pub enum Fact<T> {
    /// It is this.
    Known(T),
    /// Why it is not known.
    Unknown(String),
}

impl<T> Fact<T> {
    /// The fact, or why it is not known.
    ///
    /// # Errors
    /// The reason.
    pub fn get(&self) -> Result<&T, String> {
        match self {
            Self::Known(value) => Ok(value),
            Self::Unknown(why) => Err(why.clone()),
        }
    }

    /// The fact, if it is known.
    pub fn known(&self) -> Option<&T> {
        self.get().ok()
    }
}

impl<T> Default for Fact<T> {
    fn default() -> Self {
        Self::Unknown(NOT_REPORTED.to_owned())
    }
}

impl<T> From<Result<T, String>> for Fact<T> {
    fn from(found: Result<T, String>) -> Self {
        found.map_or_else(Self::Unknown, Self::Known)
    }
}

/// A host, as far as it matters for one path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostDetails {
    /// What a record says of it too: names, kernel, cores, interface with its offloads.
    pub host: HostFacts,
    /// The way to the other host; that to nowhere is unknown.
    pub route: Fact<RouteDetails>,
    /// The interface of that way.
    pub device: DeviceDetails,
    /// Its processors.
    pub cpu: CpuDetails,
    /// Kernel parameters by their names, such as `net.core.rmem_max`.
    pub sysctls: BTreeMap<String, Fact<String>>,
    /// Clock, helpers, virtual machine.
    pub system: SystemDetails,
    /// Filters and connection tracking.
    pub firewall: FirewallDetails,
    /// What its counters gained while they were watched.
    pub watched: Fact<Watched>,
}

impl HostDetails {
    /// A far host, of which only the facts of a record are known.
    pub fn of_record(host: HostFacts) -> Self {
        let offloads = host.nic.iter().flat_map(|nic| &nic.offloads);
        let features: Vec<Feature> = offloads
            .map(|o| Feature { name: o.name.clone(), on: o.on, changeable: None, refused: false })
            .collect();
        let features = if features.is_empty() { Fact::default() } else { Fact::Known(features) };
        let parameters = [
            ("net.core.rmem_max", host.rmem_max_bytes),
            ("net.core.wmem_max", host.wmem_max_bytes),
        ];
        let sysctls = parameters
            .into_iter()
            .filter_map(|(name, bytes)| Some((name.to_owned(), Fact::Known(bytes?.to_string()))));
        Self {
            sysctls: sysctls.collect(),
            device: DeviceDetails { features, ..DeviceDetails::default() },
            host,
            ..Self::default()
        }
    }

    /// A kernel parameter.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn sysctl(&self, name: &str) -> Result<&str, String> {
        self.sysctls.get(name).ok_or_else(|| NOT_REPORTED.to_owned())?.get().map(String::as_str)
    }

    /// The same without words that a shell would make more of and numbers that no kernel has, which would stand in commands: a
    /// far host's server may say anything. The name of an interface that is not letters, digits, `.`, `_`, `-`, `@` and `:` alone,
    /// or is longer than the kernel's 15 bytes, is `DEV`.
    pub fn of_plain_words(host: &Self) -> Self {
        let mut host = host.clone();
        let word = |text: &str| {
            text.chars().all(|c: char| c.is_ascii_alphanumeric() || "._-@:".contains(c))
        };
        let few = |count: usize| count <= MOST_CORES as usize;
        let is_plain =
            |name: &str| (1..=15).contains(&name.len()) && !name.starts_with('-') && word(name);
        if let Some(nic) = host.host.nic.as_mut().filter(|nic| !is_plain(&nic.name)) {
            nic.name = "DEV".to_owned();
        }
        host.host.cores = host.host.cores.filter(|cores| *cores <= MOST_CORES);
        let device = &mut host.device;
        only(&mut device.kind, |kind| kind.iter().all(|kind| word(kind)));
        for cores in [&mut device.rps, &mut device.xps] {
            only(cores, |queues| {
                few(queues.len()) && queues.iter().flatten().all(|core| *core < MOST_CORES)
            });
        }
        only(&mut device.interrupts, |all| few(all.len()));
        only(&mut host.cpu.idle_states, |all| few(all.len()));
        only(&mut host.cpu.governors, |all| all.iter().all(|governor| word(&governor.name)));
        for value in host.sysctls.values_mut() {
            only(value, |text| text.split(' ').all(word));
        }
        host
    }

    /// The name of the interface.
    pub fn interface(&self) -> &str {
        self.host.nic.as_ref().map_or("DEV", |nic| &nic.name)
    }
}

/// No kernel has more (`NR_CPUS`).
const MOST_CORES: u32 = 8_192;

/// Keeps a fact only where this holds of it.
fn only<T>(fact: &mut Fact<T>, is_plain: impl Fn(&T) -> bool) {
    if fact.known().is_some_and(|value| !is_plain(value)) {
        *fact = Fact::Unknown("what that host says is nothing that a kernel says".to_owned());
    }
}

/// The way that packets to the other host take, as the kernel's routing table has it.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RouteDetails {
    /// The other host's address.
    pub to: Option<IpAddr>,
    /// The next router; absent on the same link.
    pub gateway: Option<IpAddr>,
    /// It stays within this host.
    pub local: bool,
    /// Largest packet in bytes that the route allows: set by hand, or learned of a router (RFC 1191, RFC 8201).
    pub mtu_bytes: Option<u32>,
    /// Packets as long as the interface's MTU reach the other host, as far as a test showed it.
    pub full_packets: Option<bool>,
}

/// An interface, beside what a record says of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceDetails {
    /// Kind of a virtual interface, such as `veth` or `bridge` (`IFLA_INFO_KIND`); nothing for a card.
    pub kind: Fact<Option<String>>,
    /// It has a carrier.
    pub carrier: Fact<bool>,
    /// `full` or `half`; nothing where the driver does not say.
    pub duplex: Fact<Option<String>>,
    /// Largest MTU that the driver takes, bytes; nothing where it does not say.
    pub largest_mtu_bytes: Fact<Option<u32>>,
    /// Length of its transmit queue, packets.
    pub queue_length: Fact<u32>,
    /// Offloads by the kernel's names.
    pub features: Fact<Vec<Feature>>,
    /// Descriptor rings; empty where the driver has none.
    pub rings: Fact<Vec<Amount>>,
    /// Queues by what they are for; empty where the driver does not say.
    pub channels: Fact<Vec<Amount>>,
    /// Queueing disciplines on the way out, the root first.
    pub qdiscs: Fact<Vec<QdiscDetails>>,
    /// Its interrupts.
    pub interrupts: Fact<Vec<InterruptDetails>>,
    /// NUMA node of its device; nothing where it has none.
    pub numa_node: Fact<Option<u32>>,
    /// Of each receive queue the cores that take over its packets (RPS).
    pub rps: Fact<Vec<Vec<u32>>>,
    /// Of each transmit queue the cores that use it (XPS); empty where there is one queue.
    pub xps: Fact<Vec<Vec<u32>>>,
    /// Packets since boot that the card had no room for: `rx_missed_errors` and `rx_fifo_errors`.
    pub rx_missed: Fact<u64>,
    /// Versions of what runs on it, each with devlink's name for it, such as `fw 22.31.1014`.
    pub firmware: Fact<String>,
}

/// An offload.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Feature {
    /// The kernel's name, such as `tx-udp-segmentation`.
    pub name: String,
    /// It is on.
    pub on: bool,
    /// The driver lets it be switched; absent where that is not known.
    pub changeable: Option<bool>,
    /// It was asked for, and is off all the same: the driver refuses, or what it needs is off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

/// A number that a driver lets be chosen.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Amount {
    /// ethtool's name, such as `rx` or `combined`.
    pub name: String,
    /// What it is.
    pub now: u32,
    /// The most that the driver takes.
    pub most: Option<u32>,
}

/// A queueing discipline.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QdiscDetails {
    /// Kind, such as `fq_codel`.
    pub kind: String,
    /// Rate that it lets through, of fq that of each flow, bit/s; absent where it sets none or is not known to.
    pub rate_bps: Option<u64>,
    /// Packets that it holds; absent where it is not known.
    pub limit_packets: Option<u32>,
}

/// An interrupt.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptDetails {
    /// Its number.
    pub irq: u32,
    /// Cores that it may go to.
    pub cores: Vec<u32>,
    /// Those of them that it does go to; absent where the kernel does not report it.
    pub effective: Option<Vec<u32>>,
}

/// Processors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuDetails {
    /// Cores that this process may use.
    pub allowed: Fact<Vec<u32>>,
    /// Frequency governors; empty where cores have none.
    pub governors: Fact<Vec<Governor>>,
    /// Idle states of the first core.
    pub idle_states: Fact<Vec<IdleState>>,
    /// Mitigations of the processor's vulnerabilities that are on, `name: what`.
    pub mitigations: Fact<Vec<String>>,
    /// NUMA nodes, ascending.
    pub nodes: Fact<Vec<NumaNode>>,
    /// CPU time that the process' control groups allow, thousandths of a core; nothing without a limit.
    pub limit_millicores: Fact<Option<u64>>,
    /// Share of the last 10 s in which some task waited for a core, percent (PSI).
    pub pressure_percent: Fact<f64>,
}

/// A part of the memory, and the cores that it is near to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NumaNode {
    /// Its number.
    pub node: u32,
    /// Its cores.
    pub cores: Vec<u32>,
}

/// A frequency governor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Governor {
    /// Its name, such as `performance`.
    pub name: String,
    /// Driver below it, such as `intel_pstate`.
    pub driver: String,
    /// Cores that have it.
    pub cores: Vec<u32>,
}

/// A state in which an idle core sleeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdleState {
    /// Its name, such as `C6`.
    pub name: String,
    /// Time it takes to wake up, microseconds.
    pub exit_latency_us: u64,
    /// It is used.
    pub enabled: bool,
}

/// The system around.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SystemDetails {
    /// The kernel's clock source, such as `tsc`.
    pub clock_source: Fact<String>,
    /// Programs that run and discipline clocks, such as `chronyd`.
    pub clock_keepers: Fact<Vec<String>>,
    /// irqbalance runs.
    pub irqbalance: Fact<bool>,
    /// Bytes of a page, in which the kernel counts the memory of sockets (`net.ipv4.udp_mem`).
    pub page_bytes: Fact<u64>,
    /// What virtual machine this is; nothing for a real one.
    pub virtual_machine: Fact<Option<String>>,
    /// What container this is; nothing for none.
    pub container: Fact<Option<String>>,
}

/// Filters and connection tracking of the network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FirewallDetails {
    /// Rules of nftables, those that iptables makes through it included.
    pub rules: Fact<u32>,
    /// Connections are tracked: a rule asks for it, or there are entries.
    pub tracks: Fact<bool>,
    /// Connections that are tracked now.
    pub entries: Fact<u64>,
    /// The most that can be.
    pub most_entries: Fact<u64>,
}

/// What a host's counters gained while it was watched.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Watched {
    /// For so long, milliseconds.
    pub for_ms: u64,
    /// Steal of the core that had most of it, percent.
    pub steal_percent: Option<f64>,
    /// Packets that the backlogs of the cores dropped.
    pub softnet_dropped: Option<u64>,
    /// Times that the budget of a softirq ended before its work.
    pub softnet_squeezed: Option<u64>,
    /// Packets that the interface dropped on the way in.
    pub nic_rx_dropped: Option<u64>,
    /// Packets that the queueing discipline dropped.
    pub qdisc_dropped: Option<u64>,
    /// Datagrams that found a socket's buffer full.
    pub udp_receive_buffer_errors: Option<u64>,
    /// Time in which the cgroup's CPU limit kept the process from running, milliseconds.
    pub throttled_ms: Option<u64>,
}
