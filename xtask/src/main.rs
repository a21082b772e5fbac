//! Chores of this tree: `cargo xtask tidy` checks what the compiler cannot.

#![forbid(unsafe_code)]

mod crates;
mod dist;
mod licence;
mod links;
mod numbers;
mod picture;
mod proofs;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "cargo xtask tidy       dependency direction, unsafe, bans, links, machine paths, numbers that only get better
cargo xtask tidy --numbers [TREE]  these numbers, here or of another tree, and what is largest
cargo xtask proofs [--figures LOG]  writes docs/reliability.md from proofs/targets.toml, with figures of a log of tests
cargo xtask picture [PROGRAM]  docs/pictures/ from real runs, with a program that is built already
cargo xtask crates     what a registry asks of each crate, in the order in which they are published
cargo xtask crates --dry-run  the same, and cargo builds each from its package alone, of the last commit
cargo xtask licences   licences of all dependencies against the allow-list
cargo xtask book       the pages of docs/ as a site, target/book/book (needs mdbook)
cargo xtask dist TARGET|all [--twice] [--agents]  the program and its packages for other machines; twice: two builds are equal; agents: of a broker too
cargo xtask dist TARGET --server  the server alone, for a router
cargo xtask pack TARGET BINARY OUT VERSION [--agents]  the packages of a program that was built already
cargo xtask formulae URL  the source as an archive that will lie there, and files by which others build of it";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let verb = words.first().copied().unwrap_or_default();
    let result = match words[..] {
        ["tidy"] => tidy::run(),
        ["tidy", "--numbers"] => numbers::table(&root()),
        ["tidy", "--numbers", tree] => numbers::table(std::path::Path::new(tree)),
        ["proofs"] => proofs::run(&root(), None),
        ["proofs", "--figures", log] => proofs::run(&root(), Some(log)),
        ["picture"] => picture::run(None),
        ["picture", program] => picture::run(Some(program)),
        ["crates"] => crates::run(),
        ["crates", "--dry-run"] => crates::dry_run(),
        ["licences"] => licence::run(),
        ["book"] => links::book(),
        ["dist", ref words @ ..] => dist::run(words),
        ["formulae", url] => dist::formulae::run(url),
        ["pack", ref words @ ..] => dist::pack_built(words),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(done) => {
            println!("{verb}: {done}");
            ExitCode::SUCCESS
        }
        Err(faults) => {
            for fault in faults {
                eprintln!("{verb}: {fault}");
            }
            ExitCode::FAILURE
        }
    }
}

/// The tree's root.
fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What `cargo metadata` tells.
fn metadata(more: &[&str]) -> Result<serde_json::Value, Vec<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let out = std::process::Command::new(cargo)
        .args(["metadata", "--format-version", "1"])
        .args(more)
        .current_dir(root())
        .output()
        .map_err(|e| vec![format!("cargo metadata: {e}")])?;
    if !out.status.success() {
        return Err(vec![format!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr))]);
    }
    serde_json::from_slice(&out.stdout).map_err(|e| vec![format!("cargo metadata: {e}")])
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &serde_json::Value) -> &[serde_json::Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
