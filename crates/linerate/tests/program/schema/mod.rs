//! As much of JSON Schema (draft 2020-12) as the record's schema uses. An unknown keyword is an
//! error, so that nothing goes unchecked without a word; a full validator would bring fifty crates.

use serde_json::Value;

/// What is wrong with `value`, with its place.
pub fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    check(schema, schema, value, "$")
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let Some(rules) = schema.as_object() else {
        return if schema == &Value::Bool(true) { Ok(()) } else { Err(format!("{at}: {schema}")) };
    };
    for (rule, wanted) in rules {
        let holds = match rule.as_str() {
            "$schema" | "$defs" | "title" | "description" | "format" | "default" => true,
            "$ref" => {
                let name = wanted.as_str().and_then(|r| r.strip_prefix('#')).ok_or("odd $ref")?;
                let target = root.pointer(name).ok_or_else(|| format!("no {name}"))?;
                check(root, target, value, at)?;
                true
            }
            "type" => match wanted {
                Value::Array(types) => types.iter().any(|t| has_type(t, value)),
                one => has_type(one, value),
            },
            "const" => value == wanted,
            "enum" => wanted.as_array().is_some_and(|all| all.contains(value)),
            "minimum" => !value.is_number() || number(value) >= number(wanted),
            "maximum" => !value.is_number() || number(value) <= number(wanted),
            "required" => {
                let names = wanted.as_array().ok_or("odd required")?;
                let missing =
                    names.iter().filter_map(Value::as_str).find(|n| value.get(n).is_none());
                if let Some(name) = missing {
                    return Err(format!("{at}: {name} is missing"));
                }
                true
            }
            "properties" => {
                for (name, rule) in wanted.as_object().ok_or("odd properties")? {
                    if let Some(inner) = value.get(name) {
                        check(root, rule, inner, &format!("{at}.{name}"))?;
                    }
                }
                // The schema allows more keys; these records are ours and have no others.
                true
            }
            "additionalProperties" => {
                // Those that `properties` names are not additional.
                let named =
                    |name: &str| rules.get("properties").and_then(|p| p.get(name)).is_some();
                let all = value.as_object().into_iter().flatten();
                for (name, inner) in all.filter(|(name, _)| !named(name)) {
                    check(root, wanted, inner, &format!("{at}.{name}"))?;
                }
                true
            }
            "items" => {
                for (i, inner) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, wanted, inner, &format!("{at}[{i}]"))?;
                }
                true
            }
            "anyOf" | "oneOf" => {
                let all = wanted.as_array().ok_or("odd choice")?;
                let fit = all.iter().filter(|s| check(root, s, value, at).is_ok()).count();
                if rule == "oneOf" { fit == 1 } else { fit > 0 }
            }
            other => return Err(format!("{at}: the keyword {other} is not understood")),
        };
        if !holds {
            return Err(format!("{at}: {value} breaks {rule} {wanted}"));
        }
    }
    Ok(())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn has_type(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    }
}
