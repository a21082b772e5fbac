//! What a control connection and its TCP data streams open with.

/// Bytes of a cookie on the wire: 36 characters and a zero.
pub const COOKIE_BYTES: usize = 37;

/// Letters of a cookie made by iperf3 from 3.2 on: base32, lower case.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Names a test. Chosen by the client, first thing on the control connection and on every TCP data
/// connection. Not a secret: it travels in the clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie([u8; COOKIE_BYTES]);

impl Cookie {
    /// A new cookie out of 36 random bytes.
    pub fn from_random(random: [u8; COOKIE_BYTES - 1]) -> Self {
        let mut bytes = [0; COOKIE_BYTES];
        for (byte, random) in bytes.iter_mut().zip(random) {
            *byte = ALPHABET.get(usize::from(random % 32)).copied().unwrap_or(b'a');
        }
        Self(bytes)
    }

    /// Any 37 bytes: releases up to 3.1 send host name and time instead of random letters.
    pub const fn from_bytes(bytes: [u8; COOKIE_BYTES]) -> Self {
        Self(bytes)
    }

    /// As it travels.
    pub const fn bytes(&self) -> &[u8; COOKIE_BYTES] {
        &self.0
    }

    /// Whether `start`, the first bytes of a connection, may be a cookie's: printable ASCII, which
    /// host names, times and base32 are, and which linerate's own preamble is not.
    pub fn may_begin_with(start: &[u8]) -> bool {
        start.iter().all(u8::is_ascii_graphic)
    }

    /// Whether the bytes are some release's cookie: printable up to a zero, and one is there. Keeps
    /// out what other protocols open with.
    pub fn is_plausible(&self) -> bool {
        let end = self.0.iter().position(|byte| *byte == 0);
        end.is_some_and(|end| end > 0 && self.0.iter().take(end).all(u8::is_ascii_graphic))
    }

    /// The characters before the zero, as iperf3 shows them in `start.cookie`.
    pub fn text(&self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(COOKIE_BYTES);
        String::from_utf8_lossy(self.0.get(..end).unwrap_or_default()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_cookies_look_like_those_of_iperf3() {
        let mut random = [0; 36];
        for (i, byte) in random.iter_mut().enumerate() {
            *byte = i as u8 * 7;
        }
        let cookie = Cookie::from_random(random);
        assert!(cookie.is_plausible());
        assert_eq!(cookie.bytes()[36], 0);
        let text = cookie.text();
        assert_eq!(text.len(), 36);
        assert!(text.bytes().all(|b| ALPHABET.contains(&b)));
        assert_eq!(Cookie::from_bytes(*cookie.bytes()), cookie);
    }

    #[test]
    fn other_openings_are_told_apart() {
        assert!(!Cookie::may_begin_with(&crate::native::PREAMBLE));
        assert!(!Cookie::may_begin_with(&crate::native::stream::TCP_OPENING));
        assert!(!Cookie::may_begin_with(b"GET / HT"));
        assert!(!Cookie::may_begin_with(b"\x16\x03\x01\x02"));
        assert!(!Cookie::from_bytes([0; 37]).is_plausible());
        assert!(!Cookie::from_bytes([b'a'; 37]).is_plausible());
        let mut old = [0; 37];
        old[..36].copy_from_slice(b"host-a.1425489.123456.0123456789abcd");
        assert!(Cookie::may_begin_with(&old[..8]));
        assert!(Cookie::from_bytes(old).is_plausible());
    }
}
