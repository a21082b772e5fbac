//! What rate a direction was asked for, where somebody may have changed it while the test ran.

use linerate_model::plan::Way;
use linerate_model::record::{Figures, RunEvent, RunRecord};

/// The rate of one direction over the measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Asked {
    /// As fast as it goes.
    Most,
    /// The plan's; or the mean of those that held, each for its time. Bit/s.
    Rate(f64),
    /// As fast as it goes for a while, and at chosen rates for the rest: there is no rate to be missed, and what held
    /// one part back need not have held the other.
    Mixed,
}

impl Asked {
    pub(super) fn of(record: &RunRecord, way: Way) -> Self {
        let planned = record.asked.rate_bps.map(|bps| bps as f64);
        let events = if way == Way::Forward { record.events.as_slice() } else { &[] };
        let span_s = span_s(&record.totals, way);
        // A rate that was chosen when all had left held for nothing.
        let held = |event: &&RunEvent| span_s <= 0.0 || event.at_s < span_s;
        let chosen = || {
            let held = events.iter().filter(held);
            held.filter_map(|e| Some((e.at_s, RunEvent::chosen_bps(e)? as f64)))
        };
        let Some((first_s, _)) = chosen().next() else {
            return planned.map_or(Self::Most, Self::Rate);
        };
        // Chosen in the warm-up, a rate holds from the start.
        let Some(planned) = planned.or((first_s <= 0.0).then_some(0.0)) else { return Self::Mixed };
        if span_s <= 0.0 {
            return Self::Rate(planned);
        }
        let (mut from_s, mut rate, mut bits) = (0.0, planned, 0.0);
        for (at_s, next) in chosen() {
            let at_s = at_s.clamp(from_s, span_s);
            bits += rate * (at_s - from_s);
            (from_s, rate) = (at_s, next);
        }
        Self::Rate((bits + rate * (span_s - from_s)) / span_s)
    }

    /// The rate, if it is one.
    pub(super) fn bps(self) -> Option<f64> {
        match self {
            Self::Rate(bps) => Some(bps),
            Self::Most | Self::Mixed => None,
        }
    }
}

fn span_s(totals: &Figures, way: Way) -> f64 {
    let pair = match way {
        Way::Forward => totals.forward.as_ref(),
        Way::Reverse => totals.reverse.as_ref(),
    };
    let sender = pair.map_or(totals.sender.as_ref(), |pair| pair.sender.as_ref());
    sender.map_or(0.0, |sender| sender.seconds)
}
