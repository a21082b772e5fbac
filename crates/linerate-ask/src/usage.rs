//! Errors that are found before any packet: wrong words, wrong numbers, options that exclude each
//! other. All take the shape of every other error: what, why, what to try.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use linerate_model::limits::{self, Limit, OutOfRange, Unit};
use linerate_model::plan::ONE_DATAGRAM;
use linerate_model::record::{ErrorKind as Kind, ErrorRecord};
use linerate_model::units::{BitRate, Nanos, grouped};

/// Why what is asked for makes no sense, and by which options: whoever has them from a file can say
/// where they stand.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// As on the command line: `--window`.
    pub options: Vec<String>,
    /// For the user.
    pub error: Box<ErrorRecord>,
}

impl From<ErrorRecord> for Refusal {
    fn from(error: ErrorRecord) -> Self {
        Self { options: Vec::new(), error: Box::new(error) }
    }
}

impl From<Refusal> for ErrorRecord {
    fn from(refusal: Refusal) -> Self {
        *refusal.error
    }
}

/// The same, for what these options say.
pub fn refusal(
    options: &[&str],
    what: impl Into<String>,
    why: impl Into<String>,
    hints: &[&str],
) -> Refusal {
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    Refusal { options, error: Box::new(error(what, why, hints)) }
}

/// A usage error.
pub fn error(what: impl Into<String>, why: impl Into<String>, hints: &[&str]) -> ErrorRecord {
    ErrorRecord::new(Kind::Usage, what, why, hints)
}

/// The same for what clap found in the arguments of `verb`.
pub fn from_clap(error: &clap::Error, verb: Option<&str>) -> ErrorRecord {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(s)) => Some(s.clone()),
        Some(ContextValue::Strings(s)) => Some(s.join(", ")),
        Some(ContextValue::StyledStr(s)) => Some(s.to_string()),
        Some(ContextValue::StyledStrs(s)) => {
            Some(s.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        }
        _ => None,
    };
    let rendered = error.to_string();
    let first = rendered.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let (what, why) = match error.kind() {
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let option = text(ContextKind::InvalidArg).unwrap_or_default();
            let option = option.split_whitespace().next().unwrap_or_default().to_owned();
            let value = text(ContextKind::InvalidValue).unwrap_or_default();
            let why = match std::error::Error::source(error) {
                _ if is_negative(&value) => "it is below zero".to_owned(),
                Some(source) => source.to_string(),
                None if value.is_empty() => format!("{option} needs a value"),
                None => match text(ContextKind::ValidValue) {
                    Some(valid) => format!("it takes one of: {valid}"),
                    None => first.to_owned(),
                },
            };
            (format!("cannot use `{}`", format!("{option} {value}").trim()), why)
        }
        _ => {
            // clap lists what is missing on lines of its own.
            let more: Vec<&str> = rendered
                .lines()
                .skip(1)
                .take_while(|l| !l.trim().is_empty())
                .map(str::trim)
                .collect();
            ("this command line cannot be understood".to_owned(), {
                let mut why = first.trim_end_matches(':').to_owned();
                if !more.is_empty() {
                    why = format!("{why}: {}", more.join(" "));
                }
                why
            })
        }
    };
    let mut hints: Vec<String> = Vec::new();
    if let (ErrorKind::UnknownArgument, Some(word)) = (error.kind(), text(ContextKind::InvalidArg))
        && is_negative(&word)
    {
        hints.push(format!("`{word}` is no option, and no value here may be below zero"));
    }
    if let Some(near) = text(ContextKind::SuggestedArg)
        .or_else(|| text(ContextKind::SuggestedSubcommand))
        .or_else(|| text(ContextKind::SuggestedValue))
    {
        hints.push(format!("a similar one exists: {near}"));
    }
    let verb = verb.map_or("linerate".to_owned(), |v| format!("linerate {v}"));
    hints.push(format!("`{verb} --help` lists what can be given"));
    ErrorRecord::new(Kind::Usage, what, why, &[]).with_hints(hints)
}

/// An error in options of which some may be those of a profile.
#[must_use]
pub fn of_profile(error: ErrorRecord, name: &str) -> ErrorRecord {
    error.hint(format!(
        "the options of the profile `{name}` are taken as if they stood behind the verb"
    ))
}

/// Whether a word begins as a number below zero.
fn is_negative(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The options behind a number that a plan was refused for.
fn options_of(name: &str) -> &'static [&'static str] {
    match name {
        "bytes a stream" => &["--bytes"],
        ONE_DATAGRAM => &["--rate"],
        name => limits::ALL.iter().find(|limit| limit.name == name).map_or(&[], |l| l.options),
    }
}

/// A number outside the table of limits, said with its option and in the user's units.
pub fn out_of_range(found: &OutOfRange) -> Refusal {
    let named = options_of(&found.name);
    let options = named.iter().map(|option| (*option).to_owned()).collect();
    if found.name == ONE_DATAGRAM {
        let error = Box::new(too_slow("--rate", found));
        return Refusal { options, error };
    }
    let named = if named.is_empty() { "an option".to_owned() } else { named.join(" or ") };
    Refusal { error: Box::new(ranged_error(&named, found)), options }
}

/// A rate, given by `option`, at which not even one datagram is sent in the time of the test.
pub fn too_slow(option: &str, found: &OutOfRange) -> ErrorRecord {
    let least = format!("{option} {}: one datagram in this time", found.min);
    error(
        format!("cannot use `{option}`: {} bit/s is less than one datagram", found.value),
        "the time of the test is over before a datagram's turn is, and one sent all the same would be faster than asked",
        &[&least, "a longer --time, or a smaller --size"],
    )
}

fn ranged_error(option: &str, found: &OutOfRange) -> ErrorRecord {
    let (name, unit) = found.quantity();
    let show = |value: u64| match unit {
        Unit::Nanoseconds => Nanos(value).to_string(),
        Unit::BitsPerSecond => BitRate::new(value).map_or("0 bit/s".to_owned(), |r| r.to_string()),
        Unit::Count => grouped(value),
    };
    let reason = limits::ALL
        .iter()
        .find(|l| l.name == found.name)
        .map(|l| l.why)
        .filter(|why| !why.is_empty())
        .map(|why| format!(" ({why})"))
        .unwrap_or_default();
    error(
        format!("cannot use `{option}`: {name} would be {}", show(found.value)),
        format!("it must be {} to {}{reason}", show(found.min), show(found.max)),
        &[],
    )
}

/// `value`, if the table of limits allows it for `option`.
pub fn within(option: &str, limit: &Limit, value: u64) -> Result<u64, Refusal> {
    limit.check(value).map(|()| value).map_err(|found| Refusal {
        options: vec![option.to_owned()],
        error: Box::new(ranged_error(option, &found)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_an_option() {
        // What only iperf3's peers negotiate is worded by its face.
        for limit in limits::ALL.iter().filter(|limit| !limit.name.starts_with("iperf3 ")) {
            assert!(!options_of(limit.name).is_empty(), "{}", limit.name);
        }
    }

    #[test]
    fn numbers_are_refused_in_the_users_units() {
        let found = limits::DURATION_NS.check(172_800_000_000_000).unwrap_err();
        let error = out_of_range(&found).error;
        assert_eq!(error.what, "cannot use `--time`: duration would be 172800 s");
        assert_eq!(error.why, "it must be 1 ms to 86400 s (one day; longer runs are campaigns)");
        let found = OutOfRange { name: ONE_DATAGRAM.into(), value: 1, min: 1_178, max: 9_999 };
        let error = out_of_range(&found).error;
        assert_eq!(error.what, "cannot use `--rate`: 1 bit/s is less than one datagram");
        assert_eq!(error.hints[0], "--rate 1178: one datagram in this time");
        let refused = within("--streams", &limits::STREAMS, 500).unwrap_err();
        assert_eq!(refused.options, ["--streams"]);
        let error = refused.error;
        assert_eq!(error.what, "cannot use `--streams`: streams would be 500");
        assert_eq!(error.exit_code, 2);
    }
}
