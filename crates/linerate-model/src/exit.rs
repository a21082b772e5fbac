//! Exit codes: the one place that knows them.

use std::process::ExitCode;

/// How a command ended. Scripts may rely on these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All that was asked was done.
    Complete = 0,
    /// The test failed, or the server was lost on the way.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// No server was reached, or it refused.
    Unreachable = 3,
    /// An accounting identity broke.
    Invalid = 4,
    /// The doctor found something that is more than a note, or a pair of a fleet is worse than before.
    Found = 5,
    /// Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Complete,
        Self::Failed,
        Self::Usage,
        Self::Unreachable,
        Self::Invalid,
        Self::Found,
        Self::Interrupted,
    ];

    /// As in `--help`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Failed => "the test failed or the server was lost; what was measured is kept",
            Self::Usage => "wrong usage; nothing was sent",
            Self::Unreachable => {
                "no server was reached or it refused (busy, wrong key, no route, unknown host)"
            }
            Self::Invalid => "the counts contradict each other; do not use the numbers",
            Self::Found => {
                "doctor: something holds this path back, more than a note; fleet results: a pair got worse"
            }
            Self::Interrupted => "ended by Ctrl-C; what was measured is kept",
        }
    }

    /// The exit code in an error record. A number that is none of ours, or 0, is a failure.
    pub fn from_code(code: u8) -> Self {
        let known = Self::ALL.into_iter().find(|e| *e as u8 == code);
        known.filter(|e| *e != Self::Complete).unwrap_or(Self::Failed)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_never_ends_with_zero() {
        assert_eq!(Exit::from_code(0), Exit::Failed);
        assert_eq!(Exit::from_code(77), Exit::Failed);
    }
}
