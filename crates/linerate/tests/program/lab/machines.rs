//! The lab itself: its machines boot, run, reboot and lose power as it says.

use std::time::Duration;

use linerate_lab::{Hardware, Unanswered};

use super::{lab, two};
use crate::support::machines;

#[test]
#[ignore = "long"]
fn machines_reboot_and_lose_power() {
    let _machines = machines();
    let Some(lab) = lab("machines_reboot_and_lose_power") else { return };
    let (mut a, b) = two(&lab, Hardware { disk_mib: 32, ..Hardware::default() });
    let first = a.boot_id().to_owned();
    assert_ne!(first, b.boot_id());
    a.run(&format!("ping -c 1 -W 20 {} && ping -c 1 -W 20 {}", b.ipv4(), b.ipv6()));

    let failed = a.try_run("echo out; echo err >&2; exit 3", Duration::from_secs(20)).unwrap();
    assert_eq!((failed.code, &*failed.out, &*failed.err), (3, "out\n", "err\n"));
    let stuck = a.try_run("sleep 1000", Duration::from_secs(1)).unwrap();
    assert_eq!(stuck.code, 137, "{stuck:?}");

    // By its own will: everything written is on its disk.
    a.run("echo kept > /data/kept; sync; hostname other");
    let second = a.reboot();
    assert_ne!(first, second);
    assert_eq!(a.run("cat /data/kept; hostname"), "kept\na\n");

    // Without its will: what only the page cache held is gone, what fsync confirmed is not.
    a.run("echo synced | dd of=/data/synced conv=fsync 2>/dev/null; echo lost > /data/lost");
    assert_eq!(a.run("cat /data/synced /data/lost"), "synced\nlost\n");
    a.power_cut();
    assert!(matches!(a.try_run("true", Duration::from_secs(1)), Err(Unanswered(_))));
    a.power_on();
    let third = a.booted();
    assert!(third != first && third != second);
    assert_eq!(a.run("cat /data/kept /data/synced"), "kept\nsynced\n");
    assert_eq!(a.run("cat /data/lost 2>/dev/null || true"), "", "the power cut lost nothing");

    // The other machine saw none of it, and what a disk says to do after a boot is done.
    assert_eq!(b.run("cat /proc/sys/kernel/random/boot_id").trim(), b.boot_id());
    a.run("printf '#!/bin/sh\\necho ran >/run/ran\\n' >/data/boot; chmod +x /data/boot; sync");
    a.reboot();
    a.run("for i in $(seq 100); do [ -e /run/ran ] && exit 0; sleep 0.2; done; exit 1");
}
