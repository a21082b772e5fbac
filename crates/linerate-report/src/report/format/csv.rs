//! Every number as CSV (RFC 4180, but with LF): a row a thing, the same columns for all, and nothing
//! where nothing was measured.
//!
//! ```
//! use linerate_report::report::format::csv::field;
//! assert_eq!(field("=1+1, \"x\""), "\"'=1+1, \"\"x\"\"\"");
//! ```

use super::Look;
pub use crate::field::field;
use crate::report::view::{COLUMNS, View};

pub(super) fn render(view: &View, _: &Look) -> Result<Vec<u8>, String> {
    let mut out = format!("{COLUMNS}\n");
    for row in &view.rows {
        let field = |column: &str| match column {
            "kind" => row.kind,
            _ => row.cells.iter().find(|(name, _)| *name == column).map_or("", |(_, cell)| cell),
        };
        out.push_str(&COLUMNS.split(',').map(field).collect::<Vec<_>>().join(","));
        out.push('\n');
    }
    Ok(out.into_bytes())
}
