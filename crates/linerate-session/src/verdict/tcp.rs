//! What limited a byte stream.

use linerate_model::record::{Limit, Pair, TcpFigures, Verdict};
use linerate_model::units::si;

use super::chosen::Asked;
use super::cpu::{End, Lack};
use super::{Case, rate_below};

/// Share of the time in which TCP was held by a window.
const WINDOW_HELD: f64 = 0.3;
/// Share of an asked window that is on its way in each round trip when it is the limit. The kernel's clocks
/// of a held sender run only while nothing of its window is left, and miss most of a tiny one.
const WINDOW_FILLED: f64 = 0.5;

/// An asked window that stands in a queue is on its way in each round trip, and at most this often: the kernel grants up to
/// twice of it. One whose reader stops now and then seems to be there many times over.
const WINDOW_GRANTED: f64 = 2.0;
/// Its round trips vary by no more than this share of themselves.
const STEADY: f64 = 0.25;
/// Of fewer segments it would rather wait for the receiver's delayed acknowledgements.
const SEGMENTS: f64 = 10.0;

/// A receiver that waited so long for its core, in percent, is no reader that is slow by itself.
const LATE_READER: f64 = 10.0;
/// Share of the time with data to send, where the sender was not the one that was late.
const BUSY: f64 = 0.9;
/// A round trip this much longer than the least, in seconds, has a queue in it: more than a scheduler's
/// slice on a busy host.
const QUEUE_S: f64 = 0.005;
/// What is offered without congestion control, of what TCP got through: enough to see more, too little to
/// harm others on the path.
const ABOVE: f64 = 1.1;

/// Shares of the time in which the sender was held.
struct Held {
    /// By the receiver's window.
    rwnd: f64,
    /// By its own send buffer.
    sndbuf: f64,
}

impl Held {
    fn most(&self) -> f64 {
        self.rwnd.max(self.sndbuf)
    }

    fn because(&self, arrived: &str) -> String {
        format!(
            "for {:.0} % of the time the receiver's window held the sender, for {:.0} % its own send buffer; {arrived}",
            self.rwnd * 100.0,
            self.sndbuf * 100.0
        )
    }
}

/// Whether round trips are so long for a queue.
fn is_queue(tcp: &TcpFigures) -> bool {
    let waits = |base: f64| tcp.rtt_s.is_some_and(|rtt| rtt >= base * 2.0 && rtt >= base + QUEUE_S);
    tcp.min_rtt_s.is_some_and(waits)
}

/// Whether an asked window of which so many bytes are on their way stands in a queue: the path is full, and a larger one
/// would only wait for longer.
fn stands_in_queue(tcp: &TcpFigures, in_flight: f64, window: f64) -> bool {
    let steady = tcp.rtt_s.zip(tcp.rtt_variation_s).is_some_and(|(rtt, by)| by <= rtt * STEADY);
    let segments = tcp.mss_bytes.is_some_and(|mss| in_flight >= mss as f64 * SEGMENTS);
    is_queue(tcp) && steady && segments && in_flight <= window * WINDOW_GRANTED
}

impl Case<'_> {
    pub(super) fn tcp(&mut self, pair: &Pair) -> Option<Verdict> {
        let sender = pair.sender.as_ref()?;
        let receiver = pair.receiver.as_ref();
        let tx = End::sender(self.sender_name, sender);
        let rx = receiver.map(|receiver| End::receiver(self.receiver_name, receiver));
        let tcp = sender.tcp.clone().unwrap_or_default();
        self.note("sent_bps", Some(sender.bits_per_second));
        self.note("received_bps", receiver.map(|r| r.bits_per_second));
        self.note_count("retransmits_segments", tcp.retransmits);
        self.note("rwnd_limited_ratio", tcp.rwnd_limited_ratio);
        self.note("sndbuf_limited_ratio", tcp.sndbuf_limited_ratio);
        self.note("rtt_s", tcp.rtt_s);
        self.note_cpu("sender", &tx);
        if let Some(rx) = &rx {
            self.note_cpu("receiver", rx);
        }
        self.note_throttled(pair.sender.as_ref(), receiver);
        let (rate, came) = match receiver {
            Some(receiver) => (receiver.bits_per_second, "arrived"),
            None => (sender.bits_per_second, "was sent"),
        };
        let shown = si(rate, "bit/s");
        let arrived = format!("{shown} {came}");
        if self.asked == Asked::Mixed {
            return Some(self.no_one_limit(&arrived));
        }
        if self.asked.bps().is_some_and(|asked| rate >= asked * 0.98) {
            let own = vec!["leave out --rate".to_owned()];
            return Some(match receiver {
                Some(_) => self.verdict(Limit::RequestedRate, vec![arrived], own),
                None => self.sent_as_asked(&shown),
            });
        }
        let held = Held {
            rwnd: tcp.rwnd_limited_ratio.unwrap_or(0.0),
            sndbuf: tcp.sndbuf_limited_ratio.unwrap_or(0.0),
        };
        self.asked_window(&held, &tcp, rate, &arrived)
            .or_else(|| self.tcp_cpu(&tx, rx.as_ref(), &arrived))
            .or_else(|| self.grown_window(&held, rx.as_ref(), &arrived))
            .or_else(|| self.tcp_path(&tcp, (&tx, rx.as_ref()), rate, &arrived))
            .or_else(|| {
                let because = vec![format!("{arrived}, and nothing shows what held it")];
                let longer = vec!["--time 30s: a longer look".to_owned()];
                Some(self.verdict(Limit::Unknown, because, longer))
            })
    }

    /// A window that was asked for.
    fn asked_window(
        &mut self,
        held: &Held,
        tcp: &TcpFigures,
        rate: f64,
        arrived: &str,
    ) -> Option<Verdict> {
        let asked = &self.record.asked;
        let window = asked.window_bytes.map(|bytes| bytes as f64)?;
        let in_flight = tcp.rtt_s.map(|rtt| rate / 8.0 * rtt / f64::from(asked.streams.max(1)));
        let filled = in_flight.filter(|in_flight| *in_flight >= window * WINDOW_FILLED);
        if filled.is_some_and(|in_flight| stands_in_queue(tcp, in_flight, window)) {
            return None;
        }
        // A tiny window shows a little in both.
        let shows_in_both = held.most() >= WINDOW_HELD / 3.0
            && in_flight.is_some_and(|in_flight| in_flight >= window * WINDOW_FILLED / 2.0);
        if filled.is_none() && !shows_in_both && held.most() < WINDOW_HELD {
            return None;
        }
        let mut because = vec![held.because(arrived)];
        if let Some(in_flight) = filled {
            because.push(format!(
                "{in_flight:.0} bytes a round trip and stream, of a window of {window:.0}"
            ));
        }
        let advice = vec!["leave out --window: the kernel sizes the buffers itself".to_owned()];
        Some(self.verdict(Limit::TcpWindow, because, advice))
    }

    /// A window that the kernel sized.
    fn grown_window(
        &mut self,
        held: &Held,
        rx: Option<&End<'_>>,
        arrived: &str,
    ) -> Option<Verdict> {
        if self.record.asked.window_bytes.is_some() || held.most() < WINDOW_HELD {
            return None;
        }
        // A receiver whose cores others had reads late, and its window closes meanwhile.
        let late = rx.filter(|rx| held.rwnd >= WINDOW_HELD && rx.taken() >= LATE_READER);
        if let Some(rx) = late {
            return Some(self.lacked_cpu(rx, rx.taker(), arrived, []));
        }
        let (sysctl, end) = match held.rwnd >= held.sndbuf {
            true => ("tcp_rmem", self.receiver_name),
            false => ("tcp_wmem", self.sender_name),
        };
        let larger = format!(
            "sysctl -w net.ipv4.{sysctl}=\"4096 131072 67108864\" on the {end}: a larger limit of what the kernel sizes itself"
        );
        let advice = [Some(larger), self.more_streams()].into_iter().flatten().collect();
        Some(self.verdict(Limit::TcpWindow, vec![held.because(arrived)], advice))
    }

    /// The path had something to carry all the time, and shows it: a queue before it, or loss.
    fn tcp_path(
        &mut self,
        tcp: &TcpFigures,
        (tx, rx): (&End<'_>, Option<&End<'_>>),
        rate: f64,
        arrived: &str,
    ) -> Option<Verdict> {
        let queue = is_queue(tcp);
        let retransmits = tcp.retransmits.unwrap_or(0);
        let queued = queue || retransmits > 0;
        let carried = tcp.busy_ratio.is_some_and(|busy| busy > BUSY);
        let kept = [Some(tx), rx].into_iter().flatten();
        let kept = kept.filter_map(|end| Some((end, end.was_kept_waiting()?)));
        let worst = kept.max_by(|a, b| a.0.taken().total_cmp(&b.0.taken()));
        if let Some((end, lack)) = worst.filter(|_| !(queued && carried)) {
            return Some(self.lacked_cpu(end, lack, arrived, []));
        }
        // What stands in a queue already goes no faster for being sent by more.
        let more = self.more_streams().filter(|_| !queue);
        let (limit, because, look) = if retransmits > 0 {
            let window = tcp.cwnd_bytes.map_or(String::new(), |bytes| {
                format!(", the congestion window was {bytes} bytes in the mean")
            });
            let because = format!("{retransmits} segments were retransmitted{window}; {arrived}");
            let look = format!("udp --rate {}: shows the loss itself", rate_below(rate));
            (Limit::TcpCongestion, because, look)
        } else if carried {
            let because = format!(
                "the sender had data queued {:.0} % of the time, no CPU was full, nothing was lost; {arrived}",
                tcp.busy_ratio.unwrap_or(0.0) * 100.0
            );
            let look = format!(
                "udp --rate {}: whether the path carries more without congestion control",
                rate_below(rate * ABOVE)
            );
            (Limit::Path, because, look)
        } else {
            return None;
        };
        let advice = [more, Some(look)].into_iter().flatten().collect();
        Some(self.verdict(limit, vec![because], advice))
    }

    /// An end that lacked CPU. A receiver that may not run closes its window: that is no window too
    /// small.
    fn tcp_cpu(&mut self, tx: &End<'_>, rx: Option<&End<'_>>, arrived: &str) -> Option<Verdict> {
        let lacks = [Some(tx), rx].into_iter().flatten();
        let lacks: Vec<(&End<'_>, Lack)> =
            lacks.filter_map(|end| Some((end, end.lack()?))).collect();
        // Throttled is known for certain, and comes before what the threads' own figures suggest.
        let weight = |(end, lack): &(&End<'_>, Lack)| match lack {
            Lack::Throttled(seconds) => (1, *seconds),
            _ => (0, end.wanted()),
        };
        let order = |a: &(u8, f64), b: &(u8, f64)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
        // Of two that lack as much, the sender's comes first.
        let (end, lack) =
            lacks.iter().rev().max_by(|a, b| order(&weight(a), &weight(b))).copied()?;
        let own = [
            if end.limit == Limit::SenderCpu {
                self.sendfile_advice()
            } else {
                self.discard_advice()
            },
            self.more_streams(),
            self.other_core(end),
        ];
        Some(self.lacked_cpu(end, lack, arrived, own))
    }
}
