//! Forms of a report. One file each; [`FORMATS`] is the list.

pub mod csv;
mod html;
mod md;
#[cfg(feature = "png")]
mod png;
pub(super) mod svg;

use super::view::View;
#[cfg(feature = "png")]
use crate::draw::Theme;

/// How a report is to look, where its form leaves a choice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Look {
    /// Dark pictures instead of light ones. Pages and SVG follow their reader.
    pub dark: bool,
    /// One figure alone, by its name, as a slide. Pictures only.
    pub figure: Option<String>,
}

#[cfg(feature = "png")]
impl Look {
    fn theme(&self) -> Theme {
        if self.dark { Theme::Dark } else { Theme::Light }
    }
}

/// Bytes of a file within which its mark is.
pub const HEAD: usize = 4_096;

/// Lays a view out.
pub type Render = fn(&View, &Look) -> Result<Vec<u8>, String>;

/// One form.
pub struct Format {
    /// Ending of its files, and its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Whether it can be one figure alone.
    pub picture: bool,
    /// Whether a terminal can show it.
    pub text: bool,
    /// Lays a view out; an error says what is in the way, as the end of a sentence.
    pub render: Render,
    /// Whether the first [`HEAD`] bytes of a file show that it is a report of this form, and may be
    /// replaced. The mark has its place: words that some other text quotes are none.
    pub is_report: fn(&[u8]) -> bool,
}

/// How a report begins whose form has comments.
const COMMENT: &str = "<!-- linerate report ";

/// Whether a file begins with that comment and goes on with `next` on the line after it.
fn begins(head: &[u8], next: &str) -> bool {
    let Some(rest) = head.strip_prefix(COMMENT.as_bytes()) else { return false };
    let version = memchr::memchr(b'\n', rest).and_then(|end| rest.split_at_checked(end + 1));
    version
        .is_some_and(|(line, body)| line.ends_with(b" -->\n") && body.starts_with(next.as_bytes()))
}

/// The forms.
pub const FORMATS: &[Format] = &[
    Format {
        name: "html",
        about: "one page with all figures, zoomable, readable offline",
        picture: false,
        text: true,
        render: html::render,
        is_report: html::is_report,
    },
    Format {
        name: "svg",
        about: "the figures, one below the other",
        picture: true,
        text: true,
        render: svg::render,
        is_report: |head| begins(head, "<svg "),
    },
    #[cfg(feature = "png")]
    Format {
        name: "png",
        about: "the same as pixels",
        picture: true,
        text: false,
        render: png::render,
        is_report: png::is_report,
    },
    Format {
        name: "md",
        about: "words and tables in Markdown",
        picture: false,
        text: true,
        render: md::render,
        is_report: |head| begins(head, "\n# "),
    },
    Format {
        name: "csv",
        about: "every number, a row a run, point, trial or set",
        picture: false,
        text: true,
        render: csv::render,
        is_report: |head| head.starts_with(b"kind,source,set,boot,run,"),
    },
];

/// A view as a page.
pub(super) fn page(view: &View) -> Result<Vec<u8>, String> {
    html::render(view, &Look::default())
}

/// Finds one.
pub fn by_name(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|f| f.name.eq_ignore_ascii_case(name))
}

/// All names, for a hint.
pub fn names() -> String {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::input::Input;

    fn report(format: &Format) -> Vec<u8> {
        let mut input = Input::default();
        let record = linerate_testkit::records::udp_receiver_drops();
        // A long foreign title moves nothing out of the first bytes.
        let name = format!("{}.json", "n".repeat(300));
        input.read(&name, serde_json::to_string(&record).unwrap().as_bytes());
        let view = View::new(&input, &"word ".repeat(2_000));
        (format.render)(&view, &Look::default()).unwrap()
    }

    #[test]
    fn a_report_is_known_by_its_own_form_alone() {
        for format in FORMATS {
            let bytes = report(format);
            let head = &bytes[..bytes.len().min(HEAD)];
            for other in FORMATS {
                let wanted = other.name == format.name;
                assert_eq!((other.is_report)(head), wanted, "{} as {}", format.name, other.name);
            }
        }
    }

    #[test]
    fn a_file_that_only_speaks_of_reports_is_none() {
        let svg = String::from_utf8(report(by_name("svg").unwrap())).unwrap();
        let html = String::from_utf8(report(by_name("html").unwrap())).unwrap();
        for text in [
            "how to make a linerate report 0.1.0\n".to_owned(),
            "# Notes\n<!-- linerate report 0.1.0 -->\n".to_owned(),
            "my,kind,source,set,boot,run,id\n".to_owned(),
            "kind,source,set,boot,runner\n".to_owned(),
            "<!doctype html>\n<p><meta name=\"generator\" content=\"linerate 0.1.0\">".to_owned(),
            // Drawings and pages that other commands make.
            svg.split_once("-->\n").unwrap().1.to_owned(),
            html.replace("<title>linerate report: ", "<title>linerate compare: "),
            "\u{89}PNG\r\n linerate report".to_owned(),
        ] {
            let head = &text.as_bytes()[..text.len().min(HEAD)];
            for format in FORMATS {
                assert!(!(format.is_report)(head), "{} as {}", &text[..40], format.name);
            }
        }
    }
}
