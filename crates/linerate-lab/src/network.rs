//! The bridge that joins the machines, in a network namespace of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::image::Image;
use crate::tool::{find, output, run};
use crate::{Hardware, Machine};

/// Programs without which there is no lab, and the packages that have them.
const NEEDS: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
    ("cpio", "cpio"),
    ("busybox", "busybox-static"),
    ("dash", "dash"),
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("ethtool", "ethtool"),
    ("mke2fs", "e2fsprogs"),
    ("setpriv", "util-linux"),
];
/// Begins the name of every namespace and folder of a lab; the process follows.
const PREFIX: &str = "lrlab";

/// A bridge in a namespace; machines are made on it. Dropping it removes namespace and files.
#[derive(Debug)]
pub struct Lab {
    space: String,
    folder: PathBuf,
    image: Image,
}

impl Lab {
    /// A lab whose machines have `programs` in `/bin`. `cache` keeps what is slow to make, and
    /// should outlive the run.
    ///
    /// # Errors
    /// Why there can be none here: not root, a program is missing, no namespaces, no kernel package.
    pub fn prepare(cache: &Path, programs: &[&Path]) -> Result<Self, String> {
        if !nix::unistd::geteuid().is_root() {
            return Err("a lab of virtual machines needs root for its tap devices".to_owned());
        }
        let missing: Vec<&str> = NEEDS
            .iter()
            .filter(|(program, _)| find(program).is_none())
            .map(|(_, package)| *package)
            .collect();
        if !missing.is_empty() {
            return Err(format!("not installed: {}", missing.join(", ")));
        }
        if !Path::new("/dev/net/tun").exists() {
            return Err("this kernel or container has no /dev/net/tun".to_owned());
        }
        sweep();
        let image = Image::build(cache, programs)?;
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let space = format!("{PREFIX}-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&space);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let lab = Self { space, folder, image };
        run("ip", &["netns", "add", &lab.space])?;
        for line in [
            "ip link set lo up",
            "ip link add br0 type bridge",
            "ip link set br0 up",
            "ip address add 10.77.0.254/24 dev br0",
            "ip address add fd77::254/64 dev br0 nodad",
        ] {
            lab.try_host(line)?;
        }
        Ok(lab)
    }

    /// The namespace. What runs in it is 10.77.0.254 and fd77::254, on the bridge.
    pub fn space(&self) -> &str {
        &self.space
    }

    /// Where this lab's disks and console logs are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a command in the namespace, which must succeed; returns what it printed.
    pub fn host(&self, line: &str) -> String {
        self.try_host(line).unwrap_or_else(|why| panic!("{line}: {why}"))
    }

    fn try_host(&self, line: &str) -> Result<String, String> {
        let words = ["netns", "exec", &self.space].into_iter().chain(line.split_whitespace());
        output(Command::new("ip").args(words))
    }

    /// Switches on a machine. Its number makes its addresses, 10.77.0.NUMBER and fd77::NUMBER; the
    /// call returns before it has booted.
    pub fn machine(&self, name: &'static str, number: u8, hardware: Hardware) -> Machine {
        let tap = format!("tap{number}");
        for line in [
            format!("ip tuntap add dev {tap} mode tap vnet_hdr"),
            format!("ip link set {tap} master br0 up"),
        ] {
            self.host(&line);
        }
        Machine::new(name, number, hardware, &self.space, &self.folder, &self.image)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("consoles of the lab's machines, last lines:");
            for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
                if entry.path().extension().is_some_and(|e| e == "console") {
                    let text = fs::read(entry.path()).unwrap_or_default();
                    let text = String::from_utf8_lossy(&text).into_owned();
                    let lines: Vec<&str> = text.lines().collect();
                    let tail = &lines[lines.len().saturating_sub(30)..];
                    println!("--- {}\n{}", entry.path().display(), tail.join("\n"));
                }
            }
        }
        let _ = run("ip", &["netns", "del", &self.space]);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes what a lab left whose process was killed before it could. Its machines died with it.
fn sweep() {
    let gone = |name: &str| {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').nth(1));
        owner
            .is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists())
    };
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
    };
    for name in names(Path::new("/run/netns")).iter().filter(|name| gone(name)) {
        let _ = run("ip", &["netns", "del", name]);
    }
    for name in names(&std::env::temp_dir()).iter().filter(|name| gone(name)) {
        let _ = fs::remove_dir_all(std::env::temp_dir().join(name));
    }
}
