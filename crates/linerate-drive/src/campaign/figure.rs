//! The figures of a record that campaigns compare.

use linerate_analysis::{input, metric};
use serde_json::Value;

/// Names of all of them.
pub fn names() -> impl Iterator<Item = &'static str> {
    metric::METRICS.iter().map(|m| m.name)
}

/// The unit of one.
pub fn unit(name: &str) -> Option<&'static str> {
    metric::find(name).map(|m| m.unit)
}

/// One figure of a record, or a sentence on why there is none.
pub fn of(record: &Value, name: &str) -> Result<f64, String> {
    let found = metric::find(name).ok_or_else(|| format!("no metric {name}"))?;
    input::figure(record, found).map_err(|e| e.what)
}
