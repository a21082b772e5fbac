//! `linerate fleet` with a real server of PostgreSQL as the place of its results.

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use linerate_store::Place;
use linerate_testkit::peer::LONG;
use linerate_testkit::postgres::{PASSWORD, Postgres};
use serde_json::Value;

use crate::fleet::{document, host, path, scratch};
use crate::fleet_schedule::is_ended_from_elsewhere;
use crate::support::{Client, Ran, Server, alone, certificate, linerate, wait_for};
use crate::web::Shown;

const TEST: [&str; 5] = ["udp", "-b", "5M", "-t", "300ms"];

/// Three hosts of this machine, and a database.
struct World {
    servers: [Server; 3],
    database: Postgres,
    folder: PathBuf,
}

impl World {
    fn new(test: &str) -> Option<Self> {
        let database = Postgres::start(test)?;
        let folder = scratch(test);
        let servers = ["one", "two", "three"].map(|name| host(&folder, name, true));
        Some(Self { servers, database, folder })
    }

    fn words(&self, verb: &str, more: &[&str]) -> Vec<String> {
        let hosts = self.servers.each_ref().map(|s| format!("127.0.0.1:{}", s.port)).join(",");
        let (key, keep) = (path(&self.folder, "key"), self.database.address());
        let before = ["fleet", verb, "--hosts", &hosts, "--key-file", &key, "--keep", &keep];
        [&before[..], more, &TEST].concat().into_iter().map(str::to_owned).collect()
    }

    fn start(&self, verb: &str, more: &[&str]) -> Client {
        let words = self.words(verb, more);
        Client::start(None, &words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn kept(&self) -> Value {
        let ran = linerate(None, &["fleet", "results", &self.database.address(), "--json"]);
        serde_json::from_str(&ran.out).unwrap_or_default()
    }
}

fn values(value: &Value) -> Vec<Option<f64>> {
    let pairs = value["pairs"].as_array().cloned().unwrap_or_default();
    let of = |pair: &Value| pair["values"].as_array().cloned().unwrap_or_default();
    pairs.iter().flat_map(of).map(|value| value.as_f64()).collect()
}

fn silent(ran: &Ran) {
    assert!(!ran.out.contains(PASSWORD) && !ran.err.contains(PASSWORD), "{}{}", ran.out, ran.err);
}

/// The server of the database is killed twice while results come; then the run is gone on with. Runs that are killed as
/// well: `agents::results_and_leases_are_in_a_database_whoever_is_killed`, without the time of a lease.
#[test]
fn a_run_waits_for_a_database_that_was_killed_and_is_gone_on_with() {
    let _alone = alone();
    let Some(mut world) = World::new("database") else { return };
    let first = world.start("run", &["--times", "3", "--json"]);
    let measured = |world: &World| values(&world.kept()).iter().flatten().count();
    for wanted in [1, 3] {
        assert!(wait_for(LONG, || measured(&world) >= wanted), "nothing is kept");
        world.database.again();
    }
    let first = first.end();
    assert_eq!(first.code, 0, "{}\n{}", first.err, first.out);
    silent(&first);
    let before = document(&first);
    assert_eq!(world.kept(), before);
    let before = values(&before);
    assert_eq!(before.iter().flatten().count(), 9, "{}", first.out);
    let resume = || world.start("run", &["--resume", "--times", "4", "--json"]).end();
    let held = Place::from(OsString::from(world.database.address())).open().expect("it ended");
    let refused = resume();
    assert_eq!(refused.code, 1, "{}", refused.err);
    let words = "another process works on postgres://linerate:***@";
    assert!(refused.err.contains(words) || refused.out.contains(words), "{}", refused.err);
    drop(held);
    let ran = resume();
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    silent(&ran);
    let value = document(&ran);
    let after = values(&value);
    assert_eq!(after.iter().flatten().count(), 12, "{value}");
    // Of each pair those of before, and one more.
    for (before, after) in before.chunks(3).zip(after.chunks(4)) {
        assert_eq!(before, &after[..3]);
    }
    assert_eq!(world.kept()["pairs"], value["pairs"]);
    // One a result, none lost and none doubled, as the server itself counts them.
    let counted = "SELECT count(*), count(DISTINCT slot), (SELECT runs FROM linerate.head)
        FROM linerate.run WHERE state = 'counted'";
    assert!(world.database.ask(counted).starts_with("12|12|"), "{}", world.database.ask(counted));

    let shown = Shown::start(&["fleet", "serve", &world.database.address()]);
    let page = shown.get("/TOKEN/");
    assert!(page.contains("every pair has had its turn"), "{page}");
    let record = shown.get("/TOKEN/record-1");
    assert!(record.contains("\"status\":\"complete\""), "{record}");
    let report = shown.get("/TOKEN/report-1");
    assert!(report.contains("<title>linerate report: "), "{report}");
    assert!([page, record, report].iter().all(|answer| !answer.contains(PASSWORD)));
    shown.interrupt();
    assert_eq!(shown.end().0, 0);
    let dumped = world.database.ask("SELECT value FROM linerate.meta");
    assert!(dumped.contains("postgres://linerate:***@") && !dumped.contains(PASSWORD), "{dumped}");
}

#[test]
fn a_schedule_is_begun_and_gone_on_with_by_the_same_words() {
    let _alone = alone();
    let Some(world) = World::new("scheduled") else { return };
    let more = ["--every", "1d", "--for", "1s", "--resume"];
    for _ in 0..2 {
        let ran = world.start("schedule", &more).end();
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    }
    let again = world.start("schedule", &["--every", "1d", "--for", "1s"]).end();
    assert_eq!(again.code, 1, "{}", again.err);
    assert!(again.err.contains("is there already"), "{}", again.err);
    assert!(again.err.contains("--resume goes on with it"), "{}", again.err);
    let words = world.words("schedule", &["--every", "1d", "--resume"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    is_ended_from_elsewhere(&words, &world.database.address());
    world.database.ask("UPDATE linerate.head SET version = 2");
    let other = world.start("schedule", &more).end();
    assert!(
        other.err.contains("has schema 2, and this version of linerate knows 1"),
        "{}",
        other.err
    );
    assert!(other.err.contains("give another file or database"), "{}", other.err);
}

/// Of a command with variables, its words on standard error.
fn said(address: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(["fleet", "results", address]).stdin(Stdio::null());
    command.env_remove("PGPASSWORD").env_remove("PGSSLROOTCERT").env("PGPASSFILE", "/dev/null");
    let ran = command.envs(variables.iter().copied()).output().expect("it starts");
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

#[test]
fn a_password_comes_from_elsewhere_and_certificates_are_believed_as_they_are_named() {
    let _alone = alone();
    let folder = scratch("secrets");
    let [own, key, ca] = certificate(&folder, "127.0.0.1");
    let settings = ["ssl=on", "ssl_cert_file=own.pem", "ssl_key_file=own.key"];
    let Some(database) = Postgres::with_files("secrets", &settings, &[&own, &key]) else { return };
    let there = "no results are kept in it yet";
    let address = database.address().replace(&format!(":{PASSWORD}"), "");
    assert!(said(&address, &[]).contains("password missing"), "{}", said(&address, &[]));
    let by_variable = said(&address, &[("PGPASSWORD", PASSWORD)]);
    assert!(by_variable.contains(there), "{by_variable}");
    let file = path(&folder, "passwords");
    std::fs::write(&file, format!("127.0.0.1:*:postgres:linerate:{PASSWORD}\n")).expect("a file");
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("it is ours");
    let by_file = said(&address, &[("PGPASSFILE", &file)]);
    assert!(by_file.contains(there), "{by_file}");

    let tls = format!("{}?sslmode=require", database.address());
    let strange = said(&tls, &[]);
    assert!(strange.contains("TLS") && strange.contains("certificate"), "{strange}");
    let believed = said(&tls, &[("PGSSLROOTCERT", &ca)]);
    assert!(believed.contains(there), "{believed}");
    let far = said("postgres://a@192.0.2.1/d?sslmode=disable", &[]);
    assert!(far.contains("without TLS only a server on this host is used"), "{far}");
    for said in [by_variable, by_file, strange, believed] {
        assert!(!said.contains(PASSWORD), "{said}");
    }
}
