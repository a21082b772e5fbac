//! The charts of one test: rates, cores and delays over time, and distributions.

use linerate_analysis::metric::{Flow, flows};
use linerate_model::record::{CpuFigures, Interval, PlanRecord, Quantiles, RunRecord};

use super::view::Figure;
use super::words::way_words;
use crate::draw::chart::{Axis, Chart, Kind, Series, Unit};
use crate::number;

/// All charts of a test that have something to show.
pub(super) fn of(record: &RunRecord) -> Vec<Figure> {
    let mut charts = Vec::new();
    let plan = record.agreed.as_ref().unwrap_or(&record.asked);
    let x: Vec<f64> = record.intervals.iter().map(|i| i.end_s).collect();
    let mut totals = flows(&record.totals);
    // Of a test whose end nobody told, the intervals say which ways it went.
    for flow in record.intervals.iter().flat_map(|i| flows(&i.figures)) {
        if totals.iter().all(|total| total.way != flow.way) {
            totals.push(Flow { way: flow.way, ..Flow::default() });
        }
    }
    for total in totals {
        let at: Vec<Option<Flow<'_>>> = record
            .intervals
            .iter()
            .map(|i| flows(&i.figures).into_iter().find(|f| f.way == total.way))
            .collect();
        let suffix = total.way.map(|w| format!(", {}", way_words(w))).unwrap_or_default();
        charts.extend([
            rate(&x, &at, plan, &suffix),
            cores(&x, &at, &suffix),
            delay(&x, &at, &suffix),
            tcp(&x, &at, &suffix),
            distributions(total, &suffix),
        ]);
        charts.extend(loss_runs(total, &suffix));
    }
    charts.push(transactions(&x, &record.intervals));
    if let Some(latency) = record.totals.rr.as_ref().and_then(|rr| rr.latency_s.as_ref()) {
        charts.push(quantiles("Distribution of latency", &[("latency", latency)]));
    }
    charts.into_iter().filter_map(Figure::of).collect()
}

fn time() -> Axis {
    Axis::from_zero("seconds since the start of the measured time", Unit::Count)
}

fn values<T>(at: &[Option<T>], value: impl Fn(&T) -> Option<f64>) -> Vec<Option<f64>> {
    at.iter().map(|f| f.as_ref().and_then(&value)).collect()
}

/// `least to largest` of what is known.
fn span(y: &[Option<f64>], text: fn(f64) -> String) -> String {
    let known = y.iter().flatten().copied().filter(|y| y.is_finite());
    let (low, high) =
        known.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), y| (l.min(y), h.max(y)));
    match () {
        () if low > high => "unknown".to_owned(),
        () if low == high => text(low),
        () => format!("{} to {}", text(low), text(high)),
    }
}

fn rate(x: &[f64], at: &[Option<Flow<'_>>], plan: &PlanRecord, suffix: &str) -> Chart {
    let sent = values(at, Flow::sent_bps);
    let received = values(at, Flow::received_bps);
    let lost = values(at, |f| f.lost_ratio().map(|l| l * 100.0));
    let known = |(done, y): (&str, &Vec<Option<f64>>)| {
        let any = y.iter().any(Option::is_some);
        any.then(|| format!("{done} {}", span(y, number::rate)))
    };
    let moved = [("sent", &sent), ("received", &received)].into_iter().filter_map(known);
    let mut alt = format!("Each interval {}", moved.collect::<Vec<_>>().join(" and "));
    if lost.iter().any(Option::is_some) {
        alt.push_str(&format!("; loss was {}", span(&lost, |l| number::loss(l / 100.0))));
    }
    let mut series = Vec::new();
    if let Some(asked) = plan.rate_bps {
        let y = vec![Some(asked as f64); x.len()];
        series.push(Series::line("asked", 0, y).kind(Kind::Ideal));
    }
    series.push(Series::line("sent", 1, sent));
    series.push(Series::line("received", 0, received));
    if lost.iter().flatten().any(|l| *l > 0.0) {
        series.push(Series::line("lost", 5, lost).right());
    }
    Chart::new(
        format!("Rate over time{suffix}"),
        format!("{alt}."),
        (time(), Axis::from_zero("payload, bit/s", Unit::BitRate)),
        x.to_vec(),
        series,
    )
    .right(Axis::from_zero("lost, % of what was sent", Unit::Percent))
}

fn cores(x: &[f64], at: &[Option<Flow<'_>>], suffix: &str) -> Chart {
    let mut series = Vec::new();
    let mut words = Vec::new();
    for (end, colour, pick) in [
        ("sender", 1, (|f| f.sender_cpu().cloned()) as fn(&Flow<'_>) -> Option<CpuFigures>),
        ("receiver", 0, |f| f.receiver_cpu().cloned()),
    ] {
        let cpu: Vec<Option<CpuFigures>> = at.iter().map(|f| f.as_ref().and_then(pick)).collect();
        let mut numbers: Vec<u32> = cpu.iter().flatten().filter_map(|c| c.core).collect();
        numbers.dedup();
        let core = match numbers.as_slice() {
            [] if cpu.iter().all(Option::is_none) => continue,
            [one] => format!("core {one}"),
            _ => "its core".to_owned(),
        };
        let busy = values(&cpu, |c| c.core_percent);
        let thread = values(&cpu, |c| Some(c.thread_percent));
        words.push(match busy.iter().any(Option::is_some) {
            true => format!("The {end}'s {core} was {} busy", span(&busy, number::cpu)),
            false => {
                format!("The {end}'s data thread took {} of a core", span(&thread, number::cpu))
            }
        });
        series.push(Series::line(&format!("{end}: {core} busy"), colour, busy));
        series.push(Series::line(&format!("{end}: data thread"), colour, thread).kind(Kind::Thin));
        for (label, colour, value) in [
            ("softirq", if colour == 0 { 4 } else { 3 }, values(&cpu, |c| c.softirq_percent)),
            ("steal", if colour == 0 { 2 } else { 5 }, values(&cpu, |c| c.steal_percent)),
        ] {
            // A core that none was taken from needs no line to say so.
            if value.iter().flatten().any(|v| *v >= 0.5) {
                let label = format!("{end}: {label} on {core}");
                series.push(Series::line(&label, colour, value).kind(Kind::Thin));
            }
        }
        let mut irq: Vec<u32> =
            cpu.iter().flatten().flat_map(|c| c.irq_cores.iter().map(|i| i.core)).collect();
        irq.sort_unstable();
        irq.dedup();
        for (i, number) in irq.into_iter().filter(|n| !numbers.contains(n)).take(4).enumerate() {
            let value = values(&cpu, |c| {
                c.irq_cores.iter().find(|i| i.core == number).map(|i| i.core_percent)
            });
            let label = format!("{end}: core {number} (takes the card's interrupts)");
            series.push(Series::line(&label, 2 + i, value));
        }
    }
    Chart::new(
        format!("CPU by core{suffix}"),
        format!("{}.", words.join(". ")),
        (time(), Axis::percent("% of a core")),
        x.to_vec(),
        series,
    )
}

fn delay(x: &[f64], at: &[Option<Flow<'_>>], suffix: &str) -> Chart {
    let jitter = values(at, |f| f.receiver?.jitter_s);
    let quantile = |pick: fn(&Quantiles) -> f64| {
        values(at, move |f| f.receiver?.delay_variation_s.as_ref().map(pick))
    };
    Chart::new(
        format!("Jitter and delay over time{suffix}"),
        format!("Jitter was {}.", span(&jitter, number::seconds)),
        (time(), Axis::from_zero("seconds", Unit::Seconds)),
        x.to_vec(),
        vec![
            Series::line("jitter (RFC 3550)", 0, jitter),
            Series::line("delay above the least, median", 2, quantile(|q| q.p50)),
            Series::line("delay above the least, p99", 1, quantile(|q| q.p99)),
        ],
    )
}

fn tcp(x: &[f64], at: &[Option<Flow<'_>>], suffix: &str) -> Chart {
    let rtt = values(at, |f| f.tcp()?.rtt_s);
    let window = values(at, |f| f.tcp()?.cwnd_bytes.map(|c| c as f64));
    let again = at.iter().flatten().filter_map(|f| f.tcp()?.retransmits);
    let again = again.reduce(u64::saturating_add).map_or(String::new(), |again| {
        format!("; {} segments were retransmitted", number::integer(again))
    });
    Chart::new(
        format!("Round trip and congestion window over time{suffix}"),
        format!(
            "The smoothed round trip was {}, the congestion window {}{again}.",
            span(&rtt, number::seconds),
            span(&window, |w| number::bytes(w as u64))
        ),
        (time(), Axis::from_zero("smoothed round trip", Unit::Seconds)),
        x.to_vec(),
        vec![
            Series::line("round trip", 0, rtt),
            Series::line("congestion window", 1, window).right(),
        ],
    )
    .right(Axis::from_zero("congestion window, bytes", Unit::Bytes))
}

fn distributions(total: Flow<'_>, suffix: &str) -> Chart {
    let mut curves: Vec<(&str, &Quantiles)> = Vec::new();
    if let Some(receiver) = total.receiver {
        let delay = receiver.one_way_delay_s.as_ref().map(|delay| &delay.quantiles);
        curves.extend(delay.map(|delay| ("one-way delay", delay)));
        let variation = receiver.delay_variation_s.as_ref();
        curves.extend(variation.map(|variation| ("delay above the least", variation)));
    }
    let mut chart = quantiles(&format!("Distribution of delays and gaps{suffix}"), &curves);
    if let Some(pacing) = total.sender.and_then(|s| s.pacing.as_ref()) {
        let gap = |x: &f64| match *x {
            x if x == HALF => Some(pacing.gap_p50_ns as f64 * 1e-9),
            2.0 => Some(pacing.gap_p99_ns as f64 * 1e-9),
            _ => None,
        };
        if chart.x.is_empty() {
            chart.x = vec![HALF, 2.0];
        }
        let y = chart.x.iter().map(gap).collect();
        chart.series.push(Series::line("gap between send calls", 1, y));
        if let Some(nominal) = pacing.gap_nominal_ns {
            let y = vec![Some(nominal as f64 * 1e-9); chart.x.len()];
            chart.series.push(Series::line("gap as it should be", 0, y).kind(Kind::Ideal));
        }
        let half = number::seconds(pacing.gap_p50_ns as f64 * 1e-9);
        let (p99, max) = (pacing.gap_p99_ns as f64 * 1e-9, pacing.gap_max_ns as f64 * 1e-9);
        chart.alt.push_str(&format!(
            " Gaps between send calls: median {half}, p99 {}, largest {}.",
            number::seconds(p99),
            number::seconds(max)
        ));
    }
    chart
}

/// Half of all, as a number of nines.
const HALF: f64 = std::f64::consts::LOG10_2;

/// Percentile curves: each step to the right leaves a tenth as many values beyond.
fn quantiles(title: &str, curves: &[(&str, &Quantiles)]) -> Chart {
    let deep = curves.iter().any(|(_, q)| q.p9999.is_some());
    let mut x = vec![HALF, 1.0, 2.0, 3.0];
    if deep {
        x.push(4.0);
    }
    if curves.is_empty() {
        x.clear();
    }
    let mut series = Vec::new();
    let mut alt = Vec::new();
    for (i, (name, q)) in curves.iter().enumerate() {
        let y = [Some(q.p50), Some(q.p90), Some(q.p99), Some(q.p999), q.p9999];
        // A logarithmic axis has no zero.
        let y = y.into_iter().take(x.len()).map(|y| y.filter(|y| *y > 0.0)).collect();
        series.push(Series::line(name, if i == 0 { 0 } else { 2 }, y));
        alt.push(format!(
            "{name}: median {}, p99 {}, largest {}.",
            number::seconds(q.p50),
            number::seconds(q.p99),
            number::seconds(q.max)
        ));
    }
    Chart::new(
        title,
        alt.join(" "),
        (
            Axis::fitted("share of the values that are no larger", Unit::Nines),
            Axis::log("seconds", Unit::Seconds),
        ),
        x,
        series,
    )
}

fn loss_runs(total: Flow<'_>, suffix: &str) -> Option<Chart> {
    let runs = total.receiver?.loss_runs.as_ref().filter(|r| r.count > 0)?;
    let x: Vec<f64> = (0..runs.lengths.len()).map(|i| 2f64.powi(i as i32)).collect();
    let y = runs.lengths.iter().map(|n| Some(*n as f64)).collect();
    Some(Chart::new(
        format!("Losses in a row{suffix}"),
        format!(
            "{} runs of loss, {:.1} datagrams long in the mean, the longest {}.",
            number::integer(runs.count),
            runs.mean,
            number::integer(runs.longest)
        ),
        (
            Axis::log("datagrams lost in a row, at most (1, 2, 4, 8 …)", Unit::Count),
            Axis::from_zero("how often", Unit::Count),
        ),
        x,
        vec![Series::line("runs of loss", 5, y)],
    ))
}

fn transactions(x: &[f64], intervals: &[Interval]) -> Chart {
    let at: Vec<_> = intervals.iter().map(|i| i.figures.rr.as_ref()).collect();
    let done = values(&at, |rr| Some(rr.transactions_per_second));
    let latency =
        |pick: fn(&Quantiles) -> f64| values(&at, move |rr| rr.latency_s.as_ref().map(pick));
    Chart::new(
        "Transactions and latency over time",
        format!("Each interval had {} transactions per second.", span(&done, number::short)),
        (time(), Axis::from_zero("transactions per second", Unit::Count)),
        x.to_vec(),
        vec![
            Series::line("transactions per second", 0, done),
            Series::line("latency, median", 2, latency(|q| q.p50)).right(),
            Series::line("latency, p99", 1, latency(|q| q.p99)).right(),
        ],
    )
    .right(Axis::from_zero("latency", Unit::Seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::record::Figures;
    use linerate_testkit::records;

    #[test]
    fn a_test_that_never_ended_has_the_figures_of_its_intervals() {
        for whole in [records::udp_receiver_drops(), records::udp_both(), records::tcp()] {
            let titles = |record: &RunRecord| -> Vec<String> {
                let titles = of(record).into_iter().map(|figure| figure.words().0.to_owned());
                let of_totals = ["Distribution", "Losses in a row"];
                titles.filter(|title| !of_totals.iter().any(|of| title.starts_with(of))).collect()
            };
            let cut = RunRecord { totals: Figures::default(), ..whole.clone() };
            assert!(titles(&cut).iter().any(|title| title.starts_with("Rate over time")));
            assert_eq!(titles(&cut), titles(&whole));
        }
    }

    #[test]
    fn what_is_not_known_of_intervals_is_not_told_as_nothing() {
        let alt = |record: &RunRecord, title: &str| {
            let figures = of(record);
            let words = figures.iter().map(Figure::words).find(|(of, _)| of.starts_with(title));
            words.expect(title).1.to_owned()
        };
        let mut record = records::tcp();
        let rates = alt(&record, "Rate over time");
        assert!(rates.starts_with("Each interval sent ") && rates.contains(" and received "));
        assert!(alt(&record, "Round trip").ends_with(" segments were retransmitted."));
        for interval in &mut record.intervals {
            let sender = interval.figures.sender.as_mut().unwrap();
            let tcp = sender.tcp.as_mut().unwrap();
            (tcp.retransmits, tcp.cwnd_bytes) = (None, None);
            let cpu = interval.figures.receiver.as_mut().and_then(|end| end.cpu.as_mut());
            cpu.unwrap().core_percent = None;
        }
        let trip = alt(&record, "Round trip");
        assert!(trip.ends_with(", the congestion window unknown."), "{trip}");
        let cores = alt(&record, "CPU by core");
        assert!(cores.contains("The receiver's data thread took "), "{cores}");
        for interval in &mut record.intervals {
            interval.figures.sender = None;
        }
        let rates = alt(&record, "Rate over time");
        assert!(rates.starts_with("Each interval received "), "{rates}");
    }
}
