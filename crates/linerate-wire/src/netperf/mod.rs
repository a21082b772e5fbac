//! netperf's control protocol, as its releases 2.6 and 2.7 speak it.
//!
//! One TCP control connection for any number of tests, one after another: each a [`Request`] of the
//! client's, a [`Response`] with the port for the data connection, and [`Results`] when the data is
//! over. All are [`Frame`]s of one length. What the data connection carries has no marks at all.

mod frame;
mod old;
mod request;
mod response;
mod results;

pub use frame::{FRAME_BYTES, Frame, Kind};
pub use request::{Old, Request, Unfit};
pub use response::Response;
pub use results::{CpuShare, Results};

/// What a control message wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A test, which may be one that is not made here.
    Test(Result<Box<Request>, Unfit>),
    /// To hear [`Kind::DEBUG_OK`].
    Debug,
    /// The speed of the CPU.
    Calibrate,
    /// Nothing.
    Passphrase,
    /// What is not known here.
    Unknown(Kind),
}

/// What a message of a client wants.
pub fn ask(frame: &Frame) -> Ask {
    if let Some(old) = Old::of(frame.kind()) {
        return Ask::Test(old.request(frame).map(Box::new));
    }
    match frame.kind() {
        Kind::OMNI => Ask::Test(Request::read(frame).map(Box::new)),
        Kind::DEBUG_ON | Kind::DEBUG_OFF => Ask::Debug,
        Kind::CALIBRATE => Ask::Calibrate,
        Kind::PASSPHRASE => Ask::Passphrase,
        kind => Ask::Unknown(kind),
    }
}

/// How long a test lasts, or how much of it there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Seconds of sending; 0 is until the client ends it.
    Seconds(u32),
    /// Bytes of a stream, or transactions.
    Units(u32),
}

impl Length {
    /// Of a request: less than 0 is an amount.
    fn of_word(word: u32) -> Self {
        let units = word.cast_signed();
        u32::try_from(units).map_or(Self::Units(units.unsigned_abs()), Self::Seconds)
    }

    /// Beyond what a word holds it is its largest.
    fn word(self) -> u32 {
        let most = i32::MAX.cast_unsigned();
        match self {
            Self::Seconds(seconds) => seconds.min(most),
            Self::Units(units) => units.min(most).wrapping_neg(),
        }
    }
}

/// Both programs give a receiver so much longer than the test's time, in nanoseconds.
pub const PAD_NS: u64 = 4_000_000_000;

/// Datagrams without a byte that say that a sender is done; any of them may be lost.
pub const END_MARKS: u8 = 3;

/// "Full speed" of a server that counts time and not loops.
const CPU_RATE: f32 = 100.0;

/// The CPU's time is counted by the kernel: netperf's letter is S.
const PROC_STAT: u32 = 8;

/// `serv_errno` of a message that the server does not know.
pub const UNKNOWN_TEST: u32 = 998;

#[cfg(test)]
mod captured;
