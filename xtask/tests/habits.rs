//! What runs this tree elsewhere and what it says of itself: workflows, recipes, versions, the table of other tools.

use std::path::{Path, PathBuf};
use std::process::Command;

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> String {
    let path = tree().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The files below a folder of the tree, by their names in it.
fn files(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(tree().join(folder)).expect("a folder").flatten();
    let name = |name: std::ffi::OsString| name.to_string_lossy().into_owned();
    let mut files: Vec<_> =
        entries.map(|entry| format!("{folder}/{}", name(entry.file_name()))).collect();
    files.sort();
    files
}

/// What follows each `mark`, to the end of its word.
fn after<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(mark).map(move |(at, _)| {
        let rest = &text[at + mark.len()..];
        rest.split(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c)).next().unwrap_or("")
    })
}

fn manifest() -> toml::Table {
    read("Cargo.toml").parse().unwrap_or_else(|e| panic!("Cargo.toml: {e}"))
}

fn of_workspace(field: &str) -> String {
    manifest()["workspace"]["package"][field].as_str().expect("words").to_owned()
}

#[test]
fn workflows_and_recipes_run_what_is_there() {
    let verbs = read("xtask/src/main.rs");
    let mut texts = files(".github/workflows");
    texts.extend(
        ["justfile", "CONTRIBUTING.md", ".pre-commit-config.yaml", ".ci/run", "docs/releases.md"]
            .map(str::to_owned),
    );
    let folders = ["bench", "crates", "deploy", "docs", "fuzz", "lab", "proofs", "python", "xtask"];
    // These come about when it runs.
    let made = ["fuzz/target", "fuzz/artifacts"];
    for name in texts {
        let text = read(&name);
        for verb in after(&text, "cargo xtask ") {
            assert!(verbs.contains(&format!("[\"{verb}\"")), "{name}: cargo xtask {verb}");
        }
        for line in text.lines().filter(|line| name.ends_with(".yml") && line.contains(" run: ")) {
            let command = line.split_once(" run: ").map_or("", |(_, command)| command);
            let is_plain = !command.starts_with(['|', '"', '\'']);
            assert!(!(is_plain && command.contains(": ")), "{name}: YAML takes it apart: {line}");
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        for word in text.split(|c: char| !is_part(c)) {
            let word = word.trim_end_matches('.');
            let path = word.strip_prefix("./").unwrap_or(word);
            let of_tree = path.split_once('/').is_some_and(|(first, _)| folders.contains(&first));
            if !(of_tree || word == "./test") || made.iter().any(|made| path.starts_with(made)) {
                continue;
            }
            assert!(tree().join(path).exists(), "{name}: there is no {word}");
        }
    }
}

#[test]
fn what_contributing_has_for_a_shell_is_a_recipe() {
    let (justfile, contributing) = (read("justfile"), read("CONTRIBUTING.md"));
    for verb in after(&contributing, "`cargo xtask ") {
        assert!(justfile.contains(&format!("cargo xtask {verb}")), "cargo xtask {verb}");
    }
    // What these read lies in folders beside them.
    let programs = [files("bench"), files("proofs")]
        .concat()
        .into_iter()
        .filter(|file| !file.ends_with(".toml") && tree().join(file).is_file());
    for program in programs.chain(["lab/run".into(), "./test".into()]) {
        assert!(justfile.contains(&format!("    {program}")), "{program}");
    }
}

/// A word that is not known ends them before anything is tried, and is no success.
#[test]
fn proofs_refuse_what_they_do_not_know() {
    for (script, word) in [("proofs/fuzz", "server_message"), ("proofs/sanitizers", "adress")] {
        let out = Command::new(tree().join(script)).arg(word).output().expect("a script");
        assert_eq!(out.status.code(), Some(2), "{script} {word}");
    }
}

#[test]
fn contributing_lists_each_fuzz_target() {
    let contributing = read("CONTRIBUTING.md");
    let (_, list) = contributing.split_once("\n| target | drives |\n").expect("the list");
    for file in files("fuzz/fuzz_targets") {
        let name = Path::new(&file).file_stem().expect("a name").to_string_lossy();
        assert!(list.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn workflows_build_with_the_compiler_that_the_crates_need() {
    let needed = format!("{}.", of_workspace("rust-version"));
    let mut found = 0;
    for name in files(".github/workflows") {
        let text = read(&name);
        for mark in ["toolchain install ", "--default-toolchain ", "rustup default "] {
            for version in after(&text, mark).filter(|version| *version != "nightly") {
                assert!(version.starts_with(&needed), "{name}: {mark}{version}, not {needed}");
                found += 1;
            }
        }
    }
    assert!(found >= 3, "{found}");
}

/// The files of crates are held to it by cargo itself.
#[test]
fn what_is_no_crate_has_the_version_of_the_crates() {
    let version = of_workspace("version");
    for (name, mark) in [
        ("python/pyproject.toml", "\nversion = \""),
        ("deploy/kubernetes/kustomization.yaml", "newTag: "),
        ("deploy/kubernetes/run.yaml", "registry.example/linerate:"),
        ("deploy/kubernetes/agents.yaml", "registry.example/linerate-agent:"),
        ("deploy/kubernetes/enrol.yaml", "registry.example/linerate-agent:"),
        ("deploy/ansible/site.yml", "linerate_package=./linerate_"),
        ("docs/server.md", "linerate_package=./linerate_"),
        ("docs/agents.md", "registry.example/linerate-agent:"),
    ] {
        let text = read(name);
        let found: Vec<_> = after(&text, mark).collect();
        assert!(!found.is_empty(), "{name}: {mark}");
        let other = found.iter().find(|found| found.split('_').next() != Some(version.as_str()));
        assert_eq!(other, None, "{name}: {mark}, not {version}");
    }
}

/// What the others do is told on one page; what linerate does, on a page for each, or in bold that it does not.
#[test]
fn each_row_of_the_table_of_tools_leads_to_its_proof() {
    let readme = read("README.md");
    let (_, table) = readme.split_once("\n| | linerate | iperf3 |").expect("the table");
    let rows: Vec<_> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 7, "{row}");
        assert!(cells[0].starts_with('[') && cells[0].contains("](docs/peers.md#"), "{row}");
        let lacks = cells[1].starts_with("**") && cells[1].ends_with("**");
        assert!(lacks || cells[1].contains("](docs/"), "{row}");
    }
}
