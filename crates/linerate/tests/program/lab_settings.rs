//! Settings where a real driver and a whole kernel are: disciplines that the test host lacks, rings
//! of a card, a reboot in between.

use linerate_testkit::peer::LONG;
use std::path::Path;
use std::time::Duration;

use crate::support::{machines, skip, wait_for};
use linerate_lab::{Hardware, Lab, Machine};
use linerate_model::setting::{Outcome, Setting, SettingValue};
use linerate_runner::agent::{Access, DeviceChoice, HostAgent, Remote};

const KEY: &str = "a key for tests only, 32 bytes.";

fn set(name: &str, value: SettingValue) -> Setting {
    Setting::new(name, value).unwrap()
}

/// Runs a controller of machine 1 in the lab's namespace.
fn control(lab: &Lab, work: impl FnOnce(&mut Remote) + Send) {
    let space = std::fs::File::open(format!("/run/netns/{}", lab.space())).expect("a namespace");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            nix::sched::setns(space, nix::sched::CloneFlags::CLONE_NEWNET).expect("entered");
            let access = Access {
                name: "10.77.0.1".into(),
                port: 5201,
                ip: None,
                bind: None,
                key: KEY.into(),
            };
            let mut host = None;
            wait_for(LONG, || {
                std::thread::sleep(Duration::from_millis(200));
                host = Some(Remote::connect(&access));
                matches!(host, Some(Ok(_)))
            });
            let host = host.expect("tried");
            work(&mut host.unwrap_or_else(|e| panic!("the machine does not let us in: {e:?}")));
        });
    });
}

#[test]
#[ignore = "long"]
fn disciplines_rings_and_a_reboot() {
    let _machines = machines();
    let test = "disciplines_rings_and_a_reboot";
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lab");
    let program = Path::new(env!("CARGO_BIN_EXE_linerate"));
    let lab = match Lab::prepare(&cache, &[program]) {
        Ok(lab) => lab,
        Err(why) => return skip(test, &why),
    };
    let mut machine = lab.machine("a", 1, Hardware { disk_mib: 32, ..Hardware::default() });
    machine.booted();
    let serve = |machine: &Machine| {
        machine.run(&format!("printf %s '{KEY}' >/run/key"));
        machine.start(
            "serve",
            "exec linerate serve --key-file /run/key --allow-settings --state-dir /data/state",
        );
    };
    serve(&machine);
    // By its path: the machine has a smaller program of that name as well.
    let device = DeviceChoice::Named("eth0".into());
    control(&lab, |host| {
        let pfifo = [set("qdisc", SettingValue::Text("pfifo".into()))];
        for tree in [
            "codel",
            "codel target 7ms interval 93ms ce_threshold 3ms ecn",
            "fq_codel",
            "fq_codel target 7ms interval 93ms limit 900 flows 64 quantum 300 noecn",
            "fq limit 500 flow_limit 77 quantum 3000 maxrate 50mbit",
            "sfq perturb 10 limit 99",
            "pie target 20ms limit 333",
            "prio bands 4",
            "tbf rate 10mbit burst 64k limit 100k",
        ] {
            machine.run(&format!("/bin/tc qdisc replace dev eth0 root handle 9: {tree}"));
            let shown = || machine.run("/bin/tc qdisc show dev eth0");
            let before = shown();
            for turn in 0..3 {
                let done = host.apply(Some(&device), &pfifo).unwrap();
                assert_eq!(done[0].outcome, Outcome::Set, "{tree}: {done:?}");
                let back = host.restore().unwrap();
                assert!(back.complete(), "{tree}: {back:?}");
                assert_eq!(shown(), before, "{tree} {turn}");
            }
            machine.run("/bin/tc qdisc del dev eth0 root");
        }
        // The default that the kernel chose comes back as a default.
        let before = machine.run("/bin/tc qdisc show dev eth0; ethtool -g eth0; ethtool -k eth0");
        let done = host
            .apply(
                Some(&device),
                &[
                    set("qdisc", SettingValue::Text("fq".into())),
                    set("ring.rx", SettingValue::Number(128)),
                    set("offload.tx-checksum", SettingValue::Switch(false)),
                ],
            )
            .unwrap();
        for applied in &done {
            println!("{applied:?}");
            assert_eq!(applied.outcome, Outcome::Set, "{applied:?}");
        }
        assert!(machine.run("ethtool -k eth0").contains("tcp-segmentation-offload: off"));
        assert!(host.restore().unwrap().complete());
        let after = machine.run("/bin/tc qdisc show dev eth0; ethtool -g eth0; ethtool -k eth0");
        assert_eq!(after, before);
        // What becomes the default may be used by all, in this namespace alone, and no more once it is put back.
        let names = ["", "allowed_"].map(|which| format!("net.ipv4.tcp_{which}congestion_control"));
        let shown = || machine.run(&format!("sysctl {}", names.join(" ")));
        let before = shown();
        assert!(!before.contains("dctcp"), "{before}");
        let dctcp = SettingValue::Text("dctcp".into());
        let done = host.apply(None, &[set(&format!("sysctl.{}", names[0]), dctcp)]).unwrap();
        assert_eq!(done[0].outcome, Outcome::Set, "{done:?}");
        assert_eq!(shown().matches("dctcp").count(), 2, "{}", shown());
        assert!(host.restore().unwrap().complete());
        assert_eq!(shown(), before);
    });

    // A reboot takes settings with it; the journal of before must not bring anything back.
    let mtu = [set("sysctl.net.ipv4.tcp_rmem", SettingValue::Text("4096 131072 7000000".into()))];
    control(&lab, |host| {
        let (facts, _) = host.facts().unwrap();
        assert_eq!(facts.boot_id.as_deref(), Some(machine.boot_id()));
        assert_eq!(host.apply(None, &mtu).unwrap()[0].outcome, Outcome::Set);
        machine.run("ls /data/state/*.journal");
        machine.reboot();
        let _ = host.ping();
    });
    // As if the new boot had by itself what had been set.
    machine.run("sysctl -w net.ipv4.tcp_rmem='4096 131072 7000000'");
    serve(&machine);
    control(&lab, |host| {
        let (facts, _) = host.facts().unwrap();
        assert_eq!(facts.boot_id.as_deref(), Some(machine.boot_id()));
    });
    assert!(machine.run("sysctl net.ipv4.tcp_rmem").contains("7000000"));
    assert_eq!(machine.run("ls /data/state | grep -c journal || true").trim(), "0");
}
