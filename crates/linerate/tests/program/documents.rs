//! Every document that a verb prints is one of its schema.

use crate::schema;
use crate::support;
use linerate_testkit::peer::LONG;

use std::path::PathBuf;

use crate::support::{Server, alone, linerate};
use serde_json::Value;

/// What `linerate schema NAME` prints.
fn schema_of(name: &str) -> Value {
    let ran = linerate(None, &["schema", name]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).expect("JSON")
}

fn fits(name: &str, value: &Value) {
    schema::validate(&schema_of(name), value).unwrap_or_else(|e| panic!("{name}: {e}\n{value}"));
}

/// One document.
fn document(name: &str, code: i32, args: &[&str]) -> Value {
    let ran = linerate(None, args);
    assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
    let value = serde_json::from_str(&ran.out)
        .unwrap_or_else(|e| panic!("{args:?} prints no document: {e}\n{}", ran.out));
    fits(name, &value);
    value
}

/// Lines, and the events they tell of.
fn lines(name: &str, code: i32, args: &[&str]) -> Vec<String> {
    let ran = linerate(None, args);
    assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
    each_line(name, &ran.out)
}

fn each_line(name: &str, text: &str) -> Vec<String> {
    let schema = schema_of(name);
    let mut events = Vec::new();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        schema::validate(&schema, &value).unwrap_or_else(|e| panic!("{name}: {e}\n{line}"));
        events.push(value["event"].as_str().unwrap_or_default().to_owned());
    }
    events
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("documents-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn tests_and_their_server() {
    let _alone = alone();
    let server = Server::start(None, &[]);
    let port = server.port.to_string();
    let to = ["127.0.0.1", "-p", &port, "-t", "300ms", "-i", "100ms"];
    for (verb, more) in [
        ("udp", &["-b", "5M"][..]),
        ("udp", &["-b", "5M", "--both"]),
        ("tcp", &["-R"]),
        ("rr", &[]),
    ] {
        let args = [&[verb], &to[..], more].concat();
        document("run", 0, &[&args[..], &["--json"]].concat());
        let events = lines("run-line", 0, &[&args[..], &["--json-lines"]].concat());
        assert_eq!(events.first().map(String::as_str), Some("start"), "{events:?}");
        assert_eq!(events.last().map(String::as_str), Some("end"), "{events:?}");
    }
    let told = support::wait_for(LONG, || server.log().matches("\"ended\"").count() >= 8);
    assert!(told, "{}", server.log());
    each_line("serve", &server.log());
    // A test that reached no server has a record, and wrong words have none.
    drop(server);
    document("run", 3, &[&["udp"], &to[..], &["--json"]].concat());
    document("error", 2, &["udp", "--json", "--no-such-option"]);
    assert_eq!(lines("run-line", 2, &["udp", "--json-lines", "--no-such-option"]), ["end"]);
    assert_eq!(lines("sweep-line", 2, &["sweep", "--json-lines", "--no-such-option"]), ["end"]);
    assert_eq!(lines("search-line", 2, &["search", "--json-lines", "--no-such-option"]), ["end"]);
}

#[test]
fn a_watched_host() {
    let args = ["watch", "-i", "100ms", "-n", "2", "--json-lines"];
    assert_eq!(lines("watch-line", 0, &args), ["start", "activity", "activity"]);
}

#[test]
fn keys() {
    let folder = folder("keys");
    let file = folder.join("keys.toml").display().to_string();
    let new = ["keys", "new", "ci", "--keys", &file, "--max-rate", "1G", "--hours", "22:00-06:00"];
    assert_eq!(linerate(None, &new).code, 0);
    assert_eq!(linerate(None, &["keys", "new", "lab", "--keys", &file]).code, 0);
    assert_eq!(linerate(None, &["keys", "revoke", "lab", "--keys", &file]).code, 0);
    let value = document("keys", 0, &["keys", "list", "--keys", &file, "--json"]);
    assert_eq!(
        (&value["keys"][0]["state"], &value["keys"][1]["state"]),
        (&"holds".into(), &"revoked".into())
    );
    assert_eq!(value["keys"][0]["max_rate_bps"], 1_000_000_000);
}

#[test]
fn experiments() {
    let _alone = alone();
    let sweep = ["sweep", "--local", "--rates", "1M,2M", "-t", "100ms", "--label", "small"];
    let value = document("sweep", 0, &[&sweep[..], &["--json"]].concat());
    assert_eq!(value["label"], "small");
    let events = lines("sweep-line", 0, &[&sweep[..], &["--json-lines"]].concat());
    // A trial that other work spoiled is made again.
    let [first, trials @ .., last] = &events[..] else { panic!("{events:?}") };
    assert!(first == "start" && last == "end" && trials.len() >= 2, "{events:?}");
    assert!(trials.iter().all(|event| event == "trial"), "{events:?}");
    let search = ["search", "--local", "--max", "8M", "--goal", "loss=50%,time=100ms,sum=200ms"];
    let named = ["--label", "small", "--title", "A small search"];
    let value = document("search", 0, &[&search[..], &named, &["--json"]].concat());
    assert_eq!((&value["label"], &value["title"]), (&"small".into(), &"A small search".into()));
    let events = lines("search-line", 0, &[&search[..], &["--json-lines"]].concat());
    assert_eq!(events.last().map(String::as_str), Some("end"));
    assert!(events.iter().any(|event| event == "trial"), "{events:?}");
}

#[test]
fn comparisons_and_campaigns() {
    let folder = folder("campaign");
    let at = |name: &str| folder.join(name).display().to_string();
    for (name, values) in [("a.stat", "1\n2\n3\n4\n5\n"), ("b.stat", "11\n12\n13\n14\n15\n")] {
        std::fs::write(at(name), values).expect("a file");
    }
    document("compare", 0, &["compare", &at("a.stat"), &at("b.stat"), "--json"]);
    let plan = "name = \"small\"\n[repeat]\nruns = 3\n[defaults]\nmetric = { column = 1 }\n\
                [settings.a]\ncommand = \"echo 10\"\n[settings.b]\ncommand = \"echo 20\"\n";
    for name in ["one.toml", "two.toml"] {
        std::fs::write(at(name), plan).expect("a file");
    }
    let (one, two) = (at("one.toml"), at("two.toml"));
    let value = document("campaign", 0, &["campaign", "run", &one, "--json"]);
    assert_eq!(value["runs"].as_array().map(Vec::len), value["done"].as_u64().map(|n| n as usize));
    let events = lines("campaign", 0, &["campaign", "run", &two, "--json-lines"]);
    assert!(events.iter().any(|event| event == "campaign"), "{events:?}");
    assert_eq!(events.last().map(String::as_str), Some("end"), "{events:?}");
    document("campaign-status", 0, &["campaign", "status", &one, "--json"]);
    let exported = ["campaign", "export", &one, "--format", "json-lines"];
    assert_eq!(
        lines("campaign-export", 0, &exported).len(),
        value["done"].as_u64().unwrap() as usize
    );
    document("compare", 0, &["compare", &at("one.db"), "--json"]);
}
