//! What a host lets a fleet do with it: a file of its owner, and what it says of a test.
//!
//! Nothing is allowed that the file does not allow, and nothing at all where there is no file, or one that is not
//! understood. All of a test is asked at both its hosts, and each answers for itself.
//!
//! ```toml
//! tests = ["udp", "tcp", "rr"]
//! peers = ["b", "c"]          # or ["*"]; with addresses and networks as well, in which the others have to be
//! max_duration = "30s"        # warm-up included
//! max_rate = "100M"           # of a direction; "max" for no limit
//! max_streams = 4             # 1 where nothing is said
//! hours = "22:00-06:00"       # at any time where nothing is said
//! settings = ["offload.gro"]  # what a test may set while it lasts, or ["*"]; nothing where nothing is said
//! device = "eth1"             # the interface that is set; none where nothing is said
//! ```

use linerate_model::hours::{self, Hours};
use linerate_model::plan::{TestPlan, Traffic, TrafficKind};
use linerate_model::setting::{Setting, is_interface_name};
use linerate_model::units::{BitRate, DatagramSize, Nanos};
use serde::Deserialize;

/// What the owner of a host allows. The default allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    tests: Vec<TrafficKind>,
    /// Names of hosts; nothing is every host.
    peers: Option<Vec<String>>,
    /// Addresses and networks of hosts, as they are written; nothing is every address.
    networks: Vec<String>,
    max_duration: Nanos,
    /// Of one direction; nothing is no limit.
    max_rate: Option<BitRate>,
    max_streams: u16,
    hours: Vec<Hours>,
    /// Names of settings.
    settings: Vec<String>,
    device: Option<String>,
}

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    tests: Vec<TrafficKind>,
    peers: Vec<String>,
    max_duration: String,
    max_rate: String,
    #[serde(default = "one")]
    max_streams: u16,
    hours: Option<String>,
    #[serde(default)]
    settings: Vec<String>,
    device: Option<String>,
}

fn one() -> u16 {
    1
}

/// The name of every host.
const ANY: &str = "*";
/// Of more hosts only the number is said.
const MOST_NAMED: usize = 8;

/// A test, as one of its hosts is asked for it.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The other host.
    pub peer: &'a str,
    /// What it is.
    pub plan: &'a TestPlan,
    /// The size of its datagrams is that of the path, which is not known yet.
    pub size_from_mtu: bool,
    /// What is to be set while it lasts.
    pub set: &'a [Setting],
    /// Minute of the day here, from midnight in local time.
    pub minute: u16,
}

/// Why a test is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Denied(pub String);

impl Policy {
    /// Reads the file's text.
    ///
    /// # Errors
    /// Which line is not understood; nothing is allowed then.
    pub fn read(text: &str) -> Result<Self, String> {
        let written: Written = toml::from_str(text).map_err(|e| e.to_string())?;
        let line = |name: &str, why: String| format!("{name}: {why}");
        let max_duration =
            written.max_duration.parse().map_err(|e| line("max_duration", format!("{e}")))?;
        let max_rate = match written.max_rate.as_str() {
            "max" => None,
            rate => Some(rate.parse().map_err(|e| line("max_rate", format!("{e}")))?),
        };
        let hours = written.hours.as_deref().map(hours::list).transpose();
        if let Some(device) = written.device.as_ref().filter(|name| !is_interface_name(name)) {
            return Err(line("device", format!("`{device}` is no name of an interface")));
        }
        // No name of an agent has one of these.
        let is_network = |peer: &String| peer.contains(['.', ':', '/']);
        let (networks, names): (Vec<String>, Vec<String>) =
            written.peers.into_iter().partition(is_network);
        let all = names.iter().any(|peer| peer == ANY) || names.is_empty() && !networks.is_empty();
        Ok(Self {
            tests: written.tests,
            peers: (!all).then_some(names),
            networks,
            max_duration,
            max_rate,
            max_streams: written.max_streams,
            hours: hours.map_err(|why| line("hours", why))?.unwrap_or_default(),
            settings: written.settings,
            device: written.device,
        })
    }

    /// Whether it may be run.
    ///
    /// # Errors
    /// Why not, for the log of this host and for whoever asked.
    pub fn allows(&self, asked: &Asked<'_>) -> Result<(), Denied> {
        let Asked { peer, plan, size_from_mtu, set, minute } = asked;
        let kind = plan.traffic.kind();
        if !self.tests.contains(&kind) {
            return Err(Denied(format!("it allows no test of {}", kind.name())));
        }
        if self.peers.as_ref().is_some_and(|peers| !peers.iter().any(|known| known == peer)) {
            return Err(Denied(format!("it allows no test with `{peer}`")));
        }
        if !hours::allow(&self.hours, *minute) {
            let next = hours::next(&self.hours, *minute).unwrap_or_default();
            return Err(Denied(format!("it allows no test at this hour, and the next at {next}")));
        }
        self.duration(plan)?;
        self.rate(plan, *size_from_mtu)?;
        if plan.streams > self.max_streams {
            let why = format!("{} streams are more than {}", plan.streams, self.max_streams);
            return Err(Denied(why));
        }
        let named = |name: &str| self.settings.iter().any(|known| known == name || known == ANY);
        match set.iter().map(|setting| setting.name.to_string()).find(|name| !named(name)) {
            Some(name) => Err(Denied(format!("it lets no test set {name}"))),
            None => Ok(()),
        }
    }

    /// Addresses and networks in which the other hosts have to be, as they are written; nothing where all may be anywhere. A
    /// name is what whoever asks says that the other host is called.
    pub fn networks(&self) -> &[String] {
        &self.networks
    }

    /// The interface that a test may set.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Minutes from this one of the day to the end of the hours in which it allows a test; nothing where it has no end.
    pub fn minutes_left(&self, minute: u16) -> Option<u16> {
        hours::left(&self.hours, minute)
    }

    fn duration(&self, plan: &TestPlan) -> Result<(), Denied> {
        let Some(time) = plan.duration() else {
            return Err(Denied("a test without a time has no end that is known before".to_owned()));
        };
        let time = Nanos(time.0.saturating_add(plan.warmup.0));
        if time > self.max_duration {
            return Err(Denied(format!("{time} are longer than {}", self.max_duration)));
        }
        Ok(())
    }

    fn rate(&self, plan: &TestPlan, size_from_mtu: bool) -> Result<(), Denied> {
        let Some(most) = self.max_rate else { return Ok(()) };
        match rate_bps(plan, size_from_mtu) {
            Some(bps) if bps <= most.bits_per_second() => Ok(()),
            Some(bps) => Err(Denied(format!("{bps} bit/s are more than {most}"))),
            None => Err(Denied(format!("a test without a rate may be more than {most}"))),
        }
    }

    /// What it allows, in words for people: `udp, rr; 10 s; 1.000 Mbit/s; 2 streams; with b, c; 22:00-06:00`.
    pub fn words(&self) -> String {
        let tests: Vec<&str> = self.tests.iter().map(|test| test.name()).collect();
        let rate = self.max_rate.map_or("any rate".to_owned(), |rate| rate.to_string());
        let streams = match self.max_streams {
            1 => "1 stream".to_owned(),
            streams => format!("{streams} streams"),
        };
        let tests = if tests.is_empty() { "no test".to_owned() } else { tests.join(", ") };
        let mut words = vec![tests, self.max_duration.to_string(), rate, streams];
        words.push(match &self.peers {
            None => "with all".to_owned(),
            Some(peers) if peers.is_empty() => "with nobody".to_owned(),
            Some(peers) => format!("with {}", some(peers)),
        });
        words.extend((!self.networks.is_empty()).then(|| format!("at {}", some(&self.networks))));
        words.extend((!self.settings.is_empty()).then(|| format!("sets {}", some(&self.settings))));
        let hours: Vec<String> = self.hours.iter().map(ToString::to_string).collect();
        words.extend((!hours.is_empty()).then(|| hours.join(", ")));
        words.join("; ")
    }

    /// Longest test, warm-up included.
    pub fn max_duration(&self) -> Nanos {
        self.max_duration
    }

    /// Largest rate of a direction; nothing is no limit.
    pub fn max_rate(&self) -> Option<BitRate> {
        self.max_rate
    }
}

/// The first names of a list, and how many more there are.
fn some(names: &[String]) -> String {
    let named: Vec<&str> = names.iter().take(MOST_NAMED).map(String::as_str).collect();
    let more = match names.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", named.join(", "))
}

/// The largest rate of a direction that is asked for, in bits of payload per second; nothing where it is as fast as
/// can be.
pub fn rate_bps(plan: &TestPlan, size_from_mtu: bool) -> Option<u64> {
    match &plan.traffic {
        Traffic::Udp(udp) => {
            let size = if size_from_mtu { DatagramSize::MAX } else { udp.size };
            udp.rate.map(|rate| rate.bits_per_second(size))
        }
        Traffic::Tcp(tcp) => tcp.rate.map(BitRate::bits_per_second),
        Traffic::Rr(rr) => {
            let bits = u64::from(rr.request.max(rr.response)).saturating_mul(8);
            rr.rate.map(|rate| rate.saturating_mul(bits))
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::{End, RrPlan, TcpPlan, Transport, UdpPlan};
    use linerate_model::setting::SettingValue;
    use linerate_model::units::Rate;
    use proptest::prelude::*;

    use super::*;

    const FILE: &str = r#"
        tests = ["udp", "rr"]
        peers = ["b", "c"]
        max_duration = "10s"
        max_rate = "1M"
        max_streams = 2
        hours = "22:00-06:00"
    "#;
    const MIDNIGHT: u16 = 0;

    fn udp(bps: Option<u64>, seconds: u64) -> TestPlan {
        let rate = bps.and_then(BitRate::new).map(Rate::Bits);
        let size = DatagramSize::new(1_000).unwrap();
        let traffic = Traffic::Udp(UdpPlan { rate, ..UdpPlan::new(size) });
        TestPlan { end: End::Time(Nanos::from_secs(seconds)), ..TestPlan::new(traffic) }
    }

    fn rr(rate: Option<u64>, response: u32) -> TestPlan {
        let transport = Transport::Tcp;
        TestPlan::new(Traffic::Rr(RrPlan { transport, request: 1, response, outstanding: 1, rate }))
    }

    fn asked(plan: &TestPlan) -> Asked<'_> {
        Asked { peer: "b", plan, size_from_mtu: false, set: &[], minute: MIDNIGHT }
    }

    #[test]
    fn what_the_file_allows_is_allowed_and_no_more() {
        let policy = Policy::read(FILE).unwrap();
        let allowed = udp(Some(1_000_000), 10);
        assert_eq!(policy.allows(&asked(&allowed)), Ok(()));
        assert_eq!(policy.allows(&asked(&rr(Some(125), 1_000))), Ok(()));
        let tcp = TestPlan::new(Traffic::Tcp(TcpPlan::new(1 << 17)));
        let warm = TestPlan { warmup: Nanos(1), ..allowed.clone() };
        let bytes = TestPlan { end: End::Bytes(1), ..allowed.clone() };
        let streams = TestPlan { streams: 3, ..allowed.clone() };
        for (plan, why) in [
            (&tcp, "it allows no test of tcp"),
            (&udp(Some(1_000_001), 10), "1000001 bit/s are more than 1.000 Mbit/s"),
            (&udp(None, 10), "a test without a rate may be more than 1.000 Mbit/s"),
            (&rr(Some(126), 1_000), "1008000 bit/s are more than 1.000 Mbit/s"),
            (&rr(None, 1), "a test without a rate may be more than 1.000 Mbit/s"),
            (&warm, "10 s are longer than 10 s"),
            (&udp(Some(1_000_000), 11), "11 s are longer than 10 s"),
            (&bytes, "a test without a time has no end that is known before"),
            (&streams, "3 streams are more than 2"),
        ] {
            assert_eq!(policy.allows(&asked(plan)), Err(Denied(why.to_owned())));
        }
        let mut counted = udp(None, 10);
        if let Traffic::Udp(udp) = &mut counted.traffic {
            udp.rate = std::num::NonZeroU64::new(2).map(Rate::Datagrams);
        }
        assert_eq!(policy.allows(&asked(&counted)), Ok(()), "of a thousand bytes");
        let any_size = Asked { size_from_mtu: true, ..asked(&counted) };
        let why = "1048112 bit/s are more than 1.000 Mbit/s";
        assert_eq!(policy.allows(&any_size), Err(Denied(why.to_owned())), "as large as can be");
        let other = Asked { peer: "d", ..asked(&allowed) };
        assert_eq!(policy.allows(&other), Err(Denied("it allows no test with `d`".to_owned())));
        let noon = Asked { minute: 12 * 60, ..asked(&allowed) };
        let why = "it allows no test at this hour, and the next at 22:00";
        assert_eq!(policy.allows(&noon), Err(Denied(why.to_owned())));
    }

    #[test]
    fn addresses_are_no_names_and_do_for_them_where_there_are_none() {
        let plan = udp(Some(1), 1);
        let read = |peers: &str| Policy::read(&FILE.replace("\"b\", \"c\"", peers)).unwrap();
        for (peers, b, d, networks) in [
            ("\"192.0.2.0/24\"", true, true, 1),
            ("\"2001:db8::7\", \"b\"", true, false, 1),
            ("\"*\", \"192.0.2.7\", \"2001:db8::/32\"", true, true, 2),
            ("\"b\"", true, false, 0),
            ("", false, false, 0),
        ] {
            let policy = read(peers);
            assert_eq!(policy.networks().len(), networks, "{peers}");
            let allows = |peer| policy.allows(&Asked { peer, ..asked(&plan) }).is_ok();
            assert_eq!((allows("b"), allows("d")), (b, d), "{peers}");
        }
    }

    #[test]
    fn a_test_sets_what_the_file_names() {
        let plan = udp(Some(1), 1);
        let set = [Setting::new("offload.gro", SettingValue::Switch(false)).unwrap()];
        let ask = |lines: &str| {
            let policy = Policy::read(&format!("{FILE}\n{lines}")).unwrap();
            policy.allows(&Asked { set: &set, ..asked(&plan) })
        };
        let denied = Err(Denied("it lets no test set offload.gro".to_owned()));
        assert_eq!(ask(""), denied);
        assert_eq!(ask("settings = [\"offload.gso\", \"offload\"]"), denied);
        assert_eq!(ask("settings = [\"offload.gro\"]"), Ok(()));
        assert_eq!(ask("settings = [\"*\"]"), Ok(()));
        let device = |name: &str| Policy::read(&format!("{FILE}\ndevice = \"{name}\""));
        assert_eq!(device("eth1").unwrap().device(), Some("eth1"));
        assert!(device("../eth1").is_err());
    }

    #[test]
    fn what_is_allowed_is_said_in_words() {
        let words = |text: &str| Policy::read(text).unwrap().words();
        let expected = "udp, rr; 10 s; 1.000 Mbit/s; 2 streams; with b, c; 22:00-06:00";
        assert_eq!(words(FILE), expected);
        let sets = words(&format!("{FILE}\nsettings = [\"mtu\", \"offload.gro\"]"));
        assert_eq!(sets, expected.replace("; 22", "; sets mtu, offload.gro; 22"));
        let free = FILE.replace("\"1M\"", "\"max\"").replace("\"b\"", "\"*\"");
        let free = free.replace("max_streams = 2", "").replace("hours = \"22:00-06:00\"", "");
        assert_eq!(words(&free), "udp, rr; 10 s; any rate; 1 stream; with all");
        let at = words(&FILE.replace("\"c\"", "\"192.0.2.0/24\", \"2001:db8::7\""));
        assert!(at.contains("; with b; at 192.0.2.0/24, 2001:db8::7; "), "{at}");
        let nobody = free.replace("\"udp\", \"rr\"", "").replace("\"*\", \"c\"", "");
        assert_eq!(words(&nobody), "no test; 10 s; any rate; 1 stream; with nobody");
        let many: Vec<String> = (0..10).map(|host| format!("\"h{host}\"")).collect();
        let many = words(&FILE.replace("\"b\", \"c\"", &many.join(",")));
        assert!(many.contains("with h0, h1, h2, h3, h4, h5, h6, h7 and 2 more;"), "{many}");
    }

    #[test]
    fn no_file_and_no_words_allow_nothing() {
        let plan = udp(Some(1), 1);
        assert!(Policy::default().allows(&asked(&plan)).is_err());
        for name in ["tests", "peers", "max_duration", "max_rate"] {
            let without: Vec<&str> =
                FILE.lines().filter(|line| !line.trim().starts_with(name)).collect();
            let why = Policy::read(&without.join("\n")).unwrap_err();
            assert!(why.contains(name), "{name}: {why}");
        }
        for (from, to) in [
            ("\"10s\"", "\"soon\""),
            ("\"1M\"", "\"1MB\""),
            ("22:00", "25:00"),
            ("\"rr\"", "\"ping\""),
            ("hours", "hour"),
        ] {
            assert!(Policy::read(&FILE.replace(from, to)).is_err(), "{to}");
        }
        assert!(Policy::read("").is_err());
        let nobody = Policy::read(&FILE.replace(r#""b", "c""#, "")).unwrap();
        assert!(nobody.allows(&asked(&plan)).is_err());
        let all = Policy::read(&FILE.replace("\"b\"", "\"*\"").replace("\"1M\"", "\"max\""));
        let plan = udp(None, 1);
        assert_eq!(all.unwrap().allows(&Asked { peer: "x", ..asked(&plan) }), Ok(()));
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in "[a-z_\" =\\[\\]*0-9:\n,-]{0,60}") {
            let plan = udp(Some(1), 1);
            if let Ok(policy) = Policy::read(&text) {
                let _ = policy.allows(&asked(&plan));
            }
        }

        /// What is asked for less than something that is allowed is allowed as well.
        #[test]
        fn less_is_never_refused(
            bps in 1_u64..3_000_000, seconds in 1_u64..20, streams in 1_u16..4, minute in 0_u16..1_440,
            less in (1_u64..100, 0_u64..5),
        ) {
            let policy = Policy::read(FILE).unwrap();
            let plan = TestPlan { streams, ..udp(Some(bps), seconds) };
            let smaller = udp(Some(bps.saturating_sub(less.0).max(1)), seconds.saturating_sub(less.1));
            if policy.allows(&Asked { minute, ..asked(&plan) }).is_ok() {
                prop_assert!(bps <= 1_000_000 && seconds <= 10 && streams <= 2);
                prop_assert!(!(360..1_320).contains(&minute));
                prop_assert_eq!(policy.allows(&Asked { minute, ..asked(&smaller) }), Ok(()));
            }
        }
    }
}
