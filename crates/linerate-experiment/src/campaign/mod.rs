//! Campaigns: settings x reboots x runs.
//!
//! [`plan`] reads what is wanted, [`design`] draws the order of all runs, [`control`] says the next
//! step from what happened so far, [`extract`] finds the number in another program's output. Nothing
//! here runs anything.

pub mod control;
pub mod design;
pub mod extract;
pub mod plan;
