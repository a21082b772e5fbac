//! The lease by which a controller has a host, as the host keeps it: it ends by the host's own clock,
//! whatever carries it.

use linerate_wire::native::agent::{Lease, MOST_LEASE_MS};

/// Until the first lease comes.
const FIRST_MS: u32 = 15_000;

/// The host in a controller's hands.
#[derive(Debug)]
pub struct Tenure {
    lease: Lease,
    ends_ns: u64,
}

impl Tenure {
    /// Of a controller that was let in at `now_ns`.
    pub fn new(now_ns: u64) -> Self {
        let mut tenure = Self { lease: Lease { epoch: 0, ttl_ms: FIRST_MS }, ends_ns: u64::MAX };
        tenure.resume(now_ns);
        tenure
    }

    /// A lease came at `now_ns`. One of an epoch before renews nothing, nor does any once it is over.
    pub fn renew(&mut self, now_ns: u64, lease: Lease) {
        if lease.epoch >= self.lease.epoch {
            self.lease = lease;
            self.resume(now_ns);
        }
    }

    /// The host itself was at something: what came meanwhile is still to be read.
    pub fn resume(&mut self, now_ns: u64) {
        if !self.is_over(now_ns) {
            let ttl_ms = self.lease.ttl_ms.min(MOST_LEASE_MS);
            self.ends_ns = now_ns.saturating_add(u64::from(ttl_ms).saturating_mul(1_000_000));
        }
    }

    /// Whether the controller is gone, and its settings are to be put back.
    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.ends_ns
    }
}

#[cfg(test)]
mod tests {
    use linerate_testkit::whole::chance::Chance;

    use super::*;

    const MS: u64 = 1_000_000;
    const TTL_MS: u32 = 15_000;
    const LATEST_MS: u64 = 6_000;

    /// When leases of a controller that dies at `dies_ms` arrive, by a network that loses, doubles and
    /// swaps them: milliseconds of the host's clock.
    fn arrivals(chance: &mut Chance, epoch: u64, dies_ms: u64) -> Vec<(u64, Lease)> {
        let mut came = Vec::new();
        for sent_ms in (0..dies_ms).step_by(1_000) {
            for _ in 0..[0, 1, 1, 1, 2][chance.below(5) as usize] {
                came.push((sent_ms + chance.below(LATEST_MS), Lease { epoch, ttl_ms: TTL_MS }));
            }
        }
        came
    }

    #[test]
    fn a_host_is_its_controllers_until_the_lease_ends_and_never_again() {
        for seed in 0..2_000 {
            let mut chance = Chance::new(seed);
            let dies_ms = 1_000 + chance.below(120_000);
            let mut all = arrivals(&mut chance, 7, dies_ms);
            // What an earlier controller said is still on its way.
            let late_ms = chance.below(200_000);
            all.extend(arrivals(&mut chance, 6, late_ms));
            all.sort_by_key(|(at_ms, _)| *at_ms);
            let mut all = all.into_iter().peekable();
            let begun_ms = chance.below(1_000);
            let mut tenure = Tenure::new(begun_ms * MS);
            let (mut renewed_ms, mut epoch, mut over) = (begun_ms, 0, None);
            for now_ms in begun_ms..250_000 {
                while let Some((_, lease)) = all.next_if(|(at_ms, _)| *at_ms <= now_ms) {
                    tenure.renew(now_ms * MS, lease);
                    if over.is_none() && lease.epoch >= epoch {
                        (renewed_ms, epoch) = (now_ms, lease.epoch);
                    }
                }
                let expected = now_ms >= renewed_ms + u64::from(TTL_MS);
                assert_eq!(tenure.is_over(now_ms * MS), expected, "seed {seed}: {now_ms} ms");
                if expected {
                    over.get_or_insert(now_ms);
                }
            }
            let over = over.unwrap_or_else(|| panic!("seed {seed}: it never ended"));
            let last_ms = dies_ms.max(if epoch == 7 { 0 } else { late_ms });
            assert!(over <= last_ms + LATEST_MS + u64::from(TTL_MS), "seed {seed}: {over} ms");
        }
    }

    #[test]
    fn no_controller_leases_a_host_for_ever() {
        let mut tenure = Tenure::new(0);
        tenure.renew(0, Lease { epoch: u64::MAX, ttl_ms: u32::MAX });
        assert!(!tenure.is_over(u64::from(MOST_LEASE_MS) * MS - 1));
        assert!(tenure.is_over(u64::from(MOST_LEASE_MS) * MS));
        let mut given_back = Tenure::new(0);
        given_back.renew(5, Lease { epoch: 1, ttl_ms: 0 });
        given_back.renew(5, Lease { epoch: 2, ttl_ms: TTL_MS });
        assert!(given_back.is_over(5));
    }
}
