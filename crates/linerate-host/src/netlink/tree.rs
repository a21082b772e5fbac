//! The queueing disciplines of an interface with their options, read so that they can be put back
//! as they were.
//!
//! Options are kept as the very bytes that the kernel gave. It takes the same bytes to make a
//! discipline, but for the exceptions in [`again`] and [`steady`].

use nix::errno::Errno;

use super::qdisc::{RTM_GETQDISC, RTM_NEWQDISC, TC_H_ROOT, TCMSG_BYTES};
use super::{
    NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, Netlink, Refusal, attribute, attributes,
    put_attribute, put_words, text, u32_at,
};

/// A discipline, or a class of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    class: bool,
    kind: String,
    /// Major number in the upper half; 0 for what the kernel has put there by itself.
    handle: u32,
    parent: u32,
    options: Vec<u8>,
}

/// All that hangs at the way out of an interface, its root first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tree(Vec<Node>);

/// Disciplines that the kernel makes again from the options it gives. Others have state that it
/// does not say (netem's distribution tables, mqprio's hardware) or were not tried.
const KNOWN: &[&str] = &[
    "noqueue",
    "noop",
    "pfifo",
    "bfifo",
    "pfifo_fast",
    "fq",
    "fq_codel",
    "codel",
    "mq",
    "tbf",
    "htb",
    "prio",
    "sfq",
    "pie",
    "fq_pie",
];

/// Reads it. An interface without any discipline has an empty tree.
pub(crate) fn read(netlink: &mut Netlink, interface: u32) -> Result<Tree, Refusal> {
    let mut nodes = Vec::new();
    let mut question = Vec::new();
    put_words(&mut question, &[0, interface, 0, 0, 0]);
    for (get, new) in [(RTM_GETQDISC, RTM_NEWQDISC), (RTM_GETTCLASS, RTM_NEWTCLASS)] {
        netlink.ask(get, NLM_F_DUMP, &question, |kind, body| {
            if kind == new
                && let Some(node) = node(body, interface)
            {
                nodes.push(Node { class: kind == RTM_NEWTCLASS, ..node });
            }
        })?;
    }
    // Classes that come with their discipline (of mq, prio, tbf) are no one's to make.
    nodes.retain(|node| !node.class || node.kind == "htb");
    // Those on the way in are no part of it (ffff:fff1 and its like), nor what hangs below them.
    nodes.retain(|node| node.parent == TC_H_ROOT || node.parent < 0xffff_0000);
    let Some(root) = nodes.iter().position(|node| node.parent == TC_H_ROOT && !node.class) else {
        return Ok(Tree(vec![]));
    };
    let root = nodes.remove(root);
    Ok(Tree(ordered(root, nodes)))
}

/// Parents before their children; what is neither below the root nor known is left at the end.
fn ordered(root: Node, mut rest: Vec<Node>) -> Vec<Node> {
    rest.sort_unstable_by_key(|node| (!node.class, node.parent, node.handle));
    let mut nodes = vec![root];
    while !rest.is_empty() {
        let ready = rest.iter().position(|node| {
            node.parent == TC_H_ROOT
                || nodes.iter().any(|above| {
                    above.handle == node.parent
                        || !above.class && above.handle >> 16 == node.parent >> 16 && !node.class
                })
        });
        nodes.push(rest.remove(ready.unwrap_or(0)));
    }
    nodes
}

pub(super) fn node(body: &[u8], interface: u32) -> Option<Node> {
    if u32_at(body, 4)? != interface {
        return None;
    }
    let attributes = body.get(TCMSG_BYTES..)?;
    let kind = text(attribute(attributes, TCA_KIND)?);
    let options = attribute(attributes, TCA_OPTIONS).unwrap_or_default();
    Some(Node {
        class: false,
        handle: u32_at(body, 8)?,
        parent: u32_at(body, 12)?,
        options: steady(&kind, options),
        kind,
    })
}

/// The options without what changes by itself: htb counts packets among its own.
fn steady(kind: &str, options: &[u8]) -> Vec<u8> {
    if kind != "htb" {
        return options.to_vec();
    }
    rewritten(options, |number, value| {
        // struct tc_htb_glob: version, rate2quantum, defcls, debug, direct_pkts.
        if number == TCA_HTB_INIT
            && let Some(count) = value.get_mut(16..20)
        {
            count.fill(0);
        }
    })
}

/// The options that make the kernel say what it says now. The times of codel are reported in
/// microseconds and kept in units of 1.024 of them, rounded down both ways: the same number again
/// would be one less each time, and one more is the unit that was there. htb reports its version with a
/// minor number and takes it without.
fn again(kind: &str, options: &[u8]) -> Vec<u8> {
    let times: &[u16] = match kind {
        "htb" => {
            return rewritten(options, |number, value| {
                if number == TCA_HTB_INIT
                    && let Some(version) = u32_at(value, 0)
                {
                    let major = (version >> 16).to_ne_bytes();
                    value.iter_mut().zip(major).for_each(|(to, from)| *to = from);
                }
            });
        }
        // Target, interval, CE threshold.
        "codel" => &[1, 3, 5],
        "fq_codel" => &[1, 3, 7],
        _ => return options.to_vec(),
    };
    rewritten(options, |number, value| {
        if times.contains(&number)
            && let Some(time) = u32_at(value, 0)
        {
            let time = time.saturating_add(1).to_ne_bytes();
            value.iter_mut().zip(time).for_each(|(to, from)| *to = from);
        }
    })
}

fn rewritten(options: &[u8], change: impl Fn(u16, &mut Vec<u8>)) -> Vec<u8> {
    let mut changed = Vec::new();
    for (number, value) in attributes(options) {
        let mut value = value.to_vec();
        change(number, &mut value);
        put_attribute(&mut changed, number, &value);
    }
    // Options that are a bare struct are no attributes.
    if changed.len() == options.len() { changed } else { options.to_vec() }
}

impl Tree {
    /// All of it in one line, its kind first; see [`Tree::parse`].
    pub(crate) fn text(&self) -> String {
        if self.0.is_empty() {
            return "none".into();
        }
        let words = |node: &Node| {
            let hex: String = node.options.iter().map(|byte| format!("{byte:02x}")).collect();
            let class = if node.class { "class" } else { "qdisc" };
            format!("{} {class} {:x} {:x} {hex}", node.kind, node.handle, node.parent)
        };
        self.0.iter().map(words).collect::<Vec<_>>().join(";")
    }

    /// Reads what [`Tree::text`] wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self(vec![]));
        }
        let nodes = text.split(';').map(|text| {
            let mut words = text.split(' ');
            let kind = words.next().filter(|kind| KNOWN.contains(kind))?.to_owned();
            let class = match words.next()? {
                "class" => true,
                "qdisc" => false,
                _ => return None,
            };
            let handle = u32::from_str_radix(words.next()?, 16).ok()?;
            let parent = u32::from_str_radix(words.next()?, 16).ok()?;
            let hex = words.next()?.as_bytes();
            // A journal that was cut in the middle of a byte is damaged.
            let whole = hex.len().is_multiple_of(2) && hex.iter().all(u8::is_ascii_hexdigit);
            let options = Some(hex.chunks(2))
                .filter(|_| whole)?
                .map(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
                .collect::<Option<Vec<u8>>>()?;
            Some(Node { class, kind, handle, parent, options })
        });
        nodes.collect::<Option<Vec<_>>>().map(Self)
    }

    /// Why it could not be put back; `None` if it could.
    pub(crate) fn obstacle(&self, netlink: &mut Netlink, interface: u32) -> Option<String> {
        if let Some(node) = self.0.iter().find(|node| !KNOWN.contains(&node.kind.as_str())) {
            return Some(format!(
                "the present discipline {} could not be put back as it is: the kernel does not report all of it",
                node.kind
            ));
        }
        for node in self.0.iter().filter(|node| node.handle != 0) {
            let mut filters = 0_usize;
            let mut question = Vec::new();
            put_words(&mut question, &[0, interface, 0, node.handle, 0]);
            // Disciplines that take no filters refuse the question.
            let _ = netlink.ask(RTM_GETTFILTER, NLM_F_DUMP, &question, |kind, body| {
                if kind == RTM_NEWTFILTER && u32_at(body, 4) == Some(interface) {
                    filters = filters.saturating_add(1);
                }
            });
            if filters > 0 {
                return Some(format!(
                    "the present discipline {} has filters, which could not be put back",
                    node.kind
                ));
            }
        }
        None
    }
}

/// Makes `kind` the root, with the kernel's own options.
pub(crate) fn set(netlink: &mut Netlink, interface: u32, kind: &str) -> Result<(), Refusal> {
    let node =
        Node { class: false, kind: kind.to_owned(), handle: 0, parent: TC_H_ROOT, options: vec![] };
    make(netlink, interface, &node)
}

/// Puts a tree back. What the kernel had there by itself comes back by taking away what is there.
pub(crate) fn restore(netlink: &mut Netlink, interface: u32, tree: &Tree) -> Result<(), Refusal> {
    let mut body = Vec::new();
    put_words(&mut body, &[0, interface, 0, TC_H_ROOT, 0]);
    match netlink.order(RTM_DELQDISC, 0, &body) {
        // There is none but the kernel's own.
        Err(refusal) if matches!(refusal.errno, Errno::ENOENT | Errno::EINVAL) => {}
        other => other?,
    }
    for node in tree.0.iter().filter(|node| node.handle != 0) {
        make(netlink, interface, node)?;
    }
    Ok(())
}

fn make(netlink: &mut Netlink, interface: u32, node: &Node) -> Result<(), Refusal> {
    let mut body = Vec::new();
    put_words(&mut body, &[0, interface, node.handle, node.parent, 0]);
    put_attribute(&mut body, TCA_KIND, &[node.kind.as_bytes(), &[0]].concat());
    if !node.options.is_empty() {
        put_attribute(&mut body, TCA_OPTIONS, &again(&node.kind, &node.options));
    }
    let order = if node.class { RTM_NEWTCLASS } else { RTM_NEWQDISC };
    let flags = if node.class { NLM_F_CREATE } else { NLM_F_CREATE | NLM_F_REPLACE };
    netlink.order(order, flags, &body)
}

const RTM_DELQDISC: u16 = 37;
const RTM_NEWTCLASS: u16 = 40;
const RTM_GETTCLASS: u16 = 42;
const RTM_NEWTFILTER: u16 = 44;
const RTM_GETTFILTER: u16 = 46;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_HTB_INIT: u16 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn node(class: bool, kind: &str, handle: u32, parent: u32) -> Node {
        Node { class, kind: kind.into(), handle, parent, options: vec![0xab, 1] }
    }

    #[test]
    fn a_tree_is_read_as_written() {
        let htb = node(false, "htb", 0x10000, TC_H_ROOT);
        let rest = vec![
            node(false, "pfifo", 0x200000, 0x10020),
            node(true, "htb", 0x10020, 0x10001),
            node(true, "htb", 0x10001, TC_H_ROOT),
        ];
        let tree = Tree(ordered(htb, rest));
        let handles: Vec<u32> = tree.0.iter().map(|node| node.handle).collect();
        assert_eq!(handles, [0x10000, 0x10001, 0x10020, 0x200000], "parents first");
        assert_eq!(Tree::parse(&tree.text()), Some(tree));
        assert_eq!(Tree::parse(&Tree(vec![]).text()), Some(Tree(vec![])));
        for bad in [
            "",
            "netem qdisc 1 2 ",
            "htb qdisc 1 2 a",
            "htb qdisc 1 2 +a",
            "htb qdisc x 2 ab",
            "htb",
        ] {
            assert_eq!(Tree::parse(bad), None, "{bad}");
        }
    }

    /// The kernel's arithmetic for codel's times, in both directions.
    #[test]
    fn no_microsecond_is_lost_with_codel() {
        let shown = |unit: u64| u32::try_from((unit << 10) / 1_000).unwrap();
        let kept = |shown: u32| (u64::from(shown) * 1_000) >> 10;
        for unit in (0..3_000).chain([4_882, 97_656, 1_000_000, 4_000_000]) {
            let mut options = Vec::new();
            put_attribute(&mut options, 2, &1_000_u32.to_ne_bytes());
            put_attribute(&mut options, 3, &shown(unit).to_ne_bytes());
            for kind in ["codel", "fq_codel"] {
                let options = again(kind, &options);
                let read = |number| u32_at(attribute(&options, number).unwrap(), 0).unwrap();
                assert_eq!(kept(read(3)), unit);
                assert_eq!(read(2), 1_000, "a limit is no time");
            }
        }
        assert!(kept(shown(4_882)) < 4_882, "or there would be nothing to correct");
    }

    #[test]
    fn the_count_in_htbs_options_is_no_option() {
        let glob = |packets: u32| {
            let words: Vec<u8> =
                [3, 10, 0, 0, packets].iter().flat_map(|w: &u32| w.to_ne_bytes()).collect();
            let mut options = Vec::new();
            put_attribute(&mut options, TCA_HTB_INIT, &words);
            options
        };
        assert_eq!(steady("htb", &glob(17)), glob(0));
        assert_eq!(steady("pfifo", &[1, 2, 3]), [1, 2, 3]);
    }
}
