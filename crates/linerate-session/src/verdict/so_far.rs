//! What limits a test that still runs, from the rows that came so far.

use linerate_model::plan::PlanDirection;
use linerate_model::record::{
    CpuFigures, Figures, Interval, Pair, ReceiverFigures, RrFigures, RunEvent, RunRecord,
    SenderFigures, TcpFigures, Verdict,
};

/// Judges some rows of a test as if it had consisted of them, at this rate of what this end sends (`None` is as fast as it goes). A host's
/// own counters are in no row, so the verdict at the end knows more.
pub fn so_far(start: &RunRecord, rows: &[Interval], rate_bps: Option<u64>) -> Option<Verdict> {
    let mut record = RunRecord { totals: totals(rows)?, ..start.clone() };
    let planned = record.agreed.as_ref().unwrap_or(&record.asked).rate_bps;
    record.asked.rate_bps = planned;
    // Whoever watches changes what this end sends, and not the other way of a test both ways.
    let chosen = rate_bps.filter(|_| rate_bps != planned);
    record.events = chosen.map(|bps| RunEvent::rate(0.0, bps)).into_iter().collect();
    let agreed = record.agreed.as_ref().unwrap_or(&record.asked);
    let discard = agreed.direction == PlanDirection::Discard;
    super::judge(&record, discard)
}

/// The rows as one; `None` of none.
fn totals(rows: &[Interval]) -> Option<Figures> {
    let figures: Vec<&Figures> = rows.iter().map(|row| &row.figures).collect();
    figures.first()?;
    let way = |pick: fn(&Figures) -> Option<&Pair>| {
        let pairs: Vec<&Pair> = figures.iter().filter_map(|f| pick(f)).collect();
        (!pairs.is_empty()).then(|| Pair {
            sender: sender(pairs.iter().filter_map(|pair| pair.sender.as_ref())),
            receiver: receiver(pairs.iter().filter_map(|pair| pair.receiver.as_ref())),
        })
    };
    Some(Figures {
        sender: sender(figures.iter().filter_map(|f| f.sender.as_ref())),
        receiver: receiver(figures.iter().filter_map(|f| f.receiver.as_ref())),
        forward: way(|f| f.forward.as_ref()),
        reverse: way(|f| f.reverse.as_ref()),
        rr: requests(figures.iter().filter_map(|f| f.rr.as_ref())),
    })
}

fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

fn add(sum: &mut Option<u64>, more: Option<u64>) {
    *sum = sum.zip(more).map(|(sum, more)| sum.saturating_add(more));
}

fn sender<'a>(mut rows: impl Iterator<Item = &'a SenderFigures> + Clone) -> Option<SenderFigures> {
    let cpu = cpu(rows.clone().map(|row| row.cpu.as_ref()));
    let tcp = tcp(rows.clone().filter_map(|row| row.tcp.as_ref()));
    let mut all = rows.next()?.clone();
    for row in rows {
        all.bytes = all.bytes.saturating_add(row.bytes);
        all.seconds += row.seconds;
        add(&mut all.datagrams, row.datagrams);
        add(&mut all.attempted, row.attempted);
        add(&mut all.refused_locally, row.refused_locally);
        add(&mut all.late_wakeups, row.late_wakeups);
        add(&mut all.given_up, row.given_up);
        for (errno, datagrams) in &row.local_send_errors {
            let sum = all.local_send_errors.entry(errno.clone()).or_default();
            *sum = sum.saturating_add(*datagrams);
        }
    }
    all.bits_per_second = rate(all.bytes, all.seconds);
    (all.cpu, all.tcp) = (cpu, tcp);
    Some(all)
}

fn receiver<'a>(
    mut rows: impl Iterator<Item = &'a ReceiverFigures> + Clone,
) -> Option<ReceiverFigures> {
    let cpu = cpu(rows.clone().map(|row| row.cpu.as_ref()));
    let mut all = rows.next()?.clone();
    for row in rows {
        all.bytes = all.bytes.saturating_add(row.bytes);
        all.seconds += row.seconds;
        add(&mut all.datagrams, row.datagrams);
        add(&mut all.lost, row.lost);
        add(&mut all.lost_path, row.lost_path);
        add(&mut all.dropped_receiver, row.dropped_receiver);
        // Absent where there are none.
        let more = row.unattributed.unwrap_or(0);
        let unattributed = all.unattributed.unwrap_or(0).saturating_add(more);
        all.unattributed = Some(unattributed).filter(|n| *n > 0);
    }
    all.bits_per_second = rate(all.bytes, all.seconds);
    let sent = all.lost.zip(all.datagrams).map(|(lost, came)| lost.saturating_add(came));
    all.lost_ratio = all
        .lost
        .zip(sent)
        .filter(|(_, sent)| *sent > 0)
        .map(|(lost, sent)| lost as f64 / sent as f64);
    all.cpu = cpu;
    Some(all)
}

fn requests<'a>(mut rows: impl Iterator<Item = &'a RrFigures> + Clone) -> Option<RrFigures> {
    let own = cpu(rows.clone().map(|row| row.cpu.as_ref()));
    let far = cpu(rows.clone().map(|row| row.server_cpu.as_ref()));
    // A row without an answer says nothing of how long one takes.
    let latency = rows.clone().filter_map(|row| row.latency_s.as_ref()).last().cloned();
    let mut all = rows.next()?.clone();
    for row in rows {
        all.transactions = all.transactions.saturating_add(row.transactions);
        all.seconds += row.seconds;
        add(&mut all.unanswered, row.unanswered);
        add(&mut all.late_sends, row.late_sends);
    }
    if all.seconds > 0.0 {
        all.transactions_per_second = all.transactions as f64 / all.seconds;
    }
    (all.cpu, all.server_cpu, all.latency_s) = (own, far, latency);
    Some(all)
}

/// Shares are the mean of the rows', which are equally long; a share that one of them lacks is absent.
fn cpu<'a>(rows: impl Iterator<Item = Option<&'a CpuFigures>>) -> Option<CpuFigures> {
    let rows: Option<Vec<&CpuFigures>> = rows.collect();
    let rows = rows?;
    let mean = |share: fn(&CpuFigures) -> Option<f64>| {
        let shares: Option<Vec<f64>> = rows.iter().map(|row| share(row)).collect();
        shares.map(|shares| shares.iter().sum::<f64>() / shares.len().max(1) as f64)
    };
    let last = (*rows.last()?).clone();
    Some(CpuFigures {
        thread_percent: mean(|row| Some(row.thread_percent))?,
        threads_percent: mean(|row| Some(row.threads_percent))?,
        ready_percent: mean(|row| row.ready_percent),
        interrupted_percent: mean(|row| row.interrupted_percent),
        core_percent: mean(|row| row.core_percent),
        user_percent: mean(|row| row.user_percent),
        system_percent: mean(|row| row.system_percent),
        softirq_percent: mean(|row| row.softirq_percent),
        steal_percent: mean(|row| row.steal_percent),
        ..last
    })
}

/// Counters add up, shares are the mean, the rest is as at the end.
fn tcp<'a>(rows: impl Iterator<Item = &'a TcpFigures>) -> Option<TcpFigures> {
    let rows: Vec<&TcpFigures> = rows.collect();
    let sum = |count: fn(&TcpFigures) -> Option<u64>| {
        rows.iter().try_fold(0, |sum: u64, row| Some(sum.saturating_add(count(row)?)))
    };
    let mean = |share: fn(&TcpFigures) -> Option<f64>| {
        let all: Option<f64> = rows.iter().map(|row| share(row)).sum();
        all.map(|all| all / rows.len().max(1) as f64)
    };
    let last = (*rows.last()?).clone();
    Some(TcpFigures {
        bytes_acked: sum(|row| row.bytes_acked),
        retransmits: sum(|row| row.retransmits),
        busy_ratio: mean(|row| row.busy_ratio),
        rwnd_limited_ratio: mean(|row| row.rwnd_limited_ratio),
        sndbuf_limited_ratio: mean(|row| row.sndbuf_limited_ratio),
        ..last
    })
}
