//! What a plan asks of its server, for limits.

use linerate_model::plan::{Direction, End, RrPlan, TestPlan, Traffic};

/// Bytes that a plan with an end by count carries, both ways together.
pub(crate) fn bytes(plan: &TestPlan) -> Option<u64> {
    // A request and its response are both ways already.
    let transactions = |count: u64, rr: &RrPlan| {
        count.saturating_mul(u64::from(rr.request).saturating_add(rr.response.into()))
    };
    let each_way = match (plan.end, &plan.traffic) {
        (End::Time(_), _) => return None,
        (End::Datagrams(count), Traffic::Rr(rr)) => return Some(transactions(count, rr)),
        (End::Bytes(bytes), Traffic::Rr(rr)) => {
            // These are of the requests alone.
            return Some(transactions(bytes.div_ceil(rr.request.max(1).into()), rr));
        }
        (End::Bytes(bytes), _) => bytes,
        (End::Datagrams(count), Traffic::Udp(udp)) => count.saturating_mul(udp.size.bytes().into()),
        (End::Datagrams(count), Traffic::Tcp(tcp)) => count.saturating_mul(tcp.block.into()),
    };
    let ways = if plan.direction == Direction::Both { 2 } else { 1 };
    Some(each_way.saturating_mul(ways))
}

/// Bits of payload a second of one direction, as the plan says; `None` where it is as fast as it goes.
pub(crate) fn rate_bps(plan: &TestPlan) -> Option<u64> {
    match &plan.traffic {
        Traffic::Udp(udp) => udp.rate.map(|rate| rate.bits_per_second(udp.size)),
        Traffic::Tcp(tcp) => tcp.rate.map(|rate| rate.bits_per_second()),
        // One direction: the larger of the two messages.
        Traffic::Rr(rr) => rr
            .rate
            .map(|rate| rate.saturating_mul(8).saturating_mul(rr.request.max(rr.response).into())),
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::Transport;
    use linerate_testkit::plans;

    use super::*;

    #[test]
    fn requests_carry_their_answers_whatever_ends_the_test() {
        let rr = RrPlan { request: 100, response: 1_000, ..plans::rr(Transport::Tcp) };
        let of = |end| bytes(&TestPlan { end, ..plans::plan(Traffic::Rr(rr.clone())) });
        assert_eq!(of(End::Datagrams(5)), Some(5_500));
        assert_eq!(of(End::Bytes(500)), Some(5_500));
        assert_eq!(of(End::Bytes(401)), Some(5_500), "the last request is whole");
    }
}
