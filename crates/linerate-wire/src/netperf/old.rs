//! Messages of before 2.5, of which a client of 2.7 still sends two: for TCP_SENDFILE, which is a stream to
//! the server, and for TCP_CC. Their words stand in other places.

use std::num::NonZeroU16;

use linerate_model::plan::Transport;

use super::{Frame, Kind, Length, Old, Request, Response, Results, Unfit};

impl Old {
    /// Of a request's kind.
    pub(super) fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::OLD_STREAM => Some(Self::Stream),
            Kind::OLD_CONNECTIONS => Some(Self::Connections),
            _ => None,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Stream => Kind::OLD_STREAM,
            Self::Connections => Kind::OLD_CONNECTIONS,
        }
    }

    /// The request as one of today.
    pub(super) fn request(self, frame: &Frame) -> Result<Request, Unfit> {
        // Buffers, the size of a receive call, no delay, CPU, length, port.
        let [send, receive, size, nodelay, cpu, length, port] = match self {
            Self::Stream => [0, 1, 2, 5, 6, 8, 13],
            Self::Connections => [1, 0, usize::MAX, 8, 9, 11, 14],
        };
        let number = frame.word(port);
        let data_port = u16::try_from(number).map_err(|_| Unfit::Port(number))?;
        Ok(Request {
            transport: Transport::Tcp,
            transmits: false,
            receives: self == Self::Stream,
            connections: self == Self::Connections,
            sizes: None,
            length: Length::of_word(frame.word(length)),
            send_buffer: frame.positive(send),
            receive_buffer: frame.positive(receive),
            send_size: None,
            receive_size: (self == Self::Stream).then(|| frame.positive(size)).flatten(),
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
        let mut frame = Frame::new(Kind(self.kind().0 + 1), 0);
        let [receive, nodelay, cpu, length, send, port, rate] = match self {
            Self::Stream => [0, 2, 3, 4, 5, 6, 7],
            Self::Connections => [0, 1, 2, 3, 4, 5, 6],
        };
        if self == Self::Stream {
            frame.set_or_default(1, response.receive_size);
        }
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
        let mut frame = Frame::new(Kind(self.kind().0 + 2), error);
        match self {
            Self::Stream => {
                let bits = (results.received as f64).to_bits();
                frame.set(0, (bits >> 32) as u32);
                frame.set(1, bits as u32);
                frame.set(2, results.receive_calls);
                frame.set(8, results.receive_buffer.unwrap_or(0));
                frame.set(9, results.send_buffer.unwrap_or(0));
            }
            Self::Connections => {
                frame.set(1, results.receive_calls);
                frame.set(2, results.transactions);
            }
        }
        frame.set_real(3, (results.elapsed_ns as f64 / 1e9) as f32);
        if let Some(cpu) = results.cpu {
            frame.set_real(4, cpu.busy as f32 / 100.0);
            frame.set(6, super::PROC_STAT);
            frame.set(7, cpu.cpus);
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
}
