//! The document of `linerate profile`, format 1: where the CPUs' time of a test went, by samples of their stacks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::record::{ErrorRecord, Limit, ProgramFacts, RunRecord, TestEnd};

/// Number of the format described here.
pub const FORMAT: u32 = 1;

/// What a profile says.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileDocument {
    /// Always 1.
    pub format: u32,
    /// Always `profile`.
    pub kind: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The program.
    pub linerate: ProgramFacts,
    /// The command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Host name or address as the user gave it.
    pub target: Option<String>,
    /// Where the knee is that the two tests lie below and above (`--at-knee`).
    pub knee: Option<Knee>,
    /// One, or two that are compared.
    pub profiles: Vec<Profile>,
    /// What differs between the two, of each host that both sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Why it is not all that was asked for.
    pub error: Option<ErrorRecord>,
}

/// Where a search found the limit.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    /// Largest rate that met the search's goal, bit/s.
    pub lower_bps: Option<f64>,
    /// Least rate that failed it, bit/s.
    pub upper_bps: Option<f64>,
    /// Whether the two are as close as was asked.
    pub settled: bool,
    /// What limited the trial at the upper bound.
    pub limit: Option<Limit>,
}

/// One test, and where its CPU time went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// What it is beside the other: `below the knee, 1.2 Gbit/s`.
    pub name: String,
    /// The test.
    pub run: Box<RunRecord>,
    /// Each host that was sampled.
    pub hosts: Vec<HostProfile>,
    /// Each end whose host was not.
    pub unsampled: Vec<Unsampled>,
}

/// An end whose host's CPUs were not sampled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unsampled {
    /// Which.
    pub host: TestEnd,
    /// Why not.
    pub why: String,
    /// What to try.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
}

/// What is sampled of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Whole cores: softirq, other programs and idle time too.
    Cores,
    /// The threads of linerate's process, with what the kernel does in them.
    Threads,
}

/// Samples of one host's CPUs.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostProfile {
    /// Which ends ran there.
    pub ends: Vec<TestEnd>,
    /// What was sampled.
    pub scope: Scope,
    /// What drove the sampling: `cpu-clock` (a timer of each core) or `cycles` (a hardware counter, which stands still
    /// while a core is idle).
    pub event: String,
    /// Samples a second that were asked for of each core; absent with cycles.
    pub frequency_hz: Option<u32>,
    /// Cycles from one sample of a core to its next, so that each sample stands for as many; absent with another event.
    pub period_cycles: Option<u64>,
    /// Cores that were sampled.
    pub cores: u32,
    /// How long.
    pub seconds: f64,
    /// Samples that were taken, idle ones too.
    pub samples: u64,
    /// Of them, those of an idle core; absent where idle time is not sampled.
    pub idle_samples: Option<u64>,
    /// Samples that the kernel found no room for.
    pub lost_samples: u64,
    /// Samples of stacks for which the sampler had no more room; they are in no layer.
    pub unstored_samples: u64,
    /// What limits what can be read of it: symbols that are hidden, samples that are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What the test carried, which `cost` of a layer is for one unit of; absent with a warm-up, which is sampled as well.
    pub work: Option<Work>,
    /// By what is done, the largest first; idle time is in none.
    pub layers: Vec<LayerShare>,
    /// By where it was called from, likewise.
    pub paths: Vec<PathShare>,
    /// The functions that most samples were in, the first first.
    pub functions: Vec<FunctionShare>,
    /// Every stack: what all else was computed from.
    pub stacks: Vec<Stack>,
}

/// A stack and how often it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Folded: thread and functions from the outermost to the innermost, `;` between them; those of the kernel end with
    /// `_[k]`.
    pub frames: String,
    /// How often.
    pub samples: u64,
}

/// What a test carried in the time that was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// How much.
    pub amount: f64,
    /// Of what.
    pub unit: WorkUnit,
}

/// What a test's work is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkUnit {
    /// 10^9 bits of payload received.
    Gbit,
    /// A thousand transactions.
    Kilotransaction,
}

impl WorkUnit {
    /// Of the cost, for people.
    pub const fn cost(self) -> &'static str {
        match self {
            Self::Gbit => "CPU s/Gbit",
            Self::Kilotransaction => "CPU s/1000 tr.",
        }
    }
}

/// A share of the samples of cores that were not idle.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerShare {
    /// What is done.
    pub layer: Layer,
    /// How often it was seen.
    pub samples: u64,
    /// Of the samples of busy cores, 0 to 1.
    pub share: f64,
    /// Standard error of that by the number of samples.
    pub share_se: f64,
    /// CPU seconds for a unit of work; absent where samples are no time or there is no `work`.
    pub cost: Option<f64>,
}

/// A share of the samples of cores that were not idle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathShare {
    /// What the kernel, or the program, does it for.
    pub path: CallPath,
    /// How often it was seen.
    pub samples: u64,
    /// Of the samples of busy cores, 0 to 1.
    pub share: f64,
    /// Standard error of that by the number of samples.
    pub share_se: f64,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionShare {
    /// Its name; those of the kernel end with `_[k]`.
    pub name: String,
    /// The layer that most of its samples count to.
    pub layer: Layer,
    /// Samples in itself.
    pub samples: u64,
    /// The same of the samples of busy cores, 0 to 1.
    pub share: f64,
    /// With the functions that it called.
    pub whole_share: f64,
}

/// What differs between two profiles of a host.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Which ends ran there.
    pub ends: Vec<TestEnd>,
    /// What costs are for one unit of; absent where one of the two has none.
    pub unit: Option<WorkUnit>,
    /// Those that changed most first.
    pub layers: Vec<LayerDifference>,
}

/// What differs of a layer.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerDifference {
    /// Which.
    pub layer: Layer,
    /// Share of the first profile and of the second.
    pub shares: [f64; 2],
    /// Standard error of their difference.
    pub share_se: f64,
    /// Cost in the first profile and in the second.
    pub costs: Option<[f64; 2]>,
    /// Standard error of their difference.
    pub cost_se: Option<f64>,
    /// Least error of a kind that calls one of the two differences real, over all layers together (Holm).
    pub p_adjusted: f64,
    /// Whether that is below 5 %.
    pub differs: bool,
}

macro_rules! words {
    ($(#[$doc:meta])* $kind:ident { $($(#[doc = $meaning:literal])+ $one:ident = $name:literal, $words:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $kind {
            $($(#[doc = $meaning])+ #[serde(rename = $name)] $one,)+
        }

        impl $kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$one),+];

            /// As in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$one => $name,)+ }
            }

            /// For people.
            pub const fn words(self) -> &'static str {
                match self { $(Self::$one => $words,)+ }
            }
        }
    };
}

words! {
    /// What a CPU does.
    Layer {
        /// Code of linerate and its libraries.
        User = "user", "program";
        /// A sending thread of linerate's waits, awake, for the moment of its next datagram.
        Spin = "spin", "busy waiting";
        /// Entry, exit and dispatch of system calls, and the sockets' own code.
        Syscall = "syscall", "system calls and sockets";
        /// Bytes are copied between program and kernel, or between buffers.
        Copy = "copy", "copying";
        /// Checksums.
        Checksum = "checksum", "checksums";
        /// Packets are made and freed: slab, pages, reference counts.
        Buffers = "buffers", "packet buffers";
        /// Transport and network protocols.
        Protocol = "protocol", "UDP, TCP, IP";
        /// Large buffers are parted into packets, or packets joined to large ones.
        Offload = "offload", "segmentation, merging";
        /// Filters and connection tracking.
        Firewall = "firewall", "firewall, conntrack";
        /// Queueing disciplines.
        Qdisc = "qdisc", "queueing, dispatch";
        /// Drivers, and interfaces within the kernel: veth, loopback, bridges.
        Driver = "driver", "driver, veth, loopback";
        /// Interrupts, and the softirq that takes in packets.
        Softirq = "softirq", "softirq, interrupts";
        /// Threads are woken, chosen and put to sleep; timers.
        Scheduler = "scheduler", "scheduler, wake-ups";
        /// Waits for a lock that another core holds, and taking locks.
        Lock = "lock", "locks";
        /// The kernel, in a function that no other layer knows.
        Kernel = "kernel", "other kernel code";
        /// The sampler's own thread.
        Sampler = "sampler", "the sampler itself";
        /// Other programs.
        Other = "other", "other programs";
        /// Nothing to do.
        Idle = "idle", "idle";
    }
}

words! {
    /// What a CPU does it for: of a stack the innermost of these.
    CallPath {
        /// Taking in packets, in softirq: also where a send call over loopback or veth does it itself.
        Softirq = "softirq", "packets taken in (softirq)";
        /// A call that sends.
        Send = "send", "send calls";
        /// A call that receives.
        Receive = "receive", "receive calls";
        /// Another system call.
        Call = "call", "other system calls";
        /// The program itself.
        User = "user", "the program itself";
        /// A thread of the kernel, or an interrupt.
        Kernel = "kernel", "kernel threads, interrupts";
        /// The sampler's own thread.
        Sampler = "sampler", "the sampler itself";
        /// Other programs.
        Other = "other", "other programs";
        /// Nothing to do.
        Idle = "idle", "idle";
    }
}
