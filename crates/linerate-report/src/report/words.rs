//! Words and scales that several parts of a report have.

use linerate_model::plan::Way;
use linerate_model::record::{Limit, PlanRecord};

use crate::clean::clean;
use crate::run::words::headline;

/// `client to server`.
pub(crate) const fn way_words(way: Way) -> &'static str {
    match way {
        Way::Reverse => "server to client",
        Way::Forward => "client to server",
    }
}

/// The plan by its own keys, which end in their units.
pub(super) fn settings(plan: &PlanRecord) -> Vec<(String, String)> {
    let Ok(serde_json::Value::Object(keys)) = serde_json::to_value(plan) else { return Vec::new() };
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => clean(text).into_owned(),
        serde_json::Value::Null => "unlimited".to_owned(),
        other => clean(&other.to_string()).replace(['"', '{', '}'], "").replace(',', ", "),
    };
    keys.iter().map(|(key, value)| (key.replace('_', " "), text(value))).collect()
}

/// What limited, in words, for tables.
pub(super) fn limit_words(limit: Limit) -> &'static str {
    headline(limit).trim_start_matches("limited by ")
}

/// Between the trials that are asked most and least: beyond this factor equal distances are equal
/// factors, so that a first trial as fast as it goes does not press the others flat.
const WIDE: f64 = 8.0;

pub(super) fn wide(rates: &[f64]) -> bool {
    let known = || rates.iter().copied().filter(|r| r.is_finite() && *r > 0.0);
    known().fold(0.0, f64::max) > WIDE * known().fold(f64::INFINITY, f64::min)
}
