//! The server's first answer: where the data connection goes.

use std::num::NonZeroU16;

use super::{CPU_RATE, Frame, Kind};

/// Of its words.
mod word {
    pub(super) const RECEIVE_BUFFER: usize = 0;
    pub(super) const RECEIVE_SIZE: usize = 1;
    pub(super) const SEND_BUFFER: usize = 3;
    pub(super) const SEND_SIZE: usize = 4;
    pub(super) const FLAGS: usize = 6;
    pub(super) const CPU_RATE: usize = 7;
    pub(super) const DATA_PORT: usize = 11;
    pub(super) const PRIORITY: usize = 16;
    pub(super) const TOS: usize = 17;
}

const MEASURE_CPU: u32 = 0x8;

/// What the server will do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// The data connection's.
    pub data_port: Option<NonZeroU16>,
    /// `SO_RCVBUF` that the kernel granted, in bytes.
    pub receive_buffer: Option<u32>,
    /// `SO_SNDBUF` that the kernel granted, in bytes.
    pub send_buffer: Option<u32>,
    /// Bytes a receive call.
    pub receive_size: Option<u32>,
    /// Bytes a send call.
    pub send_size: Option<u32>,
    /// Results will say what the server's CPUs did.
    pub measures_cpu: bool,
    /// `IP_TOS` of its packets of data, where one was asked for.
    pub tos: Option<u32>,
}

impl Response {
    /// The message that says so.
    pub fn encode(&self) -> Frame {
        let mut frame = Frame::new(Kind::OMNI_RESPONSE, 0);
        frame.set_or_default(word::RECEIVE_BUFFER, self.receive_buffer);
        frame.set_or_default(word::RECEIVE_SIZE, self.receive_size);
        frame.set_or_default(word::SEND_BUFFER, self.send_buffer);
        frame.set_or_default(word::SEND_SIZE, self.send_size);
        if self.measures_cpu {
            frame.set(word::FLAGS, MEASURE_CPU);
            frame.set_real(word::CPU_RATE, CPU_RATE);
        }
        frame.set(word::DATA_PORT, self.data_port.map_or(0, |port| port.get().into()));
        frame.set_or_default(word::PRIORITY, None);
        frame.set_or_default(word::TOS, self.tos);
        frame
    }

    /// What an answer says, whatever its kind: see [`Kind::is_answer`].
    ///
    /// # Errors
    /// The server's error where it says one.
    pub fn read(frame: &Frame) -> Result<Self, u32> {
        if frame.head() != 0 {
            return Err(frame.head());
        }
        let port = u16::try_from(frame.word(word::DATA_PORT)).ok().and_then(NonZeroU16::new);
        Ok(Self {
            data_port: port,
            receive_buffer: frame.positive(word::RECEIVE_BUFFER),
            send_buffer: frame.positive(word::SEND_BUFFER),
            receive_size: frame.positive(word::RECEIVE_SIZE),
            send_size: frame.positive(word::SEND_SIZE),
            measures_cpu: frame.word(word::FLAGS) & MEASURE_CPU != 0,
            tos: frame.positive(word::TOS),
        })
    }

    /// The message that says that there is no test, for a reason that is an `errno` or 998.
    pub fn refuse(error: u32) -> Frame {
        Frame::new(Kind::OMNI_RESPONSE, error)
    }
}
