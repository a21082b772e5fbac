//! What the attribute leaves out, and what it does not.

use std::collections::BTreeMap;

use linerate_macros::skip_serializing_none;
use serde::{Deserialize, Serialize};

#[skip_serializing_none]
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Record {
    /// With documentation, a path and a comma between angle brackets.
    pub(crate) map: Option<BTreeMap<u8, Option<u8>>>,
    #[serialize_always]
    null: Option<u8>,
    #[serde(rename = "other")]
    renamed: Option<std::net::IpAddr>,
    plain: Vec<Option<u8>>,
    last: Option<u8>,
}

#[test]
fn only_absent_options_are_left_out() {
    let absent = Record { plain: vec![None], ..Record::default() };
    let text = serde_json::to_string(&absent).unwrap();
    assert_eq!(text, r#"{"null":null,"plain":[null]}"#);
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), absent);
    let text = r#"{"map":{"1":null},"null":2,"other":"::1","plain":[],"last":3}"#;
    let present: Record = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&present).unwrap(), text);
}
