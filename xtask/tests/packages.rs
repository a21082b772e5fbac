//! The packages of the program that the tests have built: that they are the same whenever they are made, and what they do
//! to a system on which they are installed, upgraded and removed.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const TRIPLE: &str = "x86_64-unknown-linux-musl";

/// A folder of one test's own, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn skip(test: &str, why: &str) {
    // The test runner captures what macros print, and not this.
    let _ = writeln!(std::io::stderr(), "\n*** SKIP {test}: {why}");
}

/// Whether these are there: programs and the packages of Debian that have them.
fn have(test: &str, programs: &[(&str, &str)]) -> bool {
    let there = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).exists())
    };
    let missing = programs.iter().find(|(program, _)| !there(program));
    if let Some((program, package)) = missing {
        skip(test, &format!("{program} is not installed (Debian's package {package})"));
    }
    missing.is_none()
}

/// What runs the program that the tests have built, or nothing where none was built or it is of another kind of machine.
/// The program itself, as tests build it, takes a minute to pack.
fn program(test: &str, scratch: &Scratch) -> Option<PathBuf> {
    let tools = [("xz", "xz-utils"), ("dpkg-deb", "dpkg"), ("rpmbuild", "rpm"), ("tar", "tar")];
    if std::env::consts::ARCH != "x86_64" || !have(test, &tools) {
        return None;
    }
    let built = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("linerate");
    if !built.exists() {
        skip(test, "the program is not built; cargo test --workspace does");
        return None;
    }
    let real = scratch.path("linerate");
    runnable(&built, &real);
    let stand_in = scratch.path("stand-in");
    let script = format!(
        "#!/bin/bash\nfor real in {} {PACKAGES}/linerate; do\n    [ ! -x $real ] || exec -a \"$0\" $real \"$@\"\ndone\n",
        real.display()
    );
    let text = scratch.path("stand-in.sh");
    std::fs::write(&text, script).expect("a script");
    runnable(&text, &stand_in);
    Some(stand_in)
}

/// Another process writes it: one that the other test starts meanwhile has all open that this one has open, and the kernel
/// runs no file that is open for writing (`ETXTBSY`, execve(2)).
fn runnable(from: &Path, to: &Path) {
    ran(Command::new("install").args(["-m", "755"]).args([from, to]));
}

/// Runs it; what it said.
fn ran(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{command:?}\n{said}\n{}", String::from_utf8_lossy(&out.stderr));
    said
}

fn pack(program: &Path, out: &Path, version: &[&str]) {
    let mut pack = Command::new(env!("CARGO_BIN_EXE_xtask"));
    // As of a commit; a tree without its history has none.
    pack.env("SOURCE_DATE_EPOCH", "1700000000");
    ran(pack.args(["pack", TRIPLE]).args([program, out]).args(version));
}

/// A program takes ten minutes of a core to build.
#[test]
fn what_is_missing_for_packages_is_said_before_a_program_is_built() {
    let scratch = Scratch::new("packages-missing");
    let (text, there) = (scratch.path("rustc.sh"), scratch.path("there"));
    std::fs::create_dir(&there).expect("a folder");
    // As where the source of the standard library is there, and a C compiler, and nothing else.
    std::fs::create_dir_all(there.join("lib/rustlib/src/rust/library")).expect("a folder");
    std::fs::write(&text, format!("#!/bin/sh\necho {}\n", there.display())).expect("a script");
    for name in ["rustc", "musl-gcc"] {
        runnable(&text, &there.join(name));
    }
    let mut dist = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let out = dist.args(["dist", TRIPLE]).env("PATH", &there).output().expect("it starts");
    let said = String::from_utf8_lossy(&out.stderr);
    let wanted = "tar is not installed; on Debian: apt-get install xz-utils dpkg rpm";
    assert!(said.contains(wanted), "{said}");
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    entries.map(|e| (name(&e.path()), std::fs::read(e.path()).expect("a file"))).collect()
}

#[test]
fn packages_made_twice_are_the_same_and_hold_what_they_must() {
    let test = "packages_made_twice_are_the_same_and_hold_what_they_must";
    let scratch = Scratch::new("packages-twice");
    let Some(program) = program(test, &scratch) else { return };
    let (one, other) = (scratch.path("one"), scratch.path("other"));
    pack(&program, &one, &["1.2.3", "--agents"]);
    pack(&program, &other, &["1.2.3", "--agents"]);
    let (made, again) = (files(&one), files(&other));
    let names: Vec<_> = made.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "SHA256SUMS",
            "linerate-1.2.3-1.x86_64.rpm",
            "linerate-1.2.3-x86_64-unknown-linux-musl.oci.tar",
            "linerate-1.2.3-x86_64-unknown-linux-musl.tar.xz",
            "linerate_1.2.3_amd64.deb",
        ]
    );
    for (name, bytes) in &made {
        assert!(again.get(name) == Some(bytes), "{name} differs from what was made before");
    }
    ran(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&one));

    let archive = one.join(names[3]);
    let listed = ran(Command::new("tar").arg("-tf").arg(&archive));
    let deb = ran(Command::new("dpkg-deb").arg("--contents").arg(one.join(names[4])));
    let rpm = ran(Command::new("rpm").arg("-qpl").arg(one.join(names[1])));
    for file in [
        "bin/linerate",
        "lib/linerate/faces/iperf3",
        "share/man/man1/linerate-udp.1.gz",
        "share/bash-completion/completions/linerate",
        "lib/systemd/system/linerate.service",
        "lib/systemd/system/linerate-agent.service",
    ] {
        for (of, listed) in [("archive", &listed), ("deb", &deb), ("rpm", &rpm)] {
            assert!(listed.contains(file), "{file} is not in the {of}:\n{listed}");
        }
    }
    // Nobody's own name is on it.
    assert!(deb.lines().all(|line| line.contains(" root/root ")), "{deb}");
    let unpacked = scratch.path("unpacked");
    std::fs::create_dir(&unpacked).expect("a folder");
    ran(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&unpacked));
    let face = unpacked.join("linerate-1.2.3-x86_64-unknown-linux-musl/lib/linerate/faces/iperf3");
    assert!(ran(Command::new(face).arg("--help")).contains("iperf3"));
    is_an_oci_layout(test, &one.join(names[2]), &scratch.path("layout"));
}

/// That each blob is what its name says, and that the layer has the program; skopeo's word where it is there.
fn is_an_oci_layout(test: &str, image: &Path, layout: &Path) {
    std::fs::create_dir(layout).expect("a folder");
    ran(Command::new("tar").arg("-xf").arg(image).arg("-C").arg(layout));
    let read = |path: PathBuf| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(path).expect("a blob")).expect("JSON")
    };
    let blob = |of: &serde_json::Value| {
        let digest = of["digest"].as_str().expect("a digest").replace("sha256:", "");
        let path = layout.join("blobs/sha256").join(&digest);
        assert!(ran(Command::new("sha256sum").arg(&path)).starts_with(&digest));
        assert_eq!(std::fs::metadata(&path).expect("a blob").len(), of["size"]);
        path
    };
    let index = read(layout.join("index.json"));
    let manifest = read(blob(&index["manifests"][0]));
    let config = read(blob(&manifest["config"]));
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/linerate");
    let layer = blob(&manifest["layers"][0]);
    let listed = ran(Command::new("tar").arg("-tzf").arg(&layer));
    assert!(listed.contains("usr/bin/linerate\n"), "{listed}");
    let sum = format!("gzip -dc {} | sha256sum", layer.display());
    let sum = ran(Command::new("sh").args(["-c", &sum]));
    let diff = config["rootfs"]["diff_ids"][0].as_str().expect("a sum").replace("sha256:", "");
    assert!(sum.starts_with(&diff));
    if have(test, &[("skopeo", "skopeo")]) {
        let from = format!("oci-archive:{}", image.display());
        let said = ran(Command::new("skopeo").args(["inspect", &from]));
        assert!(said.contains("\"Architecture\": \"amd64\""), "{said}");
    }
}

/// With the system's own dpkg and rpm, each on a copy of the system that is gone afterwards.
#[test]
fn packages_are_installed_upgraded_and_removed_without_a_trace() {
    let test = "packages_are_installed_upgraded_and_removed_without_a_trace";
    let scratch = Scratch::new("packages-installed");
    let Some(program) = program(test, &scratch) else { return };
    if !have(test, &[("unshare", "util-linux"), ("dpkg", "dpkg"), ("update-alternatives", "dpkg")])
    {
        return;
    }
    let copy = |inside: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-euc", COPY, "copy"]).arg(&scratch.0).arg(inside);
        command
    };
    let probed = copy("true").output().expect("unshare");
    if !probed.status.success() {
        let why = String::from_utf8_lossy(&probed.stderr);
        return skip(test, &format!("no copy of this system can be made here: {why}"));
    }
    pack(&program, &scratch.path("old"), &["1.2.3"]);
    pack(&program, &scratch.path("new"), &["1.10.0", "--agents"]);
    for story in [DEB, RPM] {
        println!("{}", ran(&mut copy(&format!("{BEGIN}{story}"))));
    }
}

/// Where a copy of this system has what lies in the folder of its test.
const PACKAGES: &str = "/packages";

/// Runs $2 in a copy of this system in which what is written goes into memory; $1 is there as /packages.
const COPY: &str = r#"
mkdir -p "$1/copy"
mount -t tmpfs tmpfs "$1/copy"
cd "$1/copy"
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
mkdir -p root/packages root/proc root/dev
mount --bind "$1" root/packages
mount -t proc proc root/proc
mount --bind /dev root/dev
exec chroot root sh -euc "$2"
"#;

/// What each story begins with, and asks of a package however it is installed.
const BEGIN: &str = r#"
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin DEBIAN_FRONTEND=noninteractive LC_ALL=C
fail() { echo "$*" >&2; exit 1; }
theirs=$(command -v iperf3 || :)
# What the packages tell a systemd that seems to run. rpm looks for it nowhere else.
mkdir -p /run/systemd/system /usr/local/bin
rm -f /usr/bin/systemctl
printf '#!/bin/sh\necho "$*" >>/told\n' >/usr/bin/systemctl
chmod 755 /usr/bin/systemctl
told() { grep -qx -e "$*" /told || fail "not told to systemd: $*; but $(cat /told)"; }
fresh() {
    told daemon-reload
    ! grep -E 'start|enable' /told || fail "started, unasked"
    linerate --version
    getent passwd linerate || fail "no user"
    [ "$(command -v iperf3 || :)" = "$theirs" ] || fail "iperf3 is ours, unasked"
    [ ! -e /etc/systemd/system/multi-user.target.wants/linerate.service ] || fail "enabled, unasked"
    [ ! -e /usr/lib/systemd/system/linerate-agent.service ] || fail "a unit for what the program cannot do"
}
upgraded() {
    grep -q max-rate /etc/default/linerate || fail "the owner's options are lost"
    grep -q LINERATE_AGENT /etc/default/linerate-agent || fail "no options of agents"
    told try-restart linerate-agent.service linerate-controlled.service linerate.service
    ! grep disable /told || fail "ended by an upgrade"
}
named() {
    update-alternatives --install /usr/local/bin/iperf3 iperf3 /usr/lib/linerate/faces/iperf3 10
    [ "$(readlink -f /usr/local/bin/iperf3)" = /usr/bin/linerate ] || fail "asked for, and no iperf3"
    /usr/local/bin/iperf3 --help | head -n 1
}
removed() {
    [ ! -e /usr/bin/linerate ] && [ ! -e /usr/lib/linerate ] || fail "the program is left"
    [ ! -L /usr/local/bin/iperf3 ] || fail "the name that it was given is left"
    [ "$(command -v iperf3 || :)" = "$theirs" ] || fail "iperf3 is gone"
}
"#;

const DEB: &str = r#"
# An index of all manual pages of this system, made anew three times, says nothing of ours.
rm -f /var/lib/man-db/auto-update

dpkg -i /packages/old/*.deb
fresh
[ -z "$(dpkg -V linerate)" ] || fail "files that are not as packed"

echo 'LINERATE_SERVE="--max-rate 1G"' > /etc/default/linerate
dpkg -i /packages/new/*.deb
[ "$(dpkg-query -W -f '${Version}' linerate)" = 1.10.0 ] || fail "not upgraded"
upgraded
sh /var/lib/dpkg/info/linerate.prerm remove
told disable --now linerate-agent.service linerate-controlled.service linerate.service
# From now on as where an image is made, which systemd does not run in.
rm -r /run/systemd/system
if command -v systemd-analyze; then
    (cd /usr/lib/systemd/system && systemd-analyze verify --man=no linerate*.service) 2>&1 | tee /verified
    ! grep linerate /verified || fail "a unit that systemd does not take as it is"
fi

named
dpkg -r linerate
told disable linerate-agent.service linerate-controlled.service linerate.service
removed
grep -q max-rate /etc/default/linerate || fail "removed, and not purged, and the options are gone"
dpkg -P linerate
[ ! -e /etc/default/linerate ] && [ ! -e /etc/default/linerate-agent ] || fail "purged, and the options are left"
"#;

const RPM: &str = r#"
# Debian's rpm is made to install none, and knows of no package here.
rpms() { rpm --dbpath /rpms --nodeps --force-debian "$@"; }

rpms -i /packages/old/*.rpm
fresh
[ -z "$(rpms -V linerate)" ] || fail "files that are not as packed"

echo 'LINERATE_SERVE="--max-rate 1G"' > /etc/default/linerate
rpms -U /packages/new/*.rpm
[ "$(rpm --dbpath /rpms -q --qf '%{VERSION}' linerate)" = 1.10.0 ] || fail "not upgraded"
upgraded

named
rpms -e linerate
told disable --now linerate-agent.service linerate-controlled.service linerate.service
removed
grep -q max-rate /etc/default/linerate.rpmsave || fail "the owner's options are lost"
"#;
