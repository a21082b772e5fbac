//! Whether the owner of a host allows a test.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use linerate_fleet::message::Prepare;
use linerate_fleet::policy::{Asked, Policy};
use linerate_model::plan::IpVersion;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_runner::{Cidr, clock};

/// A lease may be longer than its test by this, in nanoseconds: two minutes.
const SLACK_NS: u64 = 120 * 1_000_000_000;

/// A name has an address within this long.
const SOON: Duration = Duration::from_secs(5);
const HINT: &str = "its owner says in the file of --policy what is allowed";

/// What the owner says of a test that is allowed now.
pub struct Consent {
    /// All of it.
    pub policy: Policy,
    /// Where the other host has to be; anywhere where nothing is said.
    pub networks: Vec<Cidr>,
    /// How many nanoseconds are left of the hours, if they have an end.
    pub left_ns: Option<u64>,
}

/// A test that is not run here.
pub fn refused(kind: ErrorKind, why: impl Into<String>, hint: &str) -> ErrorRecord {
    ErrorRecord::new(kind, "this agent refuses the test", why, &[hint])
}

fn denied(why: String) -> ErrorRecord {
    refused(ErrorKind::Policy, why, HINT)
}

/// What the owner allows, as the file says it now, and with hosts of which networks.
pub fn policy(file: &Path) -> Result<(Policy, Vec<Cidr>), String> {
    let read = || {
        let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
        let policy = Policy::read(&text)?;
        let network = |text: &String| text.parse().map_err(|why| format!("peers: `{text}`: {why}"));
        let networks = policy.networks().iter().map(network).collect::<Result<_, String>>()?;
        Ok((policy, networks))
    };
    read().map_err(|why: String| {
        format!("it has no policy, so nothing is allowed: {}: {why}", file.display())
    })
}

/// What the owner says of this test, where it is allowed now.
pub fn permitted(file: &Path, prepare: &Prepare) -> Result<Consent, ErrorRecord> {
    let date = clock::local_date();
    let [hour, minute, second] =
        [date.hour(), date.minute(), date.second()].map(|part| u16::try_from(part).unwrap_or(0));
    permitted_at(file, prepare, (hour * 60 + minute, second))
}

/// The same at this minute of the day here, and second of the minute.
fn permitted_at(
    file: &Path,
    prepare: &Prepare,
    (minute, second): (u16, u16),
) -> Result<Consent, ErrorRecord> {
    let plan = &prepare.test.plan;
    plan.check().map_err(|e| refused(ErrorKind::OutOfRange, e.to_string(), "ask for less"))?;
    let (policy, networks) = policy(file).map_err(denied)?;
    policy
        .allows(&Asked {
            peer: &prepare.peer,
            plan,
            size_from_mtu: prepare.test.size_from_mtu,
            set: &prepare.set,
            minute,
        })
        .map_err(|why| denied(why.to_string()))?;
    let time = plan.duration().map_or(0, |time| time.0.saturating_add(plan.warmup.0));
    if prepare.length_ns > time.saturating_add(SLACK_NS) {
        return Err(denied("the lease is longer than its test needs".to_owned()));
    }
    let left_ns = left_ns(&policy, minute, second.into());
    Ok(Consent { policy, networks, left_ns })
}

/// Where a test goes: to this host, by its address in one of the owner's networks where there are any.
pub async fn reach(
    networks: &[Cidr],
    (name, port): (String, u16),
    ip: Option<IpVersion>,
) -> Result<(String, u16), ErrorRecord> {
    if networks.is_empty() {
        return Ok((name, port));
    }
    let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(&name);
    let found = tokio::time::timeout(SOON, tokio::net::lookup_host((bare, port))).await;
    let Ok(Ok(found)) = found else {
        return Err(denied(format!(
            "it allows tests with some addresses, and finds none of {name}"
        )));
    };
    let is_wanted = |address: &IpAddr| match ip {
        None => true,
        Some(IpVersion::V4) => address.is_ipv4(),
        Some(IpVersion::V6) => address.is_ipv6(),
    };
    let mut found = found.map(|address| address.ip()).filter(is_wanted);
    match found.find(|address| networks.iter().any(|network| network.has(*address))) {
        Some(address) => Ok((address.to_string(), port)),
        None => Err(denied(format!("it allows no test with the addresses of {name}"))),
    }
}

/// What is left of the hours of a policy at this second of this minute, which may have begun long ago.
fn left_ns(policy: &Policy, minute: u16, second: u64) -> Option<u64> {
    let left_s = u64::from(policy.minutes_left(minute)?) * 60;
    Some(left_s.saturating_sub(second.saturating_add(1)) * 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use linerate_fleet::lease::{Epoch, Fence};
    use linerate_fleet::message::Role;
    use linerate_model::plan::{TcpPlan, TestPlan, Traffic};
    use linerate_testkit::plans;

    use super::*;

    /// Ten seconds of TCP, with a lease of a minute.
    fn prepare() -> Prepare {
        let test = plans::remote("b", 0, TestPlan::new(Traffic::Tcp(TcpPlan::new(1 << 17))));
        Prepare {
            epoch: 7,
            length_ns: 60_000_000_000,
            guard_ns: 10_000_000_000,
            role: Role::Client,
            peer: "b".to_owned(),
            token: "a token".to_owned(),
            turn: "run.0.1".to_owned(),
            test,
            set: Vec::new(),
        }
    }

    #[test]
    fn a_test_that_would_outlast_the_hours_of_its_host_ends_with_them() {
        let file = std::env::temp_dir().join(format!("linerate-hours-{}", std::process::id()));
        let hours = "tests = [\"tcp\"]\npeers = [\"*\"]\nhours = \"22:00-06:00\"\n";
        std::fs::write(&file, format!("{hours}max_duration = \"1m\"\nmax_rate = \"max\"")).unwrap();
        let second = 1_000_000_000;
        let (minute, of_lease_ns) = (5 * 60 + 59, 50 * second);
        for (at, sends_ns) in [
            ((minute, 50), Some(9 * second)),
            ((minute, 59), Some(0)),
            ((minute - 1, 0), Some(of_lease_ns)),
            ((minute + 1, 0), None),
            ((22 * 60 - 1, 59), None),
            ((22 * 60, 0), Some(of_lease_ns)),
        ] {
            let consent = permitted_at(&file, &prepare(), at);
            assert_eq!(consent.is_ok(), sends_ns.is_some(), "{at:?}");
            let Ok(Consent { left_ns: Some(left_ns), .. }) = consent else { continue };
            // From the moment in which it was asked on, by this host's own clock.
            let (mut fence, asked_ns) = (Fence::default(), 1_000);
            assert!(fence.prepare(asked_ns, Epoch(7), prepare().term()));
            fence.close_by(asked_ns + left_ns);
            let closes_ns = sends_ns.map(|sends_ns| asked_ns + sends_ns);
            assert_eq!(fence.closes_ns(), closes_ns, "{at:?}");
        }
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn what_is_left_of_the_hours_is_counted_to_the_second() {
        let with = |hours: &str| {
            let head = "tests = []\npeers = []\nmax_duration = \"1h\"\nmax_rate = \"max\"";
            Policy::read(&format!("{head}\n{hours}")).unwrap()
        };
        let night = with("hours = \"22:00-06:00\"");
        assert_eq!(left_ns(&night, 5 * 60 + 59, 50), Some(9_000_000_000));
        assert_eq!(left_ns(&night, 5 * 60 + 59, 59), Some(0));
        assert_eq!(left_ns(&night, 5 * 60, 0), Some(3_599_000_000_000));
        assert_eq!(left_ns(&with(""), 0, 0), None);
    }

    #[tokio::test]
    async fn a_test_goes_to_an_address_that_the_owner_allows() {
        let networks =
            |all: &[&str]| all.iter().map(|one| one.parse::<Cidr>().unwrap()).collect::<Vec<_>>();
        let to = |name: &str| (name.to_owned(), 7);
        let nowhere = reach(&[], to("no such host"), None).await.unwrap();
        assert_eq!(nowhere, to("no such host"), "it is not looked up");
        let allowed = networks(&["192.0.2.0/24", "2001:db8::7"]);
        for (name, ip, allows) in [
            ("192.0.2.9", None, true),
            ("[2001:db8::7]", Some(IpVersion::V6), true),
            ("192.0.2.9", Some(IpVersion::V6), false),
            ("192.0.3.9", None, false),
            ("2001:db8::8", None, false),
            ("no such host", None, false),
        ] {
            match reach(&allowed, to(name), ip).await {
                Ok(found) => assert_eq!((found, allows), (to(name.trim_matches(['[', ']'])), true)),
                Err(error) => {
                    assert_eq!((error.kind, allows), (ErrorKind::Policy, false), "{name}")
                }
            }
        }
    }

    #[test]
    fn a_policy_with_what_is_no_network_allows_nothing() {
        let file = std::env::temp_dir().join(format!("linerate-policy-{}", std::process::id()));
        for (peers, is_one) in [("192.0.2.0/24", true), ("192.0.2.7/24", false), ("b.c", false)] {
            let rest = "tests = []\nmax_duration = \"1h\"\nmax_rate = \"max\"";
            std::fs::write(&file, format!("peers = [\"{peers}\"]\n{rest}")).unwrap();
            assert_eq!(policy(&file).is_ok(), is_one, "{peers}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}
