//! Advice that names an option is tried where it was given: the test runs without and with it in turn.

use super::bench::{self, Beside};
use super::cases::Case;
use crate::support::list;

/// What arrives with the advice, of what arrives without: less is worse, and not only noise.
const NOT_WORSE: f64 = 0.85;
/// These do not change a test for the better: they look at it in another way.
const LOOKS: [&str; 2] = ["--reverse", "--time"];

/// Options without a value.
const FLAGS: [&str; 3] = ["--no-checksum", "--send-only", "--udp"];

/// What an advice does to the options: each is a name, with its value where it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Set(Vec<String>),
    LeaveOut(String),
}

/// What `text` says to do, if that is an option: `--window 8Mi: a larger one`, `leave out --rate`.
fn change(text: &str) -> Option<Change> {
    let said = text.split(" (").next()?.split(": ").next()?;
    if let Some(name) = said.strip_prefix("leave out ").filter(|name| name.starts_with("--")) {
        return Some(Change::LeaveOut(name.to_owned()));
    }
    let words: Vec<String> = said.split_whitespace().map(str::to_owned).collect();
    let name = words.first().filter(|name| name.starts_with("--"))?;
    // "--rate: below what it takes" leaves the value to the reader.
    let is_whole = words.len() > 1 || FLAGS.contains(&name.as_str());
    (is_whole && !LOOKS.contains(&name.as_str())).then_some(Change::Set(words))
}

/// The options with that change.
fn changed(options: &str, change: &Change) -> String {
    let name = match change {
        Change::Set(words) => &words[0],
        Change::LeaveOut(name) => name,
    };
    let mut left = vec![];
    let mut words = options.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if word == name {
            words.next_if(|value| !value.starts_with('-'));
        } else {
            left.push(word);
        }
    }
    if let Change::Set(words) = change {
        left.extend(words.iter().map(String::as_str));
    }
    left.join(" ")
}

/// Runs a case for its advice, and so many pairs for each; says which made it worse.
pub fn tried(case: &Case, pairs: usize) -> Vec<String> {
    let figure = |case: &Case| bench::run(case, Beside::Nothing, "1s");
    let Some(first) = figure(case) else { return vec![] };
    let first = match first {
        Ok(outcome) => outcome,
        Err(text) => return vec![format!("{}: {text}", case.name)],
    };
    let advice = list(&first.record["verdict"]["advice"]).iter().filter_map(|a| a.as_str());
    let mut worse = vec![];
    for text in advice {
        let Some(change) = change(text) else { continue };
        let with = Case { options: changed(&case.options, &change), ..case.clone() };
        let mut ratios = vec![];
        for _ in 0..pairs {
            match (figure(case), figure(&with)) {
                (Some(Ok(without)), Some(Ok(with))) => {
                    ratios.push(with.figure() / without.figure().max(1.0));
                }
                (Some(Err(fault)), _) | (_, Some(Err(fault))) => {
                    worse.push(format!("{}: {text}: {fault}", case.name));
                    break;
                }
                _ => return worse,
            }
        }
        ratios.sort_by(f64::total_cmp);
        let Some(median) = ratios.get(ratios.len() / 2) else { continue };
        let row = format!("{:42} {:16} x{median:.2} by {text}", case.name, first.limit());
        println!("{} {row}", if *median < NOT_WORSE { "WORSE" } else { "ok   " });
        if *median < NOT_WORSE {
            worse.push(row);
        }
    }
    worse
}

#[test]
fn options_are_found_in_advice() {
    let set = |words: &str| Some(Change::Set(words.split(' ').map(str::to_owned).collect()));
    assert_eq!(change("--window 8Mi: a larger send buffer"), set("--window 8Mi"));
    assert_eq!(change("--window 8Mi"), set("--window 8Mi"));
    assert_eq!(change("--cpu /2 (core 1 also takes the NIC's interrupts)"), set("--cpu /2"));
    assert_eq!(change("--no-checksum: less work"), set("--no-checksum"));
    assert_eq!(
        change("leave out --rate: as fast as it goes"),
        Some(Change::LeaveOut("--rate".into()))
    );
    assert_eq!(change("--rate: below what it takes"), None);
    assert_eq!(change("--reverse: shows whether one direction alone loses"), None);
    assert_eq!(
        change("sysctl -w net.core.rmem_max=1 on the server (2 now), which --window needs"),
        None
    );
    let options = "udp -R --rate 20M --cpu 0/1 -l 1400";
    let rate = change("--rate 9M: near what arrived").unwrap();
    assert_eq!(changed(options, &rate), "udp -R --cpu 0/1 -l 1400 --rate 9M");
    let none = change("leave out --cpu").unwrap();
    assert_eq!(changed(options, &none), "udp -R --rate 20M -l 1400");
}
