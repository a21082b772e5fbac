//! Plans of tests, of which a test changes what it is about.

use linerate_model::plan::{End, RrPlan, TcpPlan, TestPlan, Traffic, Transport, UdpPlan};
use linerate_model::units::{DatagramSize, Nanos};
use linerate_wire::native::agent::RemoteTest;

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

/// A test that a host is to run towards another, with the key where it has one.
pub fn remote(name: &str, port: u16, plan: TestPlan) -> RemoteTest {
    RemoteTest {
        name: name.to_owned(),
        port,
        plan,
        size_from_mtu: false,
        ip: None,
        discard: false,
        with_key: true,
        dialect: None,
        command: Vec::new(),
    }
}
