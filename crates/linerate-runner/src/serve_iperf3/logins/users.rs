//! The file of users, and the tokens that were taken.

use std::collections::HashMap;

use linerate_wire::iperf3::Token;
use linerate_wire::native::auth::{equal, to_hex};
use sha2::{Digest, Sha256};

/// Tokens remembered at most; above it logins are refused rather than forgotten.
const MOST_SEEN: usize = 65_536;

/// Whether the file's text has that user with that password. Every line is compared whole, so that
/// the time says nothing about which names exist.
pub(super) fn knows(file: &str, token: &Token) -> bool {
    let text = format!("{{{}}}{}", token.user, token.password);
    let shown = to_hex(&Sha256::digest(text.as_bytes()));
    let mut known = false;
    for (user, hash) in lines(file) {
        let same_user = equal(user.as_bytes(), token.user.as_bytes());
        known |= same_user & equal(hash.to_ascii_lowercase().as_bytes(), shown.as_bytes());
    }
    known
}

/// Name and hash of each user; comments and what is no such line are left out.
pub(super) fn lines(file: &str) -> impl Iterator<Item = (&str, &str)> {
    file.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(','))
        .map(|(user, hash)| (user.trim(), hash.trim()))
        .filter(|(user, hash)| {
            !user.is_empty() && hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit())
        })
}

/// Tokens that were taken, by the hash of what travelled, until their time has passed.
#[derive(Debug, Default)]
pub(super) struct Seen(HashMap<[u8; 32], i64>);

impl Seen {
    /// Notes a token that is good until `until_s`; `false` when it was seen before, or when there
    /// is no room to remember it.
    pub(super) fn first(&mut self, token: [u8; 32], until_s: i64, now_s: i64) -> bool {
        self.0.retain(|_, until| *until >= now_s);
        if self.0.len() >= MOST_SEEN || self.0.contains_key(&token) {
            return false;
        }
        self.0.insert(token, until_s);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_file_is_read_and_lets_nobody_in_by_chance(file in "(\\PC|[\n\r,#{}]|[0-9a-f]{64}){0,60}", name in "[a-z#,]{0,4}") {
            for (user, hash) in lines(&file) {
                prop_assert!(!user.is_empty() && !user.starts_with('#') && hash.len() == 64);
            }
            prop_assert!(!knows(&file, &token(&name, "rossi")));
        }
    }

    /// `printf '{mario}rossi' | sha256sum`, the example of iperf3's manual.
    const MARIO: &str = "bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b";

    fn token(user: &str, password: &str) -> Token {
        Token { user: user.into(), password: password.into(), time_s: 0 }
    }

    #[test]
    fn the_file_of_the_manual() {
        let file = format!("# users\n\nluigi,zz\n mario , {MARIO}\r\n#eve,{MARIO}\n,{MARIO}\n");
        assert_eq!(lines(&file).collect::<Vec<_>>(), [("mario", MARIO)]);
        assert!(knows(&file, &token("mario", "rossi")));
        assert!(knows(
            &file.to_ascii_uppercase().replace("MARIO", "mario"),
            &token("mario", "rossi")
        ));
        for (user, password) in
            [("mario", "Rossi"), ("luigi", "rossi"), ("", "rossi"), ("mario}rossi", "")]
        {
            assert!(!knows(&file, &token(user, password)), "{user} {password}");
        }
        assert!(!knows("", &token("mario", "rossi")));
    }

    #[test]
    fn a_token_is_taken_once_until_its_time_has_passed() {
        let mut seen = Seen::default();
        assert!(seen.first([1; 32], 20, 10));
        assert!(!seen.first([1; 32], 20, 10));
        assert!(!seen.first([1; 32], 20, 20), "the last second of its life");
        assert!(seen.first([2; 32], 30, 20));
        assert!(seen.first([1; 32], 41, 21));
        assert_eq!(seen.0.len(), 2);
        for number in 0..MOST_SEEN as u64 {
            let mut token = [0; 32];
            token[..8].copy_from_slice(&number.to_be_bytes());
            // As one map access each: pruning is looked at above.
            seen.0.insert(token, 50);
        }
        assert!(!seen.first([3; 32], 50, 21), "full: refused, not forgotten");
    }
}
