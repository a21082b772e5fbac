//! Every number that two ends negotiate, with the least and the most that linerate accepts.
//!
//! One table serves the command line, the client and the server: a number outside it is refused
//! with its name and range, never clamped. A server's own policy may be narrower still.

use serde::{Deserialize, Serialize};

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// As the user knows it, with its unit.
    pub name: &'static str,
    /// Least legal value.
    pub min: u64,
    /// Largest legal value.
    pub max: u64,
    /// Why these.
    pub why: &'static str,
    /// Options that ask for it: `--window`; none where only another tool's peers negotiate it.
    pub options: &'static [&'static str],
}

/// A number outside its range. Carried over the wire in a refusal, hence the owned text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{name} {value} is outside {min} to {max}")]
pub struct OutOfRange {
    /// Name of the limit.
    pub name: String,
    /// What was asked.
    pub value: u64,
    /// Least legal value.
    pub min: u64,
    /// Largest legal value.
    pub max: u64,
}

/// What a limit's numbers count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Time.
    Nanoseconds,
    /// A rate.
    BitsPerSecond,
    /// Things or bytes.
    Count,
}

impl OutOfRange {
    /// What is out of range, without its unit, and the unit.
    pub fn quantity(&self) -> (&str, Unit) {
        let units = [(" in nanoseconds", Unit::Nanoseconds), (" in bit/s", Unit::BitsPerSecond)];
        let named = |(suffix, unit)| Some((self.name.strip_suffix(suffix)?, unit));
        units.into_iter().find_map(named).unwrap_or((&self.name, Unit::Count))
    }
}

impl Limit {
    /// `Ok` inside the range.
    pub fn check(&self, value: u64) -> Result<(), OutOfRange> {
        if (self.min..=self.max).contains(&value) {
            return Ok(());
        }
        Err(OutOfRange { name: self.name.to_owned(), value, min: self.min, max: self.max })
    }
}

macro_rules! limits {
    ($($(#[$doc:meta])* $id:ident = ($name:literal, $min:expr, $max:expr, $why:literal, $options:expr);)*) => {
        $($(#[$doc])* pub const $id: Limit = Limit { name: $name, min: $min, max: $max, why: $why, options: $options };)*
        /// The whole table, for documentation and for tests that try every border.
        pub const ALL: &[Limit] = &[$($id),*];
    };
}

limits! {
    /// Streams in each direction.
    STREAMS = ("streams", 1, 128, "a thread and a socket each", &["--streams"]);
    /// Test length.
    DURATION_NS = ("duration in nanoseconds", 1_000_000, 86_400_000_000_000, "one day; longer runs are campaigns", &["--time"]);
    /// Warm-up before it.
    WARMUP_NS = ("warm-up in nanoseconds", 0, 600_000_000_000, "ten minutes", &["--warmup"]);
    /// Report interval.
    INTERVAL_NS = ("interval in nanoseconds", 10_000_000, 3_600_000_000_000, "shorter ones measure the scheduler", &["--interval"]);
    /// Intervals in a test, which bounds what both ends keep.
    INTERVALS = ("intervals in the test", 1, 100_000, "each is kept until the end", &["--interval"]);
    /// Intervals of all streams together, both ways.
    ROWS = ("intervals of all streams together", 1, 400_000, "each is about 200 bytes at both ends", &["--interval"]);
    /// Bytes in all blocks of a TCP test.
    BLOCKS_BYTES = ("block size x streams in bytes", 1, 67_108_864, "each stream holds one in memory", &["--block"]);
    /// Bytes of rr messages in flight on one stream: what the smallest usual socket buffers hold, so
    /// that neither end waits for the other to read.
    FLIGHT_BYTES = ("outstanding requests x message size in bytes", 1, 65_536, "both ends would wait for the other to read", &["--outstanding"]);
    /// UDP payload. The least holds linerate's own header.
    DATAGRAM_BYTES = ("datagram size in bytes", 32, 65_507, "linerate's header needs 32; IPv4 carries 65507", &["--size"]);
    /// TCP block.
    BLOCK_BYTES = ("block size in bytes", 1, 4_194_304, "one write or read", &["--block"]);
    /// RR request and response.
    MESSAGE_BYTES = ("request or response size in bytes", 1, 1_048_576, "one megabyte", &["--request", "--response"]);
    /// RR requests in flight on one stream.
    OUTSTANDING = ("outstanding requests", 1, 65_536, "each is remembered until answered", &["--outstanding"]);
    /// Socket buffers.
    WINDOW_BYTES = ("window in bytes", 1_024, 536_870_912, "half a gigabyte, as iperf3", &["--window"]);
    /// TCP maximum segment size.
    MSS_BYTES = ("MSS in bytes", 88, 32_767, "the kernel's own range", &["--mss"]);
    /// Rate of one direction.
    RATE_BPS = ("rate in bit/s", 1, 10_000_000_000_000, "ten terabit/s", &["--rate"]);
    /// Transactions per second of an open-loop rr.
    RATE_TPS = ("transactions per second", 1, 100_000_000, "", &["--rate"]);
    /// Byte budget.
    BYTES = ("bytes", 1, 1_000_000_000_000_000, "one petabyte", &["--bytes"]);
    /// Datagram budget.
    DATAGRAMS = ("datagrams", 1, 1_000_000_000_000, "one tera-datagram", &["--datagrams"]);
    /// Longest burst at the asked rate.
    BURST_NS = ("burst in nanoseconds", 0, 1_000_000_000, "one second", &["--burst"]);
    /// Type-of-service byte.
    DSCP = ("DSCP", 0, 63, "six bits, RFC 2474", &["--dscp"]);
    /// Core numbers.
    CORE = ("core", 0, 8_191, "the kernel's NR_CPUS", &["--cpu"]);
    /// `-t` of iperf3; 0 is no limit of its own.
    IPERF3_TIME_S = ("iperf3 time in seconds", 0, 86_400, "one day, as iperf3", &[]);
    /// `-O` of iperf3.
    IPERF3_OMIT_S = ("iperf3 omit in seconds", 0, 600, "as iperf3 from 3.18 on", &[]);
    /// `-l` of iperf3 with TCP.
    IPERF3_BLOCK_BYTES = ("iperf3 block size in bytes", 1, 1_048_576, "as iperf3", &[]);
    /// `-l` of iperf3 with UDP: its 64-bit header needs 16.
    IPERF3_DATAGRAM_BYTES = ("iperf3 datagram size in bytes", 16, 65_507, "as iperf3", &[]);
    /// `-l` of iperf 2 with `-u`: a number and what is asked.
    IPERF2_DATAGRAM_BYTES = ("iperf 2 datagram size in bytes", 40, 65_507, "it begins with 40 bytes that say what the test is", &["--size"]);
    /// Of dialects whose datagrams carry nothing of their own.
    BARE_DATAGRAM_BYTES = ("size of a datagram without a header in bytes", 1, 65_507, "the largest over IPv4", &["--size"]);
    /// nuttcp takes shorter ones for words about the data.
    NUTTCP_DATAGRAM_BYTES = ("nuttcp datagram size in bytes", 5, 65_507, "one of four bytes or less is no data", &["--size"]);
    /// `-w` of iperf3.
    IPERF3_WINDOW_BYTES = ("iperf3 window in bytes", 1, 536_870_912, "half a gigabyte, as iperf3", &[]);
    /// `-M` of iperf3.
    IPERF3_MSS_BYTES = ("iperf3 MSS in bytes", 1, 32_767, "as iperf3 from 3.21 on", &[]);
    /// Blocks a wake-up, `-b RATE/N` of iperf3.
    IPERF3_BURST = ("iperf3 burst in blocks", 1, 1_000, "as iperf3", &[]);
    /// `-S` of iperf3: the whole byte.
    IPERF3_TOS = ("iperf3 type of service", 0, 255, "one byte", &[]);
    /// `-L` of iperf3.
    IPERF3_FLOW_LABEL = ("iperf3 flow label", 1, 0xf_ffff, "20 bits, RFC 8200 section 3", &[]);
    /// `-A n,m` of iperf3.
    IPERF3_CORE = ("iperf3 server core", 0, 1_024, "as iperf3", &[]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_holds_at_its_borders_and_breaks_beyond_them() {
        for limit in ALL {
            assert!(limit.min < limit.max, "{}", limit.name);
            assert_eq!(limit.check(limit.min), Ok(()));
            assert_eq!(limit.check(limit.max), Ok(()));
            assert!(limit.check(limit.max + 1).is_err());
            if let Some(below) = limit.min.checked_sub(1) {
                assert!(limit.check(below).is_err());
            }
            assert!(limit.check(u64::MAX).is_err());
        }
    }
}
