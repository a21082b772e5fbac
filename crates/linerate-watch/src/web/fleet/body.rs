//! Markup, and which of its places change.

use std::fmt::Write as _;

use linerate_report::draw::escape;

/// What a changing place holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Our own words only.
    pub(super) class: String,
    pub(super) text: String,
    /// Shown where somebody points at it.
    pub(super) title: String,
}

impl Part {
    pub(super) fn new(class: &str, text: String) -> Self {
        Self { class: class.to_owned(), text, title: String::new() }
    }
}

/// The body of a page.
#[derive(Default)]
pub(super) struct Body {
    pub(super) out: String,
    /// Class, text and title of each changing place, in the order of the page.
    pub(super) parts: Vec<[String; 3]>,
}

impl Body {
    /// Our own markup.
    pub(super) fn push(&mut self, markup: &str) {
        self.out.push_str(markup);
    }

    /// An element of this name and these attributes with any text.
    pub(super) fn element(&mut self, open: &str, text: &str) {
        let name = open.split(' ').next().unwrap_or_default();
        let _ = write!(self.out, "<{open}>{}</{name}>", escape(text));
    }

    /// The same as a place that changes.
    pub(super) fn part(&mut self, open: &str, part: Part) {
        let Part { class, text, title } = part;
        let name = open.split(' ').next().unwrap_or_default();
        let _ = write!(self.out, "<{open} data-part class=\"{class}\"");
        if !title.is_empty() {
            let _ = write!(self.out, " title=\"{}\"", escape(&title));
        }
        let lines: Vec<String> = text.lines().map(escape).collect();
        let _ = write!(self.out, ">{}</{name}>", lines.join("\n"));
        self.parts.push([class, text, title]);
    }
}
