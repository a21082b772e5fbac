//! Plans of tests, of which a test changes what it is about.

use linerate_model::plan::{
    Direction, End, EngineChoice, RrPlan, TcpPlan, TestPlan, Traffic, Transport, UdpPlan,
};
use linerate_model::units::{DatagramSize, Nanos};

const MS: u64 = 1_000_000;

/// One stream from the client for a second, in intervals of 100 ms.
pub fn plan(traffic: Traffic) -> TestPlan {
    TestPlan {
        traffic,
        direction: Direction::Forward,
        streams: 1,
        end: End::Time(Nanos::from_secs(1)),
        warmup: Nanos(0),
        interval: Nanos(100 * MS),
        window: None,
        client_cpus: vec![],
        server_cpus: vec![],
        dscp: None,
    }
}

/// Datagrams of 1,000 bytes, as fast as they go.
///
/// # Panics
/// Never: the size is legal.
pub fn udp() -> UdpPlan {
    UdpPlan {
        size: DatagramSize::new(1_000).expect("a legal size"),
        rate: None,
        burst: Nanos(0),
        engine: EngineChoice::Auto,
        checksum: true,
    }
}

/// Blocks of 64 KiB, as fast as they go.
pub fn tcp() -> TcpPlan {
    TcpPlan {
        block: 65_536,
        mss: None,
        congestion: None,
        nodelay: false,
        rate: None,
        discard: false,
        zerocopy: false,
    }
}

/// A byte for a byte, one after the other.
pub fn rr(transport: Transport) -> RrPlan {
    RrPlan { transport, request: 1, response: 1, outstanding: 1, rate: None }
}
