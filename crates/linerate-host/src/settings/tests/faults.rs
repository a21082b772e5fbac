//! What goes wrong: files that cannot be read, a journal cut anywhere, others who set things too.

use super::*;
use crate::settings::reading::ABSENT;

fn open(state: &Scratch, roots: &Roots) -> (SettingsGuard, Restoration) {
    let disk = Box::<RealDisk>::default();
    SettingsGuard::open_with(&state.0, roots.clone(), paper_place("b1"), disk).unwrap()
}

fn governor(core: u32) -> String {
    format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor")
}

fn outcomes(restoration: &Restoration) -> Vec<RestoreOutcome> {
    restoration.knobs.iter().map(|knob| knob.outcome).collect()
}

#[test]
fn what_cannot_be_read_is_neither_gone_nor_anothers_and_its_undo_is_kept() {
    let ((root, roots), state) = (paper_host(), Scratch::new());
    let content = |path: &str| fs::read_to_string(root.0.join(path)).unwrap().trim().to_owned();
    let performance = [set("governor", text("performance"))];
    let (mut keeper, _) = open(&state, &roots);
    assert_eq!(keeper.apply(None, &performance)[0].outcome, Outcome::Set);
    drop(keeper);
    // A directory where the file was: it is there, and reading it fails.
    let path = root.0.join(governor(0));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let (mut keeper, restoration) = open(&state, &roots);
    assert_eq!(
        outcomes(&restoration),
        [RestoreOutcome::Restored, RestoreOutcome::Failed],
        "{restoration:?}"
    );
    assert!(!restoration.complete());
    assert!(restoration.knobs[1].why.as_deref().unwrap().contains("cannot be read"));
    assert!(state.0.join("undo-1.journal").exists(), "the undo is kept");
    // Nor is it set, since it could not be put back.
    let refused = keeper.apply(None, &performance);
    assert_eq!(refused[0].outcome, Outcome::Refused, "{refused:?}");
    assert!(refused[0].why.as_deref().unwrap().contains("cannot be read now"), "{refused:?}");
    drop(keeper);
    // Readable again. What was back already is others' to set since.
    fs::remove_dir(&path).unwrap();
    root.file(&governor(0), "performance\n");
    root.file(&governor(1), "performance\n");
    let (_keeper, restoration) = open(&state, &roots);
    assert_eq!(outcomes(&restoration), [RestoreOutcome::Restored], "{restoration:?}");
    assert_eq!(content(&governor(0)), "schedutil");
    assert_eq!(content(&governor(1)), "performance");
    assert!(!state.0.join("undo-1.journal").exists());
}

#[test]
fn an_interface_that_cannot_be_looked_at_is_not_gone() {
    let ((root, roots), state) = (paper_host(), Scratch::new());
    let (mut keeper, _) = open(&state, &roots);
    let done = keeper.apply(Some("eth0"), &[set("irq_affinity", text("2"))]);
    assert_eq!(done[0].outcome, Outcome::Set, "{done:?}");
    let index = root.0.join("sys/class/net/eth0/ifindex");
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    let restoration = keeper.restore();
    assert!(!restoration.knobs.is_empty());
    assert!(outcomes(&restoration).iter().all(|o| *o == RestoreOutcome::Failed), "{restoration:?}");
    fs::remove_dir(&index).unwrap();
    let gone = keeper.kernel.device("eth0");
    assert!(matches!(gone, Err(reading::NoDevice::Gone(_))), "{gone:?}");
    root.file("sys/class/net/eth0/ifindex", "2\n");
    // A directory of queues that leads nowhere: what was not set here does not matter.
    let queues = root.0.join("sys/class/net/eth0/queues");
    fs::rename(&queues, root.0.join("aside")).unwrap();
    std::os::unix::fs::symlink("queues", &queues).unwrap();
    assert!(keeper.restore().complete());
    let refused = keeper.apply(Some("eth0"), &[set("rps", text("0"))]);
    assert!(refused[0].why.as_deref().unwrap().contains("cannot be read now"), "{refused:?}");
}

#[test]
fn what_could_not_be_read_back_is_no_absence() {
    let knob = |core| Knob::Governor(core);
    let before = Values::from([(knob(0), "a".to_owned()), (knob(1), "a".to_owned())]);
    let mut after = Reading::default();
    after.put(knob(0), Err("no".into()));
    assert_eq!(differences(&before, &after).len(), 1);
    assert_eq!(differences(&before, &after)[0].knob, knob(1));
    assert_eq!(differences(&before, &after)[0].now, ABSENT);
}

#[test]
fn a_parameter_that_is_gone_is_told_as_gone() {
    in_namespace("a_parameter_that_is_gone_is_told_as_gone", || {
        let state = Scratch::new();
        let (mut keeper, _) = SettingsGuard::open(&state.0).unwrap();
        let setting = set("sysctl.net.ipv4.conf.va.rp_filter", SettingValue::Number(2));
        assert!(keeper.apply(None, &[setting])[0].holds());
        run("ip link del va");
        assert_eq!(outcomes(&keeper.restore()), [RestoreOutcome::Gone]);
    });
}

#[test]
fn what_others_set_between_two_changes_comes_back() {
    in_namespace("what_others_set_between_two_changes_comes_back", || {
        let state = Scratch::new();
        let (mut keeper, _) = SettingsGuard::open(&state.0).unwrap();
        assert!(keeper.apply(Some("va"), &[set("mtu", SettingValue::Number(9_000))])[0].holds());
        run("ip link set va mtu 4000");
        assert!(keeper.apply(Some("va"), &[set("mtu", SettingValue::Number(2_000))])[0].holds());
        assert!(keeper.restore().complete());
        assert!(run("ip link show va").contains("mtu 4000"));
    });
}

fn mtu(bytes: u64) -> [Setting; 1] {
    [set("mtu", SettingValue::Number(bytes))]
}

#[test]
fn an_interface_of_another_name_or_address_by_now_is_put_back() {
    in_namespace("an_interface_of_another_name_or_address_by_now_is_put_back", || {
        let state = Scratch::new();
        for (changes, name) in [
            ("ip link set va address 02:00:00:00:00:99", "va"),
            ("ip link set va down; ip link set va name vx", "vx"),
        ] {
            let (mut keeper, _) = SettingsGuard::open(&state.0).unwrap();
            assert!(keeper.apply(Some("va"), &mtu(9_000))[0].holds());
            changes.split("; ").for_each(|line| drop(run(line)));
            // Set once more, it is one thing to put back, and not two.
            let again = keeper.apply(Some(name), &mtu(4_000));
            assert!(again[0].holds(), "{again:?}");
            assert_eq!(again[0].device.as_deref(), Some(name));
            drop(keeper);
            let (_keeper, restoration) = SettingsGuard::open(&state.0).unwrap();
            assert_eq!(outcomes(&restoration), [RestoreOutcome::Restored], "{restoration:?}");
            assert!(run(&format!("ip link show {name}")).contains("mtu 1500"));
        }
        // One of neither is another, which was given the number.
        let (mut keeper, _) = SettingsGuard::open(&state.0).unwrap();
        assert!(keeper.apply(Some("vx"), &mtu(9_000))[0].holds());
        let index = keeper.kernel.device("vx").unwrap().index;
        run("ip link del vx");
        run(&format!("ip link add vy index {index} mtu 9000 type veth peer name vz"));
        assert_eq!(outcomes(&keeper.restore()), [RestoreOutcome::Gone]);
        assert!(run("ip link show vy").contains("mtu 9000"));
    });
}

#[test]
fn what_another_linerate_changes_now_is_put_back_when_that_is_done() {
    in_namespace("what_another_linerate_changes_now_is_put_back_when_that_is_done", || {
        let (one, other) = (Scratch::new(), Scratch::new());
        let shows = |mtu: &str| assert!(run("ip link show va").contains(mtu), "{mtu}");
        let (mut first, _) = SettingsGuard::open(&one.0).unwrap();
        assert!(first.apply(Some("va"), &mtu(9_000))[0].holds());
        // As if all of it had been killed.
        drop(first);
        let (mut second, _) = SettingsGuard::open(&other.0).unwrap();
        assert!(second.apply(Some("va"), &mtu(1_400))[0].holds());
        let (mut first, left) = SettingsGuard::open(&one.0).unwrap();
        assert_eq!(outcomes(&left), [RestoreOutcome::Failed], "{left:?}");
        assert!(left.knobs[0].why.as_deref().unwrap().contains("another linerate"), "{left:?}");
        shows("mtu 1400");
        assert!(second.restore().complete());
        shows("mtu 9000");
        assert!(first.restore().complete());
        shows("mtu 1500");
    });
}

#[test]
fn what_is_put_back_is_for_others_to_set_though_more_is_left() {
    in_namespace("what_is_put_back_is_for_others_to_set_though_more_is_left", || {
        let [one, other, third] = [(); 3].map(|()| Scratch::new());
        let (mut first, _) = SettingsGuard::open(&one.0).unwrap();
        for name in ["va", "vb"] {
            assert!(first.apply(Some(name), &mtu(9_000))[0].holds(), "{name}");
        }
        // As if all of it had been killed.
        drop(first);
        let (mut second, _) = SettingsGuard::open(&other.0).unwrap();
        assert!(second.apply(Some("vb"), &mtu(1_400))[0].holds());
        let (mut first, left) = SettingsGuard::open(&one.0).unwrap();
        assert!(left.failed(), "{left:?}");
        assert!(run("ip link show va").contains("mtu 1500"));
        let (mut third, _) = SettingsGuard::open(&third.0).unwrap();
        let applied = third.apply(Some("va"), &mtu(1_400));
        assert!(applied[0].holds(), "{applied:?}");
        assert!(third.restore().complete());
        assert!(second.restore().complete());
        assert!(first.restore().complete());
        assert!(run("ip link show vb").contains("mtu 1500"));
    });
}

/// The kernel lowers the MTU of what stands on an interface with that of the interface, and raises none.
#[test]
fn what_stands_on_an_interface_comes_back_with_its_mtu() {
    const TEST: &str = "what_stands_on_an_interface_comes_back_with_its_mtu";
    in_namespace(TEST, || {
        let state = Scratch::new();
        run("ip link set va mtu 9000");
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let stands = ["vlan id 7", "macvlan"].iter().any(|kind| {
            let line = format!("link add link va name va.7 type {kind}");
            let tried = Command::new("ip").args(line.split(' ')).env("PATH", &path).output();
            tried.is_ok_and(|out| out.status.success())
        });
        if !stands {
            let why = "this kernel has neither VLANs nor macvlan";
            let _ = writeln!(io::stderr(), "\n*** SKIP {TEST}: {why}");
            return;
        }
        let ipv6 = |name: &str, file: &str| format!("/proc/sys/net/ipv6/conf/{name}/{file}");
        fs::write(ipv6("va", "mtu"), "1400").unwrap();
        fs::write(ipv6("va.7", "mtu"), "1300").unwrap();
        let numbers = || {
            ["va", "va.7"].map(|name| {
                let link = run(&format!("ip -o link show {name}"));
                let mtu = link.split(" mtu ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
                (mtu, fs::read_to_string(ipv6(name, "mtu")).unwrap().trim().to_owned())
            })
        };
        let before = numbers();
        for killed in [false, true] {
            let (mut keeper, _) = SettingsGuard::open(&state.0).unwrap();
            let done = keeper.apply(Some("va"), &mtu(1_500));
            assert!(done[0].holds(), "{done:?}");
            let also: Vec<&str> = done[0].also.iter().map(|effect| effect.what.as_str()).collect();
            assert_eq!(also, ["MTU of IPv6 on va", "MTU of IPv6 on va.7", "MTU of va.7"]);
            assert!(numbers().iter().flat_map(|(mtu, ipv6)| [mtu, ipv6]).all(|n| n == "1500"));
            let restoration = if killed {
                drop(keeper);
                SettingsGuard::open(&state.0).unwrap().1
            } else {
                keeper.restore()
            };
            assert!(restoration.complete(), "{restoration:?}");
            assert_eq!(numbers(), before, "{restoration:?}");
        }
        // One of another address by now is one thing to put back, and not two.
        let (mut keeper, _) = SettingsGuard::open(&state.0).unwrap();
        assert!(keeper.apply(Some("va"), &mtu(1_500))[0].holds());
        run("ip link set va.7 address 02:00:00:00:00:77");
        assert!(keeper.apply(Some("va"), &mtu(1_400))[0].holds());
        let restoration = keeper.restore();
        assert!(restoration.complete(), "{restoration:?}");
        let whats: std::collections::BTreeSet<&str> =
            restoration.knobs.iter().map(|knob| knob.what.as_str()).collect();
        assert_eq!(whats.len(), restoration.knobs.len(), "{restoration:?}");
        assert_eq!(numbers(), before, "{restoration:?}");
        drop(keeper);
        // Nor is it lowered below what IPv6 needs there.
        fs::write(ipv6("va", "addr_gen_mode"), "1").unwrap();
        run("ip -6 addr flush dev va");
        run("ip -6 addr add fd00::7/64 dev va.7 nodad");
        let (mut keeper, _) = SettingsGuard::open(&state.0).unwrap();
        let refused = keeper.apply(Some("va"), &mtu(1_000));
        assert!(refused[0].why.as_deref().unwrap().contains("va.7 has IPv6"), "{refused:?}");
        assert_eq!(numbers(), before);
    });
}

/// The kernel lets all use what becomes the default and does not take that back; files leave that to the test. The process
/// dies before it notes what came of the change.
#[test]
fn a_congestion_control_that_all_may_use_by_a_change_is_not_left_so() {
    let ((root, roots), state) = (paper_host(), Scratch::new());
    let name = |which: &str| format!("proc/sys/net/ipv4/tcp_{which}congestion_control");
    let content = |which: &str| fs::read_to_string(root.0.join(name(which))).unwrap();
    root.file(&name(""), "cubic\n");
    root.file(&name("allowed_"), "reno cubic\n");
    let dctcp = [set("sysctl.net.ipv4.tcp_congestion_control", text("dctcp"))];
    let (mut keeper, _) = open(&state, &roots);
    assert_eq!(keeper.apply(None, &dctcp)[0].outcome, Outcome::Set);
    let path = keeper.journal.path.clone();
    drop(keeper);
    let bytes = fs::read(&path).unwrap();
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    fs::write(&path, &bytes[..=first]).unwrap();
    root.file(&name("allowed_"), "reno cubic dctcp\n");
    let (mut keeper, restoration) = open(&state, &roots);
    assert!(restoration.complete(), "{restoration:?}");
    assert_eq!([content(""), content("allowed_")], ["cubic\n", "reno cubic\n"]);
    // Where there is no such file, it is no obstacle.
    fs::remove_file(root.0.join(name("allowed_"))).unwrap();
    assert_eq!(keeper.apply(None, &dctcp)[0].outcome, Outcome::Set);
}

/// The process dies after the change and before the note of what came of it.
#[test]
fn what_moved_with_a_change_comes_back_though_nobody_noted_it() {
    in_namespace("what_moved_with_a_change_comes_back_though_nobody_noted_it", || {
        let state = Scratch::new();
        // A discipline in place of none makes the kernel give the queue a length.
        run("ip link set va txqueuelen 0");
        let before = snapshot();
        let (mut keeper, _) = SettingsGuard::open(&state.0).unwrap();
        let done = keeper.apply(Some("va"), &[set("qdisc", text("pfifo"))]);
        assert!(done[0].also.iter().any(|s| s.what.contains("queue length")), "{done:?}");
        let path = keeper.journal.path.clone();
        drop(keeper);
        let bytes = fs::read(&path).unwrap();
        let first = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        fs::write(&path, &bytes[..=first]).unwrap();
        let (_keeper, restoration) = SettingsGuard::open(&state.0).unwrap();
        assert!(restoration.complete(), "{restoration:?}");
        assert_eq!(restoration.knobs.len(), 2, "what did not move is not told: {restoration:?}");
        assert_eq!(snapshot(), before);
    });
}

/// The one driver here that has coalescing: that of tap devices, which takes 64 packets at most and
/// makes that of more (`tun_set_coalesce` of drivers/net/tun.c).
#[test]
fn coalescing_is_set_rounded_and_put_back() {
    in_namespace("coalescing_is_set_rounded_and_put_back", || {
        let state = Scratch::new();
        run("ip tuntap add dev tap7 mode tap");
        let before = run("ethtool -c tap7");
        let (mut keeper, _) = SettingsGuard::open(&state.0).unwrap();
        let frames = |n| [set("coalesce.rx-frames", SettingValue::Number(n))];
        let done = keeper.apply(Some("tap7"), &frames(32));
        assert_eq!(done[0].outcome, Outcome::Set, "{done:?}");
        assert_eq!(done[0].before, Some(SettingValue::Number(0)));
        let now = run("ethtool -c tap7");
        let words: Vec<&str> = now.split_whitespace().collect();
        assert!(words.windows(2).any(|pair| pair == ["rx-frames:", "32"]), "{now}");
        // Once more, it cannot be distinguished from one that the driver leaves alone but by the journal.
        for _ in 0..2 {
            let done = keeper.apply(Some("tap7"), &frames(100));
            assert_eq!(done[0].outcome, Outcome::Rounded, "{done:?}");
            assert_eq!(done[0].after, Some(SettingValue::Number(64)));
        }
        let usecs =
            keeper.apply(Some("tap7"), &[set("coalesce.tx-usecs", SettingValue::Number(5))]);
        assert_eq!(usecs[0].outcome, Outcome::Refused, "{usecs:?}");
        assert!(keeper.restore().complete());
        assert_eq!(run("ethtool -c tap7"), before);
    });
}

fn journal(state: &Scratch, place: Place) -> Journal {
    Journal::open(&state.0, place, Box::<RealDisk>::default()).unwrap()
}

fn wish(core: u32) -> Turn {
    Turn { knob: Knob::Governor(core), before: "a".into(), asked: "b".into() }
}

#[test]
fn a_line_after_a_torn_one_is_a_line_of_its_own() {
    let state = Scratch::new();
    let mut first = journal(&state, paper_place("b1"));
    first.announce(vec![wish(0)], vec![]).unwrap();
    first.announce(vec![wish(1)], vec![]).unwrap();
    drop(first);
    let path = state.0.join("undo-1.journal");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let mut second = journal(&state, paper_place("b1"));
    assert!(matches!(second.damages(), [undo::Damage::Torn(2)]), "{:?}", second.damages());
    second.announce(vec![wish(2)], vec![]).unwrap();
    second.announce(vec![wish(3)], vec![]).unwrap();
    drop(second);
    let third = journal(&state, paper_place("b1"));
    let knobs: Vec<Knob> =
        undo::undos(third.records(), &paper_place("b1")).into_iter().map(|u| u.knob).collect();
    assert_eq!(knobs, [3, 2, 0].map(Knob::Governor));
}

#[test]
fn journals_of_earlier_boots_are_swept_but_not_under_their_keepers() {
    let state = Scratch::new();
    let of = |namespace, boot: &str| Place { namespace, ..paper_place(boot) };
    let exists = |name: &str| state.0.join(name).exists();
    for namespace in [1, 2, 3] {
        let mut old = journal(&state, of(namespace, "b1"));
        old.announce(vec![wish(0)], vec![]).unwrap();
    }
    let mut held = journal(&state, of(3, "b2"));
    // A process that another test is about to start holds copies of all locks until it runs.
    let swept = || {
        journal::sweep(&state.0, &of(1, "b2"));
        std::thread::sleep(std::time::Duration::from_millis(1));
        !exists("undo-2.journal")
    };
    assert!((0..10_000).any(|_| swept()));
    assert!(exists("undo-1.journal"), "one's own is for the one who opens it");
    assert!(exists("undo-3.journal"), "somebody has it");
    assert!((1..=3).all(|n| exists(&format!("undo-{n}.lock"))), "locks stay");
    held.announce(vec![wish(1)], vec![]).unwrap();
    drop(held);
    journal::sweep(&state.0, &of(1, "b2"));
    assert!(exists("undo-3.journal"), "it is of this boot too");
}
