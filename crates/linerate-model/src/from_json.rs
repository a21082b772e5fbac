//! Reading what several crates read. It is compiled here, once: each crate that reads a type that no crate below it reads has a
//! copy of all the code.

macro_rules! from_json {
    ($($name:ty),+) => {$(
        impl $name {
            /// Reads one from JSON. From bytes, as control messages are: of a `str` it would be a copy of all the code.
            ///
            /// # Errors
            /// What is no JSON or lacks something of it, with line and column.
            pub fn from_json(text: &[u8]) -> Result<Self, serde_json::Error> {
                serde_json::from_slice(text)
            }
        }
    )+};
}

from_json!(crate::campaign::Event, crate::campaign::StoredRun);
from_json!(crate::profile::ProfileDocument, crate::record::RunRecord);
