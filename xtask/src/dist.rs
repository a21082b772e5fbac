//! `cargo xtask dist`: the program for each kind of machine, and the packages people install. docs/releases.md says what
//! comes out and what is promised of it.

mod build;
pub mod formulae;
mod image;
mod packages;
mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::stage::Stage;
use crate::root;

type Faults = Vec<String>;

/// A kind of machine, and what each packager calls it.
pub struct Target {
    /// As rustc names it.
    triple: &'static str,
    deb: &'static str,
    rpm: &'static str,
    /// Architecture and variant of an image. Only a static program needs nothing else in one.
    image: Option<&'static str>,
    /// The C compiler. It links as well, but for musl, whose libraries come with rustc's.
    cc: &'static str,
    /// What runs its programs elsewhere, and its libraries.
    emulator: Option<(&'static str, &'static str)>,
    /// Debian's packages that have these.
    debian: &'static str,
}

/// The first is the one that runs on any x86_64, whatever its C library.
const TARGETS: &[Target] = &[
    Target {
        triple: "x86_64-unknown-linux-musl",
        deb: "amd64",
        rpm: "x86_64",
        image: Some("amd64"),
        cc: "musl-gcc",
        emulator: None,
        debian: "musl-tools",
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        deb: "arm64",
        rpm: "aarch64",
        image: None,
        cc: "aarch64-linux-gnu-gcc",
        emulator: Some(("qemu-aarch64-static", "/usr/aarch64-linux-gnu")),
        debian: "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static",
    },
    Target {
        triple: "riscv64gc-unknown-linux-gnu",
        deb: "riscv64",
        rpm: "riscv64",
        image: None,
        cc: "riscv64-linux-gnu-gcc",
        emulator: Some(("qemu-riscv64-static", "/usr/riscv64-linux-gnu")),
        debian: "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross qemu-user-static",
    },
    Target {
        triple: "armv7-unknown-linux-gnueabihf",
        deb: "armhf",
        rpm: "armv7hl",
        image: None,
        cc: "arm-linux-gnueabihf-gcc",
        emulator: Some(("qemu-arm-static", "/usr/arm-linux-gnueabihf")),
        debian: "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross qemu-user-static",
    },
];

/// What a package is made of and called.
pub struct Release<'a> {
    target: &'a Target,
    version: String,
    /// Seconds since 1970 of all files in it: the commit's, so that it is the same whenever it is made.
    epoch: String,
    /// Whether the program can be an agent of a broker: then its unit comes as well.
    agents: bool,
}

/// What is told of the libraries in a program.
struct Papers {
    /// The file that lists each, CycloneDX.
    parts: PathBuf,
    /// Their licences.
    notices: String,
}

impl Release<'_> {
    fn name(&self) -> String {
        format!("linerate-{}-{}", self.version, self.target.triple)
    }

    /// A command that makes the same of the same, whoever runs it, wherever and whenever.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SOURCE_DATE_EPOCH", &self.epoch).env("LC_ALL", "C").env("TZ", "UTC");
        command
    }
}

const OPTIONS: [&str; 3] = ["--twice", "--agents", "--server"];

/// What a router has room for.
const SERVER_BYTES: u64 = 4 << 20;

/// `dist TARGET|all`, `dist TARGET --twice`, `dist TARGET --agents`, `dist TARGET --server`.
pub fn run(words: &[&str]) -> Result<String, Faults> {
    let is_known = |word: &str| {
        word == "all" || OPTIONS.contains(&word) || TARGETS.iter().any(|t| t.triple == word)
    };
    if let Some(unknown) = words.iter().find(|word| !is_known(word)) {
        return Err(vec![format!("{unknown} is no target, not `all` and no option")]);
    }
    let [twice, agents, alone] = OPTIONS.map(|word| words.contains(&word));
    if alone && (twice || agents) {
        let why = "--twice and --agents are of the whole program, not of the server alone";
        return Err(vec![why.into()]);
    }
    let how = if agents { &build::AGENTS } else { &build::WHOLE };
    let wanted = |target: &&Target| words.iter().any(|w| [target.triple, "all"].contains(w));
    let targets: Vec<_> = TARGETS.iter().filter(wanted).collect();
    if targets.is_empty() {
        let known: Vec<_> = TARGETS.iter().map(|target| target.triple).collect();
        return Err(vec![format!("of which target? {}, or all", known.join(", "))]);
    }
    // Builds take ten minutes of a core each: what is missing is said before the first.
    for target in &targets {
        build::possible(target)?;
        if !alone {
            can_pack(target)?;
        }
    }
    let out = build::tree()?.join("target/packages");
    let mut made = vec![];
    for target in targets {
        if alone {
            made.push(server(target, &out)?);
            continue;
        }
        let binary = build::program(target, &build::tree()?.join("target"), how)?;
        if twice {
            let again = build::program(target, &build::tree()?.join("target/again"), how)?;
            same(&binary, &again)?;
        }
        let papers = Papers {
            parts: build::bill_of_materials(target, how)?,
            notices: build::notices(target, how)?,
        };
        let release = Release { target, version: version()?, epoch: epoch()?, agents };
        made.extend(pack(&release, &binary, Some(&papers), &out)?);
    }
    sums(&out)?;
    let size = |path: &PathBuf| {
        let bytes = std::fs::metadata(path).map_or(0, |data| data.len());
        format!("{bytes:>10} {}", path.display())
    };
    Ok(format!("{}\n{}", out.display(), made.iter().map(size).collect::<Vec<_>>().join("\n")))
}

/// The program with `serve` alone, which has to fit into a router.
fn server(target: &Target, out: &Path) -> Result<PathBuf, Faults> {
    let folder = build::tree()?.join("target");
    let binary = build::program(target, &folder, &build::SERVER)?;
    let made = out.join(format!("linerate-server-{}-{}", version()?, target.triple));
    let failed = |e: std::io::Error| vec![format!("{}: {e}", made.display())];
    let bytes = std::fs::metadata(&binary).map_err(failed)?.len();
    if bytes > SERVER_BYTES {
        return Err(vec![format!("{} has {bytes} bytes of {SERVER_BYTES}", binary.display())]);
    }
    std::fs::create_dir_all(out).map_err(failed)?;
    std::fs::copy(&binary, &made).map_err(failed)?;
    Ok(made)
}

/// `pack TARGET BINARY OUT VERSION [--agents]`: the packages of a program that was built already.
pub fn pack_built(words: &[&str]) -> Result<String, Faults> {
    let (words, agents) = match words {
        [words @ .., "--agents"] => (words, true),
        words => (words, false),
    };
    let [triple, binary, out, version] = words else {
        return Err(vec!["pack TARGET BINARY OUT VERSION [--agents]".into()]);
    };
    let target = TARGETS.iter().find(|target| target.triple == *triple);
    let target = target.ok_or_else(|| vec![format!("no target {triple}")])?;
    let release = Release { target, version: (*version).to_owned(), epoch: epoch()?, agents };
    let made = pack(&release, Path::new(binary), None, Path::new(out))?;
    sums(Path::new(out))?;
    Ok(format!("{} packages", made.len()))
}

fn pack(
    release: &Release<'_>,
    binary: &Path,
    papers: Option<&Papers>,
    out: &Path,
) -> Result<Vec<PathBuf>, Faults> {
    can_pack(release.target)?;
    std::fs::create_dir_all(out).map_err(|e| vec![format!("{}: {e}", out.display())])?;
    let work = out.join(format!("{}.work", release.name()));
    let stage = Stage::new(release, binary, papers, &work)?;
    let mut made = vec![
        packages::tarball(release, &stage, out)?,
        packages::deb(release, &stage, out)?,
        packages::rpm(release, &stage, out)?,
    ];
    if let Some(architecture) = release.target.image {
        made.push(image::image(release, architecture, &stage, out)?);
    }
    if let Some(papers) = papers {
        let kept = out.join(format!("{}.cdx.json", release.name()));
        std::fs::copy(&papers.parts, &kept)
            .map_err(|e| vec![format!("{}: {e}", kept.display())])?;
        made.push(kept);
    }
    remove(&work)?;
    Ok(made)
}

/// That what packs is there, and what runs the target's program, which writes its manual pages itself.
fn can_pack(target: &Target) -> Result<(), Faults> {
    have(&["tar", "gzip", "xz", "sha256sum", "dpkg-deb", "rpmbuild"], "xz-utils dpkg rpm")?;
    if target.image.is_none() {
        have(&["readelf"], "binutils")?;
    }
    target.emulator.map_or(Ok(()), |(emulator, _)| have(&[emulator], target.debian))
}

/// `SHA256SUMS` of all that lies there.
fn sums(out: &Path) -> Result<(), Faults> {
    let script = "find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\\0' | sort -z | xargs -0 sha256sum > SHA256SUMS";
    said(Command::new("sh").args(["-c", script]).current_dir(out)).map(drop)
}

fn same(one: &Path, other: &Path) -> Result<(), Faults> {
    let read =
        |path: &Path| std::fs::read(path).map_err(|e| vec![format!("{}: {e}", path.display())]);
    if read(one)? == read(other)? {
        return Ok(());
    }
    Err(vec![format!("{} and {}: two builds of one commit differ", one.display(), other.display())])
}

/// The version of this tree.
fn version() -> Result<String, Faults> {
    let path = root().join("Cargo.toml");
    let text =
        std::fs::read_to_string(&path).map_err(|e| vec![format!("{}: {e}", path.display())])?;
    let manifest: toml::Table =
        text.parse().map_err(|e| vec![format!("{}: {e}", path.display())])?;
    let version = manifest["workspace"]["package"]["version"].as_str().unwrap_or_default();
    if version.contains('-') {
        let why = "rpm takes no `-` in a version, and dpkg takes one for newer than the release";
        return Err(vec![format!("{version} is packed under no name: {why}")]);
    }
    Ok(version.to_owned())
}

/// When the newest commit was made, or what the one who builds from an archive says.
fn epoch() -> Result<String, Faults> {
    if let Ok(told) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(told);
    }
    let mut git = Command::new("git");
    said(git.args(["log", "-1", "--format=%ct"]).current_dir(root()))
}

fn remove(folder: &Path) -> Result<(), Faults> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(vec![format!("{}: {e}", folder.display())])
        }
        _ => Ok(()),
    }
}

/// What a command said, or that it failed and why.
fn said(command: &mut Command) -> Result<String, Faults> {
    let out = command.output().map_err(|e| vec![format!("{command:?}: {e}")])?;
    if !out.status.success() {
        let why = String::from_utf8_lossy(&out.stderr);
        return Err(vec![format!("{command:?}: {}\n{why}", out.status)]);
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// That programs are there, or which package of Debian has them.
fn have(programs: &[&str], debian: &str) -> Result<(), Faults> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).exists());
    match programs.iter().find(|name| !there(name)) {
        None => Ok(()),
        Some(name) => {
            Err(vec![format!("{name} is not installed; on Debian: apt-get install {debian}")])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_and_not_known_is_refused_and_not_left_out() {
        let refused = |words: &[&str]| run(words).expect_err("nothing is built").concat();
        assert!(refused(&["--twcie"]).starts_with("--twcie is no target"));
        assert!(refused(&["--twice"]).starts_with("of which target?"));
        assert!(refused(&["--server", "--agents"]).starts_with("--twice and --agents are of"));
    }
}
