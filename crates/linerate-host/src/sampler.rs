//! What a host's counters gained, sampled while a test runs.

use std::fs::File;
use std::os::unix::fs::FileExt;

use linerate_model::sample::{HostCounters, HostSample};
use linerate_model::setting::is_interface_name;
use nix::net::if_::if_nametoindex;

use crate::irq::{NicIrqs, main_cores};
use crate::netlink::{Netlink, qdisc};
use crate::roots::{LARGEST_FILE, Roots};
use crate::text::{cgroup, grown_32, interrupts, net_dev, pressure, softnet, stat, udp};

/// Reads the host's counters.
///
/// Opens the files once and keeps them, so a reading costs some 10 system calls and little memory:
/// less than a millisecond, see `examples/cost.rs`. Never fails: a counter that cannot be read
/// is absent. Network counters are those of the network namespace of the thread that calls
/// [`Sampler::at`], wherever `read` is called later; `softnet_*` and the cores are the whole
/// host's.
#[derive(Debug)]
pub struct Sampler {
    sources: Sources,
    roots: Roots,
    irqs: NicIrqs,
}

impl Sampler {
    /// Opens the files of a host. `nic` is the interface of the test; without one, or with one that
    /// the host does not have, its counters are absent.
    pub fn at(roots: Roots, nic: Option<&str>) -> Self {
        let nic = nic.filter(|name| is_interface_name(name));
        let sources = Sources::open(&roots, nic);
        let seen = nic.filter(|nic| roots.shows(nic));
        let irqs = seen.map(|nic| NicIrqs::of(&roots, nic)).unwrap_or_default();
        Self { sources, roots, irqs }
    }

    /// The counters now, at the time that the host's clocks report.
    pub fn read(&mut self, clocks: Clocks) -> Reading {
        Reading(self.sources.read(clocks))
    }

    /// The interface's interrupts now.
    ///
    /// Not part of a reading, because on hosts with many cores /proc/interrupts is megabytes that
    /// the kernel has to print.
    pub fn irq_counts(&self) -> IrqCounts {
        IrqCounts(irq_counts(&self.roots, &self.irqs))
    }
}

/// An interface's interrupts so far, core by core.
#[derive(Debug, Clone, Default)]
pub struct IrqCounts(interrupts::Counts);

impl IrqCounts {
    /// The cores that took the interrupts since an earlier count, ascending: those with at least
    /// a twentieth of the count of the one that took most.
    pub fn main_cores_since(&self, earlier: &Self) -> Vec<u32> {
        main_cores(&self.0.since(&earlier.0))
    }
}

/// All counters at one moment.
#[derive(Debug, Clone)]
pub struct Reading(Snapshot);

impl Reading {
    /// What the counters gained since an earlier reading.
    pub fn since(&self, earlier: &Self) -> HostSample {
        growth(&earlier.0, &self.0)
    }
}

fn irq_counts(roots: &Roots, irqs: &NicIrqs) -> interrupts::Counts {
    if *irqs == NicIrqs::default() {
        return interrupts::Counts::default();
    }
    roots.read("proc/interrupts").map(|text| irqs.counts(&text)).unwrap_or_default()
}

/// Where the counters are read.
#[derive(Debug)]
struct Sources {
    stat: Source,
    snmp: Source,
    snmp6: Source,
    softnet: Source,
    net_dev: Source,
    pressure: Source,
    throttles: Vec<Source>,
    nic: Option<String>,
    /// The socket and the interface's index, where the kernel can be asked about it.
    qdisc: Option<(Netlink, u32)>,
    interrupts_apart: Option<bool>,
    buffer: Vec<u8>,
}

impl Sources {
    fn open(roots: &Roots, nic: Option<&str>) -> Self {
        let open = |below: &str| Source::open(roots, below);
        let net = |name: &str| Source::open_net(roots, name);
        let index = nic.filter(|_| roots.is_host()).and_then(|nic| if_nametoindex(nic).ok());
        let mut sources = Self {
            stat: open("proc/stat"),
            snmp: net("snmp"),
            snmp6: net("snmp6"),
            softnet: net("softnet_stat"),
            net_dev: if nic.is_some() { net("dev") } else { Source(None) },
            pressure: open("proc/pressure/cpu"),
            throttles: Vec::new(),
            nic: nic.map(str::to_owned),
            qdisc: index.and_then(|index| Some((Netlink::route()?, index))),
            interrupts_apart: interrupts_apart(roots),
            buffer: Vec::new(),
        };
        sources.throttles = throttles(roots, &mut sources.buffer);
        sources
    }

    fn read(&mut self, clocks: Clocks) -> Snapshot {
        let mut into = Snapshot { clocks, ..Snapshot::default() };
        let buffer = &mut self.buffer;
        into.interrupts_apart = self.interrupts_apart;
        stat::parse(self.stat.read(buffer).unwrap_or_default(), &mut into.cores);
        into.udp4 = self.snmp.read(buffer).map(udp::parse_snmp).unwrap_or_default();
        into.udp6 = self.snmp6.read(buffer).map(udp::parse_snmp6).unwrap_or_default();
        softnet::parse(self.softnet.read(buffer).unwrap_or_default(), &mut into.softnet);
        into.nic = self.nic.as_deref().and_then(|nic| {
            let text = self.net_dev.read(buffer)?;
            net_dev::parse(text, nic)
        });
        into.pressure_us = self.pressure.read(buffer).and_then(pressure::parse_some);
        for file in &self.throttles {
            let throttled = file.read(buffer).and_then(cgroup::parse_throttled_ns);
            into.throttled_ns.push(throttled);
        }
        into.qdisc = self.qdisc.as_mut().and_then(|(netlink, nic)| qdisc::root(netlink, *nic));
        into
    }
}

/// The files of this process' groups that count how long they were throttled.
fn throttles(roots: &Roots, buffer: &mut Vec<u8>) -> Vec<Source> {
    let groups = roots.read("proc/self/cgroup").unwrap_or_default();
    let mounts = roots.read("proc/self/mountinfo").unwrap_or_default();
    let files = cgroup::throttle_files(&groups, &mounts).into_iter();
    // Most groups have no limit and no such counter: those are not read again.
    let counts = |file: &Source| file.read(buffer).and_then(cgroup::parse_throttled_ns).is_some();
    files.map(|path| Source::open(roots, &path)).filter(counts).collect()
}

/// The levels of groups are held back at the same time, not one after the other, so the worst level is nearer to the
/// truth than their sum.
fn throttled_since(before: &[Option<u64>], after: &[Option<u64>]) -> Option<u64> {
    let levels = before.iter().zip(after);
    levels.filter_map(|(before, after)| (*after)?.checked_sub((*before)?)).max()
}

/// How long the cgroups of this process are throttled, for who asks often.
#[derive(Debug)]
pub struct Throttles {
    files: Vec<Source>,
    before: Vec<Option<u64>>,
    buffer: Vec<u8>,
}

impl Throttles {
    /// Opens the files of a host.
    pub fn at(roots: &Roots) -> Self {
        let mut buffer = Vec::new();
        let files = throttles(roots, &mut buffer);
        let mut opened = Self { files, before: Vec::new(), buffer };
        opened.grown_ns();
        opened
    }

    /// Since it was asked last, in nanoseconds of all cores added up.
    pub fn grown_ns(&mut self) -> u64 {
        let buffer = &mut self.buffer;
        let read = |file: &Source| file.read(buffer).and_then(cgroup::parse_throttled_ns);
        let now: Vec<_> = self.files.iter().map(read).collect();
        let grown = throttled_since(&self.before, &now).unwrap_or(0);
        self.before = now;
        grown
    }
}

/// `/proc/pressure/irq` is there if and only if interrupts have an account of their own, from Linux 6.1 on
/// (kernel/sched/psi.c). Older kernels, and those without PSI, do not say.
fn interrupts_apart(roots: &Roots) -> Option<bool> {
    let there = |file: &str| roots.path(&format!("proc/pressure/{file}")).exists();
    let kept = || {
        let release = roots.read("proc/sys/kernel/osrelease")?;
        let mut numbers =
            release.trim().split(['.', '-']).map_while(|word| word.parse::<u32>().ok());
        Some((numbers.next()?, numbers.next()?) >= (6, 1) && there("cpu"))
    };
    if there("irq") { Some(true) } else { kept()?.then_some(false) }
}

/// An open file that is read from its beginning each time.
#[derive(Debug)]
pub(crate) struct Source(Option<File>);

impl Source {
    /// Of a file given without the leading `/`; one that is not there is never read.
    pub(crate) fn open(roots: &Roots, below: &str) -> Self {
        Self(File::open(roots.path(below)).ok())
    }

    /// A file of /proc/net, of the calling thread's network namespace.
    ///
    /// /proc/net is a link to self/net, which shows the namespace of the process' first thread.
    /// A thread that was moved to another one would read counters of sockets not its own.
    /// thread-self is in Linux 3.17 and later. A file once open keeps its namespace.
    pub(crate) fn open_net(roots: &Roots, name: &str) -> Self {
        let own = Self::open(roots, &format!("proc/thread-self/net/{name}"));
        if own.0.is_some() { own } else { Self::open(roots, &format!("proc/net/{name}")) }
    }

    /// The whole text, in the given memory. `None` if it cannot be read or is not UTF-8.
    ///
    /// Reading at offset 0 makes the kernel print the file anew; the reads after it, at the offset
    /// reached, hand out the rest of the same print.
    pub(crate) fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> Option<&'a str> {
        let file = self.0.as_ref()?;
        let mut length = 0_usize;
        loop {
            if buffer.len() <= length {
                if buffer.len() as u64 >= LARGEST_FILE {
                    return None;
                }
                buffer.resize((buffer.len().saturating_mul(2)).max(SMALLEST_BUFFER), 0);
            }
            match file.read_at(buffer.get_mut(length..)?, length as u64) {
                Ok(0) => return std::str::from_utf8(buffer.get(..length)?).ok(),
                Ok(count) => length = length.saturating_add(count),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}

/// Holds every file of a host with some ten cores, so that it need not grow.
const SMALLEST_BUFFER: usize = 16 << 10;

/// One reading of everything.
#[derive(Debug, Default, Clone)]
struct Snapshot {
    clocks: Clocks,
    interrupts_apart: Option<bool>,
    cores: Vec<stat::CoreTimes>,
    udp4: udp::UdpCounters,
    udp6: udp::UdpCounters,
    softnet: Vec<softnet::SoftnetRow>,
    nic: Option<net_dev::NicCounters>,
    qdisc: Option<qdisc::Queue>,
    pressure_us: Option<u64>,
    throttled_ns: Vec<Option<u64>>,
}

fn growth(before: &Snapshot, after: &Snapshot) -> HostSample {
    let span_ns = after.clocks.monotonic_ns.saturating_sub(before.clocks.monotonic_ns);
    // Summed first: where one version's counter went back, the other's alone would be too little.
    let udp = after.udp4.and(&after.udp6).since(&before.udp4.and(&before.udp6));
    let softnet = softnet::growth(&before.softnet, &after.softnet);
    // An interface that has gone or come, or that nobody named, says nothing.
    let nics = before.nic.zip(after.nic);
    let qdiscs = before.qdisc.zip(after.qdisc);
    let pressures = before.pressure_us.zip(after.pressure_us);
    let nic = |pick: fn(&net_dev::NicCounters) -> u64| {
        nics.and_then(|(before, after)| pick(&after).checked_sub(pick(&before)))
    };
    let throttled_ns = throttled_since(&before.throttled_ns, &after.throttled_ns);
    HostSample {
        cores: stat::growth(&before.cores, &after.cores),
        left_out: None,
        counters: HostCounters {
            udp_receive_buffer_errors: udp.receive_buffer_errors,
            udp_send_buffer_errors: udp.send_buffer_errors,
            udp_checksum_errors: udp.checksum_errors,
            softnet_dropped: softnet.map(|(dropped, _)| dropped),
            softnet_squeezed: softnet.map(|(_, squeezed)| squeezed),
            nic_rx_dropped: nic(|nic| nic.rx_dropped),
            nic_tx_dropped: nic(|nic| nic.tx_dropped),
            nic_tx_packets: nic(|nic| nic.tx_packets),
            nic_rx_packets: nic(|nic| nic.rx_packets),
            qdisc_dropped: qdiscs.and_then(|(before, after)| grown_32(before.drops, after.drops)),
            qdisc_backlog: after.qdisc.map(|queue| queue.backlog),
            throttled_ns,
        },
        cpu_pressure: pressures.and_then(|(before, after)| pressure::share(before, after, span_ns)),
        interrupts_apart: after.interrupts_apart,
        span_ns,
        stopped_ns: None,
        lost_link: None,
        clock_step_ns: after.clocks.wall_ahead_ns.saturating_sub(before.clocks.wall_ahead_ns),
    }
}

/// The host's two clocks at one instant, read by whoever asks for the counters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clocks {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, nanoseconds. NTP speeds up or slows down both alike,
    /// so this changes only when the wall clock is set.
    pub wall_ahead_ns: i64,
}

#[cfg(test)]
mod tests {
    use linerate_model::host::CoreUse;

    use super::*;
    use crate::scratch::Scratch;

    fn snapshot(tree: &str, monotonic_ns: u64) -> Snapshot {
        let roots = Roots::at(format!("{}/tests/captured/{tree}", env!("CARGO_MANIFEST_DIR")));
        let clocks = Clocks { monotonic_ns, wall_ahead_ns: 1_000_000_000 };
        Sources::open(&roots, Some("eth0")).read(clocks)
    }

    #[test]
    fn known_answer_of_two_captured_readings() {
        let before = snapshot("before", 5_000_000_000);
        let mut after = snapshot("after", 6_000_000_000);
        after.clocks.wall_ahead_ns -= 250;
        let expected = HostSample {
            cores: vec![
                CoreUse { core: 0, user: 2000, system: 3000, softirq: 500, steal: 0, idle: 4500 },
                CoreUse { core: 1, user: 0, system: 0, softirq: 9000, steal: 1000, idle: 0 },
                CoreUse { core: 4, user: 0, system: 0, softirq: 0, steal: 0, idle: 10_000 },
            ],
            left_out: None,
            counters: HostCounters {
                udp_receive_buffer_errors: Some(30 + 4),
                udp_send_buffer_errors: Some(5),
                udp_checksum_errors: Some(1 + 1),
                softnet_dropped: Some(16),
                softnet_squeezed: Some(3),
                nic_rx_dropped: Some(7 + 2),
                nic_tx_dropped: Some(1),
                nic_tx_packets: Some(300),
                nic_rx_packets: Some(1_100),
                qdisc_dropped: None,
                qdisc_backlog: None,
                throttled_ns: Some(120_000_000),
            },
            cpu_pressure: Some(1_250),
            interrupts_apart: None,
            span_ns: 1_000_000_000,
            stopped_ns: None,
            lost_link: None,
            clock_step_ns: -250,
        };
        assert_eq!(growth(&before, &after), expected);
    }

    #[test]
    fn going_back_tells_nothing() {
        let before = snapshot("after", 6_000_000_000);
        let after = snapshot("before", 5_000_000_000);
        let sample = growth(&before, &after);
        let none = None;
        let expected = HostCounters {
            udp_receive_buffer_errors: none,
            udp_send_buffer_errors: none,
            udp_checksum_errors: none,
            softnet_dropped: none,
            softnet_squeezed: none,
            nic_rx_dropped: none,
            nic_tx_dropped: none,
            nic_tx_packets: none,
            nic_rx_packets: none,
            qdisc_dropped: None,
            qdisc_backlog: None,
            throttled_ns: none,
        };
        assert_eq!(sample.counters, expected);
        assert_eq!((sample.span_ns, sample.cpu_pressure), (0, None));
    }

    #[test]
    fn a_kernel_says_whether_it_keeps_interrupts_apart() {
        let kernel = |release: &str, files: &[&str]| {
            let root = Scratch::new();
            root.file("proc/sys/kernel/osrelease", release);
            std::fs::create_dir(root.0.join("proc/pressure")).unwrap();
            for file in files {
                root.file(&format!("proc/pressure/{file}"), "");
            }
            interrupts_apart(&root.roots())
        };
        assert_eq!(kernel("6.18.44-x\n", &["cpu", "irq"]), Some(true));
        assert_eq!(kernel("6.18.44-x\n", &["cpu"]), Some(false));
        assert_eq!(kernel("6.1\n", &["cpu"]), Some(false));
        assert_eq!(kernel("5.15.0-91-generic\n", &["cpu"]), None);
        assert_eq!(kernel("6.18.44\n", &[]), None);
        assert_eq!(kernel("odd", &["cpu"]), None);
        assert_eq!(interrupts_apart(&Scratch::new().roots()), None);
    }

    #[test]
    fn a_host_without_files_is_not_an_error() {
        let mut sampler = Sampler::at(Roots::at("/nonexistent"), Some("eth0"));
        let (first, irqs) = (sampler.read(Clocks::default()), sampler.irq_counts());
        let sample = sampler.read(Clocks::default()).since(&first);
        assert_eq!((sample.cores.len(), sample.counters), (0, HostCounters::default()));
        assert!(sampler.irq_counts().main_cores_since(&irqs).is_empty());
    }

    #[test]
    fn an_interface_that_goes_or_that_nobody_named_tells_nothing() {
        let mut gone = snapshot("after", 6_000_000_000);
        gone.nic = None;
        let sample = growth(&snapshot("before", 5_000_000_000), &gone);
        let nic = |c: &HostCounters| {
            [c.nic_tx_packets, c.nic_rx_packets, c.nic_tx_dropped, c.nic_rx_dropped]
        };
        assert_eq!(nic(&sample.counters), [None; 4]);
        let counters = &sample.counters;
        assert!(counters.udp_checksum_errors.is_some() && counters.softnet_dropped.is_some());
        for name in [None, Some("none0")] {
            let mut sampler = Sampler::at(Roots::host(), name);
            let first = sampler.read(Clocks::default());
            let sample = sampler.read(Clocks::default()).since(&first);
            assert_eq!(nic(&sample.counters), [None; 4]);
        }
    }

    #[test]
    fn this_host_counts_what_it_sends_to_itself() {
        let mut sampler = Sampler::at(Roots::host(), Some("lo"));
        let at = |monotonic_ns| Clocks { monotonic_ns, wall_ahead_ns: 0 };
        let first = sampler.read(at(1_000));
        let here = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            here.send_to(b"x", here.local_addr().unwrap()).unwrap();
            here.recv(&mut [0; 8]).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        let second = sampler.read(at(51_000));
        let sample = second.since(&first);
        assert!(sample.counters.nic_tx_packets.unwrap() >= 100, "{sample:?}");
        assert_eq!(sample.span_ns, 50_000);
        assert!(!sample.cores.is_empty());
        for core in &sample.cores {
            assert_eq!(core.busy() + core.steal + core.idle, 10_000);
        }
        let again = sampler.read(at(52_000)).since(&second);
        assert_eq!(again.span_ns, 1_000, "counts from the last reading");
    }

    #[test]
    fn a_file_longer_than_the_buffer_is_read_whole() {
        let source =
            Source(File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sampler.rs")).ok());
        let mut buffer = vec![0; 7];
        assert_eq!(source.read(&mut buffer), Some(include_str!("sampler.rs")));
        assert_eq!(source.read(&mut buffer), Some(include_str!("sampler.rs")));
    }
}
