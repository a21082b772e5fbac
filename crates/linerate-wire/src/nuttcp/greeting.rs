//! The first words of both ends.

/// How a line with a release begins, without the `v` before its number.
const PREFIX: &str = "HELO nuttcp v";

/// What this end says first, whichever it is.
pub const HELLO: &[u8] = b"HELO nuttcp v8.2.2\n";

/// The server's data ports wait: data may come.
pub const OK: &[u8] = b"OK v8.2.2\n";

/// How every greeting begins.
pub const FIRST_BYTES: &[u8] = b"HELO nuttcp";

/// The other end's release as it says it, of a line without its end; nothing else is a greeting.
pub fn release(line: &[u8]) -> Option<&str> {
    let release = std::str::from_utf8(line).ok()?.strip_prefix(PREFIX)?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'-';
    (release.len() <= 20 && !release.is_empty() && release.bytes().all(plain)).then_some(release)
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
        assert!(HELLO.starts_with(FIRST_BYTES));
        for bad in ["HELO nuttcp v", "HELO nuttcp 8.2.2", "HELO", "", "HELO nuttcp v8\u{1b}[2J"] {
            assert_eq!(release(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(release(b"HELO nuttcp v\xff"), None);
    }

    #[test]
    fn a_refusal_is_one_line_whatever_it_says() {
        assert_eq!(refusal("no\nKO\u{1b}"), b"KO\nno KO \nKO\n");
    }
}
