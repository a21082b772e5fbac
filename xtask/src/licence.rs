//! Licences of everything that is linked, for where `cargo deny` is not to be had. `deny.toml` has
//! the same list; a test keeps them the same.

use crate::{list, metadata, text};

const ALLOWED: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unlicense",
    "0BSD",
];

pub fn run() -> Result<String, Vec<String>> {
    let platform = ["--filter-platform", "x86_64-unknown-linux-gnu"];
    let metadata = metadata(&[&platform[..], &["--locked", "--all-features"]].concat())?;
    let packages = list(&metadata["packages"]);
    let faults: Vec<String> = packages
        .iter()
        .filter(|package| !allowed(text(&package["license"])))
        .map(|package| {
            let licence = text(&package["license"]);
            format!("{} {}: licence `{licence}`", text(&package["name"]), text(&package["version"]))
        })
        .collect();
    if faults.is_empty() {
        Ok(format!("{} packages under allowed licences", packages.len()))
    } else {
        Err(faults)
    }
}

/// Whether an SPDX expression can be met with allowed licences: AND binds closer than OR.
fn allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = either(&words, &mut at);
    met && at == words.len()
}

fn either(words: &[&str], at: &mut usize) -> bool {
    let mut met = both(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        // Not `||`: the right side must be read in any case.
        met |= both(words, at);
    }
    met
}

fn both(words: &[&str], at: &mut usize) -> bool {
    let mut met = one(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at);
    }
    met
}

fn one(words: &[&str], at: &mut usize) -> bool {
    let word = words.get(*at);
    // Past the end too, so that an expression that breaks off is none.
    *at += 1;
    let Some(word) = word else { return false };
    if *word == "(" {
        let met = either(words, at);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return met && closed;
    }
    if words.get(*at) == Some(&"WITH") {
        let with = format!("{word} WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
        return ALLOWED.contains(&with.as_str());
    }
    ALLOWED.contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR GPL-3.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "MIT OR Unknown-1.0",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in
            ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT OR", "(MIT", "MIT MIT", "Apache-2.0 WITH x"]
        {
            assert!(!allowed(bad), "{bad}");
        }
    }

    #[test]
    fn deny_toml_has_the_same_list() {
        let deny = std::fs::read_to_string(crate::root().join("deny.toml")).unwrap();
        for licence in ALLOWED {
            assert!(deny.contains(&format!("\"{licence}\"")), "{licence}");
        }
        let allow = deny.split_once("allow = [").unwrap().1.split_once(']').unwrap().0;
        assert_eq!(allow.matches('"').count(), 2 * ALLOWED.len());
    }
}
