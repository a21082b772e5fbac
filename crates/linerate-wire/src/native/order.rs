//! What a server asks of the process that has the right to change settings of its host: a line of JSON an
//! order, and one an answer.
//!
//! Whoever has found a fault in the server may write these lines, so they are as closed as can be: the
//! settings of a closed list with values that each of them takes, everything put back, the owner's own reboot. No
//! path, no program, no number without a limit.

use linerate_model::setting::{Setting, is_interface_name};
use serde::{Deserialize, Serialize};

use super::agent::Reply;
use crate::depth;

/// Most bytes of a line, its end not counted. The longest order has a list of cores, of 32 KiB at most.
pub const MOST_LINE_BYTES: usize = 64 << 10;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Is it there?
    Ping,
    /// Changes one setting.
    Apply {
        /// The name of the interface, for one of an interface.
        device: Option<String>,
        /// What.
        setting: Setting,
    },
    /// Puts everything back.
    Restore,
    /// Reboots by the command that the owner gave at the start.
    Reboot,
}

/// The answer to an order. The first comes unasked: what an earlier process had left changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// How many helpers have ended so far. What one has set was put back when another has taken its place.
    pub ended: u64,
    /// What became of it.
    pub reply: Reply,
}

/// Reads an order from a line without its end.
///
/// # Errors
/// Why it is none, in words.
pub fn decode(line: &[u8]) -> Result<Order, String> {
    if line.len() > MOST_LINE_BYTES {
        return Err(format!("{} bytes are more than {MOST_LINE_BYTES}", line.len()));
    }
    depth::check(line).map_err(|e| e.to_string())?;
    let order: Order = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    match &order {
        Order::Apply { device: Some(name), .. } if !is_interface_name(name) => {
            Err(format!("{name:?} is no name of an interface"))
        }
        _ => Ok(order),
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::setting::SettingValue;

    use super::*;

    #[test]
    fn orders_are_read_as_they_were_written() {
        let mtu = Setting::new("mtu", SettingValue::Number(9_000)).unwrap();
        for order in [
            Order::Ping,
            Order::Apply { device: Some("eth0".into()), setting: mtu.clone() },
            Order::Apply { device: None, setting: mtu },
            Order::Restore,
            Order::Reboot,
        ] {
            assert_eq!(decode(&serde_json::to_vec(&order).unwrap()), Ok(order));
        }
    }

    #[test]
    fn what_is_in_no_closed_list_is_no_order() {
        let apply = |device: &str, name: &str, value: &str| {
            format!(
                r#"{{"apply":{{"device":{device},"setting":{{"name":{name},"value":{value}}}}}}}"#
            )
        };
        assert!(decode(apply("null", r#""sysctl.net.core.rmem_max""#, "1").as_bytes()).is_ok());
        for line in [
            apply("null", r#""sysctl.kernel.core_pattern""#, r#""|/bin/sh""#),
            apply("null", r#""sysctl.net.core.../../kernel/core_pattern""#, "1"),
            apply("null", r#""sysctl.net.ipv4.ip_forward""#, "1"),
            apply(r#""../../etc""#, r#""mtu""#, "9000"),
            apply(r#""eth0""#, r#""mtu""#, "1"),
            apply(r#""eth0""#, r#""qdisc""#, r#""netem""#),
            apply("null", r#""governor""#, r#""a\nb""#),
            r#"{"reboot":{"command":["sh"]}}"#.into(),
            r#"{"command":{"argv":["sh"],"limit_ms":1,"keep_octets":1}}"#.into(),
            r#"{"restore":"/etc/passwd"}"#.into(),
            r#""facts""#.into(),
            "[".repeat(1_000),
            " ".repeat(MOST_LINE_BYTES + 1),
            String::new(),
        ] {
            let why = decode(line.as_bytes()).expect_err(&line);
            assert!(!why.is_empty() && why.len() < 1_000, "{why}");
        }
        assert!(decode(b"\xff\xfe").is_err());
    }
}
