//! From what the data threads of both ends measured to the record: rates, shares, intervals, the
//! check of the accounting, the doubts.

mod coarse;
mod doubts;
mod figures;
mod identities;
mod outcome;
mod rows;
mod rr;
mod summary;
mod totals;

use linerate_model::plan::Way;
use linerate_model::record::{
    CpuFigures, CpuPlan, Figures, Interval, Pair, PlanRecord, ReceiverFigures, RunEvent, RunRecord,
    SenderFigures, Status, StreamRecord, WindowGranted,
};
use linerate_model::sample::{HostSample, RrReport, ThreadUse};
use linerate_model::word::Word;
use linerate_wire::native::message::RespondReport;

use crate::verdict;

use doubts::doubts;
pub use figures::{add_tcp, cpu, larger, receiver_figures, sender_figures, wall_clock_delay};
use figures::{added, beside_others, seconds};
use identities::broken_identity;
use outcome::WayTotals;
pub use outcome::{HostSamples, Outcome, StreamOutcome};
pub use rows::{LiveSide, live_interval};
use rows::{figures_of, interval_span, rows_span, way_intervals};
pub use rr::rr_row;
use rr::{rr_figures, rr_intervals};
use totals::{full_receiver, full_sender, totals_of};

/// Fills everything measured into `record`, checks the accounting and judges.
pub fn assemble(mut record: RunRecord, outcome: &Outcome) -> RunRecord {
    let plan = &outcome.plan;
    let forward = totals_of(outcome, Way::Forward);
    let reverse = totals_of(outcome, Way::Reverse);
    let pair = |way: Way, totals: &WayTotals| Pair {
        sender: full_sender(outcome, way, totals),
        receiver: full_receiver(outcome, way, totals),
    };
    let rrs: Vec<&RrReport> = outcome.streams.iter().filter_map(|s| s.rr.as_ref()).collect();
    let responds: Vec<&RespondReport> =
        outcome.streams.iter().filter_map(|s| s.respond.as_ref()).collect();
    let rr = rr_figures(&rrs, &responds, outcome);
    record.intervals = match &rr {
        Some(total) => rr_intervals(outcome, total),
        None => intervals(outcome, &forward, &reverse),
    };
    record.totals = figures_of(
        plan.direction,
        || pair(Way::Forward, &forward),
        || pair(Way::Reverse, &reverse),
        rr,
    );
    add_others(&mut record.totals, outcome);
    record.streams = outcome.streams.iter().map(|s| stream_record(outcome, s)).collect();
    // All streams follow within some milliseconds; the times of one that was there to the last stand for them.
    let changes = outcome.sends_of(Way::Forward).map(|send| &send.rate_changes);
    let changes = changes.max_by_key(|changes| changes.len());
    record.events = changes
        .into_iter()
        .flatten()
        .map(|change| RunEvent::rate(seconds(change.at_ns), change.rate_bps))
        .collect();
    if let Some(agreed) = &mut record.agreed {
        describe_run(agreed, outcome);
    }
    doubts(&mut record, outcome);
    if let Some(broken) = broken_identity(outcome, &forward, &reverse, record.status) {
        record.status = Status::Invalid;
        record.error = Some(broken.error());
    }
    record.verdict = verdict::judge(&record, outcome.discard);
    record.summary = Some(summary::summary(&record));
    record
}

/// Both ways side by side.
fn intervals(outcome: &Outcome, forward: &WayTotals, reverse: &WayTotals) -> Vec<Interval> {
    let rows = (
        way_intervals(outcome, Way::Forward, forward),
        way_intervals(outcome, Way::Reverse, reverse),
    );
    let count = rows.0.len().max(rows.1.len());
    let interval = outcome.plan.interval.0;
    let ways = [forward, reverse];
    let sent = |t: &&WayTotals| t.send.as_ref().map(|s| s.1);
    let received = |t: &&WayTotals| t.recv.as_ref().map(|r| r.1);
    let planned = ways.iter().filter_map(|t| sent(t).or(received(t))).max().unwrap_or(0);
    let last = ways.iter().filter_map(received).max().unwrap_or(0);
    let span = rows_span(count, interval, planned, last);
    (0..count)
        .map(|i| {
            let start = i as u64 * interval;
            let take = |rows: &[Pair]| rows.get(i).cloned().unwrap_or_default();
            Interval {
                start_s: seconds(start),
                end_s: seconds(start + interval_span(i, count, interval, span)),
                figures: figures_of(
                    outcome.plan.direction,
                    || take(&rows.0),
                    || take(&rows.1),
                    None,
                ),
            }
        })
        .collect()
}

/// What ran beside the data threads of this test, at the ends that reported their cores.
fn add_others(totals: &mut Figures, outcome: &Outcome) {
    let (mut client_ns, mut server_ns) = (0, 0);
    for stream in &outcome.streams {
        let sends = stream.send.as_ref().map_or(0, |s| s.thread.all_ns());
        let receives = stream.recv.as_ref().map_or(0, |r| r.thread.all_ns());
        let asks = stream.rr.as_ref().map_or(0, |r| r.thread.all_ns());
        let answers = stream.respond.as_ref().map_or(0, |r| r.thread.all_ns());
        let (near, far) = if stream.reverse { (receives, sends) } else { (sends, receives) };
        client_ns = added([client_ns, near, asks].into_iter());
        server_ns = added([server_ns, far, answers].into_iter());
    }
    if outcome.same_host {
        client_ns = client_ns.saturating_add(server_ns);
        server_ns = client_ns;
    }
    let client = (outcome.client.total.as_ref(), client_ns);
    let server = (outcome.server.total.as_ref(), server_ns);
    let add = |cpu: Option<&mut CpuFigures>, (host, own_ns): (Option<&HostSample>, u64)| {
        if let (Some(cpu), Some(host)) = (cpu, host) {
            beside_others(cpu, host, own_ns);
        }
    };
    let of = |sender: &mut Option<SenderFigures>,
              receiver: &mut Option<ReceiverFigures>,
              ends: [_; 2]| {
        add(sender.as_mut().and_then(|s| s.cpu.as_mut()), ends[0]);
        add(receiver.as_mut().and_then(|r| r.cpu.as_mut()), ends[1]);
    };
    let (ahead, back) = ([client, server], [server, client]);
    let only = if outcome.plan.direction.has_forward() { ahead } else { back };
    of(&mut totals.sender, &mut totals.receiver, only);
    for (pair, ends) in [(&mut totals.forward, ahead), (&mut totals.reverse, back)] {
        if let Some(pair) = pair {
            of(&mut pair.sender, &mut pair.receiver, ends);
        }
    }
    if let Some(rr) = &mut totals.rr {
        add(rr.cpu.as_mut(), client);
        add(rr.server_cpu.as_mut(), server);
    }
}

fn stream_record(outcome: &Outcome, stream: &StreamOutcome) -> StreamRecord {
    let way = if stream.reverse { Way::Reverse } else { Way::Forward };
    let alone = outcome.of_stream(stream);
    let totals = totals_of(&alone, way);
    let rr: Vec<&RrReport> = stream.rr.iter().collect();
    let respond: Vec<&RespondReport> = stream.respond.iter().collect();
    let mut figures = Figures {
        sender: full_sender(&alone, way, &totals),
        receiver: full_receiver(&alone, way, &totals),
        rr: rr_figures(&rr, &respond, &alone),
        ..Figures::default()
    };
    if let Some(rr) = &mut figures.rr {
        rr.host = None;
        rr.server_host = None;
    }
    // The host's counters are the host's, not a stream's.
    if let Some(sender) = &mut figures.sender {
        sender.host = None;
    }
    if let Some(receiver) = &mut figures.receiver {
        receiver.host = None;
    }
    StreamRecord { stream: stream.index, direction: way.into(), figures }
}

/// What ran, where the plan left it open.
fn describe_run(agreed: &mut PlanRecord, outcome: &Outcome) {
    let (sends, recvs) = (|| outcome.sends(), || outcome.recvs());
    if outcome.is_udp() {
        agreed.engine =
            sends().find_map(|s| Some(Word::of(s.engines.last()?))).or(agreed.engine.take());
        agreed.receive_engine = recvs().find(|r| !r.engine.is_empty()).map(|r| Word::of(&r.engine));
        agreed.train_datagrams = sends().map(|s| s.train).max();
    }
    if let Some(congestion) = sends().find_map(|s| s.congestion.clone()) {
        agreed.congestion = Some(congestion);
    }
    let granted = WindowGranted {
        send_bytes: sends().map(|s| s.send_buffer).filter(|b| *b > 0).min(),
        receive_bytes: recvs().map(|r| r.receive_buffer).filter(|b| *b > 0).min(),
    };
    if granted != WindowGranted::default() {
        agreed.window_granted = Some(granted);
    }
    let cores = |threads: &mut dyn Iterator<Item = ThreadUse>| {
        threads.filter_map(|thread| thread.core).collect()
    };
    let cores = CpuPlan {
        sender: cores(&mut sends().map(|s| s.thread)),
        receiver: cores(&mut recvs().map(|r| r.thread)),
    };
    if cores != CpuPlan::default() {
        agreed.cpu = Some(cores);
    }
}
