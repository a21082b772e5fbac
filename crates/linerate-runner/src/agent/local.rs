//! The host that the controller itself runs on.

use std::path::Path;
use std::sync::Arc;

use linerate_model::record::ErrorRecord;
use linerate_model::setting::Restoration;
use linerate_wire::native::agent::{Permissions, Reply, Request};

use tokio::sync::Mutex;

use super::HostAgent;
use super::hand::Hand;
use super::helper::Privileged;
use crate::errors;
use crate::signals::Stop;

/// This host. A helper process keeps its settings.
pub struct Local {
    hand: Hand,
}

impl Local {
    /// Takes this host over: `program` is linerate itself, `state` the directory of the undo
    /// journal. Says what an earlier process had left changed. `reboot` is the command that reboots it.
    ///
    /// # Errors
    /// When no helper can be had, or another process changes settings here.
    pub fn take(
        program: &Path,
        state: &Path,
        reboot: Option<Vec<String>>,
    ) -> Result<(Self, Restoration), ErrorRecord> {
        let (helper, left) = Privileged::start(program, state)?;
        let helper = Arc::new(Mutex::new(helper)).try_lock_owned();
        let helper = helper.map_err(|e| errors::unable("take this host over", &e.to_string()))?;
        let hand = Hand {
            helper,
            permissions: Permissions { settings: true, commands: true, reboot: true },
            reboot,
            key: None,
            towards: None,
            policy: None,
            stop: Stop::default(),
            held: None,
            program: Some(program.to_owned()),
        };
        Ok((Self { hand }, left))
    }
}

impl HostAgent for Local {
    fn name(&self) -> &str {
        "local"
    }

    fn ask(&mut self, request: Request) -> Result<Reply, ErrorRecord> {
        match self.hand.answer(&request) {
            Reply::Failed(error) => Err(*error),
            reply => Ok(reply),
        }
    }
}
