//! An agent behind NAT, in namespaces: `a` has its addresses translated on the way to `b`, where the broker is.

use crate::support::agents::World;
use crate::support::{Lab, linerate};

const MASQUERADE: &str = "table ip nat {
    chain out {
        type nat hook postrouting priority 100;
        oifname \"right\" masquerade
    }
}
";

#[test]
fn an_agent_behind_nat_is_told_and_measured_as_a_client() {
    let world = World::new("nat", Lab::routed, ("b", "10.77.2.2"));
    let Some(mut world) = world else { return };
    world.lab.nft("r", MASQUERADE);
    world.agent("a", "10.77.1.1");
    world.agent("b", "10.77.2.2");
    let shown = world.spoken(2);
    let said = |agent: usize| &shown["agents"][agent]["said"];
    assert_eq!((&said(0)["nat"], &said(1)["nat"]), (&"behind".into(), &"none".into()), "{shown}");
    let nic = &said(0)["inventory"]["nics"][0];
    assert_eq!((&nic["name"], &nic["mtu"]), (&"eth0".into(), &1_500.into()), "{shown}");
    let (space, dir) = (world.space(), world.path("fleet"));
    let doctor = linerate(Some(&space), &["fleet", "doctor", &dir]);
    assert_eq!(doctor.code, 0, "{}\n{}", doctor.err, doctor.out);
    assert!(doctor.out.contains("a is behind NAT"), "{}", doctor.out);
    let keep = world.path("fleet.db");
    let run =
        ["fleet", "run", "--hosts", "a,b", "--nats", &dir, "--keep", &keep, "rr", "-t", "300ms"];
    let ran = linerate(Some(&space), &run);
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
}
