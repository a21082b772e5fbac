//! Where a test goes: a host, this machine itself, or an address where nobody answers.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use linerate_model::plan::{Dialect, IpVersion};
use linerate_runner::client::Target;
use serde::Deserialize;

use crate::from_text::{some, text};
use crate::key;
use crate::usage::{self, Refusal};

/// The options that say where to.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Where")]
pub struct Where {
    /// Host name or address of a machine that runs `linerate serve`.
    #[arg(value_name = "HOST", help_heading = None::<&str>)]
    pub host: Option<String>,
    /// Test this machine alone: a server inside this process, over loopback.
    #[arg(long)]
    pub local: bool,
    /// The server's port, TCP and UDP [default: 5201, or that of --dialect].
    #[arg(short, long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    #[serde(deserialize_with = "some")]
    pub port: Option<u16>,
    /// Use IPv4 only.
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 only.
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// Local address to send from.
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,
    /// File with the key that the server asks for.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// What to speak with the server: auto finds out whether it is linerate's or iperf3's, and where nobody listens
    /// there and no port is given, whether a netserver (port 12865) or nuttcp -S (port 5000) answers; netperf and
    /// nuttcp ask these alone, iperf2 a server of iperf 2 (port 5001), which auto leaves alone. They take no key.
    #[arg(long, value_name = "NAME", default_value = "auto")]
    #[serde(deserialize_with = "text")]
    pub dialect: Speak,
}

/// `--dialect`; nothing is what the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speak(pub Option<Dialect>);

impl FromStr for Speak {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match Dialect::ALL.into_iter().find(|dialect| dialect.as_ref() == name) {
            None if name == "auto" => Ok(Self(None)),
            None => {
                let names = Dialect::ALL.map(|dialect| dialect.as_ref().to_owned()).join(", ");
                Err(format!("it is auto, or one of {names}"))
            }
            dialect => Ok(Self(dialect)),
        }
    }
}

/// A target that has passed every check that needs no packet.
#[derive(Debug, Clone)]
pub struct Found {
    /// For the runner.
    pub target: Target,
    /// The version of IP, as far as the command line decides it.
    pub ip: Option<IpVersion>,
    /// As given.
    pub bind: Option<IpAddr>,
    /// Read from its file.
    pub key: Option<Vec<u8>>,
    /// What to speak; `None` finds out.
    pub dialect: Option<Dialect>,
    /// Neither that nor a port was said.
    pub elsewhere: bool,
    /// Whether packets never leave this machine, so that no flood can harm others.
    pub this_machine: bool,
}

impl Where {
    /// Checks what can be checked here. `send_only` is the option of that name.
    pub fn find(&self, verb: &str, send_only: bool) -> Result<Found, Refusal> {
        let target = self.target(verb, send_only)?;
        self.fits_together(send_only)?;
        let literal = match &target {
            Target::Local => None,
            Target::Host { name, .. } | Target::Discard { name, .. } => address(name),
        };
        let ip = self.version(literal)?;
        let this_machine = match &target {
            Target::Local => true,
            Target::Host { name, .. } | Target::Discard { name, .. } => {
                literal.map_or_else(|| is_localhost(name), |a| a.is_loopback())
            }
        };
        let key = self.key_file.as_deref().map(key::read).transpose()?;
        // The server inside this process is linerate's, and a key is proven in its own protocol only.
        let own = (self.local || key.is_some()).then_some(Dialect::Native);
        let dialect = self.dialect.0.or(own);
        let elsewhere = dialect.is_none() && self.port.is_none();
        Ok(Found { target, ip, bind: self.bind, key, dialect, elsewhere, this_machine })
    }

    /// An option that says how a server is reached, if one is given.
    pub(crate) fn way(&self) -> Option<&'static str> {
        let ways = [
            (self.port.is_some(), "--port"),
            (self.ipv4, "--ipv4"),
            (self.ipv6, "--ipv6"),
            (self.bind.is_some(), "--bind"),
            (self.key_file.is_some(), "--key-file"),
            (self.dialect.0.is_some(), "--dialect"),
        ];
        ways.into_iter().find_map(|(given, option)| given.then_some(option))
    }

    fn target(&self, verb: &str, send_only: bool) -> Result<Target, Refusal> {
        if self.local && send_only {
            return Err(usage::refusal(
                &["--local", "--send-only"],
                "cannot use `--local` and `--send-only` together",
                "`--local` starts a server that counts what arrives, `--send-only` has nobody there",
                &["linerate udp --local", "linerate udp 127.0.0.1 --send-only"],
            ));
        }
        let Some(host) = &self.host else {
            if self.local {
                return Ok(Target::Local);
            }
            let local = format!("`linerate {verb} --local` tests this machine alone");
            let far =
                format!("`linerate serve` on the other machine, then `linerate {verb} HOST` here");
            return Err(usage::refusal(
                &[],
                "no server was given",
                "a test needs a host that runs `linerate serve`",
                &[&local, &far],
            ));
        };
        if self.local {
            return Err(usage::refusal(
                &["--local"],
                format!("cannot use `--local` with the host `{host}`"),
                "`--local` tests this machine alone and has no other host",
                &["leave out one of the two"],
            ));
        }
        let name = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let odd = |c: char| c.is_control() || c.is_whitespace() || "/[]@".contains(c);
        if name.is_empty() || name.len() > 255 || name.contains(odd) {
            return Err(usage::refusal(
                &[],
                format!("`{host}` is no host"),
                "a host is a name such as hydra2, or an address such as 192.0.2.7 or 2001:db8::7",
                &["the port is given apart: --port 5201"],
            ));
        }
        if let Some((bare, port)) = name.split_once(':')
            && port.bytes().all(|b| b.is_ascii_digit())
            && address(name).is_none()
        {
            let hint = format!("{bare} --port {port}");
            return Err(usage::refusal(
                &[],
                format!("`{host}` is no host"),
                "the port is given apart, since an IPv6 address has colons too",
                &[&hint],
            ));
        }
        if let Some(error) = without_zone(name, verb) {
            return Err(error);
        }
        let dialect = self.dialect.0.unwrap_or_default();
        let (name, port) = (name.to_owned(), self.port.unwrap_or(dialect.port()));
        Ok(if send_only { Target::Discard { name, port } } else { Target::Host { name, port } })
    }

    /// Refuses what would be ignored beside another option, and what the command line refuses by itself, of whoever asks
    /// by data.
    fn fits_together(&self, send_only: bool) -> Result<(), Refusal> {
        let foreign = self.dialect.0.is_some_and(|dialect| dialect != Dialect::Native);
        let keyed = self.key_file.is_some();
        let faults: [(bool, &[&str], &str, &str, &str); 6] = [
            (
                self.ipv4 && self.ipv6,
                &["--ipv4", "--ipv6"],
                "cannot use `-4` and `-6` together",
                "each of them leaves out what the other asks for",
                "leave out one of the two",
            ),
            (
                self.port == Some(0),
                &["--port"],
                "cannot use `--port 0`",
                "no server listens there",
                "1 to 65535, such as --port 5201",
            ),
            (
                self.local && self.port.is_some(),
                &["--port", "--local"],
                "cannot use `--port` with `--local`",
                "the server inside this process takes a free port, and yours would be ignored",
                "leave out `--port`, or `linerate serve` here and 127.0.0.1 in place of `--local`",
            ),
            (
                keyed && (send_only || self.local),
                &["--key-file"],
                "cannot use `--key-file` here",
                "there is no other machine that would ask for a key",
                "leave it out",
            ),
            (
                keyed && foreign,
                &["--key-file", "--dialect"],
                "cannot use `--key-file` with a `--dialect` of another program",
                "only linerate's own protocol proves a key, and the test would run without",
                "leave out one of the two",
            ),
            (
                send_only && foreign,
                &["--dialect", "--send-only"],
                "cannot use `--send-only` with a `--dialect` of another program",
                "nobody is there to speak with, and the datagrams are linerate's own",
                "leave out `--dialect`: `--port` says where they go",
            ),
        ];
        let fault = faults.into_iter().find(|(found, ..)| *found);
        fault.map_or(Ok(()), |(_, options, what, why, hint)| {
            Err(usage::refusal(options, what, why, &[hint]))
        })
    }

    fn version(&self, literal: Option<IpAddr>) -> Result<Option<IpVersion>, Refusal> {
        let asked = match (self.ipv4, self.ipv6) {
            (true, _) => Some(IpVersion::V4),
            (_, true) => Some(IpVersion::V6),
            _ => None,
        };
        let mut known = asked.map(|v| (v, format!("`-{}`", v.number())));
        for (address, what) in [(literal, "the host"), (self.bind, "`--bind`")] {
            let Some(address) = address else { continue };
            let version = if address.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
            match &known {
                Some((other, whose)) if *other != version => {
                    return Err(usage::refusal(
                        &["--bind", "--ip"],
                        format!(
                            "cannot reach {} from here as asked",
                            literal.map_or("the host".to_owned(), |a| format!("`{a}`"))
                        ),
                        format!(
                            "{whose} asks for IPv{}, but {what} `{address}` is an IPv{} address",
                            other.number(),
                            version.number()
                        ),
                        &["both ends of a test use the same version of IP"],
                    ));
                }
                Some(_) => {}
                None => known = Some((version, format!("{what} `{address}`"))),
            }
        }
        Ok(known.map(|(version, _)| version))
    }
}

/// A link-local address is one of each link, so it says nothing without the interface.
fn without_zone(name: &str, verb: &str) -> Option<Refusal> {
    let IpAddr::V6(address) = name.parse().ok()? else { return None };
    if !address.is_unicast_link_local() {
        return None;
    }
    // Interfaces of this host, for a hint that can be typed as it stands.
    let found = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut devices: Vec<String> =
        found.filter_map(|d| d.file_name().into_string().ok()).filter(|d| d != "lo").collect();
    devices.sort_unstable();
    devices.truncate(4);
    if devices.is_empty() {
        devices.push("eth0".to_owned());
    }
    let hints: Vec<String> =
        devices.iter().map(|d| format!("linerate {verb} {name}%{d}")).collect();
    let hints: Vec<&str> = hints.iter().map(String::as_str).collect();
    Some(usage::refusal(
        &[],
        format!("`{name}` does not say by which interface it is reached"),
        "every link has its own link-local addresses (fe80::/10), so the interface is part of the address",
        &hints,
    ))
}

/// The address that `name` is, if it is no name; a zone (`fe80::1%eth0`) is no part of it.
fn address(name: &str) -> Option<IpAddr> {
    name.split('%').next().unwrap_or(name).parse().ok()
}

fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    matches!(name.as_str(), "localhost" | "ip6-localhost" | "ip6-loopback")
        || name.ends_with(".localhost")
}
