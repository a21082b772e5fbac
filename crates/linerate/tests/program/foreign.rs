//! The programs of other kinds of machines, as far as they were built (`cargo xtask dist all`), run by qemu on this
//! kernel. What such a system lacks (times of arrival, TCP's own figures, netlink) is absent from the record and ends no test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Ran, Server, alone, linerate, skip};

/// A kind of machine as rustc names it, what runs its programs, and where Debian keeps its libraries.
const MACHINES: [(&str, &str, &str); 3] = [
    ("riscv64gc-unknown-linux-gnu", "qemu-riscv64-static", "/usr/riscv64-linux-gnu"),
    ("aarch64-unknown-linux-gnu", "qemu-aarch64-static", "/usr/aarch64-linux-gnu"),
    ("armv7-unknown-linux-gnueabihf", "qemu-arm-static", "/usr/arm-linux-gnueabihf"),
];

struct Machine {
    triple: &'static str,
    emulator: &'static str,
    libraries: &'static str,
    program: PathBuf,
}

impl Machine {
    fn command(&self) -> Command {
        let mut command = Command::new(self.emulator);
        command.args(["-L", self.libraries]).arg(&self.program);
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        let out = self.command().args(args).stdin(Stdio::null()).output().expect("qemu starts");
        Ran {
            code: out.status.code().unwrap_or(-1),
            out: String::from_utf8(out.stdout).expect("text"),
            err: String::from_utf8(out.stderr).expect("text"),
        }
    }
}

/// Those that can be run here; says which cannot.
fn machines(test: &str) -> Vec<Machine> {
    let built = |triple: &str| {
        let target = Path::new(env!("CARGO_BIN_EXE_linerate")).ancestors().nth(2)?;
        let at = |profile| target.join(triple).join(profile).join("linerate");
        [at("dist"), at("release")].into_iter().find(|path| path.exists())
    };
    let mut found = vec![];
    for (triple, emulator, libraries) in MACHINES {
        let Some(program) = built(triple) else {
            skip(test, &format!("{triple}: not built; cargo xtask dist {triple}"));
            continue;
        };
        if Command::new(emulator).arg("--version").output().is_err() {
            skip(test, &format!("{emulator} is not installed (Debian's package qemu-user-static)"));
            continue;
        }
        found.push(Machine { triple, emulator, libraries, program });
    }
    found
}

#[test]
#[ignore = "long"]
fn tests_of_every_kind_come_to_their_end_on_other_machines() {
    let machines = machines("tests_of_every_kind_come_to_their_end_on_other_machines");
    let _alone = alone();
    for machine in &machines {
        for args in [
            &["udp", "-b", "20M"][..],
            &["udp", "-b", "5M", "--bidir", "-P", "2"],
            &["tcp"],
            &["tcp", "-R"],
            &["rr"],
            &["rr", "--udp"],
        ] {
            println!("{} {args:?}", machine.triple);
            let ran = machine.run(&[args, &["--local", "-t", "1s", "--json"]].concat());
            let record = ran.complete();
            println!("doubts: {}", record["doubts"]);
        }
    }
}

/// The bytes on the wire are those of any machine.
#[test]
#[ignore = "long"]
fn other_machines_and_this_one_test_with_each_other() {
    let machines = machines("other_machines_and_this_one_test_with_each_other");
    let _alone = alone();
    let kinds = [&["udp", "-b", "20M"][..], &["udp", "-b", "20M", "-R"], &["tcp", "-R"], &["rr"]];
    for machine in &machines {
        let (theirs, ours) = (Server::of(machine.command(), &[]), Server::start(None, &[]));
        for args in kinds {
            println!("{} {args:?}", machine.triple);
            let test = |port: u16, run: &dyn Fn(&[&str]) -> Ran| {
                let port = port.to_string();
                let rest = ["127.0.0.1", "-p", &port, "-t", "1s", "--json"];
                run(&[args, &rest].concat()).complete();
            };
            test(theirs.port, &|args| linerate(None, args));
            test(ours.port, &|args| machine.run(args));
        }
    }
}

/// Arithmetic is the same to the last digit that is shown.
#[test]
#[ignore = "long"]
fn comparisons_are_the_same_on_other_machines() {
    let machines = machines("comparisons_are_the_same_on_other_machines");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign");
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str, step: f64| {
        let path = folder.join(name);
        let values = (0..30).map(|n| format!("{:.3}\n", step + f64::from(n * 37 % 30) / 7.0));
        std::fs::write(&path, values.collect::<String>()).expect("a file");
        path.display().to_string()
    };
    let (one, other) = (file("one.txt", 100.0), file("other.txt", 101.5));
    for machine in &machines {
        for args in [&["ministat"][..], &["compare"], &["compare", "--json"]] {
            let args = [args, &[&one, &other]].concat();
            let (theirs, ours) = (machine.run(&args), linerate(None, &args));
            assert_eq!(
                (theirs.code, &theirs.out),
                (ours.code, &ours.out),
                "{} {args:?}",
                machine.triple
            );
        }
    }
}
