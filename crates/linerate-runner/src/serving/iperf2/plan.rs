//! What a client of iperf 2's asks for, as a plan of one stream.

use std::net::SocketAddr;
use std::num::NonZeroU16;

use linerate_model::plan::{Direction, End, TcpPlan, TestPlan, Traffic, Transport, UdpPlan};
use linerate_model::units::{BitRate, DatagramSize, Nanos, Rate};
use linerate_wire::iperf2::burst::BURST_BYTES;
use linerate_wire::iperf2::{Amount, Header};
use linerate_wire::native::message::{RefusalKind, Refused};

use crate::options::Options;

/// Of a TCP client that names none: as iperf 2's own.
const BLOCK_BYTES: u32 = 128 << 10;
/// The largest there is.
const MOST_DATAGRAM: u32 = 65_507;

/// Whoever asks for a connection to a port of a system's service does not listen there himself (RFC 2577, section 3).
const FIRST_FREE: NonZeroU16 = NonZeroU16::new(1_024).unwrap();

/// What a client asks of a stream, and on which.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) transport: Transport,
    pub(super) header: Header,
    /// Bytes of the first datagram, or of what a stream begins with.
    pub(super) first: usize,
}

/// Why a stream is none of those that this server takes. iperf 2 has no word for it.
pub(super) fn refuse(kind: RefusalKind, why: &str) -> Refused {
    Refused { kind, why: why.to_owned(), hints: vec![] }
}

/// Whether this server does such tests at all.
pub(super) fn check(header: &Header, transport: Transport) -> Result<(), Refused> {
    let two_ways = header.reverse || header.full_duplex;
    let why = if header.back.is_some() && transport == Transport::Udp {
        "-d and -r over UDP want data sent to an address that nobody has proven: use TCP"
    } else if header.back.is_some_and(|back| back.port.is_none_or(|port| port < FIRST_FREE)) {
        "-d and -r to a port below 1024: it is no client that listens there, so name another with -L"
    } else if two_ways && transport == Transport::Udp {
        // A few bytes would have it send for minutes, to whoever's address they carry.
        "-R and --full-duplex over UDP want data sent to an address that nobody has proven: use TCP"
    } else if header.bounce_back {
        "--bounceback: this server has streams only for clients of iperf 2"
    } else {
        return Ok(());
    };
    Err(refuse(RefusalKind::Policy, why))
}

/// As this end runs it. A client that says no end has the longest test.
pub(super) fn plan(asked: &Asked, options: &Options) -> TestPlan {
    let Asked { header, transport, first, .. } = asked;
    let direction = match (header.full_duplex, header.reverse) {
        (true, _) => Direction::Both,
        (false, true) => Direction::Reverse,
        (false, false) => Direction::Forward,
    };
    let rate = header.rate_bps.and_then(BitRate::new);
    let sockets = &options.sockets;
    let datagram = u32::try_from(*first).unwrap_or(MOST_DATAGRAM);
    let traffic = match transport {
        Transport::Udp => {
            // Later ones may be longer: the first says how long.
            let size = header.length.max(datagram).min(MOST_DATAGRAM);
            let size = DatagramSize::new(size.max(80)).unwrap_or(DatagramSize::MAX);
            Traffic::Udp(UdpPlan { rate: rate.map(Rate::Bits), ..UdpPlan::new(size) })
        }
        Transport::Tcp => Traffic::Tcp(TcpPlan {
            rate: rate.filter(|_| direction.has_reverse()),
            mss: sockets.mss,
            congestion: sockets.congestion.clone(),
            nodelay: sockets.nodelay,
            ..TcpPlan::new(block(header))
        }),
    };
    let end = match header.amount {
        Some(Amount::Time(hundredths)) => {
            End::Time(Nanos(u64::from(hundredths).saturating_mul(10_000_000)))
        }
        // What comes ends by itself.
        Some(Amount::Bytes(bytes)) if direction.has_reverse() => End::Bytes(bytes.into()),
        _ => End::Time(options.max_duration),
    };
    let (window, dscp, interval) = (sockets.window, sockets.dscp, options.interval);
    TestPlan { direction, end, interval, window, dscp, ..TestPlan::new(traffic) }
}

/// Bytes of a block: what the client names, and no fewer than say when it was written, where it asks for that.
fn block(header: &Header) -> u32 {
    match (header.length, header.began_ns) {
        (0, _) => BLOCK_BYTES,
        (length, Some(_)) => length.max(BURST_BYTES as u32),
        (length, None) => length,
    }
}

#[cfg(test)]
mod tests {
    use linerate_wire::iperf2::Back;

    use super::*;

    fn back(port: u16) -> Header {
        let back = Back { port: NonZeroU16::new(port), at_once: true };
        Header { back: Some(back), ..Header::default() }
    }

    fn asked(transport: Transport, header: Header) -> Asked {
        let at = SocketAddr::from(([192, 0, 2, 1], 5_001));
        Asked { peer: at, local: at, transport, header, first: 80 }
    }

    #[test]
    fn what_a_client_says_is_the_plan_and_what_it_does_not_say_has_a_bound() {
        let options = Options::default();
        let nothing = plan(&asked(Transport::Udp, Header::default()), &options);
        assert_eq!(nothing.end, End::Time(options.max_duration));
        let Traffic::Udp(udp) = &nothing.traffic else { panic!("{nothing:?}") };
        assert_eq!((udp.size.bytes(), udp.rate), (80, None));
        let header = Header {
            length: u32::MAX,
            amount: Some(Amount::Time(150)),
            rate_bps: Some(1_000),
            ..Header::default()
        };
        let much = plan(&asked(Transport::Udp, header), &options);
        let Traffic::Udp(udp) = &much.traffic else { panic!("{much:?}") };
        assert_eq!((udp.size, much.end), (DatagramSize::MAX, End::Time(Nanos(1_500_000_000))));
        assert_eq!(udp.rate.map(|rate| rate.bits_per_second(udp.size)), Some(1_000));
        // Bytes are the end of who sends.
        for (reverse, end) in [(true, End::Bytes(7)), (false, End::Time(options.max_duration))] {
            let header = Header { reverse, amount: Some(Amount::Bytes(7)), ..Header::default() };
            assert_eq!(plan(&asked(Transport::Tcp, header), &options).end, end);
        }
        // A block has room for its time.
        for (length, began_ns, bytes) in
            [(0, None, BLOCK_BYTES), (50, None, 50), (50, Some(0), 92), (500, Some(0), 500)]
        {
            let header = Header { length, began_ns, reverse: true, ..Header::default() };
            let plan = plan(&asked(Transport::Tcp, header), &options);
            let Traffic::Tcp(tcp) = &plan.traffic else { panic!("{plan:?}") };
            assert_eq!(tcp.block, bytes);
        }
        let year = Header { amount: Some(Amount::Time(u32::MAX)), ..Header::default() };
        let year = plan(&asked(Transport::Tcp, year), &options);
        assert_eq!(year.end, End::Time(Nanos(u64::from(u32::MAX) * 10_000_000)));
    }

    #[test]
    fn nothing_is_sent_to_who_has_proven_no_address() {
        let reverse = Header { reverse: true, ..Header::default() };
        let duplex = Header { full_duplex: true, ..Header::default() };
        let requests = Header { bounce_back: true, ..Header::default() };
        for header in [reverse, duplex, back(5_001)] {
            assert!(check(&header, Transport::Udp).is_err(), "{header:?}");
        }
        for header in [back(0), back(25), back(1_023), requests] {
            assert!(check(&header, Transport::Tcp).is_err(), "{header:?}");
        }
        // A connection has proven it.
        assert!(check(&back(1_024), Transport::Tcp).is_ok());
        for (header, direction) in [(reverse, Direction::Reverse), (duplex, Direction::Both)] {
            assert!(check(&header, Transport::Tcp).is_ok(), "{header:?}");
            let plan = plan(&asked(Transport::Tcp, header), &Options::default());
            assert_eq!(plan.direction, direction);
        }
        let plain = Header { began_ns: Some(0), ..Header::default() };
        assert!(check(&plain, Transport::Udp).is_ok() && check(&plain, Transport::Tcp).is_ok());
    }
}
