//! In place of logins where they are not built.

use linerate_model::record::ErrorRecord;

use super::{HOW_TO_BUILD, NOT_BUILT, Settings};

/// Never made.
#[derive(Debug)]
pub enum Logins {}

impl Logins {
    /// Cannot be.
    ///
    /// # Errors
    /// Always: that they are not built, and how to build them.
    pub fn open(_settings: &Settings) -> Result<Self, ErrorRecord> {
        Err(ErrorRecord {
            kind: "usage".into(),
            what: "cannot check logins of iperf3's clients".into(),
            why: NOT_BUILT.into(),
            hints: vec![HOW_TO_BUILD.into()],
            exit_code: 2,
        })
    }

    pub(in super::super) async fn check(&self, _token: Option<&str>) -> Result<(), &'static str> {
        match *self {}
    }
}
