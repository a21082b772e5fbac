//! JSON Schemas of the documents and lines that the verbs print with `--json` and `--json-lines`.
//!
//! They are kept in a file that `tests/schemas.rs` makes of the types: the code that makes them has more than half a
//! MiB, and no program needs it.

use serde_json::{Map, Value};

use crate::packed::packed;

/// The schema of that name, such as `run-line`, if there is one.
pub fn of(name: &str) -> Option<Value> {
    // All by name, with the definitions that several of them have under `$defs`, where theirs are null.
    let mut kept: Map<String, Value> = serde_json::from_str(&packed!("schemas.json")).ok()?;
    let mut shared = kept.remove("$defs")?;
    let mut schema = kept.remove(name)?;
    if let Some(Value::Object(definitions)) = schema.get_mut("$defs") {
        for (name, definition) in definitions.iter_mut().filter(|(_, own)| own.is_null()) {
            *definition = shared.get_mut(name)?.take();
        }
    }
    Some(schema)
}
