//! Network namespaces of a test's own.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::{Ran, Server, linerate, list, number, run, skip};

/// Where [`Lab::serve`] listens.
pub const PORT: u16 = 5301;

/// Rules that count data on the way to the server and drop some of it. Hellos are 64 bytes long, data
/// more.
pub fn dropping(rule: &str) -> String {
    format!(
        "flush ruleset
table inet truth {{
    counter dropped {{ }}
    counter passed {{ }}
    chain ingress {{
        type filter hook prerouting priority -300;
        udp dport {PORT} udp length > 200 {rule} counter name dropped drop
        udp dport {PORT} udp length > 200 counter name passed
    }}
}}
"
    )
}

/// Network namespaces joined by veth. Dropping it, in a panic too, removes them and all in them.
pub struct Lab {
    name: String,
    spaces: Vec<&'static str>,
}

impl Lab {
    /// Whether this process may make one; says so if not.
    pub fn possible(test: &str) -> bool {
        // Found out once: tests beside each other would take each other's name.
        static MISSING: OnceLock<Option<String>> = OnceLock::new();
        let missing = MISSING.get_or_init(Self::missing).as_ref();
        missing.inspect(|why| skip(test, why)).is_none()
    }

    fn missing() -> Option<String> {
        if !nix::unistd::geteuid().is_root() {
            return Some("network namespaces need root".into());
        }
        let name = format!("lr{}probe", std::process::id());
        if !run("ip", &["netns", "add", &name]).0 {
            return Some("this kernel or container makes no network namespaces".into());
        }
        run("ip", &["netns", "del", &name]);
        let tools = [("nft", "--version"), ("ethtool", "--version"), ("tc", "-V")];
        let missing = tools.into_iter().find(|(tool, asks)| !run(tool, &[asks]).0);
        missing.map(|(tool, _)| format!("{tool} is not installed"))
    }

    fn empty(spaces: &[&'static str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("lr{}n{number}", std::process::id());
        let lab = Self { name, spaces: spaces.to_vec() };
        for space in spaces {
            let space = lab.space(space);
            assert!(run("ip", &["netns", "add", &space]).0, "no namespace {space}");
            lab_run(&space, "ip link set lo up");
        }
        lab
    }

    /// `a` 10.77.1.1 and `b` 10.77.1.2, interface `eth0` in both, no segmentation offload, so that
    /// every counter counts datagrams.
    pub fn pair() -> Self {
        let lab = Self::empty(&["a", "b"]);
        lab.join("a", "eth0", "b", "eth0");
        lab.run("a", "ip addr add 10.77.1.1/24 dev eth0");
        lab.run("b", "ip addr add 10.77.1.2/24 dev eth0");
        lab
    }

    /// `a` 10.77.1.1 – `r` 10.77.1.254, 10.77.2.254 – `b` 10.77.2.2; `r` routes from `left` to
    /// `right`.
    pub fn routed() -> Self {
        let lab = Self::empty(&["a", "r", "b"]);
        lab.join("a", "eth0", "r", "left");
        lab.join("r", "right", "b", "eth0");
        lab.run("a", "ip addr add 10.77.1.1/24 dev eth0");
        lab.run("r", "ip addr add 10.77.1.254/24 dev left");
        lab.run("r", "ip addr add 10.77.2.254/24 dev right");
        lab.run("b", "ip addr add 10.77.2.2/24 dev eth0");
        lab.run("a", "ip route add default via 10.77.1.254");
        lab.run("b", "ip route add default via 10.77.2.254");
        lab.run("r", "sysctl -qw net.ipv4.ip_forward=1");
        lab
    }

    /// [`Lab::routed`] with a token bucket each way in the router: so many Mbit/s from `a` to `b` and
    /// back, counted with Ethernet's 14 bytes. Bursts of 6 ms and a queue of 10 ms, so that the
    /// buffer adds little to a trial of a second.
    pub fn bottleneck(forward_mbit: u64, reverse_mbit: u64) -> Self {
        let lab = Self::routed();
        for (device, mbit) in [("right", forward_mbit), ("left", reverse_mbit)] {
            let burst = mbit * 1_000_000 / 8 * 6 / 1_000;
            lab.run(
                "r",
                &format!(
                    "tc qdisc add dev {device} root tbf rate {mbit}mbit burst {burst} latency 10ms"
                ),
            );
        }
        lab
    }

    /// `server` 10.77.1.1, `attacker` 10.77.1.2 and `victim` 10.77.1.3 on one bridge in `r`.
    pub fn bridge() -> Self {
        Self::bridged(&["r", "server", "attacker", "victim"])
    }

    /// `h1` 10.77.1.1, `h2` 10.77.1.2 and so on, eight at most, on one bridge in `r`, which is 10.77.1.254.
    pub fn hosts(count: usize) -> Self {
        let spaces = ["r", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8"];
        let lab = Self::bridged(&spaces[..=count]);
        lab.run("r", "ip addr add 10.77.1.254/24 dev br0");
        lab
    }

    /// The hosts after the first on a bridge in it.
    fn bridged(spaces: &[&'static str]) -> Self {
        let lab = Self::empty(spaces);
        lab.run("r", "ip link add br0 type bridge");
        lab.run("r", "ip link set br0 up");
        for (i, space) in spaces.iter().skip(1).enumerate() {
            let port = format!("port{i}");
            lab.join("r", &port, space, "eth0");
            lab.run("r", &format!("ip link set {port} master br0"));
            lab.run(space, &format!("ip addr add 10.77.1.{}/24 dev eth0", i + 1));
        }
        lab
    }

    fn join(&self, a: &str, a_dev: &str, b: &str, b_dev: &str) {
        let (a, b) = (self.space(a), self.space(b));
        let words = ["link", "add", a_dev, "netns", &a, "type", "veth", "peer", "name", b_dev];
        let (made, text) = run("ip", &[&words[..], &["netns", &b]].concat());
        assert!(made, "no veth: {text}");
        for (space, dev) in [(&a, a_dev), (&b, b_dev)] {
            lab_run(space, &format!("ip link set {dev} up"));
            let off = "gso off gro off tso off tx-udp-segmentation off";
            lab_run(space, &format!("ethtool -K {dev} {off}"));
        }
    }

    /// Gives the hosts of [`Lab::pair`] or [`Lab::routed`] IPv6 as well: `fd77:1::1` in `a`, and in `b`
    /// `fd77:1::2` or, behind the router, `fd77:2::2`.
    pub fn v6(self) -> Self {
        // No waiting for duplicates: nobody else is there.
        let add = |space: &str, address: &str, dev: &str| {
            self.run(space, &format!("ip -6 addr add {address}/64 dev {dev} nodad"));
        };
        add("a", "fd77:1::1", "eth0");
        if self.spaces.contains(&"r") {
            add("r", "fd77:1::fe", "left");
            add("r", "fd77:2::fe", "right");
            add("b", "fd77:2::2", "eth0");
            self.run("a", "ip -6 route add default via fd77:1::fe");
            self.run("b", "ip -6 route add default via fd77:2::fe");
            self.run("r", "sysctl -qw net.ipv6.conf.all.forwarding=1");
        } else {
            add("b", "fd77:1::2", "eth0");
        }
        self
    }

    /// Switches segmentation on again everywhere: trains of `gso` then cross as they were sent, each
    /// one packet to every counter, and its bytes the only count of its datagrams.
    pub fn whole_trains(self) -> Self {
        for space in &self.spaces {
            for dev in if *space == "r" { &["left", "right"][..] } else { &["eth0"] } {
                self.run(space, &format!("ethtool -K {dev} gso on tso on tx-udp-segmentation on"));
            }
        }
        self
    }

    /// The namespace's name.
    pub fn space(&self, which: &str) -> String {
        format!("{}{which}", self.name)
    }

    /// The same for programs that must see this host's cgroups, which `ip netns exec` hides.
    pub fn with_groups(&self, which: &str) -> String {
        format!("/run/netns/{}", self.space(which))
    }

    /// A server in `b`.
    pub fn serve(&self) -> Server {
        Server::on_port(Some(&self.space("b")), PORT, &[])
    }

    /// A test from `a`, with the options of `line`.
    pub fn client(&self, verb: &str, server: &str, line: &str) -> Ran {
        let port = PORT.to_string();
        let args = [verb, server, "-p", &port, "--json"];
        let args: Vec<&str> = args.into_iter().chain(line.split_whitespace()).collect();
        linerate(Some(&self.space("a")), &args)
    }

    /// Runs a command there, which must succeed; returns what it printed.
    pub fn run(&self, which: &str, line: &str) -> String {
        lab_run(&self.space(which), line)
    }

    /// Loads rules into nft there.
    pub fn nft(&self, which: &str, rules: &str) {
        let file = std::env::temp_dir().join(format!("{}{which}.nft", self.name));
        std::fs::write(&file, rules).expect("rules are written");
        let (done, text) = run(
            "ip",
            &["netns", "exec", &self.space(which), "nft", "-f", file.to_str().expect("text")],
        );
        let _ = std::fs::remove_file(&file);
        assert!(done, "nft: {text}\n{rules}");
    }

    /// Packets and bytes of a named counter.
    pub fn counter(&self, which: &str, name: &str) -> (u64, u64) {
        let text = self.run(which, "nft -j list counters");
        let all: Value = serde_json::from_str(&text).expect("JSON of nft");
        let found = list(&all["nftables"])
            .iter()
            .find(|o| o["counter"]["name"] == name)
            .unwrap_or_else(|| panic!("no counter {name}: {text}"));
        (number(found, "counter.packets"), number(found, "counter.bytes"))
    }

    /// A figure of /proc/net/snmp or netstat there, such as `Udp` `RcvbufErrors`.
    pub fn snmp(&self, which: &str, group: &str, name: &str) -> u64 {
        let text = self.run(which, "cat /proc/net/snmp /proc/net/netstat");
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with(&format!("{group}:")))
            .map(|line| line.split_whitespace().collect())
            .collect();
        let at = rows[0].iter().position(|word| *word == name).expect("a figure");
        rows[1][at].parse().expect("a number")
    }

    /// A figure of /proc/net/snmp6 there, such as `Udp6RcvbufErrors`.
    pub fn snmp6(&self, which: &str, name: &str) -> u64 {
        let text = self.run(which, "cat /proc/net/snmp6");
        let mut lines = text.lines().map(str::split_whitespace);
        let found =
            lines.find_map(|mut words| words.next().filter(|w| *w == name).and(words.next()));
        found.expect("a figure").parse().expect("a number")
    }

    /// Runs a piece of this test inside the namespace, on a thread of its own.
    pub fn inside<T: Send + 'static>(
        &self,
        which: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let file = std::fs::File::open(format!("/run/netns/{}", self.space(which)))
            .expect("the namespace is there");
        std::thread::spawn(move || {
            nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).expect("entered");
            work()
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for space in &self.spaces {
            run("ip", &["netns", "del", &self.space(space)]);
        }
    }
}

fn lab_run(space: &str, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (done, text) = run("ip", &[&["netns", "exec", space], &words[..]].concat());
    assert!(done, "{line} in {space}: {text}");
    text
}
