//! One virtual machine.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::channel::{Channel, Done, Unanswered};
use crate::image::Image;
use crate::tool::run;

/// A boot takes 3 s on an idle host, and two minutes beside a dozen busy processes on two cores.
const BOOT: Duration = Duration::from_secs(600);
/// All that qemu can, but for what it is slow at where nothing of it is the host's: copies byte by byte, and wide registers.
/// Programs and the kernel find other ways: the campaign of `./test` took 107 and 124 CPU seconds without this, 84 to 89 with it.
const CPU: &str = "max,erms=off,fsrm=off,avx=off,avx2=off";
/// For commands whose caller names no limit.
const COMMAND: Duration = Duration::from_secs(180);
/// Commands that a machine can run at once; `lab/guest/inittab` starts as many agents.
const PORTS: usize = 4;

/// What a machine is made of.
#[derive(Debug, Clone, Copy)]
pub struct Hardware {
    /// Processors.
    pub cores: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Size in MiB of a disk that outlives reboots and power cuts, on `/data`; 0 for none.
    pub disk_mib: u32,
    /// NUMA nodes, which share cores and memory evenly. Its interface is on the last one's bus.
    pub nodes: u32,
}

impl Default for Hardware {
    fn default() -> Self {
        Self { cores: 1, memory_mib: 320, disk_mib: 0, nodes: 1 }
    }
}

impl Hardware {
    /// qemu's options for its processors, and for nodes with buses where there are several of them.
    fn processors(&self) -> Vec<String> {
        let Self { cores, memory_mib, nodes, .. } = *self;
        if nodes < 2 {
            return vec!["-smp".to_owned(), cores.to_string()];
        }
        let (own, memory) = (cores / nodes, memory_mib / nodes);
        assert_eq!((own * nodes, memory * nodes), (cores, memory_mib), "even shares");
        assert!(own > 0, "a node has a core");
        let mut all = Vec::new();
        let mut add = |option: &str, value: String| all.extend([option.to_owned(), value]);
        // A socket each: the kernel doubts nodes that part the cores of one.
        add("-smp", format!("{cores},sockets={nodes},cores={own}"));
        for node in 0..nodes {
            let (first, last) = (node * own, node * own + own - 1);
            add("-object", format!("memory-backend-ram,id=m{node},size={memory}M"));
            add("-numa", format!("node,nodeid={node},cpus={first}-{last},memdev=m{node}"));
        }
        // The firmware names the node of the root of a device's buses; those of the first root have none.
        add("-device", format!("pxb-pcie,id=far,bus_nr=128,numa_node={}", nodes - 1));
        add("-device", "pcie-root-port,id=plug,bus=far,chassis=1".to_owned());
        all
    }

    /// Where its interface is plugged in.
    fn network_bus(&self) -> &'static str {
        if self.nodes < 2 { "pcie.0" } else { "plug" }
    }
}

/// A machine that is on, or was cut off its power. Dropping it ends its qemu and no other.
#[derive(Debug)]
pub struct Machine {
    name: &'static str,
    number: u8,
    hardware: Hardware,
    space: String,
    folder: PathBuf,
    image: Image,
    child: Option<Child>,
    channels: Vec<Mutex<Channel>>,
    boot: Option<String>,
}

impl Machine {
    pub(crate) fn new(
        name: &'static str,
        number: u8,
        hardware: Hardware,
        space: &str,
        folder: &Path,
        image: &Image,
    ) -> Self {
        let mut machine = Self {
            name,
            number,
            hardware,
            space: space.to_owned(),
            folder: folder.to_owned(),
            image: image.clone(),
            child: None,
            channels: vec![],
            boot: None,
        };
        if hardware.disk_mib > 0 {
            let disk = machine.file("disk");
            File::create(&disk)
                .and_then(|file| file.set_len(u64::from(hardware.disk_mib) << 20))
                .expect("a disk");
            run(
                "mke2fs",
                &[Path::new("-q"), Path::new("-F"), Path::new("-t"), Path::new("ext4"), &disk],
            )
            .expect("a file system");
        }
        machine.power_on();
        machine
    }

    /// Its IPv4 address.
    pub fn ipv4(&self) -> String {
        format!("10.77.0.{}", self.number)
    }

    /// Its IPv6 address.
    pub fn ipv6(&self) -> String {
        format!("fd77::{}", self.number)
    }

    /// This boot's id, once [`Machine::booted`] has seen it.
    pub fn boot_id(&self) -> &str {
        self.boot.as_deref().unwrap_or_default()
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.name))
    }

    /// Switches it on, after a power cut.
    pub fn power_on(&mut self) {
        assert!(self.child.is_none(), "{} is on", self.name);
        // The kernel ends qemu when this thread ends in any way; so does `Drop`. `setpriv`, `ip` and
        // qemu replace one another, so the child's id is qemu's.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "ip", "netns", "exec", &self.space]);
        command.args(["qemu-system-x86_64", "-accel", "tcg", "-cpu", CPU, "-machine", "q35"]);
        command.args(["-nodefaults", "-no-user-config", "-display", "none"]);
        command.args(["-name", self.name, "-m", &self.hardware.memory_mib.to_string()]);
        command.args(self.hardware.processors());
        command.arg("-kernel").arg(&self.image.kernel).arg("-initrd").arg(&self.image.initrd);
        // psi=1: Debian leaves pressure figures off; linerate reads them. no_timer_check: on a busy
        // host the kernel finds its timer too slow and gives up.
        let line = format!(
            "console=ttyS0 quiet loglevel=4 panic=1 psi=1 no_timer_check rdinit=/init \
             lab.name={} lab.number={}",
            self.name, self.number
        );
        command.args(["-append", &line]);
        // One log over all boots: what a machine said before a power cut stays said.
        let console = self.file("console");
        command.args([
            "-chardev",
            &format!("file,id=console,path={},append=on", console.display()),
            "-serial",
            "chardev:console",
        ]);
        let number = self.number;
        let bus = self.hardware.network_bus();
        command.args([
            "-netdev",
            &format!("tap,id=net0,ifname=tap{number},script=no,downscript=no"),
            "-device",
            &format!("virtio-net-pci,netdev=net0,bus={bus},mac=52:54:00:77:00:{number:02x}"),
        ]);
        // Without a word qemu takes the bus that came last.
        command.args(["-device", "virtio-serial-pci,bus=pcie.0"]);
        for port in 0..PORTS {
            let socket = self.file(&port.to_string());
            let _ = std::fs::remove_file(&socket);
            command.args([
                "-chardev",
                &format!("socket,id=c{port},path={},server=on,wait=off", socket.display()),
                "-device",
                &format!("virtserialport,chardev=c{port},name=lab.{port}"),
            ]);
        }
        if self.hardware.disk_mib > 0 {
            // What the machine has written is in this host's page cache, which outlives qemu; what
            // only its own page cache holds is lost with it. Flushing the host's would prove nothing.
            let disk = self.file("disk");
            command.args([
                "-drive",
                &format!("file={},format=raw,if=virtio,cache=unsafe", disk.display()),
            ]);
        }
        let log = File::create(self.file("qemu")).expect("a log");
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        self.child = Some(command.spawn().expect("qemu starts"));
        self.boot = None;
        self.channels = (0..PORTS)
            .map(|port| Mutex::new(Channel::connect(&self.file(&port.to_string()), BOOT)))
            .collect();
    }

    /// Waits until it has booted; returns the boot's id.
    pub fn booted(&mut self) -> String {
        let old = self.boot.take();
        for channel in &self.channels {
            let mut channel = channel.lock().unwrap_or_else(PoisonError::into_inner);
            let boot = channel.boot(old.as_deref(), BOOT);
            let boot = boot.unwrap_or_else(|why| panic!("{} did not boot: {why:?}", self.name));
            self.boot = Some(boot);
        }
        self.boot_id().to_owned()
    }

    /// The same after somebody else may have let it boot any number of times.
    pub fn booted_again(&mut self) -> String {
        const ASK: &str = "cat /proc/sys/kernel/random/boot_id";
        for channel in &self.channels {
            let mut channel = channel.lock().unwrap_or_else(PoisonError::into_inner);
            // Each boot has left its greeting, which ends one question.
            let answer = (0..100).find_map(|_| channel.run(ASK, COMMAND).ok());
            let done = answer.unwrap_or_else(|| panic!("{} does not answer", self.name));
            self.boot = Some(done.out.trim().to_owned());
        }
        self.boot_id().to_owned()
    }

    /// Runs a script, which must succeed; returns what it printed.
    pub fn run(&self, script: &str) -> String {
        let done =
            self.try_run(script, COMMAND).unwrap_or_else(|why| panic!("{}: {why:?}", self.name));
        assert_eq!(done.code, 0, "{}: {script}: {}{}", self.name, done.out, done.err);
        done.out
    }

    /// Runs a script for at most `limit`. Up to four run at once; the next waits for one of them.
    ///
    /// # Errors
    /// The machine went off or booted again before it answered, or is stuck.
    pub fn try_run(&self, script: &str, limit: Duration) -> Result<Done, Unanswered> {
        let off = || Unanswered(format!("{script}: {} is off", self.name));
        let free = self.channels.iter().find_map(|channel| channel.try_lock().ok());
        let mut channel = match free {
            Some(channel) => channel,
            None => {
                let first = self.channels.first().ok_or_else(off)?;
                first.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
        channel.run(script, limit)
    }

    /// A program of this host's in `/bin`, with the libraries that the machine has: until its next boot.
    pub fn install(&self, program: &Path, name: &str) {
        let bytes =
            std::fs::read(program).unwrap_or_else(|why| panic!("{}: {why}", program.display()));
        self.run(&format!(": >/bin/{name}"));
        // Whole groups of three bytes, so that each part stands for itself.
        for part in bytes.chunks(30_000) {
            let part = STANDARD.encode(part);
            self.run(&format!("printf %s {part} | base64 -d >>/bin/{name}"));
        }
        self.run(&format!("chmod +x /bin/{name}"));
    }

    /// Starts a script and leaves it running; what it prints is in `/run/NAME.log` there.
    pub fn start(&self, name: &str, script: &str) {
        self.run(&format!(
            "cat >/run/{name}.sh <<'END'\n{script}\nEND\n\
             setsid /bin/dash /run/{name}.sh </dev/null >/run/{name}.log 2>&1 &"
        ));
    }

    /// Lets it boot again by its own will, as `reboot` does; returns the new boot's id.
    pub fn reboot(&mut self) -> String {
        self.run("(sleep 0.2; reboot -f) >/dev/null 2>&1 &");
        self.booted()
    }

    /// Takes its power away: memory is lost, and what was not yet written to its disk.
    pub fn power_cut(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.channels.clear();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.power_cut();
    }
}
