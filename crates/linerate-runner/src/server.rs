//! The far end: any number of tests at once on one TCP and UDP port.

use std::net::{IpAddr, SocketAddr};

use linerate_model::record::ErrorRecord;
use linerate_model::units::{BitRate, Nanos};

/// How a server behaves; each limit is its owner's policy and narrower than the table in
/// `linerate_model::limits`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address to listen on; `None` is every address, IPv4 and IPv6.
    pub bind: Option<IpAddr>,
    /// TCP and UDP port; 0 takes a free one.
    pub port: u16,
    /// Shared key that clients must prove they know.
    pub key: Option<Vec<u8>>,
    /// Tests at once.
    pub max_tests: usize,
    /// Longest test, warm-up included.
    pub max_duration: Nanos,
    /// Largest rate of one direction of one test; `None` is no limit.
    pub max_rate: Option<BitRate>,
    /// Most streams of one test, each way.
    pub max_streams: u16,
    /// End after the first test.
    pub one_off: bool,
}

/// What a server tells its owner.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It listens.
    Listening(SocketAddr),
    /// A test was admitted.
    TestStarted {
        /// The client.
        peer: SocketAddr,
        /// Protocol, direction and rate in words.
        what: String,
    },
    /// A test ended.
    TestEnded {
        /// The client.
        peer: SocketAddr,
        /// Result or reason in words.
        what: String,
    },
    /// A connection was turned away or dropped before a test.
    Refused {
        /// The client.
        peer: SocketAddr,
        /// Why.
        why: String,
    },
}

/// Serves until SIGINT or SIGTERM (or the first test's end with `one_off`).
///
/// # Errors
/// When the port cannot be had: what was tried, why it failed, what to try.
pub fn serve(_options: &Options, _tell: &mut dyn FnMut(Event)) -> Result<(), ErrorRecord> {
    unimplemented!()
}
