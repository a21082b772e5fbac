//! What a host does, without a test: its cores, interfaces, interrupts and backlogs.

use linerate_model::activity::{CoreActivity, CoreInterrupts, HostActivity, InterfaceActivity};

use crate::facts::speed_mbps;
use crate::irq::NicIrqs;
use crate::roots::Roots;
use crate::sampler::Source;
use crate::text::{grown_32, interrupts, net_dev, softnet, stat};

/// Reads what a host's counters say of all its cores and interfaces.
///
/// Never fails: what cannot be read is absent. Interfaces are those of the network namespace of the thread that
/// calls [`ActivityReader::at`]; cores, backlogs and interrupts are the whole host's.
#[derive(Debug)]
pub struct ActivityReader {
    roots: Roots,
    stat: Source,
    softnet: Source,
    net_dev: Source,
    buffer: Vec<u8>,
    /// Of the interfaces that were there last.
    known: Vec<Known>,
    /// So many times the counters were read.
    reads: u32,
}

/// What is in many files is looked up again after so many reads: links come up, and drivers take interrupts when they do.
const AGAIN: u32 = 10;

/// What is looked up once of an interface, because it is in many files.
#[derive(Debug)]
struct Known {
    name: String,
    irqs: NicIrqs,
    speed_mbps: Option<u32>,
}

impl ActivityReader {
    /// Opens the files of a host.
    pub fn at(roots: Roots) -> Self {
        Self {
            stat: Source::open(&roots, "proc/stat"),
            softnet: Source::open_net(&roots, "softnet_stat"),
            net_dev: Source::open_net(&roots, "dev"),
            roots,
            buffer: Vec::new(),
            known: Vec::new(),
            reads: 0,
        }
    }

    /// The counters now, at this time of the monotonic clock.
    pub fn read(&mut self, monotonic_ns: u64) -> Moment {
        let mut moment = Moment { monotonic_ns, ..Moment::default() };
        let buffer = &mut self.buffer;
        stat::parse(self.stat.read(buffer).unwrap_or_default(), &mut moment.cores);
        softnet::parse(self.softnet.read(buffer).unwrap_or_default(), &mut moment.softnet);
        let rows = self.net_dev.read(buffer).map(net_dev::parse_all).unwrap_or_default();
        self.know(&rows);
        // Megabytes on a host with many cores, so it is read once for all interfaces.
        let wanted = self.known.iter().any(|known| known.irqs != NicIrqs::default());
        let interrupts = wanted.then(|| self.roots.read("proc/interrupts")).flatten();
        let interrupts = interrupts.unwrap_or_default();
        let known = |name: &str| self.known.iter().find(|known| known.name == name);
        let counted = rows.into_iter().map(|(name, counters)| {
            let known = known(&name);
            Counted {
                counters,
                irqs: known.map(|known| known.irqs.counts(&interrupts)).unwrap_or_default(),
                of: known.map(|known| known.irqs.clone()).unwrap_or_default(),
                speed_mbps: known.and_then(|known| known.speed_mbps),
                name,
            }
        });
        moment.interfaces = counted.collect();
        moment
    }

    /// Looks up what is new, and from time to time what is known.
    fn know(&mut self, rows: &[(String, net_dev::NicCounters)]) {
        let names = || rows.iter().map(|(name, _)| name);
        let fresh = !self.reads.is_multiple_of(AGAIN);
        self.reads = self.reads.wrapping_add(1);
        if fresh && self.known.iter().map(|known| &known.name).eq(names()) {
            return;
        }
        let known = |name: &String| {
            let seen = Some(name).filter(|name| self.roots.shows(name));
            Known {
                name: name.clone(),
                irqs: seen.map(|name| NicIrqs::of(&self.roots, name)).unwrap_or_default(),
                speed_mbps: seen.and_then(|name| speed_mbps(&self.roots, name)),
            }
        };
        self.known = names().map(known).collect();
    }
}

/// All counters at one moment.
#[derive(Debug, Clone, Default)]
pub struct Moment {
    monotonic_ns: u64,
    cores: Vec<stat::CoreTimes>,
    softnet: Vec<softnet::SoftnetRow>,
    interfaces: Vec<Counted>,
}

#[derive(Debug, Clone)]
struct Counted {
    name: String,
    counters: net_dev::NicCounters,
    irqs: interrupts::Counts,
    /// The interrupts that were counted.
    of: NicIrqs,
    speed_mbps: Option<u32>,
}

impl Moment {
    /// What the counters gained since an earlier moment. An interface that came or was made anew meanwhile is left
    /// out.
    pub fn since(&self, earlier: &Self) -> HostActivity {
        let span_s = self.monotonic_ns.saturating_sub(earlier.monotonic_ns) as f64 / 1e9;
        let mut cores: Vec<CoreActivity> =
            stat::growth(&earlier.cores, &self.cores).iter().map(CoreActivity::from).collect();
        for core in &mut cores {
            let row = |rows: &[softnet::SoftnetRow]| {
                rows.iter().find(|row| row.core == u64::from(core.core)).copied()
            };
            let Some((then, now)) = row(&earlier.softnet).zip(row(&self.softnet)) else { continue };
            core.softnet_dropped_packets = grown_32(then.dropped, now.dropped);
            core.softnet_squeezed = grown_32(then.squeezed, now.squeezed);
        }
        let interfaces = self.interfaces.iter().filter_map(|now| {
            let then = earlier.interfaces.iter().find(|then| then.name == now.name)?;
            now.since(then, span_s)
        });
        HostActivity { span_s, cores, interfaces: interfaces.collect() }
    }
}

impl Counted {
    fn since(&self, then: &Self, span_s: f64) -> Option<InterfaceActivity> {
        let per_second = |amount: u64| if span_s > 0.0 { amount as f64 / span_s } else { 0.0 };
        let grown = |pick: fn(&net_dev::NicCounters) -> u64| {
            pick(&self.counters).checked_sub(pick(&then.counters))
        };
        // Of others than before the growth would be all that there was since boot.
        let interrupts = if self.of == then.of { self.irqs.since(&then.irqs) } else { Vec::new() };
        let interrupts = interrupts.into_iter().filter(|(_, count)| *count > 0);
        Some(InterfaceActivity {
            name: self.name.clone(),
            speed_mbps: self.speed_mbps,
            received_bps: per_second(grown(|c| c.rx_bytes)?) * 8.0,
            sent_bps: per_second(grown(|c| c.tx_bytes)?) * 8.0,
            received_packets_per_second: per_second(grown(|c| c.rx_packets)?),
            sent_packets_per_second: per_second(grown(|c| c.tx_packets)?),
            received_dropped_packets: grown(|c| c.rx_dropped)?,
            sent_dropped_packets: grown(|c| c.tx_dropped)?,
            interrupts: interrupts
                .map(|(core, count)| CoreInterrupts { core, per_second: per_second(count) })
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use nix::net::if_::if_nametoindex;

    use super::*;
    use crate::sampler::Sampler;
    use crate::scratch::Scratch;

    fn captured(tree: &str, monotonic_ns: u64) -> Moment {
        let roots = Roots::at(format!("{}/tests/captured/{tree}", env!("CARGO_MANIFEST_DIR")));
        ActivityReader::at(roots).read(monotonic_ns)
    }

    #[test]
    fn known_answer_of_two_captured_moments() {
        let (before, after) = (captured("before", 5_000_000_000), captured("after", 7_000_000_000));
        let activity = after.since(&before);
        assert_eq!(activity.span_s, 2.0);
        let busy: Vec<_> = activity.cores.iter().map(|c| (c.core, c.busy_percent())).collect();
        assert_eq!(busy, [(0, 55.0), (1, 90.0), (4, 0.0)]);
        let softnet: Vec<_> = activity
            .cores
            .iter()
            .map(|c| (c.softnet_dropped_packets, c.softnet_squeezed))
            .collect();
        let dropped: u64 = softnet.iter().filter_map(|(dropped, _)| *dropped).sum();
        assert_eq!(dropped, 16, "{softnet:?}");
        let eth0 = activity.interfaces.iter().find(|i| i.name == "eth0").unwrap();
        assert_eq!(eth0.received_packets_per_second, 550.0);
        assert_eq!(eth0.sent_packets_per_second, 150.0);
        assert_eq!((eth0.received_dropped_packets, eth0.sent_dropped_packets), (9, 1));
        assert_eq!(eth0.speed_mbps, None);
    }

    #[test]
    fn what_goes_back_or_is_not_there_tells_nothing() {
        let (before, after) = (captured("before", 5_000_000_000), captured("after", 6_000_000_000));
        let back = before.since(&after);
        assert_eq!(back.span_s, 0.0);
        assert!(back.interfaces.iter().all(|i| i.name != "eth0"), "{back:?}");
        let nowhere = ActivityReader::at(Roots::at("/nonexistent")).read(1);
        assert_eq!(after.since(&nowhere).interfaces, []);
        assert_eq!(nowhere.since(&nowhere), HostActivity::default());
    }

    #[test]
    fn the_card_of_another_namespace_is_not_the_interface_of_its_name() {
        let root = Scratch::new();
        root.file("proc/net/dev", " lo: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
        root.file("sys/class/net/lo/speed", "1000\n");
        root.file("sys/class/net/lo/device/msi_irqs/40", "msi\n");
        let own = if_nametoindex("lo").unwrap();
        for (index, shown) in [(own, true), (own + 7, false)] {
            root.file("sys/class/net/lo/ifindex", &format!("{index}\n"));
            root.file("proc/interrupts", "CPU0 CPU1\n 40: 9 0 x\n");
            let mut reader = ActivityReader::at(root.roots());
            let sampler = Sampler::at(root.roots(), Some("lo"));
            let (first, irqs) = (reader.read(1_000_000_000), sampler.irq_counts());
            root.file("proc/interrupts", "CPU0 CPU1\n 40: 9 5 x\n");
            let lo = reader.read(2_000_000_000).since(&first).interfaces.remove(0);
            assert_eq!(lo.speed_mbps, shown.then_some(1_000), "{index}");
            let cores: Vec<u32> = lo.interrupts.iter().map(|one| one.core).collect();
            assert_eq!(cores, if shown { vec![1] } else { vec![] }, "{index}");
            assert_eq!(sampler.irq_counts().main_cores_since(&irqs), cores, "{index}");
        }
    }

    #[test]
    fn this_host_counts_what_it_sends_to_itself() {
        let mut reader = ActivityReader::at(Roots::host());
        let first = reader.read(1_000_000_000);
        let here = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            here.send_to(&[0; 1_000], here.local_addr().unwrap()).unwrap();
            here.recv(&mut [0; 8]).unwrap();
        }
        let activity = reader.read(2_000_000_000).since(&first);
        let lo = activity.interfaces.iter().find(|i| i.name == "lo").expect("a loopback interface");
        assert!(lo.received_bps >= 800_000.0 && lo.sent_packets_per_second >= 100.0, "{lo:?}");
        assert!(lo.interrupts.is_empty(), "{lo:?}");
    }
}
