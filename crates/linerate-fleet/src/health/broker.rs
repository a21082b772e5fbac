//! What is looked at of the broker.

use std::net::IpAddr;

use linerate_model::doctor::Severity::{Note, Problem, Warning};
use linerate_model::fleet_doctor::{FleetBroker, FleetStream};

use super::{Check, Draft, Found};

/// Newest release of nats-server that the tests run with.
pub const TESTED: &str = "2.15.2";
/// Consumers of a stream, from 2.15 on.
const MOST_CONSUMERS: u64 = 1_000;
/// Shares of a limit, in percent, from which on it is near, and all but reached.
const NEAR: u64 = 80;
const REACHED: u64 = 95;

pub(super) const CHECKS: [Check<FleetBroker>; 5] = [
    ("broker.version", version),
    ("broker.tls", tls),
    ("broker.sync", sync),
    ("broker.storage", storage),
    ("broker.streams", streams),
];

/// Major, minor and patch of a release of nats-server, as `2.15.2` or `2.12.0-RC.3`; nothing of what is none.
pub fn release(version: &str) -> Option<[u64; 3]> {
    let whole = version.split(['-', '+']).next()?;
    let mut parts = whole.split('.').map(str::parse::<u64>);
    let mut next = || parts.next()?.ok();
    Some([next()?, next()?, next()?])
}

fn version(broker: &FleetBroker) -> Found {
    let unknown = || format!("the broker's release is no version: {:?}", broker.version);
    let now = release(&broker.version).ok_or_else(unknown)?;
    let old = release(TESTED).is_some_and(|tested| now < tested);
    Ok(old.then(|| {
        Draft::new(
            Note,
            format!("the broker is nats-server {}, older than {TESTED}", broker.version),
            "the tests run with the newer one, and releases between them mend faults of streams",
        )
        .run(format!("go install github.com/nats-io/nats-server/v2@v{TESTED}"))
    }))
}

fn tls(broker: &FleetBroker) -> Found {
    if broker.listens.is_empty() {
        return Err("the broker does not say at which address it listens".to_owned());
    }
    let address = broker.listens.parse::<IpAddr>().ok();
    let near = address.map_or(broker.listens == "localhost", |address| address.is_loopback());
    Ok((!broker.tls && !near).then(|| {
        Draft::new(
            Problem,
            format!("the broker takes connections at {} without TLS", broker.listens),
            "who is on the way reads results, and the tokens of tests, with which others get a test of a host",
        )
        .run("tls { cert_file: \"…\", key_file: \"…\" } in broker.conf, as `linerate fleet init --cert` writes it")
        .run("listen: \"127.0.0.1:4222\" there, where all agents are on its host")
    }))
}

fn sync(broker: &FleetBroker) -> Found {
    Ok((!broker.sync_always.get()?).then(|| {
        Draft::new(
            Problem,
            "the broker acknowledges what is not on its disk yet",
            "a power cut takes results, leases and confirmations of up to two minutes, and nobody is told",
        )
        .run("sync_interval: always in the block jetstream of broker.conf, and start nats-server again")
    }))
}

/// How full something is, in percent.
fn percent(used: u64, most: u64) -> u64 {
    let share = u128::from(used) * 100 / u128::from(most.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

fn storage(broker: &FleetBroker) -> Found {
    let room = broker.storage.get()?;
    let percent = percent(room.bytes, room.most_bytes);
    Ok((percent >= NEAR).then(|| {
        Draft::new(
            if percent >= REACHED { Problem } else { Warning },
            format!("the broker's streams take {percent} % of the room that it has for them"),
            "without room it grants no lease and takes no result: tests end, and results wait on the agents",
        )
        .run("max_file_store in the block jetstream of broker.conf, or a larger disk")
        .run("linerate fleet run --resume with each file of --keep whose results wait there")
    }))
}

/// How near a stream is to a limit of its own, in percent, with words for it.
fn nearest(stream: &FleetStream) -> (u64, String) {
    let bytes = stream.most_bytes.map_or(0, |most| percent(stream.bytes, most));
    let consumers = percent(stream.consumers, MOST_CONSUMERS);
    if bytes >= consumers {
        (bytes, format!("{} is {bytes} % full", stream.name))
    } else {
        (consumers, format!("{} has {} readers of {MOST_CONSUMERS}", stream.name, stream.consumers))
    }
}

fn streams(broker: &FleetBroker) -> Found {
    let near: Vec<_> =
        broker.streams.iter().map(nearest).filter(|(percent, _)| *percent >= NEAR).collect();
    let most = near.iter().map(|(percent, _)| *percent).max().unwrap_or(0);
    let words: Vec<String> = near.into_iter().map(|(_, words)| words).collect();
    Ok((!words.is_empty()).then(|| {
        Draft::new(
            if most >= REACHED { Problem } else { Warning },
            words.join(", "),
            "a stream that is full forgets the oldest first; one with all its readers takes no other run",
        )
        .run("linerate fleet run --resume with each file of --keep whose results wait there")
    }))
}
