//! The nouns of linerate: units, what is asked for, what both ends agree on, what is measured, and
//! the record of a run.
//!
//! This crate holds data and the rules by which text becomes data. It never reads a clock, opens a
//! socket or decides anything; every other crate depends on it, and it depends on none but an attribute.
//!
//! ```
//! use linerate_model::units::{BitRate, DatagramSize};
//! let rate: BitRate = "1.5G".parse().unwrap();
//! assert_eq!(rate.bits_per_second(), 1_500_000_000);
//! assert_eq!(DatagramSize::new(0), None);
//! ```
#![forbid(unsafe_code)]

pub mod activity;
pub mod campaign;
pub mod clean;
pub mod doctor;
pub mod doubt;
pub mod error;
pub mod exit;
pub mod figures;
pub mod fleet;
pub mod fleet_agents;
pub mod fleet_doctor;
pub mod fleet_events;
pub mod fleet_now;
mod from_json;
pub mod host;
pub mod hours;
pub mod key_list;
mod kinds;
pub mod limits;
pub mod lines;
pub mod local_errors;
pub mod plan;
mod plan_record;
pub mod profile;
pub mod record;
pub mod run_event;
pub mod sample;
pub mod search;
pub mod served;
pub mod setting;
pub mod sweep;
pub mod test_event;
pub mod trial;
mod trips;
pub mod tune;
pub mod undo;
pub mod units;
pub mod word;
