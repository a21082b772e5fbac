//! Words of the command lines, as letters with values, and what stands in the values.

use linerate_model::plan::IpVersion;

/// A letter and its value, empty where it has none.
pub(super) type Option = (char, String);

/// Letters as getopt(3) knows them: one that a colon follows has a value, two of them one that may be left
/// out. Ends at `--`; what follows is the rest.
///
/// # Errors
/// In getopt's words, and the letter.
pub(super) fn letters<'a>(
    known: &str,
    args: &'a [String],
) -> Result<(Vec<Option>, &'a [String]), String> {
    let (mut found, mut rest) = (Vec::new(), args);
    while let [arg, more @ ..] = rest {
        if arg == "--" {
            return Ok((found, more));
        }
        rest = more;
        let Some(word) = arg.strip_prefix('-').filter(|word| !word.is_empty()) else {
            // What is no option is passed over, as there.
            continue;
        };
        let mut word = word.chars();
        while let Some(letter) = word.next() {
            let colons = match known.split_once(letter) {
                Some((_, after)) if letter != ':' => {
                    after.chars().take_while(|c| *c == ':').count()
                }
                _ => return Err(format!("invalid option -- '{letter}'")),
            };
            let mut value = String::new();
            if colons > 0 {
                value = std::mem::replace(&mut word, "".chars()).collect();
                let next =
                    rest.split_first().filter(|(next, _)| colons == 1 || !next.starts_with('-'));
                match (value.is_empty(), next) {
                    (true, Some((next, more))) => {
                        value.clone_from(next);
                        rest = more;
                    }
                    (true, None) if colons == 1 => {
                        return Err(format!("option requires an argument -- '{letter}'"));
                    }
                    _ => {}
                }
            }
            found.push((letter, value));
        }
    }
    Ok((found, rest))
}

/// Whether a user asks for help as of any other command of linerate's.
pub(super) fn wants_help(args: &[String]) -> bool {
    matches!(args, [first, ..] if first == "--help")
}

/// Both parts of `first,second`; of a value without a comma both are it.
pub(super) fn both(text: &str) -> (&str, &str) {
    text.split_once(',').unwrap_or((text, text))
}

/// The same, but a value without a comma is the first alone.
pub(super) fn parts(text: &str) -> (&str, &str) {
    text.split_once(',').unwrap_or((text, ""))
}

/// A number, with a letter behind it: small ones are of 1000, large ones of 1024.
fn scaled(text: &str) -> std::option::Option<u64> {
    let factor = match text.chars().next_back() {
        Some('k') => 1_000,
        Some('m') => 1_000_000,
        Some('g') => 1_000_000_000,
        Some('K') => 1 << 10,
        Some('M') => 1 << 20,
        Some('G') => 1 << 30,
        _ => 1,
    };
    let digits = text.trim_end_matches(|c: char| factor > 1 && c.is_ascii_alphabetic());
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Such a number of bytes, as far as messages carry it.
pub(super) fn size(text: &str) -> Result<u32, String> {
    let bytes = scaled(text).and_then(|bytes| i32::try_from(bytes).ok());
    bytes.map(i32::unsigned_abs).ok_or_else(|| format!("{text} is no number of bytes"))
}

/// Seconds, or as many bytes or transactions below 0; with letters as of sizes.
pub(super) fn length(text: &str) -> Result<i64, String> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |units| (-1, units));
    let length = scaled(digits).and_then(|length| i64::try_from(length).ok());
    length.map(|length| sign * length).ok_or_else(|| {
        format!("{text} is no number of seconds, or below 0 of bytes or transactions")
    })
}

/// Nothing where nothing is said.
pub(super) fn maybe<T, E>(
    text: &str,
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<std::option::Option<T>, E> {
    if text.is_empty() { Ok(None) } else { read(text).map(Some) }
}

/// A type of service: a number, or the name of a code point.
pub(crate) fn service(text: &str) -> Result<u8, String> {
    let wrong = || format!("{text} is no type of service: 0 to 255, 0x.., CS1, AF11, EF");
    let digit = |text: &str| text.parse::<u8>().map_err(|_| wrong());
    let upper = text.to_ascii_uppercase();
    if let Some(hex) = upper.strip_prefix("0X") {
        return u8::from_str_radix(hex, 16).map_err(|_| wrong());
    }
    if upper == "EF" {
        return Ok(0xb8);
    }
    if let Some(class) = upper.strip_prefix("CS") {
        return digit(class).and_then(|n| if n < 8 { Ok(n << 5) } else { Err(wrong()) });
    }
    if let Some(class) = upper.strip_prefix("AF") {
        return match class.as_bytes() {
            [x @ b'1'..=b'4', y @ b'1'..=b'3'] => Ok(((x - b'0') << 5) | ((y - b'0') << 3)),
            _ => Err(wrong()),
        };
    }
    digit(text)
}

/// A family of addresses; none where any will do.
pub(super) fn family(text: &str) -> Result<std::option::Option<IpVersion>, String> {
    match text.to_ascii_lowercase().trim_start_matches("af_") {
        "" | "0" | "unspec" => Ok(None),
        "4" | "inet" => Ok(Some(IpVersion::V4)),
        "6" | "inet6" => Ok(Some(IpVersion::V6)),
        other => Err(format!("no family of addresses is called {other}")),
    }
}

/// A whole number.
pub(super) fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("{text} is no number that can be meant here"))
}
