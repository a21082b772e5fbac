//! For how long interfaces of this host had no link, by the changes that the kernel reports (rtnetlink(7)).

use std::collections::HashMap;

use crate::netlink::{Netlink, link};

/// Interfaces that are kept: containers come and go by thousands, and a test needs one.
const MOST: usize = 256;

/// The changes since it was opened, in the network namespace of the thread that opened it. Times are those of whoever
/// asks, in nanoseconds.
#[derive(Debug)]
pub struct Outages {
    changes: Netlink,
    lost: HashMap<String, Outage>,
}

/// When one interface had no link.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Outage {
    /// It has none now.
    since_ns: Option<u64>,
    /// All that are over.
    over_ns: u64,
    /// The last that is over: when it ended, and how long it was.
    last: Option<(u64, u64)>,
}

impl Outage {
    fn is(&mut self, up: bool, now_ns: u64) {
        match (up, self.since_ns) {
            (false, None) => self.since_ns = Some(now_ns),
            (true, Some(since_ns)) => {
                let took_ns = now_ns.saturating_sub(since_ns);
                *self = Self {
                    since_ns: None,
                    over_ns: self.over_ns.saturating_add(took_ns),
                    last: Some((now_ns, took_ns)),
                };
            }
            _ => {}
        }
    }

    fn lost_ns(&self, now_ns: u64) -> u64 {
        let now = self.since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        self.over_ns.saturating_add(now)
    }
}

impl Outages {
    /// Begins to listen. `None` where the kernel reports no changes.
    pub fn open() -> Option<Self> {
        Some(Self { changes: Netlink::of_links()?, lost: HashMap::new() })
    }

    /// Takes what changed since the last call, as of `now_ns`. Waits for nothing.
    pub fn look(&mut self, now_ns: u64) {
        let Self { changes, lost } = self;
        let whole = changes.drain(|kind, body| {
            let Some((name, up)) = link::state(kind, body) else { return };
            if lost.contains_key(&name) || (!up && lost.len() < MOST) {
                lost.entry(name).or_default().is(up, now_ns);
            }
        });
        // What came back may be among those that were lost.
        if !whole {
            lost.values_mut().for_each(|outage| outage.since_ns = None);
        }
    }

    /// For how long this interface had no link since the changes are listened to, as far as they were looked at.
    pub fn lost_ns(&self, nic: &str, now_ns: u64) -> u64 {
        self.lost.get(nic).map_or(0, |outage| outage.lost_ns(now_ns))
    }

    /// The last time that this interface had no link, if that is over: when it ended, and for how long it had none.
    pub fn last(&self, nic: &str) -> Option<(u64, u64)> {
        self.lost.get(nic)?.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_a_link_add_up_and_the_last_is_known() {
        let mut outage = Outage::default();
        outage.is(true, 5);
        assert_eq!((outage.lost_ns(9), outage.last), (0, None));
        outage.is(false, 10);
        outage.is(false, 15);
        assert_eq!((outage.lost_ns(17), outage.last), (7, None));
        outage.is(true, 20);
        outage.is(true, 25);
        assert_eq!((outage.lost_ns(99), outage.last), (10, Some((20, 10))));
        outage.is(false, 30);
        outage.is(true, 33);
        assert_eq!((outage.lost_ns(99), outage.last), (13, Some((33, 3))));
    }

    #[test]
    fn nothing_is_lost_where_nothing_changes() {
        let mut outages = Outages::open().expect("netlink");
        outages.look(1);
        assert_eq!((outages.lost_ns("lo", 2), outages.last("lo")), (0, None));
    }
}
