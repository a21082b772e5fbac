//! What a host would say of settings.

use linerate_model::setting::{Applied, Outcome, Setting};

/// It was set, and reads back as it was asked for.
pub fn applied(asked: Setting) -> Applied {
    Applied {
        device: None,
        before: None,
        after: Some(asked.value.clone()),
        outcome: Outcome::Set,
        why: None,
        also: Vec::new(),
        asked,
    }
}
