//! Decides the next trial from the outcomes so far, and says what the outcomes mean. Pure: whoever
//! drives it runs the trials and gives it what came of them.
//!
//! ```
//! use linerate_experiment::tune::{Measured, Settings, Tune};
//!
//! // Of three settings the last carries most; what is measured swings by a thousandth.
//! let settings = Settings { width: 0.02, lower: false, max_s: None, trial_s: 1.0, seed: 1 };
//! let mut tune = Tune::new(vec![3], settings);
//! let mut trials = 0;
//! while let Some((combination, _)) = tune.next() {
//!     trials += 1;
//!     let swing = 1.0 + f64::from(trials % 3) / 1e3;
//!     let value = Some([1.0e9, 1.5e9, 2.0e9][combination.level(0)] * swing);
//!     tune.take(Measured { value, took_s: 1.0, ..Measured::default() });
//! }
//! let found = tune.found();
//! assert!(found.recommended && found.best.level(0) == 2);
//! ```

#![forbid(unsafe_code)]

pub mod campaign;
pub mod doubts;
pub mod search;
pub mod sweep;
pub mod trial;
pub mod tune;
