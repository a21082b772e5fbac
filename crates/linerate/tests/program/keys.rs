//! Keys of single clients and the audit log, as their owners use them: made, listed, revoked, and written while the
//! server has given up all that tests do not need.

use crate::schema;
use linerate_testkit::peer::LONG;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

use crate::support::every_kind::sandboxed;
use crate::support::{Client, Ran, Server, alone, linerate, skip, wait_for};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

/// A directory of its own, gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("linerate-keys-verb-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// `linerate keys …`, with the file of keys.
    fn keys(&self, args: &str) -> Ran {
        let words: Vec<&str> = args.split_whitespace().collect();
        linerate(None, &[&["keys"], &words[..], &["--keys", &self.path("keys.toml")]].concat())
    }

    fn made(&self, name: &str, more: &str) -> String {
        let out = self.path(&format!("{name}.key"));
        let ran = self.keys(&format!("new {name} --out {out} {more}"));
        assert_eq!(ran.code, 0, "{ran:?}");
        out
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn test(server: &Server, key: &str, more: &str) -> Ran {
    let port = server.port.to_string();
    let line = ["udp", "127.0.0.1", "-p", &port, "--key-file", key];
    let more: Vec<&str> = more.split_whitespace().collect();
    linerate(None, &[&line[..], &more].concat())
}

/// Each line of an audit log, and of those before it.
fn lines(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    // The last may not be whole yet.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

fn of<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// Waits until the log has so many lines of a kind.
fn waited(path: &str, event: &str, count: usize) -> Vec<Value> {
    let there = wait_for(LONG, || of(&lines(path), event).len() >= count);
    assert!(there, "{count} times {event}: {:#?}", lines(path));
    lines(path)
}

#[test]
fn keys_are_made_listed_and_revoked() {
    let scratch = Scratch::new("verb");
    let out = scratch.made("ci", "--expires 30d --max-tests 2 --hours 22:00-06:00,12:00-13:00");
    for path in [scratch.path("keys.toml"), out.clone()] {
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{path}");
    }
    let line = fs::read_to_string(&out).unwrap();
    let secret = line.trim_end().rsplit(':').next().unwrap();
    assert!(line.starts_with("linerate-key-1:") && secret.len() == 64, "{line}");
    // To standard output, and nothing else there.
    let ran = scratch.keys("new lab --rights settings");
    assert!(
        ran.code == 0 && ran.out.starts_with("linerate-key-1:") && ran.out.lines().count() == 1
    );
    let file = scratch.path("keys.toml");
    fs::write(&file, format!("# mine\n{}", fs::read_to_string(&file).unwrap())).unwrap();
    let shown = scratch.keys("list");
    assert_eq!(shown.out.lines().count(), 3, "{}", shown.out);
    for words in ["ci", "lab", "holds", "2 tests at once, 22:00-06:00,12:00-13:00"] {
        assert!(shown.out.contains(words), "{words}: {}", shown.out);
    }
    assert!(!shown.out.contains(&secret[..8]), "{}", shown.out);
    assert_eq!(scratch.keys("revoke ci").code, 0);
    assert!(scratch.keys("list").out.contains("revoked"));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# mine\n") && text.contains("revoked = "), "{text}");
    // What is wrong changes nothing, neither here nor at the client's file.
    for (args, why) in [
        ("revoke ci", "revoked already"),
        ("revoke nobody", "not in it"),
        ("new lab --out OUT", "already"),
        ("new two/words --out OUT", "letters"),
        ("new x --expires 2001-01-01 --out OUT", "expired"),
        ("new x --expires soon --out OUT", "2026-12-31"),
        ("new x --rights root --out OUT", "test, control or settings"),
        ("new x --hours 6-7 --out OUT", "22:00-06:00"),
    ] {
        let ran = scratch.keys(&args.replace("OUT", &scratch.path("other.key")));
        assert!(ran.code != 0 && ran.err.contains(why), "{args}: {ran:?}");
        assert!(!fs::exists(scratch.path("other.key")).unwrap(), "{args}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "{args}");
    }
    let over = scratch.keys(&format!("new other --out {out}"));
    assert!(over.code != 0 && over.err.contains("exists"), "{over:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    // A damaged file is shown with its line, and left as it is.
    fs::write(&file, &text[..text.len() - 30]).unwrap();
    let ran = scratch.keys("new other");
    assert!(ran.code == 2 && ran.err.contains("line "), "{ran:?}");
    assert!(!ran.err.contains(&secret[..8]) && ran.out.is_empty(), "{ran:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), &text[..text.len() - 30]);
    // A client's file that was cut is no key.
    fs::write(&out, &line[..40]).unwrap();
    let cut = linerate(None, &["udp", "127.0.0.1", "--key-file", &out]);
    assert!(cut.code == 2 && cut.err.contains("cut or changed"), "{cut:?}");
}

#[test]
fn within_the_sandbox_a_key_is_revoked_and_the_audit_log_says_who_did_what() {
    let _alone = alone();
    let scratch = Scratch::new("sandbox");
    let (ci, lab) = (scratch.made("ci", ""), scratch.made("lab", "--max-rate 2M"));
    let (keys, audit) = (scratch.path("keys.toml"), scratch.path("audit.jsonl"));
    let mut server = Server::start(None, &["--keys", &keys, "--audit-log", &audit]);
    assert_eq!(sandboxed(&server)["seccomp"], json!({"on": true}));
    // An amount, which is sent however long others keep the sender from its core.
    test(&server, &ci, "-b 1M -k 20 --json").complete();
    test(&server, &lab, "-b 1M -t 300ms --json").complete();
    assert_eq!(test(&server, &lab, "-b 3M -t 300ms").code, 3);
    let port = server.port.to_string();
    let running = ["udp", "127.0.0.1", "-p", &port, "--key-file", &ci, "-b", "1M", "-t", "10m"];
    let running = Client::start(None, &running);
    waited(&audit, "started", 3);
    // Before it has begun at both ends it would be refused.
    server.carries(20_000);
    assert_eq!(scratch.keys("revoke ci").code, 0);
    let ended = running.end();
    assert!(ended.code == 1 && ended.err.contains("the key `ci` was revoked"), "{ended:?}");
    let refused = test(&server, &ci, "-b 1M -t 300ms");
    assert!(refused.code == 3 && refused.err.contains("the key `ci` was revoked"), "{refused:?}");
    test(&server, &lab, "-b 1M -t 300ms --json").complete();
    let log = waited(&audit, "ended", 4);
    let schema: Value = serde_json::from_str(&linerate(None, &["schema", "serve"]).out).unwrap();
    for line in &log {
        schema::validate(&schema, line).unwrap_or_else(|e| panic!("{e}: {line}"));
    }
    let whose: Vec<_> = of(&log, "ended").iter().map(|line| line["key"].clone()).collect();
    assert_eq!(whose, ["ci", "lab", "ci", "lab"]);
    assert!(of(&log, "ended")[0]["received"]["bytes"].as_u64().unwrap() > 0);
    assert_eq!(of(&log, "ended")[2]["outcome"], "cut");
    let refused = of(&log, "refused");
    let [budget, revoked] = refused[..] else { panic!("{refused:#?}") };
    assert_eq!((&budget["key"], &budget["kind"]), (&json!("lab"), &json!("policy")));
    assert_eq!(
        (&budget["asked"]["asked_bps"], &budget["asked"]["kind"]),
        (&json!(3_000_000), &json!("udp"))
    );
    assert_eq!((&revoked["key"], &revoked["kind"]), (&json!("ci"), &json!("key")));
    let read: Vec<_> = of(&log, "keys_read").iter().map(|line| line["keys"].clone()).collect();
    assert_eq!(read, [2, 1]);
    assert_eq!(fs::metadata(&audit).unwrap().permissions().mode() & 0o077, 0);
    // The same lines as on standard output, but for the first, which comes before the reader has it.
    let printed = server.log();
    let printed = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    for line in printed {
        assert!(log.contains(&line), "{line}");
    }
    // Another server goes on at the end of the file.
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(server.ends(LONG).is_some(), "it hangs");
    let before = lines(&audit).len();
    let _next = Server::start(None, &["--keys", &keys, "--audit-log", &audit]);
    assert_eq!(waited(&audit, "listening", 2)[before]["event"], "listening");
}

/// Says what no server understands, from one of the loopback's addresses, and waits until it hangs up.
fn junk(from: Ipv4Addr, port: u16) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into()).unwrap();
    let mut stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
    let _ = stream.read(&mut [0; 64]);
}

/// So many refusals, none of which is only counted.
fn flood(port: u16, many: u32) {
    for n in 0..many {
        junk(Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + n / 30), port);
    }
}

#[test]
fn as_another_user_keys_are_read_again_and_the_log_is_rotated() {
    const NAME: &str = "as_another_user_keys_are_read_again_and_the_log_is_rotated";
    if !nix::unistd::geteuid().is_root() {
        return skip(NAME, "not root");
    }
    let _alone = alone();
    let scratch = Scratch::new("user");
    let ci = scratch.made("ci", "");
    let (keys, audit) = (scratch.path("keys.toml"), scratch.path("log/audit.jsonl"));
    fs::create_dir_all(scratch.0.join("log")).unwrap();
    let args = [
        "--user",
        "nobody",
        "--keys",
        &keys,
        "--audit-log",
        &audit,
        "--audit-size",
        "64Ki",
        "--audit-keep",
        "2",
    ];
    let serve = |args: &[&str]| linerate(None, &[&["serve", "--port", "0"], args].concat());
    // It could neither rotate the one nor miss no revocation in the other.
    let ran = serve(&args);
    assert!(ran.code != 0 && ran.err.contains("may not write in"), "{ran:?}");
    let nobody = nix::unistd::User::from_name("nobody").unwrap().expect("nobody");
    chown(scratch.0.join("log"), Some(nobody.uid.as_raw()), None).unwrap();
    let ran = serve(&args);
    assert!(ran.code != 0 && ran.err.contains("cannot read the file of keys"), "{ran:?}");
    chown(&keys, Some(nobody.uid.as_raw()), None).unwrap();
    fs::remove_file(&audit).unwrap();
    let server = Server::start(None, &args);
    test(&server, &ci, "-b 1M -t 100ms --json").complete();
    flood(server.port, 1_500);
    assert!(wait_for(LONG, || fs::exists(format!("{audit}.2")).unwrap()), "it is not rotated");
    // By root, who leaves the file its owner's.
    assert_eq!(scratch.keys("revoke ci").code, 0);
    let refused = test(&server, &ci, "-b 1M -t 100ms");
    assert!(refused.err.contains("was revoked"), "{refused:?}");
    let whole = || {
        let files = [format!("{audit}.2"), format!("{audit}.1"), audit.clone()];
        files.iter().flat_map(|file| lines(file)).collect::<Vec<_>>()
    };
    assert!(wait_for(LONG, || of(&whole(), "keys_read").iter().any(|l| l["keys"] == 0)));
    for file in [&audit, &format!("{audit}.1"), &format!("{audit}.2")] {
        assert!(fs::metadata(file).unwrap().len() <= 64 << 10, "{file}");
    }
    assert!(!fs::exists(format!("{audit}.3")).unwrap(), "more than two are kept");
}

#[test]
fn a_full_disk_holds_nobody_up_and_what_is_missing_is_counted() {
    const NAME: &str = "a_full_disk_holds_nobody_up_and_what_is_missing_is_counted";
    if !nix::unistd::geteuid().is_root() {
        return skip(NAME, "not root");
    }
    let _alone = alone();
    let (scratch, beside) = (Scratch::new("full"), Scratch::new("full-said"));
    let said = beside.path("stderr");
    let at = scratch.0.display().to_string();
    let binary = env!("CARGO_BIN_EXE_linerate");
    // A disk of its own that a file fills but for two pages.
    let script = format!(
        "mount -t tmpfs -o size=64k none '{at}' && head -c 56K /dev/zero > '{at}/filler' && exec '{binary}' \"$@\" 2> '{said}'"
    );
    let probe = Command::new("unshare").args(["-m", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        return skip(NAME, "no mount namespace can be made");
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh"]);
    let server = Server::of(command, &["--audit-log", &scratch.path("audit")]);
    let inside = |name: &str| format!("/proc/{}/root{at}/{name}", server.pid());
    flood(server.port, 300);
    let run = || {
        let port = server.port.to_string();
        linerate(None, &["udp", "127.0.0.1", "-p", &port, "-b", "1M", "-t", "100ms", "--json"])
            .complete()
    };
    run();
    let full = || fs::read_to_string(&said).unwrap().contains("cannot be written");
    assert!(wait_for(LONG, full), "{}", fs::read_to_string(&said).unwrap());
    // Half a line is taken back: all of it is JSON.
    assert!(of(&lines(&inside("audit")), "refused").len() > 10);
    let kept = fs::metadata(inside("audit")).unwrap().len();
    assert!(kept <= 8_192, "{kept}");
    fs::remove_file(inside("filler")).unwrap();
    run();
    let log = waited(&inside("audit"), "log_dropped", 1);
    let [dropped] = of(&log, "log_dropped")[..] else { panic!("{log:#?}") };
    assert!(dropped["events"].as_u64().unwrap() > 0, "{dropped}");
    assert!(dropped["why"].as_str().unwrap().contains("No space left"), "{dropped}");
    waited(&inside("audit"), "ended", 1);
}

/// A file of budgets: this host may test in hours that begin and end so many hours from now.
fn in_hours(from: i64, to: i64) -> String {
    let hour = |hours| {
        let at = jiff::Zoned::now() + jiff::SignedDuration::from_hours(hours);
        at.strftime("%H:%M").to_string()
    };
    format!("[[network]]\ncidr = \"127.0.0.0/8\"\nhours = \"{}-{}\"\n", hour(from), hour(to))
}

#[test]
fn a_networks_budget_holds_for_clients_of_every_dialect() {
    let _alone = alone();
    let scratch = Scratch::new("dialects");
    let (budgets, audit) = (scratch.path("keys.toml"), scratch.path("audit.jsonl"));
    // As `linerate keys` does it: another file takes its place.
    let write = |text: &str| {
        fs::write(scratch.path("part"), text).unwrap();
        fs::rename(scratch.path("part"), &budgets).unwrap();
    };
    write(&in_hours(-2, 2));
    let args = ["--all-dialects", "--budgets", &budgets, "--audit-log", &audit];
    let server = Server::start(None, &args);
    let names = ["native", "iperf3", "iperf2", "netperf", "nuttcp"];
    let line = |name: &'static str, time: &'static str| {
        // On their own ports, which are free in a network of one's own.
        let own = ["-p".to_owned(), server.port.to_string()];
        let own = if ["native", "iperf3"].contains(&name) { own.to_vec() } else { vec![] };
        let words = ["tcp", "127.0.0.1", "--dialect", name, "-t", time].map(str::to_owned);
        [words.to_vec(), own].concat()
    };
    let start = |line: &[String]| {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        Client::start(None, &words)
    };
    let running: Vec<Client> = names.map(|name| start(&line(name, "10m"))).into();
    waited(&audit, "started", names.len());
    write(&in_hours(2, 4));
    let log = waited(&audit, "ended", names.len());
    for end in of(&log, "ended") {
        let why = end["why"].as_str().unwrap_or_default();
        let hours = why.contains("the hours of the network 127.0.0.0/8 are");
        assert!(end["outcome"] == "cut" && hours, "{end}");
    }
    for client in running {
        assert_ne!(client.end().code, 0);
    }
    for (n, name) in (1..).zip(names) {
        assert_ne!(start(&line(name, "1s")).end().code, 0, "{name}");
        let log = waited(&audit, "refused", n);
        let refused = of(&log, "refused")[n - 1];
        let why = refused["why"].as_str().unwrap_or_default();
        assert!(
            refused["kind"] == "policy" && why.contains("it may go on at"),
            "{name}: {refused}"
        );
    }
    // Tests at once, of the network's addresses together.
    write("[[network]]\ncidr = \"127.0.0.0/8\"\nmax-tests = 1\n");
    let holds = start(&line("netperf", "10m"));
    waited(&audit, "started", names.len() + 1);
    for (n, name) in (names.len() + 1..).zip(names) {
        assert_ne!(start(&line(name, "1s")).end().code, 0, "{name}");
        let log = waited(&audit, "refused", n);
        let refused = of(&log, "refused")[n - 1];
        assert_eq!(refused["kind"], "busy", "{name}: {refused}");
    }
    holds.signal(nix::sys::signal::Signal::SIGKILL);
    holds.end();
    waited(&audit, "ended", names.len() + 1);
    for (n, name) in (names.len() + 2..).zip(names) {
        let ran = start(&line(name, "1s")).end();
        assert_eq!(ran.code, 0, "{name}: {ran:?}");
        // A client may be done before the server is, and the next one would find its only place taken.
        waited(&audit, "ended", n);
    }
}

/// The only event of that kind, once it is in the server's log.
fn event(server: &Server, name: &str) -> Value {
    let find = || {
        let log = server.log();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.into_iter().find(|line| line["event"] == name)
    };
    assert!(wait_for(LONG, || find().is_some()), "no {name}: {}", server.log());
    find().unwrap()
}

#[test]
fn bytes_of_the_day_outlast_a_server_that_is_killed() {
    let _alone = alone();
    let scratch = Scratch::new("outlast");
    let key = scratch.made("ci", "--max-bytes-per-day 100000");
    let (keys, state) = (scratch.path("keys.toml"), scratch.path("state"));
    let args = ["--keys", &keys, "--budget-state", &state];
    let server = Server::start(None, &args);
    assert_eq!(event(&server, "sandboxed")["seccomp"]["on"], true);
    let begun = event(&server, "budget_state");
    assert_eq!((&begun["file"], &begun["days"]), (&json!(state), &json!(0)), "{begun}");
    let ran = test(&server, &key, "-n 60000 -l 1000 -b 10M");
    assert_eq!(ran.code, 0, "{ran:?}");
    // It is written within a second, and nothing more after SIGKILL.
    let kept = || fs::read(&state).is_ok_and(|bytes| bytes.windows(7).any(|b| b == b" 60000\n"));
    assert!(wait_for(LONG, kept), "{}", server.log());
    // Another server does not take it over meanwhile.
    let second = linerate(None, &[&["serve", "--port", "0"], &args[..]].concat());
    assert!(second.code != 0 && second.err.contains("another server"), "{second:?}");
    drop(server);
    let server = Server::start(None, &args);
    assert_eq!(event(&server, "budget_state")["days"], 1);
    let ran = test(&server, &key, "-n 40001 -l 1000 -b 10M");
    assert!(ran.err.contains("40000 that the key `ci` has left of its day"), "{ran:?}");
    let ran = test(&server, &key, "-n 40000 -l 1000 -b 10M");
    assert_eq!(ran.code, 0, "{ran:?}");
    // One that ends in order writes a last time.
    server.signal(nix::sys::signal::Signal::SIGTERM);
    let mut server = server;
    assert_eq!(server.ends(LONG), Some(0), "{}", server.log());
    let server = Server::start(None, &args);
    let ran = test(&server, &key, "-n 1000 -l 1000 -b 10M");
    assert!(ran.err.contains("has carried 100000 bytes"), "{ran:?}");
    drop(server);
    // A damaged file is survived, and told.
    fs::write(&state, "linerate-budgets-1 and not what it was").unwrap();
    let server = Server::start(None, &args);
    let begun = event(&server, "budget_state");
    assert!(begun["why"].as_str().is_some_and(|why| why.contains("damaged")), "{begun}");
    assert_eq!(test(&server, &key, "-n 40000 -l 1000 -b 10M").code, 0);
    drop(server);
    // And one that cannot be had by itself is told, where budgets have bytes.
    let server = Server::start(None, &["--keys", &keys]);
    let begun = event(&server, "budget_state");
    assert!(begun["file"].is_null() && begun["why"].is_string(), "{begun}");
    let ran =
        linerate(None, &["serve", "--port", "0", "--keys", &keys, "--budget-state", "/proc/x"]);
    assert!(ran.code != 0 && ran.err.contains("--budget-state FILE"), "{ran:?}");
}
