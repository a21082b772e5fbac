//! `linerate serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use linerate_model::limits;
use linerate_model::record::ErrorRecord;
use linerate_model::units::Nanos;
use linerate_runner::server::Options;

use super::value::BitRateOrMax;
use crate::{help, key, usage};

/// More control connections than this at once would want more threads than a host should give.
const MAX_TESTS: limits::Limit =
    limits::Limit { name: "tests at once", min: 1, max: 10_000, why: "each has its own threads" };

/// The far end: answers any number of tests at once.
///
/// A test that asks for more than the limits given here is refused with the reason, never cut in
/// silence.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::serve())]
pub struct ServeArgs {
    /// Address to listen on [default: all, IPv4 and IPv6].
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// Port to listen on, TCP and UDP; 0 takes a free one and prints it.
    #[arg(short, long, value_name = "PORT", default_value_t = 5201)]
    port: u16,
    /// File with a key that clients must prove they know.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Tests at once.
    #[arg(long, value_name = "N", default_value_t = 128)]
    max_tests: u64,
    /// Longest test, warm-up included.
    #[arg(long, value_name = "TIME", default_value = "1h")]
    max_duration: Nanos,
    /// Largest rate of one direction of one test: 1G, or max for no limit.
    #[arg(long, value_name = "RATE", default_value = "max")]
    max_rate: BitRateOrMax,
    /// Most streams of one test, each way.
    #[arg(long, value_name = "N", default_value_t = limits::STREAMS.max)]
    max_streams: u64,
    /// End after the first test.
    #[arg(short = '1', long)]
    one_off: bool,
    /// Print events as one JSON object a line on standard output.
    #[arg(long, help_heading = "Output")]
    pub json_lines: bool,
}

impl ServeArgs {
    /// The server's options, if they make sense.
    pub fn options(&self) -> Result<Options, ErrorRecord> {
        let max_tests = usage::within("--max-tests", &MAX_TESTS, self.max_tests)?;
        usage::within("--max-duration", &limits::DURATION_NS, self.max_duration.0)?;
        let max_streams = usage::within("--max-streams", &limits::STREAMS, self.max_streams)?;
        Ok(Options {
            bind: self.bind,
            port: self.port,
            key: self.key_file.as_deref().map(key::read).transpose()?,
            // In range, so that neither cast can cut.
            max_tests: max_tests as usize,
            max_duration: self.max_duration,
            max_rate: self.max_rate.0,
            max_streams: max_streams as u16,
            one_off: self.one_off,
        })
    }
}
