//! Plans of tests, of which a test changes what it is about.

use linerate_model::plan::{End, RrPlan, TcpPlan, TestPlan, Traffic, Transport, UdpPlan};
use linerate_model::units::{DatagramSize, Nanos};

const MS: u64 = 1_000_000;

/// One stream from the client for a second, in intervals of 100 ms.
pub fn plan(traffic: Traffic) -> TestPlan {
    let end = End::Time(Nanos::from_secs(1));
    TestPlan { end, interval: Nanos(100 * MS), ..TestPlan::new(traffic) }
}

/// Datagrams of 1,000 bytes, as fast as they go.
///
/// # Panics
/// Never: the size is legal.
pub fn udp() -> UdpPlan {
    UdpPlan::new(DatagramSize::new(1_000).expect("a legal size"))
}

/// Blocks of 64 KiB, as fast as they go.
pub fn tcp() -> TcpPlan {
    TcpPlan::new(65_536)
}

/// A byte for a byte, one after the other.
pub fn rr(transport: Transport) -> RrPlan {
    RrPlan { transport, request: 1, response: 1, outstanding: 1, rate: None }
}
