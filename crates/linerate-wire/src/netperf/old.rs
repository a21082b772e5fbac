//! Messages of before 2.5. A client of 2.7 still sends two of them: for TCP_SENDFILE, which is a stream to the server, and
//! for TCP_CC. One that was built without omni (`--disable-omni`) asks for each of its tests in these. Their words stand in
//! other places.

use std::num::NonZeroU16;

use linerate_model::plan::Transport;

use super::{FRAME_BYTES, Frame, Kind, Length, Old, Request, Response, Results, Unfit};

/// Each with the number of its request; those of its answers follow.
const KINDS: [(Old, u32); 7] = [
    (Old::Stream, 10),
    (Old::Requests, 13),
    (Old::Datagrams, 16),
    (Old::DatagramRequests, 19),
    (Old::ConnectionRequests, 34),
    (Old::Maerts, 94),
    (Old::Connections, 300),
];

/// A word that is in no message: it reads as 0, and what is written to it goes nowhere.
const NOWHERE: usize = FRAME_BYTES;

impl Old {
    /// Of a request's kind.
    pub(super) fn of(kind: Kind) -> Option<Self> {
        KINDS.iter().find(|(_, number)| *number == kind.0).map(|(old, _)| *old)
    }

    /// Of its request, or of the first or second answer.
    fn kind(self, answer: u32) -> Kind {
        let number = KINDS.iter().find(|(old, _)| *old == self).map_or(0, |(_, number)| *number);
        Kind(number + answer)
    }

    /// Whether the server sends, and whether it receives.
    fn ways(self) -> (bool, bool) {
        match self {
            Self::Stream | Self::Datagrams => (false, true),
            Self::Maerts => (true, false),
            Self::Requests | Self::DatagramRequests | Self::ConnectionRequests => (true, true),
            Self::Connections => (false, false),
        }
    }

    /// The request as one of today.
    pub(super) fn request(self, frame: &Frame) -> Result<Request, Unfit> {
        // Buffers to send and to receive, no delay, CPU, length, port.
        let [send, receive, nodelay, cpu, length, port] = match self {
            Self::Stream | Self::Maerts => [0, 1, 5, 6, 8, 13],
            Self::Datagrams => [NOWHERE, 0, NOWHERE, 6, 8, 11],
            _ => [1, 0, 8, 9, 11, 14],
        };
        let (transmits, receives) = self.ways();
        let sizes = frame.positive(6).zip(frame.positive(7)).filter(|_| transmits && receives);
        if transmits && receives && sizes.is_none() {
            return Err(Unfit::Sizes);
        }
        let number = frame.word(port);
        let data_port = u16::try_from(number).map_err(|_| Unfit::Port(number))?;
        // How long datagrams are that it receives matters to no receiver.
        let size = |of: Self| (self == of).then(|| frame.positive(2)).flatten();
        Ok(Request {
            transport: match self {
                Self::Datagrams | Self::DatagramRequests => Transport::Udp,
                _ => Transport::Tcp,
            },
            transmits,
            receives,
            connections: matches!(self, Self::ConnectionRequests | Self::Connections),
            sizes,
            length: Length::of_word(frame.word(length)),
            send_buffer: frame.positive(send),
            receive_buffer: frame.positive(receive),
            send_size: size(Self::Maerts),
            receive_size: size(Self::Stream),
            nodelay: frame.word(nodelay) == 1,
            measure_cpu: frame.word(cpu) == 1,
            no_checksum: false,
            may_route: true,
            data_port: NonZeroU16::new(data_port),
            peer_port: None,
            congestion: None,
            tos: None,
            core: u16::try_from(frame.head()).ok(),
            ip: None,
            old: Some(self),
        })
    }

    /// The first answer.
    fn response(self, response: &Response, request: &Request) -> Frame {
        let mut frame = Frame::new(self.kind(1), 0);
        let [receive, size, nodelay, cpu, length, send, port, rate] = match self {
            Self::Stream | Self::Maerts => [0, 1, 2, 3, 4, 5, 6, 7],
            Self::Datagrams => [0, NOWHERE, NOWHERE, 2, 3, 1, 4, 5],
            _ => [0, NOWHERE, 1, 2, 3, 4, 5, 6],
        };
        frame.set_or_default(size, response.receive_size.or(response.send_size));
        frame.set_or_default(receive, response.receive_buffer);
        frame.set(nodelay, request.nodelay.into());
        frame.set(cpu, response.measures_cpu.into());
        frame.set(length, request.length.word());
        frame.set_or_default(send, response.send_buffer);
        frame.set(port, response.data_port.map_or(0, |port| port.get().into()));
        frame.set_real(rate, super::CPU_RATE);
        frame
    }

    /// The second one; or an error, for which a client ends.
    fn results(self, results: &Results, error: u32) -> Frame {
        let mut frame = Frame::new(self.kind(2), error);
        match self {
            Self::Stream => {
                frame.set_wide_real(0, results.received as f64);
                frame.set(2, results.receive_calls);
                frame.set(8, results.receive_buffer.unwrap_or(0));
                frame.set(9, results.send_buffer.unwrap_or(0));
            }
            Self::Maerts => {
                frame.set_wide_real(0, results.sent as f64);
                frame.set(2, results.send_calls);
            }
            Self::Datagrams => {
                frame.set(0, results.receive_calls);
                // As much of the number as there is room for; clients count datagrams.
                frame.set(1, results.received as u32);
            }
            _ => {
                frame.set(1, results.receive_calls);
                frame.set(2, results.transactions);
            }
        }
        let [elapsed, busy, method, cpus] = match self {
            Self::Datagrams => [2, 3, 4, 5],
            _ => [3, 4, 6, 7],
        };
        frame.set_real(elapsed, (results.elapsed_ns as f64 / 1e9) as f32);
        if let Some(cpu) = results.cpu {
            frame.set_real(busy, cpu.busy as f32 / 100.0);
            frame.set(method, super::PROC_STAT);
            frame.set(cpus, cpu.cpus);
        }
        frame
    }
}

impl Response {
    /// The message that says so, in the form of its request.
    pub fn answer(&self, request: &Request) -> Frame {
        request.old.map_or_else(|| self.encode(), |old| old.response(self, request))
    }
}

impl Results {
    /// The message that says so, or `error`, in the form of its request.
    pub fn answer(&self, error: u32, request: &Request) -> Frame {
        request.old.map_or_else(|| self.encode(error), |old| old.results(self, error))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Ask, ask};
    use super::*;

    fn asked(frame: &Frame) -> Request {
        match ask(frame) {
            Ask::Test(Ok(request)) => *request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_client_of_today_still_asks_in_the_old_way() {
        // 4 s, CPU wanted, receive calls of 4,096 bytes, port 7,001.
        let stream = asked(&Frame::of_words("a ffffffff 0 20000 1000 8 0 1 1 0 4 0 0 0 0 1b59 2"));
        assert!(stream.receives && !stream.transmits && stream.nodelay && stream.measure_cpu);
        assert_eq!(stream.length, Length::Seconds(4));
        assert_eq!((stream.receive_buffer, stream.receive_size), (Some(0x20000), Some(4_096)));
        assert_eq!(stream.data_port.map(NonZeroU16::get), Some(7_001));
        // 100 connections.
        let words = "12c ffffffff 0 0 8 0 8 0 1 1 0 0 0 ffffff9c 0 0 0 2";
        let connections = asked(&Frame::of_words(words));
        assert!(connections.connections && !connections.receives && !connections.transmits);
        assert_eq!((connections.length, connections.sizes), (Length::Units(100), None));
        assert_eq!(connections.old, Some(Old::Connections));
        let far = Frame::of_words("a ffffffff 0 0 0 8 0 0 0 0 4 0 0 0 0 10000");
        assert_eq!(ask(&far), Ask::Test(Err(Unfit::Port(65_536))));
    }

    #[test]
    fn a_client_without_omni_asks_for_every_test_in_the_old_way() {
        // -l 2 -C -r 100,200 -s 32K -S 64K -D -P ,7001, of which buffers are here in the order of these messages.
        for (kind, transport, connections) in [
            ("d", Transport::Tcp, false),
            ("13", Transport::Udp, false),
            ("22", Transport::Tcp, true),
        ] {
            let words = format!("{kind} ffffffff 10000 20000 8 0 8 0 64 c8 1 1 0 2 0 0 1b59 2");
            let request = asked(&Frame::of_words(&words));
            assert!(request.transmits && request.receives && request.nodelay, "{request:?}");
            assert!(request.measure_cpu && request.connections == connections, "{request:?}");
            assert_eq!((request.transport, request.sizes), (transport, Some((100, 200))));
            assert_eq!(
                (request.receive_buffer, request.send_buffer),
                (Some(0x10000), Some(0x20000))
            );
            assert_eq!(request.length, Length::Seconds(2));
            assert_eq!(request.data_port.map(NonZeroU16::get), Some(7_001));
        }
        let maerts = asked(&Frame::of_words("5e ffffffff 20000 0 1000 8 0 0 1 0 2 0 0 0 0 1b59 2"));
        assert!(maerts.transmits && !maerts.receives && maerts.measure_cpu && !maerts.nodelay);
        assert_eq!((maerts.send_size, maerts.receive_size), (Some(4_096), None));
        assert_eq!((maerts.send_buffer, maerts.length), (Some(0x20000), Length::Seconds(2)));
        let words = "10 ffffffff 10000 5b4 0 8 0 1 1 0 2 0 0 1b59 2";
        let datagrams = asked(&Frame::of_words(words));
        assert!(datagrams.receives && !datagrams.transmits && datagrams.measure_cpu);
        assert_eq!((datagrams.transport, datagrams.nodelay), (Transport::Udp, false));
        assert_eq!((datagrams.receive_buffer, datagrams.send_buffer), (Some(0x10000), None));
        assert_eq!(datagrams.length, Length::Seconds(2));
        assert_eq!(datagrams.data_port.map(NonZeroU16::get), Some(7_001));
        // Nothing is answered to a request of no bytes.
        let none = Frame::of_words("d ffffffff 0 0 8 0 8 0 0 1 0 0 0 2");
        assert_eq!(ask(&none), Ask::Test(Err(Unfit::Sizes)));
    }

    #[test]
    fn answers_have_their_words_where_old_clients_look() {
        let request = asked(&Frame::of_words("a ffffffff 0 0 0 8 0 0 1 0 4"));
        let port = NonZeroU16::new(7_001);
        let response = Response { data_port: port, measures_cpu: true, ..Response::default() };
        let frame = response.answer(&request);
        assert_eq!((frame.kind(), frame.word(6), frame.word(4)), (Kind(11), 7_001, 4));
        let results = Results {
            received: 3,
            receive_calls: 2,
            elapsed_ns: 500_000_000,
            ..Results::default()
        };
        let frame = results.answer(0, &request);
        let bits = (u64::from(frame.word(0)) << 32) | u64::from(frame.word(1));
        assert_eq!((f64::from_bits(bits), frame.word(2), frame.real(3)), (3.0, 2, Some(0.5)));
        let request = asked(&Frame::of_words("12c ffffffff 0 0 8 0 8 0 1 1 0 0 0 4"));
        assert_eq!(response.answer(&request).word(5), 7_001);
        let results = Results { transactions: 9, ..Results::default() };
        assert_eq!(results.answer(0, &request).word(2), 9);
        assert_eq!(results.answer(62, &request).head(), 62);
    }

    #[test]
    fn answers_to_the_rest_have_theirs() {
        let cpu = crate::netperf::CpuShare { cpus: 2, busy: 5_000, ..Default::default() };
        let response = Response {
            data_port: NonZeroU16::new(7_001),
            measures_cpu: true,
            receive_buffer: Some(1_000),
            send_buffer: Some(2_000),
            ..Response::default()
        };
        let results = Results {
            received: (1 << 32) + 7,
            receive_calls: 5,
            sent: 1 << 40,
            send_calls: 6,
            transactions: 9,
            elapsed_ns: 500_000_000,
            cpu: Some(cpu),
            ..Results::default()
        };
        let answers = |words: &str| {
            let request = asked(&Frame::of_words(words));
            (response.answer(&request), results.answer(0, &request))
        };
        for kind in ["d", "13", "22"] {
            let (first, second) = answers(&format!("{kind} 0 0 0 8 0 8 0 1 1 1 1 0 2"));
            // Buffer, no delay, CPU, length, buffer, port.
            assert_eq!([0, 1, 2, 3, 4, 5].map(|n| first.word(n)), [1_000, 1, 1, 2, 2_000, 7_001]);
            assert_eq!((first.real(6), first.kind().0 + 1), (Some(100.0), second.kind().0));
            assert_eq!(
                (second.word(2), second.real(3), second.real(4)),
                (9, Some(0.5), Some(50.0))
            );
            assert_eq!((second.word(6), second.word(7)), (8, 2));
        }
        let (first, second) = answers("5e 0 0 0 0 8 0 0 1 0 2");
        assert_eq!((first.kind(), first.word(6), first.word(5)), (Kind(95), 7_001, 2_000));
        let bits = (u64::from(second.word(0)) << 32) | u64::from(second.word(1));
        assert_eq!((second.kind(), f64::from_bits(bits)), (Kind(96), (1_u64 << 40) as f64));
        assert_eq!((second.word(2), second.real(3), second.word(7)), (6, Some(0.5), 2));
        let (first, second) = answers("10 0 0 5b4 0 8 0 0 1 0 2");
        assert_eq!([0, 1, 2, 3, 4].map(|n| first.word(n)), [1_000, 2_000, 1, 2, 7_001]);
        assert_eq!((first.kind(), first.real(5), second.kind()), (Kind(17), Some(100.0), Kind(18)));
        // So many datagrams and bytes, of which 32 bits are said.
        assert_eq!((second.word(0), second.word(1)), (5, 7));
        assert_eq!((second.real(2), second.real(3)), (Some(0.5), Some(50.0)));
        assert_eq!((second.word(4), second.word(5)), (8, 2));
    }
}
