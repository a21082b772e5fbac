//! JSON in the order and spelling of iperf3's own: its documents are indented with tabs, and whole
//! numbers have no point, whatever their type.

use std::fmt::Write as _;

/// A value whose members keep their order.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(&'static str, Node)>),
    /// From elsewhere.
    Value(serde_json::Value),
}

impl Node {
    pub(super) fn int(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Over several lines, with tabs.
    pub(super) fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Some(0));
        out
    }

    /// On one line.
    pub(super) fn compact(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, None);
        out
    }

    fn write(&self, out: &mut String, depth: Option<usize>) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Int(value) => {
                let _ = write!(out, "{value}");
            }
            Self::Real(value) if !value.is_finite() => out.push_str("null"),
            Self::Real(value) => {
                let _ = write!(out, "{value}");
            }
            Self::Text(text) => write_text(out, text),
            Self::List(nodes) => {
                out.push('[');
                for (i, node) in nodes.iter().enumerate() {
                    if i > 0 {
                        out.push_str(if depth.is_some() { ", " } else { "," });
                    }
                    node.write(out, depth.map(|d| d + 1));
                }
                out.push(']');
            }
            Self::Map(members) => {
                let members = members.iter().map(|(key, node)| (*key, node));
                write_map(out, depth, members, |node, out, depth| node.write(out, depth));
            }
            Self::Value(value) => write_value(value, out, depth),
        }
    }
}

fn write_value(value: &serde_json::Value, out: &mut String, depth: Option<usize>) {
    match value {
        serde_json::Value::Object(members) => {
            let members = members.iter().map(|(key, value)| (key.as_str(), value));
            write_map(out, depth, members, write_value);
        }
        serde_json::Value::Array(values) => {
            out.push('[');
            for (i, value) in values.iter().enumerate() {
                if i > 0 {
                    out.push_str(if depth.is_some() { ", " } else { "," });
                }
                write_value(value, out, depth.map(|d| d + 1));
            }
            out.push(']');
        }
        serde_json::Value::String(text) => write_text(out, text),
        other => out.push_str(&other.to_string()),
    }
}

/// A peer's text may be in it: what steers a terminal stands as an escape.
fn write_text(out: &mut String, text: &str) {
    let json = serde_json::Value::from(text).to_string();
    out.push_str(&crate::clean::clean_json(&json));
}

fn write_map<'a, T: 'a>(
    out: &mut String,
    depth: Option<usize>,
    members: impl Iterator<Item = (&'a str, &'a T)>,
    write: impl Fn(&T, &mut String, Option<usize>),
) {
    out.push('{');
    let inner = depth.map(|d| d + 1);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n('\t', depth));
    };
    for (i, (key, node)) in members.enumerate() {
        if i > 0 {
            out.push(',');
        }
        if let Some(depth) = inner {
            line(out, depth);
        }
        write_text(out, key);
        out.push_str(if depth.is_some() { ":\t" } else { ":" });
        write(node, out, inner);
    }
    if let Some(depth) = depth {
        line(out, depth);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_does_not_steer_a_terminal() {
        let foreign = "a\u{1b}[2J\u{9b}b\u{202e}c\u{7f}";
        let mut value = serde_json::Map::new();
        value.insert(foreign.to_owned(), foreign.into());
        let node = Node::Map(vec![
            ("title", Node::text(foreign)),
            ("server_output_json", Node::Value(value.into())),
        ]);
        for json in [node.pretty(), node.compact()] {
            let harmful = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || c == '\u{202e}';
            assert!(!json.chars().any(harmful), "{json:?}");
            let read: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!(read["title"], foreign);
            assert_eq!(read["server_output_json"][foreign], foreign);
        }
    }

    #[test]
    fn spelled_as_iperf3_does() {
        let node = Node::Map(vec![
            ("start", Node::Map(vec![("connected", Node::List(vec![]))])),
            ("seconds", Node::Real(2.0)),
            ("jitter_ms", Node::Real(0.25)),
            ("nothing", Node::Real(f64::NAN)),
            ("end", Node::Map(vec![])),
            ("rows", Node::List(vec![Node::Int(1), Node::Map(vec![("a\"", Node::Bool(true))])])),
        ]);
        assert_eq!(
            node.pretty(),
            "{\n\t\"start\":\t{\n\t\t\"connected\":\t[]\n\t},\n\t\"seconds\":\t2,\n\t\"jitter_ms\":\t0.25,\n\t\"nothing\":\tnull,\n\t\"end\":\t{\n\t},\n\t\"rows\":\t[1, {\n\t\t\t\"a\\\"\":\ttrue\n\t\t}]\n}"
        );
        assert_eq!(
            node.compact(),
            "{\"start\":{\"connected\":[]},\"seconds\":2,\"jitter_ms\":0.25,\"nothing\":null,\"end\":{},\"rows\":[1,{\"a\\\"\":true}]}"
        );
    }
}
