//! Local send errors: datagrams that the sending host itself dropped, by the errno that it reported.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why the own host dropped a datagram, as send(2) reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errno {
    /// A packet filter dropped it.
    Eperm,
    /// The routing table or a security module forbids it.
    Eacces,
    /// A blackhole route took it.
    Einval,
    /// The send buffer stayed full.
    Eagain,
    /// No memory.
    Enomem,
    /// The interface or its queue had no room.
    Enobufs,
    /// The interface is down.
    Enetdown,
    /// No route.
    Enetunreach,
    /// The route, or the next hop, does not reach.
    Ehostunreach,
    /// Any other.
    Other,
    /// Not reported: of a call for many datagrams the kernel says only how many it took.
    Untold,
}

impl Errno {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 11] = [
        Self::Eperm,
        Self::Eacces,
        Self::Einval,
        Self::Eagain,
        Self::Enomem,
        Self::Enobufs,
        Self::Enetdown,
        Self::Enetunreach,
        Self::Ehostunreach,
        Self::Other,
        Self::Untold,
    ];

    /// As in errno(3) and in the record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eperm => "EPERM",
            Self::Eacces => "EACCES",
            Self::Einval => "EINVAL",
            Self::Eagain => "EAGAIN",
            Self::Enomem => "ENOMEM",
            Self::Enobufs => "ENOBUFS",
            Self::Enetdown => "ENETDOWN",
            Self::Enetunreach => "ENETUNREACH",
            Self::Ehostunreach => "EHOSTUNREACH",
            Self::Other => "other",
            Self::Untold => "unknown",
        }
    }

    /// Of that name; a name that is not in the table is another errno.
    pub fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|errno| errno.name() == name).unwrap_or(Self::Other)
    }

    /// The host had no room for the datagram at that moment, as with any sender that is faster than its
    /// interface.
    pub const fn is_no_room(self) -> bool {
        matches!(self, Self::Eagain | Self::Enomem | Self::Enobufs)
    }

    /// An ICMP message about an earlier datagram fails a later call with the same errno.
    pub const fn may_answer_earlier(self) -> bool {
        matches!(self, Self::Eacces | Self::Enetunreach | Self::Ehostunreach | Self::Other)
    }

    /// What it means, in words.
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Eperm => "a packet filter of the host itself dropped them",
            Self::Eacces => "a prohibit route or a security module of the host forbids them",
            Self::Einval => "a blackhole route took them, or the kernel cannot send such datagrams",
            Self::Eagain => "the send buffer stayed full",
            Self::Enomem => "the kernel had no memory for them",
            Self::Enobufs => "the interface or its queue had no room",
            Self::Enetdown => "the interface is down",
            Self::Enetunreach => "no route: the interface is down or the route is gone",
            Self::Ehostunreach => "the route or the next hop does not reach the other end",
            Self::Other => "an error that has no name here",
            Self::Untold => "the kernel did not say why",
        }
    }

    /// What to look at on that host.
    pub const fn look_at(self) -> Option<&'static str> {
        match self {
            Self::Eperm => Some(
                "`nft list ruleset`, `iptables -S OUTPUT`: a rule in the own output chain; `bpftool cgroup tree`: a cgroup's filter",
            ),
            Self::Eacces | Self::Einval | Self::Ehostunreach => {
                Some("`ip route get ADDRESS`: the route to the other end")
            }
            Self::Enetdown => Some("`ip link show`: the interface is down"),
            Self::Enetunreach => Some(
                "`ip route get ADDRESS`, `ip link show`: is the interface up and a route there?",
            ),
            Self::Enobufs => Some("`tc -s qdisc show`: the queue that has no room"),
            Self::Eagain | Self::Enomem | Self::Other | Self::Untold => None,
        }
    }
}

/// Datagrams that the own host dropped, by errno: a table of fixed size. On the wire and in the record a
/// map from the errno's name, without those that never came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LocalSendErrors([u64; Errno::ALL.len()]);

impl LocalSendErrors {
    /// Counts `datagrams` more.
    pub fn count(&mut self, errno: Errno, datagrams: u64) {
        if let Some(slot) = self.0.get_mut(errno as usize) {
            *slot = slot.saturating_add(datagrams);
        }
    }

    /// So many of what was untold had this errno.
    pub fn explain(&mut self, errno: Errno, datagrams: u64) {
        if let Some(slot) = self.0.get_mut(Errno::Untold as usize) {
            let known = datagrams.min(*slot);
            *slot -= known;
            self.count(errno, known);
        }
    }

    /// Datagrams with that errno.
    pub fn of(&self, errno: Errno) -> u64 {
        self.0.get(errno as usize).copied().unwrap_or(0)
    }

    /// All of them. Saturates: a peer may report any number.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Adds another table. Saturates.
    pub fn add(&mut self, other: &Self) {
        for (errno, datagrams) in other.each() {
            self.count(errno, datagrams);
        }
    }

    /// Whether nothing was dropped, or nobody reported it by errno.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|n| *n == 0)
    }

    /// Those that came.
    pub fn each(&self) -> impl Iterator<Item = (Errno, u64)> {
        Errno::ALL.into_iter().zip(self.0).filter(|(_, datagrams)| *datagrams > 0)
    }
}

/// "2511 EPERM, 3 ENETDOWN", the most first.
impl fmt::Display for LocalSendErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut each: Vec<_> = self.each().collect();
        each.sort_by_key(|(_, datagrams)| std::cmp::Reverse(*datagrams));
        for (i, (errno, datagrams)) in each.into_iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{datagrams} {}", errno.name())?;
        }
        Ok(())
    }
}

impl<'a> FromIterator<(&'a str, u64)> for LocalSendErrors {
    fn from_iter<T: IntoIterator<Item = (&'a str, u64)>>(names: T) -> Self {
        let mut all = Self::default();
        names.into_iter().for_each(|(name, datagrams)| all.count(Errno::named(name), datagrams));
        all
    }
}

impl Serialize for LocalSendErrors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.each().map(|(errno, datagrams)| (errno.name(), datagrams)))
    }
}

impl<'de> Deserialize<'de> for LocalSendErrors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = LocalSendErrors;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("datagrams by the errno's name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = LocalSendErrors::default();
                while let Some((name, datagrams)) = map.next_entry::<String, u64>()? {
                    all.count(Errno::named(&name), datagrams);
                }
                Ok(all)
            }
        }
        deserializer.deserialize_map(Names)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_errno_has_its_place_and_its_name() {
        for (i, errno) in Errno::ALL.into_iter().enumerate() {
            assert_eq!((errno as usize, Errno::named(errno.name())), (i, errno));
        }
    }

    #[test]
    fn what_a_peer_tells_comes_back_and_unknown_names_are_others() {
        let mut errors = LocalSendErrors::default();
        errors.count(Errno::Eperm, 2_511);
        errors.count(Errno::Untold, 3);
        let json = serde_json::to_string(&errors).unwrap();
        assert_eq!(json, r#"{"EPERM":2511,"unknown":3}"#);
        assert_eq!(serde_json::from_str::<LocalSendErrors>(&json).unwrap(), errors);
        let strange: LocalSendErrors =
            serde_json::from_str(r#"{"EDQUOT":1,"":18446744073709551615,"EPERM":1}"#).unwrap();
        assert_eq!((strange.of(Errno::Other), strange.total()), (u64::MAX, u64::MAX));
        assert_eq!(serde_json::to_string(&LocalSendErrors::default()).unwrap(), "{}");
    }

    #[test]
    fn what_was_untold_is_told_later_and_never_twice() {
        let mut errors = LocalSendErrors::default();
        errors.count(Errno::Untold, 3);
        errors.explain(Errno::Eperm, 2);
        errors.explain(Errno::Enobufs, 9);
        assert_eq!(errors.to_string(), "2 EPERM, 1 ENOBUFS");
        assert_eq!(errors.total(), 3);
    }
}
