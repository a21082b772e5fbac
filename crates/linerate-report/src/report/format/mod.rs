//! Forms of a report. One file each; [`FORMATS`] is the list.

mod csv;
mod html;
mod md;
mod png;
mod svg;

use super::view::View;
use crate::draw::Theme;

/// How a report is to look, where its form leaves a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    /// Dark pictures instead of light ones. Pages and SVG follow their reader.
    pub dark: bool,
}

impl Look {
    fn theme(self) -> Theme {
        if self.dark { Theme::Dark } else { Theme::Light }
    }
}

/// Lays a view out.
pub type Render = fn(&View, &Look) -> Result<Vec<u8>, String>;

/// One form.
pub struct Format {
    /// Ending of its files, and its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Whether a terminal can show it.
    pub text: bool,
    /// Lays a view out; an error says what is in the way, as the end of a sentence.
    pub render: Render,
    /// What of its first bytes shows that a file is a report of this form, and may be replaced.
    pub mark: &'static str,
}

/// The forms.
pub const FORMATS: &[Format] = &[
    Format {
        name: "html",
        about: "one page with all figures, zoomable, readable offline",
        text: true,
        render: html::render,
        mark: "<meta name=\"generator\" content=\"linerate",
    },
    Format {
        name: "svg",
        about: "the figures, one below the other",
        text: true,
        render: svg::render,
        mark: "<!-- linerate report",
    },
    Format {
        name: "png",
        about: "the same as pixels",
        text: false,
        render: png::render,
        mark: "linerate report",
    },
    Format {
        name: "md",
        about: "words and tables in Markdown",
        text: true,
        render: md::render,
        mark: "<!-- linerate report",
    },
    Format {
        name: "csv",
        about: "every number, a row a run, point, trial or set",
        text: true,
        render: csv::render,
        mark: "kind,source,set,boot,run",
    },
];

/// Finds one.
pub fn by_name(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|f| f.name.eq_ignore_ascii_case(name))
}

/// All names, for a hint.
pub fn names() -> String {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
}
