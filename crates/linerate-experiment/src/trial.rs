//! One trial of a sweep or a search: what is offered, and what came of it.

pub use linerate_model::trial::{Outcome, Trial};
