//! What can go wrong with a test, in words: what was tried, why it failed, what to try.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use linerate_engine::sys::TcpOptions;
use linerate_model::exit::Exit;
use linerate_model::plan::{Dialect, IpVersion};
use linerate_model::record::{ErrorKind as Kind, ErrorRecord};
use linerate_model::setting::core_list;
use linerate_wire::iperf3;
use linerate_wire::native::message::{RefusalKind, Refused, Welcome};

/// What a client does until it has a plan, in errors.
pub(crate) const AGREEING: &str = "agreeing on the test";

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn error(kind: Kind, what: String, why: &str, hints: &[String]) -> ErrorRecord {
    ErrorRecord::new(kind, what, why, &[]).with_hints(hints.to_vec())
}

pub(crate) fn unable(what: &str, why: &str) -> ErrorRecord {
    error(Kind::Unable, format!("cannot {what}"), why, &[])
}

pub(crate) fn no_core(core: u16, allowed: &[u32]) -> ErrorRecord {
    error(
        Kind::NoCore,
        format!("cannot run data threads on core {core}"),
        &format!("this process has no such core (it has {})", core_list(allowed)),
        &["name another with --cpu, or leave it out".to_owned()],
    )
}

pub(crate) fn unknown_host(name: &str, why: &str) -> ErrorRecord {
    let hints = [format!("check the spelling; `getent ahosts {name}` asks the same resolver")];
    error(Kind::UnknownHost, format!("cannot find the address of {name}"), why, &hints)
}

pub(crate) fn no_address(name: &str, ip: Option<IpVersion>, has_other: bool) -> ErrorRecord {
    let version = ip.map_or("any", |ip| if ip == IpVersion::V4 { "an IPv4" } else { "an IPv6" });
    let hints = if has_other { vec!["leave out -4 or -6".to_owned()] } else { vec![] };
    error(
        Kind::NoAddress,
        format!("cannot find {version} address of {name}"),
        "the name has none",
        &hints,
    )
}

pub(crate) fn connect(
    name: &str,
    address: SocketAddr,
    bind: Option<IpAddr>,
    e: &io::Error,
) -> ErrorRecord {
    let (ip, port) = (address.ip(), address.port());
    let (kind, hints) = match e.kind() {
        ErrorKind::ConnectionRefused => (
            Kind::Refused,
            vec![
                format!("start the server there: linerate serve --port {port}"),
                "another port is chosen with --port at both ends".to_owned(),
            ],
        ),
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => {
            (Kind::NoRoute, vec![format!("`ip route get {ip}` shows what the routing table says")])
        }
        ErrorKind::PermissionDenied => (
            Kind::NoPermission,
            vec!["a firewall of this host forbids it (`nft list ruleset`)".to_owned()],
        ),
        ErrorKind::AddrNotAvailable if bind.is_some() => (
            Kind::Bind,
            vec!["the address of --bind must be one of this host (`ip addr`)".to_owned()],
        ),
        ErrorKind::InvalidInput if bind.is_some() => (
            Kind::Bind,
            vec![
                "the address of --bind and the server's must be of the same IP version".to_owned(),
            ],
        ),
        ErrorKind::ConnectionReset => {
            (Kind::Reset, vec![format!("is it linerate that listens on port {port}?")])
        }
        ErrorKind::TimedOut => return silent(name, address),
        _ => (Kind::Connect, vec![]),
    };
    let what = format!("cannot connect to {name} ({ip}) port {port}, TCP");
    error(kind, what, &e.to_string(), &hints)
}

pub(crate) fn silent(name: &str, address: SocketAddr) -> ErrorRecord {
    let (ip, port) = (address.ip(), address.port());
    error(
        Kind::TimedOut,
        format!("cannot connect to {name} ({ip}) port {port}, TCP"),
        "no answer within 5 s",
        &[
            format!("a firewall on the way may drop TCP port {port}"),
            format!("`ping {ip}` shows whether the host answers at all"),
        ],
    )
}

/// The user's own limit has passed.
pub(crate) fn late(name: &str, port: u16, limit: std::time::Duration) -> ErrorRecord {
    let why = format!("no answer within {limit:?}");
    error(Kind::TimedOut, format!("cannot connect to {name} port {port}, TCP"), &why, &[])
}

pub(crate) fn refused(name: &str, refused: &Refused) -> ErrorRecord {
    refused_what(format!("{name} refuses this test"), refused)
}

pub(crate) fn refused_control(name: &str, refused: &Refused) -> ErrorRecord {
    refused_what(format!("{name} does not let this controller in"), refused)
}

fn refused_what(what: String, refused: &Refused) -> ErrorRecord {
    let exit = match refused.kind {
        RefusalKind::OutOfRange => Exit::Usage,
        _ => Exit::Unreachable,
    };
    error(refused.kind.into(), what, &refused.why, &refused.hints).ending(exit)
}

pub(crate) fn not_linerate(name: &str, peer: SocketAddr) -> ErrorRecord {
    let port = peer.port();
    error(
        Kind::NotLinerate,
        format!("cannot agree on a test with {name} ({}) port {port}", peer.ip()),
        "what listens there does not speak linerate's protocol",
        &[format!("start the server there: linerate serve --port {port}")],
    )
}

/// Another program's servers have no such test.
pub(crate) fn no_such_test(dialect: Dialect, what: &str, why: &str) -> ErrorRecord {
    let hints = ["run `linerate serve` there, which speaks linerate's own protocol".to_owned()];
    let what = format!("cannot ask {}'s server for {what}", dialect.program());
    error(Kind::Dialect, what, why, &hints)
}

/// iperf 2 has no word for a test that its server does not want.
pub(crate) fn iperf2_stream(name: &str, peer: SocketAddr, why: &str) -> ErrorRecord {
    let (ip, port) = (peer.ip(), peer.port());
    error(
        Kind::Connect,
        format!("cannot open a stream to {name} ({ip}) port {port} as iperf 2 does"),
        why,
        &[
            format!("start the server there: iperf -s -p {port}, with -u for UDP"),
            format!("or linerate serve --iperf2={port}, which sends nothing over UDP"),
        ],
    )
}

pub(crate) fn iperf3_busy(name: &str) -> ErrorRecord {
    let hints = [
        "try again later: iperf3 runs one test at a time".to_owned(),
        "`linerate serve` runs any number at once".to_owned(),
    ];
    let what = format!("{name} refuses this test");
    error(Kind::Busy, what, "its iperf3 server runs another one", &hints)
}

/// What an iperf3 server said of its failure, if anything.
pub(crate) fn iperf3_failed(name: &str, failure: Option<iperf3::Failure>) -> ErrorRecord {
    let why = match failure {
        None => "its iperf3 says error 0: it did not say why".to_owned(),
        Some(iperf3::Failure { number, errno }) => {
            let words = number.words().unwrap_or("an error of a number not known here");
            let errno = if errno == 0 { String::new() } else { format!(" (errno {errno})") };
            format!("its iperf3 says error {}{errno}: {words}", number.0)
        }
    };
    error(Kind::ServerError, format!("{name} ended the test"), &why, &[])
}

pub(crate) fn wrong_server_key(name: &str) -> ErrorRecord {
    error(
        Kind::Key,
        format!("cannot trust {name}"),
        "it could not prove that it knows the key of --key-file",
        &["start the server with the same --key-file".to_owned()],
    )
}

/// The server chose a version that this end does not speak.
pub(crate) fn other_version(name: &str, welcome: &Welcome) -> ErrorRecord {
    let program: String = welcome.program.chars().take(40).collect();
    error(
        Kind::Version,
        format!("cannot agree on a test with {name}"),
        &format!(
            "the server ({program}) chose version {} of the protocol, which is not spoken here",
            welcome.version
        ),
        &["use the same release of linerate at both ends".to_owned()],
    )
}

/// Nothing was shown to it.
pub(crate) fn older_server_key(name: &str, program: &str) -> ErrorRecord {
    let program: String = program.chars().take(40).collect();
    error(
        Kind::Key,
        format!("cannot prove the key of --key-file to {name}"),
        &format!(
            "the server ({program}) is of a release that does not encrypt control messages, so \
             that whoever is on the path could read them"
        ),
        &[format!("update linerate at the server to that of the client ({VERSION})")],
    )
}

pub(crate) fn unproven(name: &str, peer: SocketAddr, doing: &str) -> ErrorRecord {
    error(
        Kind::Authentication,
        format!("cannot trust what {name} ({}) says while {doing}", peer.ip()),
        &crate::control::ControlError::Unproven.to_string(),
        &["find out who stands between; use a tunnel where the path is hostile".to_owned()],
    )
}

pub(crate) fn server_lost(name: &str, peer: SocketAddr, doing: &str, why: &str) -> ErrorRecord {
    error(
        Kind::ServerLost,
        format!("lost the server {name} ({}) while {doing}", peer.ip()),
        why,
        &["the server's own log says what it saw".to_owned()],
    )
}

pub(crate) fn broken(name: &str, port: u16) -> ErrorRecord {
    let what = format!("lost the server {name} while connecting to port {port}");
    let hints = ["the server's own log says what it saw".to_owned()];
    error(Kind::ServerLost, what, "it broke the connection at once", &hints)
}

pub(crate) fn not_of_protocol(name: &str, peer: SocketAddr, doing: &str, why: &str) -> ErrorRecord {
    let (ip, port) = (peer.ip(), peer.port());
    error(
        Kind::Protocol,
        format!("cannot go on with the server {name} ({ip}) while {doing}"),
        why,
        &[format!("see what listens there: `ss -tlpn 'sport = :{port}'`")],
    )
    .ending(Exit::Failed)
}

pub(crate) fn server_stopped(name: &str, why: &str) -> ErrorRecord {
    error(Kind::ServerStopped, format!("{name} ended the test early"), why, &[])
}

pub(crate) fn stream(name: &str, why: &str) -> ErrorRecord {
    error(Kind::Stream, format!("a data stream of the test with {name} ended early"), why, &[])
}

pub(crate) fn interrupted() -> ErrorRecord {
    error(Kind::Interrupted, "the test was interrupted".to_owned(), "SIGINT or SIGTERM", &[])
}

pub(crate) fn udp_stream(name: &str, peer: SocketAddr, why: &str) -> ErrorRecord {
    let port = peer.port();
    error(
        Kind::UdpBlocked,
        format!("cannot open a UDP stream to {name} ({}) port {port}", peer.ip()),
        why,
        &[
            format!("TCP port {port} works, so a firewall may drop UDP port {port}"),
            "a NAT that gives UDP another address than TCP is refused by the server on purpose"
                .to_owned(),
        ],
    )
}

pub(crate) fn tcp_stream(name: &str, peer: SocketAddr, why: &str) -> ErrorRecord {
    error(
        Kind::TcpStream,
        format!("cannot open a TCP stream to {name} ({}) port {}", peer.ip(), peer.port()),
        why,
        &[],
    )
}

pub(crate) fn tcp_option(what: &str, options: &TcpOptions, e: &io::Error) -> ErrorRecord {
    let value = match what {
        "congestion" => options.congestion.clone().unwrap_or_default(),
        "mss" => options.mss.map(|mss| mss.to_string()).unwrap_or_default(),
        "rate" => options.rate_bps.map(|rate| rate.to_string()).unwrap_or_default(),
        _ => String::new(),
    };
    let hints = if what == "congestion" {
        vec![
            "`sysctl net.ipv4.tcp_available_congestion_control` lists those of this kernel"
                .to_owned(),
        ]
    } else {
        vec![]
    };
    error(Kind::TcpOption, format!("cannot set --{what} {value}"), &e.to_string(), &hints)
}
