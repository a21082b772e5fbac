//! Opening streams as iperf 2 does.

use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::num::NonZeroU16;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use linerate_engine::sys;
use linerate_model::plan::Transport;
use linerate_model::record::ErrorRecord;
use linerate_wire::iperf2::datagram::{MARK_BYTES, Mark};
use linerate_wire::iperf2::{ACK_BYTES, Ack};

use crate::address::with_port;
use crate::client::open::{Open, Opener};
use crate::data::StreamSocket;
use crate::errors;

/// A server that is to send is asked so often …
const ASK_EVERY: Duration = Duration::from_millis(20);
/// … and so many times.
const ASK_TIMES: usize = 150;
/// A server says that it is there within this time.
const ACK_LIMIT: Duration = Duration::from_secs(5);

/// Opens the streams of one test.
pub(super) struct Iperf2 {
    pub(super) opener: Opener,
    pub(super) header: Vec<u8>,
    /// The data goes to the server.
    pub(super) sends: bool,
}

impl Open for Iperf2 {
    fn open(
        &self,
        _: u16,
        _: Option<NonZeroU16>,
        _: &AtomicBool,
    ) -> Result<StreamSocket, ErrorRecord> {
        let Opener { name, peer, .. } = &self.opener;
        match self.opener.plan.traffic.transport() {
            Transport::Udp => {
                let fault = |e: std::io::Error| errors::iperf2_stream(name, *peer, &e.to_string());
                self.udp().map_err(fault).map(|socket| StreamSocket::Udp(socket, None))
            }
            Transport::Tcp => {
                let stream = self.opener.connect(with_port(self.opener.local, 0))?;
                let said = self.tcp(&stream);
                said.map_err(|e| errors::iperf2_stream(name, *peer, &e.to_string()))?;
                Ok(StreamSocket::Tcp(stream))
            }
        }
    }
}

impl Iperf2 {
    /// Says what the stream is. Where this end sends, the server says that it is there, and what it said must
    /// be read: unread bytes would break the connection at its end, and lose what is on its way.
    fn tcp(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        stream.write_all(&self.header)?;
        if !self.sends {
            return Ok(());
        }
        let until = Instant::now() + ACK_LIMIT;
        let mut ack = [0; ACK_BYTES];
        read_by(stream, &mut ack, until)?;
        let length = Ack::length(&ack).ok_or_else(|| {
            std::io::Error::other("what listens there does not answer as iperf 2")
        })?;
        read_by(stream, &mut vec![0; length.saturating_sub(ACK_BYTES)], until)
    }

    /// A stream that this end sends begins with its data; one that the server sends must be asked for.
    fn udp(&self) -> std::io::Result<socket2::Socket> {
        let socket = sys::udp_socket(with_port(self.opener.local, 0))?;
        socket.connect(&self.opener.peer.into())?;
        if self.sends {
            return Ok(socket);
        }
        let mut first = vec![0; MARK_BYTES];
        Mark { number: 1, sent_ns: 0 }.write(&mut first);
        first.extend(&self.header);
        socket.set_read_timeout(Some(ASK_EVERY))?;
        let mut why = silent();
        for _ in 0..ASK_TIMES {
            let sent = socket.send(&first);
            // What comes is the receiver's.
            let came = sent.and_then(|_| socket.peek(&mut [MaybeUninit::<u8>::uninit(); 1]));
            match came {
                Ok(_) => return Ok(socket),
                Err(e) if e.kind() == ErrorKind::WouldBlock => why = silent(),
                // Its server closes its port to each new stream for a moment, until it has opened it anew.
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                    std::thread::sleep(ASK_EVERY);
                    why = e;
                }
                Err(e) => return Err(e),
            }
        }
        Err(why)
    }
}

fn silent() -> std::io::Error {
    std::io::Error::new(ErrorKind::TimedOut, "the server does not answer")
}

/// Fills `bytes` by `until`, however slowly they come.
fn read_by(mut stream: &TcpStream, bytes: &mut [u8], until: Instant) -> std::io::Result<()> {
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(silent());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(rest) {
            Ok(0) => return Err(std::io::Error::new(ErrorKind::UnexpectedEof, "it hung up")),
            Ok(more) => read += more,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_comes_byte_by_byte_has_no_more_time_than_one_that_comes_at_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        // Until its client has hung up.
        let drips = std::thread::spawn(move || {
            while server.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let until = Instant::now() + Duration::from_millis(50);
        let error = read_by(&stream, &mut vec![0; 1 << 20], until).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(stream);
        drips.join().unwrap();
    }
}
