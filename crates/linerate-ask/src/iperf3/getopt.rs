//! Words as GNU getopt_long reads them: short options joined or apart, long ones cut short as far as
//! they stay unique, values after `=` or as the next word.

use super::table::{OPTIONS, Side, Takes};
use super::{Parsed, Stop, wrong};

/// The words of a command line as options and values, by long name.
pub(super) fn options(args: &[String]) -> Parsed<Vec<(&'static str, Side, Option<String>)>> {
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
