//! iperf3's command line, read as GNU getopt_long reads it: short options joined or apart, long ones
//! cut short as far as they stay unique, values after `=` or as the next word.

use std::net::IpAddr;
use std::path::PathBuf;

use linerate_report::iperf3::Format;

/// What an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    /// Only joined with `=`.
    Maybe,
}

/// Which role may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Both,
    Client,
    Server,
}

/// Short letter, long name, value, side. Several rows may share a letter: other names of one option.
const OPTIONS: &[(char, &str, Takes, Side)] = {
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
const REFUSED: &[(&str, &str)] = &[
    ("sctp", "linerate measures TCP and UDP; SCTP is not spoken"),
    ("xbind", "it belongs to SCTP, which is not spoken"),
    ("nstreams", "it belongs to SCTP, which is not spoken"),
    ("mptcp", "data streams are plain TCP or UDP"),
    ("file", "streams carry made-up octets, never files"),
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
    #[cfg(not(feature = "iperf3-auth"))]
    ("rsa-private-key-path", NO_LOGINS),
    #[cfg(not(feature = "iperf3-auth"))]
    ("authorized-users-path", NO_LOGINS),
];

#[cfg(not(feature = "iperf3-auth"))]
const NO_LOGINS: &str = "this program was built without logins; build linerate with them: \
                         cargo build --release --features iperf3-auth (needs a C compiler)";

/// Options that are taken and change nothing, and why: said once on standard error.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("snd-timeout", "the control connection has time limits of its own"),
    ("cntl-ka", "the control connection has time limits of its own"),
    ("debug", "there is no debugging output"),
];

/// Why a command line is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// `-h`.
    Help,
    /// `-v`.
    Version,
    /// A parameter is wrong: shown with how to use the program.
    Parameter(String),
    /// getopt's words.
    Unknown(String),
    /// An option that cannot be had.
    Refused(String),
}

/// A command line, understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// `-c`; `None` is a server.
    pub host: Option<String>,
    pub port: u16,
    pub format: Format,
    /// Seconds; 0 is none.
    pub interval_s: f64,
    pub pidfile: Option<PathBuf>,
    pub affinity: (Option<u16>, Option<u16>),
    pub bind: Option<IpAddr>,
    pub verbose: bool,
    pub json: bool,
    pub json_stream: bool,
    pub json_stream_full: bool,
    pub logfile: Option<PathBuf>,
    /// strftime's pattern.
    pub timestamps: Option<String>,
    pub receive_timeout_ms: u64,
    pub connect_timeout_ms: Option<u64>,
    pub daemon: bool,
    pub one_off: bool,
    /// bit/s; 0 is no limit.
    pub server_limit_bps: u64,
    pub idle_timeout_s: Option<u64>,
    pub server_max_s: Option<u64>,
    pub private_key: Option<PathBuf>,
    pub users: Option<PathBuf>,
    pub pkcs1: bool,
    pub time_skew_s: Option<u64>,
    pub udp: bool,
    /// bit/s of each stream; `None` is the default of the protocol.
    pub rate_bps: Option<u64>,
    pub burst: u32,
    pub pacing_timer_us: u32,
    pub fq_rate_bps: u64,
    pub time_s: Option<u32>,
    pub bytes: u64,
    pub blocks: u64,
    pub length: Option<u32>,
    pub cport: Option<u16>,
    pub parallel: u16,
    pub reverse: bool,
    pub bidir: bool,
    pub window: Option<u32>,
    pub congestion: Option<String>,
    pub mss: Option<u32>,
    pub no_delay: bool,
    pub ip: Option<u8>,
    pub tos: u8,
    pub zerocopy: bool,
    pub skip_rx_copy: bool,
    pub omit_s: u32,
    pub title: Option<String>,
    pub extra_data: Option<String>,
    pub get_server_output: bool,
    pub counters_64bit: bool,
    pub repeating_payload: bool,
    pub dont_fragment: bool,
    /// For standard error.
    pub notes: Vec<String>,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            host: None,
            port: 5201,
            format: Format::Adaptive,
            interval_s: 1.0,
            pidfile: None,
            affinity: (None, None),
            bind: None,
            verbose: false,
            json: false,
            json_stream: false,
            json_stream_full: false,
            logfile: None,
            timestamps: None,
            receive_timeout_ms: 120_000,
            connect_timeout_ms: None,
            daemon: false,
            one_off: false,
            server_limit_bps: 0,
            idle_timeout_s: None,
            server_max_s: None,
            private_key: None,
            users: None,
            pkcs1: false,
            time_skew_s: None,
            udp: false,
            rate_bps: None,
            burst: 0,
            pacing_timer_us: 1_000,
            fq_rate_bps: 0,
            time_s: None,
            bytes: 0,
            blocks: 0,
            length: None,
            cport: None,
            parallel: 1,
            reverse: false,
            bidir: false,
            window: None,
            congestion: None,
            mss: None,
            no_delay: false,
            ip: None,
            tos: 0,
            zerocopy: false,
            skip_rx_copy: false,
            omit_s: 0,
            title: None,
            extra_data: None,
            get_server_output: false,
            counters_64bit: false,
            repeating_payload: false,
            dont_fragment: false,
            notes: Vec::new(),
        }
    }
}

type Parsed<T> = Result<T, Stop>;

fn wrong<T>(text: impl Into<String>) -> Parsed<T> {
    Err(Stop::Parameter(text.into()))
}

/// The words of a command line as options and values, by long name.
fn options(args: &[String]) -> Parsed<Vec<(&'static str, Side, Option<String>)>> {
    let mut found = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--" {
            break;
        }
        if let Some(long) = arg.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let (_, name, takes, side) = long_option(name)?;
            let value = match (takes, value) {
                (Takes::Nothing, Some(_)) => {
                    return Err(Stop::Unknown(format!(
                        "option '--{name}' doesn't allow an argument"
                    )));
                }
                (Takes::Value, None) => Some(args.next().cloned().ok_or_else(|| {
                    Stop::Unknown(format!("option '--{name}' requires an argument"))
                })?),
                (_, value) => value,
            };
            found.push((name, side, value));
            continue;
        }
        let Some(letters) = arg.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return wrong(format!("`{arg}` is no option"));
        };
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let row = OPTIONS.iter().find(|row| row.0 == letter && letter != '\0');
            let Some((_, name, takes, side)) = row else {
                return Err(Stop::Unknown(format!("invalid option -- '{letter}'")));
            };
            let value = match takes {
                Takes::Value => {
                    let joined = rest.as_str();
                    let value = if joined.is_empty() {
                        args.next().cloned()
                    } else {
                        Some(joined.to_owned())
                    };
                    rest = "".chars();
                    Some(value.ok_or_else(|| {
                        Stop::Unknown(format!("option requires an argument -- '{letter}'"))
                    })?)
                }
                // getopt takes the rest of the word.
                Takes::Maybe => {
                    let joined = std::mem::replace(&mut rest, "".chars()).as_str();
                    Some(joined.to_owned()).filter(|joined| !joined.is_empty())
                }
                Takes::Nothing => None,
            };
            found.push((*name, *side, value));
        }
    }
    Ok(found)
}

fn long_option(name: &str) -> Parsed<(char, &'static str, Takes, Side)> {
    if let Some(row) = OPTIONS.iter().find(|row| row.1 == name) {
        return Ok(*row);
    }
    let mut like = OPTIONS.iter().filter(|row| row.1.starts_with(name));
    match (like.next(), like.next()) {
        (Some(row), None) => Ok(*row),
        (Some(_), Some(_)) => Err(Stop::Unknown(format!("option '--{name}' is ambiguous"))),
        (None, _) => Err(Stop::Unknown(format!("unrecognized option '--{name}'"))),
    }
}

/// A number with k, m, g or t behind it, of that base; letters after the first are not read.
fn scaled(text: &str, base: f64, what: &str) -> Parsed<f64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number: f64 = match number.parse() {
        Ok(number) => number,
        Err(_) => return wrong(format!("bad value for {what}: {text}")),
    };
    let power = match suffix.chars().next().map(|c| c.to_ascii_lowercase()) {
        None => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some(_) => return wrong(format!("bad unit in {what}: {text}")),
    };
    let value = number * f64::powi(base, power);
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        wrong(format!("bad value for {what}: {text}"))
    }
}

fn size(text: &str, what: &str) -> Parsed<u64> {
    scaled(text, 1_024.0, what).map(|value| value as u64)
}

fn bits(text: &str, what: &str) -> Parsed<u64> {
    scaled(text, 1_000.0, what).map(|value| value as u64)
}

/// A whole number within a range.
fn whole(text: &str, range: std::ops::RangeInclusive<u64>, complaint: &str) -> Parsed<u64> {
    let value = text.trim().parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0);
    match value.map(|v| v as u64) {
        Some(value) if range.contains(&value) => Ok(value),
        _ => wrong(complaint),
    }
}

/// Decimal, octal with a leading 0, hexadecimal with 0x.
fn any_base(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

/// The type of service of a code point's name or number.
fn dscp(text: &str) -> Option<u8> {
    let name = text.to_ascii_lowercase();
    let named = match name.as_str() {
        "lowdelay" => return Some(0x10),
        "throughput" => return Some(0x08),
        "reliability" => return Some(0x04),
        "ef" => Some(46),
        "va" => Some(44),
        _ => None,
    };
    let class = |prefix: &str| name.strip_prefix(prefix).and_then(|n| n.parse::<u64>().ok());
    let value = named
        .or_else(|| class("cs").filter(|n| *n < 8).map(|n| n * 8))
        .or_else(|| {
            let (x, y) = class("af").map(|n| (n / 10, n % 10))?;
            ((1..=4).contains(&x) && (1..=3).contains(&y)).then_some(x * 8 + y * 2)
        })
        .or_else(|| any_base(text))?;
    u8::try_from(value).ok().filter(|v| *v < 64).map(|v| v << 2)
}

/// Reads a command line, without the program's name.
///
/// # Errors
/// Why it is not run.
pub fn parse(args: &[String]) -> Parsed<Line> {
    let found = options(args)?;
    let mut line = Line::default();
    let (mut server, mut sides) = (false, Vec::new());
    let (mut ends, mut interval_given) = (0, false);
    for (name, side, value) in found {
        let text = value.clone().unwrap_or_default();
        let text = text.as_str();
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(Stop::Refused(format!("--{name} cannot be used here: {why}")));
        }
        if let Some((_, why)) = WITHOUT_EFFECT.iter().find(|(idle, _)| *idle == name) {
            line.notes.push(format!("--{name} changes nothing here: {why}"));
        }
        sides.push(side);
        match name {
            "help" => return Err(Stop::Help),
            "version" => return Err(Stop::Version),
            "server" => server = true,
            "client" => line.host = Some(client_host(text)?),
            "port" => {
                line.port =
                    whole(text, 1..=65_535, "port number must be between 1 and 65535 inclusive")?
                        as u16;
            }
            "format" => {
                let format = text.chars().next().and_then(Format::from_letter);
                line.format = match format {
                    Some(format) => format,
                    None => {
                        return wrong(
                            "bad format specifier (valid formats are in the set [kmgtKMGT])",
                        );
                    }
                };
            }
            "interval" => {
                let seconds = text.parse::<f64>().unwrap_or(f64::NAN);
                if seconds != 0.0 && !(0.1..=60.0).contains(&seconds) {
                    return wrong("invalid report interval (min = 0.1, max = 60 seconds)");
                }
                line.interval_s = seconds;
                interval_given = true;
            }
            "pidfile" => line.pidfile = Some(text.into()),
            "affinity" => line.affinity = affinity(text)?,
            "bind" => {
                let Ok(address) = text.parse() else {
                    return Err(Stop::Refused(format!(
                        "-B {text}: give an address of this host; names and %interfaces are not looked up"
                    )));
                };
                line.bind = Some(address);
            }
            "verbose" => line.verbose = true,
            "json" => line.json = true,
            "json-stream" => (line.json, line.json_stream) = (true, true),
            "json-stream-full-output" => line.json_stream_full = true,
            "logfile" => line.logfile = Some(text.into()),
            "timestamps" => line.timestamps = Some(value.unwrap_or_else(|| "%c ".to_owned())),
            "rcv-timeout" => {
                line.receive_timeout_ms = whole(
                    text,
                    100..=86_400_000,
                    "receive timeout value is incorrect or not in range",
                )?;
            }
            "connect-timeout" => {
                line.connect_timeout_ms =
                    Some(whole(text, 1..=86_400_000, "bad value for --connect-timeout")?);
            }
            "daemon" => line.daemon = true,
            "one-off" => line.one_off = true,
            "server-bitrate-limit" => {
                let rate = text.split('/').next().unwrap_or(text);
                line.server_limit_bps = bits(rate, "--server-bitrate-limit")?;
            }
            "idle-timeout" => {
                let range = "idle timeout parameter is not positive or larger than allowed limit";
                line.idle_timeout_s = Some(whole(text, 1..=86_400, range)?);
            }
            "server-max-duration" => {
                line.server_max_s =
                    Some(whole(text, 1..=86_400, "bad value for --server-max-duration")?);
            }
            "rsa-private-key-path" => line.private_key = Some(text.into()),
            "authorized-users-path" => line.users = Some(text.into()),
            "use-pkcs1-padding" => line.pkcs1 = true,
            "time-skew-threshold" => {
                line.time_skew_s =
                    Some(whole(text, 1..=86_400, "time skew threshold must be positive")?);
            }
            "udp" => line.udp = true,
            "bitrate" | "bandwidth" => {
                let (rate, burst) =
                    text.split_once('/').map_or((text, None), |(r, b)| (r, Some(b)));
                line.rate_bps = Some(bits(rate, "--bitrate")?);
                if let Some(burst) = burst {
                    line.burst =
                        whole(burst, 1..=1_000, "invalid burst count (maximum = 1000)")? as u32;
                }
            }
            "pacing-timer" => {
                let timer = size(text, "--pacing-timer")?;
                line.pacing_timer_us = u32::try_from(timer).unwrap_or(u32::MAX);
            }
            "fq-rate" => line.fq_rate_bps = bits(text, "--fq-rate")?,
            "time" => {
                ends += 1;
                let complaint = "test duration too long (maximum = 86400 seconds)";
                line.time_s = Some(whole(text, 0..=86_400, complaint)? as u32);
            }
            "bytes" => {
                ends += 1;
                line.bytes = size(text, "--bytes")?;
            }
            "blockcount" => {
                ends += 1;
                line.blocks = size(text, "--blockcount")?;
            }
            "length" => {
                line.length = Some(u32::try_from(size(text, "--length")?).unwrap_or(u32::MAX));
            }
            "cport" => {
                line.cport = Some(whole(
                    text,
                    1..=65_535,
                    "port number must be between 1 and 65535 inclusive",
                )? as u16);
            }
            "parallel" => {
                let complaint = "number of parallel streams too large (maximum = 128)";
                line.parallel = whole(text, 1..=128, complaint)? as u16;
            }
            "reverse" => line.reverse = true,
            "bidir" => line.bidir = true,
            "window" => {
                let window = size(text, "--window")?;
                if window > 536_870_912 {
                    return wrong("socket buffer size too large (maximum = 536870912 bytes)");
                }
                line.window = u32::try_from(window).ok().filter(|w| *w > 0);
            }
            "congestion" | "linux-congestion" => line.congestion = Some(text.to_owned()),
            "set-mss" => {
                let complaint = "TCP MSS too large (maximum = 32767 bytes)";
                line.mss = Some(whole(text, 0..=32_767, complaint)? as u32).filter(|m| *m > 0);
            }
            "no-delay" => line.no_delay = true,
            "version4" => line.ip = Some(4),
            "version6" => line.ip = Some(6),
            "tos" => {
                let tos = any_base(text).and_then(|tos| u8::try_from(tos).ok());
                let Some(tos) = tos else {
                    return wrong("bad TOS value (must be between 0 and 255 inclusive)");
                };
                line.tos = tos;
            }
            "dscp" => {
                let Some(tos) = dscp(text) else {
                    return wrong("bad DSCP value (must be between 0 and 63 inclusive)");
                };
                line.tos = tos;
            }
            "zerocopy" => line.zerocopy = true,
            "skip-rx-copy" => line.skip_rx_copy = true,
            "omit" => line.omit_s = whole(text, 0..=600, "bogus value for --omit")? as u32,
            "title" => line.title = Some(text.to_owned()),
            "extra-data" => line.extra_data = Some(text.to_owned()),
            "get-server-output" => line.get_server_output = true,
            "udp-counters-64bit" => line.counters_64bit = true,
            "repeating-payload" => line.repeating_payload = true,
            "dont-fragment" => line.dont_fragment = true,
            // Always done where it helps.
            _ => {}
        }
    }
    match (server, line.host.is_some()) {
        (true, true) => return wrong("cannot be both server and client"),
        (false, false) => return wrong("must either be a client (-c) or server (-s)"),
        _ => {}
    }
    if server && sides.contains(&Side::Client) {
        return wrong("some option you are trying to set is client only");
    }
    if !server && sides.contains(&Side::Server) {
        return wrong("some option you are trying to set is server only");
    }
    if ends > 1 {
        return wrong("only one test end condition (-t, -n, -k) may be specified");
    }
    if line.reverse && line.bidir {
        return wrong("cannot be both reverse and bidirectional");
    }
    if line.private_key.is_some() != line.users.is_some() {
        return wrong("--rsa-private-key-path and --authorized-users-path go together");
    }
    if line.private_key.is_none() {
        let given = [
            ("use-pkcs1-padding", line.pkcs1),
            ("time-skew-threshold", line.time_skew_s.is_some()),
        ];
        for (name, _) in given.iter().filter(|(_, given)| *given) {
            line.notes.push(format!("--{name} changes nothing here: no user is proven"));
        }
    }
    if line.json && interval_given && line.format != Format::Adaptive {
        line.notes.push("the report format (-f) is ignored with JSON output (-J)".into());
    }
    match line.length {
        Some(length) if line.udp && !(16..=65_507).contains(&length) => {
            wrong("block size invalid (minimum = 16 bytes, maximum = 65507 bytes)")
        }
        Some(length) if !line.udp && !(1..=1_048_576).contains(&length) => {
            wrong("block size too large (maximum = 1048576 bytes)")
        }
        _ => Ok(line),
    }
}

/// `host` or `host%interface`, where the interface belongs to a link-local address.
fn client_host(text: &str) -> Parsed<String> {
    match text.split_once('%') {
        Some((address, _)) if !address.to_ascii_lowercase().starts_with("fe80") => {
            Err(Stop::Refused(format!(
                "-c {text}: binding to an interface is not supported; bind to its address with -B"
            )))
        }
        _ => Ok(text.to_owned()),
    }
}

fn affinity(text: &str) -> Parsed<(Option<u16>, Option<u16>)> {
    let core = |text: &str| -> Parsed<Option<u16>> {
        match text {
            "" => Ok(None),
            text => whole(text, 0..=1_024, "CPU affinity out of range: -A n or -A n,m")
                .map(|core| Some(core as u16)),
        }
    };
    match text.split_once([',', '/']) {
        Some((here, there)) => Ok((core(here)?, core(there)?)),
        None => Ok((core(text)?, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Parsed<Line> {
        parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_as_getopt_reads_them() {
        let a = line("-c h -u -b 10M/5 -t 3 -P 2 -R -w 4M -l 1K -O 1 -i 0.5").unwrap();
        let b = line("--client=h --udp --bandwidth 10M/5 -t3 --paral 2 --rev -w4m -l1k -O1 -i.5");
        assert_eq!(a, b.unwrap());
        assert_eq!((a.rate_bps, a.burst, a.window), (Some(10_000_000), 5, Some(4 << 20)));
        assert_eq!((a.length, a.omit_s, a.interval_s), (Some(1_024), 1, 0.5));
        let server = line("-s1Vp 5000").unwrap();
        assert!(server.one_off && server.verbose && server.host.is_none());
        assert_eq!(server.port, 5_000);
        assert_eq!(line("-c h --timestamps").unwrap().timestamps.as_deref(), Some("%c "));
        assert_eq!(line("-c h --timestamps=%s").unwrap().timestamps.as_deref(), Some("%s"));
        assert_eq!(line("-c h -b 1.5Gbit").unwrap().rate_bps, Some(1_500_000_000));
        assert_eq!(line("-c h -S 0x34").unwrap().tos, 0x34);
        assert_eq!(line("-c h --dscp af41").unwrap().tos, 34 << 2);
        assert_eq!(line("-c h --dscp ef").unwrap().tos, 46 << 2);
        assert_eq!(line("-c h --dscp lowdelay").unwrap().tos, 0x10);
        assert_eq!(line("-c h -A 2,3").unwrap().affinity, (Some(2), Some(3)));
        assert_eq!(line("-s -h"), Err(Stop::Help));
    }

    #[test]
    fn every_option_is_taken_or_refused_by_name() {
        for (_, name, takes, side) in OPTIONS {
            let value = match (*takes, *name) {
                (Takes::Value, "format") => " m",
                (Takes::Value, "bind") => " 127.0.0.1",
                (Takes::Value, "client") => " h",
                (Takes::Value, "rcv-timeout") => " 1000",
                (Takes::Value, "length") => " 100",
                (Takes::Value, "rsa-private-key-path") => " k --authorized-users-path u",
                (Takes::Value, "authorized-users-path") => " u --rsa-private-key-path k",
                (Takes::Value, _) => " 2",
                _ => "",
            };
            let role = match side {
                Side::Server => "-s",
                _ if matches!(*name, "server" | "client") => "",
                _ => "-c h",
            };
            match line(&format!("{role} --{name}{value}")) {
                Ok(_) | Err(Stop::Help | Stop::Version) => {}
                Err(Stop::Refused(text)) => assert!(text.contains(name), "{text}"),
                other => panic!("--{name}: {other:?}"),
            }
        }
    }

    #[cfg(not(feature = "iperf3-auth"))]
    #[test]
    fn without_the_feature_logins_are_refused_with_how_to_build_them() {
        for name in ["rsa-private-key-path", "authorized-users-path"] {
            let Err(Stop::Refused(text)) = line(&format!("-s --{name} x")) else {
                panic!("{name}")
            };
            assert!(text.contains(name) && text.contains("--features iperf3-auth"), "{text}");
        }
    }

    #[test]
    fn faults_have_iperf3s_words() {
        for (words, text) in [
            ("", "must either be a client (-c) or server (-s)"),
            ("-s -c x", "cannot be both server and client"),
            ("-s -u", "some option you are trying to set is client only"),
            ("-c x -D", "some option you are trying to set is server only"),
            ("-c x -t 999999", "test duration too long (maximum = 86400 seconds)"),
            ("-c x -t 5 -n 5", "only one test end condition (-t, -n, -k) may be specified"),
            ("-c x -R --bidir", "cannot be both reverse and bidirectional"),
            ("-c x -P 200", "number of parallel streams too large (maximum = 128)"),
            ("-c x -l 2M", "block size too large (maximum = 1048576 bytes)"),
            ("-c x -u -l 5", "block size invalid (minimum = 16 bytes, maximum = 65507 bytes)"),
            ("-c x -i 0.01", "invalid report interval (min = 0.1, max = 60 seconds)"),
            ("-c x -O 1000", "bogus value for --omit"),
            ("-c x -S 300", "bad TOS value (must be between 0 and 255 inclusive)"),
            ("-c x -p 99999", "port number must be between 1 and 65535 inclusive"),
        ] {
            assert_eq!(line(words), Err(Stop::Parameter(text.into())), "{words}");
        }
        assert_eq!(
            line("-c x --nonsense"),
            Err(Stop::Unknown("unrecognized option '--nonsense'".into()))
        );
        assert_eq!(line("-c x -q"), Err(Stop::Unknown("invalid option -- 'q'".into())));
        assert_eq!(line("-c x --ver"), Err(Stop::Unknown("option '--ver' is ambiguous".into())));
    }
}
