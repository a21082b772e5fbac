//! The one number in what another program prints.

use regex::Regex;
use serde_json::Value;
use serde_json_path::JsonPath;

/// Where the number is. Made by [`Extract::regex`] and its kin, which refuse what cannot work.
#[derive(Debug, Clone)]
pub enum Extract {
    /// The first group (or the whole match, without a group) of the last match.
    Regex(Box<Regex>),
    /// RFC 9535; the one node it selects in the one JSON document that was printed.
    JsonPath(Box<JsonPath>, String),
    /// A field, from 1, of the last line that has a number there; fields are parted by blanks.
    Column(usize),
}

impl PartialEq for Extract {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl std::fmt::Display for Extract {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Regex(regex) => write!(f, "regex {regex}"),
            Self::JsonPath(_, text) => write!(f, "json_path {text}"),
            Self::Column(column) => write!(f, "column {column}"),
        }
    }
}

impl Extract {
    /// A regular expression with at most one group.
    pub fn regex(text: &str) -> Result<Self, String> {
        let found = regex::RegexBuilder::new(text)
            .multi_line(true)
            .build()
            .map_err(|e| format!("no regular expression: {}", last_line(&e.to_string())))?;
        match found.captures_len() {
            1 | 2 => Ok(Self::Regex(Box::new(found))),
            n => Err(format!("{} groups; the number is in one: make the others (?:…)", n - 1)),
        }
    }

    /// A JSON path.
    pub fn json_path(text: &str) -> Result<Self, String> {
        JsonPath::parse(text)
            .map(|path| Self::JsonPath(Box::new(path), text.to_owned()))
            .map_err(|e| format!("no JSON path (RFC 9535, such as $.end.sum_received): {e}"))
    }

    /// A column, from 1.
    pub fn column(column: i64) -> Result<Self, String> {
        usize::try_from(column)
            .ok()
            .filter(|c| (1..=1_000).contains(c))
            .map(Self::Column)
            .ok_or_else(|| format!("no column {column}; they count from 1"))
    }

    /// The number in `output`.
    pub fn value(&self, output: &str) -> Result<f64, String> {
        let (text, whence) = match self {
            Self::Regex(regex) => {
                let found = regex.captures_iter(output).last().ok_or_else(|| {
                    format!("the regular expression {regex} matches nothing in the output")
                })?;
                let text = found.get(1).or_else(|| found.get(0)).map(|m| m.as_str().to_owned());
                (text.unwrap_or_default(), "what the regular expression matches")
            }
            Self::JsonPath(path, text) => {
                let document: Value = serde_json::from_str(output.trim())
                    .map_err(|e| format!("the output is no JSON document: {e}"))?;
                let nodes = path.query(&document).all();
                let node = match nodes.as_slice() {
                    [node] => *node,
                    nodes => return Err(format!("{text} selects {} values, not 1", nodes.len())),
                };
                let shown = match node {
                    Value::String(s) => s.clone(),
                    other => other.to_string(),
                };
                (shown, "what the JSON path selects")
            }
            Self::Column(column) => {
                let field = |line: &str| line.split_whitespace().nth(column - 1).map(str::to_owned);
                let found = output.lines().rev().filter_map(field).find(|f| number(f).is_some());
                let none = || format!("no line of the output has a number in column {column}");
                (found.ok_or_else(none)?, "the column")
            }
        };
        number(&text).ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            format!("{whence} is `{shown}`, which is not a finite number")
        })
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|x: &f64| x.is_finite())
}

/// The regex crate draws a picture over several lines; its last says what is wrong.
fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text).trim_start_matches("error: ").trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As netperf 2.7 prints it.
    const NETPERF: &str = "\
MIGRATED UDP STREAM TEST from 0.0.0.0 () port 0 AF_INET to 10.0.0.2 () port 0 AF_INET
Socket  Message  Elapsed      Messages
Size    Size     Time         Okay Errors   Throughput
bytes   bytes    secs            #      #   10^6bits/sec

212992   65507   10.00      228342      0    11966.54
212992           10.00      227821           11939.24

";

    #[test]
    fn a_number_is_found() {
        let regex = Extract::regex(r"^\d+\s+\d+\.\d+\s+\d+\s+([\d.]+)$").unwrap();
        assert_eq!(regex.value(NETPERF), Ok(11_939.24));
        assert_eq!(Extract::column(4).unwrap().value(NETPERF), Ok(11_939.24));
        assert_eq!(Extract::regex("7").unwrap().value("1\n7"), Ok(7.0), "no group: the match");
        let path = Extract::json_path("$.end.sum_received.bits_per_second").unwrap();
        assert_eq!(path.value(r#"{"end":{"sum_received":{"bits_per_second":5e8}}}"#), Ok(5e8));
        let last = Extract::json_path("$.runs[-1]").unwrap();
        assert_eq!(last.value(r#"{"runs":[1,"2.5"]}"#), Ok(2.5));
    }

    #[test]
    fn what_is_no_number_is_said() {
        for (made, output, want) in [
            (Extract::regex("x(.)"), "abc", "matches nothing"),
            (Extract::regex("x(.)"), "xy", "`y`, which is not a finite number"),
            (Extract::regex("x(.*)"), "xnan", "`nan`, which is not"),
            (Extract::json_path("$.a"), "no", "no JSON document"),
            (Extract::json_path("$.a"), "{}", "selects 0 values"),
            (Extract::json_path("$.*"), r#"{"a":1,"b":2}"#, "selects 2 values"),
            (Extract::json_path("$.a"), r#"{"a":null}"#, "`null`"),
            (Extract::column(3), "1 2\n", "no line of the output"),
        ] {
            let error = made.unwrap().value(output).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
        assert!(Extract::regex("(").unwrap_err().contains("unclosed group"));
        assert!(Extract::regex("(a)(b)").unwrap_err().contains("2 groups"));
        assert!(Extract::json_path("end.sum").unwrap_err().contains("RFC 9535"));
        assert!(Extract::column(0).is_err());
    }
}
