//! The server of iperf 2's clients, on a port of its own. Each of their streams is a test of its own.

mod flows;
mod plan;
mod stream;
mod tcp;

pub(crate) use self::flows::hear;
pub(crate) use self::tcp::greet;
