//! Local send errors: datagrams that the sending host itself dropped, by the errno that it reported.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! errnos {
    ($($(#[$doc:meta])* $errno:ident = $name:literal, $cause:literal, $look_at:expr;)+) => {
        /// Why the own host dropped a datagram, as send(2) reported.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Errno {
            $($(#[$doc])* $errno,)+
        }

        impl Errno {
            /// All of them, in the order of the table.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$errno),+];

            /// As in errno(3) and in the record.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$errno => $name),+
                }
            }

            /// What it means, in words.
            pub const fn cause(self) -> &'static str {
                match self {
                    $(Self::$errno => $cause),+
                }
            }

            /// What to look at on that host.
            pub const fn look_at(self) -> Option<&'static str> {
                match self {
                    $(Self::$errno => $look_at),+
                }
            }
        }
    };
}

const ROUTE: &str = "`ip route get ADDRESS`: the route to the other end";

errnos! {
    /// A packet filter dropped it.
    Eperm = "EPERM", "a packet filter of the host itself dropped them", Some("`nft list ruleset`, `iptables -S OUTPUT`: a rule in the own output chain; `bpftool cgroup tree`: a cgroup's filter");
    /// The routing table or a security module forbids it.
    Eacces = "EACCES", "a prohibit route or a security module of the host forbids them", Some(ROUTE);
    /// A blackhole route took it.
    Einval = "EINVAL", "a blackhole route took them, or the kernel cannot send such datagrams", Some(ROUTE);
    /// The send buffer stayed full.
    Eagain = "EAGAIN", "the send buffer stayed full", None;
    /// No memory.
    Enomem = "ENOMEM", "the kernel had no memory for them", None;
    /// The interface or its queue had no room.
    Enobufs = "ENOBUFS", "the interface or its queue had no room", Some("`tc -s qdisc show`: the queue that has no room");
    /// The interface is down.
    Enetdown = "ENETDOWN", "the interface is down", Some("`ip link show`: the interface is down");
    /// No route.
    Enetunreach = "ENETUNREACH", "no route: the interface is down or the route is gone", Some("`ip route get ADDRESS`, `ip link show`: is the interface up and a route there?");
    /// The route, or the next hop, does not reach.
    Ehostunreach = "EHOSTUNREACH", "the route or the next hop does not reach the other end", Some(ROUTE);
    /// Any other.
    Other = "other", "an error that has no name here", None;
    /// Not reported: of a call for many datagrams the kernel says only how many it took.
    Untold = "unknown", "the kernel did not say why", None;
}

impl Errno {
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
        let names = BTreeMap::<String, u64>::deserialize(deserializer)?;
        Ok(names.iter().map(|(name, datagrams)| (&**name, *datagrams)).collect())
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
