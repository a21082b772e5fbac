//! `cargo xtask formulae URL`: the source of a release, and the files by which Homebrew, Arch and OpenWrt build of it.

use std::path::Path;
use std::process::Command;

use super::stage::read;
use super::{Faults, build, said, sums, version};
use crate::root;

/// Nix builds of the tree that its file lies in.
const FORMULAE: &[&str] = &["homebrew/linerate.rb", "arch/PKGBUILD", "openwrt/Makefile"];
/// What lies beside them, as it is.
const BESIDE: &[&str] = &["openwrt/files/linerate.init", "openwrt/files/linerate.config"];

/// `url` is the folder that the archive will lie in.
pub fn run(url: &str) -> Result<String, Faults> {
    let (out, version) = (build::tree()?.join("target/packages"), version()?);
    std::fs::create_dir_all(&out).map_err(|e| vec![format!("{}: {e}", out.display())])?;
    let archive = out.join(format!("linerate-{version}.tar.gz"));
    // What is committed, under the time of its commit, and without a name or time of the compressor's.
    let mut git = Command::new("git");
    git.args(["-c", "tar.tar.gz.command=gzip -9n", "archive", "--format=tar.gz"]);
    git.arg(format!("--prefix=linerate-{version}/")).arg("-o").arg(&archive).arg("HEAD");
    said(git.current_dir(root()))?;
    let sum = said(Command::new("sha256sum").arg(&archive))?;
    let sum = sum.split(' ').next().unwrap_or_default();
    for name in FORMULAE.iter().chain(BESIDE) {
        let text = read(&root().join("deploy").join(name))?;
        let text = filled(&String::from_utf8_lossy(&text), url, &version, sum);
        let to = out.join("formulae").join(name);
        let folder = to.parent().unwrap_or(Path::new("."));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&to, text));
        written.map_err(|e| vec![format!("{}: {e}", to.display())])?;
    }
    sums(&out)?;
    Ok(format!("{}, and {} formulae beside it", archive.display(), FORMULAE.len()))
}

fn filled(text: &str, url: &str, version: &str, sum: &str) -> String {
    let url = url.trim_end_matches('/');
    text.replace("@URL@", url).replace("@VERSION@", version).replace("@SHA256@", sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_to_fill_in() {
        for name in FORMULAE {
            let text = read(&root().join("deploy").join(name)).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("@VERSION@"), "{name}");
            let filled = filled(&text, "https://example.org/", "1.2.3", "abc");
            assert!(!filled.contains("@U") && !filled.contains("@V") && !filled.contains("@S"));
        }
    }
}
