//! Whoever has the right to change settings for this process: its helper, or the monitor of a server.

use std::path::Path;

use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::{Applied, Restoration, Setting};
use linerate_wire::native::agent::Reply;
use linerate_wire::native::order::Order;

use super::Options;
use super::helper::Helper;
use super::monitor::{Life, Monitor};
use super::reboot::reboot_by;
use crate::signals::Stop;

/// Changes settings, and puts them back whatever happens to this process.
pub(crate) enum Privileged {
    /// A process whose bytes are its user's own, as that of a campaign.
    Helper(Helper),
    /// A server, whose bytes are strangers'.
    Monitor(Monitor),
}

impl Privileged {
    /// For this process. Says what an earlier one had left changed.
    ///
    /// # Errors
    /// When no helper can be had, or another process changes settings here.
    pub(super) fn here(program: &Path, state: &Path) -> Result<(Self, Restoration), ErrorRecord> {
        Helper::start(program, state).map(|(helper, left)| (Self::Helper(helper), left))
    }

    /// For a server, before it gives up its rights.
    ///
    /// # Errors
    /// As [`Privileged::here`].
    pub(super) fn apart(options: &Options) -> Result<(Self, Restoration, Life), ErrorRecord> {
        Monitor::start(options).map(|(monitor, left, life)| (Self::Monitor(monitor), left, life))
    }

    /// Helpers that have ended so far. What one has set was put back when another has taken its place.
    pub(super) fn ended(&self) -> u64 {
        match self {
            Self::Helper(helper) => helper.ended(),
            Self::Monitor(monitor) => monitor.ended(),
        }
    }

    fn call(&mut self, order: &Order) -> Result<Reply, ErrorRecord> {
        match self {
            Self::Helper(helper) => helper.call(order),
            Self::Monitor(monitor) => monitor.call(order),
        }
    }

    /// Sets in the given order, and reads back.
    ///
    /// # Errors
    /// When the helper has died, after everything was put back.
    pub(super) fn apply(
        &mut self,
        device: Option<&str>,
        settings: &[Setting],
    ) -> Result<Vec<Applied>, ErrorRecord> {
        let mut all = Vec::new();
        // One an order, as each may take its time.
        for setting in settings {
            let device = device.map(str::to_owned);
            match self.call(&Order::Apply { device, setting: setting.clone() })? {
                Reply::Applied(applied) => all.extend(applied),
                _ => return Err(unexpected()),
            }
        }
        Ok(all)
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// When no helper can be had.
    pub(super) fn restore(&mut self) -> Result<Restoration, ErrorRecord> {
        match self.call(&Order::Restore)? {
            Reply::Restored(restoration) => Ok(restoration),
            _ => Err(unexpected()),
        }
    }

    /// Sees to it that a helper lives: where it does not, another is started, which puts everything back.
    ///
    /// # Errors
    /// When none can be had.
    pub(super) fn look(&mut self) -> Result<(), ErrorRecord> {
        self.call(&Order::Ping).map(drop)
    }

    /// Begins a reboot by the owner's command.
    ///
    /// # Errors
    /// When it does not begin.
    pub(super) fn reboot(&mut self, own: &[String], stop: &Stop) -> Result<(), ErrorRecord> {
        match self {
            Self::Helper(_) => reboot_by(own, stop),
            Self::Monitor(monitor) => monitor.call(&Order::Reboot).map(drop),
        }
    }
}

fn unexpected() -> ErrorRecord {
    let what = "cannot change settings";
    let why = "the process that does so gave an answer to something else";
    ErrorRecord::new(ErrorKind::HelperLost, what, why, &[])
}
