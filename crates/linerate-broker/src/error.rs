//! What goes wrong with a broker, in words.

use std::fmt::Display;

use linerate_model::record::{ErrorKind, ErrorRecord};

/// The broker does not do what it was asked for.
pub(crate) fn unable(what: &str, why: &dyn Display) -> ErrorRecord {
    let hint = "the log of nats-server";
    ErrorRecord::new(ErrorKind::Unable, format!("cannot {what}"), why.to_string(), &[hint])
}

/// It does not answer.
pub(crate) fn silent(what: &str) -> ErrorRecord {
    let hints =
        ["`nats-server` may be down, or the way to it: what waits for it is done when it is back"];
    ErrorRecord::new(
        ErrorKind::TimedOut,
        format!("cannot {what}"),
        "the broker does not answer",
        &hints,
    )
}
