//! The accounting identities, checked on every record.

use linerate_model::plan::{Transport, Way};
use linerate_model::record::{ErrorKind, ErrorRecord, Status};
use linerate_model::sample::{RecvCounts, RecvReport, RrReport, SendCounts, SendReport};

use super::figures::added;
use super::outcome::{Outcome, WayTotals};

/// Whose figures contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// This end's own: a fault of this program.
    Own,
    /// The peer's, which may report what it likes.
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
                "the server reports what cannot be: check its release (`linerate --version` there)",
            ),
            Whose::Between => (
                "the figures of the two ends contradict each other: ",
                "one end reports what cannot be: check that both are of the same release",
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
            && outcome.is_udp()
            && status == Status::Complete
            && let accounted = recv.datagrams.saturating_add(recv.lost)
            && send.datagrams != accounted
            // Without numbers a second copy is one more arrival.
            && (outcome.habits.numbered || send.datagrams > accounted)
        {
            return Whose::Between.broken(format!(
                "{name}: {} sent is not {} received + {} lost",
                send.datagrams, recv.datagrams, recv.lost
            ));
        }
    }
    outcome.streams.iter().find_map(|stream| {
        let (sender, receiver) =
            if stream.reverse { (Whose::Peer, Whose::Own) } else { (Whose::Own, Whose::Peer) };
        let way = if stream.reverse { Way::Reverse } else { Way::Forward };
        let name = format!("{} stream {}", way.name(), stream.index);
        let recv = stream.recv.as_ref().filter(|_| !outcome.receiver_is_brief(way));
        let send = stream.send.as_ref().filter(|_| !outcome.sender_is_brief(way));
        recv.and_then(|recv| received(&name, receiver, recv))
            .or_else(|| send.and_then(|send| sent(&name, sender, send)))
            .or_else(|| {
                // To the end of the stream: where the measured time begins is each end's own.
                let whole = outcome.plan.traffic.transport() == Transport::Tcp
                    && status == Status::Complete;
                let (send, recv) = stream.send.as_ref().zip(stream.recv.as_ref())?;
                let habits = &outcome.habits;
                match whole {
                    true if habits.exact_bytes => carried(&name, send, recv),
                    true if habits.brief && !habits.streams_outlive => {
                        claimed(&name, stream.reverse, send, recv)
                    }
                    _ => None,
                }
            })
            .or_else(|| stream.rr.as_ref().and_then(|rr| answered(stream.index, rr)))
    })
}

fn received(name: &str, whose: Whose, recv: &RecvReport) -> Option<Broken> {
    let mut sum = RecvCounts::default();
    recv.intervals.iter().for_each(|row| sum.add(&row.counts));
    if sum != recv.counts {
        return whose
            .broken(format!("{name}: the receiver's intervals do not add up to its totals"));
    }
    if recv.counts.datagrams.saturating_add(recv.counts.lost) != recv.counts.expected {
        return whose.broken(format!("{name}: received + lost is not expected"));
    }
    let delays = recv.delay_variation.filter(|delay| delay.count > recv.counts.datagrams)?;
    whose.broken(format!("{name}: {} delays of {} datagrams", delays.count, recv.counts.datagrams))
}

fn sent(name: &str, whose: Whose, send: &SendReport) -> Option<Broken> {
    let mut sum = SendCounts::default();
    send.intervals.iter().for_each(|row| sum.add(&row.counts));
    if sum != send.counts {
        return whose.broken(format!("{name}: the sender's intervals do not add up to its totals"));
    }
    // An older peer reports the sum alone.
    let errors = send.counts.local_errors;
    let refused = send.counts.refused_locally;
    (!errors.is_empty() && errors.total() != refused).then(|| {
        whose.broken(format!("{name}: local send errors by errno do not add up to {refused}"))
    })?
}

/// Of a peer that reports its totals alone: TCP brings no more than was sent, and all of what was. A sender may not have
/// counted the last of what it sent, and a receiver not have waited for it.
fn claimed(name: &str, reverse: bool, send: &SendReport, recv: &RecvReport) -> Option<Broken> {
    let (sent, received) = (send.counts.bytes, recv.counts.bytes);
    let (claim, is_more) = match reverse {
        true => (format!("it sent {sent} bytes, of which {received} came"), sent > received),
        false => (format!("it received {received} of {sent} bytes"), received > sent),
    };
    is_more.then(|| Whose::Peer.broken(format!("{name}: {claim}")))?
}

fn carried(name: &str, send: &SendReport, recv: &RecvReport) -> Option<Broken> {
    let sent = send.counts.bytes.saturating_add(send.warmup);
    let received = recv.counts.bytes.saturating_add(recv.warmup);
    (sent != received).then(|| {
        Whose::Between.broken(format!(
            "{name}: {sent} bytes sent are not {received} bytes received, warm-up included"
        ))
    })?
}

fn answered(index: u16, rr: &RrReport) -> Option<Broken> {
    let sum = added(rr.intervals.iter().map(|row| row.transactions));
    (sum != rr.transactions).then(|| {
        Whose::Own.broken(format!("stream {index}: the intervals' transactions do not add up"))
    })?
}
