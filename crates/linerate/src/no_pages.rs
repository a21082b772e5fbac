//! A server alone shows nothing in a browser, and nothing to Prometheus.

use clap::Args;
use linerate_model::record::ErrorRecord;
use linerate_model::served::ServerLine;
use linerate_runner::Cidr;
use linerate_runner::server::{Event, Options};

/// No options.
#[derive(Debug, Clone, Args)]
pub struct PagesArgs {}

/// None.
pub struct Pages;

impl Pages {
    pub fn open(_: &PagesArgs, _: &[Cidr], _: &mut Options) -> Result<Self, ErrorRecord> {
        Ok(Self)
    }

    pub fn words(&mut self) -> Vec<String> {
        Vec::new()
    }

    pub fn begin(&mut self) -> Result<(), ErrorRecord> {
        Ok(())
    }

    pub fn shown(&self) -> Option<fn(&ServerLine)> {
        None
    }

    pub fn left_out(&self) -> fn(&Event) {
        |_| ()
    }
}
