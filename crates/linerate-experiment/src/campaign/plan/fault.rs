//! What is wrong with a plan, and where.

use std::fmt;
use std::ops::Range;

/// A place in the text, both from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Character of the line.
    pub column: usize,
}

impl Position {
    /// Of a byte of the text.
    pub fn of(text: &str, offset: usize) -> Self {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    pub(super) fn start(text: &str, span: &Range<usize>) -> Self {
        Self::of(text, span.start)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub at: Position,
    /// What, as a sentence without a full stop.
    pub what: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Fault {
    /// Without a hint.
    pub fn new(at: Position, what: impl Into<String>) -> Self {
        Self { at, what: what.into(), hint: None }
    }

    /// With one.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// The known name nearest to `word`, when it is near enough to be meant: at most a third of the
/// letters differ (Damerau's distance of neighbours swapped, put in, left out or replaced).
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count().max(3)) / 3;
    known
        .into_iter()
        .map(|name| (strsim::osa_distance(word, name), name))
        .filter(|(d, _)| *d <= allowed)
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

/// A hint at the known name that is meant, in back quotes, or else `otherwise`.
pub(super) fn meant<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    nearest(word, known).map_or_else(otherwise, |near| format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters() {
        let text = "ab\nüüx\n";
        assert_eq!(Position::of(text, 0), Position { line: 1, column: 1 });
        assert_eq!(Position::of(text, text.find('x').unwrap()), Position { line: 2, column: 3 });
        assert_eq!(Position::of(text, 999), Position { line: 3, column: 1 });
        assert_eq!(Position::of(text, 4), Position { line: 2, column: 1 }, "inside a character");
    }

    #[test]
    fn what_is_meant_is_found() {
        let known = ["boots", "warmup", "runs", "order", "seed"];
        assert_eq!(nearest("boot", known), Some("boots"));
        assert_eq!(nearest("wramup", known), Some("warmup"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("x", known), None);
    }
}
