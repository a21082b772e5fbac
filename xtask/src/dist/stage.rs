//! The tree of files that all packages carry.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Faults, Papers, Release, remove, said};
use crate::root;

/// The names under which the program is another tool. They lie where no PATH leads: nobody's `iperf3` becomes this one
/// unasked.
const FACES: &[&str] = &["iperf", "iperf3", "ministat", "netperf", "netserver", "nuttcp"];

/// What lies in this tree as it will lie on a system.
const FILES: &[(&str, &str)] = &[
    ("deploy/systemd/linerate.service", "usr/lib/systemd/system/linerate.service"),
    (
        "deploy/systemd/linerate-controlled.service",
        "usr/lib/systemd/system/linerate-controlled.service",
    ),
    ("deploy/systemd/sysusers.conf", "usr/lib/sysusers.d/linerate.conf"),
    ("deploy/systemd/default", "etc/default/linerate"),
    ("README.md", "usr/share/doc/linerate/README.md"),
    ("CHANGELOG.md", "usr/share/doc/linerate/CHANGELOG.md"),
    ("LICENSE-MIT", "usr/share/doc/linerate/LICENSE-MIT"),
    ("LICENSE-APACHE", "usr/share/doc/linerate/LICENSE-APACHE"),
    ("deploy/debian/copyright", "usr/share/doc/linerate/copyright"),
];
/// And where the program can be an agent.
const OF_AGENTS: &[(&str, &str)] = &[
    ("deploy/systemd/linerate-agent.service", "usr/lib/systemd/system/linerate-agent.service"),
    ("deploy/systemd/default-agent", "etc/default/linerate-agent"),
];

/// Files as they lie on a system, below a folder.
pub struct Stage {
    pub folder: PathBuf,
    /// Where there is room for what is made of it.
    pub work: PathBuf,
}

impl Stage {
    /// Lays everything out anew in `work`.
    pub fn new(
        release: &Release<'_>,
        binary: &Path,
        papers: Option<&Papers>,
        work: &Path,
    ) -> Result<Self, Faults> {
        remove(work)?;
        let stage = Self { folder: work.join("files"), work: work.to_owned() };
        stage.file("usr/bin/linerate", &read(binary)?, 0o755)?;
        for face in FACES {
            let failed = |e: io::Error| vec![format!("{face}: {e}")];
            let at = stage.folder.join("usr/lib/linerate/faces");
            std::fs::create_dir_all(&at).map_err(failed)?;
            symlink("../../../bin/linerate", at.join(face)).map_err(failed)?;
        }
        stage.words(release)?;
        let of_agents = if release.agents { OF_AGENTS } else { &[] };
        for (from, to) in FILES.iter().chain(of_agents) {
            stage.file(to, &read(&root().join(from))?, 0o644)?;
        }
        let doc = "usr/share/doc/linerate";
        if let Some(papers) = papers {
            stage.file(&format!("{doc}/linerate.cdx.json"), &read(&papers.parts)?, 0o644)?;
            stage.file(&format!("{doc}/THIRD-PARTY"), papers.notices.as_bytes(), 0o644)?;
        }
        let long = "gzip -9n CHANGELOG.md $(ls THIRD-PARTY linerate.cdx.json 2>/dev/null)";
        said(release.command("sh").args(["-c", long]).current_dir(stage.folder.join(doc)))?;
        stage.settle(release)?;
        Ok(stage)
    }

    /// Manual pages and completions, as the program itself writes them.
    fn words(&self, release: &Release<'_>) -> Result<(), Faults> {
        let program = self.folder.join("usr/bin/linerate");
        let run = |args: &[&str]| {
            let mut command = match release.target.emulator {
                None => release.command(&program.display().to_string()),
                Some((emulator, libraries)) => {
                    let mut command = release.command(emulator);
                    command.args(["-L", libraries]).arg(&program);
                    command
                }
            };
            said(command.args(args)).map(|said| format!("{said}\n"))
        };
        for (shell, to) in [
            ("bash", "usr/share/bash-completion/completions/linerate"),
            ("zsh", "usr/share/zsh/site-functions/_linerate"),
            ("fish", "usr/share/fish/vendor_completions.d/linerate.fish"),
        ] {
            self.file(to, run(&["completions", shell])?.as_bytes(), 0o644)?;
        }
        let pages = self.folder.join("usr/share/man/man1");
        std::fs::create_dir_all(&pages).map_err(|e| vec![format!("{}: {e}", pages.display())])?;
        run(&["man", "--dir", &pages.display().to_string()])?;
        said(release.command("sh").args(["-c", "gzip -9n *"]).current_dir(&pages)).map(drop)
    }

    /// One file, with folders for it.
    pub fn file(&self, to: &str, bytes: &[u8], mode: u32) -> Result<(), Faults> {
        let path = self.folder.join(to);
        let failed = |e: io::Error| vec![format!("{}: {e}", path.display())];
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        std::fs::write(&path, bytes).map_err(failed)?;
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).map_err(failed)
    }

    /// Times and rights that do not tell when and by whom this was done.
    pub fn settle(&self, release: &Release<'_>) -> Result<(), Faults> {
        let script = "chmod -R u=rwX,go=rX . && find . -exec touch -h -d @$SOURCE_DATE_EPOCH {} +";
        said(release.command("sh").args(["-c", script]).current_dir(&self.folder)).map(drop)
    }

    /// A copy to change, of the name `name`.
    pub fn copy(&self, name: &str) -> Result<Self, Faults> {
        let folder = self.work.join(name);
        said(Command::new("cp").arg("-a").arg(&self.folder).arg(&folder))?;
        Ok(Self { folder, work: self.work.clone() })
    }
}

pub fn read(path: &Path) -> Result<Vec<u8>, Faults> {
    std::fs::read(path).map_err(|e| vec![format!("{}: {e}", path.display())])
}
