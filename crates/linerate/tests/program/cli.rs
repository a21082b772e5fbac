//! The binary as a user runs it: help, what is made from the code, errors and exit codes. Nothing
//! here sends a packet.

use crate::schema;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use linerate_testkit::{records, skip};

fn linerate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(args)
        .env_remove("NO_COLOR")
        .env("COLUMNS", "100")
        .output()
        .expect("the binary starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn every_verb_has_help_with_examples() {
    for verb in [
        "serve",
        "udp",
        "tcp",
        "rr",
        "sweep",
        "search",
        "tune",
        "doctor",
        "profile",
        "watch",
        "probe",
        "fleet",
        "agent",
        "schema",
        "completions",
        "man",
    ] {
        let out = linerate(&[verb, "--help"]);
        assert_eq!(out.status.code(), Some(0), "{verb}");
        let help = text(&out.stdout);
        assert!(help.contains("Examples:\n  linerate"), "{verb}: {help}");
        assert!(out.stderr.is_empty());
        let tests = [
            "serve", "udp", "tcp", "rr", "sweep", "search", "tune", "doctor", "profile", "probe",
            "fleet",
        ]
        .contains(&verb);
        assert_eq!(help.contains("Exit codes:"), tests, "{verb}");
        // What serves others is ended by it as it should be.
        let is_cut_short = tests && !["serve", "probe"].contains(&verb);
        assert_eq!(help.contains("  130  ended by Ctrl-C"), is_cut_short, "{verb}");
    }
}

#[test]
fn the_help_says_why_a_rate_is_the_default() {
    let help = text(&linerate(&["udp", "--help"]).stdout);
    assert!(help.contains("UDP has no congestion control"), "{help}");
}

#[test]
fn the_first_page_of_help() {
    insta::assert_snapshot!(text(&linerate(&["-h"]).stdout), @"
    Measures what a network path and the hosts at its ends can carry, and says what limits it

    Usage: linerate [OPTIONS] <COMMAND>

    Commands:
      serve        A server: answers any number of tests at once, of linerate's clients and of iperf3's
      keys         Keys of single clients for `linerate serve --keys FILE`
      udp          Datagrams: rate, loss by place, jitter, delay variation, CPU and what limits them
      tcp          A byte stream: rate, retransmissions, round trip, window, CPU and what limits it
      rr           Requests and responses: transactions per second and their latency
      sweep        Offered rates one after the other: where received leaves offered, and what limits it
                   there
      search       The highest rate that meets a goal of loss (and delay): bounds, evidence and which
                   end limits
      tune         The best setting for a path, by experiment: sizes, windows, streams, engines, cores
                   and more
      doctor       What holds this host back on the way to another: what is set badly, why that matters,
                   what changes it
      profile      Where the CPUs' time of a test goes: by layer, by function, as a flame graph, and
                   what differs between two tests
      watch        What this host does now: cores, interfaces, drops and interrupts, without a test
      probe        A test to another host for each request of Prometheus: its figures as metrics
      campaign     Settings x reboots x runs by one plan, crash-safe; leaves the hosts as it found them
      fleet        Many hosts measured with each other: all pairs, one against all or others, in rounds
                   without conflict
      agent        An agent of a fleet: connects to the fleet's broker and runs the tests that its
                   owner's policy allows
      compare      Groups of runs: which differ from the first, by how much, and how sure that is
      iperf        iperf 2's client and server, with its options and output
      iperf3       iperf3's client and server, with its options and output
      ministat     Files of numbers compared as ministat does, with its options and output
      netperf      netperf's client, with its options and output
      netserver    netperf's server, with its options
      nuttcp       nuttcp's client and server, with its options and output
      report       A page, picture or table of any results: runs, sweeps, searches, tunings,
                   comparisons, campaigns, together
      schema       Prints the JSON Schema of the run record, or of another document
      completions  Prints the completion script of a shell
      man          Prints the manual page, or writes those of all commands
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Output:
          --color <WHEN>  When to use colour; `auto` means on a terminal, unless NO_COLOR is set
                          [default: auto] [possible values: auto, always, never]

    Examples:
      linerate udp --local                 see a real result on this machine alone
      linerate serve                       the server, on another machine
      linerate udp HOST --rate 1G          loss, jitter and CPU at a given rate
      linerate tcp HOST                    what TCP gets through
      linerate rr HOST                     transactions per second and latency
      linerate sweep HOST --zoom           where received leaves offered, and which end limits it
      linerate search HOST --max 1G        the highest rate with at most 0.5% loss
      linerate doctor HOST                 what is set badly on this host for that path
      linerate profile udp HOST --rate 1G  where this host's CPU time goes
      linerate watch                       what this host's cores and interfaces do now
      linerate tune tcp HOST               the best window, streams and cores for it

    Exit codes:
        0  complete
        1  the test failed or the server was lost; what was measured is kept
        2  wrong usage; nothing was sent
        3  no server was reached or it refused (busy, wrong key, no route, unknown host)
        4  the counts contradict each other; do not use the numbers
        5  doctor: something holds this path back, more than a note; fleet results: a pair got worse
      130  ended by Ctrl-C; what was measured is kept
    ");
}

#[test]
fn the_schema_fits_the_records() {
    let out = linerate(&["schema"]);
    assert_eq!(out.status.code(), Some(0));
    let schema: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    for record in [
        records::udp_receiver_drops(),
        records::udp_both(),
        records::udp_streams(),
        records::tcp(),
        records::rr(),
        records::discard(),
        records::partial(),
        records::failed(),
        records::invalid(),
        records::hostile(),
    ] {
        let value = serde_json::to_value(&record).expect("JSON");
        schema::validate(&schema, &value).unwrap_or_else(|e| panic!("{e}"));
    }
    let mut value = serde_json::to_value(records::udp_both()).expect("JSON");
    value["totals"]["forward"]["sender"]["bytes"] = "many".into();
    let error = schema::validate(&schema, &value).expect_err("a text is no number");
    assert!(error.starts_with("$.totals"), "{error}");
    assert!(schema::validate(&schema, &serde_json::json!({ "format": 1 })).is_err());
}

/// The commands that `--help` lists, those of commands too: "campaign run".
fn commands(of: &str) -> Vec<String> {
    let words = of.split(' ').filter(|word| !word.is_empty());
    let help = text(&linerate(&words.chain(["--help"]).collect::<Vec<_>>()).stdout);
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| format!("{of} {name}").trim().to_owned())
    });
    lines.flat_map(|name| [vec![name.clone()], within(&name)].concat()).collect()
}

/// The drop-in faces have help of their own, which lists no commands of linerate's.
fn within(name: &str) -> Vec<String> {
    if ["campaign", "fleet", "keys", "tune", "profile"].contains(&name) {
        commands(name)
    } else {
        vec![]
    }
}

#[test]
fn every_command_has_completions_and_a_manual_page() {
    let commands = commands("");
    for name in ["udp", "campaign run", "keys new", "iperf3", "man"] {
        assert!(commands.iter().any(|command| command == name), "no {name} in {commands:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&linerate(&["completions", shell]).stdout);
        assert!(script.contains("no-checksum"), "{shell}");
        for command in &commands {
            let last = command.rsplit(' ').next().unwrap_or_default();
            assert!(script.contains(last), "{shell} does not complete {command}");
        }
        // Where the shell is there, it takes the script.
        match Command::new(shell).arg("-n").stdin(Stdio::piped()).spawn() {
            Ok(mut checked) => {
                checked.stdin.take().expect("piped").write_all(script.as_bytes()).expect("read");
                let read = checked.wait().expect("it ends").success();
                assert!(read, "{shell} does not read its script");
            }
            Err(e) => skip("the form of the completions", &format!("{shell}: {e}")),
        }
    }
    assert!(text(&linerate(&["man"]).stdout).contains(".TH linerate 1"));
    let dir = std::env::temp_dir().join(format!("linerate-man-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let made = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(["man", "--dir", dir.to_str().expect("text")])
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output()
        .expect("the binary starts");
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let udp = std::fs::read_to_string(dir.join("linerate-udp.1")).expect("a page");
    assert!(udp.contains(".TH linerate-udp 1 2023-11-14 \"linerate "), "{udp}");
    assert!(udp.contains(".SH EXAMPLES\n  linerate udp"), "{udp}");
    let mut pages: Vec<_> =
        std::fs::read_dir(&dir).expect("pages").map(|page| page.expect("a page").path()).collect();
    pages.sort();
    let page = |command: &str| dir.join(format!("linerate-{}.1", command.replace(' ', "-")));
    for command in &commands {
        assert!(pages.contains(&page(command)), "no page of {command}: {pages:?}");
    }
    assert_eq!(pages.len(), commands.len() + 1, "a page of what nobody calls: {pages:?}");
    match Command::new("mandoc").args(["-Tlint", "-Wwarning"]).args(&pages).output() {
        Ok(out) => assert!(out.status.success(), "{}", text(&out.stdout)),
        Err(e) => skip("the form of the manual pages", &format!("mandoc: {e}")),
    }
    std::fs::remove_dir_all(&dir).expect("gone");
    let out = linerate(&["man", "--dir", "/nonexistent/dir"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).starts_with("error: cannot write manual pages"));
}

#[test]
fn an_error_is_text_on_one_stream_and_json_on_the_other() {
    let out = linerate(&["udp", "h", "--json", "-P", "0"]);
    assert_eq!(out.status.code(), Some(2));
    let object: serde_json::Value = serde_json::from_slice(&out.stdout).expect("one object");
    assert_eq!(object["error"]["exit_code"], 2);
    assert!(text(&out.stderr).starts_with("error: cannot use `--streams`"));
    let out = linerate(&["udp", "h", "--json-lines", "--nonsense"]);
    let line: serde_json::Value = serde_json::from_slice(&out.stdout).expect("one line");
    assert_eq!((line["event"].as_str(), out.status.code()), (Some("end"), Some(2)));
    let out = linerate(&["udp"]);
    assert!(out.stdout.is_empty());
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn no_command_is_an_error_that_shows_the_way() {
    let out = linerate(&[]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("linerate udp --local"));
}

#[test]
fn a_closed_output_ends_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .arg("schema")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let out = child.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(0));
    assert!(out.stderr.is_empty(), "{}", text(&out.stderr));
}
