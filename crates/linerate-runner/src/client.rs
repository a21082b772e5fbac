//! The near end: asks a server for a test, runs this side of it and assembles the record.

use std::net::IpAddr;

use linerate_model::plan::{IpVersion, TestPlan};
use linerate_model::record::RunRecord;
use linerate_session::observer::Observer;

/// Where a test goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A host name or address, and the server's port.
    Host {
        /// As the user gave it.
        name: String,
        /// TCP and UDP port.
        port: u16,
    },
    /// A server inside this process, on loopback.
    Local,
    /// No far end: datagrams to this address, nobody answers.
    Discard {
        /// As the user gave it.
        name: String,
        /// UDP port.
        port: u16,
    },
}

/// Everything the client needs to run one test.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where to.
    pub target: Target,
    /// What.
    pub plan: TestPlan,
    /// The datagram size is the path's MTU less headers, found after connecting; the plan's size
    /// is then a placeholder.
    pub size_from_mtu: bool,
    /// Use only this version of IP.
    pub ip: Option<IpVersion>,
    /// Local address of control and data sockets.
    pub bind: Option<IpAddr>,
    /// Shared key.
    pub key: Option<Vec<u8>>,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// Runs one test and returns its record, whose `status` and `error` say how it ended. The first
/// Ctrl-C (SIGINT) or SIGTERM ends the test early with what was measured.
pub fn run(_request: &Request, _observer: &mut dyn Observer) -> RunRecord {
    unimplemented!()
}
