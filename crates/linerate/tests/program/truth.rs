//! The verdict against limits that are known because they were made: each case puts one limit
//! between two network namespaces, runs a test through it and looks at the name it is given, once
//! with nothing beside it and once with every core kept busy by others. What the data threads had
//! of their cores is read here, from the kernel, and not believed from the record.
//! `docs/verdict.md` says which names are right and why.

mod advice;
mod bench;
mod cases;

use crate::support::{Lab, Urgent, alone, says_busy, skip_busy};
use bench::{Beside, Fault};
use cases::{Case, cases, named};

/// So many rows of the whole table, which are 64, may be named wrongly.
const WRONG_AT_MOST: usize = 2;
const NOT_MADE: &str = "others take too much of this machine for the case to come about";

#[test]
#[ignore = "takes three minutes: the whole table, see CONTRIBUTING"]
fn full_table() {
    let _alone = alone();
    if !Lab::possible("full_table") {
        return;
    }
    let all = chosen();
    let mut rows = vec![];
    for beside in [Beside::Nothing, Beside::Hogs] {
        for case in &all {
            let Some(ran) = bench::run(case, beside, "2s") else { return };
            let text = ran.as_ref().map_or_else(
                |text| format!("BROKE {}: {text}", case.name),
                |outcome| outcome.row(case, beside),
            );
            println!("{text}");
            if ran.as_ref().is_ok_and(|outcome| !outcome.is_made(case)) {
                skip_busy(case.name, NOT_MADE);
                continue;
            }
            rows.push(match ran {
                Ok(outcome) => outcome.fault(case),
                Err(text) => Some(Fault { text, slept: false }),
            });
        }
    }
    let slept = rows.iter().flatten().filter(|fault| fault.slept).count();
    let right = rows.iter().filter(|fault| fault.is_none()).count();
    println!(
        "{right} of {} are named rightly, {slept} blame the CPU of threads that slept",
        rows.len()
    );
    assert_eq!(slept, 0, "CPU was blamed where the threads slept");
    assert!(right + WRONG_AT_MOST >= rows.len(), "{right} of {} are right", rows.len());
}

/// All cases, or those whose names hold what `LINERATE_ONLY` says, such as `tcp`.
fn chosen() -> Vec<Case> {
    let only = std::env::var("LINERATE_ONLY").unwrap_or_default();
    cases().into_iter().filter(|case| case.name.contains(&only)).collect()
}

/// Every advice that names an option, tried on the host it was given for.
#[test]
#[ignore = "takes ten minutes: six tests for each advice, see CONTRIBUTING"]
fn every_advice() {
    let _alone = alone();
    if !Lab::possible("every_advice") {
        return;
    }
    let worse: Vec<String> = chosen().iter().flat_map(|case| advice::tried(case, 3)).collect();
    assert!(worse.is_empty(), "made worse by advice:\n{}", worse.join("\n"));
}

#[test]
fn advice_about_a_small_window_helps() {
    let _alone = alone();
    if !Lab::possible("advice_about_a_small_window_helps") {
        return;
    }
    assert_eq!(advice::tried(&named("tcp forward: window"), 1), Vec::<String>::new());
}

/// One row of the table at the size of an ordinary test.
fn row(test: &str, name: &str, beside: Beside) {
    let _alone = alone();
    if !Lab::possible(test) {
        return;
    }
    let case = named(name);
    // What may take its cores is what the row says. Requests as fast as they go would take them from all other tests.
    let (urgent, nobody) = match beside {
        Beside::Nothing if !name.starts_with("rr") => (Some(Urgent::now()), None),
        Beside::Nothing | Beside::Hogs => (None, Some(Urgent::nobody())),
    };
    let Some(ran) = bench::run(&case, beside, "1s") else { return };
    drop((urgent, nobody));
    let outcome = ran.unwrap_or_else(|text| panic!("{name}: {text}"));
    println!("{}", outcome.row(&case, beside));
    // A right name is right whether or not others kept the limit from being reached.
    let Some(fault) = outcome.fault(&case) else { return };
    if !outcome.is_made(&case) {
        // The record may doubt itself what it says; the CPU of threads that slept it blames in no case.
        if fault.slept || !says_busy(&outcome.record) {
            skip_busy(test, NOT_MADE);
        }
        return;
    }
    panic!("{name}: {}\n{}", fault.text, outcome.record["verdict"]);
}

macro_rules! rows {
    ($($test:ident: $name:literal, $beside:ident;)*) => {$(
        #[test]
        fn $test() {
            row(stringify!($test), $name, Beside::$beside);
        }
    )*};
}

rows! {
    a_path_of_udp_is_named: "udp forward: path 40M", Nothing;
    a_path_of_udp_is_named_on_a_busy_host: "udp forward: path 10M", Hogs;
    a_path_of_tcp_is_named_on_a_busy_host: "tcp forward: path 40M", Hogs;
    a_path_of_tcp_the_other_way_is_named_on_a_busy_host: "tcp reverse: path 10M", Hogs;
    a_small_window_is_named_on_a_busy_host: "tcp reverse: window", Hogs;
    a_reader_that_stops_is_no_cpu: "udp reverse: slow reader", Nothing;
    a_group_without_time_is_named_on_a_busy_host: "tcp reverse: quota of the sender", Hogs;
    a_rate_that_is_met_is_named_on_a_busy_host: "udp reverse: rate met", Hogs;
    round_trips_are_named: "rr: round trip", Nothing;
    datagrams_that_are_dropped_are_named: "udp forward: 2 % dropped", Nothing;
}
