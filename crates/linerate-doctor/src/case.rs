//! One host and its path, as the checks see them.

use linerate_model::doctor::{Goal, HostDetails};
use linerate_model::host::NicFacts;
use linerate_model::record::TestEnd;

/// A host that is judged.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// Which end it is.
    pub end: TestEnd,
    /// Its facts.
    pub host: &'a HostDetails,
    /// Those of the other end, where there is one.
    pub other: Option<&'a HostDetails>,
    /// What the path shall carry.
    pub goal: Goal,
}

impl<'a> Case<'a> {
    /// The interface of the path.
    pub(crate) fn nic(&self) -> Result<&'a NicFacts, String> {
        let nic = self.host.host.nic.as_ref();
        nic.ok_or_else(|| match self.host.route.get() {
            Err(why) => format!("the interface of the path is not known: {why}"),
            Ok(_) => "the interface of the path is not known".to_owned(),
        })
    }

    /// A device does the work of the interface, and no other interface of this kernel.
    pub(crate) fn is_card(&self) -> Result<bool, String> {
        if self.nic()?.driver.is_some() {
            return Ok(true);
        }
        // Where /sys does not show the interface, nobody tells a driver.
        let device = &self.host.device;
        Ok(device.kind.get()?.is_none() && device.numa_node.get()?.is_some())
    }

    /// Packets of the path never leave the host.
    pub(crate) fn is_local(&self) -> bool {
        let local = |host: &HostDetails| host.route.known().is_some_and(|route| route.local);
        local(self.host) || self.other.is_some_and(local)
    }

    /// Both hosts are on one link, without a router between.
    pub(crate) fn is_one_link(&self) -> bool {
        let one = |host: &HostDetails| host.route.known().map(|route| route.gateway.is_none());
        one(self.host).or_else(|| one(self.other?)).unwrap_or(false)
    }

    /// The goal reaches this many Gbit/s.
    pub(crate) fn wants_gbit(&self, gbit: u64) -> bool {
        self.goal.rate_bps.is_some_and(|rate| rate >= gbit.saturating_mul(1_000_000_000))
    }

    /// Cores on line.
    pub(crate) fn cores(&self) -> Result<u32, String> {
        self.host.host.cores.ok_or_else(|| "the number of cores is not known".to_owned())
    }

    /// A kernel parameter that is a number.
    pub(crate) fn number(&self, name: &str) -> Result<u64, String> {
        let text = self.host.sysctl(name)?;
        text.trim().parse().map_err(|_| format!("{name} is no number: {text:?}"))
    }

    /// Bytes that the goal carries in so many microseconds; 0 without a goal.
    pub(crate) fn bytes_in_us(&self, micros: u64) -> u64 {
        let rate = u128::from(self.goal.rate_bps.unwrap_or(0));
        u64::try_from(rate * u128::from(micros) / 8_000_000).unwrap_or(u64::MAX)
    }

    /// Twice what the goal has on its way in a round trip, bytes (RFC 6349 section 3.3.1); 0 where rate or
    /// round trip is not known.
    pub(crate) fn tcp_window_bytes(&self) -> u64 {
        let rtt_us = self.goal.rtt_s.map_or(0, |rtt| (rtt.max(0.0) * 1e6) as u64);
        self.bytes_in_us(rtt_us).saturating_mul(2)
    }

    /// The goal in words, or the words for its absence.
    pub(crate) fn goal_words(&self) -> String {
        self.goal.rate_bps.map_or("this path".to_owned(), rate_words)
    }
}

/// A rate for people, in the unit that leaves up to four digits.
pub(crate) fn rate_words(rate_bps: u64) -> String {
    let units = [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s")];
    let (unit, name) =
        units.into_iter().find(|(unit, _)| rate_bps >= *unit).unwrap_or((1, "bit/s"));
    let hundredths = u128::from(rate_bps) * 100 / u128::from(unit);
    match (hundredths / 100, hundredths % 100) {
        (whole, 0) => format!("{whole} {name}"),
        (whole, rest) if rest % 10 == 0 => format!("{whole}.{} {name}", rest / 10),
        (whole, rest) => format!("{whole}.{rest:02} {name}"),
    }
}

/// Bytes for people.
pub(crate) fn bytes_words(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{} KiB", bytes / 1_024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

/// A round trip for people; within a rack it is some 10 µs.
pub(crate) fn time_words(seconds: f64) -> String {
    if seconds < 1e-3 {
        return format!("{:.0} µs", seconds * 1e6);
    }
    format!("{:.1} ms", seconds * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        assert_eq!(rate_words(25_000_000_000), "25 Gbit/s");
        assert_eq!(rate_words(1_250_000), "1.25 Mbit/s");
        assert_eq!(rate_words(2_500), "2.5 kbit/s");
        assert_eq!(rate_words(7), "7 bit/s");
        assert_eq!(bytes_words(212_992), "208 KiB");
        assert_eq!((time_words(40e-6), time_words(0.02)), ("40 µs".into(), "20.0 ms".into()));
        let host = HostDetails::default();
        let goal = Goal { rate_bps: Some(10_000_000_000), rtt_s: Some(0.02) };
        let case = Case { end: TestEnd::Client, host: &host, other: None, goal };
        assert_eq!(case.bytes_in_us(10_000), 12_500_000);
        assert_eq!(case.tcp_window_bytes(), 50_000_000);
    }
}
