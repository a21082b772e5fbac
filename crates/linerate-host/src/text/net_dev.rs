//! Counters of one interface, /proc/net/dev.

/// What an interface counted since it came up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NicCounters {
    pub(crate) rx_bytes: u64,
    pub(crate) rx_packets: u64,
    /// rx_dropped + rx_missed_errors + rx_fifo_errors.
    pub(crate) rx_dropped: u64,
    pub(crate) tx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_dropped: u64,
}

/// Reads the row of the interface `name`.
///
/// The same counters as /sys/class/net/NAME/statistics, but all of one instant, in one read, and of
/// the reader's own network namespace (/sys shows that of whoever mounted it).
/// `dev_seq_printf_stats` of net/core/net-procfs.c prints rx_dropped + rx_missed_errors as one
/// column, "drop", beside rx_fifo_errors.
pub(crate) fn parse(text: &str, name: &str) -> Option<NicCounters> {
    rows(text).find(|(interface, _)| *interface == name).and_then(|(_, row)| counters(row))
}

/// Reads the rows of all interfaces, in the file's order; one that is cut short is left out.
pub(crate) fn parse_all(text: &str) -> Vec<(String, NicCounters)> {
    rows(text).filter_map(|(name, row)| Some((name.to_owned(), counters(row)?))).collect()
}

/// The name and the columns of each interface; the head has no colon.
fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (interface, row) = line.split_once(':')?;
        Some((interface.trim_start(), row))
    })
}

fn counters(row: &str) -> Option<NicCounters> {
    let mut columns = [0_u64; 12];
    let mut words = row.split_ascii_whitespace();
    for column in &mut columns {
        *column = words.next()?.parse().ok()?;
    }
    let [rx_bytes, rx_packets, _, rx_drop, rx_fifo, _, _, _, tx_bytes, tx_packets, _, tx_dropped] =
        columns;
    Some(NicCounters {
        rx_bytes,
        rx_packets,
        rx_dropped: rx_drop.saturating_add(rx_fifo),
        tx_bytes,
        tx_packets,
        tx_dropped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo \
colls carrier compressed
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     \
0       0          0
  eth0: 283529547    8422    7    5    3     0          0         2   609496    5687    6    4    9     \
0       0          0
";

    #[test]
    fn known_answer() {
        let eth0 = NicCounters {
            rx_bytes: 283_529_547,
            rx_packets: 8422,
            rx_dropped: 8,
            tx_bytes: 609_496,
            tx_packets: 5687,
            tx_dropped: 4,
        };
        assert_eq!(parse(TEXT, "eth0"), Some(eth0));
        let all = parse_all(TEXT);
        assert_eq!(all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["lo", "eth0"]);
        assert_eq!(all[1].1, eth0);
        assert_eq!(parse(TEXT, "eth"), None);
    }

    #[test]
    fn a_row_cut_short_is_not_half_believed() {
        assert_eq!(parse("eth0: 1 2 3 4 5 6 7 8 9 10 11", "eth0"), None);
    }
}
