//! What an agent says of its host in each heartbeat, and reads more rarely.

use std::net::IpAddr;
use std::time::Duration;

use linerate_fleet::message::Heartbeat;
use linerate_host::facts::facts;
use linerate_host::inventory::inventory;
use linerate_host::link::is_own;
use linerate_model::fleet_agents::Nat;

/// What a host has is read anew after this.
const AGAIN: Duration = Duration::from_secs(600);

/// What was read last.
#[derive(Default)]
pub struct Portrait {
    /// When, by the agent's clock; nothing before the first time.
    read: Option<Duration>,
    /// How many results waited then.
    waiting: Option<u64>,
    said: Heartbeat,
}

impl Portrait {
    /// What does not change from heartbeat to heartbeat, at `now` of the agent's clock; `waiting` is how many results wait.
    pub fn now(&mut self, now: Duration, waiting: u64) -> Heartbeat {
        if self.read.is_none_or(|read| now.saturating_sub(read) >= AGAIN) {
            self.said.boot_id = facts(None).boot_id;
            self.said.inventory = Some(inventory());
            self.said.waiting_before = self.waiting.replace(waiting);
            self.read = Some(now);
        }
        self.said.clone()
    }
}

/// Whether addresses are translated on the way to a broker that sees this host as `seen`.
pub fn nat(seen: IpAddr) -> Option<Nat> {
    is_own(seen).map(|own| if own { Nat::None } else { Nat::Behind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_at_first_and_after_ten_minutes() {
        let mut portrait = Portrait::default();
        let at = Duration::from_secs;
        let first = portrait.now(at(5), 7);
        assert!(first.inventory.is_some() && first.boot_id.is_some());
        assert_eq!(first.waiting_before, None, "nobody counted before");
        portrait.said.inventory = None;
        assert_eq!(portrait.now(at(604), 8).inventory, None, "it was read not long ago");
        let later = portrait.now(at(605), 9);
        assert!(later.inventory.is_some());
        assert_eq!(later.waiting_before, Some(7), "as many as when it was read before");
    }
}
