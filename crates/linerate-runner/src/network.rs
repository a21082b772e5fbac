//! Whom a server counts as one.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

/// An IPv4 address, or the /64 of an IPv6 address: whoever has one address of a /64 has them all
/// (RFC 4291, 2.5.1), so that they share one share of whatever is shared by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network(IpAddr);

impl Network {
    /// That of a host.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(v4) => v4.fmt(f),
            IpAddr::V6(v6) => write!(f, "{v6}/64"),
        }
    }
}

/// A network from which a server takes tests: in CIDR notation (RFC 4632), or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr(IpNet);

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Cidr {
    /// Whether it is in it.
    pub fn has(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

/// A network of IPv4 addresses that is written as one of IPv6 (RFC 4291, 2.5.5.2) is that of IPv4: addresses are compared so.
fn canonical(network: IpNet) -> IpNet {
    let v4 = match network.addr().to_canonical() {
        IpAddr::V4(v4) if network.addr().is_ipv6() => v4,
        _ => return network,
    };
    let mapped = network.prefix_len().checked_sub(96).and_then(|bits| Ipv4Net::new(v4, bits).ok());
    mapped.map_or(network, IpNet::from)
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = || text.parse().map(|address: IpAddr| IpNet::from(address.to_canonical()));
        let network = text.parse().or_else(|_| one()).map(canonical).map_err(|_| {
            "it is neither a network nor an address: 192.0.2.0/24, 2001:db8::/32, 192.0.2.7"
                .to_owned()
        })?;
        if network != network.trunc() {
            return Err(format!("bits of the host are set: the network is {}", network.trunc()));
        }
        Ok(Self(network))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_addresses_however_they_are_written() {
        let has = |network: &str, address: &str| {
            network.parse::<Cidr>().unwrap().has(address.parse().unwrap())
        };
        assert!(has("192.0.2.0/24", "192.0.2.7") && has("192.0.2.0/24", "::ffff:192.0.2.7"));
        assert!(!has("192.0.2.0/24", "192.0.3.7") && !has("192.0.2.0/24", "2001:db8::1"));
        assert!(has("192.0.2.7", "192.0.2.7") && !has("192.0.2.7", "192.0.2.8"));
        assert!(has("::ffff:192.0.2.7", "192.0.2.7"));
        assert!(has("::ffff:192.0.2.0/120", "192.0.2.7") && has("::ffff:0:0/96", "192.0.2.7"));
        assert!(
            !has("::ffff:192.0.2.0/120", "192.0.3.7") && has("::ffff:192.0.2.7/128", "192.0.2.7")
        );
        assert_eq!("::ffff:192.0.2.0/120".parse::<Cidr>().unwrap().to_string(), "192.0.2.0/24");
        assert!("::ffff:192.0.2.7/120".parse::<Cidr>().is_err());
        assert!(has("2001:db8::/32", "2001:db8:ffff::1") && !has("2001:db8::/32", "2001:db9::1"));
        assert!(has("0.0.0.0/0", "203.0.113.1") && !has("0.0.0.0/0", "2001:db8::1"));
        let why = "192.0.2.7/24".parse::<Cidr>().unwrap_err();
        assert!(why.ends_with("the network is 192.0.2.0/24"), "{why}");
        for bad in ["", "lab", "192.0.2.0/33", "192.0.2/24", "2001:db8::/129", "192.0.2.1:5201"] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_addresses_of_a_64_are_one() {
        let network = |text: &str| Network::of(text.parse().unwrap());
        assert_eq!(network("2001:db8:1:2::7"), network("2001:db8:1:2:ffff::1"));
        assert_ne!(network("2001:db8:1:2::7"), network("2001:db8:1:3::7"));
        assert_eq!(network("::ffff:192.0.2.7"), network("192.0.2.7"));
        assert_ne!(network("192.0.2.6"), network("192.0.2.7"));
        assert_eq!(network("2001:db8:1:2::7").to_string(), "2001:db8:1:2::/64");
        assert_eq!(network("192.0.2.7").to_string(), "192.0.2.7");
    }
}
