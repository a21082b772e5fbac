use super::*;

fn on(name: &str, value: SettingValue) -> Result<Setting, SettingError> {
    Setting::new(name, value)
}

#[test]
fn every_fixed_name_is_read_as_written() {
    for name in SettingName::fixed() {
        assert_eq!(name.parse::<SettingName>().unwrap().to_string(), name);
    }
    for (written, known) in [
        ("offload.tx_checksum", "offload.tx-checksum"),
        ("offload.rx", "offload.rx-checksum"),
        ("offload.generic-receive-offload", "offload.gro"),
        ("offload.tx-esp-segmentation", "offload.tx-esp-segmentation"),
        ("coalesce.rx_usecs", "coalesce.rx-usecs"),
        ("sysctl.net.ipv4.conf.eth0/100.rp_filter", "sysctl.net.ipv4.conf.eth0/100.rp_filter"),
    ] {
        assert_eq!(written.parse::<SettingName>().unwrap().to_string(), known);
    }
}

#[test]
fn an_unknown_name_offers_the_nearest() {
    let error = "offload.tos".parse::<SettingName>().unwrap_err();
    assert_eq!(error.why, "there is no such setting");
    assert_eq!(error.hints[0], "a similar one exists: offload.tso");
    let error = "ring_rx".parse::<SettingName>().unwrap_err();
    assert!(error.hints[0].contains("ring.rx"), "{error:?}");
    assert!("zzz".parse::<SettingName>().unwrap_err().hints[0].contains("settings are"));
}

#[test]
fn parameters_outside_the_network_and_without_a_way_back_are_refused() {
    for bad in [
        "sysctl.kernel.sysrq",
        "sysctl.net.core",
        "sysctl.net.core.",
        "sysctl.net.core...x",
        "sysctl.net.core.../../kernel.panic",
        "sysctl.net.ipv6.conf.eth0.disable_ipv6",
        "sysctl.net.ipv4.ip_forward",
        "sysctl.net.ipv4.conf.all.forwarding",
        "sysctl.net.ipv4.route.flush",
        "sysctl.net.core.rmem max",
        "",
        "mtu.x",
    ] {
        assert!(bad.parse::<SettingName>().is_err(), "{bad}");
    }
}

#[test]
fn values_are_checked() {
    use SettingValue::{Number, Switch, Text};
    for (name, value) in [
        ("offload.tso", Switch(false)),
        ("ring.rx", Number(512)),
        ("mtu", Number(9_000)),
        ("qdisc", Text("fq".into())),
        ("rps", Text("none".into())),
        ("rps", Number(1)),
        ("irq_affinity", Text("spread 0-3".into())),
        ("coalesce.adaptive-rx", Switch(true)),
        ("coalesce.rx-usecs", Number(50)),
        ("sysctl.net.ipv4.tcp_rmem", Text("4096 131072 6291456".into())),
        ("governor", Text("performance".into())),
    ] {
        let setting = on(name, value.clone()).unwrap();
        assert_eq!((setting.name.to_string(), &setting.value), (name.to_owned(), &value));
        let json = serde_json::to_string(&setting).unwrap();
        assert_eq!(serde_json::from_str::<Setting>(&json).unwrap(), setting);
    }
    for (name, value) in [
        ("offload.tso", Number(0)),
        ("ring.rx", Number(0)),
        ("ring.rx", Switch(true)),
        ("mtu", Number(67)),
        ("mtu", Text("9000".into())),
        ("qdisc", Text("htb".into())),
        ("qdisc", Text("fq; rm".into())),
        ("irq_affinity", Text("none".into())),
        ("rps", Text("3-1".into())),
        ("rps", Text("+1".into())),
        ("rps", Text("0-9999999".into())),
        ("coalesce.rx-usecs", Number(1 << 32)),
        ("coalesce.adaptive-rx", Number(1)),
        ("sysctl.net.core.rmem_max", Text("1\n2".into())),
        ("sysctl.net.core.rmem_max", Text("x".repeat(201))),
        ("governor", Text(" ".into())),
    ] {
        assert!(on(name, value.clone()).is_err(), "{name} {value}");
    }
}

#[test]
fn a_list_of_cores_is_bounded() {
    let again = |times: usize| vec!["0-8191"; times].join(",");
    assert_eq!(Cores::parse(&again(1_000)).unwrap().list.len(), 8_192);
    assert_eq!(Cores::parse(&again(10_000)), None, "longer than any list of cores");
    assert_eq!(Cores::parse("8192"), None);
    let every_second: Vec<u32> = (0..8_192).step_by(2).collect();
    assert_eq!(Cores::parse(&core_list(&every_second)).unwrap().list, every_second);
}

#[test]
fn lists_of_cores() {
    for text in ["0", "0-3", "0-1,4,6-7", "none"] {
        assert_eq!(core_list(&Cores::parse(text).unwrap().list), text);
    }
    assert_eq!(core_list(&[u32::MAX - 1, u32::MAX, 0]), "4294967294-4294967295,0");
    let spread = Cores::parse("spread 2,5").unwrap();
    assert_eq!((0..3).map(|q| spread.of_queue(q)[0]).collect::<Vec<_>>(), [2, 5, 2]);
    assert_eq!(Cores::parse("2,5").unwrap().of_queue(7), [2, 5]);
}

#[test]
fn a_name_cannot_leave_the_directory() {
    assert!(is_interface_name("enp3s0f1np1.100"));
    for bad in ["", ".", "..", "../../etc", "a b", "a:1", "sixteen-bytes-xx"] {
        assert!(!is_interface_name(bad), "{bad}");
    }
}

#[test]
fn parameters_that_hold_secrets_are_no_settings() {
    for name in [
        "sysctl.net.ipv4.tcp_fastopen_key",
        "sysctl.net.core.netdev_rss_key",
        "sysctl.net.ipv6.conf.all.stable_secret",
    ] {
        let refused = Setting::new(name, SettingValue::Text("hush-hush".into())).unwrap_err();
        assert!(refused.why.contains("secret"), "{refused:?}");
        assert!(!format!("{refused:?}").contains("hush"), "{refused:?}");
        // Nor can they be read.
        assert!(name.parse::<SettingName>().is_err());
    }
    assert!("sysctl.net.ipv4.tcp_fastopen".parse::<SettingName>().is_ok());
}
