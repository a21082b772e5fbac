//! What only a kernel of one's own can show: reboots, power cuts, `netem`, a wall clock that is set, a card's ring, interrupts and
//! node.
//! Two virtual machines, `a` and `b`, on a bridge; `docs/lab.md` says how they are made.

mod campaign;
mod card;
mod clock;
mod dummy;
mod machines;
mod netem;
mod wire;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Ran, list, skip};
use linerate_lab::{Hardware, Lab, Machine};
use serde_json::Value;

/// The lab, or a loud line that says why there is none here.
fn lab(test: &str) -> Option<Lab> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lab");
    // A release build, say, which this test program does not make.
    let other = std::env::var_os("LINERATE_LAB_PROGRAM").map(PathBuf::from);
    let program = other.unwrap_or_else(|| env!("CARGO_BIN_EXE_linerate").into());
    Lab::prepare(&cache, &[&program]).map_err(|why| skip(test, &why)).ok()
}

/// `a` and `b`, booted.
fn two(lab: &Lab, hardware: Hardware) -> (Machine, Machine) {
    let mut a = lab.machine("a", 1, hardware);
    let mut b = lab.machine("b", 2, hardware);
    a.booted();
    b.booted();
    (a, b)
}

/// Starts `linerate serve` and waits until it can be asked.
fn serve(machine: &Machine) {
    machine.start("serve", "exec linerate serve");
    machine.run(
        "for i in $(seq 300); do netstat -ltn | grep -q :5201 && exit 0; sleep 0.1; done
         cat /run/serve.log; exit 1",
    );
}

/// Runs a test in a machine; its record, complete and with its identities checked.
fn record(machine: &Machine, line: &str) -> Value {
    ran(machine, line).complete()
}

/// Runs a test in a machine.
fn ran(machine: &Machine, line: &str) -> Ran {
    let done = machine
        .try_run(&format!("linerate {line} --json"), Duration::from_secs(120))
        .unwrap_or_else(|why| panic!("{line}: {why:?}"));
    Ran { code: done.code, out: done.out, err: done.err }
}

/// Whether a record has a doubt of this kind.
fn doubts(record: &Value, kind: &str) -> bool {
    list(&record["doubts"]).iter().any(|doubt| doubt["kind"] == kind)
}
