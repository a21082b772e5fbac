//! Finding a server, and the first bytes that tell which dialect it speaks.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use linerate_host::facts::facts;
use linerate_model::plan::IpVersion;
use linerate_model::record::{AddressPair, Addresses, ErrorRecord, RunRecord};
use linerate_session::observer::Observer;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;

use crate::errors;
use crate::event_log::Events;
use crate::server;

use super::test::ClientTest;
use super::{Request, failed};

/// A connection attempt may take this long for each address of the host.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Beyond two round trips, an iperf3 server's first answer may take this long; one that takes longer
/// is not recognised.
pub(super) const DETECT: Duration = Duration::from_millis(30);

/// A server of our own on loopback, which ends with the test.
pub(super) async fn with_own_server(
    request: &Request,
    record: RunRecord,
    observer: &mut dyn Observer,
) -> RunRecord {
    let loopback: IpAddr = match request.ip {
        Some(IpVersion::V6) => std::net::Ipv6Addr::LOCALHOST.into(),
        _ => std::net::Ipv4Addr::LOCALHOST.into(),
    };
    let (tell, told) = std::sync::mpsc::channel();
    let (shut_sender, shut) = watch::channel(false);
    // Both ends are the same owner's, and may take what the one asks for.
    let options = server::Options {
        bind: Some(loopback),
        port: 0,
        max_memory: u64::MAX,
        max_window: u32::MAX,
        ..Default::default()
    };
    let listening = tell.clone();
    // Its user sees this end of the test only.
    let events = Events::new(move |event| {
        if let server::Event::Listening(address) = event {
            let _ = listening.send(Ok(address));
        }
    });
    let thread = std::thread::Builder::new().name("server".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let result = match runtime {
            Ok(runtime) => runtime.block_on(server::serve_async(&options, events, shut)),
            Err(e) => Err(errors::unable("start a server in this process", &e.to_string())),
        };
        if let Err(e) = result {
            let _ = tell.send(Err(e));
        }
    });
    let address = match (thread.is_ok(), told.recv_timeout(CONNECT_LIMIT)) {
        (true, Ok(Ok(address))) => address,
        (_, Ok(Err(error))) => return failed(record, error),
        _ => {
            return failed(
                record,
                errors::unable("start a server in this process", "it did not come up"),
            );
        }
    };
    let name = address.ip().to_string();
    let record = over_control(request, record, &name, address.port(), observer).await;
    let _ = shut_sender.send(true);
    record
}

/// Addresses of a host, in the resolver's order, of the wanted version.
pub(crate) async fn resolve(
    name: &str,
    port: u16,
    ip: Option<IpVersion>,
) -> Result<Vec<SocketAddr>, ErrorRecord> {
    let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    let lookup = tokio::time::timeout(CONNECT_LIMIT, tokio::net::lookup_host((bare, port))).await;
    let found: Vec<SocketAddr> = match lookup {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(e)) => return Err(errors::unknown_host(name, &e.to_string())),
        Err(_) => {
            return Err(errors::unknown_host(name, "the name service did not answer within 5 s"));
        }
    };
    let wanted: Vec<SocketAddr> = found
        .iter()
        .copied()
        .filter(|address| match ip {
            None => true,
            Some(IpVersion::V4) => address.is_ipv4(),
            Some(IpVersion::V6) => address.is_ipv6(),
        })
        .collect();
    if wanted.is_empty() {
        return Err(errors::no_address(name, ip, !found.is_empty()));
    }
    Ok(wanted)
}

pub(super) async fn connect(
    request: &Request,
    name: &str,
    port: u16,
) -> Result<TcpStream, ErrorRecord> {
    let attempt = connect_to(name, port, request.ip, request.bind);
    let Some(limit) = request.iperf3.connect_limit else { return attempt.await };
    let late = |_| Err(errors::late(name, port, limit));
    tokio::time::timeout(limit, attempt).await.unwrap_or_else(late)
}

/// A control connection to the first address that answers.
pub(crate) async fn connect_to(
    name: &str,
    port: u16,
    ip: Option<IpVersion>,
    bind: Option<IpAddr>,
) -> Result<TcpStream, ErrorRecord> {
    let addresses = resolve(name, port, ip).await?;
    let mut last = None;
    for address in addresses {
        let attempt = async {
            let socket =
                if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            if let Some(bind) = bind {
                socket.bind(SocketAddr::new(bind, 0))?;
            }
            socket.connect(address).await
        };
        match tokio::time::timeout(CONNECT_LIMIT, attempt).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(e)) => last = Some(errors::connect(name, address, bind, &e)),
            Err(_) => last = Some(errors::silent(name, address)),
        }
    }
    Err(last.unwrap_or_else(|| errors::no_address(name, ip, false)))
}

/// For the record.
pub(super) fn address_pair(local: SocketAddr, peer: SocketAddr) -> AddressPair {
    AddressPair { client: local.to_string(), server: peer.to_string() }
}

/// A test over a control connection, whatever happens on it.
pub(super) async fn over_control(
    request: &Request,
    mut record: RunRecord,
    name: &str,
    port: u16,
    observer: &mut dyn Observer,
) -> RunRecord {
    let control = match connect(request, name, port).await {
        Ok(control) => control,
        Err(error) => return failed(record, error),
    };
    let (Ok(peer), Ok(local)) = (control.peer_addr(), control.local_addr()) else {
        return failed(record, errors::unable("use the control connection", "it has no addresses"));
    };
    record.client = facts(Some(peer.ip()));
    record.addresses =
        Some(Addresses { control: address_pair(local, peer), ..Addresses::default() });
    let mut near = ClientTest {
        request,
        name: name.to_owned(),
        peer,
        local,
        ip: if peer.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 },
        plan: request.plan.clone(),
        record,
        drain: 0,
        fragments: false,
    };
    match near.conduct(control, observer).await {
        Ok(()) => near.record,
        Err(error) => failed(near.record, error),
    }
}
