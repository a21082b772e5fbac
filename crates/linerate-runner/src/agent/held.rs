//! One setting of a host, made for a test and looked at after it.

use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::{Applied, Setting};

use super::{DeviceChoice, HostAgent};

/// Has it set.
///
/// # Errors
/// When the host is not as asked then, also where a driver rounds; as [`HostAgent::apply`].
pub fn set(
    host: &mut dyn HostAgent,
    device: Option<&DeviceChoice>,
    setting: &Setting,
) -> Result<Applied, ErrorRecord> {
    let applied = host.apply(device, std::slice::from_ref(setting))?.into_iter().next();
    let why = match applied {
        Some(applied) if applied.holds() => return Ok(applied),
        Some(applied) => applied.why.unwrap_or_default(),
        None => "it said nothing of it".to_owned(),
    };
    let what = format!("cannot set {setting} on {}", host.name());
    Err(ErrorRecord::new(ErrorKind::Setting, what, why, &[]))
}

/// Whether it is after a test what was read back when it was set, which may be written otherwise than it was asked for: a
/// helper that was killed has put it back.
///
/// # Errors
/// When it is not; as [`HostAgent::apply`].
pub fn still(
    host: &mut dyn HostAgent,
    device: Option<&DeviceChoice>,
    applied: &Applied,
) -> Result<(), ErrorRecord> {
    let Applied { asked, after, .. } = applied;
    let back = host.read(device, std::slice::from_ref(&asked.name))?;
    if back.first().is_some_and(|back| back.value.is_some() && back.value == *after) {
        return Ok(());
    }
    let what = format!("{asked} did not hold on {} while a test lasted", host.name());
    let why = "it was changed or put back by somebody else; the test does not count";
    Err(ErrorRecord::new(ErrorKind::HelperLost, what, why, &[]))
}

#[cfg(test)]
mod tests {
    use linerate_model::setting::{Outcome, ReadBack, SettingName, SettingValue};

    use super::*;
    use crate::agent::{Reply, Request};

    /// A host whose cards tell the cores of their interrupts queue by queue, whatever was asked.
    struct Cores(SettingValue);

    impl HostAgent for Cores {
        fn name(&self) -> &str {
            "cores"
        }

        fn ask(&mut self, request: Request) -> Result<Reply, ErrorRecord> {
            let value = Some(self.0.clone());
            let applied = |asked: Setting| Applied {
                asked,
                device: None,
                before: None,
                after: value.clone(),
                outcome: Outcome::Set,
                why: None,
                also: Vec::new(),
            };
            let read = |name: SettingName| ReadBack {
                name,
                device: None,
                value: value.clone(),
                why: None,
            };
            Ok(match request {
                Request::Apply { settings, .. } => {
                    Reply::Applied(settings.into_iter().map(applied).collect())
                }
                Request::Read { names, .. } => Reply::Read(names.into_iter().map(read).collect()),
                _ => Reply::Done,
            })
        }
    }

    #[test]
    fn what_is_read_otherwise_than_it_was_written_still_holds() {
        let text = |text: &str| SettingValue::Text(text.to_owned());
        let setting = Setting::new("irq_affinity", text("spread 0-2")).unwrap();
        let mut host = Cores(text("0 1 2 0"));
        let applied = set(&mut host, None, &setting).unwrap();
        assert_eq!(still(&mut host, None, &applied), Ok(()));
        host.0 = text("0 1 1 0");
        assert_eq!(still(&mut host, None, &applied).unwrap_err().kind, ErrorKind::HelperLost);
    }
}
