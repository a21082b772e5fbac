//! What iperf3's authentication encrypts: three lines of text. The encryption (RSA with the server's
//! public key; OAEP with SHA-1 from 3.17 on, PKCS#1 v1.5 before) is not this crate's.

/// Who logs in, and when.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// User name; no white space.
    pub user: String,
    /// Password; no white space.
    pub password: String,
    /// Seconds since 1970 on the client's clock.
    pub time_s: i64,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Passwords belong in no log.
        f.debug_struct("Token").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Token {
    /// The text to encrypt; no line feed at its end.
    pub fn encode(&self) -> String {
        format!("user: {}\npwd:  {}\nts:   {}", self.user, self.password, self.time_s)
    }

    /// Reads a decrypted text. Words are split at white space, as iperf3 does. `None` unless it is
    /// such a text, whole.
    pub fn decode(plain: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(plain).ok()?;
        let mut words = text.split_ascii_whitespace();
        let mut field = |name: &str| (words.next()? == name).then(|| words.next())?;
        let user = field("user:")?.to_owned();
        let password = field("pwd:")?.to_owned();
        let time_s = field("ts:")?.parse().ok()?;
        words.next().is_none().then_some(Self { user, password, time_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_iperf3() {
        let token = Token { user: "mario".into(), password: "rossi".into(), time_s: 1_795_000_000 };
        let text = "user: mario\npwd:  rossi\nts:   1795000000";
        assert_eq!(token.encode(), text);
        assert_eq!(Token::decode(text.as_bytes()), Some(token.clone()));
        assert!(!format!("{token:?}").contains("rossi"));
    }

    #[test]
    fn anything_else_is_none() {
        for wrong in [
            "",
            "user: a",
            "user: a\npwd: b\nts: x",
            "user: a\npwd: b\nts: 1 2",
            "pwd: b\nuser: a\nts: 1",
            "user: a\npwd: \nts: 1",
        ] {
            assert_eq!(Token::decode(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Token::decode(b"user: \xff\npwd: b\nts: 1"), None);
    }
}
