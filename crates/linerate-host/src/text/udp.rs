//! UDP counters of a network namespace, /proc/net/snmp and /proc/net/snmp6.

/// The counters that say where datagrams were lost within the host. Not UDP-Lite's. What a kernel does
/// not print is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UdpCounters {
    pub(crate) receive_buffer_errors: Option<u64>,
    pub(crate) send_buffer_errors: Option<u64>,
    pub(crate) checksum_errors: Option<u64>,
}

impl UdpCounters {
    fn set(&mut self, name: &str, value: Option<u64>) {
        match name {
            "RcvbufErrors" => self.receive_buffer_errors = value,
            "SndbufErrors" => self.send_buffer_errors = value,
            "InCsumErrors" => self.checksum_errors = value,
            _ => {}
        }
    }

    /// What was gained since `before`. A counter that went back, as those of 32-bit kernels do when
    /// they are full, says nothing.
    pub(crate) fn since(&self, before: &Self) -> Self {
        self.with(before, |now, then| now?.checked_sub(then?))
    }

    /// These of one version of IP and those of the other, which a host may lack.
    pub(crate) fn and(&self, other: &Self) -> Self {
        self.with(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        })
    }

    fn with(&self, other: &Self, f: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        Self {
            receive_buffer_errors: f(self.receive_buffer_errors, other.receive_buffer_errors),
            send_buffer_errors: f(self.send_buffer_errors, other.send_buffer_errors),
            checksum_errors: f(self.checksum_errors, other.checksum_errors),
        }
    }
}

/// IPv4: a line of names, then a line of values, both beginning with `Udp:`. The columns are found
/// by name, since kernels have added some over time.
pub(crate) fn parse_snmp(text: &str) -> UdpCounters {
    let mut counters = UdpCounters::default();
    let mut rows = text.lines().filter_map(|line| line.strip_prefix("Udp:"));
    if let (Some(names), Some(values)) = (rows.next(), rows.next()) {
        for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
            counters.set(name, value.parse().ok());
        }
    }
    counters
}

/// IPv6: one counter a line, such as `Udp6InDatagrams 17`.
pub(crate) fn parse_snmp6(text: &str) -> UdpCounters {
    let mut counters = UdpCounters::default();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("Udp6") else { continue };
        let Some((name, value)) = rest.split_once(char::is_whitespace) else { continue };
        counters.set(name, value.trim().parse().ok());
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer_of_ipv4() {
        let text = "Tcp: RtoAlgorithm NoPorts\nTcp: 1 99\n\
            Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors \
            IgnoredMulti MemErrors\n\
            Udp: 175 1 9 176 2 3 4 0 0\n\
            UdpLite: InDatagrams RcvbufErrors\nUdpLite: 88 88\n";
        assert_eq!(
            parse_snmp(text),
            UdpCounters {
                receive_buffer_errors: Some(2),
                send_buffer_errors: Some(3),
                checksum_errors: Some(4),
            }
        );
    }

    #[test]
    fn known_answer_of_ipv6() {
        let text = "Ip6InReceives                   \t7\n\
            Udp6InDatagrams                 \t5\nUdp6NoPorts                     \t1\n\
            Udp6RcvbufErrors                \t2\nUdp6SndbufErrors                \t3\n\
            Udp6InCsumErrors                \t4\nUdpLite6RcvbufErrors            \t88\n";
        assert_eq!(
            parse_snmp6(text),
            UdpCounters {
                receive_buffer_errors: Some(2),
                send_buffer_errors: Some(3),
                checksum_errors: Some(4),
            }
        );
    }

    #[test]
    fn names_without_values_are_nothing() {
        assert_eq!(parse_snmp("Udp: RcvbufErrors NoPorts\n"), UdpCounters::default());
        assert_eq!(
            parse_snmp("Udp: RcvbufErrors SndbufErrors\nUdp: 3"),
            UdpCounters { receive_buffer_errors: Some(3), ..UdpCounters::default() }
        );
        assert_eq!(parse_snmp6("Udp6RcvbufErrors"), UdpCounters::default());
    }
}
