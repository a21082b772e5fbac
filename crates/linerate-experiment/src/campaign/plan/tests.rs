//! Plans, right and wrong.

use super::*;
use linerate_model::plan::TrafficKind;
use proptest::prelude::*;

fn vocabulary() -> Vocabulary {
    let options = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
    Vocabulary {
        verbs: vec![
            (TrafficKind::Tcp, options("ip time streams congestion window")),
            (TrafficKind::Udp, options("ip time streams rate size no_checksum send_only")),
        ],
        old: vec![("discard".to_owned(), "send_only".to_owned())],
        metrics: options("received_bps sent_bps sent_pps"),
    }
}

fn good(text: &str) -> Plan {
    parse(text, &vocabulary()).unwrap_or_else(|faults| {
        panic!("{}", faults.iter().map(|f| format!("{f} ({:?})\n", f.hint)).collect::<String>())
    })
}

/// Every fault with its hint, a line each.
fn bad(text: &str) -> String {
    let faults = parse(text, &vocabulary()).expect_err("a fault");
    let line = |f: &Fault| format!("{f} [{}]\n", f.hint.as_deref().unwrap_or("-"));
    faults.iter().map(line).collect()
}

const WHOLE: &str = r#"
name = "offload-ipv6"
baseline = "tcp6_default"
[repeat]
boots = 3            # reboots of the hosts under test; 0 = none
warmup = 1
runs = 10
order = "shuffled"
[hosts.dut]
address = "hydra1"
reboot = "systemctl reboot"
[hosts.peer]
address = "hydra2"
[defaults]
test = "tcp"
from = "dut"
to = "peer"
time = "10s"
[settings.tcp6_default]
ip = 6
[settings.tcp6_nooffload]
ip = 6
set.dut = { offload.tso = false, offload.gso = false, offload.tx_checksum = false }
[settings.other]
command = "netperf -{ip} -H {peer} -t UDP_STREAM -- -m 1024"
metric = { regex = '(\d+\.\d+)$' }
unit = "Mbit/s"
[matrix]
ip = [4, 6]
"#;

#[test]
fn the_plan_of_the_documentation() {
    let plan = good(WHOLE);
    assert_eq!((plan.name.as_str(), plan.baseline), ("offload-ipv6", 0));
    assert_eq!((plan.repeat.boots, plan.repeat.warmup, plan.repeat.runs), (3, 1, 10));
    assert_eq!(plan.repeat.order, Order::Shuffled);
    assert_eq!(plan.rebooted(), [0]);
    let names: Vec<&str> = plan.settings.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["tcp6_default", "tcp6_nooffload", "other_ip4", "other_ip6"]);
    assert!(plan.notes.iter().any(|n| n.contains("keeps its own `ip`")), "{:?}", plan.notes);
    let Workload::Test { verb, options, .. } = &plan.settings[1].workload else { panic!() };
    assert_eq!(*verb, TrafficKind::Tcp);
    let shown: Vec<String> = options.iter().map(|o| format!("{}={}", o.key, o.value)).collect();
    assert_eq!(shown, ["time=10s", "ip=6"]);
    let changes = &plan.settings[1].changes;
    let shown: Vec<String> = changes.iter().map(|c| format!("{}={}", c.path, c.value)).collect();
    assert_eq!(shown, ["offload.tso=false", "offload.gso=false", "offload.tx_checksum=false"]);
    assert_eq!(changes[0].at, Position { line: 23, column: 21 });
    let Workload::Command { words, unit, .. } = &plan.settings[2].workload else { panic!() };
    assert_eq!(words[..4], ["netperf", "-4", "-H", "hydra2"]);
    assert_eq!(unit.as_deref(), Some("Mbit/s"));
}

#[test]
fn a_plan_of_this_machine_needs_no_hosts() {
    let plan = good("name = \"a\"\n[settings.x]\ntest = \"udp\"\n");
    assert_eq!(plan.hosts.len(), 1);
    assert_eq!(plan.hosts[0].address, None);
    assert_eq!((plan.settings[0].from, plan.settings[0].to), (0, Some(0)));
    assert_eq!(plan.repeat.boots, 0);
}

#[test]
fn a_matrix_makes_names_of_its_values() {
    let names = |text: &str| -> Vec<String> {
        good(&format!("name = \"m\"\n{text}")).settings.iter().map(|s| s.name.clone()).collect()
    };
    assert_eq!(
        names("[matrix]\ntest = [\"tcp\", \"udp\"]\nip = [4, 6]\n"),
        ["tcp_ip4", "tcp_ip6", "udp_ip4", "udp_ip6"]
    );
    let two = "[defaults]\ntest = \"tcp\"\n[settings.plain]\n[settings.off]\n\
               set.local.offload.gso = false\n[matrix]\nip = [4, 6]\n";
    assert_eq!(names(two), ["plain_ip4", "plain_ip6", "off_ip4", "off_ip6"]);
    let named = format!("{two}name = \"tcp{{ip}}_{{setting}}\"\n");
    assert_eq!(names(&named), ["tcp4_plain", "tcp6_plain", "tcp4_off", "tcp6_off"]);
    let sets = "[defaults]\ntest = \"tcp\"\n[matrix]\nset.local.offload.tso = [true, false]\n";
    assert_eq!(names(sets), ["tso_on", "tso_off"]);
    let plan = good(&format!("name = \"m\"\n{sets}"));
    assert_eq!(plan.settings[1].changes[0].path, "offload.tso");
}

#[test]
fn defaults_of_sets_are_merged_leaf_by_leaf() {
    let plan = good(
        "name = \"m\"\n[defaults]\ntest = \"tcp\"\nset.local = { a.b = 1, a.c = 2 }\n\
         [settings.x]\nset.local.a.b = 3\n",
    );
    let changes: Vec<String> =
        plan.settings[0].changes.iter().map(|c| format!("{}={}", c.path, c.value)).collect();
    assert_eq!(changes, ["a.c=2", "a.b=3"]);
}

#[test]
fn an_old_name_is_the_same_option() {
    let plan = |defaults: &str, setting: &str| {
        format!("name = \"m\"\n[defaults]\ntest = \"udp\"\n{defaults}\n[settings.x]\n{setting}\n")
    };
    let options = |defaults: &str, setting: &str| match &good(&plan(defaults, setting)).settings[0]
        .workload
    {
        Workload::Test { options, .. } => {
            options.iter().map(|o| format!("{}={}", o.key, o.value)).collect::<Vec<_>>()
        }
        Workload::Command { .. } => panic!("a command"),
    };
    assert_eq!(options("", "discard = true"), ["send_only=true"]);
    assert_eq!(options("discard = true", ""), ["send_only=true"]);
    assert_eq!(options("discard = true", "send_only = false"), ["send_only=false"]);
    assert_eq!(options("send_only = true", "discard = false"), ["send_only=false"]);
    let found = bad(&plan("", "discard = true\nsend_only = true"));
    assert!(found.contains("are one option [say `send_only` alone]"), "{found}");
}

#[test]
fn every_fault_has_its_place() {
    let whole = |from: &str, to: &str| {
        assert!(WHOLE.contains(from), "{from}");
        bad(&WHOLE.replacen(from, to, 1))
    };
    for (from, to, want) in [
        (
            "boots = 3 ",
            "boot = 3 ",
            "line 5, column 1: unknown key `boot` in [repeat] [did you mean `boots`?]",
        ),
        ("runs = 10", "runs = 0", "line 7, column 8: `runs` is a whole number from 1 to 10000 [-]"),
        (
            "\"shuffled\"",
            "\"shufled\"",
            "line 8, column 9: `order` is \"shuffled\", \"as-written\" or \"grouped\" [did you mean \"shuffled\"?]",
        ),
        (
            "baseline = \"tcp6_default\"",
            "baseline = \"tcp6\"",
            "line 3, column 12: the baseline `tcp6` is no setting of this plan [the settings are tcp6_default,",
        ),
        (
            "baseline = \"tcp6_default\"",
            "baseline = \"tcp6_defualt\"",
            "[did you mean `tcp6_default`?]",
        ),
        (
            "[settings.tcp6_nooffload]",
            "[settings.tcp6_default]",
            "line 21, column 11: two settings of the name `tcp6_default`",
        ),
        (
            "[settings.tcp6_nooffload]",
            "[settings.other_ip4]",
            "two settings of the name `other_ip4` [the other one is made at line",
        ),
        (
            "to = \"peer\"",
            "to = \"pear\"",
            "line 17, column 6: no host `pear` in this plan [did you mean `peer`?]",
        ),
        (
            "set.dut",
            "set.dat",
            "line 23, column 21: no host `dat` in this plan [did you mean `dut`?]",
        ),
        (
            "-{ip} ",
            "",
            "line 29, column 7: the matrix varies `ip`, which `other_ip4` does not use [put {ip} into its command]",
        ),
        ("{peer}", "{pear}", "line 25, column 11: no host `pear`"),
        (
            "time = \"10s\"\n",
            "time = \"10s\"; ip = 6\n",
            "[each key has a line of its own; `;` parts nothing in TOML]",
        ),
        (
            "reboot = \"systemctl reboot\"\n",
            "",
            "line 4, column 2: `boots = 3`, but no host has a `reboot` command",
        ),
        (
            "address = \"hydra1\"",
            "adress = \"hydra1\"",
            "line 10, column 1: unknown key `adress` in [hosts.dut] [did you mean `address`?]",
        ),
        (
            "address = \"hydra1\"",
            "adress = \"hydra1\"",
            "line 9, column 8: the host `dut` has no `address`",
        ),
        (
            "address = \"hydra2\"",
            "address = \"hydra2/24\"",
            "line 13, column 11: `address` is a host name",
        ),
        (
            "address = \"hydra2\"",
            "address = 7",
            "line 13, column 11: `address` is a text in quotes",
        ),
        (
            "test = \"tcp\"",
            "test = \"sctp\"",
            "line 15, column 8: no test `sctp` [tests are tcp, udp]",
        ),
        ("'(\\d+\\.\\d+)$'", "'(\\d+'", "`regex` is no regular expression: unclosed group"),
        (
            "metric = { regex = '(\\d+\\.\\d+)$' }\n",
            "",
            "does not say where the number of its command is",
        ),
        (
            "unit =",
            "units =",
            "unknown key `units` in a setting with a command [did you mean `unit`?]",
        ),
        ("[matrix]\nip = [4, 6]", "[matrix]\nip = 4", "`ip` of [matrix] is a list of values"),
        ("[settings.other]", "[settings.\"a/b\"]", "the setting's name `a/b` is not made of"),
        ("name = \"offload-ipv6\"", "", "line 1, column 1: the plan has no `name`"),
        ("[defaults]", "[default]", "unknown key `default` in a plan [did you mean `defaults`?]"),
        (
            "[settings.tcp6_nooffload]\nip = 6",
            "[settings.tcp6_nooffload]\nip = 6\nstream = 2",
            "line 23, column 1: unknown key `stream` in a setting with test = \"tcp\" [did you mean `streams`?]",
        ),
        ("metric = { regex", "test = \"tcp\"\nmetric = { regex", "has both `test` and `command`"),
        ("boots = 3 ", "boots = 1_000\nruns = 10_000\nwarmup = 10_000\n#", "duplicate"),
    ] {
        let found = whole(from, to);
        if want == "duplicate" {
            assert!(found.contains("was given before"), "{found}");
        } else {
            assert!(found.contains(want), "{to}: wanted {want}\nfound {found}");
        }
    }
}

#[test]
fn a_default_that_nothing_knows_is_a_fault() {
    let plan = |defaults: &str, setting: &str| {
        format!("name = \"a\"\n[defaults]\n{defaults}\n[settings.x]\n{setting}\n")
    };
    let command = "command = \"echo 1\"\nmetric = { column = 1 }";
    for setting in ["test = \"tcp\"", command] {
        let found = bad(&plan("tiem = \"10s\"", setting));
        let want = "line 3, column 1: unknown key `tiem` in [defaults] [did you mean `time`?]";
        assert!(found.contains(want), "{found}");
        // Another kind of setting has it.
        good(&plan("no_checksum = true\ntimeout = \"1m\"", setting));
    }
}

#[test]
fn all_faults_are_told_at_once_in_the_order_of_the_text() {
    let text = WHOLE.replace("boots = 3", "bots = 3").replace("to = \"peer\"", "to = \"x\"");
    let found = bad(&text);
    let lines: Vec<&str> = found.lines().collect();
    assert!(lines.len() >= 2, "{found}");
    assert!(lines[0].starts_with("line 5"), "{found}");
}

#[test]
fn more_runs_than_a_life_has_are_refused() {
    let text = WHOLE.replace("boots = 3", "boots = 1000").replace("runs = 10", "runs = 10000");
    assert!(bad(&text).contains("a campaign has at most 1000000"), "{}", bad(&text));
}

proptest! {
    /// Whatever the file holds: a plan or faults, never a panic.
    #[test]
    fn a_mutilated_plan_is_no_panic(
        cut in 0..WHOLE.len(), length in 0usize..40, insert in "[\\[\\]{}=\"'a-z0-9.\n ]{0,8}",
    ) {
        let text: Vec<char> = WHOLE.chars().collect();
        let (cut, end) = (cut.min(text.len()), (cut + length).min(text.len()));
        let mangled: String =
            text[..cut].iter().copied().chain(insert.chars()).chain(text[end..].iter().copied()).collect();
        let _ = parse(&mangled, &vocabulary());
    }
}
