//! From a netperf client's request to a plan that this server's owner allows.

use linerate_model::limits;
use linerate_model::plan::{
    Dialect, Direction, End, IpVersion, RrPlan, TcpPlan, TestPlan, Traffic, Transport, UdpPlan,
};
use linerate_model::units::{DatagramSize, Nanos};
use linerate_wire::native::message::RefusalKind;
use linerate_wire::netperf::{Length, Request, UNKNOWN_TEST};

use crate::admission;
use crate::options::Options;

/// Bytes of a call of a TCP test that names none.
const BLOCK_BYTES: u32 = 131_072;
/// The smallest buffer of a socket that sends (`SOCK_MIN_SNDBUF`, include/net/sock.h), in bytes.
const LEAST_BUFFER: u32 = 4_608;
/// No data goes to a port that services of a host have: behind one address may stand another's.
const LEAST_PORT: u16 = 1_024;
/// Rows that the data thread of one test keeps at most; the interval grows with the test.
const MOST_ROWS: u64 = 10_000;

/// A test that is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) kind: RefusalKind,
    /// What the client hears: a number of errno(3) mostly.
    pub(super) error: u32,
    pub(super) why: String,
}

impl Refusal {
    pub(super) fn new(kind: RefusalKind, why: impl Into<String>) -> Self {
        let error = match kind {
            RefusalKind::Busy => 16,
            RefusalKind::Policy => 122,
            RefusalKind::Unable => 95,
            RefusalKind::Key => 1,
            _ => 22,
        };
        Self { kind, error, why: why.into() }
    }

    /// In netperf's own words: an unknown test.
    pub(super) fn unknown(why: impl Into<String>) -> Self {
        Self { error: UNKNOWN_TEST, ..Self::new(RefusalKind::Protocol, why) }
    }
}

/// Holds a request against the table of limits and the server's policy.
pub(super) fn plan(
    request: &Request,
    ip: IpVersion,
    options: &Options,
) -> Result<TestPlan, Refusal> {
    let one_way = request.transmits != request.receives;
    if request.connections && (one_way || request.transport == Transport::Udp) {
        let why = "a connection for each transaction is of TCP, and carries something both ways or nothing";
        return Err(Refusal::unknown(why));
    }
    if request.peer_port.is_some_and(|port| port.get() < LEAST_PORT) {
        return Err(Refusal::new(RefusalKind::Policy, "data ports lie from 1024 to 65535"));
    }
    let (end, span) = end(request, options);
    let interval = span.div_ceil(MOST_ROWS).max(options.interval.0);
    let direction = if request.transmits && !request.receives {
        Direction::Reverse
    } else {
        Direction::Forward
    };
    // Both buffers of a socket are of one size here.
    let window = request.send_buffer.max(request.receive_buffer);
    let (least, most) = (limits::WINDOW_BYTES.min as u32, limits::WINDOW_BYTES.max as u32);
    let window = window.map(|window| window.clamp(least, most));
    let plan = TestPlan {
        direction,
        end,
        interval: Nanos(interval.clamp(limits::INTERVAL_NS.min, limits::INTERVAL_NS.max)),
        window,
        dscp: request.tos.map(|tos| tos >> 2),
        server_cpus: admission::wished_core(request.core),
        ..TestPlan::new(traffic(request, ip, window))
    };
    admission::check(&plan, Dialect::Netperf, ip, options)
        .map_err(|refused| Refusal::new(refused.kind, refused.why))?;
    Ok(plan)
}

/// The end of what this end sends, or else of the test; and how long it may last in nanoseconds.
fn end(request: &Request, options: &Options) -> (End, u64) {
    let longest = options.max_duration.0.clamp(limits::DURATION_NS.min, limits::DURATION_NS.max);
    match request.length {
        Length::Seconds(0) => (End::Time(Nanos(longest)), longest),
        Length::Seconds(seconds) => {
            let span = u64::from(seconds).saturating_mul(1_000_000_000);
            (End::Time(Nanos(span)), span)
        }
        Length::Units(units) if request.sizes.is_some() || request.connections => {
            (End::Datagrams(units.into()), longest)
        }
        Length::Units(units) => (End::Bytes(units.into()), longest),
    }
}

fn traffic(request: &Request, ip: IpVersion, window: Option<u32>) -> Traffic {
    // What a connection without data stands for.
    let sizes = request.sizes.or(request.connections.then_some((1, 1)));
    if let Some((asked, answer)) = sizes {
        return Traffic::Rr(RrPlan {
            transport: request.transport,
            request: asked,
            response: answer,
            outstanding: 1,
            rate: None,
        });
    }
    let size = if request.transmits { request.send_size } else { request.receive_size };
    match request.transport {
        Transport::Udp => {
            // Without a size as large as the buffer, of which the kernel gives twice what it is asked for.
            let size = size.or(window.map(|window| window.saturating_mul(2).max(LEAST_BUFFER)));
            // A receiver is not told how large datagrams are.
            let size = size.filter(|_| request.transmits).and_then(DatagramSize::new);
            Traffic::Udp(UdpPlan {
                checksum: !request.no_checksum || ip == IpVersion::V6,
                ..UdpPlan::new(size.unwrap_or(DatagramSize::MAX))
            })
        }
        Transport::Tcp => {
            let (least, most) = (limits::BLOCK_BYTES.min as u32, limits::BLOCK_BYTES.max as u32);
            Traffic::Tcp(TcpPlan {
                // Another one is a wish, as in netperf; the results say which was used.
                congestion: request
                    .congestion
                    .clone()
                    .filter(|name| admission::has_congestion_control(name)),
                nodelay: request.nodelay,
                ..TcpPlan::new(size.unwrap_or(BLOCK_BYTES).clamp(least, most))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::units::BitRate;

    use std::num::NonZeroU16;

    use super::*;

    fn request() -> Request {
        Request {
            transport: Transport::Tcp,
            transmits: false,
            receives: true,
            connections: false,
            sizes: None,
            length: Length::Seconds(10),
            send_buffer: None,
            receive_buffer: None,
            send_size: None,
            receive_size: None,
            nodelay: false,
            measure_cpu: false,
            no_checksum: false,
            may_route: true,
            data_port: None,
            peer_port: None,
            congestion: None,
            tos: None,
            core: None,
            ip: None,
            old: None,
        }
    }

    fn made(request: &Request) -> TestPlan {
        plan(request, IpVersion::V4, &Options::default()).unwrap()
    }

    #[test]
    fn no_size_of_a_clients_is_taken_as_it_is() {
        for size in [0, 1, 70_000, i32::MAX.cast_unsigned(), u32::MAX] {
            let wide = Some(size);
            let asked = Request { receive_size: wide, receive_buffer: wide, ..request() };
            made(&asked);
            made(&Request { transport: Transport::Udp, ..asked.clone() });
            let sends = Request { transmits: true, receives: false, send_size: wide, ..asked };
            made(&sends);
            made(&Request { transport: Transport::Udp, ..sends });
        }
        let rr = |sizes| Request { transmits: true, sizes: Some(sizes), ..request() };
        assert!(plan(&rr((1, 1)), IpVersion::V4, &Options::default()).is_ok());
        let large = plan(&rr((1 << 30, 1)), IpVersion::V4, &Options::default()).unwrap_err();
        assert_eq!((large.kind, large.error), (RefusalKind::OutOfRange, 22));
    }

    #[test]
    fn a_core_is_taken_where_this_host_has_it() {
        let core = u16::try_from(linerate_host::cores::allowed_cores()[0]).unwrap();
        assert_eq!(made(&Request { core: Some(core), ..request() }).server_cpus, [core]);
        assert!(made(&Request { core: Some(u16::MAX - 1), ..request() }).server_cpus.is_empty());
    }

    #[test]
    fn the_owners_limits_hold() {
        let options = Options {
            max_duration: Nanos::from_secs(20),
            max_rate: BitRate::new(1_000_000),
            ..Options::default()
        };
        let refused = |request: &Request, options: &Options| {
            plan(request, IpVersion::V4, options).unwrap_err().error
        };
        let long = Request { length: Length::Seconds(21), ..request() };
        assert_eq!(refused(&long, &options), 122);
        // Nobody says how fast it will be.
        assert_eq!(refused(&request(), &options), 122);
        let endless = Request { length: Length::Seconds(0), ..request() };
        let unlimited = Options { max_rate: None, ..options };
        let plan = plan(&endless, IpVersion::V4, &unlimited).unwrap();
        assert_eq!(plan.end, End::Time(Nanos::from_secs(20)));
        let service = Request { peer_port: NonZeroU16::new(53), ..request() };
        assert_eq!(refused(&service, &unlimited), 122);
        let connections = Request { connections: true, ..request() };
        assert_eq!(refused(&connections, &unlimited), UNKNOWN_TEST);
    }

    #[test]
    fn datagrams_go_out_as_large_as_was_asked_and_come_in_as_large_as_they_may() {
        let udp = Request { transport: Transport::Udp, ..request() };
        let size = |request: &Request| match made(request).traffic {
            Traffic::Udp(udp) => udp.size.bytes(),
            other => panic!("{other:?}"),
        };
        assert_eq!(size(&Request { receive_size: Some(100), ..udp.clone() }), 65_507);
        let sends = Request { transmits: true, receives: false, ..udp };
        assert_eq!(size(&Request { send_size: Some(100), ..sends.clone() }), 100);
        // As netserver's, which sends what its buffer holds.
        let buffer = |bytes| size(&Request { send_buffer: Some(bytes), ..sends.clone() });
        assert_eq!((buffer(1_000), buffer(8_192), buffer(65_536)), (4_608, 16_384, 65_507));
        assert_eq!(size(&sends), 65_507);
        let small = Request { send_buffer: Some(8_192), send_size: Some(100), ..sends };
        assert_eq!(size(&small), 100);
    }
}
