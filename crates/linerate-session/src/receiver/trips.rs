//! Delays from one wall clock to the other.

use linerate_model::sample;
use linerate_stats::online::Moments;
use linerate_wire::iperf2::MOST_NS;

/// Of one stream: in the interval that runs, and before it.
#[derive(Debug, Default)]
pub(super) struct Trips {
    current: (Moments, u64),
    before: (Moments, u64),
}

impl Trips {
    /// What was sent at `sent_ns` came at `at_ns`, by two wall clocks in nanoseconds. Clocks that lie too far apart to
    /// agree say nothing.
    #[inline]
    pub(super) fn record(&mut self, sent_ns: u64, at_ns: u64, bytes: u64) {
        if at_ns.abs_diff(sent_ns) < MOST_NS {
            let (moments, carried) = &mut self.current;
            moments.record(at_ns.wrapping_sub(sent_ns).cast_signed());
            *carried = carried.saturating_add(bytes);
        }
    }

    /// Of the interval that ends now.
    pub(super) fn row(&mut self) -> Option<sample::Trips> {
        let (moments, bytes) = std::mem::take(&mut self.current);
        self.before.0.merge(&moments);
        self.before.1 = self.before.1.saturating_add(bytes);
        trips(&moments, bytes)
    }

    /// Of all intervals that have ended.
    pub(super) fn total(&self) -> Option<sample::Trips> {
        let (moments, bytes) = &self.before;
        trips(moments, *bytes)
    }
}

fn trips(moments: &Moments, bytes: u64) -> Option<sample::Trips> {
    Some(sample::Trips {
        count: moments.count(),
        bytes,
        mean_ns: moments.mean()?,
        least_ns: moments.least()?,
        most_ns: moments.most()?,
        deviation_ns: moments.deviation()?,
    })
}
