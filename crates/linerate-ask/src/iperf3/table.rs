//! iperf3's options, those that cannot be had, and those that change nothing.

use crate::getopt::{Row, Takes};

/// Which role may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Both,
    Client,
    Server,
}

/// All of them.
pub(super) const OPTIONS: &[Row<Side>] = {
    use Side::{Both, Client, Server};
    use Takes::{Maybe, Nothing, Value};
    &[
        ('s', "server", Nothing, Both),
        ('c', "client", Value, Both),
        ('p', "port", Value, Both),
        ('f', "format", Value, Both),
        ('i', "interval", Value, Both),
        ('I', "pidfile", Value, Both),
        ('F', "file", Value, Both),
        ('A', "affinity", Value, Both),
        ('B', "bind", Value, Both),
        ('\0', "bind-dev", Value, Both),
        ('V', "verbose", Nothing, Both),
        ('J', "json", Nothing, Both),
        ('\0', "json-stream", Nothing, Both),
        ('\0', "json-stream-full-output", Nothing, Both),
        ('\0', "logfile", Value, Both),
        ('\0', "forceflush", Nothing, Both),
        ('\0', "timestamps", Maybe, Both),
        ('\0', "rcv-timeout", Value, Both),
        ('\0', "snd-timeout", Value, Both),
        ('\0', "cntl-ka", Maybe, Both),
        ('m', "mptcp", Nothing, Both),
        ('d', "debug", Maybe, Both),
        ('v', "version", Nothing, Both),
        ('h', "help", Nothing, Both),
        ('D', "daemon", Nothing, Server),
        ('1', "one-off", Nothing, Server),
        ('\0', "server-bitrate-limit", Value, Server),
        ('\0', "idle-timeout", Value, Server),
        ('\0', "server-max-duration", Value, Server),
        ('\0', "rsa-private-key-path", Value, Server),
        ('\0', "authorized-users-path", Value, Server),
        ('\0', "time-skew-threshold", Value, Server),
        ('\0', "use-pkcs1-padding", Nothing, Both),
        ('u', "udp", Nothing, Client),
        ('\0', "sctp", Nothing, Client),
        ('X', "xbind", Value, Both),
        ('\0', "nstreams", Value, Client),
        ('\0', "connect-timeout", Value, Client),
        ('b', "bitrate", Value, Client),
        ('b', "bandwidth", Value, Client),
        ('\0', "pacing-timer", Value, Client),
        ('\0', "fq-rate", Value, Client),
        ('\0', "no-fq-socket-pacing", Nothing, Client),
        ('t', "time", Value, Client),
        ('n', "bytes", Value, Client),
        ('k', "blockcount", Value, Client),
        ('l', "length", Value, Client),
        ('\0', "cport", Value, Client),
        ('P', "parallel", Value, Client),
        ('R', "reverse", Nothing, Client),
        ('\0', "bidir", Nothing, Client),
        ('w', "window", Value, Client),
        ('C', "congestion", Value, Client),
        ('C', "linux-congestion", Value, Client),
        ('M', "set-mss", Value, Client),
        ('N', "no-delay", Nothing, Client),
        ('4', "version4", Nothing, Both),
        ('6', "version6", Nothing, Both),
        ('S', "tos", Value, Client),
        ('\0', "dscp", Value, Client),
        ('L', "flowlabel", Value, Client),
        ('Z', "zerocopy", Nothing, Client),
        ('\0', "skip-rx-copy", Nothing, Client),
        ('O', "omit", Value, Client),
        ('T', "title", Value, Client),
        ('\0', "extra-data", Value, Client),
        ('\0', "get-server-output", Nothing, Client),
        ('\0', "udp-counters-64bit", Nothing, Client),
        ('\0', "gsro", Nothing, Client),
        ('\0', "repeating-payload", Nothing, Client),
        ('\0', "dont-fragment", Nothing, Client),
        ('\0', "username", Value, Client),
        ('\0', "rsa-public-key-path", Value, Client),
    ]
};

/// Options that cannot be had, and why: asked for, they end the program.
pub(super) const REFUSED: &[(&str, &str)] = &[
    ("sctp", "linerate measures TCP and UDP; SCTP is not spoken"),
    ("xbind", "it belongs to SCTP, which is not spoken"),
    ("nstreams", "it belongs to SCTP, which is not spoken"),
    ("mptcp", "data streams are plain TCP or UDP"),
    ("file", "streams carry made-up bytes, never files"),
    ("bind-dev", "binding to an interface is not supported; bind to its address with -B"),
    ("flowlabel", "the kernel is not asked for IPv6 flow labels"),
    (
        "username",
        "this client proves no user; `linerate serve --key-file` has a shared key instead",
    ),
    (
        "rsa-public-key-path",
        "this client proves no user; `linerate serve --key-file` has a shared key instead",
    ),
];

/// Options that are taken and change nothing, and why: said once on standard error.
pub(super) const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("snd-timeout", "the control connection has time limits of its own"),
    ("cntl-ka", "the control connection has time limits of its own"),
    ("debug", "there is no debugging output"),
];
