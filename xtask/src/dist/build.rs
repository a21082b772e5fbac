//! The program of a target, and what it is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::stage::read;
use super::{Faults, Target, epoch, have, said};
use crate::{list, metadata, root, text};

/// Tools that are crates: name and version. They are built once, into `target/tools`.
const AUDITABLE: (&str, &str) = ("cargo-auditable", "0.7.7");
const CYCLONEDX: (&str, &str) = ("cargo-cyclonedx", "0.5.9");

/// The folder of this tree, as compilers tell it.
pub fn tree() -> Result<PathBuf, Faults> {
    root().canonicalize().map_err(|e| vec![format!("{}: {e}", root().display())])
}

/// How the program is built.
pub struct How {
    /// The profile of `Cargo.toml`.
    pub profile: &'static str,
    pub options: &'static [&'static str],
}

/// All of it, with agents of a broker too, and the server alone.
pub const WHOLE: How = How { profile: "dist", options: &[] };
pub const AGENTS: How = How { profile: "dist", options: &["--features", "nats"] };
pub const SERVER: How = How { profile: "router", options: &["--no-default-features"] };

/// That a C compiler is there, the source of the standard library, and for a static program musl.
pub fn possible(target: &Target) -> Result<(), Faults> {
    have(&[target.cc], target.debian)?;
    if !Path::new(&sysroot()?).join("lib/rustlib/src/rust/library").exists() {
        return Err(vec![
            "no source of the standard library: rustup component add rust-src".into(),
        ]);
    }
    let objects =
        said(Command::new("rustc").args(["--print", "target-libdir", "--target", target.triple]))?;
    if target.image.is_some() && !Path::new(&objects).exists() {
        return Err(vec![format!("no C library to link: rustup target add {}", target.triple)]);
    }
    Ok(())
}

/// Where the compiler and its libraries are.
fn sysroot() -> Result<String, Faults> {
    said(Command::new("rustc").args(["--print", "sysroot"]))
}

/// Builds the program. In the result is no folder of this machine.
pub fn program(target: &Target, folder: &Path, how: &How) -> Result<PathBuf, Faults> {
    let auditable = tool(AUDITABLE)?;
    let tree = tree()?;
    let cargo_home = std::env::var("CARGO_HOME")
        .unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap_or_default()));
    let sysroot = sysroot()?;
    // The last that fits holds: `folder` lies in the tree.
    let mut flags = vec![
        format!("--remap-path-prefix={sysroot}=rust"),
        format!("--remap-path-prefix={cargo_home}=cargo"),
        format!("--remap-path-prefix={}=linerate", tree.display()),
        format!("--remap-path-prefix={}=target", folder.display()),
    ];
    if target.image.is_some() {
        // A static program moves its own addresses, and musl's start reads the short form of where they are: 0.4 MiB less.
        flags.push("-Clink-arg=-Wl,-z,pack-relative-relocs".to_owned());
    }
    let mut build = Command::new(auditable);
    build.args(["auditable", "build", "--locked", "--profile", how.profile, "-p", "linerate"]);
    build.args(["--target", target.triple]).args(how.options).current_dir(&tree);
    // The standard library is built for size too: rustup's has several ways to sort, each once for every type, and reads symbols
    // for the backtraces of a program that has none. Cargo calls this unstable, and asks for the variable.
    build.args([
        "-Zbuild-std=std,panic_unwind",
        "-Zbuild-std-features=panic-unwind,optimize_for_size,backtrace-trace-only",
    ]);
    build.env("RUSTC_BOOTSTRAP", "1");
    // Of a C program that is a part of it: sqlite.
    let (lower, upper) = (target.triple.replace('-', "_"), target.triple.to_uppercase());
    build.env(format!("CC_{lower}"), target.cc);
    // No panic goes through it.
    build.env(format!("CFLAGS_{lower}"), "-fno-asynchronous-unwind-tables -fno-unwind-tables");
    if target.emulator.is_some() {
        build.env(format!("CARGO_TARGET_{}_LINKER", upper.replace('-', "_")), target.cc);
    }
    build.env("CARGO_TARGET_DIR", folder).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    build.env("SOURCE_DATE_EPOCH", epoch()?);
    println!("builds {}, which takes ten minutes of a core", target.triple);
    let built = build.status().map_err(|e| vec![format!("{build:?}: {e}")])?;
    if !built.success() {
        return Err(vec![format!("{build:?}: {built}")]);
    }
    let program = folder.join(target.triple).join(how.profile).join("linerate");
    // The profile asks for it, and the static program came out with its symbols all the same.
    let strip = target.cc.replace("gcc", "strip").replace("musl-", "");
    said(Command::new(strip).arg(&program))?;
    // A linker that is not told so links with the libraries of the system, and an image has none.
    if target.image.is_some() {
        let headers =
            said(Command::new("readelf").args(["--program-headers", "--wide"]).arg(&program))?;
        if headers.contains("INTERP") {
            return Err(vec![format!("{} is not static", program.display())]);
        }
    }
    // Of a C compiler and of a build script nothing is known here.
    let bytes = read(&program)?;
    let here = [
        tree.join("crates"),
        Path::new(&cargo_home).join("registry"),
        folder.join(target.triple),
        Path::new(&sysroot).to_owned(),
    ];
    match here.iter().find(|here| names(&bytes, here)) {
        None => Ok(program),
        Some(here) => {
            let why = format!("{} names {}", program.display(), here.display());
            Err(vec![format!("{why}, a folder of this machine: it is another program elsewhere")])
        }
    }
}

/// Whether a program names a folder.
fn names(program: &[u8], folder: &Path) -> bool {
    let name = folder.as_os_str().as_encoded_bytes();
    program.windows(name.len().max(1)).any(|part| part == name)
}

/// What the program is made of, as CycloneDX 1.5.
pub fn bill_of_materials(target: &Target, how: &How) -> Result<PathBuf, Faults> {
    let cyclonedx = tool(CYCLONEDX)?;
    let mut list = Command::new(cyclonedx);
    list.args([
        "cyclonedx",
        "--format",
        "json",
        "--spec-version",
        "1.5",
        "--target",
        target.triple,
    ]);
    // The folder as it names it, which is not that of a link or of `..` within.
    list.args(["--override-filename", "linerate.cdx"]).args(how.options).current_dir(tree()?);
    list.args(["--manifest-path", "crates/linerate/Cargo.toml"]).env("SOURCE_DATE_EPOCH", epoch()?);
    said(&mut list)?;
    // It writes one beside each manifest of the workspace.
    let crates = root().join("crates");
    let kept = root().join("target").join(format!("linerate-{}.cdx.json", target.triple));
    let failed = |e: std::io::Error| vec![format!("{}: {e}", kept.display())];
    let told =
        std::fs::read_to_string(crates.join("linerate/linerate.cdx.json")).map_err(failed)?;
    std::fs::write(&kept, without_folder(&told, &tree()?)?).map_err(failed)?;
    let others = std::fs::read_dir(crates).map_err(failed)?.flatten().map(|entry| entry.path());
    for folder in others.chain([root().join("xtask")]) {
        let _ = std::fs::remove_file(folder.join("linerate.cdx.json"));
    }
    Ok(kept)
}

/// A list of parts whose names of our own crates say no more in which folder of this machine they lie.
fn without_folder(told: &str, tree: &Path) -> Result<String, Faults> {
    let here = tree.display().to_string();
    let told = told.replace(&format!("path+file://{here}"), "path+file:///linerate");
    if told.contains(&here) {
        return Err(vec![format!("the list of parts names {here}, a folder of this machine")]);
    }
    Ok(told)
}

/// The licences of all that is linked in, each text once.
pub fn notices(target: &Target, how: &How) -> Result<String, Faults> {
    let linked = linked(target, how)?;
    let platform = ["--locked", "--filter-platform", target.triple];
    let metadata = metadata(&platform)?;
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        let name = format!("{} {}", text(&package["name"]), text(&package["version"]));
        // Ours have no source.
        if package["source"].is_null() || !linked.contains(&name) {
            continue;
        }
        let title = format!("{name}, {}", text(&package["license"]));
        let folder = Path::new(text(&package["manifest_path"])).with_file_name("");
        let files =
            std::fs::read_dir(&folder).map_err(|e| vec![format!("{}: {e}", folder.display())])?;
        let mut files: Vec<_> =
            files.flatten().map(|file| file.path()).filter(|p| is_licence(p)).collect();
        files.sort();
        if files.is_empty() {
            texts.entry("(no text in its source)".into()).or_default().push(title);
            continue;
        }
        for file in files {
            let words = String::from_utf8_lossy(&read(&file)?).trim().to_owned();
            texts.entry(words).or_default().push(title.clone());
        }
    }
    let compiled = read(&root().join("deploy/notices/rust"))?;
    let mut beside = vec![("Rust's standard library, MIT OR Apache-2.0", compiled)];
    if target.image.is_some() {
        beside.push(("musl, MIT", read(&root().join("deploy/notices/musl"))?));
    }
    for (title, words) in beside {
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        texts.entry(words).or_default().push(title.to_owned());
    }
    let line = "=".repeat(80);
    let part = |(words, mut of): (String, Vec<String>)| {
        of.dedup();
        format!("{line}\n{}\n{line}\n\n{words}\n\n", of.join("\n"))
    };
    Ok(texts.into_iter().map(part).collect())
}

fn is_licence(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    path.is_file()
        && ["LICEN", "COPYING", "NOTICE", "UNLICENSE"].iter().any(|w| name.starts_with(w))
}

/// Name and version of what is linked into the program.
fn linked(target: &Target, how: &How) -> Result<BTreeSet<String>, Faults> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--locked", "-p", "linerate", "-e", "normal", "--prefix", "none"]);
    tree.args(["--target", target.triple, "--format", "{p}"]).args(how.options);
    tree.current_dir(root());
    let name = |line: &str| {
        let (name, version) = line.split_once(" v")?;
        Some(format!("{name} {}", version.split(' ').next()?))
    };
    Ok(said(&mut tree)?.lines().filter_map(name).collect())
}

/// The path of a tool of crates, built when it is not there.
fn tool((name, version): (&str, &str)) -> Result<PathBuf, Faults> {
    let folder = root().join("target/tools").join(format!("{name}-{version}"));
    let program = folder.join("bin").join(name);
    if !program.exists() {
        println!("builds {name} {version}");
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let mut install = Command::new(cargo);
        install.args(["install", "-q", "--locked", "--version", version, "--root"]);
        said(install.arg(&folder).arg(name).current_dir(root()))?;
    }
    program.canonicalize().map_err(|e| vec![format!("{}: {e}", program.display())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_parts_names_no_folder() {
        let tree = Path::new("/far/linerate");
        let told = r#""bom-ref": "path+file:///far/linerate/crates/linerate-model#0.1.0""#;
        let kept = without_folder(told, tree).unwrap();
        assert_eq!(kept, r#""bom-ref": "path+file:///linerate/crates/linerate-model#0.1.0""#);
        assert!(without_folder("file:/far/linerate/LICENSE", tree).is_err());
    }

    #[test]
    fn a_program_that_names_a_folder_is_found() {
        let folder = Path::new("/far/linerate/crates");
        assert!(names(b"\0/far/linerate/crates/linerate/src/main.rs\0", folder));
        assert!(!names(b"\0linerate/crates/linerate/src/main.rs\0", folder));
        assert!(!names(b"/far", folder));
    }

    #[test]
    fn what_is_linked_in_is_told_with_its_licence() {
        let told = notices(&super::super::TARGETS[0], &WHOLE).unwrap();
        for name in ["serde 1.", "tokio 1.", "rusqlite 0."] {
            assert!(told.lines().any(|line| line.starts_with(name)), "{name}");
        }
        assert!(told.contains("Permission is hereby granted"));
        // No crates, and linked all the same.
        assert!(told.contains("\nmusl, MIT\n") && told.contains("\nRust's standard library"));
        let beside = notices(&super::super::TARGETS[1], &AGENTS).unwrap();
        assert!(!beside.contains("\nmusl, MIT\n"));
        // Of agents alone.
        let of_agents = |told: &str| told.lines().any(|line| line.starts_with("async-nats "));
        assert!(of_agents(&beside) && !of_agents(&told));
        // Of tests alone.
        assert!(!told.lines().any(|line| line.starts_with("proptest ")));
    }
}
