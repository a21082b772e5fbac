//! What can go wrong, as data: a kind that programs may rely on, and words for people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::kinds::kinds;
use crate::served::RefusalKind;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorRecord {
    /// Stable name, such as `refused` or `no_route`.
    pub kind: ErrorKind,
    /// What was tried, on what.
    pub what: String,
    /// Why it failed.
    pub why: String,
    /// What to try.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// The exit code of the command.
    pub exit_code: u8,
}

impl ErrorRecord {
    /// One that ends a command as its kind usually does.
    pub fn new(
        kind: ErrorKind,
        what: impl Into<String>,
        why: impl Into<String>,
        hints: &[&str],
    ) -> Self {
        let hints = hints.iter().map(|hint| (*hint).to_owned()).collect();
        let exit_code = kind.exit() as u8;
        Self { kind, what: what.into(), why: why.into(), hints, exit_code }
    }

    /// The same with one more thing to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The same with more things to try.
    #[must_use]
    pub fn with_hints(mut self, hints: impl IntoIterator<Item = String>) -> Self {
        self.hints.extend(hints);
        self
    }

    /// The same, ending a command with another of the exit codes that its kind has.
    #[must_use]
    pub fn ending(self, exit: Exit) -> Self {
        debug_assert!(self.kind.exits().contains(&exit), "{}: {exit:?}", self.kind);
        Self { exit_code: exit as u8, ..self }
    }
}

macro_rules! error_kinds {
    ($($(#[doc = $meaning:literal])+ $kind:ident = $name:literal, [$($exit:ident),+], $try:literal;)+) => {
        kinds! {
            /// What kind of error. Names never change, and each has a row in `docs/errors.md`.
            ErrorKind { $($(#[doc = $meaning])+ $kind = $name, $try;)+ }
        }

        impl ErrorKind {
            /// How a command ends with it: first as it does usually.
            pub const fn exits(&self) -> &'static [Exit] {
                match self {
                    $(Self::$kind => &[$(Exit::$exit),+],)+
                    Self::Other(_) => &[Exit::Failed],
                }
            }

            /// How a command usually ends with it.
            pub const fn exit(&self) -> Exit {
                self.exits()[0]
            }
        }
    };
}

error_kinds! {
    /// The command line makes no sense.
    Usage = "usage", [Usage], "`--help` of the command";
    /// A number outside what linerate, or the peer's release, allows.
    OutOfRange = "out_of_range", [Usage, Unreachable], "a number within the range that the error names";
    /// A core of `--cpu` that this process does not have.
    NoCore = "no_core", [Usage], "another core, or none";
    /// The kernel did not take a TCP option.
    TcpOption = "tcp_option", [Usage], "another value; `sysctl net.ipv4.tcp_available_congestion_control`";
    /// The server speaks a dialect that has no such test.
    Dialect = "dialect", [Usage], "`linerate serve` there";
    /// A campaign's plan has faults.
    Plan = "plan", [Usage], "mend the lines that the error names";
    /// A campaign's plan is not the one that it began with.
    PlanChanged = "plan_changed", [Usage], "the plan as it was, or another store: `--store NEW.db`";
    /// What was given to go on with is no sweep, or not as this release can go on with it.
    Resume = "resume", [Usage], "the file or directory that `--save` made";
    /// The name has no address.
    UnknownHost = "unknown_host", [Unreachable], "the spelling; `getent ahosts NAME`";
    /// The name has no address of the version of IP that was asked for.
    NoAddress = "no_address", [Unreachable], "leave out `-4` or `-6`";
    /// Nobody listens at the server's address and port.
    Refused = "refused", [Unreachable], "start `linerate serve` there; `--port` at both ends";
    /// The routing table has no way to the server.
    NoRoute = "no_route", [Unreachable], "`ip route get ADDRESS`";
    /// The system forbids the connection.
    NoPermission = "no_permission", [Unreachable], "this host's firewall: `nft list ruleset`";
    /// The local address of `--bind` cannot be used.
    Bind = "bind", [Unreachable], "an address of this host, of the server's version of IP: `ip addr`";
    /// The connection was reset at once.
    Reset = "reset", [Unreachable], "see what listens there: `ss -tlpn`";
    /// No answer in time.
    TimedOut = "timed_out", [Unreachable], "`ping` the host; firewalls on the way";
    /// No connection, for another reason.
    Connect = "connect", [Unreachable], "the system's words in `why`";
    /// Something listens there that does not speak linerate's protocol.
    NotLinerate = "not_linerate", [Unreachable], "`--port`; start `linerate serve` there";
    /// The two releases have no protocol in common, or a campaign's store is of another release.
    Version = "version", [Unreachable, Failed], "the same release at both ends; that which began the campaign";
    /// No shared key, or another than the peer's.
    Key = "key", [Unreachable, Usage], "the same `--key-file` at both ends";
    /// Against the policy of the server's owner.
    Policy = "policy", [Unreachable], "ask for less, or start the server with other limits";
    /// No room for another test now; or another process changes this host's settings.
    Busy = "busy", [Unreachable, Failed], "later";
    /// The peer did not keep to the protocol.
    Protocol = "protocol", [Unreachable, Failed], "the same release at both ends";
    /// TCP works, and no UDP comes through.
    UdpBlocked = "udp_blocked", [Unreachable], "open the UDP port of the same number; no NAT that distinguishes the two";
    /// A TCP stream beside the control connection cannot be opened.
    TcpStream = "tcp_stream", [Unreachable], "the server's log; its limit of open files";
    /// What the system refused; the words say which.
    Unable = "unable", [Failed, Unreachable], "the system's words in `why`";
    /// The server cannot have its address or port.
    Listen = "listen", [Failed], "another `--port`; `ss -tulpn` names who has it";
    /// What the server says is not proven with the shared key.
    Authentication = "authentication", [Failed], "find out who stands between; a tunnel";
    /// An iperf3 server ended the test with an error of its own.
    ServerError = "server_error", [Failed], "iperf3's words in `why`";
    /// The server's control connection ended, or it fell silent.
    ServerLost = "server_lost", [Failed], "the server's own log";
    /// The server ended the test early, and said so.
    ServerStopped = "server_stopped", [Failed], "`why` names the limit, or that it shuts down";
    /// A data stream ended early.
    Stream = "stream", [Failed], "the server's own log";
    /// A client's test at this server ended early; in iperf3's words only.
    Test = "test", [Failed], "`why` says who ended it";
    /// Ended by Ctrl-C or SIGTERM.
    Interrupted = "interrupted", [Interrupted], "";
    /// A result, a log or a file cannot be written, or would take the place of another.
    Output = "output", [Failed], "another file; room on the disk";
    /// A report cannot be made of these files.
    Report = "report", [Failed], "the files that the error names";
    /// A stored run has no figure of this name.
    Metric = "metric", [Failed], "leave out `--metric`";
    /// The figures contradict each other; only those of this end alone are a fault of linerate.
    Accounting = "accounting", [Invalid], "do not use the numbers; the same release at both ends";
    /// JSON lines of a test that stop before its end.
    NoEnd = "no_end", [Failed], "";
    /// What a sweep or search that still runs, or was killed, has in its file.
    Unfinished = "unfinished", [Failed], "`--resume`";
    /// A search's `--max-time` was over before it had its answer.
    OutOfTime = "out_of_time", [Failed], "a longer `--max-time`; `--preset quick`";
    /// The sender does not reach the least rate that a search was to try.
    Generator = "generator", [Failed], "a lower `--min`; `linerate udp HOST --rate max`";
    /// A search's first trial said nothing, however often it was made.
    Invalid = "invalid", [Failed], "end other work on both hosts";
    /// There is no campaign in this store.
    NoStore = "no_store", [Failed], "`linerate campaign run PLAN`";
    /// Another process runs the campaign of this store.
    Locked = "locked", [Failed], "`linerate campaign status`";
    /// The store holds a campaign already.
    Exists = "exists", [Failed], "`linerate campaign resume`";
    /// The file is no campaign's store.
    Foreign = "foreign", [Failed], "another store: `--store FILE`";
    /// The store is damaged.
    Damaged = "damaged", [Failed], "`linerate campaign export --format json-lines` saves what is whole";
    /// No room for the store.
    DiskFull = "disk_full", [Failed], "make room, then `linerate campaign resume`";
    /// The store cannot be read or written.
    Store = "store", [Failed], "`linerate campaign resume` goes on where it stands";
    /// A host of a campaign does not distinguish its boots.
    BootId = "boot_id", [Failed], "a host with /proc";
    /// A host of a campaign does not permit what the plan wants.
    Permission = "permission", [Failed], "start its server with the option that the error names";
    /// A host of a campaign does not answer, or not on another boot.
    HostGone = "host_gone", [Failed], "`linerate campaign resume` when it is there; a longer `wait` in the plan";
    /// A host did not reboot.
    Reboot = "reboot", [Failed], "`reboot` of the host in the plan";
    /// A setting of the plan cannot be made.
    Setting = "setting", [Failed], "leave it out, or a driver that can";
    /// A host's settings cannot be put back.
    NotRestored = "not_restored", [Failed], "settle who sets what, then `linerate campaign resume`";
    /// Some settings are not as they were.
    Restore = "restore", [Failed], "`why` names them";
    /// The journal of changed settings cannot be written.
    Journal = "journal", [Failed], "another `--state-dir`";
    /// The process that changes settings was ended; they were put back.
    HelperLost = "helper_lost", [Failed, Unreachable], "apply them again and repeat the run";
    /// A command of a plan cannot be run.
    Command = "command", [Failed, Unreachable], "the system's words in `why`";
    /// systemd did not take a campaign's unit.
    Systemd = "systemd", [Failed], "`systemctl` by hand: the unit is written";
}

impl From<RefusalKind> for ErrorKind {
    fn from(refusal: RefusalKind) -> Self {
        match refusal {
            RefusalKind::Version => Self::Version,
            RefusalKind::Key => Self::Key,
            RefusalKind::OutOfRange => Self::OutOfRange,
            RefusalKind::Policy => Self::Policy,
            RefusalKind::Busy => Self::Busy,
            RefusalKind::Unable => Self::Unable,
            RefusalKind::Protocol => Self::Protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_the_kinds_that_print_them() {
        for kind in ErrorKind::ALL {
            let name = kind.name();
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert_eq!(ErrorKind::from(name.to_owned()), *kind);
            assert_ne!(kind.exit(), Exit::Complete, "{name}");
        }
    }

    #[test]
    fn a_kind_of_a_later_release_reads_and_prints_as_it_came() {
        let text = r#"{"kind":"eaten_by_bears","what":"w","why":"y","exit_code":1}"#;
        let read: ErrorRecord = serde_json::from_str(text).unwrap();
        assert_eq!(read.kind, ErrorKind::Other("eaten_by_bears".into()));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
