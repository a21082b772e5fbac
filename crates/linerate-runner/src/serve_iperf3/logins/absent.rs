//! In place of logins where they are not built.

use linerate_model::record::{ErrorKind, ErrorRecord};

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
        Err(ErrorRecord::new(
            ErrorKind::Usage,
            "cannot check logins of iperf3's clients",
            NOT_BUILT,
            &[HOW_TO_BUILD],
        ))
    }

    pub(in super::super) async fn check(&self, _token: Option<&str>) -> Result<(), &'static str> {
        match *self {}
    }
}
