//! What limited requests and answers.

use std::collections::BTreeMap;

use linerate_model::plan::{Dialect, RrPlan, Transport};
use linerate_model::record::{HostFigures, Limit, RrFigures, Verdict};
use linerate_model::word::Word;

use super::Case;
use super::cpu::{End, Lack};
use super::local_errors::{failed, table};

/// Both ends of requests and answers together stood ready and waited for a core this share of the time,
/// in percent, where that is what limits them.
const KEPT_WAITING_PERCENT: f64 = 25.0;
/// Over UDP a request without an answer holds its place in flight so long, in seconds (docs/rr.md).
const HELD_S: f64 = 1.0;

impl Case<'_> {
    pub(super) fn rr(&mut self, rr: &RrFigures) -> Verdict {
        self.note("transactions_per_second", Some(rr.transactions_per_second));
        self.note("latency_p50_s", rr.latency_s.as_ref().map(|l| l.p50));
        let (asks, answers) = (Limit::SenderCpu, Limit::ReceiverCpu);
        let (near, far) = (rr.host.as_ref(), rr.server_host.as_ref());
        let client = End::of("client", asks, rr.cpu.as_ref(), near, rr.seconds);
        let server = End::of("server", answers, rr.server_cpu.as_ref(), far, rr.seconds);
        self.note_cpu("client", &client);
        self.note_cpu("server", &server);
        self.note("client_throttled_s", near.and_then(|host| host.throttled_s));
        self.note("server_throttled_s", far.and_then(|host| host.throttled_s));
        if let Some(verdict) = self.rr_local_failures(rr) {
            return verdict;
        }
        let shown = format!("{:.0} transactions/s", rr.transactions_per_second);
        // What no server could have answered by the end is no shortfall.
        let least = rr.latency_s.as_ref().and_then(|l| l.min).unwrap_or(0.0);
        if let Some(asked) = self.record.asked.rate_tps.map(|asked| asked as f64)
            && let on_the_way = (asked * least).min(rr.unfinished.unwrap_or(0) as f64)
            && rr.transactions as f64 + on_the_way >= asked * rr.seconds * 0.99
        {
            let because = vec![format!("{shown}")];
            return self.verdict(
                Limit::RequestedRate,
                because,
                vec!["leave out --rate: as fast as the answers come".to_owned()],
            );
        }
        // One waits while the other works, so what either lacked is added to every round trip.
        let ends = [&client, &server];
        let worst = if server.wanted() > client.wanted() { &server } else { &client };
        let lacks = ends.into_iter().find_map(|end| match end.lack() {
            Some(lack @ Lack::Throttled(_)) => Some((end, lack)),
            _ => None,
        });
        let lacks = lacks.or_else(|| Some((worst, worst.lack()?)));
        let taken_from = if server.taken() > client.taken() { &server } else { &client };
        let lacks = lacks.or_else(|| {
            let kept = client.taken() + server.taken() >= KEPT_WAITING_PERCENT;
            kept.then(|| (taken_from, taken_from.taker()))
        });
        if let Some((end, lack)) = lacks {
            let advice = [self.more_streams()];
            return self.lacked_cpu(end, lack, &shown, advice);
        }
        if let Some(verdict) = self.rr_lost(rr, &shown) {
            return verdict;
        }
        let answer = match rr.latency_s.as_ref().map(|l| l.p50) {
            Some(s) if s < 1e-3 => format!("an answer takes {:.1} µs in the median", s * 1e6),
            Some(s) => format!("an answer takes {:.1} ms in the median", s * 1e3),
            None => "no answer was timed".to_owned(),
        };
        let because = vec![format!(
            "{answer}, with {}{} in flight; {shown}",
            if self.record.asked.rate_tps.is_some() { "up to " } else { "" },
            self.in_flight()
        )];
        let advice = [self.more_outstanding(), self.more_streams()];
        self.verdict(Limit::RoundTrip, because, advice.into_iter().flatten().collect())
    }

    /// Most requests in flight, on all streams.
    fn in_flight(&self) -> u64 {
        let streams = u64::from(self.record.asked.streams);
        self.rr_plan().most_in_flight(self.is_named()).saturating_mul(streams)
    }

    /// Whether so many requests without an answer are half or more of what is missing: in an open loop of the requests that
    /// were asked for, in a closed one of the time of all places in flight.
    fn is_missing(&self, rr: &RrFigures, lost: f64) -> bool {
        if let Some(asked) = self.record.asked.rate_tps {
            return lost * 2.0 >= asked as f64 * rr.seconds - rr.transactions as f64;
        }
        // Where nothing was answered, nothing else held a place.
        let none = (rr.transactions == 0).then_some(0.0);
        let mean = rr.latency_s.as_ref().and_then(|l| l.mean).or(none);
        let Some(mean) = mean else { return false };
        let places_s = self.in_flight() as f64 * rr.seconds;
        // What was lost at the very end held its place after it.
        let stood_s = (lost * HELD_S).min(places_s - mean * rr.transactions as f64);
        places_s > 0.0 && stood_s * 2.0 >= places_s
    }

    /// Half or more of what is missing was asked and never answered.
    fn rr_lost(&mut self, rr: &RrFigures, shown: &str) -> Option<Verdict> {
        let lost = rr.unanswered.filter(|n| *n > 0 && self.is_missing(rr, *n as f64))?;
        self.note("unanswered", Some(lost as f64));
        let dropped = |host: Option<&HostFigures>, told: &BTreeMap<String, u64>| {
            let host = host?;
            // What a queue counts as dropped may have been told to the socket as well; what a filter dropped never came to it.
            let told = table(told);
            let before = failed(&told);
            let in_queue = told.total().saturating_sub(before).max(host.qdisc_dropped.unwrap_or(0));
            let queue = Some(before.saturating_add(in_queue));
            let others = [host.softnet_dropped, host.nic_rx_dropped, host.nic_tx_dropped, queue];
            let others = others.into_iter().flatten();
            Some(others.fold(host.udp_receive_buffer_errors?, u64::saturating_add))
        };
        let near = dropped(rr.host.as_ref(), &rr.local_send_errors);
        let far = dropped(rr.server_host.as_ref(), &rr.server_local_send_errors);
        let dropped = near.zip(far).map(|(near, far)| near.saturating_add(far));
        let on_path = dropped.filter(|dropped| dropped.saturating_mul(2) < lost);
        let (limit, place) = match on_path {
            Some(dropped) => (
                Limit::Path,
                format!("the two hosts dropped {dropped}, so the path lost the others"),
            ),
            None => (Limit::Unknown, "lost on the path or in a host".to_owned()),
        };
        let held = match self.record.asked.rate_tps {
            Some(_) => "",
            None => ", and each held its place in flight for a second",
        };
        let because = vec![format!("{lost} requests were never answered{held}: {place}; {shown}")];
        let advice = vec!["udp: says where datagrams are lost".to_owned()];
        Some(self.verdict(limit, because, advice))
    }

    /// What was asked for, in the words of a plan.
    pub(super) fn rr_plan(&self) -> RrPlan {
        let asked = &self.record.asked;
        let transport = match asked.transport {
            Some(Word::Known(transport)) => transport,
            _ => Transport::Tcp,
        };
        RrPlan {
            transport,
            request: asked.request_bytes.unwrap_or(1),
            response: asked.response_bytes.unwrap_or(1),
            outstanding: asked.outstanding.unwrap_or(1),
            rate: asked.rate_tps,
        }
    }

    /// Whether answers bear names. netperf's do not.
    pub(super) fn is_named(&self) -> bool {
        !matches!(self.record.asked.dialect, Word::Known(Dialect::Netperf))
    }
}
