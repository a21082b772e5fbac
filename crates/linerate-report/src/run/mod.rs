//! One test, shown: while it runs and when it is over.
//!
//! [`table`], [`view`], [`headline`] and [`facts`] compute and word everything; [`text`], [`live`] and [`json`] lay it out.

pub mod facts;
pub mod headline;
pub mod json;
pub mod live;
pub mod table;
pub mod text;
pub mod view;
pub mod words;
