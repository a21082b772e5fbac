//! How a test ended before its time.

use linerate_model::served::Outcome;
use linerate_wire::iperf3;
use linerate_wire::native::message::Refused;

use crate::control::ControlError;

/// Why a test did not come to its end at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Early {
    /// For programs.
    pub outcome: Outcome,
    /// For people.
    pub why: String,
}

impl Early {
    /// With this reason.
    pub fn new(outcome: Outcome, why: impl Into<String>) -> Self {
        Self { outcome, why: why.into() }
    }

    /// Something failed, or the client did not keep to the protocol.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::new(Outcome::Failed, why)
    }

    /// The client was gone without a word.
    pub fn vanished(why: impl Into<String>) -> Self {
        Self::new(Outcome::Vanished, why)
    }
}

impl From<ControlError> for Early {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Frame(_) | ControlError::Unproven => Self::failed(error.to_string()),
            _ => Self::vanished(error.to_string()),
        }
    }
}

/// Why a test has no end at a client, or not all of its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// This end was stopped before there was anything to measure.
    Interrupted,
    /// This end could not do what an action asked.
    Here(String),
    /// The server refuses.
    Refused(Refused),
    /// What came is not proven to be the server's.
    Unproven,
    /// The server is lost, or did what it must not.
    Server(String),
    /// What the server says or sends is not of this protocol, or not of this test.
    Protocol(String),
    /// The server was lost after it had heard what is asked of it, which it may not like.
    TurnedAway(String),
    /// The server runs another test.
    Busy,
    /// The server ended the test.
    Stopped(String),
    /// An iperf3 server failed, and said with which numbers, if it did.
    Iperf3(Option<iperf3::Failure>),
}

/// What was under way when it failed, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// In words, such as "running the test".
    pub doing: &'static str,
    /// How.
    pub failure: Failure,
}
