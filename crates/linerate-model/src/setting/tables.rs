//! The words of ethtool, tc and sysctl that names of settings are made of.

use super::{Channels, Ring};

/// Short names of ethtool for offloads, and the features of the kernel that each switches
/// (`ethtool -k` groups them so). Names with underscores are taken too.
pub const OFFLOADS: &[(&str, &[&str])] = &[
    (
        "tso",
        &[
            "tx-tcp-segmentation",
            "tx-tcp-ecn-segmentation",
            "tx-tcp-mangleid-segmentation",
            "tx-tcp6-segmentation",
            "tx-tcp-accecn-segmentation",
        ],
    ),
    ("gso", &["tx-generic-segmentation"]),
    ("gro", &["rx-gro"]),
    ("lro", &["rx-lro"]),
    ("rx-checksum", &["rx-checksum"]),
    (
        "tx-checksum",
        &[
            "tx-checksum-ipv4",
            "tx-checksum-ip-generic",
            "tx-checksum-ipv6",
            "tx-checksum-fcoe-crc",
            "tx-checksum-sctp",
        ],
    ),
    ("sg", &["tx-scatter-gather", "tx-scatter-gather-fraglist"]),
    ("rxvlan", &["rx-vlan-hw-parse"]),
    ("txvlan", &["tx-vlan-hw-insert"]),
    ("ntuple", &["rx-ntuple-filter"]),
    ("rxhash", &["rx-hashing"]),
    ("tx-udp-segmentation", &["tx-udp-segmentation"]),
];

/// Other words for the same, as ethtool knows them.
pub(super) const OFFLOAD_WORDS: &[(&str, &str)] = &[
    ("rx", "rx-checksum"),
    ("tx", "tx-checksum"),
    ("rx-checksumming", "rx-checksum"),
    ("tx-checksumming", "tx-checksum"),
    ("scatter-gather", "sg"),
    ("tcp-segmentation-offload", "tso"),
    ("generic-segmentation-offload", "gso"),
    ("generic-receive-offload", "gro"),
    ("large-receive-offload", "lro"),
    ("udp-segmentation", "tx-udp-segmentation"),
];

/// Numbers of coalescing, `ethtool -C`: name, netlink attribute
/// (include/uapi/linux/ethtool_netlink.h), and whether it is a switch.
pub const COALESCE: &[(&str, u16, bool)] = &[
    ("rx-usecs", 2, false),
    ("rx-frames", 3, false),
    ("rx-usecs-irq", 4, false),
    ("rx-frames-irq", 5, false),
    ("tx-usecs", 6, false),
    ("tx-frames", 7, false),
    ("tx-usecs-irq", 8, false),
    ("tx-frames-irq", 9, false),
    ("stats-block-usecs", 10, false),
    ("adaptive-rx", 11, true),
    ("adaptive-tx", 12, true),
    ("pkt-rate-low", 13, false),
    ("rx-usecs-low", 14, false),
    ("rx-frames-low", 15, false),
    ("tx-usecs-low", 16, false),
    ("tx-frames-low", 17, false),
    ("pkt-rate-high", 18, false),
    ("rx-usecs-high", 19, false),
    ("rx-frames-high", 20, false),
    ("tx-usecs-high", 21, false),
    ("tx-frames-high", 22, false),
    ("sample-interval", 23, false),
    ("cqe-mode-tx", 24, true),
    ("cqe-mode-rx", 25, true),
];

/// Disciplines that can be asked for: those that need no options.
pub const QDISCS: &[&str] = &[
    "noqueue",
    "pfifo_fast",
    "pfifo",
    "bfifo",
    "fq",
    "fq_codel",
    "codel",
    "mq",
    "sfq",
    "pie",
    "fq_pie",
    "cake",
];

pub(super) const RINGS: &[(&str, Ring)] =
    &[("rx", Ring::Rx), ("rx-mini", Ring::RxMini), ("rx-jumbo", Ring::RxJumbo), ("tx", Ring::Tx)];
pub(super) const CHANNELS: &[(&str, Channels)] = &[
    ("rx", Channels::Rx),
    ("tx", Channels::Tx),
    ("other", Channels::Other),
    ("combined", Channels::Combined),
];
pub(super) const SYSCTLS: [&str; 3] = ["net.core.", "net.ipv4.", "net.ipv6."];
/// Longest name and longest value that are taken.
pub(super) const MOST_BYTES: usize = 200;

/// Parameters whose change does more than their value says, so that writing the old value back does
/// not undo it: name's end, and what they do.
pub(super) const NO_WAY_BACK: &[(&str, &str)] = &[
    (".disable_ipv6", "it removes the addresses and routes of IPv6"),
    (".forwarding", "it changes the settings of other interfaces and removes routes"),
    (".mc_forwarding", "it belongs to the multicast routing daemon"),
    ("ipv4.ip_forward", "it resets the settings of every interface"),
    (".flush", "it empties a table"),
    (".addr_gen_mode", "it makes new addresses"),
    (".stable_secret", "it makes new addresses and cannot be taken away again"),
    (".accept_ra", "it adds and removes routes"),
];

/// Ends of names of parameters whose value is a secret: of `tcp_fastopen_key` and `netdev_rss_key`, say. What is set
/// stands in logs, results and journals, and so does what was there before.
pub(super) const SECRET: &[&str] = &["_key", "_secret"];
