//! Whether this host can still be reached at an address of its own, and which are its own.

use std::net::IpAddr;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;

/// What is wrong with the interface that has `local`, in words for after a comma: that none has it any more,
/// that it is down, or that it has no carrier. Nothing where all is well, or the kernel does not say.
pub fn trouble(local: IpAddr) -> Option<String> {
    let local = local.to_canonical();
    let interfaces = getifaddrs().ok()?;
    let holders = interfaces.filter_map(|interface| {
        let own = address(&interface)?;
        (own == local).then_some((without_label(&interface), interface.flags))
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

/// The interface that has `local`.
pub fn holder(local: IpAddr) -> Option<String> {
    let local = local.to_canonical();
    let mut interfaces = getifaddrs().ok()?;
    interfaces.find(|one| address(one) == Some(local)).map(|one| without_label(&one))
}

/// The interface of an address; a label of the address (ip-address(8)) stands behind a colon, where no name has one.
pub(crate) fn without_label(interface: &InterfaceAddress) -> String {
    interface.interface_name.split(':').next().unwrap_or_default().to_owned()
}

/// Whether an address by which others see this host is one of its own. Nothing for loopback, which says nothing of
/// others, and where the kernel reports no addresses.
pub fn is_own(seen: IpAddr) -> Option<bool> {
    let seen = seen.to_canonical();
    let interfaces = getifaddrs().ok()?;
    let own = || interfaces.filter_map(|interface| address(&interface)).any(|own| own == seen);
    (!seen.is_loopback()).then(own)
}

fn address(interface: &InterfaceAddress) -> Option<IpAddr> {
    let address = interface.address.as_ref()?;
    address
        .as_sockaddr_in()
        .map(|a| IpAddr::from(a.ip()))
        .or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::from(a.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_own_where_an_interface_has_it() {
        assert_eq!(is_own("192.0.2.77".parse().unwrap()), Some(false));
        assert_eq!(is_own("127.0.0.1".parse().unwrap()), None);
        assert_eq!(is_own("::ffff:127.0.0.1".parse().unwrap()), None);
        let others = getifaddrs().unwrap().filter_map(|interface| address(&interface));
        let others: Vec<IpAddr> = others.filter(|own| !own.is_loopback()).collect();
        // Interfaces come and go meanwhile, not all of them.
        assert!(others.is_empty() || others.iter().any(|own| is_own(*own) == Some(true)));
    }

    #[test]
    fn an_address_with_a_label_is_of_the_interface_before_it() {
        let mut one = getifaddrs().unwrap().next().unwrap();
        for (label, name) in [("eth0:1", "eth0"), ("eth0", "eth0"), ("eth0:", "eth0")] {
            one.interface_name = label.to_owned();
            assert_eq!(without_label(&one), name);
        }
    }

    #[test]
    fn an_address_of_nobody_is_lost_and_loopback_is_well() {
        assert_eq!(trouble("127.0.0.1".parse().unwrap()), None);
        assert_eq!(trouble("::ffff:127.0.0.1".parse().unwrap()), None);
        let lost = trouble("192.0.2.77".parse().unwrap()).unwrap();
        assert_eq!(lost, "this host has lost its address 192.0.2.77");
    }
}
