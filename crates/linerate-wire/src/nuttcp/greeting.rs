//! The first words of both ends.

/// How a line with a release begins, without the `v` before its number.
const PREFIX: &str = "HELO nuttcp v";

/// Characters of a release.
const MOST_RELEASE: usize = 20;

/// What this end says first, whichever it is.
pub const HELLO: &[u8] = b"HELO nuttcp v8.2.2\n";

/// The same, of the same release to whoever reads its numbers, as all of nuttcp's do: its answer is its own greeting, while
/// a service that gives back what it hears gives this back.
pub const QUESTION: &[u8] = b"HELO nuttcp v8.2.02\n";

/// The server's data ports wait: data may come.
pub const OK: &[u8] = b"OK v8.2.2\n";

/// The other end's release as it says it, of a line without its end; nothing else is a greeting.
pub fn release(line: &[u8]) -> Option<&str> {
    let release = std::str::from_utf8(line).ok()?.strip_prefix(PREFIX)?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'-';
    (release.len() <= MOST_RELEASE && !release.is_empty() && release.bytes().all(plain))
        .then_some(release)
}

/// The three numbers of a release.
pub type Release = [u32; 3];

/// What a release's name says; one that is no three numbers is of the newest.
pub fn numbers(release: &str) -> Release {
    let mut parts = release.split('.').map(|part| part.parse().ok());
    let mut next = || parts.next().flatten();
    match (next(), next(), next()) {
        (Some(major), Some(minor), Some(patch)) => [major, minor, patch],
        _ => [u32::MAX; 3],
    }
}

/// Whether what was heard first, after the [`QUESTION`], is a greeting and no echo, with its line's end; `None` while it may become one.
pub fn is_one(heard: &[u8]) -> Option<bool> {
    match heard.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = heard.get(..end).unwrap_or_default();
            let echoed = line == QUESTION.trim_ascii_end();
            Some(release(line.trim_ascii_end()).is_some() && !echoed)
        }
        None => {
            let begins = heard.iter().zip(PREFIX.as_bytes()).all(|(heard, wanted)| heard == wanted);
            (!begins || heard.len() > PREFIX.len() + MOST_RELEASE).then_some(false)
        }
    }
}

/// Why there is no test, in one line that the client shows its user.
pub fn refusal(why: &str) -> Vec<u8> {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let why: String = why.chars().map(plain).collect();
    format!("KO\n{why}\nKO\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_what_was_captured() {
        assert_eq!(release(b"HELO nuttcp v8.2.2"), Some("8.2.2"));
        assert_eq!(release(b"HELO nuttcp v6.1.2"), Some("6.1.2"));
        assert_eq!(release(HELLO.trim_ascii_end()), Some(crate::nuttcp::VERSION));
        for bad in ["HELO nuttcp v", "HELO nuttcp 8.2.2", "HELO", "", "HELO nuttcp v8\u{1b}[2J"] {
            assert_eq!(release(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(release(b"HELO nuttcp v\xff"), None);
    }

    #[test]
    fn a_greeting_is_known_when_its_line_is_whole() {
        for part in 0..HELLO.len() {
            assert_eq!(is_one(&HELLO[..part]), None, "{part}");
        }
        for whole in [&b"HELO nuttcp v6.1.2\n"[..], b"HELO nuttcp v8.2.2\r\nmore"] {
            assert_eq!(is_one(whole), Some(true));
        }
        assert_eq!(is_one(QUESTION), Some(false), "an echo");
        assert_eq!((0..QUESTION.len()).find_map(|part| is_one(&QUESTION[..part])), None);
        assert_eq!(
            numbers(release(QUESTION.trim_ascii_end()).unwrap()),
            numbers(crate::nuttcp::VERSION)
        );
        let endless = [&b"HELO nuttcp v"[..], &[b'8'; 30]].concat();
        for other in [&b"KO\n"[..], b"K", b"\n", b"HELO nuttcp v\n", &endless] {
            assert_eq!(is_one(other), Some(false));
        }
    }

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!((numbers("6.1.2"), numbers("8.2.02")), ([6, 1, 2], [8, 2, 2]));
        assert!(numbers("10.0.0") > numbers("6.1.4") && numbers("5.10.9") < [6, 1, 4]);
        assert!(numbers("x") > [9; 3] && numbers("6.1") > [9; 3]);
    }

    #[test]
    fn a_refusal_is_one_line_whatever_it_says() {
        assert_eq!(refusal("no\nKO\u{1b}"), b"KO\nno KO \nKO\n");
    }
}
