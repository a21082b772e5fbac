//! What an interface's queueing disciplines dropped on the way out, and what waits in them.

use super::{NLM_F_DUMP, Netlink, attribute, u32_at};

/// Counts of an interface's root discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Packets dropped since it was made.
    pub drops: u64,
    /// Bytes that wait in it now.
    pub backlog: u64,
}

/// Drops and backlog of the root discipline of the interface, which are the sums over the whole
/// tree. `None` for an interface without one (`noqueue`).
///
/// Only the root is read, for a drop further down is counted there as well: a classful discipline
/// counts what a child refused when it was to be queued (each `enqueue`, for instance
/// `htb_enqueue`), `qdisc_tree_reduce_backlog` of net/sched/sch_api.c adds what a child dropped
/// later to every parent, and `mq` and `mqprio`, where that walk stops, add up their children when
/// they are asked (`mq_dump`); the backlog is kept the same way. What filters drop on the way in
/// (`ingress`, `clsact`) is not in it. The kernel counts in 32 bits.
pub(crate) fn root(netlink: &mut Netlink, interface: u32) -> Option<Queue> {
    let mut found = None;
    // All interfaces are listed, since the kernel ignores an index here. Asking for one alone is
    // possible, but the kernel may announce its answer to everyone who listens for changes of
    // disciplines (`qdisc_get_notify`; `tc monitor`), which measuring should not do.
    netlink
        .ask(RTM_GETQDISC, NLM_F_DUMP, &[0; TCMSG_BYTES], |kind, body| {
            if kind == RTM_NEWQDISC {
                found = found.or_else(|| root_queue(body, interface));
            }
        })
        .ok()?;
    found
}

pub(super) fn root_queue(body: &[u8], interface: u32) -> Option<Queue> {
    if u32_at(body, 4)? != interface || u32_at(body, 12)? != TC_H_ROOT {
        return None;
    }
    let statistics = attribute(body.get(TCMSG_BYTES..)?, TCA_STATS2)?;
    // struct gnet_stats_queue: qlen, backlog, drops, requeues, overlimits.
    let queue = attribute(statistics, TCA_STATS_QUEUE)?;
    Some(Queue { drops: u64::from(u32_at(queue, 8)?), backlog: u64::from(u32_at(queue, 4)?) })
}

pub(super) const RTM_NEWQDISC: u16 = 36;
pub(super) const RTM_GETQDISC: u16 = 38;
/// `struct tcmsg`: family and padding, ifindex, handle, parent, info (u32 each).
pub(super) const TCMSG_BYTES: usize = 20;
pub(super) const TC_H_ROOT: u32 = u32::MAX;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;

#[cfg(test)]
mod tests {
    use super::super::put_attribute;
    use super::*;

    fn message(interface: u32, parent: u32, drops: u32) -> Vec<u8> {
        let words = [0, interface, 0x8001_0000, parent, 2];
        let mut body: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
        let queue: Vec<u8> = [1, 1500, drops, 7, 9].iter().flat_map(|w| w.to_ne_bytes()).collect();
        let mut statistics = Vec::new();
        put_attribute(&mut statistics, 1, &[0; 12]);
        put_attribute(&mut statistics, TCA_STATS_QUEUE, &queue);
        put_attribute(&mut body, 1, b"fq_codel\0");
        put_attribute(&mut body, TCA_STATS2, &statistics);
        body
    }

    #[test]
    fn known_answer() {
        let found = root_queue(&message(3, TC_H_ROOT, 17), 3);
        assert_eq!(found, Some(Queue { drops: 17, backlog: 1_500 }));
    }

    #[test]
    fn other_interfaces_and_children_are_not_counted() {
        assert_eq!(root_queue(&message(4, TC_H_ROOT, 17), 3), None);
        assert_eq!(root_queue(&message(3, 0x0001_0002, 17), 3), None);
        assert_eq!(root_queue(&message(3, 0xffff_fff1, 17), 3), None, "ingress");
    }
}
