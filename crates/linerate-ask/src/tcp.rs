//! `linerate tcp`.

use clap::Args;
use linerate_model::limits;
use linerate_model::plan::{TcpPlan, Traffic};
use linerate_model::units::{ByteCount, Nanos};
use serde::Deserialize;

use super::Asked;
use super::common::{Keep, Show, Sockets, Span, Way, asked, end};
use super::target::Where;
use super::value::BitRateOrMax;
use crate::from_text::{some, text};
use crate::help;
use crate::usage::{self, Refusal};

/// A byte stream: rate, retransmissions, round trip, window, CPU and what limits it.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(default)]
#[command(after_help = help::tcp())]
pub struct TcpArgs {
    #[command(flatten)]
    #[serde(flatten)]
    place: Where,
    /// Pacing rate of each direction, over all streams, kept by the kernel: 500M, 1.5G or max.
    #[arg(short = 'b', long, value_name = "RATE", default_value = "max", help_heading = "Traffic")]
    rate: BitRateOrMax,
    /// Bytes of one write and one read.
    #[arg(
        short = 'l',
        long,
        value_name = "BYTES",
        default_value = "512Ki",
        help_heading = "Traffic"
    )]
    #[serde(deserialize_with = "text")]
    block: ByteCount,
    #[command(flatten)]
    #[serde(flatten)]
    way: Way,
    /// Congestion control of the senders, such as cubic or bbr.
    #[arg(short = 'C', long, value_name = "NAME", help_heading = "Traffic")]
    congestion: Option<String>,
    /// Maximum segment size.
    #[arg(short = 'M', long, value_name = "BYTES", help_heading = "Traffic")]
    #[serde(deserialize_with = "some")]
    mss: Option<ByteCount>,
    /// Send small blocks at once (TCP_NODELAY).
    #[arg(short = 'N', long, help_heading = "Traffic")]
    nodelay: bool,
    /// How receivers read: truncate, which drops the bytes inside the kernel (MSG_TRUNC), shows what
    /// the path carries and is said in the result, or copy, as an application does.
    #[arg(long, value_name = "HOW", default_value = "truncate", help_heading = "Traffic")]
    rx: Receive,
    /// How senders write: copy, as an application does, or sendfile, which hands over the same
    /// pages again and again and is said in the result.
    #[arg(long, value_name = "HOW", default_value = "copy", help_heading = "Traffic")]
    tx: Send,
    #[command(flatten)]
    #[serde(flatten)]
    span: Span,
    /// End after exactly this many bytes, each direction.
    #[arg(short = 'n', long, value_name = "BYTES", help_heading = "How long")]
    #[serde(deserialize_with = "some")]
    bytes: Option<ByteCount>,
    #[command(flatten)]
    #[serde(flatten)]
    sockets: Sockets,
    /// How the result is shown.
    #[command(flatten)]
    #[serde(flatten)]
    pub show: Show,
    /// Where it is kept.
    #[command(flatten)]
    #[serde(flatten)]
    keep: Keep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Receive {
    Copy,
    #[value(alias = "discard")]
    #[serde(alias = "discard")]
    Truncate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Send {
    Copy,
    Sendfile,
}

impl TcpArgs {
    /// The same as a trial, which takes this long unless it was said.
    pub(crate) fn trial(&self, time: Nanos) -> Result<Asked, Refusal> {
        let mut trial = self.clone();
        if self.bytes.is_none() {
            trial.span.time.get_or_insert(time);
        }
        trial.asked()
    }

    /// The test, if it makes sense.
    pub fn asked(&self) -> Result<Asked, Refusal> {
        self.checked().map_err(|refused| self.keep.blamed(refused))
    }

    fn checked(&self) -> Result<Asked, Refusal> {
        let direction = self.way.direction()?;
        let found = self.place.find("tcp", false)?;
        let end = end(&self.span, self.bytes, None)?;
        if let Some(name) = &self.congestion {
            check_congestion(name)?;
        }
        let block = usage::within("--block", &limits::BLOCK_BYTES, self.block.0)?;
        let mss = self.mss.map(|m| usage::within("--mss", &limits::MSS_BYTES, m.0)).transpose()?;
        let traffic = Traffic::Tcp(TcpPlan {
            // In range, so that neither cast can cut.
            block: block as u32,
            mss: mss.map(|m| m as u32),
            congestion: self.congestion.clone(),
            nodelay: self.nodelay,
            rate: self.rate.0,
            discard: self.rx == Receive::Truncate,
            zerocopy: self.tx == Send::Sendfile,
        });
        asked(found, traffic, direction, end, &self.span, &self.sockets, self.keep.clone())
    }
}

/// `TCP_CA_NAME_MAX` of the kernel is 16 with the closing zero.
pub(crate) fn check_congestion(name: &str) -> Result<(), Refusal> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !name.is_empty() && name.len() <= 15 && name.bytes().all(word) {
        return Ok(());
    }
    Err(usage::refusal(
        &["--congestion"],
        format!("cannot use `--congestion {name}`"),
        "a congestion control has a name of 1 to 15 letters and digits",
        &["`sysctl net.ipv4.tcp_available_congestion_control` lists those of a host"],
    ))
}
