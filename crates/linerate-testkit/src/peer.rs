//! Clients made by hand, for tests of a server: they say what no client of this program would, and break
//! off anywhere.

pub mod iperf3;
pub mod native;

use std::time::Duration;

/// Longer than every deadline of the protocols.
pub const DEADLINES: Duration = Duration::from_secs(25);
