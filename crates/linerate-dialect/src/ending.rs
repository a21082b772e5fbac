//! How a test at a server ended before its time.

use linerate_model::served::Outcome;

use crate::control::ControlError;

/// Why a test did not come to its end.
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
