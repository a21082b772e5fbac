//! The doctor: looks at this host and, through its server, at the far one; judges both; and may prove what one
//! change is worth.

pub(crate) mod prove;

pub use self::prove::keep;

use std::net::{SocketAddr, ToSocketAddrs};

use linerate_ask::doctor::{Asked, CONTACT, DoctorArgs};
use linerate_ask::target::Found;
use linerate_doctor::{Case, Judged, judge};
use linerate_host::checkup::{Look, WATCHED};
use linerate_host::sampler::Clocks;
use linerate_model::doctor::{DoctorDocument, FORMAT, Fact, Goal, HostDetails, Unlooked};
use linerate_model::plan::{Dialect, IpVersion};
use linerate_model::record::{ErrorKind, ErrorRecord, ProgramFacts, RunRecord, TestEnd};
use linerate_model::units::Nanos;
use linerate_runner::agent::{Access, HostAgent, Remote};
use linerate_runner::client::{Request, Target};
use linerate_runner::signals::Stop;

use crate::Env;

/// Takes this host over for changes of its settings; asked only where a change is to be proven.
pub type TakeOver<'a> = &'a mut dyn FnMut() -> Result<Box<dyn HostAgent>, ErrorRecord>;

/// Looks, judges and, if asked, proves.
///
/// # Errors
/// When nothing can be looked at: a host that has no address, words that make no sense, a change that is none.
pub fn run(
    args: &DoctorArgs,
    command: Vec<String>,
    env: &mut Env<'_>,
    take_over: TakeOver<'_>,
) -> Result<DoctorDocument, ErrorRecord> {
    let Asked { place, rate_bps } = args.asked()?;
    let started = env.clock.date();
    let towards = place.as_ref().map(address).transpose()?;
    let look = Look::begin(towards, clocks(env));
    let begun = env.clock.elapsed();
    let mut unknown = Vec::new();
    let Contact { far, rtt_s, full_packets } =
        match place.as_ref().filter(|found| found.target != Target::Local) {
            Some(found) => contact(args, found, towards, env, &mut unknown)?,
            None => Contact::default(),
        };
    env.clock.sleep(WATCHED.saturating_sub(env.clock.elapsed().saturating_sub(begun)));
    let mut here = look.end(clocks(env));
    if let Fact::Known(route) = &mut here.route {
        route.full_packets = full_packets;
    }
    let goal = Goal { rate_bps, rtt_s };

    let mut judged = judge(&Case { end: TestEnd::Client, host: &here, other: far.as_ref(), goal });
    if let Some(far) = &far {
        let case = Case { end: TestEnd::Server, host: far, other: Some(&here), goal };
        add(&mut judged, judge(&case));
    }
    judged.unknown.extend(unknown);
    let mut document = DoctorDocument {
        format: FORMAT,
        kind: "doctor".to_owned(),
        started,
        linerate: ProgramFacts { version: env!("CARGO_PKG_VERSION").to_owned() },
        command,
        target: args.place.host.clone(),
        goal,
        checks: judged.checks,
        findings: judged.findings,
        unknown: judged.unknown,
        proof: None,
        here,
        far,
    };
    if let (Some(id), Some(found)) = (&args.prove, &place) {
        prove::prove(args, id, found, &mut document, env, take_over)?;
    }
    Ok(document)
}

fn add(judged: &mut Judged, more: Judged) {
    judged.checks = judged.checks.saturating_add(more.checks);
    judged.findings.extend(more.findings);
    judged.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    judged.unknown.extend(more.unknown);
}

fn clocks(env: &Env<'_>) -> Clocks {
    let monotonic_ns = u64::try_from(env.clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Clocks { monotonic_ns, wall_ahead_ns: 0 }
}

/// The address that the path leads to, with the interface that is part of a link-local one.
fn address(found: &Found) -> Result<SocketAddr, ErrorRecord> {
    let (Target::Host { name, port } | Target::Discard { name, port }) = &found.target else {
        return Ok(SocketAddr::from(([127, 0, 0, 1], 0)));
    };
    let what = || format!("cannot find the address of `{name}`");
    let error = |why: String| {
        ErrorRecord::new(ErrorKind::UnknownHost, what(), why, &["an address in place of the name"])
    };
    let mut all = (name.as_str(), *port).to_socket_addrs().map_err(|e| error(e.to_string()))?;
    let wanted = |to: &SocketAddr| match found.ip {
        Some(IpVersion::V4) => to.is_ipv4(),
        Some(IpVersion::V6) => to.is_ipv6(),
        None => true,
    };
    all.find(wanted).ok_or_else(|| error("it has no address of that version of IP".to_owned()))
}

/// What tests with the far host show.
#[derive(Default)]
struct Contact {
    far: Option<HostDetails>,
    /// Seconds.
    rtt_s: Option<f64>,
    full_packets: Option<bool>,
}

/// What the far host reports of itself, and the path. A server that reports nothing leaves a reason in `unknown`.
fn contact(
    args: &DoctorArgs,
    found: &Found,
    towards: Option<SocketAddr>,
    env: &mut Env<'_>,
    unknown: &mut Vec<Unlooked>,
) -> Result<Contact, ErrorRecord> {
    let mut cannot = |why: String| {
        unknown.push(Unlooked { id: "far.facts".to_owned(), host: TestEnd::Server, why });
        Ok(Contact::default())
    };
    if let Some(dialect) = found.dialect.filter(|dialect| *dialect != Dialect::Native) {
        return cannot(format!("a server of {} tells nothing of its host", dialect.as_ref()));
    }
    let ip = towards.map(version);
    let mut run = |bytes: u32, time: Nanos| -> Result<RunRecord, ErrorRecord> {
        let request = Request { ip, ..args.contact(found, bytes, time)? };
        let record = env.executor.run(&request, env.watcher, &env.stop);
        match &record.error {
            Some(error) if error.kind == ErrorKind::Interrupted => Err(error.clone()),
            _ => Ok(record),
        }
    };
    let record = run(1, CONTACT)?;
    let mut far = match (&record.server, &record.error) {
        (Some(host), _) => HostDetails::of_record(host.clone()),
        (None, Some(error)) if error.kind == ErrorKind::ServerLost => {
            // What it tells of itself takes more than a packet.
            let hint = "so it is where full packets vanish on the way: tracepath";
            return cannot(format!("{}: {}; {hint}", error.what, error.why));
        }
        (None, Some(error)) => return cannot(format!("{}: {}", error.what, error.why)),
        (None, None) => return cannot("its server tells nothing of its host".to_owned()),
    };
    match looked(found, ip, &env.stop) {
        Some(Ok(details)) => far = details,
        Some(Err(error)) if error.kind == ErrorKind::Interrupted => return Err(error),
        Some(Err(error)) => unknown.push(Unlooked {
            id: "far.details".to_owned(),
            host: TestEnd::Server,
            why: format!("{}: {}", error.what, error.why),
        }),
        None => {}
    }
    let rtt_s = rtt(&record);
    // A path that has no round trip in that time has none of larger packets either.
    let bytes = rtt_s.and_then(|_| full_request(record.client.nic.as_ref()?.mtu?, ip));
    let mut full_packets = None;
    if let Some(bytes) = bytes {
        for time in [CONTACT, FULL_AT_MOST] {
            full_packets = run(bytes, time)?.totals.rr.map(|rr| rr.transactions > 0);
            if full_packets != Some(false) {
                break;
            }
        }
    }
    Ok(Contact { far: Some(far), rtt_s, full_packets })
}

/// The far host, looked at as this one is, where its owner lets the given key control it; else only what its record tells is
/// known.
fn looked(
    found: &Found,
    ip: Option<IpVersion>,
    stop: &Stop,
) -> Option<Result<HostDetails, ErrorRecord>> {
    let (Target::Host { name, port }, Some(key)) = (&found.target, &found.key) else { return None };
    let (name, port, bind, key) = (name.clone(), *port, found.bind, key.clone());
    let access = Access { name, port, ip, bind, key };
    Some(Remote::connect_until(&access, stop).and_then(|mut host| host.look()))
}

/// A path that answers no request that fills a packet in so much time answers none: a lost one is sent again after
/// 200 ms (Linux, TCP_RTO_MIN) and 400 ms more.
const FULL_AT_MOST: Nanos = Nanos(1_000_000_000);

/// Bytes of a request that TCP sends as one packet of the MTU: without its header and time stamps, which it has unless
/// they are switched off. Two packets might be one to interfaces within the kernel, whatever its length.
fn full_request(mtu: u32, ip: Option<IpVersion>) -> Option<u32> {
    let header = if ip == Some(IpVersion::V6) { 40 } else { 20 };
    mtu.checked_sub(header + 20 + 12).filter(|bytes| *bytes > 0)
}

fn version(address: SocketAddr) -> IpVersion {
    if address.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 }
}

/// The median round trip of single requests: nobody queues before them but others' packets.
fn rtt(record: &RunRecord) -> Option<f64> {
    Some(record.totals.rr.as_ref()?.latency_s.as_ref()?.p50)
}
