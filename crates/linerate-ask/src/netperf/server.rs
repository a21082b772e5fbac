//! The command line of netserver.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linerate_model::plan::{Dialect, IpVersion};

use super::Stop;
use super::words::{family, letters, number, parts, wants_help};

/// A server's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `-p`.
    pub port: u16,
    /// `-L`, as it was named.
    pub name: Option<String>,
    /// `-L`; otherwise all addresses, with `-4` and `-6` of that version.
    pub bind: Option<IpAddr>,
    /// `-4`, `-6`, and the family of `-L`.
    pub ip: Option<IpVersion>,
    /// Without `-D`.
    pub daemon: bool,
    /// `-f`.
    pub one_at_a_time: bool,
}

/// Reads a command line, without the program's name.
///
/// # Errors
/// Why it is not run.
pub fn parse_server(args: &[String]) -> Result<Server, Stop> {
    if wants_help(args) {
        return Err(Stop::Help);
    }
    let (found, _) = letters("46DdfhL:Nn:p:v:VZ:", args).map_err(Stop::Usage)?;
    let mut server = Server {
        port: Dialect::Netperf.port(),
        name: None,
        bind: None,
        ip: None,
        daemon: true,
        one_at_a_time: false,
    };
    for (letter, text) in found {
        match letter {
            'h' => return Err(Stop::Help),
            'V' => return Err(Stop::Version),
            'p' => server.port = number(&text)?,
            '4' => server.ip = Some(IpVersion::V4),
            '6' => server.ip = Some(IpVersion::V6),
            'D' => server.daemon = false,
            'f' => server.one_at_a_time = true,
            'L' => {
                let (name, of) = parts(&text);
                let wrong = |why: String| Stop::Wrong(format!("-L: {why}"));
                server.ip = family(of).map_err(wrong)?.or(server.ip);
                if !name.is_empty() {
                    let digits = || wrong(format!("{name} is not an address in digits"));
                    server.bind = Some(name.parse().map_err(|_| digits())?);
                    server.name = Some(name.to_owned());
                }
            }
            'Z' => {
                let why =
                    "-Z: passphrases in clear text prove nothing; `linerate serve` takes a key";
                return Err(Stop::Wrong(why.into()));
            }
            // Its log is `linerate serve`'s.
            _ => {}
        }
    }
    server.bind = server.bind.or(server.ip.map(|ip| match ip {
        IpVersion::V4 => Ipv4Addr::UNSPECIFIED.into(),
        IpVersion::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }));
    Ok(server)
}
