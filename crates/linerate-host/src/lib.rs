//! What a host is and what its own counters say: facts reported once a run, and telemetry sampled
//! during it.
//!
//! Everything here is evidence beside a measurement, never part of it. So nothing fails and nothing
//! waits long: what this host does not say, or does not let this user see, is absent. No packet is
//! sent. Nothing is changed on the host but by [`settings`], which is asked for by name and keeps
//! what is needed to undo it.
//!
//! Text of the kernel is read by the parsers in `text`, which take any bytes without a panic;
//! what text does not hold (routes, offloads, queueing disciplines) comes by netlink.
//!
//! ```
//! use std::net::IpAddr;
//!
//! use linerate_host::facts::facts;
//! use linerate_host::roots::Roots;
//! use linerate_host::sampler::{Clocks, Sampler};
//! let facts = facts(Some(IpAddr::from([127, 0, 0, 1]).into()));
//! let nic = facts.nic.map(|nic| nic.name);
//! let mut sampler = Sampler::at(Roots::host(), nic.as_deref());
//! let before = sampler.read(Clocks { monotonic_ns: 1_000, wall_ahead_ns: 0 });
//! let after = sampler.read(Clocks { monotonic_ns: 2_000, wall_ahead_ns: 0 });
//! let sample = after.since(&before); // what grew
//! assert!(sample.cores.iter().all(|core| core.busy() <= 10_000));
//! ```
#![forbid(unsafe_code)]

pub mod activity;
pub mod checkup;
pub mod cores;
pub mod facts;
pub mod inventory;
mod irq;
pub mod link;
mod netlink;
pub mod outage;
pub mod profile;
pub mod roots;
pub mod sampler;
#[cfg(test)]
mod scratch;
pub mod settings;
mod text;
pub mod thread;
mod towards;
