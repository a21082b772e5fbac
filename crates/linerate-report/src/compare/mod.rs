//! Groups of runs compared: which settings differ from the baseline, by how much, how sure that is,
//! and how many more runs would settle it.
//!
//! The way of the data: [`input`] makes [`set::Set`]s of bytes, [`analysis::compare`] computes,
//! [`view::View::new`] words everything, and the formats ([`text`], [`svg`], JSON by serde, and the
//! page of [`crate::report::page_of_comparison`]) only lay the view out.
//!
//! ```
//! use linerate_report::compare::{analysis, input, text, view::View};
//! let read = |name, text: &str| {
//!     input::read(name, text.as_bytes(), &input::ReadOptions::default()).unwrap().remove(0)
//! };
//! let sets = [read("old.stat", "9.1\n9.3\n9.2\n"), read("new.stat", "8.1\n8.0\n8.2\n")];
//! let options = analysis::Options::default();
//! let view = View::new(analysis::compare(&sets, &options).unwrap());
//! assert!(text::render(&view, 80).contains("new is 12.0 % lower than old"));
//! ```

mod number;
pub mod plot;
pub mod svg;
pub mod text;
pub mod view;

pub use linerate_analysis::{compare as analysis, input, set};
