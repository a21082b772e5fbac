//! Reports: runs, sweeps, searches, tunings, the doctor's findings, comparisons and labelled sets of runs, together in one
//! page or picture.
//!
//! The way of the data: [`input`] makes [`input::Item`]s of bytes, [`view::View::new`] computes and
//! words everything, and the formats ([`format::FORMATS`]) only lay the view out.
//!
//! ```
//! use linerate_report::report::{format, input, view::View};
//! let mut input = input::Input::default();
//! input.read("broken.json", b"{\"format\":");
//! assert_eq!(input.damaged[0].line, Some(1));
//! let view = View::new(&input, "linerate report broken.json -o report.md");
//! let markdown = format::by_name("md").unwrap();
//! let bytes = (markdown.render)(&view, &format::Look::default()).unwrap();
//! assert!(String::from_utf8(bytes).unwrap().contains("broken.json"));
//! ```

mod builder;
mod charts;
mod doctor;
mod experiment;
pub mod figure;
pub mod format;
mod head;
mod made;
mod profile;
mod run;
mod search;
mod sets;
mod sweep;
mod tune;
pub mod view;
pub(crate) mod words;

pub use linerate_analysis::results as input;

/// What `linerate compare` compared, as one page that needs nothing else, not even a script. An error is
/// the end of a sentence.
pub fn page_of_comparison(
    view: crate::compare::view::View,
    command: &str,
) -> Result<Vec<u8>, String> {
    format::page(&view::View::of_comparison(view, command))
}
