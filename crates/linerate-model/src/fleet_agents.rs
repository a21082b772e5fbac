//! Agents of a fleet: what each says of itself, and the document of `linerate fleet hosts`, format 1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::kinds::named;
use crate::record::ProgramFacts;

/// Number of the format described here.
pub const FORMAT: u32 = 1;

/// What an agent says of itself now and then. What it does not know, or an older one does not say, is absent.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// Its release.
    pub version: String,
    /// Which boot of its host.
    pub boot_id: Option<String>,
    /// Host name or address at which others reach this host.
    pub address: String,
    /// Highest lease that it was given.
    pub epoch: u64,
    /// Results that no store has confirmed.
    pub waiting: u64,
    /// How many that were ten to twenty minutes before.
    pub waiting_before: Option<u64>,
    /// How long the oldest of them has waited, in seconds; absent where there is none.
    pub oldest_s: Option<u64>,
    /// Whether its owner's policy was understood.
    pub policy: bool,
    /// What the policy allows, in words.
    pub allows: Option<String>,
    /// Whether addresses are translated between it and the broker.
    pub nat: Option<Nat>,
    /// What its host has; read when the agent starts, and about every ten minutes.
    pub inventory: Option<Inventory>,
}

/// Whether the address by which a broker sees an agent is one of the agent's own. Not known where the broker is on the same
/// host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Nat {
    /// It is.
    None,
    /// It is another one's: a host that has only its own addresses does not reach it there.
    Behind,
}

/// What a host has, as far as it matters for tests.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Inventory {
    /// Kernel release, as in `uname -r`.
    pub kernel: Option<String>,
    /// Cores on line.
    pub cores: Option<u32>,
    /// The kernel's clock source, such as `tsc`.
    pub clock_source: Option<String>,
    /// Programs that were seen running and keep the clock in step, such as `chronyd`; empty where none was, absent where
    /// programs cannot be seen.
    pub clock_keepers: Option<Vec<String>>,
    /// Interfaces that are up, without loopback: those with a device first, 8 at most.
    pub nics: Vec<NicInventory>,
    /// How many more are up.
    pub more_nics: u32,
}

/// An interface.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NicInventory {
    /// Its name.
    pub name: String,
    /// Kernel driver; absent for interfaces without a device.
    pub driver: Option<String>,
    /// Link speed in Mbit/s, where the driver knows it.
    pub speed_mbps: Option<u32>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// NUMA node of its device, where it has one.
    pub numa_node: Option<u32>,
}

/// Whether an agent works, as far as the broker knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// It spoke a short time ago, and nobody has a lease of it.
    Idle,
    /// Somebody has a lease of it: it may be in a test, in which it says nothing.
    Leased,
    /// It has not spoken for a minute or longer, and nobody has a lease of it.
    Silent,
    /// It is enrolled, and has not spoken since the broker was started.
    #[default]
    Unheard,
}

named! {
    AgentState: Idle = "idle", Leased = "leased", Silent = "silent", Unheard = "unheard";
}

/// What `linerate fleet hosts --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetHosts {
    /// Always 1.
    pub format: u32,
    /// Always `fleet_hosts`.
    pub kind: String,
    /// When the broker was asked; RFC 3339, UTC.
    pub at: String,
    /// The program.
    pub linerate: ProgramFacts,
    /// Release of the broker.
    pub broker_version: String,
    /// By name.
    pub agents: Vec<FleetAgent>,
}

/// An agent, as the broker knows it.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetAgent {
    /// Its name.
    pub name: String,
    /// When it spoke last, by the broker's clock; RFC 3339, UTC. Absent where it did not since the broker was started.
    pub heard: Option<String>,
    /// How many seconds before `at` that was.
    pub heard_s: Option<u64>,
    /// Whether it works.
    pub state: AgentState,
    /// When a host became this agent, the last time that one did; RFC 3339, UTC. Absent where the broker's files were lost
    /// since.
    pub enrolled: Option<String>,
    /// When the broker lets it in no more; RFC 3339, UTC. Absent for no end, and where it is not known.
    pub expires: Option<String>,
    /// How many seconds after `at` that is; below 0 where it has been.
    pub expires_in_s: Option<i64>,
    /// What it said.
    pub said: Option<Heartbeat>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_agent_says_is_read() {
        let text = r#"{"version":"0.1.0","boot_id":null,"address":"a","epoch":7,"waiting":0,"oldest_s":null,"policy":true}"#;
        let beat: Heartbeat = serde_json::from_str(text).unwrap();
        let (version, address) = ("0.1.0".to_owned(), "a".to_owned());
        let expected =
            Heartbeat { version, address, epoch: 7, policy: true, ..Heartbeat::default() };
        assert_eq!(beat, expected);
    }
}
