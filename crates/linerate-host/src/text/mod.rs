//! Parsers of the kernel's text files. Each takes any text at all, skips what it does not know, and
//! allocates only what it returns.

pub(crate) mod cgroup;
pub(crate) mod cpuinfo;
pub(crate) mod cpulist;
pub(crate) mod interrupts;
pub(crate) mod net_dev;
pub(crate) mod os_release;
pub(crate) mod pressure;
pub(crate) mod softnet;
pub(crate) mod stat;
pub(crate) mod udp;

/// The first word and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    if text.is_empty() {
        return None;
    }
    Some(text.split_once(char::is_whitespace).unwrap_or((text, "")))
}

/// What a counter of 32 bits gained. One that seems to have gained 2³¹ or more between two readings was
/// reset, or is wider: that says nothing.
pub(crate) fn grown_32(before: u64, after: u64) -> Option<u64> {
    if after >= before {
        return Some(after.saturating_sub(before));
    }
    let grown = after.checked_add(1 << 32)?.checked_sub(before)?;
    (grown < 1 << 31).then_some(grown)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Text made of the words that the parsers look for, so that it gets past their first checks.
    fn near_misses() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("cpu0".to_owned()),
            Just("CPU1 ".to_owned()),
            Just("Udp: ".to_owned()),
            Just("InDatagrams ".to_owned()),
            Just("Udp6NoPorts".to_owned()),
            Just("some total=".to_owned()),
            Just("throttled_usec ".to_owned()),
            Just("0::/".to_owned()),
            Just(" - cgroup2 ".to_owned()),
            Just("eth0:".to_owned()),
            Just("PRETTY_NAME=\"".to_owned()),
            Just("model name\t:".to_owned()),
            Just("\n".to_owned()),
            Just(" ".to_owned()),
            Just("18446744073709551616".to_owned()),
            any::<u64>().prop_map(|n| n.to_string()),
            any::<u32>().prop_map(|n| format!("{n:08x} ")),
            ".{0,3}",
        ];
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    fn parse_all(text: &str) {
        stat::parse(text, &mut Vec::new());
        udp::parse_snmp(text);
        udp::parse_snmp6(text);
        softnet::parse(text, &mut Vec::new());
        net_dev::parse(text, "eth0");
        pressure::parse_some(text);
        pressure::parse_some_avg10(text);
        cgroup::parse_limit_millicores(text);
        cgroup::parse_throttled_ns(text);
        cgroup::throttle_files(text, text);
        cpuinfo::parse_model(text);
        os_release::parse_pretty_name(text);
        cpulist::parse(text);
        let counts = interrupts::parse(text, |_, _| true);
        counts.since(&counts);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            parse_all(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn no_near_miss_makes_a_parser_panic(text in near_misses()) {
            parse_all(&text);
        }
    }
}
