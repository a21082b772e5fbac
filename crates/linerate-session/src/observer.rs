//! Who hears what a test measures, while it runs.

use linerate_model::record::{Interval, RunRecord};
use linerate_model::sample::HostSample;
use linerate_model::test_event::TestEvent;
use linerate_wire::netperf::{Response, Results};

use crate::assemble::{HostSamples, StreamOutcome};

/// What both ends of a test in netperf's dialect say of it.
#[derive(Debug)]
pub struct Said<'a> {
    /// What this end measured; beside it what the server's totals mean.
    pub stream: &'a StreamOutcome,
    /// Where and with what the server ran.
    pub response: &'a Response,
    /// The server's totals, if they came.
    pub results: Option<&'a Results>,
    /// This host.
    pub host: &'a HostSamples,
}

/// Given everything a test measures. Does nothing unless overridden.
pub trait Observer {
    /// Both ends have agreed and the streams exist. The record has the plan and both hosts, no
    /// figures yet.
    fn start(&mut self, _record: &RunRecord) {}
    /// An interval is over. In a live view; the record at the end may correct its losses downward,
    /// because a datagram that came late is not lost.
    fn interval(&mut self, _interval: &Interval) {}
    /// What the client's host and the server's did in the interval that is reported next, as far as each is known.
    /// Reported in linerate's own dialect only.
    fn hosts(&mut self, _client: Option<&HostSample>, _server: Option<&HostSample>) {}
    /// What users of iperf3 and iperf 2 see: each stream by itself, the warm-up too. Reported in their dialects
    /// only.
    fn event(&mut self, _event: &TestEvent) {}
    /// What users of netperf see of a test that is over. Reported in its dialect only.
    fn said(&mut self, _said: &Said<'_>) {}
    /// Something worth a line on the way: "waiting for a free slot".
    fn note(&mut self, _text: &str) {}
    /// The test is over, well or badly.
    fn end(&mut self, _record: &RunRecord) {}
}

/// Two observers are one.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn start(&mut self, record: &RunRecord) {
        self.0.start(record);
        self.1.start(record);
    }
    fn interval(&mut self, interval: &Interval) {
        self.0.interval(interval);
        self.1.interval(interval);
    }
    fn hosts(&mut self, client: Option<&HostSample>, server: Option<&HostSample>) {
        self.0.hosts(client, server);
        self.1.hosts(client, server);
    }
    fn event(&mut self, event: &TestEvent) {
        self.0.event(event);
        self.1.event(event);
    }
    fn said(&mut self, said: &Said<'_>) {
        self.0.said(said);
        self.1.said(said);
    }
    fn note(&mut self, text: &str) {
        self.0.note(text);
        self.1.note(text);
    }
    fn end(&mut self, record: &RunRecord) {
        self.0.end(record);
        self.1.end(record);
    }
}

/// Or none.
impl<A: Observer> Observer for Option<A> {
    fn start(&mut self, record: &RunRecord) {
        self.iter_mut().for_each(|observer| observer.start(record));
    }
    fn interval(&mut self, interval: &Interval) {
        self.iter_mut().for_each(|observer| observer.interval(interval));
    }
    fn hosts(&mut self, client: Option<&HostSample>, server: Option<&HostSample>) {
        self.iter_mut().for_each(|observer| observer.hosts(client, server));
    }
    fn event(&mut self, event: &TestEvent) {
        self.iter_mut().for_each(|observer| observer.event(event));
    }
    fn said(&mut self, said: &Said<'_>) {
        self.iter_mut().for_each(|observer| observer.said(said));
    }
    fn note(&mut self, text: &str) {
        self.iter_mut().for_each(|observer| observer.note(text));
    }
    fn end(&mut self, record: &RunRecord) {
        self.iter_mut().for_each(|observer| observer.end(record));
    }
}

impl Observer for () {}
