//! The accounting identities, checked on every record.

use linerate_model::plan::{Dialect, Transport, Way};
use linerate_model::record::Status;
use linerate_model::sample::{RecvCounts, SendCounts};

use super::Outcome;
use super::figures::added;
use super::totals::{WayTotals, is_udp};

/// The first accounting identity that does not hold, in words.
pub(super) fn broken_identity(
    outcome: &Outcome,
    forward: &WayTotals,
    reverse: &WayTotals,
    status: Status,
) -> Option<String> {
    for (name, totals) in [("forward", forward), ("reverse", reverse)] {
        if let (Some((send, ..)), Some((recv, ..))) = (&totals.send, &totals.recv)
            && is_udp(outcome)
            && status == Status::Complete
            && send.datagrams != recv.datagrams.saturating_add(recv.lost)
        {
            return Some(format!(
                "{name}: {} sent is not {} received + {} lost",
                send.datagrams, recv.datagrams, recv.lost
            ));
        }
    }
    for stream in &outcome.streams {
        let (index, way) = (stream.index, if stream.reverse { "reverse" } else { "forward" });
        let way_of = if stream.reverse { Way::Reverse } else { Way::Forward };
        if let Some(recv) = &stream.recv
            && !outcome.receiver_is_brief(way_of)
        {
            let mut sum = RecvCounts::default();
            recv.intervals.iter().for_each(|row| sum.add(&row.counts));
            if sum != recv.counts {
                return Some(format!(
                    "{way} stream {index}: the receiver's intervals do not add up to its totals"
                ));
            }
            if recv.counts.datagrams.saturating_add(recv.counts.lost) != recv.counts.expected {
                return Some(format!("{way} stream {index}: received + lost is not expected"));
            }
            if let Some(delay) = &recv.delay_variation
                && delay.count > recv.counts.datagrams
            {
                return Some(format!(
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
                return Some(format!(
                    "{way} stream {index}: the sender's intervals do not add up to its totals"
                ));
            }
            // An older peer tells the sum alone.
            let errors = send.counts.local_errors;
            if !errors.is_empty() && errors.total() != send.counts.refused_locally {
                return Some(format!(
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
                return Some(format!(
                    "{way} stream {index}: {sent} octets sent are not {received} octets received, warm-up included"
                ));
            }
        }
        if let Some(rr) = &stream.rr
            && added(rr.intervals.iter().map(|row| row.transactions)) != rr.transactions
        {
            return Some(format!("stream {index}: the intervals' transactions do not add up"));
        }
    }
    None
}
