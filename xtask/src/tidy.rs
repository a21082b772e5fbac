//! What holds the house up: one direction of dependency, one place for `unsafe`, pure crates.

use std::path::Path;

use crate::{list, metadata, root, text};

/// Which of our crates each may use. A crate that is not here is a fault: put it in on purpose.
const MAY_USE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("stats", &["model"]),
    ("wire", &["model"]),
    ("engine", &["model"]),
    ("host", &["model"]),
    ("session", &["model", "stats", "wire"]),
    ("dialect", &["model", "wire", "session"]),
    ("analysis", &["model", "stats"]),
    ("report", &["model", "stats", "analysis"]),
    ("doctor", &["model"]),
    ("watch", &["model", "wire", "report"]),
    ("data", &["model", "wire", "session", "dialect", "engine", "host", "stats"]),
    ("runner", &["model", "wire", "session", "dialect", "engine", "host", "data"]),
    ("experiment", &["model", "stats"]),
    ("fleet", &["model", "wire"]),
    ("broker", &["model", "fleet"]),
    ("store", &["model"]),
    ("ask", &["model", "experiment", "runner"]),
    (
        "drive",
        &[
            "model",
            "session",
            "experiment",
            "runner",
            "host",
            "store",
            "analysis",
            "ask",
            "doctor",
            "fleet",
        ],
    ),
    (
        "",
        &[
            "model",
            "stats",
            "wire",
            "session",
            "dialect",
            "analysis",
            "engine",
            "host",
            "report",
            "runner",
            "experiment",
            "store",
            "ask",
            "drive",
            "doctor",
            "fleet",
            "broker",
            "watch",
        ],
    ),
    ("testkit", &["model", "stats", "wire", "session", "dialect", "experiment", "fleet"]),
    ("lab", &[]),
];
/// Tests of any crate may use these too.
const TESTS_MAY_USE: &[&str] = &["testkit", "lab", "wire", "model"];
/// The one crate with `unsafe`.
const UNSAFE: &str = "engine";
/// No clock, no sockets, no files: clippy is told so by a file in each.
const PURE: &[&str] = &[
    "model",
    "stats",
    "wire",
    "session",
    "dialect",
    "analysis",
    "report",
    "experiment",
    "doctor",
    "watch",
    "fleet",
];
const BANS: &[&str] =
    &["Instant::now", "SystemTime::now", "thread::sleep", "UdpSocket", "TcpStream", "fs::File"];
/// Paths of some machine; cut in two so that this file does not hold them.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/tmp/", "wt"), concat!("/ho", "me/"), concat!("/ro", "ot/")];

pub fn run() -> Result<String, Vec<String>> {
    let metadata = metadata(&["--no-deps"])?;
    let mut faults = dependencies(&metadata);
    faults.extend(crate::crates::faults(&metadata));
    faults.extend(attributes());
    faults.extend(lines()?);
    faults.extend(crate::numbers::faults(&root()));
    faults.extend(crate::proofs::faults(&root()));
    faults.extend(crate::links::faults(&root()));
    if faults.is_empty() {
        Ok(format!("{} crates, one direction of dependency, unsafe in one", MAY_USE.len()))
    } else {
        Err(faults)
    }
}

fn short(name: &str) -> Option<&str> {
    if name == "linerate" { Some("") } else { name.strip_prefix("linerate-") }
}

fn dependencies(metadata: &serde_json::Value) -> Vec<String> {
    let mut faults = vec![];
    for package in list(&metadata["packages"]) {
        let name = text(&package["name"]);
        let Some(short_name) = short(name) else { continue };
        let Some((_, allowed)) = MAY_USE.iter().find(|(of, _)| *of == short_name) else {
            faults.push(format!("{name} is not in the table of dependencies (xtask/src/tidy.rs)"));
            continue;
        };
        for dependency in list(&package["dependencies"]) {
            let Some(used) = short(text(&dependency["name"])) else { continue };
            let in_tests = text(&dependency["kind"]) == "dev" && TESTS_MAY_USE.contains(&used);
            if !allowed.contains(&used) && !in_tests {
                faults.push(format!("{name} must not depend on linerate-{used}"));
            }
        }
    }
    faults
}

fn attributes() -> Vec<String> {
    let mut faults = vec![];
    for (name, _) in MAY_USE {
        let folder = match *name {
            "" => "linerate".to_owned(),
            name => format!("linerate-{name}"),
        };
        let folder = root().join("crates").join(folder);
        let roots: Vec<_> = ["src/lib.rs", "src/main.rs"]
            .iter()
            .filter_map(|file| std::fs::read_to_string(folder.join(file)).ok())
            .collect();
        if roots.is_empty() {
            faults.push(format!("{} has no source", folder.display()));
        }
        if *name != UNSAFE && !roots.iter().all(|s| s.contains("#![forbid(unsafe_code)]")) {
            faults.push(format!("{} must say #![forbid(unsafe_code)]", folder.display()));
        }
        if PURE.contains(name) {
            let bans = std::fs::read_to_string(folder.join("clippy.toml")).unwrap_or_default();
            for ban in BANS.iter().filter(|ban| !bans.contains(**ban)) {
                faults.push(format!("{}/clippy.toml must ban {ban}", folder.display()));
            }
        }
    }
    faults
}

/// No file that is kept names a folder of the machine it was written on, and no pure crate a file.
fn lines() -> Result<Vec<String>, Vec<String>> {
    let out = std::process::Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .map_err(|e| vec![format!("git ls-files: {e}")])?;
    let mut faults = vec![];
    for name in out.stdout.split(|b| *b == 0).filter(|name| !name.is_empty()) {
        let name = String::from_utf8_lossy(name);
        let Ok(content) = std::fs::read(root().join(Path::new(&*name))) else { continue };
        let content = String::from_utf8_lossy(&content);
        for (number, line) in content.lines().enumerate() {
            if let Some(path) = MACHINE_PATHS.iter().find(|path| line.contains(**path)) {
                faults.push(format!("{name}:{}: the path {path} of some machine", number + 1));
            }
            if is_pure(&name) && line.contains(concat!("fs", "::")) {
                faults.push(format!("{name}:{}: a pure crate opens no file", number + 1));
            }
        }
    }
    Ok(faults)
}

/// Whether a file is a source of a pure crate.
fn is_pure(name: &str) -> bool {
    let source = name.strip_prefix("crates/linerate-").and_then(|rest| rest.split_once("/src/"));
    source.is_some_and(|(short, _)| PURE.contains(&short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_pure_crates_are_known_as_such() {
        assert!(is_pure("crates/linerate-session/src/flow/mod.rs"));
        assert!(!is_pure("crates/linerate-session/tests/simulated.rs"));
        assert!(!is_pure("crates/linerate-store/src/lib.rs"));
    }

    #[test]
    fn the_tree_is_tidy() {
        assert_eq!(run().err(), None);
    }

    #[test]
    fn a_wrong_direction_is_found() {
        let package = |name: &str, on: &str, kind: Option<&str>| {
            serde_json::json!({ "packages": [
                { "name": name, "dependencies": [{ "name": on, "kind": kind }] } ] })
        };
        let faults = |name, on, kind| dependencies(&package(name, on, kind)).len();
        assert_eq!(faults("linerate-engine", "linerate-session", None), 1);
        assert_eq!(faults("linerate-session", "linerate-engine", None), 1);
        assert_eq!(faults("linerate", "linerate-testkit", None), 1);
        assert_eq!(faults("linerate", "linerate-testkit", Some("dev")), 0);
        assert_eq!(faults("linerate-model", "linerate", None), 1);
        assert_eq!(faults("linerate-session", "linerate-wire", None), 0);
        assert_eq!(faults("linerate-new", "serde", None), 1);
    }
}
