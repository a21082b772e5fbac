//! One setting of a host, made for a test and looked at after it.

use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::setting::{Cores, Setting, SettingName, SettingValue, core_list};

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
    let now = back.first().and_then(|back| back.value.as_ref());
    if now.is_some_and(|now| is_that(setting, now)) {
        return Ok(());
    }
    let what = format!("{setting} did not hold on {} while a test lasted", host.name());
    let why = "it was changed or put back by somebody else; the test does not count";
    Err(ErrorRecord::new(ErrorKind::HelperLost, what, why, &[]))
}

/// Whether what is read back is what was set: the kernel's parameters know no `on`, and cores are read queue by queue, as
/// lists that may be written in several ways.
fn is_that(setting: &Setting, now: &SettingValue) -> bool {
    let now = now.to_string();
    let asked = match (&setting.name, &setting.value) {
        (SettingName::Sysctl(_), SettingValue::Switch(on)) => u8::from(*on).to_string(),
        (_, value) => value.to_string(),
    };
    let of_cores =
        matches!(setting.name, SettingName::IrqAffinity | SettingName::Rps | SettingName::Xps);
    let cores = Cores::parse(&asked).filter(|_| of_cores);
    // One list stands for all queues where they agree.
    let has = |cores: Cores| {
        now.split(' ').enumerate().all(|(queue, list)| core_list(&cores.of_queue(queue)) == list)
    };
    now == asked || cores.is_some_and(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_otherwise_than_it_was_written_still_holds() {
        let text = |text: &str| SettingValue::Text(text.to_owned());
        let (off, number) = (SettingValue::Switch(false), SettingValue::Number);
        let sack = "sysctl.net.ipv4.tcp_sack";
        for (name, asked, now, holds) in [
            ("irq_affinity", text("spread 0-2"), text("0 1 2 0"), true),
            ("irq_affinity", text("spread 0-2"), text("0 1 1 0"), false),
            ("rps", number(3), text("3"), true),
            ("rps", text("0,1"), text("0-1"), true),
            ("rps", text("0-1"), text("none"), false),
            (sack, off.clone(), number(0), true),
            (sack, off.clone(), number(1), false),
            ("offload.tso", off.clone(), off, true),
        ] {
            let setting = Setting::new(name, asked).unwrap();
            assert_eq!(is_that(&setting, &now), holds, "{setting}, {now}");
        }
    }
}
