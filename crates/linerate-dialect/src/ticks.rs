//! Adds up the streams' intervals: an interval of an end is over when it is over on all its streams.

use std::collections::BTreeMap;

use linerate_model::sample::{RecvInterval, RrInterval, SendInterval};

use crate::stream::Tick;

/// Intervals that not all streams have reported yet. One for each role of one end.
#[derive(Debug)]
pub struct Ticks {
    streams: usize,
    open: BTreeMap<u64, (usize, Option<Tick>)>,
}

impl Ticks {
    /// Of so many streams.
    pub fn new(streams: usize) -> Self {
        Self { streams, open: BTreeMap::new() }
    }

    /// One stream's interval; returns the sum when it was the last stream's.
    pub fn add(&mut self, index: u64, tick: Tick) -> Option<Tick> {
        let (reported, sum) = self.open.entry(index).or_default();
        *reported += 1;
        *sum = Some(match sum.take() {
            None => tick,
            Some(sum) => add(sum, tick),
        });
        if *reported < self.streams {
            return None;
        }
        self.open.remove(&index).and_then(|(_, sum)| sum)
    }
}

/// Two streams as one. Latency quantiles cannot be added: the larger stand for both.
fn add(sum: Tick, more: Tick) -> Tick {
    match (sum, more) {
        (Tick::Send(mut a), Tick::Send(b)) => {
            a.counts.add(&b.counts);
            let SendInterval { thread, tcp, .. } = b;
            a.thread.beside(&thread);
            a.tcp = match (a.tcp, tcp) {
                (Some(a), Some(b)) => Some(linerate_session::assemble::add_tcp(a, b)),
                (a, b) => a.or(b),
            };
            Tick::Send(a)
        }
        (Tick::Recv(mut a), Tick::Recv(b)) => {
            a.counts.add(&b.counts);
            let RecvInterval { thread, reported, .. } = b;
            a.reported = a.reported.or(reported);
            a.larger_delays(&b);
            a.thread.beside(&thread);
            Tick::Recv(a)
        }
        (Tick::Rr(mut a), Tick::Rr(b)) => {
            let RrInterval { transactions, latency, thread } = b;
            a.transactions += transactions;
            a.latency = linerate_session::assemble::larger(a.latency, latency);
            a.thread.beside(&thread);
            Tick::Rr(a)
        }
        (sum, _) => sum,
    }
}
