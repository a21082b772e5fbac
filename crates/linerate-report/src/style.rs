//! What a piece of text means, and the colour that says so on a terminal.

use anstyle::{AnsiColor, Style};

/// What a piece of text means. A format without colour loses nothing but emphasis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// Nothing to add.
    #[default]
    Plain,
    /// A head or a label.
    Label,
    /// Of less weight: a zero, something absent.
    Dim,
    /// As it should be.
    Good,
    /// Worth a look.
    Warn,
    /// Harm.
    Bad,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Label => Style::new().bold(),
            Self::Dim => Style::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Warn => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
        }
    }
}

/// Puts colour to text, or leaves it be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    /// Whether escape sequences may be written.
    pub colour: bool,
}

impl Paint {
    /// `text`, coloured if that is wanted and means something.
    pub fn apply(self, tone: Tone, text: &str) -> String {
        if !self.colour || tone == Tone::Plain || text.trim().is_empty() {
            return text.to_owned();
        }
        let style = tone.style();
        format!("{style}{text}{style:#}")
    }
}

/// Breaks `text` into lines of at most `width` columns at spaces; further lines begin with
/// `indent`. A word longer than a line stays whole, so that an address can be copied, and a number
/// stays with its unit and its other digits.
pub fn wrap(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match words.last_mut() {
            Some(last)
                if names_quantile(last) || (ends_in_digit(last) && belongs_to_number(word)) =>
            {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut columns = 0;
    for (i, word) in words.iter().enumerate() {
        let length = word.chars().count();
        if columns > 0 && columns + 1 + length > width && !line.trim().is_empty() {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
            columns = indent.chars().count();
        } else if i > 0 {
            line.push(' ');
            columns += 1;
        }
        line.push_str(word);
        columns += length;
    }
    lines.push(line);
    lines
}

fn ends_in_digit(word: &str) -> bool {
    word.ends_with(|c: char| c.is_ascii_digit())
}

/// Whether a number is to come: `p99.9`, `max`, `jitter`.
fn names_quantile(word: &str) -> bool {
    let word = word.trim_start_matches('(');
    matches!(word, "min" | "max" | "mean" | "jitter")
        || word
            .strip_prefix('p')
            .is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

/// Whether `word` is a group of three digits or a unit.
fn belongs_to_number(word: &str) -> bool {
    let word = word.trim_end_matches(|c: char| ",.;:)".contains(c));
    (word.len() == 3 && word.bytes().all(|b| b.is_ascii_digit()))
        || matches!(word, "%" | "s" | "ms" | "us" | "µs" | "ns" | "ppm")
        || word.strip_suffix('B').is_some_and(|p| p.len() <= 2)
        || word.ends_with("bit/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_only_where_it_is_wanted() {
        assert_eq!(Paint { colour: false }.apply(Tone::Bad, "x"), "x");
        assert_eq!(Paint { colour: true }.apply(Tone::Plain, "x"), "x");
        assert_eq!(Paint { colour: true }.apply(Tone::Warn, "x"), "\u{1b}[33mx\u{1b}[0m");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("a bc def g", 6, "  "), ["a bc", "  def", "  g"]);
        assert_eq!(wrap("averylongword x", 4, ""), ["averylongword", "x"]);
        assert_eq!(wrap("", 4, ""), [""]);
        assert_eq!(wrap("  a bc d", 6, "  "), ["  a bc", "  d"]);
        assert_eq!(
            wrap("lost 20 737, 8.9 %, 4 MiB", 9, ""),
            ["lost", "20 737,", "8.9 %,", "4 MiB"]
        );
    }
}
