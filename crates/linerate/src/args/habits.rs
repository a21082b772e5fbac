//! Command lines as users of iperf3 type them, and what to type instead.

use std::ffi::OsString;

use clap::CommandFactory as _;
use linerate_model::record::ErrorRecord;
use linerate_model::units::BitRate;
use linerate_report::clean::shell_word;

use crate::args::Cli;
use linerate_ask::{iperf3, usage};

/// For a command line that could not be understood: what it asks for, if that can be seen.
pub fn explain(argv: &[OsString], verb: Option<&str>) -> Option<ErrorRecord> {
    let words: Vec<String> =
        argv.iter().skip(1).map(|w| w.to_str().map(str::to_owned)).collect::<Option<_>>()?;
    let first = words.first()?.as_str();
    let rest = words.get(1..).unwrap_or_default();
    match (verb, first) {
        (Some("udp" | "tcp" | "rr"), _) => within_a_verb(&words),
        (Some(_), _) => None,
        (None, "client") => {
            let host = if rest.is_empty() { vec!["HOST".to_owned()] } else { rest.to_vec() };
            as_iperf3(&[vec!["-c".to_owned()], host].concat())
        }
        (None, "server") => as_iperf3(&[vec!["-s".to_owned()], rest.to_vec()].concat()),
        (None, host) if !host.starts_with('-') && host.contains(['.', ':']) => {
            let (udp, tcp) = (format!("linerate udp {host}"), format!("linerate tcp {host}"));
            Some(usage::error(
                "no command was given",
                format!("`{host}` looks like a host, and what to measure goes before it"),
                &[&tcp, &udp],
            ))
        }
        _ => as_iperf3(&words),
    }
}

/// `linerate udp -c HOST`, `linerate tcp -s`.
fn within_a_verb(words: &[String]) -> Option<ErrorRecord> {
    if words.iter().any(|w| w == "-s" || w == "--server") {
        return Some(usage::error(
            "a test runs at the client",
            "the server answers tests of every kind, and has a command of its own",
            &["linerate serve"],
        ));
    }
    let is_client = |w: &&String| *w == "-c" || *w == "--client" || w.starts_with("--client=");
    words.iter().find(is_client)?;
    let bare = |w: &String| match w.strip_prefix("--client=") {
        Some(host) => Some(host.to_owned()),
        None if w == "-c" || w == "--client" => None,
        None => Some(w.clone()),
    };
    let native = ["linerate".to_owned()].into_iter().chain(words.iter().filter_map(bare));
    Some(usage::error(
        "cannot use `-c` here",
        "the host stands by itself",
        &[&line(&native.collect::<Vec<_>>())],
    ))
}

/// What iperf3 would have understood, as the commands that do it here.
fn as_iperf3(words: &[String]) -> Option<ErrorRecord> {
    let pairs = iperf3::pairs(words)?;
    let is_asked = |name: &str| pairs.iter().any(|(n, _)| *n == name);
    if !is_asked("client") && !is_asked("server") {
        return None;
    }
    let native = native(&pairs);
    let face = [vec!["linerate".to_owned(), "iperf3".to_owned()], words.to_vec()].concat();
    let face = format!("{}: the same words, as iperf3 takes them", line(&face));
    // A command that would not work is no help.
    let works = Cli::command().try_get_matches_from(&native).is_ok();
    let native = line(&native);
    let hints: Vec<&str> =
        works.then_some(native.as_str()).into_iter().chain([face.as_str()]).collect();
    Some(usage::error(
        "these are options of iperf3",
        "linerate has a command for each kind of test and for the server",
        &hints,
    ))
}

fn line(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// iperf3's options as words of linerate; those without a counterpart are left out.
fn native(pairs: &[(&'static str, Option<String>)]) -> Vec<String> {
    let value_of = |name: &str| {
        let found = pairs.iter().rev().find(|(n, _)| *n == name);
        found.and_then(|(_, value)| value.clone())
    };
    let is_asked = |name: &str| pairs.iter().any(|(n, _)| *n == name);
    let mut words = vec!["linerate".to_owned()];
    let udp = is_asked("udp");
    match value_of("client") {
        Some(host) => words.extend([if udp { "udp" } else { "tcp" }.to_owned(), host]),
        None => words.push("serve".to_owned()),
    }
    let client = is_asked("client");
    let streams = value_of("parallel").and_then(|n| n.parse().ok()).unwrap_or(1);
    for (name, value) in pairs {
        let value = value.clone().unwrap_or_default();
        let (option, value) = match *name {
            "port" => ("-p", Some(value)),
            "bind" => ("-B", Some(value)),
            "one-off" => ("--one-off", None),
            _ if !client => continue,
            "bitrate" | "bandwidth" => ("-b", Some(rate(&value, streams))),
            "time" => ("-t", Some(value)),
            "bytes" => ("-n", Some(binary(&value))),
            "blockcount" if udp => ("-k", Some(value)),
            "parallel" => ("-P", Some(value)),
            "reverse" => ("-R", None),
            "bidir" => ("--both", None),
            "length" => ("-l", Some(binary(&value))),
            "window" => ("-w", Some(binary(&value))),
            "interval" if value != "0" => ("-i", Some(value)),
            "omit" => ("-O", Some(value)),
            "version4" => ("-4", None),
            "version6" => ("-6", None),
            "dscp" => ("--dscp", Some(value)),
            "congestion" | "linux-congestion" if !udp => ("-C", Some(value)),
            "set-mss" if !udp => ("-M", Some(value)),
            "no-delay" if !udp => ("-N", None),
            "zerocopy" if !udp => ("--tx", Some("sendfile".to_owned())),
            "json" => ("--json", None),
            "json-stream" => ("--json-lines", None),
            _ => continue,
        };
        words.push(option.to_owned());
        words.extend(value);
    }
    words
}

/// iperf3's rate is of each stream, linerate's of all; a burst has no counterpart.
fn rate(text: &str, streams: u64) -> String {
    let text = text.split('/').next().unwrap_or(text);
    let Some(each) = text.parse::<BitRate>().ok().filter(|_| streams > 1) else {
        return text.to_owned();
    };
    let all = each.bits_per_second().saturating_mul(streams);
    let unit = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    match unit.into_iter().find(|(scale, _)| all.is_multiple_of(*scale)) {
        Some((scale, letter)) => format!("{}{letter}", all / scale),
        None => all.to_string(),
    }
}

/// iperf3's K, M, G of bytes are of 1024.
fn binary(text: &str) -> String {
    let scaled = text.ends_with(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T']);
    if scaled { format!("{text}i") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(line: &str) -> Vec<String> {
        let argv = std::iter::once("linerate").chain(line.split_whitespace()).map(OsString::from);
        let error = crate::args::parse(argv.collect()).expect_err(line);
        assert_eq!(error.exit_code, 2);
        error.hints
    }

    #[test]
    fn habits_of_iperf3_get_the_command_to_type() {
        for (typed, command) in [
            ("-c hydra2", "linerate tcp hydra2"),
            ("-s", "linerate serve"),
            ("-s -p 6000 -1 -D", "linerate serve -p 6000 --one-off"),
            ("-u -c hydra2 -b 1G", "linerate udp hydra2 -b 1G"),
            ("-uc hydra2 -b10M/5 -P 4 -R", "linerate udp hydra2 -b 40M -P 4 -R"),
            ("--client hydra2 --time 5 --json", "linerate tcp hydra2 -t 5 --json"),
            (
                "-c hydra2 -n 1M -l 128K -w 4M -Z",
                "linerate tcp hydra2 -n 1Mi -l 128Ki -w 4Mi --tx sendfile",
            ),
            ("-c hydra2 -i 0 -T title", "linerate tcp hydra2"),
            ("client hydra2 -u", "linerate udp hydra2"),
            ("client", "linerate tcp HOST"),
            ("server", "linerate serve"),
            ("udp -c hydra2 -b 1G", "linerate udp hydra2 -b 1G"),
            ("tcp --client=hydra2 -R", "linerate tcp hydra2 -R"),
            ("tcp -s", "linerate serve"),
            ("192.0.2.7", "linerate tcp 192.0.2.7"),
        ] {
            assert_eq!(hints(typed).first().map(String::as_str), Some(command), "{typed}");
            let words = command.split_whitespace();
            assert!(Cli::command().try_get_matches_from(words).is_ok(), "{command}");
        }
        let face = "linerate iperf3 -u -c h -b 1G: the same words, as iperf3 takes them";
        assert_eq!(hints("-u -c h -b 1G")[1], face);
        // What has no counterpart still has the face.
        assert_eq!(hints("-c h -t 0").len(), 2);
    }

    #[test]
    fn what_iperf3_would_not_understand_is_not_explained_by_it() {
        for typed in ["frobnicate", "upd h", "-t 5", "udp h --frobnicate", "--frobnicate"] {
            assert!(hints(typed).iter().all(|hint| !hint.contains("iperf3")), "{typed}");
        }
    }
}
