//! Clients made by hand, for tests of a server: they say what no client of this program would, and break
//! off anywhere.

pub mod iperf3;
pub mod native;

use std::time::Duration;

/// Whatever comes at all has come by then: it is longer than every deadline of the protocols, and than machines were
/// seen to stand still. Who waits as long for a state tells a hang from a machine that has other work.
pub const LONG: Duration = Duration::from_secs(180);
