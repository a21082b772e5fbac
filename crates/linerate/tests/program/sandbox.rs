//! What a server gives up at its start, and that tests of every kind go on all the same.

use crate::support::every_kind::{all_threads_say, every_kind, of_threads, sandboxed};
use crate::support::{Server, alone, linerate, skip};
use serde_json::json;

#[test]
fn tests_of_every_kind_go_on_within_the_sandbox() {
    let _alone = alone();
    let server = Server::start(None, &["--iperf2"]);
    let said = sandboxed(&server);
    assert_eq!(said["seccomp"], json!({"on": true}), "{said}");
    assert_eq!(said["uid"], nix::unistd::geteuid().as_raw());
    assert!(said["user"].is_null(), "{said}");
    every_kind(&server);
    all_threads_say(&server, "Seccomp", "2");
    all_threads_say(&server, "NoNewPrivs", "1");
}

#[test]
fn tests_of_every_kind_go_on_as_another_user() {
    if !nix::unistd::geteuid().is_root() {
        skip("tests_of_every_kind_go_on_as_another_user", "not root");
        return;
    }
    let _alone = alone();
    let server = Server::start(None, &["--user", "nobody", "--iperf2"]);
    let said = sandboxed(&server);
    let nobody = nix::unistd::User::from_name("nobody").unwrap().expect("nobody").uid;
    assert_eq!((&said["user"], &said["uid"]), (&json!("nobody"), &json!(nobody.as_raw())));
    every_kind(&server);
    let uid = format!("{nobody}\t{nobody}\t{nobody}\t{nobody}");
    all_threads_say(&server, "Uid", &uid);
    for field in ["CapPrm", "CapEff", "CapAmb"] {
        all_threads_say(&server, field, "0000000000000000");
    }
    // Not root's groups, which a change of the user alone would leave.
    let groups = of_threads(&server, "Groups");
    let kept = |groups: &String| groups.split_whitespace().any(|group| group == "0");
    assert!(!groups.values().any(kept), "{groups:?}");
}

#[test]
fn a_server_that_could_not_serve_as_the_user_ends_at_its_start() {
    let _alone = alone();
    // UDP streams bind the server's port while it serves, which is root's here.
    let of_root = ["--port", "701", "--user", "nobody"];
    for (args, why) in
        [(["--port", "0", "--user", "no-such-user"], "no such user"), (of_root, "may not bind")]
    {
        let ran = linerate(None, &[&["serve"], &args[..]].concat());
        assert!(
            ran.code > 0 && ran.err.contains("error: cannot") && ran.err.contains(why),
            "{ran:?}"
        );
    }
}

#[test]
fn without_a_sandbox_nothing_is_taken_and_the_server_says_so() {
    let _alone = alone();
    let server = Server::start(None, &["--no-sandbox"]);
    let said = sandboxed(&server);
    let off = json!({"on": false, "why": "--no-sandbox"});
    assert_eq!((&said["landlock"], &said["seccomp"]), (&off, &off));
    all_threads_say(&server, "Seccomp", "0");
}
