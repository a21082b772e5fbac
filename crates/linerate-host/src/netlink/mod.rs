//! Questions and orders to the kernel by netlink: a blocking socket, and the framing of messages
//! and attributes.
//!
//! Own framing, because few fields of the answers are needed, and options of queueing disciplines
//! must go back as the very bytes they came as. The crates that
//! decode whole messages reject one when a single attribute in it is new to them, and an answer
//! that is half known is worth more here than none.
//!
//! ```text
//!  0      4    6     8        12      16
//!  | len  |type|flags| seq    | port  | body: a fixed struct, then attributes ...   pad to 4 |
//!                                                | len u16 | type u16 | value | pad to 4 |
//! ```

pub(crate) mod devlink;
pub(crate) mod disciplines;
pub(crate) mod ethtool;
pub(crate) mod link;
#[cfg(not(target_os = "linux"))]
mod netlink_sys;
pub(crate) mod nftables;
pub(crate) mod parameters;
pub(crate) mod qdisc;
pub(crate) mod route;
pub(crate) mod tree;

use std::os::fd::AsRawFd;
use std::time::Duration;

use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_NETFILTER, NETLINK_ROUTE};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send, setsockopt, sockopt::ReceiveTimeout};
use nix::sys::time::{TimeVal, TimeValLike};

/// A socket to the kernel, in the network namespace of the thread that opened it.
pub(crate) struct Netlink {
    socket: netlink_sys::Socket,
    sequence: u32,
    question: Vec<u8>,
    answer: Vec<u8>,
    /// The kernel had no room for a change, and some that came before are not yet read.
    overran: bool,
}

impl std::fmt::Debug for Netlink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Netlink").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// What the kernel said against a question or an order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", .text.as_deref().map(|text| format!("{text}: ")).unwrap_or_default(), .errno.desc())]
pub(crate) struct Refusal {
    /// The error.
    pub(crate) errno: Errno,
    /// What the kernel or the driver says of it.
    pub(crate) text: Option<String>,
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self { errno, text: None }
    }
}

impl Netlink {
    /// Opens a socket for routes, interfaces and queueing disciplines.
    pub(crate) fn route() -> Option<Self> {
        Self::open(NETLINK_ROUTE)
    }

    /// Opens a socket for the families that register by name, such as ethtool's.
    pub(crate) fn generic() -> Option<Self> {
        Self::open(NETLINK_GENERIC)
    }

    /// Opens a socket for filters.
    pub(crate) fn netfilter() -> Option<Self> {
        Self::open(NETLINK_NETFILTER)
    }

    /// Opens a socket that gets each change of an interface, and asks for nothing.
    pub(crate) fn of_links() -> Option<Self> {
        let mut netlink = Self::open(NETLINK_ROUTE)?;
        // A port without a number gets nothing that the kernel says to all (net/netlink/af_netlink.c, do_one_broadcast).
        netlink.socket.bind_auto().ok()?;
        netlink.socket.add_membership(RTNLGRP_LINK).ok()?;
        Some(netlink)
    }

    /// The number that the running kernel has given to a family that registers by name.
    pub(crate) fn family(&mut self, name: &str) -> Option<u16> {
        let mut body = vec![CTRL_CMD_GETFAMILY, 1, 0, 0];
        put_attribute(&mut body, CTRL_ATTR_FAMILY_NAME, &[name.as_bytes(), &[0]].concat());
        let mut family = None;
        let asked = self.ask(GENL_ID_CTRL, NLM_F_ACK, &body, |_, body| {
            family = body
                .get(GENL_HEADER_BYTES..)
                .and_then(|body| u16_at(attribute(body, CTRL_ATTR_FAMILY_ID)?, 0));
        });
        asked.ok()?;
        family
    }

    fn open(protocol: isize) -> Option<Self> {
        let socket = netlink_sys::Socket::new(protocol).ok()?;
        // Words beside the error number, and no copy of the question. Kernels before 4.12 have no
        // words.
        let _ = socket.set_ext_ack(true);
        let _ = socket.set_cap_ack(true);
        let timeout = TimeVal::milliseconds(PATIENCE.as_millis().try_into().ok()?);
        setsockopt(&socket, ReceiveTimeout, &timeout).ok()?;
        Some(Self {
            socket,
            sequence: 0,
            question: Vec::new(),
            answer: vec![0; LARGEST_ANSWER],
            overran: false,
        })
    }

    /// Sends a question and hands each message of the answer to `each`, by type and body.
    ///
    /// An error when the kernel refuses, or when the answer does not end in time; what came until
    /// then has been handed on all the same.
    pub(crate) fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
        each: impl FnMut(u16, &[u8]),
    ) -> Result<(), Refusal> {
        self.ask_within(1, kind, flags, body, each)
    }

    /// Hands each change that has come to `each`, by type and body, and waits for none; whether nothing is missing. The
    /// kernel says once that it had no room, before those it had room for, and drops all until they are read.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(u16, &[u8])) -> bool {
        let mut whole = !self.overran;
        for _ in 0..MOST_CHANGES {
            match recv(self.socket.as_raw_fd(), &mut self.answer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => messages(self.answer.get(..length).unwrap_or_default())
                    .for_each(|message| each(message.kind, message.body)),
                Err(Errno::ENOBUFS) => {
                    self.overran = true;
                    whole = false;
                }
                Err(Errno::EINTR) => {}
                Err(_) => {
                    self.overran = false;
                    break;
                }
            }
        }
        whole
    }

    /// An order. Drivers may stop and start a card for it, which takes them seconds.
    pub(crate) fn order(&mut self, kind: u16, flags: u16, body: &[u8]) -> Result<(), Refusal> {
        self.ask_within(ORDER_WAITS, kind, flags | NLM_F_ACK, body, |_, _| {})
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> Result<(), Refusal> {
        self.sequence = self.sequence.checked_add(1).unwrap_or(1);
        self.question.clear();
        let length =
            u32::try_from(HEADER_BYTES.saturating_add(body.len())).map_err(|_| Errno::EMSGSIZE)?;
        self.question.extend(length.to_ne_bytes());
        self.question.extend(kind.to_ne_bytes());
        self.question.extend((flags | NLM_F_REQUEST).to_ne_bytes());
        self.question.extend(self.sequence.to_ne_bytes());
        self.question.extend(0_u32.to_ne_bytes());
        self.question.extend(body);
        send(self.socket.as_raw_fd(), &self.question, MsgFlags::empty())?;
        Ok(())
    }

    fn ask_within(
        &mut self,
        mut waits: u32,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut each: impl FnMut(u16, &[u8]),
    ) -> Result<(), Refusal> {
        self.send(kind, flags, body)?;
        let socket = self.socket.as_raw_fd();
        while waits > 0 {
            let length = match recv(socket, &mut self.answer, MsgFlags::empty()) {
                Ok(length) => length,
                Err(Errno::EINTR) => continue,
                // The socket's own timeout has passed.
                Err(Errno::EAGAIN) => {
                    waits = waits.saturating_sub(1);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            for message in messages(self.answer.get(..length).unwrap_or_default()) {
                // An answer to an earlier question that was given up.
                if message.sequence != self.sequence {
                    continue;
                }
                match message.kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return verdict(&message),
                    kind => each(kind, message.body),
                }
            }
        }
        Err(Errno::ETIMEDOUT.into())
    }
}

/// What an error message says; an error of zero is the acknowledgement.
fn verdict(message: &Message<'_>) -> Result<(), Refusal> {
    let number =
        u32_at(message.body, 0).map_or((Errno::EIO as i32).saturating_neg(), u32::cast_signed);
    if number == 0 {
        return Ok(());
    }
    // After the number stands the header of the question, without its body (`NETLINK_CAP_ACK`).
    let words = (message.flags & NLM_F_ACK_TLVS != 0)
        .then(|| attribute(message.body.get(4_usize.saturating_add(HEADER_BYTES)..)?, 1))
        .flatten();
    let text = words.map(text).filter(|text| !text.is_empty());
    Err(Refusal { errno: Errno::from_raw(number.saturating_neg()), text })
}

/// Text up to its end of zero.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// One message of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Message<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    body: &'a [u8],
}

/// The messages of a datagram, up to the first that is cut short.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
        let message = bytes.get(..length)?;
        let kind = u16_at(message, 4)?;
        let flags = u16_at(message, 6)?;
        let sequence = u32_at(message, 8)?;
        let body = message.get(HEADER_BYTES..)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Message { kind, flags, sequence, body })
    })
}

/// The attributes in a body, by type and value, up to the first that is cut short.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & NLA_TYPE_MASK;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of a type.
fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(kind, value)| (kind == wanted).then_some(value))
}

/// Appends an attribute with its padding.
fn put_attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(value.len().saturating_add(4)).unwrap_or(u16::MAX);
    to.extend(length.to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// Appends the words of a fixed struct.
fn put_words(to: &mut Vec<u8>, words: &[u32]) {
    to.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// The kernel answers while the question is being sent, so any wait is a fault; this only keeps a
/// fault from holding up the caller.
const PATIENCE: Duration = Duration::from_millis(200);
/// So many times that for an order: 20 s.
const ORDER_WAITS: u32 = 100;
/// The kernel fills at most 32 KiB of a datagram (`NLMSG_GOODSIZE`, `netlink_dump`).
const LARGEST_ANSWER: usize = 64 << 10;
/// Datagrams of changes that are read at once; the rest waits for the next time.
const MOST_CHANGES: u32 = 256;
const HEADER_BYTES: usize = 16;
/// `enum rtnetlink_groups`, include/uapi/linux/rtnetlink.h.
const RTNLGRP_LINK: u32 = 1;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_ACK_TLVS: u16 = 0x200;
/// Set on attributes that hold attributes, by some askers.
const NLA_F_NESTED: u16 = 0x8000;
/// Without the flags "nested" and "network byte order".
const NLA_TYPE_MASK: u16 = 0x3fff;

const GENL_ID_CTRL: u16 = 16;
/// `struct genlmsghdr`: command, version, reserved (u16).
const GENL_HEADER_BYTES: usize = 4;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn attributes_are_found_behind_padding() {
        let mut bytes = Vec::new();
        put_attribute(&mut bytes, 1, b"abcde");
        put_attribute(&mut bytes, 2 | NLA_F_NESTED, &7_u32.to_ne_bytes());
        assert_eq!(bytes.len(), 12 + 8);
        assert_eq!(attribute(&bytes, 1), Some(&b"abcde"[..]));
        assert_eq!(attribute(&bytes, 2).and_then(|value| u32_at(value, 0)), Some(7));
        assert_eq!(attribute(&bytes, 3), None);
        assert_eq!(attributes(&bytes[..18]).count(), 1, "the second is cut short");
    }

    #[test]
    fn a_length_below_the_header_ends_the_walk() {
        assert_eq!(messages(&[0; 64]).count(), 0);
        assert_eq!(attributes(&[0; 64]).count(), 0);
        let header = [[16, 0, 0, 0], [3, 0, 0, 0], [5, 0, 0, 0], [0; 4]].concat();
        if cfg!(target_endian = "little") {
            let only = Message { kind: 3, flags: 0, sequence: 5, body: &[] };
            assert_eq!(messages(&header).collect::<Vec<_>>(), [only]);
        }
    }

    fn parse_all(body: &[u8]) {
        attributes(body).count();
        route::way(body);
        nftables::tracks(body);
        disciplines::discipline(body, 2);
        qdisc::root_queue(body, 2);
        ethtool::switches(body);
        devlink::running(body);
        link::read_port(body);
        tree::node(body, 2);
    }

    /// Attributes of the types that are asked for, with bytes, names or attributes in them.
    fn nested() -> impl Strategy<Value = Vec<u8>> {
        let names = vec!["htb", "tbf", "netem", "cake", "pfifo", "codel", "match", "ct", "veth"];
        let name = prop::sample::select(names);
        let value = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            name.prop_map(|name| [name.as_bytes(), &[0]].concat()),
        ];
        value.prop_recursive(4, 64, 8, |value| {
            let kind = prop_oneof![0_u16..20, 101_u16..105];
            prop::collection::vec((kind, value), 0..8).prop_map(|all| {
                let mut bytes = Vec::new();
                for (kind, value) in &all {
                    put_attribute(&mut bytes, *kind, value);
                }
                bytes
            })
        })
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(
            bytes in prop::collection::vec(prop_oneof![0_u8..48, any::<u8>()], 0..300)
        ) {
            messages(&bytes).for_each(|message| parse_all(message.body));
            parse_all(&bytes);
        }

        /// Of random bytes hardly any are attributes, and none are of the interface that is asked for.
        #[test]
        fn no_attributes_make_a_parser_panic(
            bytes in nested(), root: bool, kind: u32, cut in any::<prop::sample::Index>(),
        ) {
            let cut = cut.index(bytes.len() + 1);
            // As struct tcmsg, which is the longest; the others' index stands there as well.
            let mut head = Vec::new();
            put_words(&mut head, &[0, 2, 0x1_0000, if root { u32::MAX } else { 0x1_0001 }, 0]);
            for length in [0, 4, 12, 16, 20] {
                parse_all(&[&head[..length], &bytes[..]].concat());
                parse_all(&[&head[..length], &bytes[..cut]].concat());
            }
            let mut whole = Vec::new();
            put_words(&mut whole, &[(HEADER_BYTES + bytes.len()) as u32, kind, 0, 0]);
            whole.extend(&bytes);
            prop_assert_eq!(messages(&whole).map(|message| message.body).collect::<Vec<_>>(), [&bytes[..]]);
            messages(&whole).for_each(|message| _ = verdict(&message));
        }
    }
}
