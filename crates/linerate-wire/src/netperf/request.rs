//! What a client asks for.

use std::num::NonZeroU16;

use linerate_model::plan::{IpVersion, Transport};

use super::{Frame, Kind, Length};

/// Of the words of a request that matter here.
mod word {
    pub(super) const SEND_BUFFER: usize = 0;
    pub(super) const SEND_SIZE: usize = 1;
    pub(super) const SEND_ALIGNMENT: usize = 2;
    pub(super) const REQUEST_SIZE: usize = 5;
    pub(super) const RECEIVE_BUFFER: usize = 6;
    pub(super) const RECEIVE_SIZE: usize = 7;
    pub(super) const RECEIVE_ALIGNMENT: usize = 8;
    pub(super) const RESPONSE_SIZE: usize = 11;
    pub(super) const FLAGS: usize = 12;
    pub(super) const LENGTH: usize = 14;
    pub(super) const DIRTY: usize = 17;
    pub(super) const CLEAN: usize = 19;
    pub(super) const DATA_PORT: usize = 20;
    pub(super) const FAMILY: usize = 21;
    pub(super) const SOCKET_TYPE: usize = 22;
    pub(super) const PROTOCOL: usize = 23;
    pub(super) const DIRECTION: usize = 24;
    pub(super) const PEER_PORT: usize = 25;
    pub(super) const PRIORITY: usize = 36;
    pub(super) const TOS: usize = 37;
}

/// Where the name of a congestion control is, and how long with its NUL.
const CONGESTION: (usize, usize) = (160, 16);

const NO_DELAY: u32 = 0x1;
const CONNECTIONS: u32 = 0x4;
const MEASURE_CPU: u32 = 0x8;
const NO_CHECKSUM: u32 = 0x10;
/// Packets may go through a router; without it a peer that sends keeps to its own link.
const MAY_ROUTE: u32 = 0x20;

const TRANSMITS: u32 = 2;
const RECEIVES: u32 = 4;

/// Why a request for a test is none that can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Neither TCP nor UDP.
    #[error("IP protocol {0} is not spoken here, but TCP (6) and UDP (17) are")]
    Protocol(u32),
    /// Neither way, in a test that is none of connections.
    #[error("a test in the direction {0} carries nothing")]
    Direction(u32),
    /// Both ways, without a size.
    #[error("a test of requests and responses needs the size of both")]
    Sizes,
    /// No port has that number.
    #[error("there is no port {0}")]
    Port(u32),
}

/// Tests that are asked for in messages of before 2.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Old {
    /// A stream to the server: TCP_STREAM and TCP_SENDFILE.
    Stream,
    /// One to the client: TCP_MAERTS.
    Maerts,
    /// Requests and responses: TCP_RR.
    Requests,
    /// The same over UDP: UDP_RR.
    DatagramRequests,
    /// Datagrams to the server: UDP_STREAM.
    Datagrams,
    /// A connection for each request: TCP_CRR.
    ConnectionRequests,
    /// Connections that carry nothing: TCP_CC.
    Connections,
}

/// A test as its client asks for it, in words of the server: `None` leaves it to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// TCP or UDP.
    pub transport: Transport,
    /// The server sends.
    pub transmits: bool,
    /// The server receives.
    pub receives: bool,
    /// Each transaction has a connection of its own.
    pub connections: bool,
    /// Bytes of a request and of its response, in a test of these.
    pub sizes: Option<(u32, u32)>,
    /// Its end.
    pub length: Length,
    /// `SO_SNDBUF` in bytes.
    pub send_buffer: Option<u32>,
    /// `SO_RCVBUF` in bytes.
    pub receive_buffer: Option<u32>,
    /// Bytes a send call.
    pub send_size: Option<u32>,
    /// Bytes a receive call.
    pub receive_size: Option<u32>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// The server shall say what its CPUs did.
    pub measure_cpu: bool,
    /// UDP without checksums.
    pub no_checksum: bool,
    /// Packets may go through a router.
    pub may_route: bool,
    /// The port of the data connection that the client wants at the server.
    pub data_port: Option<NonZeroU16>,
    /// The client's own, over UDP.
    pub peer_port: Option<NonZeroU16>,
    /// `TCP_CONGESTION`.
    pub congestion: Option<String>,
    /// Type of service.
    pub tos: Option<u8>,
    /// The core that the server shall run on.
    pub core: Option<u16>,
    /// Version of IP; a netserver that is not told refuses.
    pub ip: Option<IpVersion>,
    /// It came in an older form, and its answers go in that.
    pub old: Option<Old>,
}

impl Request {
    pub(super) fn read(frame: &Frame) -> Result<Self, Unfit> {
        let transport = match frame.word(word::PROTOCOL) {
            6 => Transport::Tcp,
            17 => Transport::Udp,
            other => return Err(Unfit::Protocol(other)),
        };
        let (direction, flags) = (frame.word(word::DIRECTION), frame.word(word::FLAGS));
        let (transmits, receives) = (direction & TRANSMITS != 0, direction & RECEIVES != 0);
        let connections = flags & CONNECTIONS != 0;
        if !transmits && !receives && !connections {
            return Err(Unfit::Direction(direction));
        }
        let sizes = frame.positive(word::REQUEST_SIZE).zip(frame.positive(word::RESPONSE_SIZE));
        if transmits && receives && sizes.is_none() {
            return Err(Unfit::Sizes);
        }
        let port = |n: usize| {
            let number = frame.word(n);
            u16::try_from(number).map(NonZeroU16::new).map_err(|_| Unfit::Port(number))
        };
        let length = Length::of_word(frame.word(word::LENGTH));
        Ok(Self {
            transport,
            transmits,
            receives,
            connections,
            sizes: sizes.filter(|_| transmits && receives),
            length,
            send_buffer: frame.positive(word::SEND_BUFFER),
            receive_buffer: frame.positive(word::RECEIVE_BUFFER),
            send_size: frame.positive(word::SEND_SIZE),
            receive_size: frame.positive(word::RECEIVE_SIZE),
            nodelay: flags & NO_DELAY != 0,
            measure_cpu: flags & MEASURE_CPU != 0,
            no_checksum: flags & NO_CHECKSUM != 0,
            may_route: flags & MAY_ROUTE != 0,
            data_port: port(word::DATA_PORT)?,
            peer_port: port(word::PEER_PORT)?,
            congestion: frame.name(CONGESTION.0, CONGESTION.1),
            tos: u8::try_from(frame.word(word::TOS)).ok(),
            core: u16::try_from(frame.head()).ok(),
            ip: match frame.word(word::FAMILY) {
                4 => Some(IpVersion::V4),
                6 => Some(IpVersion::V6),
                _ => None,
            },
            old: None,
        })
    }

    /// The message that asks for it. A length beyond what a word holds is its largest.
    pub fn encode(&self) -> Frame {
        let mut frame = Frame::new(Kind::OMNI, self.core.map_or(u32::MAX, u32::from));
        frame.set_or_default(word::SEND_BUFFER, self.send_buffer);
        frame.set_or_default(word::SEND_SIZE, self.send_size);
        frame.set(word::SEND_ALIGNMENT, 8);
        frame.set_or_default(word::REQUEST_SIZE, self.sizes.map(|sizes| sizes.0));
        frame.set_or_default(word::RECEIVE_BUFFER, self.receive_buffer);
        frame.set_or_default(word::RECEIVE_SIZE, self.receive_size);
        frame.set(word::RECEIVE_ALIGNMENT, 8);
        frame.set_or_default(word::RESPONSE_SIZE, self.sizes.map(|sizes| sizes.1));
        let flags = [
            (self.nodelay, NO_DELAY),
            (self.connections, CONNECTIONS),
            (self.measure_cpu, MEASURE_CPU),
            (self.no_checksum, NO_CHECKSUM),
            (self.may_route, MAY_ROUTE),
        ];
        let set = |flags: &[(bool, u32)]| flags.iter().filter(|f| f.0).fold(0, |all, f| all | f.1);
        frame.set(word::FLAGS, set(&flags));
        frame.set(word::LENGTH, self.length.word());
        frame.set(word::DATA_PORT, self.data_port.map_or(0, |port| port.get().into()));
        frame.set(word::FAMILY, self.ip.map_or(0, |ip| ip.number().into()));
        for cache_game in word::DIRTY..=word::CLEAN {
            frame.set_or_default(cache_game, None);
        }
        let (socket, protocol) = match self.transport {
            Transport::Tcp => (1, 6),
            Transport::Udp => (2, 17),
        };
        frame.set(word::SOCKET_TYPE, socket);
        frame.set(word::PROTOCOL, protocol);
        let direction = set(&[(self.transmits, TRANSMITS), (self.receives, RECEIVES)]);
        frame.set(word::DIRECTION, direction);
        frame.set(word::PEER_PORT, self.peer_port.map_or(0, |port| port.get().into()));
        frame.set_or_default(word::PRIORITY, None);
        frame.set_or_default(word::TOS, self.tos.map(u32::from));
        if let Some(name) = &self.congestion {
            frame.set_name(CONGESTION.0, CONGESTION.1, name);
        }
        frame
    }
}
