//! How often and for how long interfaces of this host had no link, by the changes that the kernel reports (rtnetlink(7)).

use std::collections::HashMap;

use linerate_model::sample::LostLink;

use crate::netlink::{Netlink, link};

/// Interfaces that are kept beside those that were asked for: containers come and go by thousands.
const MOST: usize = 256;

/// The changes since it was opened, in the network namespace of the thread that opened it. Times are those of whoever
/// asks, in nanoseconds of one clock.
#[derive(Debug)]
pub struct Outages {
    changes: Netlink,
    lost: HashMap<String, Outage>,
    /// When it was last looked.
    looked_ns: u64,
}

/// When one interface had no link.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Outage {
    /// It has none now.
    since_ns: Option<u64>,
    /// All, without the time of one that goes on: each from when it was seen until the last look that did not see it
    /// over.
    all: LostLink,
    /// The last that is over: when that was seen, and how long it was at the least.
    last: Option<(u64, u64)>,
}

impl Outage {
    /// It has a link, or not, as is seen at `now_ns` and was not before `looked_ns`.
    fn is(&mut self, up: bool, looked_ns: u64, now_ns: u64) {
        match (up, self.since_ns) {
            (false, None) => {
                self.since_ns = Some(now_ns);
                self.all.times = self.all.times.saturating_add(1);
            }
            (true, Some(since_ns)) => {
                let least_ns = looked_ns.saturating_sub(since_ns);
                self.since_ns = None;
                self.all.least_ns = self.all.least_ns.saturating_add(least_ns);
                self.last = Some((now_ns, least_ns));
            }
            _ => {}
        }
    }

    fn lost(&self, now_ns: u64) -> LostLink {
        let now = self.since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        LostLink { least_ns: self.all.least_ns.saturating_add(now), ..self.all }
    }
}

impl Outages {
    /// Begins to listen at `now_ns`. `None` where the kernel reports no changes.
    pub fn open(now_ns: u64) -> Option<Self> {
        Some(Self { changes: Netlink::of_links()?, lost: HashMap::new(), looked_ns: now_ns })
    }

    /// Takes what changed since the last call, as of `now_ns`. Waits for nothing.
    pub fn look(&mut self, now_ns: u64) {
        let Self { changes, lost, looked_ns } = self;
        let whole = changes.drain(|kind, body| {
            let Some((name, up)) = link::state(kind, body) else { return };
            if lost.contains_key(&name) || (!up && lost.len() < MOST) {
                lost.entry(name).or_default().is(up, *looked_ns, now_ns);
            }
        });
        // What came back may be among those that the kernel had no room for.
        if !whole {
            lost.values_mut().for_each(|outage| outage.is(true, *looked_ns, now_ns));
        }
        *looked_ns = now_ns;
    }

    /// How this interface fared since the changes are listened to, as far as they were looked at. It has a place from
    /// now on, however many others come and go.
    pub fn lost(&mut self, nic: &str, now_ns: u64) -> LostLink {
        self.lost.entry(nic.to_owned()).or_default().lost(now_ns)
    }

    /// The last time that this interface had no link, if that is over: when it was seen to be, and for how long it had
    /// none at the least.
    pub fn last(&self, nic: &str) -> Option<(u64, u64)> {
        self.lost.get(nic)?.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_add_up_and_the_last_is_known() {
        let mut outage = Outage::default();
        outage.is(true, 4, 5);
        assert_eq!((outage.lost(9), outage.last), (LostLink::default(), None));
        outage.is(false, 9, 10);
        outage.is(false, 14, 15);
        assert_eq!((outage.lost(17), outage.last), (LostLink { times: 1, least_ns: 7 }, None));
        // Until the look before the one that saw it over: it may have been over right after that.
        outage.is(true, 19, 20);
        outage.is(true, 24, 25);
        let one = LostLink { times: 1, least_ns: 9 };
        assert_eq!((outage.lost(99), outage.last), (one, Some((20, 9))));
        // One that one look saw begin and end.
        outage.is(false, 29, 30);
        outage.is(true, 29, 30);
        let two = LostLink { times: 2, least_ns: 9 };
        assert_eq!((outage.lost(99), outage.last), (two, Some((30, 0))));
    }

    #[test]
    fn nothing_is_lost_where_nothing_changes() {
        let mut outages = Outages::open(0).expect("netlink");
        outages.look(1);
        assert_eq!((outages.lost("lo", 2), outages.last("lo")), (LostLink::default(), None));
    }
}
