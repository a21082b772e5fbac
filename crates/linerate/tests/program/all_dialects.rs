//! A server of every dialect at once, and how a client that did not name one learns which to name.

use std::time::Duration;

use crate::support::{Server, alone, free_port, linerate, wait_for};
use linerate_model::plan::Dialect;

const HANGS: Duration = Duration::from_secs(60);

/// The dialects with ports of their own.
fn doors() -> impl Iterator<Item = Dialect> {
    Dialect::ALL.into_iter().filter(|dialect| dialect.port() != Dialect::Native.port())
}

#[test]
fn one_flag_opens_the_door_of_every_dialect() {
    let _alone = alone();
    let server = Server::start(None, &["--all-dialects"]);
    for dialect in doors() {
        let (name, port) = (dialect.as_ref(), dialect.port());
        let listens = format!(":{port}\",\"dialect\":\"{name}\"");
        assert!(wait_for(HANGS, || server.log().contains(&listens)), "{}", server.log());
        let ran = linerate(None, &["tcp", "127.0.0.1", "--dialect", name, "-t", "200ms", "--json"]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        assert_eq!(ran.record()["agreed"]["dialect"], name);
    }
    // The others as always.
    let port = server.port.to_string();
    let ran = linerate(None, &["udp", "127.0.0.1", "-p", &port, "-k", "5", "-b", "2M", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn a_port_that_is_given_is_the_door() {
    let _alone = alone();
    let port = free_port();
    let server = Server::start(None, &["--all-dialects", &format!("--iperf2={port}")]);
    let listens = format!(":{port}\",\"dialect\":\"iperf2\"");
    assert!(wait_for(HANGS, || server.log().contains(&listens)), "{}", server.log());
    let ran = linerate(None, &["serve", "--all-dialects", "--key-file", "/dev/null"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[test]
fn who_names_no_dialect_learns_which_to_name() {
    let _alone = alone();
    // Elsewhere than where a client looks: only the doors are where it does.
    let server = Server::start(None, &["--all-dialects"]);
    let nobody = free_port().to_string();
    let ran = linerate(None, &["tcp", "127.0.0.1", "-p", &nobody, "-t", "200ms", "--json"]);
    let record = ran.record();
    assert_eq!(record["error"]["kind"], "refused", "{record}");
    let hints = record["error"]["hints"].to_string();
    for dialect in doors() {
        let port = dialect.port();
        let seen =
            format!("something listens there on port {port}, which is {}'s", dialect.program());
        assert_eq!(hints.contains(&seen), dialect.bears_a_look(), "{hints}");
        assert!(hints.contains(&format!("--dialect {}", dialect.as_ref())), "{hints}");
    }
    // A look is no test, and whoever would take it for one was not looked at.
    assert!(!server.log().contains("\"started\""), "{}", server.log());
    drop(server);
    let ran = linerate(None, &["tcp", "127.0.0.1", "-p", &nobody, "-t", "200ms", "--json"]);
    let hints = ran.record()["error"]["hints"].to_string();
    assert!(!hints.contains("something listens"), "{hints}");
    let named = ["tcp", "127.0.0.1", "-p", &nobody, "--dialect", "native", "--json"];
    let hints = linerate(None, &named).record()["error"]["hints"].to_string();
    assert!(!hints.contains("--dialect"), "{hints}");
}
