//! Words of records, which later releases add to.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};

/// A word that this release knows, or one of another release, which prints as it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Word<T> {
    /// What it stands for.
    Known(T),
    /// As it came.
    Other(String),
}

impl<T> Word<T> {
    /// What it stands for, where this release knows it.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(known) => Some(known),
            Self::Other(_) => None,
        }
    }

    /// As in JSON. What came from elsewhere may hold anything.
    pub fn name(&self) -> &str
    where
        T: AsRef<str>,
    {
        match self {
            Self::Known(known) => known.as_ref(),
            Self::Other(name) => name,
        }
    }

    /// The word of this name.
    pub fn of(name: &str) -> Self
    where
        T: for<'a> Deserialize<'a>,
    {
        let known: StrDeserializer<'_, Error> = name.into_deserializer();
        T::deserialize(known).map_or_else(|_| Self::Other(name.to_owned()), Self::Known)
    }
}

impl<T: PartialEq> PartialEq<T> for Word<T> {
    fn eq(&self, wanted: &T) -> bool {
        self.known() == Some(wanted)
    }
}

impl<T> Default for Word<T> {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl<T> From<T> for Word<T> {
    fn from(known: T) -> Self {
        Self::Known(known)
    }
}

impl<T: AsRef<str>> fmt::Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<T> JsonSchema for Word<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        // No `enum`: a later release may have more.
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Dialect;

    #[test]
    fn a_word_of_a_later_release_reads_and_prints_as_it_came() {
        let words = r#"["iperf3","anothertool"]"#;
        let read: Vec<Word<Dialect>> = serde_json::from_str(words).unwrap();
        assert_eq!(read, [Word::Known(Dialect::Iperf3), Word::Other("anothertool".into())]);
        assert_eq!(serde_json::to_string(&read).unwrap(), words);
        assert_eq!(read, ["iperf3", "anothertool"].map(Word::of));
        assert_eq!(read[1].name(), "anothertool");
    }
}
