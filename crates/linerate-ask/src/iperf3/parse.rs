//! Options and values to a [`Line`], and the faults of their combinations.

use super::table::{OPTIONS, REFUSED, Side, WITHOUT_EFFECT};
use super::value::{affinity, any_base, bits, client_host, dscp, size, whole};
use super::{Line, Parsed, Stop, wrong};
use crate::getopt;

/// Reads a command line, without the program's name.
///
/// # Errors
/// Why it is not run.
pub fn parse(args: &[String]) -> Parsed<Line> {
    let mut line = Line::nothing_said();
    let mut given = Vec::new();
    for (&(_, name, _, side), value) in getopt::options(args, OPTIONS)? {
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(Stop::Refused(format!("--{name} cannot be used here: {why}")));
        }
        if let Some((_, why)) = WITHOUT_EFFECT.iter().find(|(idle, _)| *idle == name) {
            line.notes.push(format!("--{name} changes nothing here: {why}"));
        }
        given.push((name, side));
        match name {
            "help" => return Err(Stop::Help),
            "version" => return Err(Stop::Version),
            _ => {}
        }
        let value = value.as_deref();
        let text = value.unwrap_or_default();
        // What none of them knows is always done where it helps.
        let _ = switch(&mut line, name)
            || of_both(&mut line, name, value)?
            || of_server(&mut line, name, text)?
            || of_test(&mut line, name, text)?
            || of_sockets(&mut line, name, text)?;
    }
    fits_together(&mut line, &given)?;
    Ok(line)
}

/// What has no value. False if it is not one of these.
fn switch(line: &mut Line, name: &str) -> bool {
    match name {
        "verbose" => line.verbose = true,
        "json" => line.json = true,
        "json-stream" => (line.json, line.json_stream) = (true, true),
        "json-stream-full-output" => line.json_stream_full = true,
        "daemon" => line.daemon = true,
        "one-off" => line.one_off = true,
        "use-pkcs1-padding" => line.pkcs1 = true,
        "udp" => line.udp = true,
        "reverse" => line.reverse = true,
        "bidir" => line.bidir = true,
        "no-delay" => line.no_delay = true,
        "version4" => line.ip = Some(4),
        "version6" => line.ip = Some(6),
        "zerocopy" => line.zerocopy = true,
        "skip-rx-copy" => line.skip_rx_copy = true,
        "get-server-output" => line.get_server_output = true,
        "udp-counters-64bit" => line.counters_64bit = true,
        "repeating-payload" => line.repeating_payload = true,
        "dont-fragment" => line.dont_fragment = true,
        _ => return false,
    }
    true
}

fn port(text: &str) -> Parsed<u16> {
    whole(text, 1..=65_535, "port number must be between 1 and 65535 inclusive")
}

/// What both sides take.
fn of_both(line: &mut Line, name: &str, value: Option<&str>) -> Parsed<bool> {
    let text = value.unwrap_or_default();
    match name {
        "port" => line.port = port(text)?,
        "format" => {
            let letter = text.chars().next().filter(|&c| "kmgtKMGT".contains(c));
            line.format = Some(letter.ok_or_else(|| {
                let why = "bad format specifier (valid formats are in the set [kmgtKMGT])";
                Stop::Parameter(why.to_owned())
            })?);
        }
        "interval" => {
            let seconds = text.parse::<f64>().unwrap_or(f64::NAN);
            if seconds != 0.0 && !(0.1..=60.0).contains(&seconds) {
                return wrong("invalid report interval (min = 0.1, max = 60 seconds)");
            }
            line.interval_s = seconds;
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
        "logfile" => line.logfile = Some(text.into()),
        "timestamps" => {
            line.timestamps = Some(value.map_or_else(|| "%c ".to_owned(), str::to_owned))
        }
        "rcv-timeout" => {
            let complaint = "receive timeout value is incorrect or not in range";
            line.receive_timeout_ms = whole(text, 100..=86_400_000, complaint)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// What servers take.
fn of_server(line: &mut Line, name: &str, text: &str) -> Parsed<bool> {
    match name {
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
        "time-skew-threshold" => {
            line.time_skew_s =
                Some(whole(text, 1..=86_400, "time skew threshold must be positive")?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// What is sent, and for how long.
fn of_test(line: &mut Line, name: &str, text: &str) -> Parsed<bool> {
    match name {
        "bitrate" | "bandwidth" => {
            let (rate, burst) = text.split_once('/').map_or((text, None), |(r, b)| (r, Some(b)));
            line.rate_bps = Some(bits(rate, "--bitrate")?);
            if let Some(burst) = burst {
                line.burst = whole(burst, 1..=1_000, "invalid burst count (maximum = 1000)")?;
            }
        }
        "pacing-timer" => {
            let timer = size(text, "--pacing-timer")?;
            line.pacing_timer_us = u32::try_from(timer).unwrap_or(u32::MAX);
        }
        "fq-rate" => line.fq_rate_bps = bits(text, "--fq-rate")?,
        "time" => {
            let complaint = "test duration too long (maximum = 86400 seconds)";
            line.time_s = Some(whole(text, 0..=86_400, complaint)?);
        }
        "bytes" => line.bytes = size(text, "--bytes")?,
        "blockcount" => line.blocks = size(text, "--blockcount")?,
        "length" => {
            line.length = Some(u32::try_from(size(text, "--length")?).unwrap_or(u32::MAX));
        }
        "parallel" => {
            let complaint = "number of parallel streams too large (maximum = 128)";
            line.parallel = whole(text, 1..=128, complaint)?;
        }
        "omit" => line.omit_s = whole(text, 0..=600, "bogus value for --omit")?,
        "title" => line.title = Some(text.to_owned()),
        "extra-data" => line.extra_data = Some(text.to_owned()),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Where to, and how the sockets are.
fn of_sockets(line: &mut Line, name: &str, text: &str) -> Parsed<bool> {
    match name {
        "client" => line.host = Some(client_host(text)?),
        "connect-timeout" => {
            line.connect_timeout_ms =
                Some(whole(text, 1..=86_400_000, "bad value for --connect-timeout")?);
        }
        "cport" => line.cport = Some(port(text)?),
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
            line.mss = Some(whole(text, 0..=32_767, complaint)?).filter(|m| *m > 0);
        }
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
        _ => return Ok(false),
    }
    Ok(true)
}

/// Of which only one may be given.
const ENDS: &[&str] = &["time", "bytes", "blockcount"];

/// Faults of combinations.
fn fits_together(line: &mut Line, given: &[(&str, Side)]) -> Parsed<()> {
    let is_given = |option| given.iter().any(|(name, _)| *name == option);
    let has_side = |wanted| given.iter().any(|(_, side)| *side == wanted);
    let server = is_given("server");
    match (server, line.host.is_some()) {
        (true, true) => return wrong("cannot be both server and client"),
        (false, false) => return wrong("must either be a client (-c) or server (-s)"),
        _ => {}
    }
    if server && has_side(Side::Client) {
        return wrong("some option you are trying to set is client only");
    }
    if !server && has_side(Side::Server) {
        return wrong("some option you are trying to set is server only");
    }
    if server {
        fits_a_server(line)?;
    }
    let ends = given.iter().filter(|(name, _)| ENDS.contains(name)).count();
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
        let idle = [
            ("use-pkcs1-padding", line.pkcs1),
            ("time-skew-threshold", line.time_skew_s.is_some()),
        ];
        for (name, _) in idle.iter().filter(|(_, given)| *given) {
            line.notes.push(format!("--{name} changes nothing here: no user is proven"));
        }
    }
    if line.json && line.format.is_some() {
        line.notes.push("Report format (-f) flag ignored with JSON output (-J)".into());
    }
    match line.length {
        Some(length) if line.udp && !(16..=65_507).contains(&length) => {
            wrong("block size invalid (minimum = 16 bytes, maximum = 65507 bytes)")
        }
        Some(length) if !line.udp && !(1..=1_048_576).contains(&length) => {
            wrong("block size too large (maximum = 1048576 bytes)")
        }
        _ => Ok(()),
    }
}

/// What has a meaning of its own with `-s`.
fn fits_a_server(line: &mut Line) -> Parsed<()> {
    if line.affinity.1.is_some() {
        return wrong("some option you are trying to set is client only");
    }
    match (line.bind, line.ip) {
        (Some(bind), Some(ip)) if bind.is_ipv4() != (ip == 4) => {
            return wrong(format!("-{ip} and -B {bind} do not go together"));
        }
        _ => {}
    }
    if line.idle_timeout_s.is_some() && !line.one_off {
        let why = "this server never gets stuck and has nothing to restart";
        line.notes.push(format!("--idle-timeout changes nothing here without -1: {why}"));
    }
    Ok(())
}
