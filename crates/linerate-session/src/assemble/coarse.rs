//! A rate so low that whole datagrams cannot keep it.

use linerate_model::plan::{End, Traffic};
use linerate_model::units::{NANOS_PER_SECOND, Nanos, si};

use super::Outcome;

/// What was sent may differ by this much from what was asked without a word, parts per thousand: the
/// verdict takes a rate within it for met.
const UNTOLD_PER_MILLE: u128 = 5;

/// What to say of a test by time whose rate is no whole number of datagrams in that time, where that
/// makes a difference. The first is due at the start, so what is sent is the next whole number.
pub(super) fn coarse_rate(outcome: &Outcome) -> Option<String> {
    let Traffic::Udp(udp) = &outcome.plan.traffic else { return None };
    let End::Time(time) = outcome.plan.end else { return None };
    let bps = udp.rate?.bits_per_second(udp.size);
    let one = u128::from(udp.size.bits()) * u128::from(NANOS_PER_SECOND);
    let asked = u128::from(bps) * u128::from(time.0);
    let whole = asked.div_ceil(one);
    if bps == 0 || time.0 == 0 || (whole * one - asked) * 1_000 <= asked * UNTOLD_PER_MILLE {
        return None;
    }
    let gap = Nanos(u64::try_from(one / u128::from(bps)).unwrap_or(u64::MAX));
    let datagrams = if whole == 1 { "1 datagram" } else { &format!("{whole} datagrams") };
    Some(format!(
        "at {} a datagram of {} bytes is due every {gap}, the first at the start: the rate comes to {datagrams} in {time}, which is {}",
        si(bps as f64, "bit/s"),
        udp.size.bytes(),
        si(whole as f64 * udp.size.bits() as f64 / time.as_secs_f64(), "bit/s"),
    ))
}
