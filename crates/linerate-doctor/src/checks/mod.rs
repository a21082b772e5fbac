//! The checks, a file a family.

mod buffers;
mod cpu;
mod firewall;
mod nic;
mod offload;
mod path;
mod qdisc;
mod softnet;
mod system;
mod tcp;

use crate::Check;

/// All of them, in the order in which a packet meets what they look at.
pub(crate) const FAMILIES: &[&[Check]] = &[
    path::CHECKS,
    buffers::CHECKS,
    tcp::CHECKS,
    offload::CHECKS,
    qdisc::CHECKS,
    nic::CHECKS,
    softnet::CHECKS,
    firewall::CHECKS,
    cpu::CHECKS,
    system::CHECKS,
];
