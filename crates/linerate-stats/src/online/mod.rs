//! Statistics that are kept while datagrams arrive.

pub mod delay;
pub mod jitter;
pub mod latency;
pub mod loss_runs;
pub mod moments;
pub mod sequence;

pub use delay::DelayVariation;
pub use jitter::Jitter;
pub use latency::Latency;
pub use loss_runs::LossRuns;
pub use moments::Moments;
pub use sequence::{Arrival, LARGEST, SequenceWindow};
