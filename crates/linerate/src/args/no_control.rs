//! A server alone lets nobody control its host.

use clap::Args;
use linerate_model::record::ErrorRecord;
use linerate_runner::agent;
use linerate_runner::sandbox::Beside;

/// No options.
#[derive(Debug, Clone, Args)]
pub struct ControlArgs {}

impl ControlArgs {
    pub fn runs_commands(&self) -> bool {
        false
    }

    pub fn beside(&self) -> Beside {
        Beside::Nothing
    }

    pub fn agent(&self) -> Result<Option<agent::Options>, ErrorRecord> {
        Ok(None)
    }
}
