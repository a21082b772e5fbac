//! What the machines boot: a kernel and an initramfs, made of Debian packages and kept between runs.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::tool::{find, output, run};

/// Raised when the base is made another way, so that no older one is taken from the cache.
const FORMAT: u32 = 1;
/// Debian's name for the newest kernel made for virtual machines.
const KERNEL: &str = "linux-image-cloud-amd64";
/// Modules that a machine needs, or a test may load. What they depend on comes along.
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_console",
    "virtio_net",
    "virtio_blk",
    "virtio-rng",
    "sch_netem",
    "sch_fq",
    "sch_codel",
    "sch_fq_codel",
    "sch_sfq",
    "sch_pie",
    "sch_tbf",
    "sch_htb",
    "sch_prio",
    "sch_ingress",
    "cls_u32",
    "cls_matchall",
    "act_gact",
    "act_mirred",
    "ifb",
    "dummy",
    "veth",
    "bridge",
    "tcp_bbr",
    "tcp_dctcp",
    "nf_tables",
    "nft_counter",
    "nft_numgen",
    "nft_limit",
];
/// Programs of this host that a machine gets, from these packages.
const TOOLS: &[&str] = &["busybox", "dash", "ip", "tc", "ethtool"];
/// Files of the machine that belong to this tree: where they lie in it, and what they are.
const GUEST: &[(&str, &str, bool)] = &[
    ("lab/boot", include_str!("../../../lab/guest/boot"), true),
    ("lab/agent", include_str!("../../../lab/guest/agent"), true),
    ("etc/inittab", include_str!("../../../lab/guest/inittab"), false),
    ("etc/hosts", include_str!("../../../lab/guest/hosts"), false),
    // A name may have more than one address, as Debian has it (host.conf(5)).
    ("etc/host.conf", "multi on\n", false),
];

/// A kernel and an initramfs.
#[derive(Debug, Clone)]
pub struct Image {
    /// Linux itself.
    pub kernel: PathBuf,
    /// The root file system, kept in memory.
    pub initrd: PathBuf,
}

impl Image {
    /// The image that holds `programs` in `/bin`. The kernel, its modules and the tools are kept in
    /// `cache` and made again when one of them changes; only then is the package registry asked.
    ///
    /// # Errors
    /// A tool is missing, the registry does not answer, or a file cannot be written; the text names it.
    pub fn build(cache: &Path, programs: &[&Path]) -> Result<Self, String> {
        fs::create_dir_all(cache).map_err(|e| format!("{}: {e}", cache.display()))?;
        // Several test programs may come here at once.
        let lock =
            File::create(cache.join("lock")).map_err(|e| format!("the cache's lock: {e}"))?;
        lock.lock().map_err(|e| format!("the cache's lock: {e}"))?;
        let kernel = cache.join("vmlinuz");
        let initrd = cache.join("initrd");
        let base = stamp_of_base()?;
        if !is_fresh(cache, "base", &base) {
            make_base(cache)?;
            keep_stamp(cache, "base", &base)?;
        }
        let whole = format!("{base}{}", stamp_of_programs(programs)?);
        if !is_fresh(cache, "initrd", &whole) {
            make_initrd(cache, programs, &initrd)?;
            keep_stamp(cache, "initrd", &whole)?;
        }
        Ok(Self { kernel, initrd })
    }
}

fn is_fresh(cache: &Path, part: &str, stamp: &str) -> bool {
    fs::read_to_string(cache.join(format!("{part}.stamp"))).is_ok_and(|kept| kept == stamp)
}

fn keep_stamp(cache: &Path, part: &str, stamp: &str) -> Result<(), String> {
    fs::write(cache.join(format!("{part}.stamp")), stamp).map_err(cannot_make("a stamp"))
}

fn cannot_make(what: &str) -> impl Fn(io::Error) -> String + '_ {
    move |e| format!("{what}: {e}")
}

fn stamp_of_file(path: &Path) -> Result<String, String> {
    let about = fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(format!("{} {} {}.{}\n", path.display(), about.len(), about.mtime(), about.mtime_nsec()))
}

fn tool(name: &str) -> Result<PathBuf, String> {
    find(name).ok_or_else(|| format!("{name} is not installed"))
}

fn stamp_of_base() -> Result<String, String> {
    let mut stamp = format!("{FORMAT} {KERNEL} {MODULES:?}\n");
    for name in TOOLS {
        stamp += &stamp_of_file(&tool(name)?)?;
    }
    Ok(stamp)
}

fn stamp_of_programs(programs: &[&Path]) -> Result<String, String> {
    let mut stamp = format!("{GUEST:?}\n");
    for program in programs {
        stamp += &stamp_of_file(program)?;
    }
    Ok(stamp)
}

/// The package's file: from the cache, else from the registry.
fn kernel_package(cache: &Path) -> Result<PathBuf, String> {
    // Debian's own tools are asked in one language.
    let shown = || output(Command::new("apt-cache").env("LC_ALL", "C").args(["show", KERNEL]));
    let text = shown().or_else(|_| {
        run("apt-get", &["-qq", "update"])?;
        shown()
    })?;
    let name = text
        .lines()
        .filter_map(|line| line.strip_prefix("Depends: "))
        .filter_map(|depends| depends.split([' ', ',']).next())
        .next()
        .ok_or_else(|| format!("apt-cache show {KERNEL}: no `Depends:`"))?
        .to_owned();
    let in_cache = || {
        fs::read_dir(cache).ok()?.flatten().map(|entry| entry.path()).find(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            file.starts_with(&format!("{name}_")) && file.ends_with(".deb")
        })
    };
    if let Some(package) = in_cache() {
        return Ok(package);
    }
    let fetch =
        || output(Command::new("apt-get").current_dir(cache).args(["-qq", "download", &name]));
    fetch().or_else(|_| {
        run("apt-get", &["-qq", "update"])?;
        fetch()
    })?;
    in_cache().ok_or_else(|| format!("apt-get download {name}: no file came"))
}

/// Kernel, modules and tools: `vmlinuz` and `base.cpio`.
fn make_base(cache: &Path) -> Result<(), String> {
    let package = kernel_package(cache)?;
    let work = Scratch::new(cache, "base")?;
    let unpacked = work.0.join("package");
    let root = work.0.join("root");
    run("dpkg-deb", &[Path::new("-x"), &package, &unpacked])?;
    let modules = unpacked.join("lib/modules");
    let version = fs::read_dir(&modules)
        .map_err(cannot_make("the kernel's modules"))?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .next()
        .ok_or("the kernel's package has no modules")?;
    copy_modules(&modules.join(&version), &unpacked, &root, &version)?;
    for folder in ["bin", "usr", "proc", "sys", "dev", "run", "tmp", "etc", "lab"] {
        fs::create_dir_all(root.join(folder)).map_err(cannot_make("the root"))?;
    }
    for (link, to) in [("sbin", "bin"), ("usr/bin", "../bin"), ("usr/sbin", "../bin")] {
        symlink(to, root.join(link)).map_err(cannot_make("the root"))?;
    }
    for name in TOOLS {
        copy_program(&tool(name)?, name, &root)?;
    }
    // dash and not busybox's shell: that one prefers its own `ip` and `tc`.
    symlink("dash", root.join("bin/sh")).map_err(cannot_make("the root"))?;
    symlink("bin/busybox", root.join("init")).map_err(cannot_make("the root"))?;
    // The boot script has the rest of busybox's names made.
    for applet in ["mount", "mkdir", "modprobe", "cat"] {
        symlink("busybox", root.join("bin").join(applet)).map_err(cannot_make("the root"))?;
    }
    archive(&root, &cache.join("base.cpio"))?;
    fs::copy(unpacked.join(format!("boot/vmlinuz-{version}")), cache.join("vmlinuz"))
        .map_err(cannot_make("the kernel"))?;
    Ok(())
}

/// The modules that are needed, with all they depend on, and the index that modprobe reads.
fn copy_modules(from: &Path, unpacked: &Path, root: &Path, version: &str) -> Result<(), String> {
    let index = |base: &Path| {
        let base = base.to_string_lossy();
        run("busybox", &["depmod", "-b", &base, version])
    };
    index(unpacked)?;
    let text = fs::read_to_string(from.join("modules.dep")).map_err(cannot_make("modules.dep"))?;
    let mut wanted = BTreeSet::new();
    for line in text.lines() {
        let Some((file, needs)) = line.split_once(':') else { continue };
        let name = file.rsplit('/').next().unwrap_or(file).split(".ko").next().unwrap_or(file);
        if MODULES.iter().any(|m| m.replace('-', "_") == name.replace('-', "_")) {
            wanted.insert(file);
            wanted.extend(needs.split_whitespace());
        }
    }
    let to = root.join("lib/modules").join(version);
    for file in wanted {
        let target = to.join(file);
        let folder = target.parent().unwrap_or(&to);
        fs::create_dir_all(folder).map_err(cannot_make("the modules' folder"))?;
        fs::copy(from.join(file), &target).map_err(|e| format!("{file}: {e}"))?;
    }
    index(root)?;
    Ok(())
}

/// Base and programs in one file: the kernel unpacks one archive after the other.
fn make_initrd(cache: &Path, programs: &[&Path], initrd: &Path) -> Result<(), String> {
    let work = Scratch::new(cache, "top")?;
    let root = work.0.join("root");
    for (name, text, runs) in GUEST {
        let file = root.join(name);
        fs::create_dir_all(file.parent().unwrap_or(&root)).map_err(cannot_make("the root"))?;
        fs::write(&file, text).map_err(cannot_make(name))?;
        let mode = if *runs { 0o755 } else { 0o644 };
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(&file, mode).map_err(cannot_make(name))?;
    }
    for program in programs {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        copy_program(program, &name, &root)?;
        // Symbols for debugging are most of a test build, and each boot would unpack them. Without
        // binutils they stay.
        let _ = run("strip", &[root.join("bin").join(&name)]);
    }
    let top = work.0.join("top.cpio");
    archive(&root, &top)?;
    let mut whole = File::create(work.0.join("initrd")).map_err(cannot_make("the initramfs"))?;
    for part in [cache.join("base.cpio"), top] {
        let mut part = File::open(part).map_err(cannot_make("the initramfs"))?;
        io::copy(&mut part, &mut whole).map_err(cannot_make("the initramfs"))?;
    }
    // Machines that run have the old file open.
    fs::rename(work.0.join("initrd"), initrd).map_err(cannot_make("the initramfs"))
}

/// Puts a program into `bin`, and the libraries it loads where it looks for them.
fn copy_program(program: &Path, name: &str, root: &Path) -> Result<(), String> {
    let put = |from: &Path, to: &Path| -> Result<(), String> {
        let to = root.join(to.strip_prefix("/").unwrap_or(to));
        fs::create_dir_all(to.parent().unwrap_or(root)).map_err(cannot_make("the root"))?;
        fs::copy(from, to).map(drop).map_err(|e| format!("{}: {e}", from.display()))
    };
    put(program, &Path::new("bin").join(name))?;
    // A static program has no libraries, and ldd fails for it.
    let libraries = run("ldd", &[program]).unwrap_or_default();
    for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        put(Path::new(library), Path::new(library))?;
    }
    Ok(())
}

/// Writes a folder as the kernel reads it ("newc").
fn archive(root: &Path, to: &Path) -> Result<(), String> {
    let names = output(Command::new("find").arg(".").current_dir(root))?;
    let out = File::create(to).map_err(cannot_make("an archive"))?;
    let mut child = Command::new("cpio")
        .args(["-o", "-H", "newc", "-R", "0:0", "--quiet"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(out)
        .spawn()
        .map_err(cannot_make("cpio"))?;
    if let Some(mut list) = child.stdin.take() {
        io::Write::write_all(&mut list, names.as_bytes()).map_err(cannot_make("cpio"))?;
    }
    let ended = child.wait().map_err(cannot_make("cpio"))?;
    if ended.success() { Ok(()) } else { Err(format!("cpio: {ended}")) }
}

/// A folder that is gone when this is.
struct Scratch(PathBuf);

impl Scratch {
    fn new(cache: &Path, name: &str) -> Result<Self, String> {
        let path = cache.join(format!("making-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
