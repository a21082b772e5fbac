//! Hosts that are made up: healthy ones give nothing above a note, and each that is made bad in one way gives
//! that finding.

use linerate_doctor::{Case, Judged, ids, judge};
use linerate_model::doctor::Severity::{Note, Problem, Warning};
use linerate_model::doctor::{
    Amount, Fact, Feature, Goal, Governor, HostDetails, IdleState, InterruptDetails, NumaNode,
    QdiscDetails, RouteDetails, Severity, Watched,
};
use linerate_model::host::{HostFacts, NicFacts};
use linerate_model::record::TestEnd;

#[path = "known/advice.rs"]
mod advice;

const FEATURES: &[&str] = &[
    "tx-scatter-gather",
    "tx-checksum-ip-generic",
    "tx-generic-segmentation",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-udp-segmentation",
    "rx-gro",
    "rx-checksum",
];

/// A server with a card, set as its distribution sets it.
fn healthy() -> HostDetails {
    let mut host = HostDetails {
        host: HostFacts {
            hostname: "h".into(),
            cores: Some(8),
            nic: Some(NicFacts {
                name: "eth0".into(),
                driver: Some("mlx5_core".into()),
                speed_mbps: Some(25_000),
                mtu: Some(1_500),
                ..NicFacts::default()
            }),
            ..HostFacts::default()
        },
        route: Fact::Known(RouteDetails {
            to: "192.0.2.7".parse().ok(),
            full_packets: Some(true),
            ..RouteDetails::default()
        }),
        ..HostDetails::default()
    };
    let device = &mut host.device;
    device.kind = Fact::Known(None);
    device.carrier = Fact::Known(true);
    device.duplex = Fact::Known(Some("full".into()));
    device.largest_mtu_bytes = Fact::Known(Some(9_978));
    device.queue_length = Fact::Known(1_000);
    let on = |name: &&str| Feature {
        name: (*name).into(),
        on: true,
        changeable: Some(true),
        refused: false,
    };
    device.features = Fact::Known(FEATURES.iter().map(on).collect());
    device.rings = Fact::Known(vec![Amount { name: "rx".into(), now: 1_024, most: Some(8_192) }]);
    device.channels = Fact::Known(vec![Amount { name: "combined".into(), now: 8, most: Some(63) }]);
    device.qdiscs = Fact::Known(vec![discipline("mq"), discipline("fq_codel")]);
    device.interrupts = Fact::Known(
        (0..8)
            .map(|n| InterruptDetails { irq: 100 + n, cores: vec![n], effective: None })
            .collect(),
    );
    device.numa_node = Fact::Known(Some(0));
    device.rps = Fact::Known(vec![vec![]; 8]);
    device.xps = Fact::Known((0..8).map(|core| vec![core]).collect());
    device.rx_missed = Fact::Known(0);
    host.cpu.allowed = Fact::Known((0..8).collect());
    host.cpu.governors = Fact::Known(vec![governor("performance", "intel_pstate")]);
    host.cpu.idle_states = Fact::Known(vec![]);
    host.cpu.mitigations = Fact::Known(vec!["spectre_v1: usercopy barriers".into()]);
    host.cpu.nodes = Fact::Known(vec![NumaNode { node: 0, cores: (0..8).collect() }]);
    host.cpu.limit_millicores = Fact::Known(None);
    host.cpu.pressure_percent = Fact::Known(0.3);
    for (name, value) in [
        ("net.core.rmem_max", "67108864"),
        ("net.core.wmem_max", "67108864"),
        ("net.core.rmem_default", "212992"),
        ("net.core.wmem_default", "212992"),
        ("net.ipv4.udp_mem", "188319 251093 376638"),
        ("net.core.netdev_budget", "300"),
        ("net.core.netdev_budget_usecs", "2000"),
        ("net.core.netdev_max_backlog", "1000"),
        ("net.ipv4.ip_forward", "0"),
        ("net.ipv6.conf.all.forwarding", "0"),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
        ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
        ("net.ipv4.tcp_congestion_control", "cubic"),
        ("net.ipv4.tcp_window_scaling", "1"),
        ("net.ipv4.tcp_sack", "1"),
        ("net.ipv4.tcp_timestamps", "1"),
        ("net.ipv4.tcp_moderate_rcvbuf", "1"),
        ("net.ipv4.tcp_mtu_probing", "0"),
    ] {
        set(&mut host, name, value);
    }
    host.system.clock_source = Fact::Known("tsc".into());
    host.system.clock_keepers = Fact::Known(vec!["chronyd".into()]);
    host.system.irqbalance = Fact::Known(false);
    host.system.page_bytes = Fact::Known(4_096);
    host.system.virtual_machine = Fact::Known(None);
    host.system.container = Fact::Known(None);
    host.firewall.rules = Fact::Known(0);
    host.firewall.tracks = Fact::Known(false);
    host.firewall.entries = Fact::Known(0);
    host.firewall.most_entries = Fact::Known(262_144);
    host.watched = Fact::Known(watched());
    host
}

fn watched() -> Watched {
    Watched {
        for_ms: 500,
        steal_percent: Some(0.0),
        softnet_dropped: Some(0),
        softnet_squeezed: Some(0),
        nic_rx_dropped: Some(0),
        qdisc_dropped: Some(0),
        udp_receive_buffer_errors: Some(0),
        throttled_ms: None,
    }
}

fn set(host: &mut HostDetails, name: &str, value: &str) {
    host.sysctls.insert(name.into(), Fact::Known(value.into()));
}

fn discipline(kind: &str) -> QdiscDetails {
    QdiscDetails { kind: kind.into(), ..QdiscDetails::default() }
}

fn governor(name: &str, driver: &str) -> Governor {
    Governor { name: name.into(), driver: driver.into(), cores: (0..8).collect() }
}

fn nodes<const N: usize>(cores: [std::ops::Range<u32>; N]) -> Fact<Vec<NumaNode>> {
    let node =
        |(node, cores): (u32, std::ops::Range<u32>)| NumaNode { node, cores: cores.collect() };
    Fact::Known((0..).zip(cores).map(node).collect())
}

fn off(host: &mut HostDetails, names: &[&str]) {
    let Fact::Known(features) = &mut host.device.features else { panic!("features") };
    for feature in features.iter_mut().filter(|f| names.contains(&f.name.as_str())) {
        feature.on = false;
    }
}

fn nic(host: &mut HostDetails) -> &mut NicFacts {
    host.host.nic.as_mut().expect("an interface")
}

fn grown(change: impl FnOnce(&mut Watched)) -> Fact<Watched> {
    let mut all = watched();
    change(&mut all);
    Fact::Known(all)
}

/// An interface within the kernel, as container and namespace have it.
fn veth() -> HostDetails {
    let mut host = healthy();
    let card = nic(&mut host);
    (card.driver, card.speed_mbps) = (None, Some(10_000));
    host.device.kind = Fact::Known(Some("veth".into()));
    host.device.rings = Fact::Known(vec![]);
    host.device.channels = Fact::Known(vec![]);
    host.device.qdiscs = Fact::Known(vec![discipline("noqueue")]);
    host.device.interrupts = Fact::Known(vec![]);
    host.device.numa_node = Fact::Known(None);
    host.device.rps = Fact::Known(vec![vec![]]);
    host.device.xps = Fact::Known(vec![]);
    off(&mut host, &["rx-gro"]);
    host
}

fn judged(host: &HostDetails, gbit: u64, rtt_ms: u64) -> Judged {
    let rate_bps = (gbit > 0).then_some(gbit * 1_000_000_000);
    let goal = Goal { rate_bps, rtt_s: (rtt_ms > 0).then_some(rtt_ms as f64 / 1e3) };
    judge(&Case { end: TestEnd::Client, host, other: None, goal })
}

/// Eight interrupts that may go to these cores, and go to that one where that is known.
fn interrupts(cores: &[u32], effective: Option<u32>) -> Fact<Vec<InterruptDetails>> {
    let one = |n: u32| InterruptDetails {
        irq: 100 + n,
        cores: cores.to_vec(),
        effective: effective.map(|core| vec![core]),
    };
    Fact::Known((0..8).map(one).collect())
}

type Change = fn(&mut HostDetails);

/// What is bad, the goal in Gbit/s (0: none), the round trip in ms (0: not known), and the finding.
const BAD: &[(&str, u64, u64, Severity, Change)] = &[
    ("path.carrier", 0, 0, Problem, |h| h.device.carrier = Fact::Known(false)),
    ("path.duplex", 0, 0, Problem, |h| h.device.duplex = Fact::Known(Some("half".into()))),
    ("path.speed", 10, 0, Problem, |h| nic(h).speed_mbps = Some(1_000)),
    ("path.mtu-route", 0, 0, Warning, |h| {
        let Fact::Known(route) = &mut h.route else { panic!("a route") };
        route.mtu_bytes = Some(1_400);
    }),
    ("path.black-hole", 0, 0, Problem, |h| {
        let Fact::Known(route) = &mut h.route else { panic!("a route") };
        route.full_packets = Some(false);
    }),
    ("path.jumbo", 25, 0, Warning, |_| {}),
    ("path.jumbo", 10, 0, Note, |_| {}),
    ("buffers.rmem-max", 0, 0, Warning, |h| set(h, "net.core.rmem_max", "65536")),
    ("buffers.rmem-max", 1, 0, Warning, |h| set(h, "net.core.rmem_max", "212992")),
    ("buffers.rmem-max", 25, 0, Problem, |h| set(h, "net.core.rmem_max", "212992")),
    ("buffers.wmem-max", 0, 0, Warning, |h| set(h, "net.core.wmem_max", "4608")),
    ("buffers.rmem-default", 0, 0, Warning, |h| set(h, "net.core.rmem_default", "8192")),
    ("buffers.wmem-default", 0, 0, Warning, |h| set(h, "net.core.wmem_default", "8192")),
    ("buffers.udp-memory", 0, 0, Warning, |h| set(h, "net.ipv4.udp_mem", "192 256 384")),
    ("buffers.tcp-rmem", 0, 0, Problem, |h| set(h, "net.ipv4.tcp_rmem", "4096 16384 16384")),
    ("buffers.tcp-rmem", 10, 100, Problem, |_| {}),
    ("buffers.tcp-rmem", 1, 50, Warning, |_| {}),
    ("buffers.tcp-wmem", 0, 0, Warning, |h| set(h, "net.ipv4.tcp_wmem", "4096 16384 327680")),
    ("buffers.udp-overflow", 0, 0, Warning, |h| {
        h.watched = grown(|w| w.udp_receive_buffer_errors = Some(7));
    }),
    ("tcp.window-scaling", 0, 0, Problem, |h| set(h, "net.ipv4.tcp_window_scaling", "0")),
    ("tcp.sack", 0, 0, Warning, |h| set(h, "net.ipv4.tcp_sack", "0")),
    ("tcp.timestamps", 0, 0, Note, |h| set(h, "net.ipv4.tcp_timestamps", "0")),
    ("tcp.autotuning", 0, 0, Warning, |h| set(h, "net.ipv4.tcp_moderate_rcvbuf", "0")),
    ("tcp.congestion-control", 0, 0, Warning, |h| {
        set(h, "net.ipv4.tcp_congestion_control", "vegas");
    }),
    ("tcp.mtu-probing", 0, 0, Note, |h| nic(h).mtu = Some(9_000)),
    ("offload.tso", 0, 0, Warning, |h| off(h, &["tx-tcp-segmentation", "tx-tcp6-segmentation"])),
    ("offload.gso", 0, 0, Warning, |h| off(h, &["tx-generic-segmentation"])),
    ("offload.udp-segmentation", 0, 0, Warning, |h| off(h, &["tx-udp-segmentation"])),
    ("offload.tx-checksum", 0, 0, Warning, |h| off(h, &["tx-checksum-ip-generic"])),
    ("offload.rx-checksum", 0, 0, Warning, |h| off(h, &["rx-checksum"])),
    ("offload.scatter-gather", 0, 0, Warning, |h| off(h, &["tx-scatter-gather"])),
    ("offload.gro", 0, 0, Warning, |h| off(h, &["rx-gro"])),
    ("offload.udp-gro-forwarding", 0, 0, Note, |h| {
        set(h, "net.ipv4.ip_forward", "1");
        let Fact::Known(features) = &mut h.device.features else { panic!("features") };
        let name = "rx-udp-gro-forwarding".into();
        features.push(Feature { name, on: false, changeable: Some(true), refused: false });
    }),
    ("offload.udp-gro-forwarding", 0, 0, Note, |h| {
        set(h, "net.ipv6.conf.all.forwarding", "1");
        let Fact::Known(features) = &mut h.device.features else { panic!("features") };
        let name = "rx-udp-gro-forwarding".into();
        features.push(Feature { name, on: false, changeable: Some(true), refused: false });
    }),
    ("qdisc.shaper", 0, 0, Warning, |h| {
        h.device.qdiscs =
            Fact::Known(vec![QdiscDetails { rate_bps: Some(100_000_000), ..discipline("tbf") }]);
    }),
    ("qdisc.shaper", 1, 0, Problem, |h| {
        h.device.qdiscs =
            Fact::Known(vec![QdiscDetails { rate_bps: Some(100_000_000), ..discipline("tbf") }]);
    }),
    ("qdisc.shaper", 0, 0, Warning, |h| h.device.qdiscs = Fact::Known(vec![discipline("htb")])),
    ("qdisc.shaper", 1, 0, Warning, |h| {
        h.device.qdiscs =
            Fact::Known(vec![QdiscDetails { rate_bps: Some(100_000_000), ..discipline("fq") }]);
    }),
    // The rate of the one is known and enough, that of the other is not read.
    ("qdisc.shaper", 1, 0, Warning, |h| {
        let wide = QdiscDetails { rate_bps: Some(5_000_000_000), ..discipline("tbf") };
        h.device.qdiscs = Fact::Known(vec![discipline("htb"), wide]);
    }),
    ("qdisc.emulator", 0, 0, Problem, |h| h.device.qdiscs = Fact::Known(vec![discipline("netem")])),
    ("qdisc.short", 0, 0, Warning, |h| {
        h.device.qdiscs =
            Fact::Known(vec![QdiscDetails { limit_packets: Some(10), ..discipline("pfifo") }]);
    }),
    ("qdisc.short", 0, 0, Warning, |h| {
        h.device.qdiscs = Fact::Known(vec![discipline("pfifo_fast")]);
        h.device.queue_length = Fact::Known(5);
    }),
    ("qdisc.kind", 0, 0, Warning, |h| h.device.qdiscs = Fact::Known(vec![discipline("sfq")])),
    ("qdisc.pacing", 0, 0, Note, |h| set(h, "net.ipv4.tcp_congestion_control", "bbr")),
    ("qdisc.drops", 0, 0, Warning, |h| h.watched = grown(|w| w.qdisc_dropped = Some(3))),
    ("nic.ring", 10, 0, Warning, |h| {
        h.device.rings =
            Fact::Known(vec![Amount { name: "rx".into(), now: 256, most: Some(4_096) }]);
    }),
    ("nic.rx-missed", 0, 0, Note, |h| h.device.rx_missed = Fact::Known(17)),
    ("nic.rx-dropped", 0, 0, Note, |h| h.watched = grown(|w| w.nic_rx_dropped = Some(4))),
    ("nic.queues", 10, 0, Warning, |h| {
        h.device.channels =
            Fact::Known(vec![Amount { name: "combined".into(), now: 1, most: Some(63) }]);
    }),
    ("nic.irq-one-core", 0, 0, Warning, |h| {
        h.device.interrupts = interrupts(&[0], None);
    }),
    ("nic.irq-one-core", 0, 0, Warning, |h| {
        h.device.interrupts = interrupts(&[0, 1, 2, 3, 4, 5, 6, 7], Some(0));
    }),
    ("nic.irqbalance", 10, 0, Note, |h| h.system.irqbalance = Fact::Known(true)),
    ("nic.rps-one-core", 0, 0, Warning, |h| h.device.rps = Fact::Known(vec![vec![0]; 8])),
    ("nic.rps-off", 5, 0, Note, |h| h.device.rps = Fact::Known(vec![vec![]])),
    ("nic.xps-one-core", 0, 0, Warning, |h| h.device.xps = Fact::Known(vec![vec![3]; 8])),
    ("nic.numa", 0, 0, Warning, |h| {
        h.cpu.nodes = nodes([8..16, 0..8]);
    }),
    ("nic.numa", 0, 0, Note, |h| {
        h.cpu.nodes = nodes([0..4, 4..8]);
    }),
    ("softnet.budget", 0, 0, Warning, |h| set(h, "net.core.netdev_budget", "64")),
    ("softnet.budget-time", 0, 0, Warning, |h| set(h, "net.core.netdev_budget_usecs", "100")),
    ("softnet.backlog", 0, 0, Warning, |h| set(h, "net.core.netdev_max_backlog", "10")),
    ("softnet.dropped", 0, 0, Warning, |h| h.watched = grown(|w| w.softnet_dropped = Some(1))),
    ("softnet.squeezed", 0, 0, Note, |h| h.watched = grown(|w| w.softnet_squeezed = Some(1))),
    ("firewall.conntrack", 1, 0, Warning, |h| h.firewall.tracks = Fact::Known(true)),
    ("firewall.conntrack", 0, 0, Note, |h| h.firewall.tracks = Fact::Known(true)),
    ("firewall.conntrack-full", 0, 0, Problem, |h| {
        h.firewall.tracks = Fact::Known(true);
        h.firewall.entries = Fact::Known(262_000);
    }),
    ("firewall.rules", 0, 0, Warning, |h| h.firewall.rules = Fact::Known(4_000)),
    ("cpu.limit", 0, 0, Problem, |h| h.cpu.limit_millicores = Fact::Known(Some(500))),
    ("cpu.limit", 0, 0, Warning, |h| h.cpu.limit_millicores = Fact::Known(Some(2_000))),
    ("cpu.throttled", 0, 0, Warning, |h| h.watched = grown(|w| w.throttled_ms = Some(120))),
    ("cpu.affinity", 0, 0, Warning, |h| h.cpu.allowed = Fact::Known(vec![2])),
    ("cpu.few", 10, 0, Warning, |h| {
        h.host.cores = Some(1);
        h.cpu.allowed = Fact::Known(vec![0]);
    }),
    ("cpu.steal", 0, 0, Warning, |h| h.watched = grown(|w| w.steal_percent = Some(12.0))),
    ("cpu.pressure", 0, 0, Warning, |h| h.cpu.pressure_percent = Fact::Known(45.0)),
    ("cpu.governor", 0, 0, Problem, |h| {
        h.cpu.governors = Fact::Known(vec![governor("powersave", "acpi-cpufreq")]);
    }),
    ("cpu.governor", 10, 0, Warning, |h| {
        h.cpu.governors = Fact::Known(vec![governor("powersave", "intel_pstate")]);
    }),
    ("cpu.idle-states", 0, 0, Note, |h| {
        let state = IdleState { name: "C6".into(), exit_latency_us: 133, enabled: true };
        h.cpu.idle_states = Fact::Known(vec![state]);
    }),
    ("cpu.mitigations", 0, 0, Note, |_| {}),
    ("clock.source", 0, 0, Problem, |h| h.system.clock_source = Fact::Known("hpet".into())),
    ("clock.sync", 0, 0, Note, |h| h.system.clock_keepers = Fact::Known(vec![])),
    ("system.virtual-machine", 0, 0, Note, |h| {
        h.system.virtual_machine = Fact::Known(Some("QEMU".into()));
    }),
    ("system.container", 0, 0, Note, |h| h.system.container = Fact::Known(Some("docker".into()))),
];

#[test]
fn each_bad_host_is_found_out() {
    for (id, gbit, rtt, severity, change) in BAD {
        let mut host = healthy();
        change(&mut host);
        let found = judged(&host, *gbit, *rtt);
        assert_eq!(found.unknown, [], "{id}");
        let finding = found.findings.iter().find(|f| f.id == *id);
        let finding = finding.unwrap_or_else(|| panic!("{id} is not found: {:#?}", found.findings));
        assert_eq!(finding.severity, *severity, "{finding:#?}");
        assert!(!finding.what.is_empty() && !finding.why.is_empty(), "{finding:#?}");
        assert!(finding.effect.starts_with("not measured; "), "{finding:#?}");
        // Without that change it is not there, or it is a note; a goal alone may call for it.
        let before = judged(&healthy(), *gbit, *rtt);
        let there = before.findings.iter().any(|f| f.id == *id && f.severity == *severity);
        let by_goal = matches!(*id, "path.jumbo" | "buffers.tcp-rmem" | "cpu.mitigations");
        assert!(!there || by_goal, "{id} is found on the healthy host too");
    }
}

#[test]
fn every_check_has_a_bad_host() {
    for id in ids() {
        // Two hosts are needed for it: below.
        let tried = BAD.iter().any(|(bad, ..)| *bad == id) || id == "path.mtu-mismatch";
        assert!(tried, "{id}");
    }
    let mut all: Vec<_> = ids().collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), ids().count(), "names are unique");
}

/// Healthy hosts of many kinds, and goals that they reach.
const HEALTHY: &[(&str, u64, u64, Change)] = &[
    ("as it comes", 0, 0, |_| {}),
    ("for a gigabit", 1, 1, |_| {}),
    ("for ten gigabit", 10, 1, |_| {}),
    ("jumbo frames for 25 gigabit", 25, 0, |h| nic(h).mtu = Some(9_000)),
    ("the kernel's own buffers", 0, 0, |h| {
        set(h, "net.core.rmem_max", "212992");
        set(h, "net.core.wmem_max", "212992");
    }),
    ("a small host", 0, 0, |h| {
        h.host.cores = Some(1);
        h.cpu.allowed = Fact::Known(vec![0]);
        set(h, "net.ipv4.tcp_rmem", "4096 131072 1048576");
        set(h, "net.ipv4.tcp_wmem", "4096 16384 1048576");
    }),
    ("pages of 64 KiB", 0, 0, |h| {
        h.system.page_bytes = Fact::Known(65_536);
        set(h, "net.ipv4.udp_mem", "75 100 150");
    }),
    ("a virtual machine", 1, 0, |h| {
        nic(h).driver = Some("virtio_net".into());
        nic(h).speed_mbps = None;
        h.system.virtual_machine = Fact::Known(Some("QEMU".into()));
        h.cpu.governors = Fact::Known(vec![]);
        h.system.clock_source = Fact::Known("kvm-clock".into());
        let Fact::Known(features) = &mut h.device.features else { panic!("features") };
        // Older virtio cards have none.
        let udp = features.iter_mut().find(|f| f.name == "tx-udp-segmentation").unwrap();
        (udp.on, udp.changeable) = (false, Some(false));
    }),
    ("a container", 0, 0, |h| {
        *h = veth();
        h.system.container = Fact::Known(Some("docker".into()));
        h.cpu.limit_millicores = Fact::Known(Some(4_000));
    }),
    ("a pair of interfaces in the kernel", 10, 0, |h| *h = veth()),
    ("a laptop", 0, 0, |h| {
        h.cpu.governors = Fact::Known(vec![governor("powersave", "intel_pstate")]);
        let state = IdleState { name: "C10".into(), exit_latency_us: 890, enabled: true };
        h.cpu.idle_states = Fact::Known(vec![state]);
    }),
    ("schedutil", 1, 0, |h| {
        h.cpu.governors = Fact::Known(vec![governor("schedutil", "acpi-cpufreq")])
    }),
    ("a firewall with few rules", 0, 0, |h| {
        h.firewall.rules = Fact::Known(12);
        h.firewall.tracks = Fact::Known(true);
        h.firewall.entries = Fact::Known(40);
    }),
    ("bbr over fq", 1, 20, |h| {
        set(h, "net.ipv4.tcp_congestion_control", "bbr");
        h.device.qdiscs = Fact::Known(vec![discipline("fq")]);
        set(h, "net.ipv4.tcp_rmem", "4096 131072 67108864");
        set(h, "net.ipv4.tcp_wmem", "4096 16384 67108864");
    }),
    ("cake without a rate", 0, 0, |h| h.device.qdiscs = Fact::Known(vec![discipline("cake")])),
    ("a bucket wider than the goal", 1, 0, |h| {
        h.device.qdiscs =
            Fact::Known(vec![QdiscDetails { rate_bps: Some(5_000_000_000), ..discipline("tbf") }]);
    }),
    ("RPS over all cores", 1, 0, |h| h.device.rps = Fact::Known(vec![(0..8).collect(); 8])),
    ("one queue of eight handed to a core", 1, 0, |h| {
        let queues = || (0..8).map(|queue| if queue == 1 { vec![2] } else { vec![] }).collect();
        (h.device.rps, h.device.xps) = (Fact::Known(queues()), Fact::Known(queues()));
    }),
    ("two nodes", 10, 0, |h| {
        h.cpu.nodes = nodes([0..4, 4..8]);
    }),
    ("a router", 0, 0, |h| set(h, "net.ipv4.ip_forward", "1")),
    ("irqbalance", 10, 0, |h| h.system.irqbalance = Fact::Known(true)),
    ("a card that missed packets once", 0, 0, |h| h.device.rx_missed = Fact::Known(9)),
    ("a table of connections that is small and empty", 0, 0, |h| {
        h.firewall.tracks = Fact::Known(true);
        h.firewall.most_entries = Fact::Known(9);
    }),
    ("a clock kept by nobody", 0, 0, |h| h.system.clock_keepers = Fact::Known(vec![])),
    ("loopback", 25, 0, |h| {
        h.route = Fact::Known(RouteDetails { local: true, ..RouteDetails::default() });
        *nic(h) = NicFacts { name: "lo".into(), mtu: Some(65_536), ..NicFacts::default() };
        h.device.features = Fact::Known(vec![]);
    }),
    ("half of its memory is unknown", 0, 0, |h| {
        h.watched = Fact::default();
        h.sysctls.clear();
    }),
];

#[test]
fn healthy_hosts_give_notes_alone() {
    for (what, gbit, rtt, change) in HEALTHY {
        let mut host = healthy();
        change(&mut host);
        let found = judged(&host, *gbit, *rtt);
        let grave: Vec<_> = found.findings.iter().filter(|f| f.severity > Note).collect();
        assert!(grave.is_empty(), "{what}: {grave:#?}");
    }
}

#[test]
fn packets_that_the_other_host_does_not_take_are_a_problem_on_one_link() {
    let (mut here, far) = (healthy(), healthy());
    nic(&mut here).mtu = Some(9_000);
    let finding = |here: &HostDetails, far: &HostDetails, end| {
        let case = Case { end, host: here, other: Some(far), goal: Goal::default() };
        judge(&case).findings.into_iter().find(|f| f.id == "path.mtu-mismatch")
    };
    let found = finding(&here, &far, TestEnd::Client).expect("a mismatch");
    assert_eq!((found.severity, found.host), (Warning, TestEnd::Client));
    assert_eq!(found.change, ["ip link set dev eth0 mtu 1500"]);
    assert_eq!(found.undo, ["ip link set dev eth0 mtu 9000"]);
    assert_eq!(
        finding(&far, &here, TestEnd::Server),
        None,
        "it is said once, of the host that sends too much"
    );
    // The far host's route is not known: that of this one says that they share a link.
    let told = HostDetails::of_record(here.host.clone());
    assert_eq!(finding(&told, &far, TestEnd::Server).map(|f| f.severity), Some(Warning));
    let gateway = "192.0.2.1".parse().ok();
    here.route = Fact::Known(RouteDetails { gateway, ..RouteDetails::default() });
    assert_eq!(finding(&here, &far, TestEnd::Client).map(|f| f.severity), Some(Note));
    // The route holds packets to what the other takes, whatever the interface could.
    for (mtu_bytes, is_found) in [(Some(1_500), false), (Some(8_000), true)] {
        here.route = Fact::Known(RouteDetails { mtu_bytes, ..RouteDetails::default() });
        let found = finding(&here, &far, TestEnd::Client);
        assert_eq!(found.is_some(), is_found, "{mtu_bytes:?}");
        assert!(found.is_none_or(|found| found.what.contains("packets of 8000 bytes")));
    }
}

#[test]
fn what_is_not_told_is_unknown_with_the_reason_and_never_a_finding() {
    let mut host = HostDetails::of_record(healthy().host);
    let found = judged(&host, 25, 0);
    let grave: Vec<_> = found.findings.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(grave, [] as [&str; 0]);
    assert!(
        found.unknown.iter().all(|u| u.why == linerate_model::doctor::NOT_REPORTED),
        "{:#?}",
        found.unknown
    );
    assert!(found.unknown.len() > 30);
    // What a record does tell is judged.
    host.host.rmem_max_bytes = Some(65_536);
    let host = HostDetails::of_record(host.host);
    assert_eq!(judged(&host, 0, 0).findings[0].id, "buffers.rmem-max");
}

#[test]
fn a_driver_that_nobody_tells_is_not_known_to_be_none() {
    let mut host = healthy();
    nic(&mut host).driver = None;
    host.device.kind = Fact::Known(None);
    host.device.numa_node = Fact::Unknown("/sys is of another namespace".into());
    let found = judged(&host, 10, 0);
    for id in ["nic.ring", "nic.queues", "path.speed"] {
        let told = found.unknown.iter().find(|unknown| unknown.id == id);
        assert!(told.is_some_and(|told| told.why.contains("/sys is of another")), "{id}");
    }
}
