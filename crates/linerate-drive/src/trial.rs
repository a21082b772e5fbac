//! Runs the trials of a sweep or a search: each is a test of its own, with its own record.

use std::time::Duration;

use linerate_ask::trial::interval;
use linerate_experiment::trial::{Outcome, Trial};
use linerate_model::plan::{Direction, End, Traffic, Way};
use linerate_model::record::{
    Doubt, DoubtKind, ErrorKind, ErrorRecord, ReceiverFigures, RunRecord, SenderFigures, Status,
    TestEnd,
};
use linerate_model::units::{DatagramSize, Rate};
use linerate_runner::client::Request;
use linerate_session::observer::Observer;

use crate::Env;

/// A sender this close to the asked rate met it, as in the verdict.
const RATE_MET: f64 = 0.995;
/// A data thread this busy, in percent, was not kept from its core by others.
const THREAD_FULL_PERCENT: f64 = 90.0;
/// A receiver that read its last datagram this much later than it came fell behind, seconds.
const FELL_BEHIND_S: f64 = 0.1;
/// A server may need this long to end the test before …
const BUSY_LIMIT: Duration = Duration::from_secs(5);
/// … and is asked this often.
const BUSY_EVERY: Duration = Duration::from_millis(100);

/// What a trial has other than the request says, where an experiment varies more than the rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Variation {
    /// Payload of each datagram.
    pub size: Option<DatagramSize>,
    /// Streams.
    pub streams: Option<u16>,
    /// Socket buffers at both ends, bytes.
    pub window: Option<u32>,
}

/// The request of one trial: that of the experiment with the trial's own way, rate and time.
pub fn request(base: &Request, trial: &Trial, variation: Variation) -> Request {
    // The names are those of the experiment: its trials differ by what was tried.
    let mut request = Request { label: None, title: None, ..base.clone() };
    let plan = &mut request.plan;
    plan.direction = match trial.way {
        Way::Forward => Direction::Forward,
        Way::Reverse => Direction::Reverse,
    };
    plan.end = End::Time(trial.time);
    plan.interval = interval(trial.time);
    if let Traffic::Udp(udp) = &mut plan.traffic {
        udp.rate = trial.rate.map(Rate::Bits);
        if let Some(size) = variation.size {
            udp.size = size;
            request.size_from_mtu = false;
        }
    }
    plan.streams = variation.streams.unwrap_or(plan.streams);
    plan.window = variation.window.or(plan.window);
    request
}

/// Runs one trial to its end.
///
/// # Errors
/// When it did not come to its end: no server, a server that was lost or stopped, or `interrupted`.
pub fn run(
    env: &mut Env<'_>,
    base: &Request,
    trial: &Trial,
    variation: Variation,
) -> Result<(RunRecord, Outcome), Box<ErrorRecord>> {
    let (record, took) = whole(env, &request(base, trial, variation))?;
    let outcome = outcome(&record, trial, took.as_secs_f64());
    Ok((record, outcome))
}

/// Runs one test to its end, waiting for a server that is busy; with its wall time. A record that contradicts itself
/// is reported, and repeated by whoever decides.
///
/// # Errors
/// As [`run`].
pub fn whole(
    env: &mut Env<'_>,
    request: &Request,
) -> Result<(RunRecord, Duration), Box<ErrorRecord>> {
    let begun = env.clock.elapsed();
    loop {
        let observer: &mut dyn Observer = env.watcher;
        let record = env.executor.run(request, observer, &env.stop);
        let took = env.clock.elapsed().saturating_sub(begun);
        match (&record.error, record.status) {
            // The server may still be at the end of the trial before.
            (Some(error), _) if error.kind == ErrorKind::Busy && took < BUSY_LIMIT => {
                env.clock.sleep(BUSY_EVERY);
            }
            (_, Status::Complete | Status::Invalid) => return Ok((record, took)),
            (Some(error), _) => return Err(Box::new(error.clone())),
            (None, _) => {
                let error =
                    ErrorRecord::new(ErrorKind::Unable, "a trial failed", "it gave no reason", &[]);
                return Err(Box::new(error));
            }
        }
    }
}

/// What a record says of its trial. `took_s` is its wall time in seconds.
pub fn outcome(record: &RunRecord, trial: &Trial, took_s: f64) -> Outcome {
    let blank_sender = SenderFigures::default();
    let blank_receiver = ReceiverFigures::default();
    let sender = record.totals.sender.as_ref().unwrap_or(&blank_sender);
    let receiver = record.totals.receiver.as_ref().unwrap_or(&blank_receiver);
    let plan = record.agreed.as_ref().unwrap_or(&record.asked);
    let sent = sender.datagrams.unwrap_or(0) as f64;
    let overdue = receiver.overdue.unwrap_or(0);
    let delivered = receiver.datagrams.unwrap_or(0).saturating_sub(overdue) as f64;
    let datagram_bits = f64::from(plan.datagram_bytes.unwrap_or(0)) * 8.0;
    let called_for = match trial.rate {
        Some(rate) if datagram_bits > 0.0 => {
            let due = rate.bits_per_second() as f64 * sender.seconds / datagram_bits;
            due.floor().max(sent)
        }
        _ => sent,
    };
    let read = receiver.read_seconds.filter(|read| *read > receiver.seconds + FELL_BEHIND_S);
    let span = read.unwrap_or(receiver.seconds);
    let interval_figures = record.intervals.iter().filter_map(|i| i.figures.receiver.as_ref());
    Outcome {
        run: Some(record.id.clone()),
        sent_bps: sender.bits_per_second,
        received_bps: if span > 0.0 { receiver.bytes as f64 * 8.0 / span } else { 0.0 },
        // With nothing called for nothing could be delivered, which is a failure to measure.
        undelivered_ratio: if called_for > 0.0 {
            ((called_for - delivered) / called_for).clamp(0.0, 1.0)
        } else {
            1.0
        },
        lost_ratio: receiver.lost_ratio.unwrap_or(0.0),
        lost_path: receiver.lost_path,
        dropped_receiver: receiver.dropped_receiver,
        unattributed: receiver.unattributed,
        jitter_s: receiver.jitter_s,
        delay_p99_s: receiver.delay_variation_s.as_ref().map(|d| d.p99),
        cpu_sender_percent: sender.cpu.as_ref().map(|cpu| cpu.thread_percent),
        cpu_receiver_percent: receiver.cpu.as_ref().map(|cpu| cpu.thread_percent),
        limit: record.verdict.as_ref().map(|v| v.limit),
        advice: record.verdict.as_ref().map_or_else(Vec::new, |v| v.advice.clone()),
        intervals_bps: interval_figures.map(|r| r.bits_per_second).collect(),
        took_s,
        invalid: fault(record, trial, sender),
        void: record.status == Status::Invalid || voids(record).is_some(),
    }
}

/// The doubt for which a run must be repeated: it was not the test that was asked for from its begin to its end.
pub fn voids(record: &RunRecord) -> Option<&Doubt> {
    use DoubtKind::{LinkLost, RateChanged, Stopped};
    record.doubts.iter().find(|doubt| matches!(doubt.kind, Stopped | LinkLost | RateChanged))
}

/// Why the trial says nothing of the path: its own counts contradict each other, it was no whole test, or other
/// work on the sender's host kept it from sending what was asked.
fn fault(record: &RunRecord, trial: &Trial, sender: &SenderFigures) -> Option<String> {
    if record.status == Status::Invalid {
        let why = record.error.as_ref().map_or("no reason given", |e| &e.why);
        return Some(format!("the counts contradict each other: {why}"));
    }
    if let Some(doubt) = voids(record) {
        return Some(doubt.text.clone());
    }
    let asked = trial.rate?.bits_per_second() as f64;
    let thread = sender.cpu.as_ref().map_or(0.0, |cpu| cpu.thread_percent);
    if sender.bits_per_second >= asked * RATE_MET
        || thread >= THREAD_FULL_PERCENT
        || sender.refused_locally.unwrap_or(0) > 0
    {
        return None;
    }
    let end = match trial.way {
        Way::Forward => TestEnd::Client,
        Way::Reverse => TestEnd::Server,
    };
    let busy = record
        .doubts
        .iter()
        .find(|doubt| doubt.kind == DoubtKind::HostBusy && doubt.host == Some(end))?;
    Some(format!("the sender did not send what was asked, and {}", busy.text))
}

#[cfg(test)]
mod tests {
    use linerate_model::record::CpuFigures;
    use linerate_model::units::{BitRate, Nanos};
    use linerate_testkit::records;

    use super::*;

    /// A second of 10,000 datagrams a second of 1,000 bytes: 80 Mbit/s asked.
    fn record(sent: u64, received: u64) -> RunRecord {
        let mut record = records::udp_receiver_drops();
        record.doubts.clear();
        record.status = Status::Complete;
        let plan = record.agreed.as_mut().unwrap();
        plan.datagram_bytes = Some(1_000);
        record.totals.sender = Some(SenderFigures {
            bytes: sent * 1_000,
            datagrams: Some(sent),
            seconds: 1.0,
            bits_per_second: sent as f64 * 8_000.0,
            refused_locally: Some(0),
            ..SenderFigures::default()
        });
        record.totals.receiver = Some(ReceiverFigures {
            bytes: received * 1_000,
            datagrams: Some(received),
            seconds: 1.0,
            bits_per_second: received as f64 * 8_000.0,
            lost: Some(sent - received),
            lost_ratio: Some((sent - received) as f64 / sent as f64),
            ..ReceiverFigures::default()
        });
        record
    }

    fn trial(mbit: Option<u64>) -> Trial {
        let rate = mbit.and_then(|m| BitRate::new(m * 1_000_000));
        Trial { way: Way::Forward, rate, time: Nanos::from_secs(1) }
    }

    fn missing(record: &RunRecord, mbit: Option<u64>) -> f64 {
        outcome(record, &trial(mbit), 1.3).undelivered_ratio
    }

    #[test]
    fn what_was_not_sent_was_not_delivered() {
        assert_eq!(missing(&record(10_000, 10_000), Some(80)), 0.0);
        assert_eq!(missing(&record(10_000, 9_000), Some(80)), 0.1);
        // Half of it was never sent, a fifth of the rest was lost.
        assert!((missing(&record(5_000, 4_000), Some(80)) - 0.6).abs() < 1e-9);
        // Without an asked rate, of what was sent.
        assert_eq!(missing(&record(5_000, 4_000), None), 0.2);
        // One datagram more than the rate calls for is no negative loss.
        assert_eq!(missing(&record(10_001, 10_001), Some(80)), 0.0);
        let mut nothing = record(1, 0);
        nothing.totals = Default::default();
        assert_eq!(missing(&nothing, None), 1.0);
    }

    #[test]
    fn what_came_when_all_was_over_was_not_delivered() {
        let mut late = record(10_000, 10_000);
        let receiver = late.totals.receiver.as_mut().unwrap();
        receiver.overdue = Some(2_500);
        receiver.seconds = 1.6;
        receiver.bits_per_second = 50e6;
        let found = outcome(&late, &trial(Some(80)), 1.9);
        assert_eq!(
            (found.undelivered_ratio, found.received_bps, found.lost_ratio),
            (0.25, 50e6, 0.0)
        );
        // It came in time and was read late: the rate is that of reading.
        let receiver = late.totals.receiver.as_mut().unwrap();
        (receiver.seconds, receiver.read_seconds) = (1.0, Some(2.0));
        assert_eq!(outcome(&late, &trial(Some(80)), 1.9).received_bps, 40e6);
        // A moment late is no slow receiver.
        late.totals.receiver.as_mut().unwrap().read_seconds = Some(1.05);
        assert_eq!(outcome(&late, &trial(Some(80)), 1.9).received_bps, 80e6);
    }

    #[test]
    fn a_generator_held_back_by_others_says_nothing_of_the_path() {
        let busy = |end| {
            let mut found = record(5_000, 5_000);
            let text = "some task waited for a core";
            found.doubts.push(Doubt { host: Some(end), ..Doubt::new(DoubtKind::HostBusy, text) });
            found
        };
        let fault = |record: &RunRecord, mbit| outcome(record, &trial(mbit), 1.0).invalid;
        let here = busy(TestEnd::Client);
        assert!(fault(&here, Some(80)).is_some());
        assert_eq!(fault(&here, Some(40)), None, "it sent what was asked");
        assert_eq!(fault(&here, None), None, "nothing was asked");
        assert_eq!(fault(&busy(TestEnd::Server), Some(80)), None);
        assert_eq!(fault(&record(5_000, 5_000), Some(80)), None, "nobody held it back");
        let mut full = here;
        full.totals.sender.as_mut().unwrap().cpu =
            Some(CpuFigures { thread_percent: 99.0, ..CpuFigures::default() });
        assert_eq!(fault(&full, Some(80)), None, "its own work filled the core");
        // Whatever was sent: the link was down for a part of it.
        let mut cut = record(10_000, 9_000);
        cut.doubts.push(Doubt::new(DoubtKind::LinkLost, "no carrier for 0.4 s"));
        assert_eq!(cut.status, Status::Complete);
        assert_eq!(fault(&cut, Some(80)).as_deref(), Some("no carrier for 0.4 s"));
        assert!(fault(&cut, None).is_some() && outcome(&cut, &trial(None), 1.0).void);
        for kind in [DoubtKind::Stopped, DoubtKind::RateChanged] {
            cut.doubts[0].kind = kind;
            assert!(fault(&cut, Some(80)).is_some());
        }
        cut.doubts[0].kind = DoubtKind::TimerLate;
        assert_eq!(fault(&cut, Some(80)), None);
        assert!(!outcome(&cut, &trial(Some(80)), 1.0).void);
    }
}
