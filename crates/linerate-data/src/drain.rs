//! How long what is under way has after a sender's last word.

use linerate_dialect::stream::straggler_ns;
use linerate_engine::sys;
use linerate_model::plan::Traffic;

/// TCP streams end by themselves; this is for one that does not.
const TCP_DRAIN_NS: u64 = 20_000_000_000;

/// How long receivers wait after the sender's last word: two round trips and some for the host.
pub fn drain_ns(control: &impl std::os::fd::AsFd, traffic: &Traffic) -> u64 {
    if matches!(traffic, Traffic::Tcp(_)) {
        return TCP_DRAIN_NS;
    }
    straggler_ns(sys::tcp_sample(control).and_then(|tcp| tcp.rtt_ns).unwrap_or(0))
}
