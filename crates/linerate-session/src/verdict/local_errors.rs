//! Limits that the sending host set itself: datagrams that it dropped on the way to its interface, reported by
//! errno or only by the device's counters.

use std::collections::BTreeMap;

use linerate_model::local_errors::{Errno, LocalSendErrors};
use linerate_model::plan::EngineChoice;
use linerate_model::record::{Limit, ReceiverFigures, RrFigures, SenderFigures, Verdict};

use super::advice::Buffer;
use super::{Case, rate_below};

/// A share below this is not what limits a test.
const SHARE_THAT_COUNTS: f64 = 0.001;

pub(super) fn table(by_name: &BTreeMap<String, u64>) -> LocalSendErrors {
    by_name.iter().map(|(name, datagrams)| (name.as_str(), *datagrams)).collect()
}

/// The errno, other than those of a full queue, with which most were dropped.
pub(crate) fn main_failure(errors: &LocalSendErrors) -> Option<Errno> {
    let failed = errors.each().filter(|(errno, _)| !errno.is_no_room() && *errno != Errno::Untold);
    failed.max_by_key(|(_, datagrams)| *datagrams).map(|(errno, _)| errno)
}

/// Those that were dropped for another reason than a full queue.
pub(super) fn failed(errors: &LocalSendErrors) -> u64 {
    let failed = errors.each().filter(|(errno, _)| !errno.is_no_room());
    failed.fold(0, |sum: u64, (_, datagrams)| sum.saturating_add(datagrams))
}

/// "2511 EPERM: a packet filter of the host itself dropped them". Beside others it is said whose cause that is.
pub(crate) fn in_words(errors: &LocalSendErrors, errno: Errno) -> String {
    let is_alone = errors.each().all(|(other, _)| other == errno || other == Errno::Untold);
    let whose = if is_alone { String::new() } else { format!("; {}", errno.name()) };
    format!("{errors}{whose}: {}", errno.cause())
}

impl Case<'_> {
    /// The host dropped datagrams for another reason than a full queue, and more than were lost.
    pub(super) fn local_failures(
        &mut self,
        sender: &SenderFigures,
        receiver: Option<&ReceiverFigures>,
    ) -> Option<Verdict> {
        let errors = table(&sender.local_send_errors);
        self.note_local_errors("", &errors);
        let attempted = sender.attempted.filter(|n| *n > 0)?;
        let errno = main_failure(&errors)?;
        let failed = failed(&errors);
        if failed < receiver.and_then(|r| r.lost).unwrap_or(0)
            || (failed as f64) < attempted as f64 * SHARE_THAT_COUNTS
        {
            return None;
        }
        let (name, dropped) = (self.sender_name, errors.total());
        let because = vec![format!(
            "the {name}'s own host dropped {dropped} of {attempted} datagrams ({}); none of them was lost on the path",
            in_words(&errors, errno)
        )];
        let advice = errno.look_at().map(|look_at| format!("on the {name}, {look_at}"));
        Some(self.verdict(Limit::SenderHost, because, advice.into_iter().collect()))
    }

    /// The host had no room for datagrams.
    pub(super) fn local_refusals(&mut self, sender: &SenderFigures) -> Option<Verdict> {
        let name = self.sender_name;
        let attempted = sender.attempted.filter(|n| *n > 0)?;
        let refused = sender.refused_locally?;
        if (refused as f64) < attempted as f64 * SHARE_THAT_COUNTS {
            return None;
        }
        let errors = table(&sender.local_send_errors);
        let by_errno = if errors.is_empty() { String::new() } else { format!(" ({errors})") };
        let because = vec![format!(
            "the {name} refused {refused} of {attempted} datagrams{by_errno}: its own queue or interface is the bottleneck, and nothing of this was lost on the path"
        )];
        let mut advice = vec![format!(
            "--rate {}: near what the interface takes",
            rate_below(sender.bits_per_second)
        )];
        advice.extend(self.larger_window(name, Buffer::Send));
        Some(self.verdict(Limit::SenderHost, because, advice))
    }

    /// More than half of the `path` losses were drops of the sender's own queueing discipline or
    /// interface, which say nothing to the socket.
    pub(super) fn own_device(
        &mut self,
        sender: Option<&SenderFigures>,
        receiver: &ReceiverFigures,
        path: u64,
    ) -> Option<Verdict> {
        let sender = sender?;
        let host = sender.host.as_ref()?;
        let (queue, device) = (host.qdisc_dropped.unwrap_or(0), host.nic_tx_dropped.unwrap_or(0));
        // A train that is dropped whole counts as one packet.
        let plan = self.record.agreed.as_ref().unwrap_or(&self.record.asked);
        let trains = plan.engine == Some(EngineChoice::Gso.into());
        let train = plan.train_datagrams.filter(|_| trains).map_or(1, u64::from);
        // What was reported to the socket is in the same counts, and was never sent; what a filter or the
        // routing table dropped never came so far.
        let errors = table(&sender.local_send_errors);
        let refused = sender.refused_locally.unwrap_or(0);
        let before_it: u64 = errors
            .each()
            .filter(|(errno, _)| !errno.is_no_room() && *errno != Errno::Enetdown)
            .filter(|(errno, _)| !matches!(errno, Errno::Other | Errno::Untold))
            .fold(0, |sum, (_, datagrams)| sum.saturating_add(datagrams));
        let dropped = queue.saturating_add(device).saturating_mul(train);
        let silent = dropped.saturating_sub(refused.saturating_sub(before_it));
        if silent.saturating_mul(2) <= path {
            return None;
        }
        let (own, far) = (self.sender_name, self.receiver_name);
        let places = [("queueing discipline", queue), ("interface", device)];
        let places = places.iter().filter(|(_, dropped)| *dropped > 0);
        let places: Vec<_> = places.map(|(what, n)| format!("{what} dropped {n}")).collect();
        let lost = receiver.lost.unwrap_or(path);
        let because = vec![format!(
            "{path} of {lost} lost datagrams never reached the {far}'s socket, and the {own}'s own {} packets (the host's count)",
            places.join(" and its ")
        )];
        let look_at = match (queue, device) {
            (0, _) => format!(
                "ip -s link show on the {own}: an interface without carrier drops what is sent"
            ),
            _ => format!("tc -s qdisc show on the {own}: what shapes or limits its interface"),
        };
        let rate = rate_below(receiver.bits_per_second);
        let advice = vec![format!("--rate {rate}: near what arrived"), look_at];
        Some(self.verdict(Limit::SenderHost, because, advice))
    }

    /// Requests or answers that the hosts of the two ends dropped themselves.
    pub(super) fn rr_local_failures(&mut self, rr: &RrFigures) -> Option<Verdict> {
        let client = table(&rr.local_send_errors);
        let server = table(&rr.server_local_send_errors);
        self.note_local_errors("client_", &client);
        self.note_local_errors("server_", &server);
        let asked = rr.transactions.saturating_add(rr.unanswered.unwrap_or(0));
        let ends = [("client", "requests", client), ("server", "answers", server)];
        // A queue that was full at one end hides no filter at the other.
        let told = ends.into_iter().filter(|(.., errors)| main_failure(errors).is_some());
        let (name, what, errors) = told.max_by_key(|(.., errors)| failed(errors))?;
        let errno = main_failure(&errors)?;
        if asked == 0 || (failed(&errors) as f64) < asked as f64 * SHARE_THAT_COUNTS {
            return None;
        }
        let because = vec![format!(
            "the {name}'s own host dropped {} {what} ({}); {} of {asked} were answered",
            errors.total(),
            in_words(&errors, errno),
            rr.transactions
        )];
        let advice = errno.look_at().map(|look_at| format!("on the {name}, {look_at}"));
        Some(self.verdict(Limit::SenderHost, because, advice.into_iter().collect()))
    }

    fn note_local_errors(&mut self, end: &str, errors: &LocalSendErrors) {
        for (errno, datagrams) in errors.each() {
            let name = format!("{end}local_send_errors_{}_datagrams", errno.name());
            self.note(&name, Some(datagrams as f64));
        }
    }
}
