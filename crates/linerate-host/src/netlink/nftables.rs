//! How many rules nftables has, and whether any of them needs connections to be tracked.

use super::{NLM_F_DUMP, Netlink, Refusal, attribute, attributes, text};

/// The rules of a network namespace, of all families.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ruleset {
    pub(crate) rules: u32,
    /// One of them asks for the state of connections, or changes their addresses.
    pub(crate) tracks: bool,
}

/// Lists them. The kernel lets root of the namespace do so.
pub(crate) fn read() -> Result<Ruleset, Refusal> {
    let mut netlink = Netlink::netfilter().ok_or(nix::errno::Errno::EPROTONOSUPPORT)?;
    let mut found = Ruleset::default();
    // struct nfgenmsg: family (0: all), version, resource.
    netlink.ask(GET_RULE, NLM_F_DUMP, &[0; NFGENMSG_BYTES], |kind, body| {
        if kind == NEW_RULE {
            found.rules = found.rules.saturating_add(1);
            found.tracks |= tracks(body);
        }
    })?;
    Ok(found)
}

pub(super) fn tracks(body: &[u8]) -> bool {
    let attributes_of_rule = body.get(NFGENMSG_BYTES..).unwrap_or_default();
    let list = attribute(attributes_of_rule, NFTA_RULE_EXPRESSIONS).unwrap_or_default();
    attributes(list).any(|(_, expression)| {
        let name = text(attribute(expression, NFTA_EXPR_NAME).unwrap_or_default());
        match name.as_str() {
            // iptables' own matches and targets, by their names.
            "match" | "target" => {
                let data = attribute(expression, NFTA_EXPR_DATA).unwrap_or_default();
                let extension = text(attribute(data, NFTA_EXTENSION_NAME).unwrap_or_default());
                TRACKING_EXTENSIONS.contains(&extension.as_str())
            }
            name => TRACKING.contains(&name),
        }
    })
}

/// Expressions whose chains make the kernel track connections (`nf_ct_netns_get` in net/netfilter/nft_*.c).
const TRACKING: &[&str] = &["ct", "nat", "masq", "redir", "connlimit", "flow_offload", "synproxy"];
const TRACKING_EXTENSIONS: &[&str] = &[
    "conntrack",
    "state",
    "connlimit",
    "connmark",
    "connbytes",
    "connlabel",
    "helper",
    "CT",
    "CONNMARK",
    "DNAT",
    "SNAT",
    "MASQUERADE",
    "REDIRECT",
    "NETMAP",
];

/// Subsystem 10 (nftables) in the upper byte.
const NEW_RULE: u16 = 10 << 8 | 6;
const GET_RULE: u16 = 10 << 8 | 7;
const NFGENMSG_BYTES: usize = 4;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
/// `NFTA_MATCH_NAME` and `NFTA_TARGET_NAME`.
const NFTA_EXTENSION_NAME: u16 = 1;

#[cfg(test)]
mod tests {
    use super::super::{NLA_F_NESTED, put_attribute};
    use super::*;

    fn rule(expressions: &[(&str, &str)]) -> Vec<u8> {
        let mut list = Vec::new();
        for (name, extension) in expressions {
            let (mut expression, mut data) = (Vec::new(), Vec::new());
            put_attribute(&mut data, NFTA_EXTENSION_NAME, format!("{extension}\0").as_bytes());
            put_attribute(&mut expression, NFTA_EXPR_NAME, format!("{name}\0").as_bytes());
            put_attribute(&mut expression, NFTA_EXPR_DATA | NLA_F_NESTED, &data);
            put_attribute(&mut list, 1 | NLA_F_NESTED, &expression);
        }
        let mut body = vec![2, 0, 0, 0];
        put_attribute(&mut body, 1, b"filter\0");
        put_attribute(&mut body, NFTA_RULE_EXPRESSIONS | NLA_F_NESTED, &list);
        body
    }

    #[test]
    fn known_answers() {
        assert!(tracks(&rule(&[("meta", ""), ("ct", ""), ("cmp", "")])));
        assert!(tracks(&rule(&[("match", "conntrack")])));
        assert!(!tracks(&rule(&[("meta", ""), ("cmp", ""), ("counter", "")])));
        assert!(!tracks(&rule(&[("match", "tcp"), ("notrack", "")])));
        assert!(!tracks(&[]));
    }
}
