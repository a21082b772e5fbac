//! Foreign text, made harmless for a terminal.
//!
//! Host names, kernel versions and reasons come from a peer whom nobody vouches for. An escape
//! sequence in one of them could clear the screen or retitle the window, a bidirectional control
//! could turn a number round.

use std::borrow::Cow;

/// More of one foreign text than this is cut: no fact or reason is longer.
const MOST_CHARS: usize = 1_000;

/// Whether a terminal or the eye could be led astray by `c`.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// `text` without control, bidirectional and invisible characters, cut at 1,000 characters. Line
/// ends and tabs become spaces, so that one text stays one line.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) && text.chars().nth(MOST_CHARS).is_none() {
        return Cow::Borrowed(text);
    }
    let mut kept: String = harmless(text).take(MOST_CHARS).collect();
    if text.chars().nth(MOST_CHARS).is_some() {
        kept.push('…');
    }
    Cow::Owned(kept)
}

/// The same of a command that is there to be copied, whole whatever its length: half of one does something else.
pub fn clean_command(text: &str) -> String {
    harmless(text).collect()
}

/// A word of a command line, quoted where a shell needs it.
pub fn shell_word(word: &str) -> String {
    let word = clean_command(word);
    let harmless = |c: char| c.is_alphanumeric() || "-_./:=,+@%[]".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        return word;
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The characters of one line that are left.
fn harmless(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|c| if matches!(c, '\n' | '\t') { ' ' } else { c }).filter(|&c| !is_harmful(c))
}

/// Several lines of foreign text: line ends and tabs stay, everything else harmful goes.
pub fn clean_lines(text: &str) -> String {
    text.chars().filter(|&c| matches!(c, '\n' | '\t') || !is_harmful(c)).collect()
}

/// JSON text in which harmful characters stand as `\u` escapes. It means the same: outside strings
/// JSON has none of them but line ends, which stay.
pub fn clean_json(json: &str) -> Cow<'_, str> {
    let harmful = |c: char| c != '\n' && is_harmful(c);
    if !json.chars().any(harmful) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if harmful(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_passes() {
        assert_eq!(clean("plain – ünï 漢"), "plain – ünï 漢");
        assert_eq!(clean("a\u{1b}[31mb\u{9b}2Jc\u{7f}d"), "a[31mb2Jcd");
        assert_eq!(clean("two\r\nlines\tand"), "two lines and");
        assert_eq!(clean("\u{202e}321\u{2066}\u{200f}\u{e0041}"), "321");
        let long = clean(&"x".repeat(5_000)).into_owned();
        assert_eq!(long.chars().count(), MOST_CHARS + 1);
    }

    #[test]
    fn a_command_stays_whole_on_one_line() {
        let long = "echo 0 > /proc/irq/100/smp_affinity_list; ".repeat(100);
        assert_eq!(clean_command(&long), long);
        assert_eq!(clean_command("a\u{1b}[2J\nb\u{202e}"), "a[2J b");
    }

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        assert_eq!(shell_word("--rate=10M"), "--rate=10M");
        assert_eq!(shell_word("a b"), "'a b'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let text = "\u{9b}\u{202e}\u{e0041}\u{1b}\u{7f}ok";
        let json = serde_json::to_string_pretty(&[text]).unwrap();
        let safe = clean_json(&json);
        assert!(!safe.chars().any(|c| c != '\n' && is_harmful(c)), "{safe:?}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&safe).unwrap(), [text]);
    }
}
