//! A server that lets controllers in and is another user: what reads strangers' bytes has no rights, and settings,
//! tests, commands and reboots go on all the same.

use crate::support;
use linerate_testkit::peer::LONG;

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use crate::support::controlled::{
    KEY, Scratch, child_of, comes_back, device, helper_of, monitor_of, plan, settings, snapshot,
};
use crate::support::every_kind::{all_threads_say, of_threads, sandboxed};
use crate::support::{Lab, Program, Server, alone, skip, wait_for};
use linerate_model::plan::{Direction, End, TestPlan, Traffic, Transport};
use linerate_model::units::Nanos;
use linerate_runner::agent::{
    Access, CommandRequest, HELPER_VERB, HostAgent, MONITOR_VERB, Remote,
};
use linerate_testkit::plans;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User};
use serde_json::{Value, json};

const USER: &str = "nobody";

/// A server in `a` that gives root up.
fn serve(lab: &Lab, program: &Program, scratch: &Scratch, more: &[&str]) -> Server {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &lab.space("a")]).arg(program.path());
    let (key, state) = (scratch.path("key"), scratch.path("state"));
    let args = ["--user", USER, "--key-file", &key, "--allow-settings", "--state-dir", &state];
    Server::of(command, &[&args[..], more].concat())
}

/// A controller of that server, in `b`.
fn control<T: Send + 'static>(
    lab: &Lab,
    server: &Server,
    work: impl FnOnce(&mut Remote) -> T + Send + 'static,
) -> T {
    let (name, port) = ("10.77.1.1".to_owned(), server.port);
    let access = Access { name, port, ip: None, bind: None, key: KEY.to_vec() };
    let controller = lab.inside("b", move || {
        let mut host = Remote::connect(&access).expect("the host lets us in");
        work(&mut host)
    });
    controller.join().expect("the controller ends well")
}

fn status(pid: Pid, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
    let said = status.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    said.expect("a field").trim().to_owned()
}

fn sh(script: &str) -> CommandRequest {
    let argv = ["sh", "-c", script].map(String::from).to_vec();
    CommandRequest { argv, limit_ms: 60_000, keep_bytes: 10_000 }
}

#[test]
fn what_reads_strangers_bytes_has_no_rights_while_settings_are_changed() {
    const TEST: &str = "what_reads_strangers_bytes_has_no_rights_while_settings_are_changed";
    let _alone = alone();
    if !Lab::possible(TEST) {
        return;
    }
    let (lab, program, scratch) = (Lab::pair(), Program::copy(), Scratch::new("apart"));
    let before = snapshot(&lab);
    let mut server = serve(&lab, &program, &scratch, &[]);
    let said = sandboxed(&server);
    let nobody = User::from_name(USER).unwrap().expect("nobody").uid;
    assert_eq!((&said["user"], &said["uid"]), (&json!(USER), &json!(nobody.as_raw())));
    assert_eq!(said["seccomp"], json!({"on": true}), "{said}");
    let (tell, told) = std::sync::mpsc::channel();
    let (look, looked) = std::sync::mpsc::channel::<()>();
    let (port, pid) = (server.port, server.pid());
    let controller = lab.inside("b", move || {
        let name = "10.77.1.1".to_owned();
        let access = Access { name, port, ip: None, bind: None, key: KEY.to_vec() };
        let mut host = Remote::connect(&access).expect("let in");
        let apply = |host: &mut Remote| host.apply(Some(&device()), &settings());
        assert!(apply(&mut host).unwrap().iter().all(|applied| applied.holds()));
        tell.send(()).unwrap();
        looked.recv().unwrap();
        // Another helper is started by who has the right to, and says that the settings are gone.
        kill(helper_of(pid).expect("a helper"), Signal::SIGKILL).unwrap();
        assert_eq!(apply(&mut host).unwrap_err().kind.name(), "helper_lost");
        assert!(apply(&mut host).unwrap().iter().all(|applied| applied.holds()));
        tell.send(()).unwrap();
        looked.recv().unwrap();
        drop(host);
    });
    told.recv().unwrap();
    assert_ne!(snapshot(&lab), before);
    all_threads_say(&server, "Uid", &format!("{nobody}\t{nobody}\t{nobody}\t{nobody}"));
    for field in ["CapPrm", "CapEff", "CapAmb"] {
        all_threads_say(&server, field, "0000000000000000");
    }
    all_threads_say(&server, "Seccomp", "2");
    all_threads_say(&server, "NoNewPrivs", "1");
    assert!(of_threads(&server, "Name").contains_key("agent"), "its controller's thread too");
    let (monitor, helper) = (monitor_of(pid).unwrap(), helper_of(pid).unwrap());
    for pid in [monitor, helper] {
        assert_eq!(status(pid, "Uid"), "0\t0\t0\t0");
        assert_ne!(status(pid, "CapEff"), "0000000000000000");
    }
    look.send(()).unwrap();
    told.recv().unwrap();
    // The server is killed, and nobody else is asked.
    server.signal(Signal::SIGKILL);
    server.ends(LONG).expect("killed");
    comes_back(&lab, &before, "the server was killed");
    look.send(()).unwrap();
    controller.join().unwrap();
    let gone = || kill(monitor, None).is_err();
    assert!(wait_for(LONG, gone), "its monitor ends with it");
}

#[test]
fn a_controlled_host_runs_tests_of_every_kind_and_finds_names() {
    let _alone = alone();
    if !Lab::possible("a_controlled_host_runs_tests_of_every_kind_and_finds_names") {
        return;
    }
    let (lab, program, scratch) = (Lab::pair(), Program::copy(), Scratch::new("kinds"));
    let key = scratch.path("key");
    let far = Server::start(Some(&lab.space("b")), &["--key-file", &key]);
    let server = serve(&lab, &program, &scratch, &[]);
    let tests = [("10.77.1.2", far.port), ("localhost", server.port)];
    let traffic = || {
        let udp = Traffic::Udp(plans::udp());
        [Traffic::Tcp(plans::tcp()), udp]
            .into_iter()
            .chain([Transport::Tcp, Transport::Udp].map(|way| Traffic::Rr(plans::rr(way))))
    };
    control(&lab, &server, move |host| {
        for (name, port) in tests {
            for traffic in traffic() {
                for direction in [Direction::Forward, Direction::Reverse] {
                    let end = End::Time(Nanos(200_000_000));
                    let plan = TestPlan { traffic: traffic.clone(), direction, end, ..plan() };
                    let test = plans::remote(name, port, plan);
                    let record = host.run_test(&test).expect("a record");
                    assert_eq!(record.error, None, "{test:?}");
                }
            }
        }
    });
}

#[test]
fn commands_are_of_the_user_and_the_owners_reboot_is_roots() {
    let _alone = alone();
    if !Lab::possible("commands_are_of_the_user_and_the_owners_reboot_is_roots") {
        return;
    }
    let (lab, program, scratch) = (Lab::pair(), Program::copy(), Scratch::new("commands"));
    let booted = scratch.path("booted");
    let reboot = format!("--allow-reboot=touch {booted}");
    let server = serve(&lab, &program, &scratch, &["--allow-commands", &reboot]);
    let said = sandboxed(&server);
    assert_eq!((&said["landlock"]["on"], &said["seccomp"]["on"]), (&json!(false), &json!(true)));
    let of_root = scratch.path("of-root");
    let (state, owned) = (scratch.path("state"), of_root.clone());
    control(&lab, &server, move |host| {
        let mut run = |script: &str| {
            let done = host.run_command(&sh(script)).expect("an outcome");
            (done.code, done.out.trim().to_owned(), done.err)
        };
        let nobody = User::from_name(USER).unwrap().expect("nobody");
        assert_eq!(run("id -u").1, nobody.uid.to_string());
        let fields = "CapPrm|CapEff|NoNewPrivs|Seccomp";
        let (_, said, _) = run(&format!("grep -E '^({fields}):' /proc/self/status | cut -f2"));
        let said: Vec<&str> = said.lines().collect();
        assert_eq!(said, ["0000000000000000", "0000000000000000", "1", "2"]);
        // Neither the journal, nor files of root, nor namespaces with rights of their own.
        for script in [
            &format!("ls {state}"),
            &format!("touch {owned}"),
            "unshare --user --map-root-user true",
        ] {
            let (code, _, err) = run(script);
            assert!(code != Some(0) && !err.is_empty(), "{script}");
        }
        // What programs do goes on: processes, pipes, files of their own.
        let (code, out, err) =
            run("for i in 1 2 3; do (echo $i & wait); done | sort -r | tr -d '\\n'");
        assert_eq!((code, out.as_str()), (Some(0), "321"), "{err}");
        host.reboot(None).expect("it begins");
        host.ping().expect("it is there");
    });
    assert_eq!(std::fs::metadata(&booted).expect("it was rebooted").uid(), 0);
    assert!(!std::path::Path::new(&of_root).exists());
}

/// Whoever has found a fault in a server may say anything to its monitor.
#[test]
fn a_forbidden_order_is_refused_and_the_monitor_goes_on() {
    let _alone = alone();
    if !Lab::possible("a_forbidden_order_is_refused_and_the_monitor_goes_on") {
        return;
    }
    let (lab, scratch) = (Lab::pair(), Scratch::new("orders"));
    let before = snapshot(&lab);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut monitor = Command::new("ip")
        .args(["netns", "exec", &lab.space("a"), env!("CARGO_BIN_EXE_linerate"), MONITOR_VERB])
        .args(["--state-dir", &scratch.path("state")])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(ours.try_clone().unwrap()).lines();
    let mut answer = move || -> Value {
        serde_json::from_str(&answers.next().expect("an answer").unwrap()).expect("JSON")
    };
    assert!(answer()["reply"]["restored"].is_object());
    let say = |line: &[u8]| (&ours).write_all(&[line, b"\n"].concat());
    let mtu = br#"{"apply":{"device":"eth0","setting":{"name":"mtu","value":9000}}}"#;
    say(mtu).unwrap();
    assert_eq!(answer()["reply"]["applied"][0]["outcome"], "set");
    for line in [
        &br#"{"apply":{"device":"../../etc","setting":{"name":"mtu","value":9000}}}"#[..],
        br#"{"apply":{"device":null,"setting":{"name":"sysctl.kernel.core_pattern","value":"|/bin/sh"}}}"#,
        br#"{"apply":{"device":null,"setting":{"name":"sysctl.net.core.../x","value":1}}}"#,
        br#"{"apply":{"device":"eth0","setting":{"name":"mtu","value":1}}}"#,
        br#"{"command":{"argv":["sh"],"limit_ms":1,"keep_octets":1}}"#,
        br#"{"reboot":{"command":["sh"]}}"#,
        br#""reboot""#,
        br#"{"read":{"device":null,"names":["mtu"]}}"#,
        b"",
        b"\xff\xfe\x00",
        &b"[".repeat(60_000),
    ] {
        say(line).unwrap();
        let told = answer();
        let shown = String::from_utf8_lossy(line).chars().take(100).collect::<String>();
        assert_eq!(told["reply"]["failed"]["kind"], "policy", "{shown}: {told}");
    }
    // It was not put out by that, and nothing was put back.
    assert!(lab.run("a", "ip link show eth0").contains("mtu 9000"));
    say(br#""ping""#).unwrap();
    assert_eq!(answer()["reply"], "done");
    // No end of a line: nothing more is understood, and everything is put back.
    let _ = (&ours).write_all(&b" ".repeat(1 << 20));
    let _ = ours.shutdown(Shutdown::Write);
    let ended = || monitor.try_wait().expect("a child").is_some();
    assert!(wait_for(LONG, ended), "it ends");
    assert_eq!(snapshot(&lab), before);
}

#[test]
fn a_monitor_and_a_helper_are_no_commands_for_people() {
    for verb in [MONITOR_VERB, HELPER_VERB] {
        let done = support::linerate(None, &[verb, "--state-dir", "/nonexistent"]);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains("no command for people"), "{}", done.err);
    }
}

#[test]
fn a_whole_campaign_sets_a_host_whose_server_is_another_user() {
    const TEST: &str = "a_whole_campaign_sets_a_host_whose_server_is_another_user";
    let _alone = alone();
    if !Lab::possible(TEST) {
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        return skip(TEST, "not root");
    }
    let (lab, program, scratch) = (Lab::pair(), Program::copy(), Scratch::new("campaign"));
    let before = snapshot(&lab);
    let far = Server::start(Some(&lab.space("b")), &[]);
    let server = serve(&lab, &program, &scratch, &[]);
    let plan = format!(
        r#"
name = "apart"
[repeat]
warmup = 0
runs = 2
[hosts.dut]
address = "10.77.1.1"
port = {}
key_file = "key"
[hosts.sink]
address = "10.77.1.2"
port = {}
[defaults]
test = "tcp"
from = "dut"
to = "sink"
time = "200ms"
interval = "100ms"
[settings.small]
set.dut = {{ mtu = 1400, offload.tx-checksum = false }}
[settings.large]
set.dut = {{ mtu = 9000, qdisc = "pfifo" }}
"#,
        server.port, far.port
    );
    std::fs::write(scratch.path("c.toml"), plan).unwrap();
    let out = Command::new("ip")
        .args(["netns", "exec", &lab.space("b"), env!("CARGO_BIN_EXE_linerate")])
        .args(["campaign", "run", "c.toml", "--json"])
        .current_dir(&scratch.0)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    let document: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!((&document["done"], &document["total"]), (&json!(4), &json!(4)), "{document}");
    assert!(document["lost"].as_u64().is_none_or(|lost| lost == 0), "{document}");
    let ended = || server.log().contains("control_ended");
    assert!(wait_for(LONG, ended), "{}", server.log());
    assert_eq!(snapshot(&lab), before);
    assert!(child_of(Pid::from_raw(server.pid() as i32), MONITOR_VERB).is_some());
}
