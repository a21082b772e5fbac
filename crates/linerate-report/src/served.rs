//! Lines of a server's log: one when a test begins, one when it is over.

use linerate_model::plan::Direction;
use linerate_model::served::{
    Outcome, Restriction, Sandboxed, ServedReceived, ServedResult, ServedSent, ServedTest,
};

use crate::clean::clean;
use crate::number;
use crate::run::words::plural;

/// `runs as linerate (uid 998) · Landlock on · seccomp off: the kernel has none`.
pub fn sandboxed(sandboxed: &Sandboxed) -> String {
    let Sandboxed { uid, user, landlock, seccomp } = sandboxed;
    let user = match user {
        Some(user) => format!("runs as {} (uid {uid})", clean(user)),
        None if *uid == 0 => {
            "what reads strangers' bytes runs as root (--user NAME gives that up)".to_owned()
        }
        None => format!("runs as uid {uid}"),
    };
    let restriction = |name: &str, restriction: &Restriction| {
        let on = if restriction.on { "on" } else { "off" };
        let why = restriction.why.as_ref().map(|why| format!(": {}", clean(why)));
        format!("{name} {on}{}", why.unwrap_or_default())
    };
    [user, restriction("Landlock", landlock), restriction("seccomp", seccomp)].join(" · ")
}

/// Where what keys and networks have carried outlasts the server, and of how many of them something is known.
pub fn budget_state(file: Option<&str>, days: usize, why: Option<&str>) -> String {
    let what = "what keys and networks have carried in their days";
    let why = why.map(|why| format!(": {}", clean(why))).unwrap_or_default();
    match file {
        Some(file) => format!("keeps {what} in {}, {days} days go on{why}", clean(file)),
        None => format!("forgets {what} at its end{why}"),
    }
}

/// `read the file of keys: 3 keys hold, 1 network has a budget`.
pub fn keys_read(keys: usize, networks: usize, why: Option<&str>) -> String {
    let (keys_hold, networks_have) = (
        if keys == 1 { "key holds" } else { "keys hold" },
        if networks == 1 { "network has" } else { "networks have" },
    );
    let counts = format!("{keys} {keys_hold}, {networks} {networks_have} a budget");
    match why {
        Some(why) => {
            format!(
                "cannot read the file of keys ({}); what it said before goes on: {counts}",
                clean(why)
            )
        }
        None => format!("read the file of keys: {counts}"),
    }
}

/// `127.0.0.1:40000 started udp forward, 2 streams, linerate · 100.0 Mbit/s asked`.
pub fn started(test: &ServedTest) -> String {
    let asked = match (test.asked_bps, test.asked_per_second) {
        (Some(rate), _) => format!("{} asked", number::rate(rate as f64)),
        (None, Some(rate)) => format!("{} transactions/s asked", number::integer(rate)),
        (None, None) => "no rate asked".to_owned(),
    };
    format!("{} started {} · {asked}", who(&test.peer, test.key.as_deref()), what(test))
}

/// `127.0.0.1:40000 done: udp forward, 1 stream, linerate · 2.000 s · received …`.
pub fn ended(test: &ServedTest, result: &ServedResult) -> String {
    let outcome = match result.outcome {
        Outcome::Cut => "cut short",
        Outcome::Stopped => "stopped early",
        other => other.name(),
    };
    let mut parts =
        vec![format!("{} {outcome}: {}", who(&test.peer, test.key.as_deref()), what(test))];
    parts.extend(result.seconds.map(number::seconds));
    parts.extend(result.received.as_ref().map(received));
    parts.extend(result.sent.as_ref().map(sent));
    parts.extend(result.answered.map(|n| format!("answered {} requests", number::integer(n))));
    parts.extend(result.why.as_ref().map(|why| clean(why).into_owned()));
    parts.join(" · ")
}

/// `127.0.0.1:40000`, and `127.0.0.1:40000 (ci)` of a client with a key of that name.
pub fn who(peer: &str, key: Option<&str>) -> String {
    let key = key.map_or(String::new(), |key| format!(" ({})", clean(key)));
    format!("{}{key}", clean(peer))
}

fn what(test: &ServedTest) -> String {
    let direction = match test.direction {
        Direction::Forward => "forward",
        Direction::Reverse => "reverse",
        Direction::Both => "both ways",
    };
    let streams = plural(u64::from(test.streams), "stream");
    format!("{} {direction}, {streams}, {}", test.kind.name(), test.dialect.program())
}

fn amount(bytes: u64, rate: Option<f64>) -> String {
    let rate = rate.map_or(String::new(), |rate| format!(" at {}", number::rate(rate)));
    format!("{} bytes{rate}", number::integer(bytes))
}

fn received(got: &ServedReceived) -> String {
    let mut text = format!("received {}", amount(got.bytes, got.bits_per_second));
    if let (Some(lost), Some(expected)) = (got.lost, got.expected) {
        text.push_str(&format!(
            ", lost {} of {} datagrams",
            number::integer(lost),
            number::integer(expected)
        ));
        if lost > 0 && expected > 0 {
            text.push_str(&format!(" ({})", number::loss(lost as f64 / expected as f64)));
        }
    }
    if let Some(drops) = got.rcvbuf_drops.filter(|drops| *drops > 0) {
        text.push_str(&format!(", {} of them rcvbuf drops", number::integer(drops)));
    }
    text
}

fn sent(sent: &ServedSent) -> String {
    let again = sent.retransmits.filter(|again| *again > 0);
    let again = again.map_or(String::new(), |n| format!(", {} retrans", number::integer(n)));
    format!("sent {}{again}", amount(sent.bytes, sent.bits_per_second))
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::{Dialect, TrafficKind};

    use super::*;

    fn test(kind: TrafficKind, dialect: Dialect, direction: Direction, streams: u16) -> ServedTest {
        ServedTest {
            id: None,
            peer: "[2001:db8::7]:40000".into(),
            key: None,
            dialect,
            kind,
            direction,
            streams,
            asked_bps: (kind == TrafficKind::Udp).then_some(100_000_000),
            asked_per_second: None,
        }
    }

    fn result(outcome: Outcome, why: Option<&str>) -> ServedResult {
        let why = why.map(str::to_owned);
        ServedResult { outcome, why, seconds: None, received: None, sent: None, answered: None }
    }

    #[test]
    fn what_a_server_gave_up_is_one_line() {
        let part = Restriction::in_part("the kernel knows only some of its rules");
        let off = Restriction::off("--no-sandbox\u{1b}[2J\nfake line");
        let rights = |uid, user: Option<&str>, landlock, seccomp| {
            sandboxed(&Sandboxed { uid, user: user.map(Into::into), landlock, seccomp })
        };
        let lines = [
            rights(998, Some("linerate"), Restriction::on(), Restriction::on()),
            rights(0, None, part, Restriction::on()),
            rights(1000, None, Restriction::on(), off),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        runs as linerate (uid 998) · Landlock on · seccomp on
        what reads strangers' bytes runs as root (--user NAME gives that up) · Landlock on: the kernel knows only some of its rules · seccomp on
        runs as uid 1000 · Landlock on · seccomp off: --no-sandbox[2J fake line
        ");
    }

    #[test]
    fn every_test_is_one_line() {
        let udp = test(TrafficKind::Udp, Dialect::Native, Direction::Forward, 1);
        let both = test(TrafficKind::Tcp, Dialect::Iperf3, Direction::Both, 2);
        let received = ServedReceived {
            warmup: None,
            bytes: 24_970_000,
            seconds: Some(1.999),
            bits_per_second: Some(99_929_965.0),
            expected: Some(20_833),
            lost: Some(25),
            rcvbuf_drops: Some(5),
            wall_clock_delay_s: None,
        };
        let tcp =
            ServedReceived { expected: None, lost: None, rcvbuf_drops: None, ..received.clone() };
        let sent = ServedSent {
            bytes: 1_000_000,
            seconds: Some(2.0),
            bits_per_second: Some(4e6),
            datagrams: None,
            retransmits: Some(1_234),
        };
        let lines = [
            started(&udp),
            started(&both),
            ended(
                &udp,
                &ServedResult {
                    seconds: Some(1.999),
                    received: Some(received),
                    ..result(Outcome::Done, None)
                },
            ),
            ended(
                &both,
                &ServedResult {
                    seconds: Some(2.0),
                    received: Some(tcp),
                    sent: Some(sent),
                    ..result(Outcome::Cut, Some("more bytes than this server allows in a test"))
                },
            ),
            ended(
                &test(TrafficKind::Rr, Dialect::Native, Direction::Forward, 1),
                &ServedResult {
                    seconds: Some(0.5),
                    answered: Some(12_345),
                    ..result(Outcome::Stopped, Some("the client stopped it before its time"))
                },
            ),
            ended(&udp, &result(Outcome::Vanished, Some("gone\u{1b}[2J\nfake line"))),
        ];
        insta::assert_snapshot!(lines.join("\n"));
    }
}
