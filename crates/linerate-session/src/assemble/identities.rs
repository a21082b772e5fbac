//! The accounting identities, checked on every record.

use linerate_model::plan::{Dialect, Transport, Way};
use linerate_model::record::{ErrorKind, ErrorRecord, Status};
use linerate_model::sample::{RecvCounts, SendCounts};

use super::Outcome;
use super::figures::added;
use super::totals::{WayTotals, is_udp};

/// Whose figures contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// This end's own: a fault of this program.
    Own,
    /// The peer's, which may tell what it likes.
    Peer,
    /// One end's and the other's: either may be wrong.
    Between,
}

/// An accounting identity that does not hold.
pub(super) struct Broken {
    whose: Whose,
    what: String,
}

impl Whose {
    fn broken(self, what: String) -> Option<Broken> {
        Some(Broken { whose: self, what })
    }
}

impl Broken {
    pub(super) fn error(self) -> ErrorRecord {
        let (says, fault) = match self.whose {
            Whose::Own => ("", "this is a fault of linerate, please report it"),
            Whose::Peer => (
                "the server's figures contradict each other: ",
                "the server tells what cannot be: check its release (`linerate --version` there)",
            ),
            Whose::Between => (
                "the figures of the two ends contradict each other: ",
                "one end tells what cannot be: check that both are of the same release",
            ),
        };
        ErrorRecord::new(
            ErrorKind::Accounting,
            "the accounting of this test does not add up",
            format!("{says}{}", self.what),
            &[],
        )
        .hint(format!("do not use these numbers; {fault}"))
    }
}

/// The first accounting identity that does not hold.
pub(super) fn broken_identity(
    outcome: &Outcome,
    forward: &WayTotals,
    reverse: &WayTotals,
    status: Status,
) -> Option<Broken> {
    for (name, totals) in [("forward", forward), ("reverse", reverse)] {
        if let (Some((send, ..)), Some((recv, ..))) = (&totals.send, &totals.recv)
            && is_udp(outcome)
            && status == Status::Complete
            && send.datagrams != recv.datagrams.saturating_add(recv.lost)
        {
            return Whose::Between.broken(format!(
                "{name}: {} sent is not {} received + {} lost",
                send.datagrams, recv.datagrams, recv.lost
            ));
        }
    }
    for stream in &outcome.streams {
        let (index, way) = (stream.index, if stream.reverse { "reverse" } else { "forward" });
        let (sender, receiver) =
            if stream.reverse { (Whose::Peer, Whose::Own) } else { (Whose::Own, Whose::Peer) };
        let way_of = if stream.reverse { Way::Reverse } else { Way::Forward };
        if let Some(recv) = &stream.recv
            && !outcome.receiver_is_brief(way_of)
        {
            let mut sum = RecvCounts::default();
            recv.intervals.iter().for_each(|row| sum.add(&row.counts));
            if sum != recv.counts {
                return receiver.broken(format!(
                    "{way} stream {index}: the receiver's intervals do not add up to its totals"
                ));
            }
            if recv.counts.datagrams.saturating_add(recv.counts.lost) != recv.counts.expected {
                return receiver
                    .broken(format!("{way} stream {index}: received + lost is not expected"));
            }
            if let Some(delay) = &recv.delay_variation
                && delay.count > recv.counts.datagrams
            {
                return receiver.broken(format!(
                    "{way} stream {index}: {} delays of {} datagrams",
                    delay.count, recv.counts.datagrams
                ));
            }
        }
        if let Some(send) = &stream.send
            && !outcome.sender_is_brief(way_of)
        {
            let mut sum = SendCounts::default();
            send.intervals.iter().for_each(|row| sum.add(&row.counts));
            if sum != send.counts {
                return sender.broken(format!(
                    "{way} stream {index}: the sender's intervals do not add up to its totals"
                ));
            }
            // An older peer tells the sum alone.
            let errors = send.counts.local_errors;
            if !errors.is_empty() && errors.total() != send.counts.refused_locally {
                return sender.broken(format!(
                    "{way} stream {index}: local send errors by errno do not add up to {}",
                    send.counts.refused_locally
                ));
            }
        }
        // To the end of the stream: where the measured time begins is each end's own.
        if let (Some(send), Some(recv)) = (&stream.send, &stream.recv)
            && outcome.dialect == Dialect::Native
            && outcome.plan.traffic.transport() == Transport::Tcp
            && status == Status::Complete
        {
            let sent = send.counts.bytes.saturating_add(send.warmup);
            let received = recv.counts.bytes.saturating_add(recv.warmup);
            if sent != received {
                return Whose::Between.broken(format!(
                    "{way} stream {index}: {sent} bytes sent are not {received} bytes received, warm-up included"
                ));
            }
        }
        if let Some(rr) = &stream.rr
            && added(rr.intervals.iter().map(|row| row.transactions)) != rr.transactions
        {
            return Whose::Own
                .broken(format!("stream {index}: the intervals' transactions do not add up"));
        }
    }
    None
}
