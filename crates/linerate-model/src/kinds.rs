//! Sets of names that programs may rely on and that later releases add to.

/// Makes a closed set of words usable as text.
macro_rules! named {
    ($($set:ident: $($word:ident = $name:literal),+;)+) => {$(
        impl $set {
            /// As in records.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$word => $name),+
                }
            }
        }

        impl AsRef<str> for $set {
            fn as_ref(&self) -> &str {
                self.name()
            }
        }
    )+};
}

/// Makes an enum of kinds, each with its name in JSON, its meaning (its documentation) and what to try.
/// A name that this release does not know reads as `Other` and prints as it came.
macro_rules! kinds {
    ($(#[$about:meta])* $set:ident {
        $($(#[doc = $meaning:literal])+ $kind:ident = $name:literal, $try:literal;)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $set {
            $($(#[doc = $meaning])+ $kind,)+
            /// One that this release does not know, by its name.
            Other(String),
        }

        impl $set {
            /// All that this release knows.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// As in JSON.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$kind => $name,)+
                    Self::Other(name) => name,
                }
            }

            /// What it means, in a sentence or two.
            pub fn meaning(&self) -> &'static str {
                match self {
                    $(Self::$kind => concat!($($meaning),+).trim_start(),)+
                    Self::Other(_) => "",
                }
            }

            /// What to try.
            pub const fn advice(&self) -> &'static str {
                match self {
                    $(Self::$kind => $try,)+
                    Self::Other(_) => "",
                }
            }
        }

        impl From<String> for $set {
            fn from(name: String) -> Self {
                match name.as_str() {
                    $($name => Self::$kind,)+
                    _ => Self::Other(name),
                }
            }
        }

        impl std::fmt::Display for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl serde::Serialize for $set {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $set {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }

        impl schemars::JsonSchema for $set {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($set).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let known = Self::ALL.iter().map(|kind| {
                    schemars::json_schema!({ "const": kind.name(), "description": kind.meaning() })
                });
                // A later release may have more.
                let other = schemars::json_schema!({ "type": "string" });
                let all: Vec<schemars::Schema> = known.chain([other]).collect();
                schemars::json_schema!({ "anyOf": all })
            }
        }
    };
}

pub(crate) use {kinds, named};
