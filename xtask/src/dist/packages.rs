//! Archive, `.deb` and `.rpm`, of one tree of files, by the packagers' own tools.

use std::path::{Path, PathBuf};

use super::stage::{Stage, read};
use super::{Faults, Release, said};
use crate::root;

/// Of an archive that does not tell who made it when.
pub const LIKE: [&str; 4] = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner"];

/// What is below /usr, to be unpacked below any folder.
pub fn tarball(release: &Release<'_>, stage: &Stage, out: &Path) -> Result<PathBuf, Faults> {
    let made = out.join(format!("{}.tar.xz", release.name()));
    let mut tar = release.command("tar");
    tar.args(LIKE).arg("--use-compress-program=xz -T1 -6");
    // Not what symbolic links lead to.
    tar.arg(format!("--transform=s,^\\.,{},S", release.name()));
    said(tar.arg("-C").arg(stage.folder.join("usr")).arg("-cf").arg(&made).arg("."))?;
    Ok(made)
}

/// Debian's, with the scripts of `deploy/debian`.
pub fn deb(release: &Release<'_>, stage: &Stage, out: &Path) -> Result<PathBuf, Faults> {
    let tree = stage.copy("deb")?;
    let zsh = tree.folder.join("usr/share/zsh");
    std::fs::rename(zsh.join("site-functions"), zsh.join("vendor-completions"))
        .map_err(|e| vec![format!("{}: {e}", zsh.display())])?;
    // Of the files alone: what folders take is the file system's.
    let sizes = "find . -type f -printf '%s\\n' | awk '{ all += int(($1 + 1023) / 1024) } END { print all }'";
    let kilobytes = said(release.command("sh").args(["-c", sizes]).current_dir(&tree.folder))?;
    let sums = "find usr -type f -print0 | sort -z | xargs -0 md5sum";
    let sums = said(release.command("sh").args(["-c", sums]).current_dir(&tree.folder))? + "\n";
    // A static program needs no library.
    let needs = match release.target.image {
        Some(_) => String::new(),
        None => {
            let mut told = release.command("readelf");
            told.args(["--version-info", "--wide"]).arg(tree.folder.join("usr/bin/linerate"));
            let newest = newest_of_libc(&said(&mut told)?)
                .ok_or_else(|| vec![format!("{told:?} names no version of the C library")])?;
            format!("Depends: libc6 (>= {newest}), libgcc-s1\n")
        }
    };
    let control = String::from_utf8_lossy(&read(&root().join("deploy/debian/control"))?)
        .replace("@VERSION@", &release.version)
        .replace("@ARCHITECTURE@", release.target.deb)
        .replace("@SIZE@", &kilobytes)
        .replace("@DEPENDS@\n", &needs);
    tree.file("DEBIAN/control", control.as_bytes(), 0o644)?;
    tree.file("DEBIAN/md5sums", sums.as_bytes(), 0o644)?;
    let of_agents = if release.agents { "/etc/default/linerate-agent\n" } else { "" };
    let kept = format!("/etc/default/linerate\n{of_agents}");
    tree.file("DEBIAN/conffiles", kept.as_bytes(), 0o644)?;
    for script in ["postinst", "prerm", "postrm"] {
        let text = read(&root().join("deploy/debian").join(script))?;
        tree.file(&format!("DEBIAN/{script}"), &text, 0o755)?;
    }
    tree.settle(release)?;
    let made = out.join(format!("linerate_{}_{}.deb", release.version, release.target.deb));
    let mut pack = release.command("dpkg-deb");
    pack.args(["--root-owner-group", "-Zxz", "-z6", "--threads-max=1"]);
    said(pack.arg("--build").arg(&tree.folder).arg(&made))?;
    Ok(made)
}

/// The newest version of the C library that a program calls, of what readelf tells of it. A newer system builds programs
/// that need more than an older one has.
fn newest_of_libc(told: &str) -> Option<String> {
    let versions = told.split("GLIBC_").skip(1).filter_map(|rest| {
        let mut numbers = rest.split_whitespace().next()?.split('.').map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    versions.max().map(|(major, minor)| format!("{major}.{minor}"))
}

/// Red Hat's and SUSE's, with `deploy/rpm/linerate.spec`.
pub fn rpm(release: &Release<'_>, stage: &Stage, out: &Path) -> Result<PathBuf, Faults> {
    let top = stage.work.join("rpm");
    let mut pack = release.command("rpmbuild");
    pack.args(["-bb", "--quiet", "--target", &format!("{}-linux", release.target.rpm)]);
    for (name, value) in [
        ("_topdir", top.display().to_string()),
        ("staged", stage.folder.display().to_string()),
        ("release_version", release.version.clone()),
        ("_binary_payload", "w6.xzdio".into()),
        ("_buildhost", "localhost".into()),
        ("use_source_date_epoch_as_buildtime", "1".into()),
        ("clamp_mtime_to_source_date_epoch", "1".into()),
    ] {
        pack.args(["--define", &format!("{name} {value}")]);
    }
    if release.agents {
        pack.args(["--define", "agents 1"]);
    }
    said(pack.arg(root().join("deploy/rpm/linerate.spec")))?;
    let name = format!("linerate-{}-1.{}.rpm", release.version, release.target.rpm);
    let made = out.join(&name);
    std::fs::rename(top.join("RPMS").join(release.target.rpm).join(&name), &made)
        .map_err(|e| vec![format!("{}: {e}", made.display())])?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_needs_the_newest_library_that_its_program_calls() {
        let told = "  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 9
  0x0020:   Name: GLIBC_2.38  Flags: none  Version: 5
  0x0030:   Name: GLIBC_2.2.5  Flags: none  Version: 4
  0x0040:   Name: GLIBC_ABI_DT_RELR  Flags: none  Version: 3
  000:   0 (*local*)       5 (GLIBC_2.38)";
        assert_eq!(newest_of_libc(told), Some("2.38".to_owned()));
        assert_eq!(newest_of_libc("No version information found in this file."), None);
    }
}
