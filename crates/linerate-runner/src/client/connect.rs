//! Finding a server, and the first bytes, which show the dialect that it speaks.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use linerate_model::plan::IpVersion;
use linerate_model::record::{AddressPair, ErrorRecord};
use tokio::net::{TcpSocket, TcpStream};

use crate::errors;

/// A connection attempt may take this long for each address of the host.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Beyond two round trips, an iperf3 server's first answer may take this long; one that takes longer
/// is not recognised.
pub(super) const DETECT: Duration = Duration::from_millis(30);

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
            Ok(Ok(stream)) => match ends(&stream, (name, port)) {
                Ok(_) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(broken) => last = Some(broken),
            },
            Ok(Err(e)) => last = Some(errors::connect(name, address, bind, &e)),
            Err(_) => last = Some(errors::silent(name, address)),
        }
    }
    Err(last.unwrap_or_else(|| errors::no_address(name, ip, false)))
}

/// This end's address of a control connection, and the server's. One that its other end breaks at once has none any more,
/// whenever they are asked for.
pub(super) fn ends(
    control: &TcpStream,
    (name, port): (&str, u16),
) -> Result<(SocketAddr, SocketAddr), ErrorRecord> {
    let ends = control.local_addr().and_then(|local| Ok((local, control.peer_addr()?)));
    ends.map_err(|_| errors::broken(name, port))
}

/// For the record.
pub(super) fn address_pair(local: SocketAddr, peer: SocketAddr) -> AddressPair {
    AddressPair { client: local.to_string(), server: peer.to_string() }
}

#[cfg(test)]
mod tests {
    use linerate_model::record::ErrorKind;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_server_that_breaks_the_connection_at_once_is_lost() {
        let server = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = server.local_addr().unwrap();
        let mut control = TcpStream::connect(at).await.unwrap();
        assert_eq!(ends(&control, ("h", at.port())).unwrap().1, at);
        let (broken, _) = server.accept().unwrap();
        socket2::SockRef::from(&broken).set_linger(Some(Duration::ZERO)).unwrap();
        drop(broken);
        assert!(control.read(&mut [0]).await.is_err(), "its reset is here");
        let error = ends(&control, ("h", at.port())).expect_err("it has no addresses");
        assert_eq!(error.kind, ErrorKind::ServerLost);
    }
}
