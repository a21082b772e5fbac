//! What a client looks after while a test runs whose server says nothing meanwhile: whether anything moves, and
//! whether a server ends that was asked for an amount.

use linerate_model::plan::{TestPlan, Traffic};

use crate::Seen;
use crate::ending::Failure;
use crate::idle::Idle;
use crate::stream;

/// A test in which nothing moves for so long has no server any more, in nanoseconds, …
const NO_DATA_NS: u64 = 30_000_000_000;
/// … but at a low rate it may take as long as so many bytes: a kernel that keeps to the rate of a stream takes megabytes
/// of it at once, and more when a third has left; Linux lets a buffer grow to this …
const BUFFERED_BYTES: u64 = 4 << 20;
/// … or as long as so many datagrams, of which some get lost …
const DATAGRAMS: u64 = 5;
/// … and is looked at so often.
const LOOK_EVERY_NS: u64 = 1_000_000_000;

/// From the start of a test on. Times are nanoseconds.
#[derive(Debug)]
pub(crate) struct Lookout {
    look_ns: u64,
    idle: Idle,
}

impl Lookout {
    /// Of a test that begins at `now_ns`.
    pub(crate) fn new(now_ns: u64) -> Self {
        Self { look_ns: now_ns, idle: Idle::new(0, now_ns) }
    }

    /// When it wants to look again.
    pub(crate) fn deadline_ns(&self) -> u64 {
        self.look_ns
    }

    /// Gives a server up with which nothing moves, as its protocol has no other sign of it, or that does not end.
    /// What `moved` is a count that grows with all that does.
    pub(crate) fn look(
        &mut self,
        now_ns: u64,
        (plan, seen, moved): (&TestPlan, &Seen, u64),
    ) -> Option<Failure> {
        if now_ns < self.look_ns {
            return None;
        }
        self.look_ns = now_ns.saturating_add(LOOK_EVERY_NS);
        // Nobody was silent while this end did not run.
        if self.idle.lasts(moved, now_ns).min(seen.ran_ns) > most_ns(plan) {
            return Some(Failure::Server("nothing moved for too long".into()));
        }
        stream::excess(plan, seen.received)
    }
}

/// How long nothing may move.
fn most_ns(plan: &TestPlan) -> u64 {
    let (rate, bytes) = match &plan.traffic {
        Traffic::Udp(udp) => {
            let rate = udp.rate.map(|rate| rate.bits_per_second(udp.size));
            (rate, DATAGRAMS * u64::from(udp.size.bytes()))
        }
        Traffic::Tcp(tcp) => {
            let asked = u64::from(tcp.block.max(plan.window.unwrap_or(0)));
            (tcp.rate.map(|rate| rate.bits_per_second()), BUFFERED_BYTES.max(asked))
        }
        Traffic::Rr(_) => (None, 0),
    };
    // The rate is that of all streams.
    let slow_ns = rate.map_or(0, |rate| {
        let bits = bytes.saturating_mul(8).saturating_mul(plan.streams.into());
        bits.saturating_mul(1_000_000_000) / rate.max(1)
    });
    NO_DATA_NS.max(slow_ns)
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::{TcpPlan, UdpPlan};
    use linerate_model::units::{BitRate, Rate};
    use linerate_testkit::plans;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_is_sent_slowly_may_move_seldom() {
        let tcp = |rate, window| {
            let rate = BitRate::new(rate);
            let traffic = Traffic::Tcp(TcpPlan { rate, ..plans::tcp() });
            most_ns(&TestPlan { window, ..plans::plan(traffic) })
        };
        assert_eq!((tcp(0, None), tcp(100_000_000, None)), (NO_DATA_NS, NO_DATA_NS));
        assert_eq!(tcp(8_000_000, Some(64 << 20)), (64 << 20) * SECOND / 1_000_000);
        assert_eq!(tcp(8_000, None), (4 << 20) * SECOND / 1_000);
        let rate = BitRate::new(80).map(Rate::Bits);
        let udp = Traffic::Udp(UdpPlan { rate, ..plans::udp() });
        let udp = TestPlan { streams: 2, ..plans::plan(udp) };
        assert_eq!(most_ns(&udp), 1_000 * SECOND, "five datagrams of each of two streams");
    }
}
