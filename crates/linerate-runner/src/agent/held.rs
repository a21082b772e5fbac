//! One setting of a host, made for a test and looked at after it.

use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::Setting;

use super::{DeviceChoice, HostAgent};

/// Has it set.
///
/// # Errors
/// When the host is not as asked then, also where a driver rounds; as [`HostAgent::apply`].
pub fn set(
    host: &mut dyn HostAgent,
    device: Option<&DeviceChoice>,
    setting: &Setting,
) -> Result<(), ErrorRecord> {
    let applied = host.apply(device, std::slice::from_ref(setting))?;
    match applied.first().filter(|applied| !applied.holds()) {
        None => Ok(()),
        Some(applied) => Err(ErrorRecord::new(
            ErrorKind::Setting,
            format!("cannot set {setting} on {}", host.name()),
            applied.why.clone().unwrap_or_default(),
            &[],
        )),
    }
}

/// Whether it is still set after a test: a helper that was killed has put it back.
///
/// # Errors
/// When it is not; as [`HostAgent::apply`].
pub fn still(
    host: &mut dyn HostAgent,
    device: Option<&DeviceChoice>,
    setting: &Setting,
) -> Result<(), ErrorRecord> {
    let back = host.read(device, std::slice::from_ref(&setting.name))?;
    if back.first().is_some_and(|back| back.value.as_ref() == Some(&setting.value)) {
        return Ok(());
    }
    let what = format!("{setting} did not hold on {} while a test lasted", host.name());
    let why = "it was changed or put back by somebody else; the test does not count";
    Err(ErrorRecord::new(ErrorKind::HelperLost, what, why, &[]))
}
