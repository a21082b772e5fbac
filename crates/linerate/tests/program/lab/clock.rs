//! A wall clock that somebody sets in the middle of a test (truth T23 of a measurement tool): no
//! figure changes, and the record says that it happened.

use linerate_lab::{Hardware, Machine};

use super::wire::Wire;
use super::{doubts, lab, record, serve, two};
use crate::support::{long, machines, number, pressure, real};

const BYTES: usize = 1_000;
/// Seconds by which a clock is set. A few are what NTP does at a start, an hour what a person does.
const STEPS: &[i64] = &[5, -5, 1, -1, 3_600, -3_600];

/// Sets a machine's clock `step` seconds on when a counter of /proc/net/snmp (its group, and its column from
/// 1) has grown by `packets`, and so in the middle of a test however slow the machines are.
fn set_after(machine: &Machine, group: &str, column: u8, packets: u32, step: i64) {
    // `date` only takes whole seconds; the rest of this one is lost or won.
    machine.start(
        "date",
        &format!(
            "count() {{ awk '$1 == \"{group}:\" && $2 ~ /[0-9]/ {{ print ${column} }}' /proc/net/snmp; }}
             until=$(($(count) + {packets}))
             while [ $(count) -lt $until ]; do sleep 0.05; done
             date -s @$(($(date +%s) + {step}))"
        ),
    );
}

#[test]
#[ignore = "long"]
fn a_wall_clock_that_is_set_changes_no_figure() {
    let _machines = machines();
    let Some(lab) = lab("a_wall_clock_that_is_set_changes_no_figure") else { return };
    let (a, b) = two(&lab, Hardware::default());
    serve(&b);
    for round in 0..if long() { 5 } else { 1 } {
        for (i, &step) in STEPS.iter().enumerate() {
            // The receiver's clock, whose kernel stamps arrivals; now and then the sender's as well.
            let both = (i + round) % 3 == 0;
            set_after(&b, "Udp", 2, 2_500, step);
            if both {
                set_after(&a, "Udp", 5, 2_500, step);
            }
            let wire = Wire::watch(&lab, 2, BYTES);
            let sent = 6_000;
            let line =
                format!("udp {} -k {sent} -b 2kpps -l {BYTES} --engine mmsg -i 500ms", b.ipv4());
            let (record, busy) = pressure(|| record(&a, &line));
            let truth = wire.truth(sent);
            let receiver = &record["totals"]["receiver"];
            let (jitter, most) =
                (real(receiver, "jitter_s"), real(receiver, "delay_variation_s.max"));
            let (rate, seconds) = (real(receiver, "bits_per_second"), real(receiver, "seconds"));
            println!(
                "{step:+} s{}: {rate:.0} bit/s in {seconds:.4} s, jitter {:.1} us, most delay {:.1} ms, pressure {busy:.2}",
                if both { " at both" } else { "" },
                jitter * 1e6,
                most * 1e3,
            );
            assert!(doubts(&record, "clock-stepped"), "{step}: {}", record["doubts"]);
            let own = number(receiver, "dropped_receiver");
            assert_eq!(number(receiver, "lost"), truth.lost + own, "{step}");
            assert_eq!(number(receiver, "lost_path"), truth.lost, "{step}");
            assert_eq!(number(receiver, "datagrams") + truth.lost + own, sent, "{step}");
            // 3 s at 2,000 a second, by clocks that nobody set.
            let right = (sent as f64) / 2_000.0;
            assert!(seconds > right * 0.999 - 0.001, "{step}: {seconds} s is less than it took");
            // A busy host may send the last of them late, but by no part of a step of hours or seconds.
            assert!(
                seconds - right < step.unsigned_abs() as f64 / 2.0,
                "{step}: {seconds} s, not {right}"
            );
            let of_span = rate * seconds / 8.0 - number(receiver, "bytes") as f64;
            assert!(of_span.abs() < 1.0, "{step}: rate, span and bytes disagree");
            // The step itself must be in no delay; a stalled host makes tenths of a second at most.
            let least = (step.unsigned_abs() as f64) - 0.9;
            assert!(most < least.max(0.5), "{step}: a delay of {most} s");
            assert!(jitter < 0.1, "{step}: jitter {jitter} s");
        }
    }
    // A stream and a dialogue know no wall clock.
    for line in ["tcp", "rr"] {
        set_after(&b, "Tcp", 11, 200, 3_600);
        set_after(&a, "Tcp", 11, 200, -3_600);
        let record = record(&a, &format!("{line} {} -t 2s", b.ipv4()));
        assert!(doubts(&record, "clock-stepped"), "{line}: {}", record["doubts"]);
        if line == "rr" {
            let most = real(&record, "totals.rr.latency_s.max");
            assert!(most < 1.9, "a reply took {most} s");
        } else {
            let seconds = real(&record, "totals.receiver.seconds");
            assert!((1.9..10.0).contains(&seconds), "2 s took {seconds} s");
        }
    }
}
