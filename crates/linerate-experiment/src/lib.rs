//! Decides the next trial from the outcomes so far, and says what the outcomes mean. Pure: whoever
//! drives it runs the trials and gives it what came of them.

#![forbid(unsafe_code)]

pub mod campaign;
pub mod doubts;
pub mod search;
pub mod sweep;
pub mod trial;
pub mod tune;
