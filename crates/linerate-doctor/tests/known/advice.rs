//! What is to be run, and what undoes it.

use linerate_model::setting::Setting;

use super::*;

#[test]
fn what_is_undone_is_what_was_there() {
    let mut host = healthy();
    host.device.rps = Fact::Known(vec![vec![2]; 3]);
    let found = judged(&host, 0, 0);
    let rps = found.findings.iter().find(|f| f.id == "nic.rps-one-core").unwrap();
    let name = &nic(&mut host).name;
    let path = format!("/sys/class/net/{name}/queues/rx-$q/rps_cpus");
    assert_eq!(rps.change, [format!("for q in 0 1 2; do echo 0 > {path}; done")]);
    assert_eq!(rps.undo, [format!("for q in 0 1 2; do echo 4 > {path}; done")]);
}

/// The commands of a finding, and those that undo it.
fn commands(host: &HostDetails, gbit: u64, id: &str) -> (String, String) {
    let finding = judged(host, gbit, 0).findings.into_iter().find(|f| f.id == id).expect(id);
    (finding.change.join("\n"), finding.undo.join("\n"))
}

#[test]
fn interrupts_are_spread_as_the_setting_spreads_them_and_the_masks_come_back() {
    let mut host = healthy();
    host.host.cores = Some(6);
    host.device.interrupts = interrupts(&[0, 1, 2, 3, 4, 5], Some(0));
    let (change, undo) = commands(&host, 0, "nic.irq-one-core");
    let spread = linerate_model::setting::Cores::parse("spread 0-5").unwrap();
    // As a shell runs them, with `echo` for the writing.
    let lines = |command: &str| {
        let shown = command.replace(" > ", " ");
        let out = std::process::Command::new("sh").args(["-c", &shown]).output().expect("a shell");
        String::from_utf8(out.stdout).unwrap()
    };
    let wanted = |core: &dyn Fn(usize) -> String| -> String {
        (0..8).map(|n| format!("{} /proc/irq/{}/smp_affinity_list\n", core(n), 100 + n)).collect()
    };
    assert_eq!(lines(&change), wanted(&|n| spread.of_queue(n)[0].to_string()));
    assert_eq!(lines(&undo), wanted(&|_| "0-5".to_owned()));
}

#[test]
fn memory_of_datagrams_is_counted_in_pages_of_the_host() {
    for (page_bytes, change) in [(4_096, "2048 3072 4096"), (65_536, "128 192 256")] {
        let mut host = healthy();
        host.system.page_bytes = Fact::Known(page_bytes);
        set(&mut host, "net.ipv4.udp_mem", "16 24 32");
        let (change_by, undo) = commands(&host, 0, "buffers.udp-memory");
        assert_eq!(change_by, format!("sysctl -w net.ipv4.udp_mem=\"{change}\""));
        assert_eq!(undo, "sysctl -w net.ipv4.udp_mem=\"16 24 32\"");
    }
}

/// A far host's server may say anything of it, and commands are there to be pasted.
#[test]
fn what_no_kernel_says_stands_in_no_command() {
    let evils: &[fn(&mut HostDetails, String)] = &[
        |h, evil| set(h, "net.ipv4.udp_mem", &format!("{evil} 2 3")),
        |h, evil| set(h, "net.ipv4.tcp_wmem", &format!("{evil} 2 3")),
        |h, evil| h.device.kind = Fact::Known(Some(evil)),
        |h, evil| {
            h.cpu.governors = Fact::Known(vec![governor("ondemand", ""), governor(&evil, "")]);
        },
        |h, _| h.device.rps = Fact::Known(vec![vec![u32::MAX]]),
        |h, _| h.device.xps = Fact::Known(vec![vec![u32::MAX]; 2]),
        |h, _| {
            h.host.cores = Some(u32::MAX);
            h.device.rps = Fact::Known(vec![vec![]]);
        },
    ];
    for say in evils {
        let mut host = healthy();
        say(&mut host, "$(pwned)\n".to_owned());
        let found = judged(&host, 25, 0);
        assert!(!found.unknown.is_empty());
        for finding in &found.findings {
            for command in finding.change.iter().chain(&finding.undo) {
                assert!(!command.contains("pwned") && command.len() < 10_000, "{command}");
            }
        }
    }
}

#[test]
fn a_discipline_is_replaced_only_where_that_can_be_undone() {
    let one = |kinds: &[&str], id: &str| {
        let mut host = healthy();
        set(&mut host, "net.ipv4.tcp_congestion_control", "bbr");
        host.device.qdiscs = Fact::Known(kinds.iter().map(|kind| discipline(kind)).collect());
        judged(&host, 0, 0).findings.into_iter().find(|f| f.id == id).expect(id)
    };
    for (kinds, id) in [
        (&["tbf"][..], "qdisc.shaper"),
        (&["netem"], "qdisc.emulator"),
        (&["sfq"], "qdisc.kind"),
        (&["fq_codel"], "qdisc.pacing"),
    ] {
        let found = one(kinds, id);
        assert_eq!(found.undo, [format!("tc qdisc replace dev eth0 root {} OPTIONS", kinds[0])]);
    }
    for (kinds, id) in [
        (&["htb", "netem"][..], "qdisc.emulator"),
        (&["prio", "tbf", "sfq"], "qdisc.shaper"),
        (&["prio", "tbf", "sfq"], "qdisc.kind"),
        (&["tbf", "netem"], "qdisc.shaper"),
        // Its classes and filters are not in the list.
        (&["htb"], "qdisc.shaper"),
        (&["prio"], "qdisc.pacing"),
        (&["mq", "netem"], "qdisc.emulator"),
    ] {
        let found = one(kinds, id);
        assert!(found.undo.is_empty() && found.setting.is_none(), "{found:#?}");
        let [look] = &found.change[..] else { panic!("{found:#?}") };
        let acts = look.split('#').next().unwrap().contains(" root");
        assert!(look.starts_with("tc qdisc show dev eth0") && !acts, "{look}");
    }
}

#[test]
fn no_discipline_is_replaced_by_its_own_kind_or_a_slow_one() {
    let short = |kind| QdiscDetails { limit_packets: Some(10), ..discipline(kind) };
    let holds = |kind| QdiscDetails { rate_bps: Some(100_000_000), ..discipline(kind) };
    for (root, usual, id, then) in [
        (discipline("sfq"), "sfq", "qdisc.kind", "pfifo_fast"),
        (discipline("red"), "sfq", "qdisc.kind", "pfifo_fast"),
        (discipline("sfq"), "fq_codel", "qdisc.kind", "fq_codel"),
        (short("fq_codel"), "fq_codel", "qdisc.short", "pfifo_fast"),
        (holds("cake"), "cake", "qdisc.shaper", "pfifo_fast"),
    ] {
        let mut host = healthy();
        set(&mut host, "net.core.default_qdisc", usual);
        host.device.qdiscs = Fact::Known(vec![root]);
        let (change, _) = commands(&host, 0, id);
        assert!(change.ends_with(&format!("tc qdisc replace dev eth0 root {then}")), "{change}");
    }
}

#[test]
fn no_command_takes_an_interface_down() {
    let mut host = healthy();
    host.device.carrier = Fact::Known(false);
    let (change, undo) = commands(&host, 0, "path.carrier");
    assert!(!change.contains("link set") && undo.is_empty(), "{change}, {undo}");
    // Nor does that of any other finding.
    for (id, gbit, rtt, _, change) in BAD {
        let mut host = healthy();
        change(&mut host);
        for finding in judged(&host, *gbit, *rtt).findings {
            let mut all = finding.change.iter().chain(&finding.undo);
            assert!(!all.any(|line| line.contains(" down")), "{id}: {finding:#?}");
        }
    }
}

#[test]
fn advice_on_buffers_makes_none_smaller() {
    let advice = |name: &str, now: &str, gbit, rtt_ms| {
        let mut host = healthy();
        set(&mut host, name, now);
        let id = if name.ends_with("tcp_rmem") { "buffers.tcp-rmem" } else { "buffers.rmem-max" };
        judged(&host, gbit, rtt_ms).findings.into_iter().find(|f| f.id == id)
    };
    let tcp = |most: &str, gbit, rtt_ms| {
        advice("net.ipv4.tcp_rmem", &format!("4096 131072 {most}"), gbit, rtt_ms)
            .expect("too small")
    };
    let found = tcp("1073741824", 100, 100);
    assert_eq!(found.change, [r#"sysctl -w net.ipv4.tcp_rmem="4096 131072 2147483647""#]);
    assert_eq!(found.undo, [r#"sysctl -w net.ipv4.tcp_rmem="4096 131072 1073741824""#]);
    let found = tcp("2147483647", 100, 100);
    assert!(found.why.contains("more streams can"), "{found:#?}");
    assert!(found.setting.is_none() && found.undo.is_empty(), "{found:#?}");
    assert!(found.change.iter().all(|line| !line.contains("sysctl")), "{found:#?}");
    assert!(!tcp("1073741824", 60, 100).why.contains("more streams"));
    // No socket gets more than half of that.
    assert_eq!(advice("net.core.rmem_max", "1073741824", 1_600, 0), None);
}

#[test]
fn larger_packets_begin_at_the_interfaces_below() {
    for (kind, looks) in [
        (None, None),
        (Some("veth"), None),
        (Some("bridge"), Some("ip link show master eth0 ")),
        (Some("bond"), Some("ip link show master eth0 ")),
        (Some("vlan"), Some("ip link show dev eth0 ")),
        (Some("wireguard"), Some("ip -d link show dev eth0 ")),
    ] {
        let mut host = healthy();
        host.device.kind = Fact::Known(kind.map(str::to_owned));
        let found = judged(&host, 25, 0).findings.into_iter().find(|f| f.id == "path.jumbo");
        let found = found.expect("packets of 1,500 bytes");
        match looks {
            None => {
                assert_eq!(found.change, ["ip link set dev eth0 mtu 9000"]);
                assert!(found.setting.is_some() && found.undo.len() == 1, "{found:#?}");
            }
            Some(looks) => {
                assert!(found.change[0].starts_with(looks), "{found:#?}");
                assert!(found.setting.is_none() && found.undo.is_empty(), "{found:#?}");
            }
        }
    }
}

#[test]
fn commands_for_a_link_local_address_name_its_link() {
    let mut host = healthy();
    let to = "fe80::1".parse().ok();
    let mtu_bytes = Some(1_400);
    host.route = Fact::Known(RouteDetails { to, mtu_bytes, ..RouteDetails::default() });
    assert!(commands(&host, 0, "path.mtu-route").0.starts_with("ip route get fe80::1 oif eth0 "));
    let full_packets = Some(false);
    host.route = Fact::Known(RouteDetails { to, full_packets, ..RouteDetails::default() });
    assert!(commands(&host, 0, "path.black-hole").0.starts_with("tracepath -n fe80::1%eth0 "));
}

#[test]
fn each_core_gets_back_the_governor_and_the_idle_states_that_it_had() {
    let mut host = healthy();
    let some = |name: &str, cores: std::ops::Range<u32>| Governor {
        cores: cores.collect(),
        ..governor(name, "acpi-cpufreq")
    };
    host.cpu.governors = Fact::Known(vec![
        some("ondemand", 0..2),
        some("performance", 2..4),
        some("powersave", 4..8),
    ]);
    let (change, undo) = commands(&host, 0, "cpu.governor");
    assert_eq!(change, "cpupower frequency-set -g performance");
    assert_eq!(
        undo,
        "cpupower -c 0-1 frequency-set -g ondemand; cpupower -c 4-7 frequency-set -g powersave"
    );
    let state = |exit_latency_us, enabled| IdleState { name: "C".into(), exit_latency_us, enabled };
    host.cpu.idle_states =
        Fact::Known(vec![state(1, true), state(120, true), state(300, false), state(900, true)]);
    let (change, undo) = commands(&host, 0, "cpu.idle-states");
    assert_eq!(change, "cpupower idle-set -d 1; cpupower idle-set -d 3");
    assert_eq!(undo, "cpupower idle-set -e 1; cpupower idle-set -e 3", "one was off before");
}

#[test]
fn a_mask_of_all_cores_is_written_as_the_kernel_reads_it() {
    let mut host = healthy();
    host.device.rps = Fact::Known(vec![vec![]]);
    for (cores, mask) in [(8, "ff"), (32, "ffffffff"), (40, "ff,ffffffff")] {
        host.host.cores = Some(cores);
        let (change, _) = commands(&host, 5, "nic.rps-off");
        assert_eq!(change, format!("echo {mask} > /sys/class/net/eth0/queues/rx-0/rps_cpus"));
    }
}

#[test]
fn a_name_that_a_shell_would_run_is_in_no_command() {
    let mut host = healthy();
    nic(&mut host).name = "a;reboot;#".into();
    nic(&mut host).mtu = Some(9_000);
    for (.., change) in BAD {
        let mut host = host.clone();
        change(&mut host);
        for finding in judged(&host, 10, 10).findings {
            let all = finding.change.iter().chain(&finding.undo);
            assert!(all.into_iter().all(|line| !line.contains("reboot")), "{finding:#?}");
        }
    }
}

#[test]
fn changes_are_such_as_linerate_makes() {
    let mut settings = 0;
    for (id, gbit, rtt, _, change) in BAD {
        let mut host = healthy();
        change(&mut host);
        let found = judged(&host, *gbit, *rtt);
        let finding = found.findings.iter().find(|f| f.id == *id).unwrap();
        let Some(Setting { name, value }) = &finding.setting else { continue };
        settings += 1;
        let again = Setting::new(&name.to_string(), value.clone());
        assert!(again.is_ok() && !finding.change.is_empty(), "{finding:#?}");
        let undo = finding.undo.len() == finding.change.len();
        assert!(undo, "what linerate undoes, a person can: {finding:#?}");
    }
    assert!(settings > 30, "{settings}");
}
