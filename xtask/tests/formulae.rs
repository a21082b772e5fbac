//! The files by which others build packages: what they name is there, and they install what our own packages have.

use std::path::{Path, PathBuf};
use std::process::Command;

const FORMULAE: [&str; 4] =
    ["arch/PKGBUILD", "homebrew/linerate.rb", "nix/flake.nix", "openwrt/Makefile"];

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> String {
    let path = tree().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn formula(name: &str) -> String {
    read(&format!("deploy/{name}"))
}

fn manifest(name: &str) -> toml::Table {
    read(name).parse().unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The word that follows `mark`.
fn after<'a>(text: &'a str, mark: &str) -> &'a str {
    let (_, rest) = text.split_once(mark).unwrap_or_else(|| panic!("no `{mark}` in\n{text}"));
    rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or_default()
}

#[test]
fn they_build_by_profiles_and_features_that_there_are() {
    let tree = manifest("Cargo.toml");
    for (name, mark, wanted) in [
        ("arch/PKGBUILD", "cargo build --frozen --profile ", "dist"),
        ("homebrew/linerate.rb", "\"--profile\", \"", "dist"),
        ("nix/flake.nix", "buildType = \"", "dist"),
        ("openwrt/Makefile", "CARGO_PKG_PROFILE:=", "router"),
    ] {
        assert_eq!(after(&formula(name), mark), wanted, "{name}");
        assert!(tree["profile"].get(wanted).is_some(), "Cargo.toml has no profile {wanted}");
    }
    // What a router does without is what the server alone is built without.
    assert!(formula("openwrt/Makefile").contains("\nCARGO_PKG_ARGS+=--no-default-features\n"));
    let of_program = manifest("crates/linerate/Cargo.toml");
    let default = of_program["features"]["default"].as_array().expect("a list");
    assert_eq!(default.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>(), ["full"]);
    assert_eq!(after(&formula("arch/PKGBUILD"), " -p "), "linerate");
    assert!(formula("nix/flake.nix").contains("cargoBuildFlags = [ \"-p\" \"linerate\" ];"));
    // A source that Nix has to be told the sum of.
    assert!(!read("Cargo.lock").contains("\"git+"), "deploy/nix has no outputHashes");
}

#[test]
fn they_name_files_that_there_are() {
    for name in FORMULAE {
        let text = formula(name);
        let folder = tree().join("deploy").join(name).with_file_name("");
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let words = text.split(|c: char| !is_part(c)).map(|word| word.trim_end_matches('.'));
        let mut found = 0;
        for word in words {
            let at = match word.split('/').next().unwrap_or_default() {
                "crates" | "deploy" | "docs" | "LICENSE-MIT" | "LICENSE-APACHE" => tree(),
                "." if word.starts_with("./files/") => folder.clone(),
                // Those of OpenWrt are in its feed.
                ".." if name == "nix/flake.nix" => folder.clone(),
                _ => continue,
            };
            assert!(at.join(word).exists(), "{name}: there is no {word}");
            found += 1;
        }
        assert!(found > 0, "{name}");
    }
}

#[test]
fn they_take_the_archive_by_its_sum() {
    // As `cargo xtask formulae` names it, and the folder in it.
    for (name, lines) in [
        (
            "arch/PKGBUILD",
            [
                "pkgver=@VERSION@\n",
                "source=(\"$url/linerate-$pkgver.tar.gz\")\n",
                "sha256sums=('@SHA256@')\n",
                "    cd \"linerate-$pkgver\"\n",
            ],
        ),
        (
            "homebrew/linerate.rb",
            [
                "  homepage \"@URL@\"\n",
                "  url \"@URL@/linerate-@VERSION@.tar.gz\"\n",
                "  sha256 \"@SHA256@\"\n",
                "\"cargo\", \"install\"",
            ],
        ),
        (
            "openwrt/Makefile",
            [
                "PKG_VERSION:=@VERSION@\n",
                "PKG_SOURCE:=linerate-$(PKG_VERSION).tar.gz\n",
                "PKG_SOURCE_URL:=@URL@\n",
                "PKG_HASH:=@SHA256@\n",
            ],
        ),
    ] {
        let text = formula(name);
        for line in lines {
            assert!(text.contains(line), "{name}: {line}");
        }
    }
}

#[test]
fn they_say_the_licence_that_the_crates_have() {
    let licence = "MIT OR Apache-2.0";
    assert_eq!(manifest("Cargo.toml")["workspace"]["package"]["license"].as_str(), Some(licence));
    for (name, line) in [
        ("deploy/arch/PKGBUILD", "license=('MIT OR Apache-2.0')"),
        ("deploy/homebrew/linerate.rb", "license any_of: [\"MIT\", \"Apache-2.0\"]"),
        ("deploy/nix/flake.nix", "license = with pkgs.lib.licenses; [ mit asl20 ];"),
        ("deploy/openwrt/Makefile", "PKG_LICENSE:=MIT OR Apache-2.0"),
        ("deploy/rpm/linerate.spec", "License: MIT OR Apache-2.0"),
        ("python/pyproject.toml", "license = { text = \"MIT OR Apache-2.0\" }"),
    ] {
        assert!(read(name).contains(&format!("{line}\n")), "{name}");
    }
    // A wheel is built of that folder alone.
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert_eq!(read(&format!("python/{name}")), read(name), "python/{name}");
    }
}

/// The rpm is built of the same files as the `.deb`, and rpmbuild refuses one that is not in its list.
#[test]
fn arch_installs_what_our_packages_do() {
    let (spec, arch) = (read("deploy/rpm/linerate.spec"), formula("arch/PKGBUILD"));
    let (_, files) = spec.split_once("\n%files\n").expect("a list of files");
    let (files, _) = files.split_once("\n\n").expect("an end");
    // Of agents nothing, and neither the names of other tools nor documents: makepkg has no place for them.
    let (before, rest) = files.split_once("%if 0%{?agents}\n").expect("what only agents need");
    let (_, behind) = rest.split_once("%endif\n").expect("its end");
    let paths = before.lines().chain(behind.lines()).filter_map(|line| line.rsplit(' ').next());
    let left_out = ["/usr/lib/linerate", "/usr/share/doc/linerate"];
    for path in paths.filter(|path| !left_out.contains(path)) {
        let (folder, name) = path.rsplit_once('/').expect("a path");
        assert!(arch.contains(&format!("\"$pkgdir{folder}")), "{path}");
        assert!(name == "*" || arch.contains(name), "{path}");
        if let Some(kept) = path.strip_prefix("/etc/") {
            assert!(spec.contains(&format!("%config(noreplace) {path}\n")), "{path}");
            assert!(arch.contains(&format!("backup=(etc/{kept})\n")), "{path}");
        }
    }
}

#[test]
fn the_user_who_serves_is_one_that_they_make() {
    assert!(formula("openwrt/Makefile").contains("\n  USERID:=linerate:linerate\n"));
    let init = formula("openwrt/files/linerate.init");
    assert_eq!(after(&init, "linerate serve --user "), "linerate");
    assert!(read("deploy/systemd/sysusers.conf").contains("\nu linerate - "));
    for unit in ["linerate", "linerate-agent"] {
        assert!(read(&format!("deploy/systemd/{unit}.service")).contains("\nUser=linerate\n"));
    }
}

#[test]
fn units_read_the_options_that_packages_bring() {
    for (unit, options) in [("linerate", "default"), ("linerate-agent", "default-agent")] {
        let text = read(&format!("deploy/systemd/{unit}.service"));
        assert!(text.contains(&format!("\nEnvironmentFile=-/etc/default/{unit}\n")), "{unit}");
        let (_, start) = text.split_once("\nExecStart=").expect("a command");
        let (_, variable) = start.lines().next().and_then(|l| l.split_once('$')).expect("options");
        // A variable that is not set would be said in the log of each start.
        let text = read(&format!("deploy/systemd/{options}"));
        assert!(text.ends_with(&format!("\n{variable}=\"\"\n")), "{text}");
    }
}

#[test]
fn their_scripts_are_scripts() {
    for (shell, name) in [
        ("bash", "arch/PKGBUILD"),
        ("sh", "openwrt/files/linerate.init"),
        ("sh", "debian/postinst"),
        ("sh", "debian/prerm"),
        ("sh", "debian/postrm"),
    ] {
        let out = Command::new(shell).arg("-n").arg(tree().join("deploy").join(name)).output();
        let out = out.unwrap_or_else(|e| panic!("{shell}: {e}"));
        assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
    }
}
