//! The distance between the two hosts' monotonic clocks, from questions and answers on the control
//! connection.

/// One question and answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Asked, on the client's clock.
    pub asked_ns: u64,
    /// Answered, on the server's clock.
    pub server_ns: u64,
    /// Answer read, on the client's clock.
    pub heard_ns: u64,
}

/// Server's clock less client's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// Nanoseconds.
    pub offset_ns: i64,
    /// The true offset is no farther away than this.
    pub error_ns: u64,
    /// Shortest round trip seen.
    pub round_trip_ns: u64,
}

/// The offset that the fastest exchange gives: the answer was read by the server some time between
/// asking and hearing, so the middle is wrong by half the round trip at most (the bound of NTP,
/// RFC 5905 section 8). `None` without exchanges.
pub fn offset(exchanges: &[Exchange]) -> Option<ClockOffset> {
    exchanges
        .iter()
        .filter_map(|e| {
            let round_trip_ns = e.heard_ns.checked_sub(e.asked_ns)?;
            let middle = e.asked_ns + round_trip_ns / 2;
            Some(ClockOffset {
                offset_ns: e.server_ns.wrapping_sub(middle) as i64,
                error_ns: round_trip_ns.div_ceil(2),
                round_trip_ns,
            })
        })
        .min_by_key(|estimate| estimate.round_trip_ns)
}

/// One offset for a whole test from those at its start and its end: the clocks may have drifted
/// apart, so half the change is added to the error.
pub fn over_test(start: ClockOffset, end: Option<ClockOffset>) -> ClockOffset {
    let Some(end) = end else { return start };
    let change = end.offset_ns.wrapping_sub(start.offset_ns);
    ClockOffset {
        offset_ns: start.offset_ns.wrapping_add(change / 2),
        error_ns: start
            .error_ns
            .max(end.error_ns)
            .saturating_add(change.unsigned_abs().div_ceil(2)),
        round_trip_ns: start.round_trip_ns.min(end.round_trip_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_true_offset_lies_within_the_error() {
        // Server 1,000 ahead; 30 there, 70 back.
        let slow = Exchange { asked_ns: 100, server_ns: 1_130, heard_ns: 200 };
        let fast = Exchange { asked_ns: 500, server_ns: 1_505, heard_ns: 512 };
        let found = offset(&[slow, fast]);
        assert_eq!(found, Some(ClockOffset { offset_ns: 999, error_ns: 6, round_trip_ns: 12 }));
        assert_eq!(offset(&[]), None);
        let behind = Exchange { asked_ns: 1_000, server_ns: 5, heard_ns: 1_010 };
        assert_eq!(offset(&[behind]).map(|o| o.offset_ns), Some(-1_000));
    }

    #[test]
    fn drift_adds_to_the_error() {
        let start = ClockOffset { offset_ns: 0, error_ns: 10, round_trip_ns: 20 };
        let end = ClockOffset { offset_ns: 500, error_ns: 8, round_trip_ns: 16 };
        let both = over_test(start, Some(end));
        assert_eq!((both.offset_ns, both.error_ns), (250, 260));
        assert_eq!(over_test(start, None), start);
    }
}
