//! What brings servers and agents to many hosts: each file passes its own program's checks, and names options that there are.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name)
}

/// The test runner captures what macros print, and not this.
fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "\n*** SKIP {test}: {why}");
}

/// Whether it ran; a test without it says so.
fn checked(test: &str, command: &mut Command, package: &str) {
    let name = command.get_program().to_string_lossy().into_owned();
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // What they keep is kept there and not beside the files.
    match command.env("HOME", home).env("NO_COLOR", "1").output() {
        Err(_) => skip(test, &format!("{name} is not installed ({package})")),
        Ok(out) => assert!(
            out.status.success(),
            "{name}: {}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        ),
    }
}

#[test]
fn the_role_and_the_manifests_pass_their_programs_checks() {
    let test = "the_role_and_the_manifests_pass_their_programs_checks";
    let mut lint = Command::new("ansible-lint");
    lint.args(["--offline", "--profile", "production", "site.yml"]);
    checked(test, lint.current_dir(deploy("ansible")), "Debian's package ansible-lint");
    let mut validate = Command::new("kubernetes-validate");
    let manifests = ["namespace.yaml", "servers.yaml", "run.yaml", "agents.yaml", "enrol.yaml"];
    validate.arg("--strict").args(manifests).current_dir(deploy("kubernetes"));
    checked(test, &mut validate, "PyPI's package kubernetes-validate");
}

#[test]
fn they_name_options_that_there_are() {
    let test = "they_name_options_that_there_are";
    let program = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("linerate");
    for (file, verb) in [
        ("kubernetes/servers.yaml", "serve"),
        ("kubernetes/run.yaml", "tcp"),
        ("kubernetes/agents.yaml", "agent"),
        ("kubernetes/enrol.yaml", "agent"),
        ("ansible/roles/linerate/templates/default.j2", "serve"),
        ("ansible/roles/linerate/templates/unit.conf.j2", "serve"),
        ("openwrt/files/linerate.init", "serve"),
        ("systemd/linerate-controlled.service", "serve"),
        ("ansible/roles/linerate_agent/tasks/main.yml", "agent"),
    ] {
        let Ok(help) = Command::new(&program).args([verb, "--help"]).output() else {
            return skip(test, "the program is not built; cargo test --workspace does");
        };
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let text = std::fs::read_to_string(deploy(file)).expect("a file");
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let words =
            lines.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-'));
        // Three are where a document begins.
        let of_option = |word: &&str| word.starts_with("--") && !word.starts_with("---");
        let options: Vec<&str> = words.filter(of_option).collect();
        assert!(!options.is_empty(), "{file}");
        for option in options {
            assert!(
                help.contains(&format!("{option} "))
                    || help.contains(&format!("{option}["))
                    || help.contains(&format!("{option}\n")),
                "{file}: {verb} has no {option}"
            );
        }
    }
}

/// `-e linerate_controlled=false` gives the role a word, and words are true but for the empty one.
#[test]
fn the_role_takes_false_for_false() {
    for file in ["tasks/main.yml", "vars/main.yml", "templates/unit.conf.j2"] {
        let path = deploy("ansible/roles/linerate").join(file);
        let text = std::fs::read_to_string(path).expect("a file");
        let uses = text.matches("linerate_controlled").count();
        assert!(uses > 0, "{file}");
        assert_eq!(text.matches("linerate_controlled | bool").count(), uses, "{file}");
    }
}

#[test]
fn the_unit_of_an_agent_reads_the_options_that_its_role_writes() {
    let read = |file| std::fs::read_to_string(deploy(file)).expect("a file");
    let unit = read("systemd/linerate-agent.service");
    let tasks = read("ansible/roles/linerate_agent/tasks/main.yml");
    let file = "/etc/default/linerate-agent\n";
    assert!(unit.contains(&format!("\nEnvironmentFile=-{file}")), "{unit}");
    assert!(tasks.contains(&format!(" dest: {file}")), "{tasks}");
}
