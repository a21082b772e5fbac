//! `cargo xtask crates`: what a registry asks of each crate before it takes it, as far as that can be seen without one.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{list, metadata, root, text};

/// What only this tree uses.
const KEPT_HERE: &[&str] = &["linerate-lab", "linerate-testkit", "xtask"];
/// What each package must hold beside its source.
const PAPERS: &[&str] = &["Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT"];
/// A registry takes no more, and none longer.
const KEYWORDS: (usize, usize) = (5, 20);

/// Says in which order they are published, and how many files each has, as cargo lists them.
pub fn run() -> Result<String, Vec<String>> {
    let metadata = metadata(&["--no-deps"])?;
    let mut faults = faults(&metadata);
    let mut lines = vec![];
    for name in order(&metadata) {
        match files(name) {
            Ok(files) => {
                let missing = PAPERS.iter().filter(|paper| !files.iter().any(|f| f == *paper));
                faults.extend(missing.map(|paper| format!("the package of {name} has no {paper}")));
                lines.push(format!("{name:<20} {:>4} files", files.len()));
            }
            Err(why) => faults.push(why),
        }
    }
    if faults.is_empty() { Ok(format!("in this order\n{}", lines.join("\n"))) } else { Err(faults) }
}

/// Makes a copy of the last commit, of which it says that it may be published: $1 is where.
const COPY: &str = r#"
rm -rf "$1"
mkdir -p "$1"
git archive HEAD | tar -x -C "$1"
sed -i 's/^publish = false$/publish = true/' "$1/Cargo.toml"
"#;

/// Has cargo make each package, build it of what it holds and stop before the registry would take it.
pub fn dry_run() -> Result<String, Vec<String>> {
    let order = run()?;
    let target = root().join("target");
    let copy = target.join("publish");
    let mut make = Command::new("sh");
    make.args(["-euc", COPY, "copy"]).arg(&copy).current_dir(root());
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut publish = Command::new(cargo);
    publish.args(["publish", "--dry-run", "--workspace", "--allow-dirty"]).current_dir(&copy);
    publish.args(KEPT_HERE.iter().flat_map(|name| ["--exclude", *name]));
    publish.arg("--target-dir").arg(target.join("published"));
    for step in [&mut make, &mut publish] {
        let status = step.status().map_err(|e| vec![format!("{step:?}: {e}")])?;
        if !status.success() {
            return Err(vec![format!("{step:?}: {status}")]);
        }
    }
    Ok(order)
}

/// The files of a crate's package.
fn files(name: &str) -> Result<Vec<String>, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut package = Command::new(cargo);
    package.args(["package", "--list", "--allow-dirty", "--offline", "-p", name]);
    let out = package.current_dir(root()).output().map_err(|e| format!("cargo package: {e}"))?;
    if !out.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&out.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect())
}

fn published(metadata: &Value) -> Vec<&Value> {
    let all = list(&metadata["packages"]).iter();
    all.filter(|package| !KEPT_HERE.contains(&text(&package["name"]))).collect()
}

/// Each after those that it uses, in its tests too. A circle is left out.
fn order(metadata: &Value) -> Vec<&str> {
    let mut waiting = published(metadata);
    let mut ordered: Vec<&str> = vec![];
    loop {
        let ready = |package: &&Value| {
            let mut used = ours(package).map(|dependency| text(&dependency["name"]));
            used.all(|name| KEPT_HERE.contains(&name) || ordered.contains(&name))
        };
        let (now, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(ready);
        if now.is_empty() {
            return ordered;
        }
        ordered.extend(now.iter().map(|package| text(&package["name"])));
        waiting = later;
    }
}

/// The dependencies that are crates of this tree.
fn ours(package: &Value) -> impl Iterator<Item = &Value> {
    list(&package["dependencies"]).iter().filter(|dependency| !dependency["path"].is_null())
}

fn of_tests(dependency: &Value) -> bool {
    text(&dependency["kind"]) == "dev"
}

/// What a registry would refuse, or show without a word of what it is.
pub fn faults(metadata: &Value) -> Vec<String> {
    let mut faults = vec![];
    let mut described = BTreeSet::new();
    for package in published(metadata) {
        let name = text(&package["name"]);
        let mut fault = |what: String| faults.push(format!("{name}: {what}"));
        for field in ["description", "license", "readme", "rust_version"] {
            if text(&package[field]).is_empty() {
                fault(format!("its Cargo.toml has no {field}"));
            }
        }
        if !described.insert(text(&package["description"])) {
            fault("its description is that of another crate".into());
        }
        let readme = Path::new(text(&package["manifest_path"])).with_file_name("");
        let readme = readme.join(text(&package["readme"]));
        if !readme.is_file() {
            fault(format!("there is no {}", readme.display()));
        }
        // An example in it is run by `cargo test --doc`.
        let library = Path::new(text(&package["manifest_path"])).with_file_name("src/lib.rs");
        let first = |text: &str| text.lines().find(|l| l.starts_with("//! ```")) == Some("//! ```");
        if std::fs::read_to_string(library).is_ok_and(|text| !first(&text)) {
            fault("its documentation begins without an example that runs".into());
        }
        let keywords = list(&package["keywords"]);
        if keywords.len() > KEYWORDS.0 || keywords.iter().any(|k| text(k).len() > KEYWORDS.1) {
            fault(format!("more than {} keywords, or one over {} letters", KEYWORDS.0, KEYWORDS.1));
        }
        // `publish = false` is an empty list of registries.
        if package["publish"].is_null() && text(&package["repository"]).is_empty() {
            fault("it may be published, and its Cargo.toml has no repository".into());
        }
        let wanted = format!("={}", text(&package["version"]));
        for dependency in ours(package) {
            let (used, told) = (text(&dependency["name"]), text(&dependency["req"]));
            let kept_here = KEPT_HERE.contains(&used);
            if kept_here && !of_tests(dependency) {
                fault(format!("{used}, which is not published, is used outside of tests"));
            } else if kept_here && told != "*" {
                fault(format!("{used} must have no version, so that cargo leaves it out"));
            } else if !kept_here && told != wanted {
                fault(format!("{used} must have the version \"{wanted}\", not \"{told}\""));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_registry_would_take_every_crate() {
        let metadata = metadata(&["--no-deps"]).unwrap();
        assert_eq!(faults(&metadata), Vec::<String>::new());
        let ordered = order(&metadata);
        assert_eq!(ordered.len(), published(&metadata).len(), "{ordered:?}");
        assert_eq!((ordered.first(), ordered.last()), (Some(&"linerate-model"), Some(&"linerate")));
        // Of one whose sources lie on its own, and of one that has all that there is.
        for name in ["linerate-model", "linerate"] {
            let files = files(name).unwrap();
            for paper in PAPERS {
                assert!(files.iter().any(|file| file == paper), "{name} has no {paper}: {files:?}");
            }
            assert!(files.iter().any(|file| file == "src/lib.rs"), "{files:?}");
        }
    }

    #[test]
    fn what_a_registry_would_refuse_is_found() {
        let manifest = root().join("Cargo.toml").display().to_string();
        let package = |more: Value| {
            let mut package = json!({ "name": "a", "version": "1.2.0", "description": "d", "license": "MIT",
                "readme": "README.md", "rust_version": "1", "manifest_path": manifest, "publish": [] });
            for (key, value) in more.as_object().unwrap() {
                package[key] = value.clone();
            }
            faults(&json!({ "packages": [package] }))
        };
        let on = |name: &str, req: &str, kind: Option<&str>| json!({ "dependencies": [{ "name": name, "req": req, "kind": kind, "path": "x" }] });
        for fine in [
            json!({}),
            on("linerate-wire", "=1.2.0", None),
            on("linerate-testkit", "*", Some("dev")),
            json!({ "publish": null, "repository": "https://example.org" }),
        ] {
            assert_eq!(package(fine), Vec::<String>::new());
        }
        for refused in [
            json!({ "description": null }),
            json!({ "readme": "none.md" }),
            json!({ "keywords": ["a", "b", "c", "d", "e", "f"] }),
            json!({ "publish": null }),
            on("linerate-wire", "*", None),
            on("linerate-wire", "=1.1.0", None),
            on("linerate-testkit", "*", None),
            on("linerate-testkit", "=1.2.0", Some("dev")),
        ] {
            assert_eq!(package(refused.clone()).len(), 1, "{refused}");
        }
    }
}
