//! What a test sets on this host: made before it, looked at after it, and put back when this goes, also where the agent is
//! killed (another process keeps the journal).

use std::path::{Path, PathBuf};

use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::{Applied, Setting};
use linerate_runner::agent::{DeviceChoice, Hand, HostAgent as _, Options, restore, set, still};

use super::words::log;

/// Settings of a test.
pub struct Made {
    hand: Hand,
    device: Option<DeviceChoice>,
    set: Vec<Applied>,
}

impl Made {
    /// Makes all of them, and waits for it. `state` is where what is to be undone is kept.
    ///
    /// # Errors
    /// Which of them this host does not take, after all were put back.
    pub fn new(
        state: PathBuf,
        device: Option<String>,
        settings: Vec<Setting>,
    ) -> Result<Self, ErrorRecord> {
        let program = std::env::current_exe().map_err(|why| {
            let what = "cannot find the program that keeps settings";
            ErrorRecord::new(ErrorKind::Unable, what, why.to_string(), &[])
        })?;
        let options = Options { program, state, commands: false, reboot: None, profile: false };
        let (mut hand, _) = Hand::take(options)?;
        let device = device.map(DeviceChoice::Named);
        let made = settings.iter().map(|setting| set(&mut hand, device.as_ref(), setting));
        let set = made.collect::<Result<_, _>>()?;
        Ok(Self { hand, device, set })
    }

    /// Puts them back, and says whether they held until now.
    ///
    /// # Errors
    /// Which did not.
    pub fn end(mut self) -> Result<(), ErrorRecord> {
        let (hand, device) = (&mut self.hand, self.device.as_ref());
        let held = self.set.iter().try_for_each(|applied| still(hand, device, applied));
        match self.hand.restore() {
            Ok(back) => said(&back.left()),
            Err(error) => log(&format!("{}: {}", error.what, error.why)),
        }
        held
    }
}

/// Puts back what an agent that was killed had set.
pub fn put_back(state: &Path) {
    if !state.exists() {
        return;
    }
    match restore(state) {
        Ok(back) => said(&back.left()),
        Err(error) => log(&format!("{}: {}", error.what, error.why)),
    }
}

fn said(left: &[String]) {
    left.iter().for_each(|left| log(&format!("this host is not as it was before a test: {left}")));
}
