//! What the fuzz targets do with their input, as plain functions: `fuzz/fuzz_targets/NAME.rs` calls
//! them under libFuzzer, `tests/corpus.rs` replays the kept inputs with the stable compiler.
//!
//! Each function takes any bytes and panics only when the code under test is wrong. To add one,
//! write it here, list it in [`ALL`], and give it a file in `fuzz/fuzz_targets/` and an entry in
//! `fuzz/Cargo.toml`.

mod accounting;
mod control;
mod documents;
mod iperf2;
mod iperf3;
mod netperf;
mod nuttcp;
mod parsing;
mod story;

pub use accounting::{receiver, sequence_window};
pub use control::{agent_message, order, setting, undo_journal};
pub use documents::{agent_policy, broker_message, campaign_plan, fleet_plan, web_request};
pub use iperf2::iperf2;
pub use iperf3::{iperf3_control, iperf3_datagram, iperf3_parameters, iperf3_results};
pub use netperf::netperf_message;
pub use nuttcp::{nuttcp, nuttcp_blocks};
pub use parsing::{
    client_message, datagram_header, run_record, server_message, stream_opening, units,
};
pub use story::server_story;

/// The body of a target.
pub type Target = fn(&[u8]);

/// Name and body of every target.
pub const ALL: &[(&str, Target)] = &[
    ("client_message", client_message),
    ("server_message", server_message),
    ("datagram_header", datagram_header),
    ("stream_opening", stream_opening),
    ("units", units),
    ("run_record", run_record),
    ("sequence_window", sequence_window),
    ("receiver", receiver),
    ("server_story", server_story),
    ("setting", setting),
    ("undo_journal", undo_journal),
    ("agent_message", agent_message),
    ("order", order),
    ("web_request", web_request),
    ("agent_policy", agent_policy),
    ("broker_message", broker_message),
    ("fleet_plan", fleet_plan),
    ("campaign_plan", campaign_plan),
    ("iperf3_parameters", iperf3_parameters),
    ("iperf3_results", iperf3_results),
    ("iperf3_control", iperf3_control),
    ("iperf3_datagram", iperf3_datagram),
    ("iperf2", iperf2),
    ("netperf_message", netperf_message),
    ("nuttcp", nuttcp),
    ("nuttcp_blocks", nuttcp_blocks),
];

/// Takes values off the front of the input; zeros when it is used up.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte()))
    }

    /// A number whose size is as random as its value, since most bugs live at small ones.
    fn number(&mut self) -> u64 {
        let bytes = self.byte() % 9;
        (0..bytes).fold(0, |word, _| word << 8 | u64::from(self.byte()))
    }
}
