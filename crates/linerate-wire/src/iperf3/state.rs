//! The single bytes of the control connection.

use std::fmt;

/// What one end says to the other with one signed byte.
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
    /// Server: I was asked to stop.
    ServerTerminate,
    /// Client: I was asked to stop.
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

/// Names and numbers are those of iperf3's `iperf_api.h`.
const TABLE: [(State, i8, &str); 12] = [
    (State::TestStart, 1, "TEST_START"),
    (State::TestRunning, 2, "TEST_RUNNING"),
    (State::TestEnd, 4, "TEST_END"),
    (State::ParamExchange, 9, "PARAM_EXCHANGE"),
    (State::CreateStreams, 10, "CREATE_STREAMS"),
    (State::ServerTerminate, 11, "SERVER_TERMINATE"),
    (State::ClientTerminate, 12, "CLIENT_TERMINATE"),
    (State::ExchangeResults, 13, "EXCHANGE_RESULTS"),
    (State::DisplayResults, 14, "DISPLAY_RESULTS"),
    (State::IperfDone, 16, "IPERF_DONE"),
    (State::AccessDenied, -1, "ACCESS_DENIED"),
    (State::ServerError, -2, "SERVER_ERROR"),
];

impl State {
    /// As it travels.
    pub fn byte(self) -> u8 {
        TABLE.iter().find(|row| row.0 == self).map_or(0, |row| row.1.cast_unsigned())
    }

    /// `None` for values that no release sends.
    pub fn from_byte(byte: u8) -> Option<Self> {
        let value = byte.cast_signed();
        TABLE.iter().find(|row| row.1 == value).map(|row| row.0)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TABLE.iter().find(|row| row.0 == *self).map_or("", |row| row.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_iperf3() {
        assert_eq!(State::ParamExchange.to_string(), "PARAM_EXCHANGE");
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
