//! Versions of what runs on a card, by devlink's netlink family (Linux 5.1 and later; not all drivers tell it there).

use nix::errno::Errno;

use super::{
    GENL_HEADER_BYTES, NLM_F_ACK, Netlink, Refusal, attribute, attributes, put_attribute, text,
};

/// What runs on the device of that name on that bus, such as `0000:01:00.0` on `pci`; nothing where its driver names
/// no version. Needs no rights.
pub(crate) fn firmware(bus: &str, device: &str) -> Result<Option<String>, Refusal> {
    let mut netlink = Netlink::generic().ok_or(Errno::EPROTONOSUPPORT)?;
    let family = netlink.family("devlink").ok_or(Errno::EPROTONOSUPPORT)?;
    let mut body = vec![DEVLINK_CMD_INFO_GET, 1, 0, 0];
    for (kind, name) in [(DEVLINK_ATTR_BUS_NAME, bus), (DEVLINK_ATTR_DEV_NAME, device)] {
        put_attribute(&mut body, kind, &[name.as_bytes(), &[0]].concat());
    }
    let mut found = None;
    netlink.ask(family, NLM_F_ACK, &body, |kind, body| {
        if kind == family {
            found = running(body.get(GENL_HEADER_BYTES..).unwrap_or_default());
        }
    })?;
    Ok(found)
}

/// Each version that runs, with devlink's name for it (Documentation/networking/devlink/devlink-info.rst): those that are
/// only stored will run after a reset.
pub(super) fn running(body: &[u8]) -> Option<String> {
    let nested = attributes(body).filter(|(kind, _)| *kind == DEVLINK_ATTR_INFO_VERSION_RUNNING);
    let versions: Vec<String> = nested.filter_map(|(_, version)| named(version)).collect();
    (!versions.is_empty()).then(|| versions.join(", "))
}

fn named(version: &[u8]) -> Option<String> {
    let part = |kind| attribute(version, kind).map(text).filter(|text| !text.is_empty());
    let name = part(DEVLINK_ATTR_INFO_VERSION_NAME)?;
    Some(format!("{name} {}", part(DEVLINK_ATTR_INFO_VERSION_VALUE)?))
}

// include/uapi/linux/devlink.h.
const DEVLINK_CMD_INFO_GET: u8 = 51;
const DEVLINK_ATTR_BUS_NAME: u16 = 1;
const DEVLINK_ATTR_DEV_NAME: u16 = 2;
const DEVLINK_ATTR_INFO_VERSION_RUNNING: u16 = 101;
const DEVLINK_ATTR_INFO_VERSION_NAME: u16 = 103;
const DEVLINK_ATTR_INFO_VERSION_VALUE: u16 = 104;

#[cfg(test)]
mod tests {
    use super::super::NLA_F_NESTED;
    use super::*;

    /// As an answer has them: the driver's name, what is fixed, what runs, what is stored.
    #[test]
    fn versions_that_run_are_told_by_name() {
        let version = |to: &mut Vec<u8>, kind: u16, name: &str, value: &str| {
            let mut nested = Vec::new();
            let words =
                [(DEVLINK_ATTR_INFO_VERSION_NAME, name), (DEVLINK_ATTR_INFO_VERSION_VALUE, value)];
            for (kind, word) in words {
                put_attribute(&mut nested, kind, format!("{word}\0").as_bytes());
            }
            put_attribute(to, kind | NLA_F_NESTED, &nested);
        };
        let mut body = Vec::new();
        put_attribute(&mut body, 98, b"mlx5_core\0");
        version(&mut body, 100, "fw.psid", "MT_0000000359");
        assert_eq!(running(&body), None);
        version(&mut body, 101, "fw.version", "22.31.1014");
        version(&mut body, 101, "fw", "22.31.1014");
        version(&mut body, 102, "fw", "22.36.1010");
        assert_eq!(running(&body).as_deref(), Some("fw.version 22.31.1014, fw 22.31.1014"));
        // A name without a version is none.
        let mut body = Vec::new();
        version(&mut body, 101, "fw", "");
        assert_eq!(running(&body), None);
    }
}
