//! Commands of a plan: words as a shell would split them, with no shell, and `{NAME}` for hosts.

/// Splits into words: blanks part them, single and double quotes hold them together, a backslash
/// takes the next character as it is (in double quotes only `"` and `\`). Nothing is expanded.
pub fn split(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err("a single quote has no end"),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some(c @ ('"' | '\\')) => word.push(c),
                            Some(c) => word.extend(['\\', c]),
                            None => return Err("a double quote has no end"),
                        },
                        Some(c) => word.push(c),
                        None => return Err("a double quote has no end"),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err("a backslash at the end has nothing to stand before"),
            },
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// A word with its placeholders filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filled {
    /// All were known.
    Text(String),
    /// This one is not.
    Unknown(String),
}

/// Puts `lookup(NAME)` for each `{NAME}`, where NAME is letters, digits, `_` and `-`; any other
/// brace stands for itself, and `{{` and `}}` for one brace.
pub fn fill(word: &str, lookup: impl Fn(&str) -> Option<String>) -> Filled {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let brace = &rest[..1];
        if rest[1..].starts_with(brace) {
            out.push_str(brace);
            rest = &rest[2..];
            continue;
        }
        let name = rest[1..].split_once('}').map(|(name, _)| name).filter(|name| {
            brace == "{"
                && !name.is_empty()
                && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
        });
        match name {
            None => {
                out.push_str(brace);
                rest = &rest[1..];
            }
            Some(name) => match lookup(name) {
                Some(value) => {
                    out.push_str(&value);
                    rest = &rest[name.len() + 2..];
                }
                None => return Filled::Unknown(name.to_owned()),
            },
        }
    }
    out.push_str(rest);
    Filled::Text(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_as_a_shell_splits_them() {
        let ok = |text: &str| split(text).unwrap();
        assert_eq!(ok("netperf -H a  -t X"), ["netperf", "-H", "a", "-t", "X"]);
        assert_eq!(
            ok(r#"sh -c 'echo "$1" | wc' "a \"b\" \n" c\ d """#),
            ["sh", "-c", "echo \"$1\" | wc", "a \"b\" \\n", "c d", ""]
        );
        assert_eq!(ok("  "), Vec::<String>::new());
        for bad in ["'a", "\"a", "\"a\\", "a\\"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hosts_are_filled_in() {
        let hosts = |name: &str| (name == "peer").then(|| "hydra2".to_owned());
        let text = |word| fill(word, hosts);
        assert_eq!(text("-H{peer}:1"), Filled::Text("-Hhydra2:1".into()));
        assert_eq!(text("{{peer}} {} { x }"), Filled::Text("{peer} {} { x }".into()));
        assert_eq!(text("{pear}"), Filled::Unknown("pear".into()));
        assert_eq!(text("{peer"), Filled::Text("{peer".into()));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[a{}'\" \\\\ü]{0,24}") {
            let _ = split(&text);
            let _ = fill(&text, |_| None);
        }
    }
}
