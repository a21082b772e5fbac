//! `[matrix]`: every setting with every combination of the listed values.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{By, Entries, Entry, NAME_RULE, Reader, is_name};
use crate::campaign::plan::{MOST_SETTINGS, Position, Scalar, words};

/// A setting before it is understood.
#[derive(Clone)]
pub(super) struct Draft<'a> {
    pub name: String,
    pub at: Position,
    pub entries: Entries<'a>,
}

struct Axis<'a> {
    path: String,
    at: Position,
    values: &'a [Spanned<DeValue<'a>>],
}

/// A setting that gives a key of the matrix itself keeps its own value and is not multiplied by
/// that key. Without settings the matrix alone makes them.
pub(super) fn expand<'a>(
    reader: &mut Reader<'a>,
    bases: Vec<Draft<'a>>,
    table: &'a DeTable<'a>,
    at: Position,
) -> Vec<Draft<'a>> {
    let (axes, template) = axes(reader, table);
    if axes.is_empty() {
        reader.fault(at, "[matrix] lists no values");
        return bases;
    }
    let alone = bases.is_empty();
    let bases = if alone {
        vec![Draft { name: String::new(), at, entries: Entries::new() }]
    } else {
        bases
    };
    let mut drafts = Vec::new();
    for base in bases {
        let free: Vec<&Axis<'a>> =
            axes.iter().filter(|axis| !base.entries.contains_key(&axis.path)).collect();
        for axis in axes.iter().filter(|axis| base.entries.contains_key(&axis.path)) {
            reader.notes.push(format!(
                "{}: keeps its own `{}` and is not multiplied by that of the matrix",
                base.name, axis.path
            ));
        }
        let mut chosen = vec![0usize; free.len()];
        loop {
            drafts.push(one(reader, &base, &free, &chosen, template.as_deref()));
            if drafts.len() > MOST_SETTINGS || !advance(&mut chosen, &free) {
                break;
            }
        }
        if drafts.len() > MOST_SETTINGS {
            break;
        }
    }
    drafts
}

/// The next combination; the last axis turns fastest. False after the last.
fn advance(chosen: &mut [usize], axes: &[&Axis<'_>]) -> bool {
    for (at, axis) in chosen.iter_mut().zip(axes).rev() {
        *at += 1;
        if *at < axis.values.len() {
            return true;
        }
        *at = 0;
    }
    false
}

fn axes<'a>(reader: &mut Reader<'a>, table: &'a DeTable<'a>) -> (Vec<Axis<'a>>, Option<String>) {
    let mut leaves = Entries::new();
    let mut template = None;
    for (key, entry) in reader.entries(table) {
        match (key.as_str(), entry.value.get_ref()) {
            ("name", DeValue::String(text)) => template = Some(text.to_string()),
            ("name", _) => reader.fault(entry.at, "`name` of [matrix] is a text"),
            _ => reader.flatten(&key, entry, &mut leaves),
        }
    }
    let mut axes: Vec<Axis<'a>> = Vec::new();
    for (path, Entry { at, value, .. }) in leaves {
        match value.get_ref() {
            DeValue::Array(list) if !list.is_empty() => {
                axes.push(Axis { path, at, values: list });
            }
            _ => {
                reader.fault(at, format!("`{path}` of [matrix] is a list of values: [4, 6]"));
            }
        }
    }
    axes.sort_unstable_by_key(|axis| axis.at);
    (axes, template)
}

fn one<'a>(
    reader: &mut Reader<'a>,
    base: &Draft<'a>,
    axes: &[&Axis<'a>],
    chosen: &[usize],
    template: Option<&str>,
) -> Draft<'a> {
    let mut draft = base.clone();
    let mut parts: Vec<String> = Vec::new();
    let mut values = BTreeMap::from([("setting".to_owned(), base.name.clone())]);
    if !base.name.is_empty() {
        parts.push(base.name.clone());
    }
    for (axis, &index) in axes.iter().zip(chosen) {
        let value = &axis.values[index];
        let at = reader.position(value);
        let scalar = reader.scalar(&axis.path, value);
        let last = axis.path.rsplit('.').next().unwrap_or(&axis.path);
        if let Some(scalar) = scalar {
            values.insert(last.to_owned(), word(&scalar));
            parts.push(part(last, &scalar, index));
        }
        draft.entries.insert(axis.path.clone(), Entry { at, value, by: By::Matrix });
        draft.at = draft.at.max(at);
    }
    if axes.is_empty() {
        // The setting gives every key of the matrix itself.
        return draft;
    }
    draft.name = match template {
        None => parts.join("_"),
        Some(template) => match words::fill(template, |name| values.get(name).cloned()) {
            words::Filled::Text(name) => name,
            words::Filled::Unknown(name) => {
                let what = format!("`{{{name}}}` in the names of [matrix] is no key of it");
                reader.fault(draft.at, what);
                parts.join("_")
            }
        },
    };
    if !is_name(&draft.name) {
        reader.fault(draft.at, format!("the name `{}` of a setting {NAME_RULE}", draft.name));
    }
    draft
}

fn word(value: &Scalar) -> String {
    match value {
        Scalar::Bool(true) => "on".into(),
        Scalar::Bool(false) => "off".into(),
        other => other.to_string(),
    }
}

/// `ip4`, `tso_off`, `udp`: a word that is fit for a name stands alone, all else after its key.
fn part(key: &str, value: &Scalar, index: usize) -> String {
    match value {
        Scalar::Text(text) if is_name(text) => text.clone(),
        Scalar::Bool(_) => format!("{key}_{}", word(value)),
        Scalar::Integer(_) | Scalar::Float(_) => format!("{key}{value}"),
        _ => format!("{key}{}", index + 1),
    }
}
