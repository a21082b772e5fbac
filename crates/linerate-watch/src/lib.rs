//! What `linerate watch` and `--watch` show on a terminal, and `--web` in a browser: from what is known to the cells of a
//! screen, or to a page and its events.
//!
//! Nothing here reads a key, a clock or a file, and nothing writes to a terminal: a view is given what came and
//! draws itself into a [`Buffer`] of any size, so that a screen can be looked at without a terminal.
//!
//! ```
//! use linerate_model::host::HostFacts;
//! use linerate_watch::{Look, host::HostView, screen};
//! let view = HostView::new(HostFacts { hostname: "hydra2".into(), ..HostFacts::default() }, 1.0);
//! let shown = screen::text(&screen::draw(80, 24, |buffer| view.draw(buffer, Look { colour: false })));
//! assert!(shown.starts_with("linerate watch · hydra2"));
//! ```
//!
//! [`Buffer`]: ratatui_core::buffer::Buffer
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod chart;
mod cores;
mod help;
pub mod host;
mod look;
mod page;
pub mod plain;
pub mod screen;
pub mod test;
pub mod web;

pub use look::Look;
