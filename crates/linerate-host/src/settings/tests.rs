//! Against the running kernel in a network namespace of each test's own, and against trees of files
//! for what no virtual machine has.

mod faults;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;

use linerate_model::setting::SettingValue;
use nix::sched::{CloneFlags, unshare};

use super::*;
use crate::scratch::Scratch;

fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    let path = std::env::var("PATH").unwrap_or_default();
    let out = Command::new(words.next().unwrap())
        .args(words)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .output()
        .unwrap_or_else(|e| panic!("{line}: {e}"));
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Runs a test in a network namespace of its own with a veth pair `va` and `vb`; what it makes is gone
/// with its thread.
fn in_namespace(test: &'static str, work: fn()) {
    let thread = std::thread::spawn(move || {
        if unshare(CloneFlags::CLONE_NEWNET).is_err() {
            // The test runner captures what macros print, and not this.
            let _ = writeln!(io::stderr(), "\n*** SKIP {test}: network namespaces need root");
            return;
        }
        run("ip link add va type veth peer name vb");
        run("ip link set va up");
        run("ip link set vb up");
        work();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn set(name: &str, value: SettingValue) -> Setting {
    Setting::new(name, value).unwrap()
}

fn text(value: &str) -> SettingValue {
    SettingValue::Text(value.into())
}

/// What the tools of the system say of interface `va`.
fn snapshot() -> String {
    let mut all = run("ethtool -k va");
    all.push_str(&run("ethtool -l va"));
    all.push_str(&run("tc qdisc show dev va"));
    all.push_str(&run("tc class show dev va"));
    // Without its counters and its time stamps.
    let link = run("ip -o link show va");
    all.push_str(link.split(" qdisc ").next().unwrap());
    all.push_str(link.split(" qlen ").nth(1).unwrap_or_default());
    all.push_str(&run(
        "sysctl net.ipv4.tcp_rmem net.ipv4.conf.va.rp_filter net.ipv4.conf.vb.rp_filter",
    ));
    all
}

fn everything() -> Vec<Setting> {
    vec![
        set("offload.tx-checksum", SettingValue::Switch(false)),
        set("offload.gro", SettingValue::Switch(true)),
        set("mtu", SettingValue::Number(9_000)),
        set("qdisc", text("pfifo")),
        set("channels.rx", SettingValue::Number(1)),
        set("sysctl.net.ipv4.tcp_rmem", text("4096  131072 7000000")),
        set("sysctl.net.ipv4.conf.va.rp_filter", SettingValue::Number(2)),
    ]
}

#[test]
fn settings_are_read_back_and_all_come_back() {
    in_namespace("settings_are_read_back_and_all_come_back", || {
        let state = Scratch::new();
        let before = snapshot();
        let (mut keeper, nothing) = SettingsGuard::open(&state.0).unwrap();
        assert_eq!(nothing, Restoration::default());
        let done = keeper.apply(Some("va"), &everything());
        for applied in &done {
            assert!(applied.holds(), "{applied:?}");
        }
        assert_eq!(done[2].before, Some(SettingValue::Number(1_500)));
        assert_eq!(done[2].after, Some(SettingValue::Number(9_000)));
        assert_eq!(done[4].outcome, Outcome::Already);
        let also: Vec<&str> = done[0].also.iter().map(|effect| effect.what.as_str()).collect();
        assert!(also.contains(&"feature tx-tcp-segmentation of va"), "{also:?}");
        let changed = snapshot();
        for part in ["tx-checksumming: off", "mtu 9000", "qdisc pfifo", "131072\t7000000"] {
            assert!(changed.contains(part), "{part}: {changed}");
        }
        let names: Vec<SettingName> = everything().into_iter().map(|s| s.name).collect();
        let back = read(Some("va"), &names);
        assert_eq!(back[0].value, Some(SettingValue::Switch(false)));
        assert_eq!(back[3].value, Some(text("pfifo")));
        assert_eq!(back[6].value, Some(SettingValue::Number(2)));

        let restoration = keeper.restore();
        assert!(restoration.complete(), "{restoration:?}");
        assert!(!restoration.knobs.is_empty());
        assert_eq!(snapshot(), before);
        assert_eq!(keeper.restore(), Restoration::default(), "once more does nothing");
    });
}

#[test]
fn the_next_process_puts_back_what_one_left_behind() {
    in_namespace("the_next_process_puts_back_what_one_left_behind", || {
        let state = Scratch::new();
        let before = snapshot();
        let (mut keeper, _) = SettingsGuard::open(&state.0).unwrap();
        keeper.apply(Some("va"), &everything());
        assert!(matches!(SettingsGuard::open(&state.0), Err(e) if e.kind == ErrorKind::Busy));
        drop(keeper);
        assert_ne!(snapshot(), before);
        // Somebody else sets two of them meanwhile.
        run("ip link set va mtu 4000");
        run("sysctl -qw net.ipv4.conf.va.rp_filter=1");
        let (_keeper, restoration) = SettingsGuard::open(&state.0).unwrap();
        let left: Vec<&str> = restoration
            .knobs
            .iter()
            .filter(|knob| knob.outcome == RestoreOutcome::ChangedByOthers)
            .map(|knob| knob.what.as_str())
            .collect();
        assert_eq!(left, ["net.ipv4.conf.va.rp_filter", "MTU of va"], "{restoration:?}");
        assert!(snapshot().contains("mtu 4000"));
        run("ip link set va mtu 1500");
        run("sysctl -qw net.ipv4.conf.va.rp_filter=0");
        assert_eq!(snapshot(), before);
    });
}

#[test]
fn two_processes_do_not_set_one_interface_whatever_their_directories() {
    in_namespace("two_processes_do_not_set_one_interface", || {
        let (one, other) = (Scratch::new(), Scratch::new());
        let (mut first, _) = SettingsGuard::open(&one.0).unwrap();
        let (mut second, _) = SettingsGuard::open(&other.0).unwrap();
        let mtu = |keeper: &mut SettingsGuard, device: &str, bytes| {
            let wanted = set("mtu", SettingValue::Number(bytes));
            keeper.apply(Some(device), &[wanted]).remove(0)
        };
        assert_eq!(mtu(&mut first, "va", 1_400).outcome, Outcome::Set);
        assert_eq!(mtu(&mut first, "va", 1_300).outcome, Outcome::Set, "it has it");
        let refused = mtu(&mut second, "va", 1_400);
        assert_eq!(refused.outcome, Outcome::Refused);
        let why = refused.why.unwrap();
        assert!(why.contains("changes settings of va now; nothing was changed"), "{why}");
        assert_eq!(mtu(&mut second, "vb", 1_400).outcome, Outcome::Set, "another interface");
        assert!(first.restore().complete());
        assert_eq!(mtu(&mut second, "va", 1_400).outcome, Outcome::Set, "it was given back");
        drop(second);
        assert_eq!(mtu(&mut first, "vb", 1_300).outcome, Outcome::Set, "whoever had it ended");
    });
}

#[test]
fn disciplines_come_back_with_options_classes_and_children() {
    in_namespace("disciplines_come_back_with_options_classes_and_children", || {
        let state = Scratch::new();
        let (mut keeper, _) = SettingsGuard::open(&state.0).unwrap();
        let fifo = [set("qdisc", text("pfifo_fast"))];
        let trees: &[&[&str]] = &[
            &["qdisc replace dev va root tbf rate 10mbit burst 64k limit 100k"],
            &["qdisc replace dev va root handle 7: pfifo limit 77"],
            &["qdisc replace dev va root bfifo limit 12345"],
            &[
                "qdisc replace dev va root handle 1: htb default 20 r2q 5",
                "class add dev va parent 1: classid 1:1 htb rate 100mbit ceil 200mbit",
                "class add dev va parent 1:1 classid 1:10 htb rate 10mbit ceil 100mbit prio 3",
                "class add dev va parent 1:1 classid 1:20 htb rate 20mbit burst 20k quantum 3000",
                "qdisc add dev va parent 1:20 handle 20: pfifo limit 55",
            ],
        ];
        for lines in trees {
            lines.iter().for_each(|line| drop(run(&format!("tc {line}"))));
            let sorted = || -> Vec<String> {
                // htb counts beside its options what its classes did not take.
                let steady = |line: &str| match line.split_once(" direct_packets_stat ") {
                    Some((before, after)) => {
                        format!("{before} {}", after.split_once(' ').unwrap().1)
                    }
                    None => line.to_owned(),
                };
                let mut lines: Vec<String> = snapshot().lines().map(steady).collect();
                lines.sort();
                lines
            };
            let before = sorted();
            for _ in 0..3 {
                let done = keeper.apply(Some("va"), &fifo);
                assert_eq!(done[0].outcome, Outcome::Set, "{done:?}");
                let restoration = keeper.restore();
                assert!(restoration.complete(), "{restoration:?}");
                assert_eq!(sorted(), before);
            }
            run("tc qdisc del dev va root");
        }
        // What cannot be put back is not taken away.
        run("tc qdisc replace dev va root handle 1: htb default 20");
        let filter = "tc filter add dev va parent 1: protocol ip u32 match u32 0 0 flowid 1:20";
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let words: Vec<&str> = filter.split(' ').collect();
        if Command::new("tc")
            .args(&words[1..])
            .env("PATH", path)
            .status()
            .is_ok_and(|s| s.success())
        {
            let done = keeper.apply(Some("va"), &fifo);
            assert_eq!(done[0].outcome, Outcome::Refused);
            assert!(done[0].why.as_deref().unwrap().contains("filters"), "{done:?}");
        } else {
            let why = "this kernel has no u32 filters";
            let _ = writeln!(io::stderr(), "\n*** SKIP a discipline with filters: {why}");
        }
    });
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    in_namespace("what_cannot_be_is_refused_with_its_reason", || {
        let state = Scratch::new();
        let (mut keeper, _) = SettingsGuard::open(&state.0).unwrap();
        let before = snapshot();
        for (setting, words) in [
            (set("ring.rx", SettingValue::Number(512)), "no such setting"),
            (set("coalesce.rx-usecs", SettingValue::Number(5)), "no such setting"),
            (set("offload.lro", SettingValue::Switch(true)), "does not let it be switched"),
            (set("offload.tx-nonsense", SettingValue::Switch(true)), "no feature"),
            (set("channels.rx", SettingValue::Number(99)), "channel"),
            (set("qdisc", text("cake")), "kind is unknown"),
            (set("mtu", SettingValue::Number(1_000)), "IPv6"),
            (set("sysctl.net.core.lr_nothing", SettingValue::Number(1)), "no parameter"),
            (set("sysctl.net.ipv4.conf.va.rp_filter", text("nonsense")), "Invalid argument"),
            (set("rps", text("0")), "another network namespace"),
            (set("governor", text("performance")), "governor"),
        ] {
            let done = keeper.apply(Some("va"), std::slice::from_ref(&setting));
            assert_eq!(done[0].outcome, Outcome::Refused, "{done:?}");
            assert!(done[0].why.as_deref().unwrap().contains(words), "{done:?}");
        }
        for device in [None, Some("nothing"), Some("../va")] {
            let done = keeper.apply(device, &[set("mtu", SettingValue::Number(2_000))]);
            assert_eq!(done[0].outcome, Outcome::Refused, "{done:?}");
        }
        assert_eq!(snapshot(), before);
        assert!(keeper.restore().knobs.is_empty());
    });
}

#[test]
fn another_interface_of_the_name_is_left() {
    in_namespace("another_interface_of_the_name_is_left", || {
        let state = Scratch::new();
        let (mut keeper, _) = SettingsGuard::open(&state.0).unwrap();
        keeper.apply(Some("va"), &[set("mtu", SettingValue::Number(9_000))]);
        run("ip link del va");
        run("ip link add va mtu 9000 type veth peer name vb");
        let restoration = keeper.restore();
        assert_eq!(restoration.knobs[0].outcome, RestoreOutcome::Gone, "{restoration:?}");
        assert!(run("ip link show va").contains("mtu 9000"));
    });
}

/// A disk that fails at one of its calls, and from then on as disks do.
struct Faulty {
    real: RealDisk,
    calls: u32,
    fails_at: u32,
    error: i32,
}

impl Faulty {
    fn call(&mut self) -> io::Result<()> {
        self.calls += 1;
        if self.calls == self.fails_at {
            Err(io::Error::from_raw_os_error(self.error))
        } else {
            Ok(())
        }
    }
}

impl Disk for Faulty {
    fn append(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if let Err(e) = self.call() {
            // What a full disk leaves behind.
            self.real.append(path, &bytes[..bytes.len() / 2])?;
            return Err(e);
        }
        self.real.append(path, bytes)
    }
    fn sync(&mut self, path: &Path) -> io::Result<()> {
        self.call()?;
        self.real.sync(path)
    }
    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        self.call()?;
        self.real.sync_directory(path)
    }
    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.call()?;
        self.real.remove(path)
    }
}

/// Every call of the disk fails once, for each error; then the process dies.
#[test]
fn nothing_changes_without_its_undo_on_the_disk() {
    in_namespace("nothing_changes_without_its_undo_on_the_disk", || {
        let settings = [
            set("mtu", SettingValue::Number(9_000)),
            set("offload.tx-checksum", SettingValue::Switch(false)),
            set("qdisc", text("pfifo")),
        ];
        let before = snapshot();
        for error in [nix::libc::ENOSPC, nix::libc::EIO] {
            let mut refused = 0;
            for fails_at in 1..=18 {
                let state = Scratch::new();
                let roots = Roots::host();
                let place = here(&roots).unwrap();
                let disk =
                    Box::new(Faulty { real: RealDisk::default(), calls: 0, fails_at, error });
                let (mut keeper, _) =
                    SettingsGuard::open_with(&state.0, roots.clone(), place.clone(), disk).unwrap();
                let done = keeper.apply(Some("va"), &settings);
                for applied in &done {
                    // What did not hold did not happen.
                    if applied.outcome == Outcome::Refused {
                        assert_eq!(applied.before, applied.after, "{fails_at} {applied:?}");
                        assert!(applied.why.as_deref().unwrap().contains("journal"), "{applied:?}");
                        refused += 1;
                    }
                }
                drop(keeper);
                // The next process has a sound disk.
                let (_keeper, restoration) = SettingsGuard::open(&state.0).unwrap();
                assert!(restoration.complete(), "{fails_at} {restoration:?}");
                assert_eq!(snapshot(), before, "{fails_at}");
            }
            // Three settings of 5 calls each: a fault in one refuses it and those after it.
            assert_eq!(refused, 5 * (3 + 2 + 1));
        }
    });
}

#[test]
fn a_journal_that_cannot_be_removed_is_told_and_harmless() {
    in_namespace("a_journal_that_cannot_be_removed_is_told_and_harmless", || {
        let state = Scratch::new();
        let roots = Roots::host();
        let place = here(&roots).unwrap();
        let disk = Box::new(Faulty {
            real: RealDisk::default(),
            calls: 0,
            fails_at: 6,
            error: nix::libc::EIO,
        });
        let (mut keeper, _) = SettingsGuard::open_with(&state.0, roots, place, disk).unwrap();
        keeper.apply(Some("va"), &[set("mtu", SettingValue::Number(9_000))]);
        let restoration = keeper.restore();
        assert!(restoration.complete());
        assert!(restoration.notes[0].contains("cannot remove"), "{restoration:?}");
        let restoration = keeper.restore();
        assert_eq!(restoration.knobs[0].outcome, RestoreOutcome::Already);
        assert!(restoration.notes.is_empty(), "{restoration:?}");
    });
}

/// A host of files: two queues, interrupts, governors, as captured from none.
fn paper_host() -> (Scratch, Roots) {
    let root = Scratch::new();
    for (path, content) in [
        ("sys/class/net/eth0/ifindex", "2\n"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000\n"),
        ("sys/class/net/eth0/queues/rx-1/rps_cpus", "00000002\n"),
        ("sys/class/net/eth0/queues/tx-0/xps_cpus", "00000001\n"),
        ("sys/class/net/eth0/device/msi_irqs/40", ""),
        ("sys/class/net/eth0/device/msi_irqs/41", ""),
        ("proc/irq/40/smp_affinity_list", "0-3\n"),
        ("proc/irq/41/smp_affinity_list", "0-3\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
        ("proc/sys/net/ipv4/conf/all/rp_filter", "0\n"),
        ("proc/sys/net/ipv4/conf/eth0.7/rp_filter", "1\n"),
    ] {
        root.file(path, content);
    }
    let roots = Roots::at(&root.0);
    (root, roots)
}

fn paper_place(boot_id: &str) -> Place {
    Place { boot_id: boot_id.into(), namespace: 1 }
}

#[test]
fn queues_interrupts_and_governors_come_back_each_as_it_was() {
    let ((root, roots), state) = (paper_host(), Scratch::new());
    let open = |boot: &str| {
        let disk = Box::<RealDisk>::default();
        SettingsGuard::open_with(&state.0, roots.clone(), paper_place(boot), disk).unwrap()
    };
    let content = |path: &str| fs::read_to_string(root.0.join(path)).unwrap().trim().to_owned();
    let (mut keeper, _) = open("b1");
    let done = keeper.apply(
        Some("eth0"),
        &[
            set("rps", text("0-1")),
            set("xps", SettingValue::Number(1)),
            set("irq_affinity", text("spread 2-3")),
            set("governor", text("performance")),
        ],
    );
    for applied in &done {
        assert_eq!(applied.outcome, Outcome::Set, "{applied:?}");
    }
    assert_eq!(done[0].before, Some(text("none 1")));
    assert_eq!(content("sys/class/net/eth0/queues/rx-0/rps_cpus"), "00000003");
    assert_eq!(content("sys/class/net/eth0/queues/tx-0/xps_cpus"), "00000002");
    assert_eq!(content("proc/irq/40/smp_affinity_list"), "2");
    assert_eq!(content("proc/irq/41/smp_affinity_list"), "3");
    assert_eq!(done[3].before, Some(text("schedutil powersave")));
    drop(keeper);
    let (_keeper, restoration) = open("b1");
    assert!(restoration.complete(), "{restoration:?}");
    assert_eq!(restoration.knobs.len(), 7);
    assert_eq!(content("sys/class/net/eth0/queues/rx-1/rps_cpus"), "00000002");
    assert_eq!(content("proc/irq/41/smp_affinity_list"), "0-3");
    assert_eq!(content("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor"), "powersave");
}

/// What stood before the change that is kept is forgotten; what is changed later is put back to what was kept.
#[test]
fn what_is_kept_is_put_back_by_nobody() {
    let ((root, roots), state) = (paper_host(), Scratch::new());
    let open = || {
        let disk = Box::<RealDisk>::default();
        SettingsGuard::open_with(&state.0, roots.clone(), paper_place("b1"), disk).unwrap()
    };
    let governor = root.0.join("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let now = || fs::read_to_string(&governor).unwrap().trim().to_owned();
    let (mut keeper, _) = open();
    assert!(keeper.keep(None, &set("governor", text("performance"))).unwrap().holds());
    assert!(!state.0.join("undo-1.journal").exists());
    keeper.apply(None, &[set("governor", text("schedutil"))]);
    assert_eq!(now(), "schedutil");
    drop(keeper);
    let (_keeper, restoration) = open();
    assert!(restoration.complete(), "{restoration:?}");
    assert_eq!(now(), "performance");
}

/// Two interrupts in one file cannot be on a core each.
#[test]
fn what_is_not_as_asked_is_not_kept() {
    let ((root, roots), state) = (paper_host(), Scratch::new());
    let [first, second] =
        [40, 41].map(|irq| root.0.join(format!("proc/irq/{irq}/smp_affinity_list")));
    fs::remove_file(&second).unwrap();
    std::os::unix::fs::symlink(&first, &second).unwrap();
    let disk = Box::<RealDisk>::default();
    let (mut keeper, _) =
        SettingsGuard::open_with(&state.0, roots, paper_place("b1"), disk).unwrap();
    let spread = set("irq_affinity", text("spread 2-3"));
    let applied = keeper.keep(Some("eth0"), &spread).unwrap();
    assert_eq!(applied.outcome, Outcome::Rounded, "{applied:?}");
    assert_eq!(fs::read_to_string(&first).unwrap().trim(), "0-3", "it is as before");
    assert!(!state.0.join("undo-1.journal").exists());
}

#[test]
fn after_a_reboot_nothing_is_put_back() {
    let ((root, roots), state) = (paper_host(), Scratch::new());
    let open = |boot: &str| {
        let disk = Box::<RealDisk>::default();
        SettingsGuard::open_with(&state.0, roots.clone(), paper_place(boot), disk).unwrap()
    };
    let (mut keeper, _) = open("b1");
    keeper.apply(Some("eth0"), &[set("governor", text("performance"))]);
    drop(keeper);
    // As if the governor of the new boot were what had been set before it.
    let (_keeper, restoration) = open("b2");
    assert!(restoration.knobs.is_empty(), "{restoration:?}");
    let governor = root.0.join("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor");
    assert_eq!(fs::read_to_string(governor).unwrap().trim(), "performance");
    assert!(!state.0.join("undo-1.journal").exists());
}

#[test]
fn a_damaged_journal_is_told_and_kept_aside() {
    let ((_root, roots), state) = (paper_host(), Scratch::new());
    let open = || {
        let disk = Box::<RealDisk>::default();
        SettingsGuard::open_with(&state.0, roots.clone(), paper_place("b1"), disk).unwrap()
    };
    let (mut keeper, _) = open();
    keeper.apply(Some("eth0"), &[set("governor", text("performance")), set("rps", text("0"))]);
    drop(keeper);
    let journal = state.0.join("undo-1.journal");
    let mut bytes = fs::read(&journal).unwrap();
    bytes[40] ^= 1;
    fs::write(&journal, bytes).unwrap();
    let (_keeper, restoration) = open();
    // What came of the change says as much as its announcement.
    assert!(restoration.complete(), "{restoration:?}");
    assert_eq!(restoration.knobs.len(), 4, "{restoration:?}");
    assert!(restoration.notes[0].contains("line 1 is damaged"), "{restoration:?}");
    assert!(state.0.join("undo-1.damaged").exists());
}

#[test]
fn writing_for_all_interfaces_takes_each_into_account() {
    let (_root, roots) = paper_host();
    let mut names = files::sysctl_companions(&roots, "net.ipv4.conf.all.rp_filter");
    names.sort();
    assert_eq!(names, ["net.ipv4.conf.all.rp_filter", "net.ipv4.conf.eth0/7.rp_filter"]);
    assert_eq!(
        files::sysctl_companions(&roots, "net.ipv4.tcp_congestion_control"),
        ["net.ipv4.tcp_congestion_control", "net.ipv4.tcp_allowed_congestion_control"]
    );
}
