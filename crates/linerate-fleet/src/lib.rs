//! Many hosts measured together: which pairs, in which rounds, and who may use what meanwhile. Pure: whoever
//! drives it runs the tests, keeps the events and tells the time.
//!
//! ```
//! use linerate_fleet::plan::{Fleet, Pair, Shape};
//! use linerate_fleet::rounds::rounds;
//! let fleet = Fleet::new(["a", "b", "c", "d"].map(str::to_owned).to_vec()).unwrap();
//! let pairs = fleet.pairs(&Shape::All, false).unwrap();
//! let takes: Vec<_> = pairs.iter().map(|pair| fleet.resources(*pair)).collect();
//! let rounds = rounds(&takes);
//! assert_eq!((pairs.len(), rounds.len()), (6, 3));
//! ```

#![forbid(unsafe_code)]

pub mod coordinator;
pub mod health;
pub mod lease;
pub mod matrix;
pub mod message;
pub mod plan;
pub mod policy;
pub mod rounds;
pub mod schedule;
pub mod written;
