//! What limited a test by datagrams: where the loss was, what came when it was over, what was sent.

use linerate_model::plan::{EngineChoice, PlanDirection};
use linerate_model::record::{DoubtKind, Limit, Pair, ReceiverFigures, SenderFigures, Verdict};
use linerate_model::units::si;

use super::advice::Buffer;
use super::chosen::Asked;
use super::cpu::End;
use super::{Case, rate_below};

/// Loss below this is not what limits a test.
const LOSS_THAT_COUNTS: f64 = 0.001;
/// A sender that is the limit itself is so up to this loss: a receiver that just keeps up loses a little
/// whenever its host stalls, and so does a queue in the path when a sender makes up what it was late with.
const LOSS_BESIDE_THE_SENDERS_LIMIT: f64 = 0.01;
/// A sender that others kept from this share of its rate is the limit.
const RATE_KEPT_FROM: f64 = 0.1;
/// A sender this close to the asked rate met it.
const RATE_MET: f64 = 0.995;

impl Case<'_> {
    pub(super) fn udp(&mut self, pair: &Pair, discard: bool) -> Option<Verdict> {
        let sender = pair.sender.as_ref();
        let receiver = pair.receiver.as_ref();
        self.note("sent_bps", sender.map(|s| s.bits_per_second));
        self.note("received_bps", receiver.map(|r| r.bits_per_second));
        self.note("lost_ratio", receiver.and_then(|r| r.lost_ratio));
        self.note_count("lost_path_datagrams", receiver.and_then(|r| r.lost_path));
        self.note_count("dropped_receiver_datagrams", receiver.and_then(|r| r.dropped_receiver));
        self.note_count("refused_locally_datagrams", sender.and_then(|s| s.refused_locally));
        let queue = sender.and_then(|s| s.host.as_ref());
        self.note_count("sender_qdisc_dropped_packets", queue.and_then(|h| h.qdisc_dropped));
        self.note_count("sender_nic_tx_dropped_packets", queue.and_then(|h| h.nic_tx_dropped));
        self.note_count("sender_qdisc_backlog_bytes", queue.and_then(|h| h.qdisc_backlog_bytes));
        self.note_throttled(sender, receiver);
        let tx = sender.map(|sender| End::sender(self.sender_name, sender));
        let rx = receiver.map(|receiver| End::receiver(self.receiver_name, receiver));
        for (role, end) in [("sender", &tx), ("receiver", &rx)] {
            if let Some(end) = end {
                self.note_cpu(role, end);
            }
        }
        if let Some(verdict) = sender.and_then(|s| self.local_failures(s, receiver)) {
            return Some(verdict);
        }
        let flooding = self.asked == Asked::Most
            && tx.is_some_and(|tx| tx.is_full())
            && rx.is_none_or(|rx| rx.lack().is_none());
        let held_up = sender.zip(tx.as_ref()).is_some_and(|(sender, tx)| {
            self.missing(sender) >= RATE_KEPT_FROM && self.is_late(sender, tx)
        });
        let threshold =
            if flooding || held_up { LOSS_BESIDE_THE_SENDERS_LIMIT } else { LOSS_THAT_COUNTS };
        let arrived = receiver.zip(rx.as_ref());
        if let Some(verdict) = arrived.and_then(|(r, rx)| self.udp_loss(sender, r, rx, threshold)) {
            return Some(verdict);
        }
        let (sender, tx) = sender.zip(tx)?;
        if let Some(verdict) = arrived.and_then(|(r, rx)| self.udp_overdue(sender, r, rx)) {
            return Some(verdict);
        }
        self.udp_sender(sender, receiver, &tx, rx.as_ref(), discard)
    }

    /// Nothing was lost, but much came when the test was over: a queue took what the path or the
    /// receiver did not carry.
    fn udp_overdue(
        &mut self,
        sender: &SenderFigures,
        receiver: &ReceiverFigures,
        rx: &End<'_>,
    ) -> Option<Verdict> {
        let overdue = receiver.overdue?;
        let datagrams = receiver.datagrams.filter(|n| *n > 0)?;
        self.note("overdue_datagrams", Some(overdue as f64));
        if (overdue as f64) < datagrams as f64 * LOSS_THAT_COUNTS {
            return None;
        }
        let name = self.receiver_name;
        let excess = |span: f64| (span - sender.seconds).max(0.0);
        let drained = receiver.seconds.max(receiver.read_seconds.unwrap_or(0.0));
        let rate = if drained > 0.0 { receiver.bytes as f64 * 8.0 / drained } else { 0.0 };
        let facts = format!(
            "{overdue} of {datagrams} datagrams came only after the test was over, the last {:.1} s after sending ended; it drained at {}",
            excess(drained),
            si(rate, "bit/s")
        );
        let advice = vec![format!("--rate {}: near what it drains at", rate_below(rate))];
        // Kernel time stamps say when they came; if that was in time, they waited to be read.
        if excess(receiver.seconds) * 2.0 < excess(drained) {
            let held = format!("the {name}'s socket buffer held them: {facts}");
            let Some(lack) = rx.lack().or_else(|| rx.was_kept_waiting()) else {
                let because = vec![format!("{held}, though {}", rx.thread_text())];
                return Some(self.verdict(Limit::ReceiverBuffer, because, advice));
            };
            let own =
                advice.into_iter().map(Some).chain([self.other_core(rx), self.more_streams()]);
            return Some(self.lacked_cpu(rx, lack, &held, own));
        }
        let plan = self.record.agreed.as_ref().unwrap_or(&self.record.asked);
        let late = overdue.saturating_mul(u64::from(plan.datagram_bytes.unwrap_or(0)));
        let host = sender.host.as_ref();
        let waited = host.and_then(|host| host.qdisc_backlog_bytes);
        if let Some(waited) = waited.filter(|waited| late > 0 && waited.saturating_mul(2) > late) {
            let end = self.sender_name;
            let because = vec![format!(
                "the {end}'s own queueing discipline held them, up to {waited} bytes at once: {facts}"
            )];
            let mut more = advice;
            more.push(format!("tc -s qdisc show on the {end}: which queue holds them"));
            return Some(self.verdict(Limit::SenderHost, because, more));
        }
        let mut text = format!("a queue between the two sockets held them: {facts}");
        let mut limit = Limit::Path;
        // An interface without a discipline has neither count.
        let unseen = host.is_some_and(|host| waited.is_none() && host.qdisc_dropped.is_some());
        if unseen || self.is_unread(self.sender_name, host) {
            limit = Limit::Unknown;
            text.push_str("; whether it is the sender's own, its host could not say in time");
        }
        Some(self.verdict(limit, vec![text], advice))
    }

    fn udp_loss(
        &mut self,
        sender: Option<&SenderFigures>,
        receiver: &ReceiverFigures,
        rx: &End<'_>,
        threshold: f64,
    ) -> Option<Verdict> {
        let lost = receiver.lost?;
        if receiver.lost_ratio.is_none_or(|ratio| ratio < threshold) {
            return None;
        }
        if receiver.lost_path.is_none() && receiver.dropped_receiver.is_none() {
            return Some(self.udp_loss_somewhere(lost, rx));
        }
        let dropped = receiver.dropped_receiver.unwrap_or(0);
        let path = receiver.lost_path.unwrap_or(0);
        let name = self.receiver_name;
        if dropped.saturating_add(receiver.unattributed.unwrap_or(0)) > path {
            return Some(self.udp_overflow(receiver, rx));
        }
        // The receiving host may drop before the socket: the backlog of a core, or its card.
        let host = receiver.host.as_ref();
        let nic = host.and_then(|h| h.nic_rx_dropped).unwrap_or(0);
        let backlog = host.and_then(|h| h.softnet_dropped).unwrap_or(0);
        let qdisc = sender.and_then(|s| s.host.as_ref()).and_then(|h| h.qdisc_dropped).unwrap_or(0);
        if backlog > 0 && backlog.saturating_mul(2) > path {
            let because = vec![format!(
                "its kernel dropped {backlog} packets from a core's backlog (softnet_stat) before the socket; {}",
                rx.thread_text()
            )];
            let mut advice =
                vec![format!("sysctl -w net.core.netdev_max_backlog=10000 on the {name}")];
            advice.extend(self.more_streams());
            return Some(self.verdict(Limit::ReceiverCpu, because, advice));
        }
        if let Some(verdict) = self.own_device(sender, receiver, path) {
            return Some(verdict);
        }
        let hosts = [(self.sender_name, sender.and_then(|s| s.host.as_ref())), (name, host)];
        let unread = hosts.into_iter().find(|(end, host)| self.is_unread(end, *host));
        if let Some((end, _)) = unread {
            let because = vec![format!(
                "{path} of {lost} lost datagrams never reached the {name}'s socket: they were lost on the path or dropped by the {end}'s host, whose counters could not be read in time"
            )];
            let again = format!("again, when nothing keeps the {end}'s kernel from telling them");
            return Some(self.verdict(Limit::Unknown, because, vec![again]));
        }
        let mut text = format!(
            "{path} of {lost} lost datagrams never reached the {name}'s socket, {dropped} were dropped by its buffer"
        );
        if nic > 0 {
            text.push_str(&format!("; the {name}'s interface dropped {nic} packets"));
        }
        if qdisc > 0 {
            text.push_str(&format!(
                "; the sender's queueing discipline dropped {qdisc} packets (the host's count)"
            ));
        }
        let lower = format!("--rate {}: near what arrived", rate_below(receiver.bits_per_second));
        let other_way = "--reverse: shows whether one direction alone loses".to_owned();
        let advice = [
            // Below nothing there is no rate.
            (receiver.bytes > 0).then_some(lower),
            (self.record.asked.direction == PlanDirection::Forward).then_some(other_way),
            Some("tcp: a sender that adapts".to_owned()),
        ];
        let advice = advice.into_iter().flatten().collect();
        Some(self.verdict(Limit::Path, vec![text], advice))
    }

    /// Most of the loss was at the receiver's socket.
    fn udp_overflow(&mut self, receiver: &ReceiverFigures, rx: &End<'_>) -> Verdict {
        let name = self.receiver_name;
        let dropped = receiver.dropped_receiver.unwrap_or(0);
        let unplaced = receiver.unattributed.unwrap_or(0);
        let mut places = format!(
            "{dropped} of {} lost datagrams were dropped by the {name}'s socket buffer (SO_RXQ_OVFL)",
            receiver.lost.unwrap_or(0)
        );
        if unplaced > 0 {
            places.push_str(&format!(", {unplaced} more by it or by the path"));
        }
        places.push_str(&format!(", {} on the path", receiver.lost_path.unwrap_or(0)));
        let window = self.larger_window(name, Buffer::Receive);
        if let Some(lack) = rx.lack().or_else(|| rx.was_kept_from_reading()) {
            let own = [self.other_core(rx), self.more_streams(), window];
            return self.lacked_cpu(rx, lack, &places, own);
        }
        let because = vec![format!("it overflowed though {}; {places}", rx.thread_text())];
        let advice = [window, self.other_core(rx)].into_iter().flatten().collect();
        self.verdict(Limit::ReceiverBuffer, because, advice)
    }

    /// Loss of which the receiver does not say where it was (those of other programs): only its CPU is evidence.
    fn udp_loss_somewhere(&mut self, lost: u64, rx: &End<'_>) -> Verdict {
        let name = self.receiver_name;
        let own_server =
            format!("run `linerate serve` on the {name}: it reports where each was lost");
        if let Some(lack) = rx.lack() {
            let where_to =
                format!("where the {lost} lost datagrams went, its protocol does not report");
            let lower = "--rate: below what the receiver takes".to_owned();
            return self.lacked_cpu(rx, lack, &where_to, [Some(own_server), Some(lower)]);
        }
        let because = vec![format!(
            "{lost} datagrams were lost on the path or in the {name}'s host ({}); its protocol does not report where",
            rx.thread_text()
        )];
        self.verdict(Limit::Unknown, because, vec![own_server])
    }

    fn udp_sender(
        &mut self,
        sender: &SenderFigures,
        receiver: Option<&ReceiverFigures>,
        tx: &End<'_>,
        rx: Option<&End<'_>>,
        discard: bool,
    ) -> Option<Verdict> {
        if let Some(verdict) = self.local_refusals(sender) {
            return Some(verdict);
        }
        let asked = self.asked.bps();
        let sent = sender.bits_per_second;
        let shown = si(sent, "bit/s");
        let met = self.due_bps(sender).is_some_and(|due| sent >= due * RATE_MET);
        // A run by count has no rate to miss.
        match asked {
            None if self.asked == Asked::Mixed => {
                Some(self.no_one_limit(&format!("{shown} was sent")))
            }
            Some(_) if met && receiver.is_none() && !discard => Some(self.sent_as_asked(&shown)),
            Some(_) if met => {
                let arrived = match receiver {
                    Some(r) => format!(" and {} of it arrived", si(r.bits_per_second, "bit/s")),
                    None => String::new(),
                };
                let because = vec![format!("{shown} was sent{arrived}")];
                let advice = vec!["--rate max: what this path and its hosts can carry".to_owned()];
                Some(self.verdict(Limit::RequestedRate, because, advice))
            }
            _ => {
                let of =
                    asked.map_or(String::new(), |bps| format!(" of {} asked", si(bps, "bit/s")));
                let sent = format!("{shown}{of} were sent");
                self.udp_held_back((sender, tx), (receiver, rx), asked, &sent, discard)
            }
        }
    }

    /// The sender sent less than was asked, or as much as it could.
    fn udp_held_back(
        &mut self,
        (sender, tx): (&SenderFigures, &End<'_>),
        (receiver, rx): (Option<&ReceiverFigures>, Option<&End<'_>>),
        asked: Option<f64>,
        sent: &str,
        discard: bool,
    ) -> Option<Verdict> {
        let late = self.is_late(sender, tx).then(|| tx.taker());
        if let Some(lack) = tx.lack().or(tx.was_kept_waiting()).or(late) {
            let lost = receiver.and_then(|r| r.lost_ratio).filter(|_| !discard);
            let result = format!("{sent}{}", lost_text(lost));
            let own = [self.larger_calls(asked), self.more_streams(), self.other_core(tx)];
            return Some(self.lacked_cpu(tx, lack, &result, own));
        }
        if let Some((rx, lack)) =
            rx.and_then(|rx| Some((rx, rx.lack()?))).filter(|_| asked.is_none())
        {
            let own = [self.other_core(rx), self.more_streams()];
            return Some(self.lacked_cpu(rx, lack, "the sender waited for it", own));
        }
        let ran = tx.thread_text();
        let larger = self.larger_window(self.sender_name, Buffer::Send);
        let (because, advice) = match asked {
            Some(_) => (
                format!("{sent} though {ran}; its send buffer, queue or timer held it back"),
                [larger, Some("--burst 1ms: fewer wake-ups".to_owned())],
            ),
            None => (
                format!(
                    "{sent} though {ran}; its interface or queue takes no more, and the sender waited for it"
                ),
                [larger, self.more_streams()],
            ),
        };
        let advice = advice.into_iter().flatten().collect();
        Some(self.verdict(Limit::SenderHost, vec![because], advice))
    }

    /// The rate that was asked for, as far as a schedule of whole slots allows it. In a test by count the last datagram
    /// has its slot as well, however short it is, and streams take turns, so that the last begins later than the first.
    fn due_bps(&self, sender: &SenderFigures) -> Option<f64> {
        let asked = self.asked.bps()?;
        let plan = self.record.agreed.as_ref().unwrap_or(&self.record.asked);
        let by_count = plan.bytes.or(plan.datagrams).is_some();
        let slots = sender.attempted.or(sender.datagrams).filter(|_| by_count);
        let Some((slots, size)) = slots.zip(plan.datagram_bytes) else { return Some(asked) };
        let slots = slots.saturating_add(u64::from(plan.streams.saturating_sub(1)));
        let full = slots as f64 * f64::from(size);
        let share = if full > 0.0 { sender.bytes as f64 / full } else { 1.0 };
        Some(asked * share.min(1.0))
    }

    /// The share of the asked rate that was not sent.
    fn missing(&self, sender: &SenderFigures) -> f64 {
        self.due_bps(sender).map_or(0.0, |due| 1.0 - sender.bits_per_second / due.max(1.0))
    }

    /// Whether waiting for a core explains the rate that was missed: it took half as long as is missing.
    fn is_late(&self, sender: &SenderFigures, tx: &End<'_>) -> bool {
        let enough = (self.missing(sender) / 2.0).max(LOSS_THAT_COUNTS);
        self.asked.bps().is_some() && tx.taken() / 100.0 >= enough
    }

    /// More datagrams a call, where there was one only.
    fn larger_calls(&self, asked: Option<f64>) -> Option<String> {
        let engine = self.record.agreed.as_ref()?.engine.as_ref()?;
        let gave_up = self.record.doubts.iter().any(|d| d.kind == DoubtKind::EngineFallback);
        if *engine == EngineChoice::Gso || gave_up || self.record.asked.checksum == Some(false) {
            return None;
        }
        Some(match asked {
            Some(_) => "--burst 1ms: more datagrams a call".to_owned(),
            None => "--engine gso: one call for a whole train".to_owned(),
        })
    }
}

/// " and nothing was lost".
fn lost_text(ratio: Option<f64>) -> String {
    match ratio {
        None => String::new(),
        Some(ratio) if ratio > 0.0 && ratio < 1e-4 => {
            ", less than 0.01 % of it was lost".to_owned()
        }
        Some(ratio) if ratio > 0.0 => format!(", {:.2} % of it was lost", ratio * 100.0),
        Some(_) => " and nothing was lost".to_owned(),
    }
}
