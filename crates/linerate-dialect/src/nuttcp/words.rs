//! The words around a sender's datagrams.

use linerate_wire::nuttcp::datagram::{BEGIN, BEGIN_AGAIN, END_EVERY_NS, ENDS, end};

use crate::Action;
use crate::stream::StreamId;

/// From the first word to the second, in nanoseconds: a path that has to be found is by then.
const BEGIN_EVERY_NS: u64 = 250_000_000;
/// Releases before 6.1.4 give up where an interval ends between the first two words of the end: they have the
/// second after so long, in nanoseconds.
const SOON_NS: u64 = 5_000_000;

/// What begins the data: said on the first stream.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) again_ns: u64,
}

impl Beginning {
    pub(super) fn say(now_ns: u64, actions: &mut impl Extend<Action>) -> Self {
        actions.extend([Action::SendDatagram(0, BEGIN.to_vec())]);
        Self { again_ns: now_ns.saturating_add(BEGIN_EVERY_NS) }
    }

    /// Whether data may follow at once.
    pub(super) fn is_over(&self, now_ns: u64, actions: &mut impl Extend<Action>) -> bool {
        let over = now_ns >= self.again_ns;
        if over {
            actions.extend([Action::SendDatagram(0, BEGIN_AGAIN.to_vec())]);
        }
        over
    }
}

/// What ends it, again and again. A real sender says each word on one stream, and the next on the next; its receiver reads
/// the streams in turn and waits on the one whose datagram is missing, which may be any: so each hears every word here.
#[derive(Debug, Default)]
pub(super) struct Farewell {
    pub(super) said: u8,
    pub(super) again_ns: u64,
    /// The receiver is of a release before 6.1.4, and has intervals.
    pub(super) hurried: bool,
}

impl Farewell {
    /// Says what is due, once no datagram follows.
    pub(super) fn say(&mut self, now_ns: u64, ids: &[StreamId], actions: &mut impl Extend<Action>) {
        if self.is_over() || now_ns < self.again_ns {
            return;
        }
        actions
            .extend(ids.iter().map(|id| Action::SendDatagram(id.stream, end(self.said).to_vec())));
        let pause_ns = if self.hurried && self.said == 0 { SOON_NS } else { END_EVERY_NS };
        self.again_ns = now_ns.saturating_add(pause_ns);
        self.said += 1;
    }

    /// When the next is due.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        (!self.is_over()).then_some(self.again_ns)
    }

    pub(super) fn is_over(&self) -> bool {
        self.said >= ENDS
    }
}
