//! The settings of the host that a tuning varies: set for a trial, and put back.

use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::{Applied, Setting};
use linerate_runner::agent::{DeviceChoice, HostAgent, set, still};

use crate::doctor::prove::not_back;

/// The host whose settings are varied.
pub(super) struct Hand {
    pub host: Option<Box<dyn HostAgent>>,
    pub device: Option<DeviceChoice>,
    /// What is set there now; nothing where a setting was not taken as it was wanted, which may have changed the host.
    pub now: Option<Vec<Applied>>,
}

impl Hand {
    /// Sets these and no others; the first that cannot be set, and why.
    pub fn set(&mut self, wanted: &[Setting]) -> Result<Option<(Setting, String)>, ErrorRecord> {
        let Some(host) = &mut self.host else { return Ok(None) };
        let is_set = |now: &Vec<Applied>| now.iter().map(|applied| &applied.asked).eq(wanted);
        if self.now.as_ref().is_some_and(is_set) {
            return Ok(None);
        }
        self.now = None;
        if let Some(error) = not_back(&host.restore()?.left()) {
            return Err(error);
        }
        let mut now = Vec::new();
        for setting in wanted {
            let device = self.device.as_ref().filter(|_| setting.name.of_device());
            match set(host.as_mut(), device, setting) {
                Ok(applied) => now.push(applied),
                Err(error) if error.kind == ErrorKind::Setting => {
                    let why = format!("{}: {}", error.what, error.why);
                    return Ok(Some((setting.clone(), why)));
                }
                Err(error) => return Err(error),
            }
        }
        self.now = Some(now);
        Ok(None)
    }

    /// Whether all that was set still is.
    pub fn holds(&mut self) -> Result<(), ErrorRecord> {
        let Some(host) = &mut self.host else { return Ok(()) };
        for applied in self.now.iter().flatten() {
            let device = self.device.as_ref().filter(|_| applied.asked.name.of_device());
            still(host.as_mut(), device, applied)?;
        }
        Ok(())
    }

    /// Puts everything back; what could not be.
    pub fn put_back(&mut self) -> Vec<String> {
        match self.host.as_mut().map(|host| host.restore()) {
            None => Vec::new(),
            Some(Ok(restoration)) => restoration.left(),
            Some(Err(error)) => vec![format!("{}: {}", error.what, error.why)],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use linerate_model::setting::{Outcome, Restoration, SettingValue};
    use linerate_runner::agent::{Reply, Request as Ask};

    use super::*;

    /// A host whose driver makes 64 of every number; what is set there.
    struct Rounding(Arc<Mutex<Vec<Setting>>>);

    impl HostAgent for Rounding {
        fn name(&self) -> &str {
            "rounding"
        }

        fn ask(&mut self, request: Ask) -> Result<Reply, ErrorRecord> {
            let mut set = self.0.lock().unwrap();
            Ok(match request {
                Ask::Apply { settings, .. } => {
                    set.extend(settings.iter().cloned());
                    let applied = |asked: Setting| Applied {
                        device: None,
                        before: None,
                        after: Some(SettingValue::Number(64)),
                        outcome: match asked.value {
                            SettingValue::Number(_) => Outcome::Rounded,
                            _ => Outcome::Set,
                        },
                        why: Some("the driver made another value of it".to_owned()),
                        also: Vec::new(),
                        asked,
                    };
                    Reply::Applied(settings.into_iter().map(applied).collect())
                }
                Ask::Restore => {
                    set.clear();
                    Reply::Restored(Restoration::default())
                }
                _ => Reply::Done,
            })
        }
    }

    #[test]
    fn the_default_is_not_measured_with_what_a_driver_rounded() {
        let set = Arc::new(Mutex::new(Vec::new()));
        let host: Option<Box<dyn HostAgent>> = Some(Box::new(Rounding(set.clone())));
        let mut hand = Hand { host, device: None, now: Some(Vec::new()) };
        let setting = |name: &str, value| Setting::new(name, value).unwrap();
        let ring = setting("ring.rx", SettingValue::Number(100));
        let gro = setting("offload.gro", SettingValue::Switch(false));
        let (refused, why) = hand.set(&[gro.clone(), ring.clone()]).unwrap().unwrap();
        assert!(refused == ring && why.contains("another value"), "{refused} {why}");
        assert_eq!(set.lock().unwrap().len(), 2);
        assert!(hand.set(&[]).unwrap().is_none());
        assert!(set.lock().unwrap().is_empty(), "it was put back");
        // What holds is not set anew.
        assert!(hand.set(std::slice::from_ref(&gro)).unwrap().is_none());
        assert!(hand.set(&[gro]).unwrap().is_none());
        assert_eq!(set.lock().unwrap().len(), 1);
    }
}
