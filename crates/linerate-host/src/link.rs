//! Whether this host can still be reached at an address of its own.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// What is wrong with the interface that has `local`, in words for after a comma: that none has it any more,
/// that it is down, or that it has no carrier. Nothing where all is well, or the kernel does not say.
pub fn trouble(local: IpAddr) -> Option<String> {
    let local = local.to_canonical();
    let interfaces = getifaddrs().ok()?;
    let holders = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let own = address
            .as_sockaddr_in()
            .map(|a| IpAddr::from(a.ip()))
            .or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::from(a.ip())))?;
        (own == local).then_some((interface.interface_name, interface.flags))
    });
    let holders: Vec<_> = holders.collect();
    let Some((name, flags)) = holders.first() else {
        return Some(format!("this host has lost its address {local}"));
    };
    if !flags.contains(InterfaceFlags::IFF_UP) {
        return Some(format!("its own interface {name} is down"));
    }
    // RFC 2863's operational state, as far as the flag has it (netdevice(7)).
    (!flags.contains(InterfaceFlags::IFF_RUNNING))
        .then(|| format!("its own interface {name} has no carrier"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_nobody_is_lost_and_loopback_is_well() {
        assert_eq!(trouble("127.0.0.1".parse().unwrap()), None);
        assert_eq!(trouble("::ffff:127.0.0.1".parse().unwrap()), None);
        let lost = trouble("192.0.2.77".parse().unwrap()).unwrap();
        assert_eq!(lost, "this host has lost its address 192.0.2.77");
    }
}
