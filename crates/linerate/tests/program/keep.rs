//! What `--save`, `--label` and `--title` keep.

use crate::support;

use crate::support::{Server, alone, linerate};
use serde_json::Value;

/// A folder of this test's own, removed with all in it.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("linerate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        Self(dir)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn read(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("JSON")
}

#[test]
fn a_record_is_kept_beside_what_is_shown() {
    let _alone = alone();
    let folder = Folder::new("kept");
    let server = Server::start(None, &[]);
    let port = server.port.to_string();
    let base = ["127.0.0.1", "-p", &port, "-t", "200ms"];
    for (verb, more) in [("udp", &["-b", "5M"][..]), ("tcp", &[]), ("rr", &[])] {
        let file = folder.file(&format!("{verb}.json"));
        let named = ["--save", &file, "--label", "before", "--title", "A first look"];
        let ran = linerate(None, &[&[verb], &base[..], more, &named[..]].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.starts_with("A first look"), "{}", ran.out);
        let record = read(&file);
        support::identities(&record);
        assert_eq!(
            (&record["label"], &record["title"]),
            (&"before".into(), &"A first look".into())
        );
        // A second result does not cost the first, and nothing is measured for it.
        let again = linerate(None, &[&[verb], &base[..], more, &["--save", &file]].concat());
        assert_eq!(again.code, 1, "{}", again.out);
        assert!(again.err.contains("would be lost"), "{}", again.err);
        assert_eq!(read(&file), record);
    }
    let nowhere = folder.file("no/such/place.json");
    let ran = linerate(None, &[&["tcp"], &base[..], &["--save", &nowhere]].concat());
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("cannot keep the result"), "{}", ran.err);

    // JSON on the screen and the file are one record; a set whose runs have one name has that.
    let file = folder.file("both.json");
    let args = ["--json", "--save", &file, "--label", "after"];
    let ran = linerate(None, &[&["udp"], &base[..], &["-b", "5M"], &args[..]].concat());
    assert_eq!(ran.record(), read(&file));
    let sets: Vec<String> = ["before", "after"]
        .iter()
        .map(|label| {
            let set = folder.file(&format!("set-{label}.json"));
            let source = if *label == "before" { folder.file("udp.json") } else { file.clone() };
            let mut record = read(&source);
            // Four runs, so four ids.
            let runs = (0..4).map(|run| {
                record["id"] = format!("run-{run}").into();
                record.to_string()
            });
            std::fs::write(&set, runs.collect::<String>()).expect("a set");
            set
        })
        .collect();
    let ran = linerate(None, &["compare", &sets[0], &sets[1], "--boots", "none", "--json"]);
    let document: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.err));
    let text = document.to_string();
    assert!(text.contains("\"before\"") && text.contains("\"after\""), "{text}");
    assert!(!text.contains("set-before"), "{text}");
}
