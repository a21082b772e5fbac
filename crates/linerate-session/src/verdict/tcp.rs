//! What limited a byte stream.

use linerate_model::record::{Limit, Pair, Verdict};
use linerate_model::units::si;

use super::{Case, FULL_PERCENT, busy, core_text, held_back, held_back_text};

/// Share of the time in which TCP was held by a window.
const WINDOW_HELD: f64 = 0.3;
/// Share of an asked window that is on its way in each round trip when it is the limit. The kernel's clocks
/// of a held sender run only while nothing of its window is left, and miss most of a tiny one.
const WINDOW_FILLED: f64 = 0.5;

impl Case<'_> {
    pub(super) fn tcp(&mut self, pair: &Pair) -> Option<Verdict> {
        let sender = pair.sender.as_ref()?;
        let receiver = pair.receiver.as_ref();
        let tx = sender.cpu.as_ref();
        let rx = receiver.and_then(|r| r.cpu.as_ref());
        let tcp = sender.tcp.clone().unwrap_or_default();
        self.note("sent_bps", Some(sender.bits_per_second));
        self.note("received_bps", receiver.map(|r| r.bits_per_second));
        self.note("retransmits_segments", tcp.retransmits.map(|n| n as f64));
        self.note("rwnd_limited_ratio", tcp.rwnd_limited_ratio);
        self.note("sndbuf_limited_ratio", tcp.sndbuf_limited_ratio);
        self.note("rtt_s", tcp.rtt_s);
        self.note_cpu("sender", tx);
        self.note_cpu("receiver", rx);
        self.note_held_back(pair.sender.as_ref(), receiver);
        let rate = receiver.map_or(sender.bits_per_second, |r| r.bits_per_second);
        let shown = si(rate, "bit/s");
        if let Some(asked) = self.record.asked.rate_bps
            && receiver.is_some()
            && rate >= asked as f64 * 0.98
        {
            let because = vec![format!("{shown} arrived")];
            return Some(self.verdict(
                Limit::RequestedRate,
                because,
                vec!["leave out --rate".to_owned()],
            ));
        }
        let rwnd = tcp.rwnd_limited_ratio.unwrap_or(0.0);
        let sndbuf = tcp.sndbuf_limited_ratio.unwrap_or(0.0);
        let asked = &self.record.asked;
        let window = asked.window_bytes.map(|octets| octets as f64);
        let in_flight = tcp.rtt_s.map(|rtt| rate / 8.0 * rtt / f64::from(asked.streams.max(1)));
        let is_filled = in_flight
            .zip(window)
            .is_some_and(|(in_flight, window)| in_flight >= window * WINDOW_FILLED);
        if window.is_some() && (is_filled || rwnd.max(sndbuf) >= WINDOW_HELD) {
            let mut because = vec![format!(
                "for {:.0} % of the time the receiver's window held the sender, for {:.0} % its own send buffer; {shown} arrived",
                rwnd * 100.0,
                sndbuf * 100.0
            )];
            if let (true, Some(in_flight), Some(window)) = (is_filled, in_flight, window) {
                because.push(format!(
                    "{in_flight:.0} bytes a round trip and stream, of a window of {window:.0}"
                ));
            }
            let advice = vec![
                "leave out --window: the kernel sizes the buffers itself".to_owned(),
                "--window 8Mi".to_owned(),
            ];
            return Some(self.verdict(Limit::TcpWindow, because, advice));
        }
        // A receiver that may not run closes its window: that is no window too small. Nor is a core that
        // others fill the limit of an end that may not use it.
        let tx_held = held_back(sender.host.as_ref(), sender.seconds);
        let rx_held = receiver.and_then(|r| held_back(r.host.as_ref(), r.seconds));
        let (limit, name, held) = if rx_held > tx_held {
            (Limit::ReceiverCpu, self.receiver_name, rx_held)
        } else {
            (Limit::SenderCpu, self.sender_name, tx_held)
        };
        if let Some(held) = held {
            let arrived = format!("{shown} arrived");
            let (because, advice) = held_back_text(name, held, sender.seconds, &arrived, None);
            return Some(self.verdict(limit, because, advice));
        }
        let (tx_busy, rx_busy) = (busy(tx), busy(rx));
        if tx_busy >= FULL_PERCENT && tx_busy >= rx_busy {
            let because = vec![format!("{}; {shown} arrived", core_text(tx))];
            let advice = [
                Some("--tx sendfile: sends without copying".to_owned()),
                Some(self.more_streams()),
                self.other_core(self.sender_name, tx),
            ];
            return Some(self.verdict(
                Limit::SenderCpu,
                because,
                advice.into_iter().flatten().collect(),
            ));
        }
        if rx_busy >= FULL_PERCENT {
            let because = vec![format!("{}; {shown} arrived", core_text(rx))];
            let advice = [
                self.discard_advice(),
                Some(self.more_streams()),
                self.other_core(self.receiver_name, rx),
            ];
            return Some(self.verdict(
                Limit::ReceiverCpu,
                because,
                advice.into_iter().flatten().collect(),
            ));
        }
        if rwnd.max(sndbuf) >= WINDOW_HELD {
            let because = vec![format!(
                "for {:.0} % of the time the receiver's window held the sender, for {:.0} % its own send buffer; {shown} arrived",
                rwnd * 100.0,
                sndbuf * 100.0
            )];
            let advice = vec!["--window 8Mi".to_owned(), self.more_streams()];
            return Some(self.verdict(Limit::TcpWindow, because, advice));
        }
        let retransmits = tcp.retransmits.unwrap_or(0);
        if retransmits > 0 {
            let because = vec![format!(
                "{retransmits} segments were sent again, the congestion window ended at {} bytes; {shown} arrived",
                tcp.cwnd_bytes.unwrap_or(0)
            )];
            let advice = vec![
                self.more_streams(),
                "--congestion bbr: reacts to delay, not to single losses (where the kernel has it)"
                    .to_owned(),
                "udp --rate: shows the loss itself".to_owned(),
            ];
            return Some(self.verdict(Limit::TcpCongestion, because, advice));
        }
        if tcp.busy_ratio.is_some_and(|b| b > 0.9) {
            let because = vec![format!(
                "the sender had data queued {:.0} % of the time, no CPU was full, nothing was lost; {shown} arrived",
                tcp.busy_ratio.unwrap_or(0.0) * 100.0
            )];
            return Some(self.verdict(
                Limit::Path,
                because,
                vec![
                    self.more_streams(),
                    "udp --rate max: the same path without congestion control".to_owned(),
                ],
            ));
        }
        let because = vec![format!("{shown} arrived, and nothing shows what held it")];
        Some(self.verdict(
            Limit::Unknown,
            because,
            vec!["--time 30s: a longer look".to_owned(), self.more_streams()],
        ))
    }
}
