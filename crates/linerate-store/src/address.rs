//! Addresses of databases.

use std::fmt;

/// How the address of a database of PostgreSQL begins.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// The address of a database, `postgres://USER@HOST:PORT/NAME`. It may have a password in it, which is shown to
/// nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// Of a text that begins as addresses do; nothing of any other.
    pub fn of(text: &str) -> Option<Self> {
        SCHEMES.iter().any(|scheme| text.starts_with(scheme)).then(|| Self(text.to_owned()))
    }
}

impl Address {
    /// Whole, with its password.
    #[cfg(feature = "postgres")]
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        let begin = text.find("://").map_or(0, |at| at.saturating_add(3));
        let (scheme, rest) = text.split_at_checked(begin).unwrap_or(("", text));
        f.write_str(scheme)?;
        // The last one: a password that was not encoded may have others.
        let (user, rest) =
            rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
        match user.map(|user| (user, user.split_once(':'))) {
            Some((_, Some((name, _)))) => write!(f, "{name}:***@")?,
            // An option with a password that was not encoded.
            Some((user, None)) if user.contains('?') => f.write_str("***@")?,
            Some((user, None)) => write!(f, "{user}@")?,
            None => {}
        }
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        f.write_str(rest)?;
        for (number, option) in options.split('&').filter(|option| !option.is_empty()).enumerate() {
            f.write_str(if number == 0 { "?" } else { "&" })?;
            match option.split_once('=') {
                Some(("password", _)) => f.write_str("password=***")?,
                _ => f.write_str(option)?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_from_a_file_and_shows_no_password() {
        for (text, seen) in [
            ("postgres://a:s3cret@h:5/d", "postgres://a:***@h:5/d"),
            ("postgresql://a:s3c/r@et@h/d?x=1", "postgresql://a:***@h/d?x=1"),
            ("postgres://a@h/d", "postgres://a@h/d"),
            ("postgres://h/d?password=s3c@ret", "postgres://***@ret"),
            ("postgres:///d?password=s3cret&host=/run", "postgres:///d?password=***&host=/run"),
            ("postgres://", "postgres://"),
        ] {
            let address = Address::of(text).unwrap();
            assert_eq!(address.to_string(), seen);
            assert!(!format!("{address:?}").contains("s3c"), "{address:?}");
        }
        for text in ["fleet.db", "./postgres:", "postgres", "sqlite://x", ""] {
            assert_eq!(Address::of(text), None, "{text}");
        }
    }
}
