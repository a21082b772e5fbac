//! The single bytes of the control connection.

/// What one end tells the other with one signed byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Server: all streams exist.
    TestStart,
    /// Server: senders begin now.
    TestRunning,
    /// Client: the test is over.
    TestEnd,
    /// Server: send me your parameters.
    ParamExchange,
    /// Server: open the data streams.
    CreateStreams,
    /// Server: I was told to stop.
    ServerTerminate,
    /// Client: I was told to stop.
    ClientTerminate,
    /// Server: send me your results.
    ExchangeResults,
    /// Server: both have the other's results.
    DisplayResults,
    /// Client: finished.
    IperfDone,
    /// Server: busy, or a data connection with the wrong cookie.
    AccessDenied,
    /// Server: a failure, which two 32-bit numbers name ([`super::Failure`]).
    ServerError,
}

const TABLE: [(State, i8); 12] = [
    (State::TestStart, 1),
    (State::TestRunning, 2),
    (State::TestEnd, 4),
    (State::ParamExchange, 9),
    (State::CreateStreams, 10),
    (State::ServerTerminate, 11),
    (State::ClientTerminate, 12),
    (State::ExchangeResults, 13),
    (State::DisplayResults, 14),
    (State::IperfDone, 16),
    (State::AccessDenied, -1),
    (State::ServerError, -2),
];

impl State {
    /// As it travels.
    pub fn byte(self) -> u8 {
        TABLE.iter().find(|(state, _)| *state == self).map_or(0, |(_, value)| value.cast_unsigned())
    }

    /// `None` for values that no release sends.
    pub fn from_byte(byte: u8) -> Option<Self> {
        let value = byte.cast_signed();
        TABLE.iter().find(|(_, known)| *known == value).map(|(state, _)| *state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_iperf3() {
        for byte in 0..=u8::MAX {
            if let Some(state) = State::from_byte(byte) {
                assert_eq!(state.byte(), byte);
            }
        }
        for (state, byte) in [
            (State::CreateStreams, 0x0a),
            (State::ExchangeResults, 0x0d),
            (State::IperfDone, 0x10),
            (State::AccessDenied, 0xff),
            (State::ServerError, 0xfe),
        ] {
            assert_eq!((state.byte(), State::from_byte(byte)), (byte, Some(state)));
        }
        // Proposed but never released, unused, and local to iperf3.
        for none in [0, 3, 5, 8, 15, 17, 0x80] {
            assert_eq!(State::from_byte(none), None);
        }
    }
}
