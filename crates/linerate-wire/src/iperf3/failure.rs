//! How a server says that it cannot go on.

use super::State;

/// iperf3's number of an error, stable since 3.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorNumber(pub i32);

macro_rules! numbers {
    ($($id:ident = $number:literal, $words:literal;)*) => {
        impl ErrorNumber {
            $(#[doc = $words] pub const $id: Self = Self($number);)*

            /// What the number means; `None` for those this program does not know.
            pub fn words(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($words),)*
                    _ => None,
                }
            }
        }
    };
}

numbers! {
    DURATION = 5, "the test's duration is out of range";
    STREAMS = 6, "the number of parallel streams is out of range";
    BLOCK_SIZE = 7, "the block size is out of range";
    WINDOW = 8, "the socket buffer size is out of range";
    INTERVAL = 9, "the report interval is out of range";
    MSS = 10, "the maximum segment size is out of range";
    NO_SENDFILE = 11, "sendfile is not available";
    OMIT = 12, "the omitted time is out of range";
    FILE = 14, "a file cannot be opened";
    BURST = 15, "the burst count is out of range";
    END_CONDITIONS = 16, "the end conditions (time, bytes, blocks) do not fit together";
    UDP_BLOCK_SIZE = 20, "the datagram size is out of range";
    TOS = 21, "the type of service is out of range";
    RATE = 27, "the total rate is above the server's limit";
    TOO_LONG = 37, "the test is longer than the server allows";
    NO_SKIP_COPY = 39, "discarding inside the kernel is not available";
    ACCEPT_CONTROL = 104, "a connection cannot be accepted";
    SEND_COOKIE = 105, "the cookie cannot be sent";
    RECEIVE_COOKIE = 106, "the cookie cannot be received";
    CONTROL_WRITE = 107, "the control connection cannot be written to";
    CONTROL_READ = 108, "the control connection cannot be read";
    CONTROL_CLOSED = 109, "the control connection closed unexpectedly";
    UNKNOWN_MESSAGE = 110, "an unknown message came on the control connection";
    SEND_STATE = 111, "a state cannot be sent";
    RECEIVE_STATE = 112, "a state cannot be received";
    SEND_PARAMETERS = 113, "the parameters cannot be sent";
    RECEIVE_PARAMETERS = 114, "the parameters cannot be received";
    PACK_RESULTS = 115, "the results cannot be written down";
    SEND_RESULTS = 116, "the results cannot be sent";
    RECEIVE_RESULTS = 117, "the results cannot be received";
    SELECT = 118, "waiting for sockets failed";
    CLIENT_TERMINATED = 119, "the client was asked to stop";
    SERVER_TERMINATED = 120, "the server was asked to stop";
    BUSY = 121, "the server is busy with another test";
    SET_NODELAY = 122, "TCP_NODELAY cannot be set";
    SET_MSS = 123, "the maximum segment size cannot be set";
    SET_BUFFERS = 124, "the socket buffers cannot be set";
    SET_TOS = 125, "the type of service cannot be set";
    SET_CLASS = 126, "the IPv6 traffic class cannot be set";
    FLOW_LABEL = 127, "the IPv6 flow label cannot be set";
    PROTOCOL = 131, "the protocol is not spoken here";
    AFFINITY = 132, "the CPU affinity cannot be set";
    CONGESTION = 134, "the congestion control cannot be set";
    BUFFERS_DIFFER = 141, "the kernel granted other socket buffers than asked";
    AUTHORISATION = 142, "authorisation failed";
    NO_DATA = 144, "no data arrived for too long";
    DONT_FRAGMENT = 145, "the don't-fragment flag cannot be set";
    THREAD = 150, "a thread cannot be made";
    WATCHDOG = 160, "the test did not end in time";
    CREATE_STREAM = 200, "a data stream cannot be made";
    INIT_STREAM = 201, "a data stream cannot be prepared";
    STREAM_LISTEN = 202, "a data stream cannot be listened for";
    STREAM_CONNECT = 203, "a data stream cannot be connected";
    STREAM_ACCEPT = 204, "a data stream did not arrive";
    STREAM_WRITE = 205, "a data stream cannot be written to";
    STREAM_READ = 206, "a data stream cannot be read";
    STREAM_CLOSED = 207, "a data stream closed unexpectedly";
    STREAM_ID = 208, "results of a stream that does not exist";
}

/// Bytes of a failure on the wire, its state included.
pub const FAILURE_BYTES: usize = 9;

/// What follows [`State::ServerError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// iperf3's number.
    pub number: ErrorNumber,
    /// `errno` of the server's system, 0 for none. Releases 3.12 to 3.18 leave it out in places.
    pub errno: i32,
}

impl Failure {
    /// State and both numbers.
    pub fn encode(&self) -> [u8; FAILURE_BYTES] {
        let mut bytes = [State::ServerError.byte(); FAILURE_BYTES];
        let numbers = [self.number.0.to_be_bytes(), self.errno.to_be_bytes()];
        for (slot, byte) in bytes.iter_mut().skip(1).zip(numbers.as_flattened()) {
            *slot = *byte;
        }
        bytes
    }

    /// Reads what follows the state: both numbers, or the first alone. `None` for less.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk::<4>()?;
        let errno = rest.first_chunk::<4>().map_or(0, |errno| i32::from_be_bytes(*errno));
        Some(Self { number: ErrorNumber(i32::from_be_bytes(*number)), errno })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_failures() {
        let rate = Failure { number: ErrorNumber::RATE, errno: 0 };
        assert_eq!(rate.encode(), [0xfe, 0, 0, 0, 0x1b, 0, 0, 0, 0]);
        let class = Failure { number: ErrorNumber::SET_CLASS, errno: 95 };
        assert_eq!(class.encode(), [0xfe, 0, 0, 0, 0x7e, 0, 0, 0, 0x5f]);
        assert_eq!(Failure::decode(&class.encode()[1..]), Some(class));
        // 3.12 sends one number only.
        let auth = Failure { number: ErrorNumber::AUTHORISATION, errno: 0 };
        assert_eq!(Failure::decode(&[0, 0, 0, 0x8e]), Some(auth));
        assert_eq!(Failure::decode(&[0, 0, 0]), None);
        assert_eq!(ErrorNumber(-7).words(), None);
    }
}
