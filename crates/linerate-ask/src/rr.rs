//! `linerate rr`.

use clap::Args;
use linerate_model::limits;
use linerate_model::plan::{Direction, RrPlan, Traffic, Transport};
use linerate_model::units::{ByteCount, Nanos};
use serde::Deserialize;

use super::Asked;
use super::common::{Keep, Show, Sockets, Span, asked, end};
use super::target::Where;
use super::value::Count;
use crate::from_text::text;
use crate::help;
use crate::usage::{self, Refusal};

/// Requests and responses: transactions per second and their latency.
///
/// Without `--rate` the next request leaves when a response has come. With it, requests leave on a
/// fixed schedule and latency counts from the time each was due, so that a stall is not left out.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(default)]
#[command(after_help = help::rr())]
pub struct RrArgs {
    #[command(flatten)]
    #[serde(flatten)]
    place: Where,
    /// Over UDP instead of TCP.
    #[arg(long, help_heading = "Traffic")]
    udp: bool,
    /// Bytes of a request.
    #[arg(long, value_name = "BYTES", default_value = "1", help_heading = "Traffic")]
    #[serde(deserialize_with = "text")]
    request: ByteCount,
    /// Bytes of a response.
    #[arg(long, value_name = "BYTES", default_value = "1", help_heading = "Traffic")]
    #[serde(deserialize_with = "text")]
    response: ByteCount,
    /// Requests in flight on each stream. Beside --rate, 1 is no limit: requests leave when they are due.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Traffic")]
    #[serde(deserialize_with = "text")]
    outstanding: u64,
    /// Transactions per second over all streams, on a fixed schedule: 500, 10k.
    #[arg(long, value_name = "TPS", help_heading = "Traffic")]
    rate: Option<Count>,
    #[command(flatten)]
    #[serde(flatten)]
    span: Span,
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

impl RrArgs {
    /// The same as a trial, which takes this long unless it was said.
    pub(crate) fn trial(&self, time: Nanos) -> Result<Asked, Refusal> {
        let mut trial = self.clone();
        trial.span.time.get_or_insert(time);
        trial.asked()
    }

    /// The test, if it makes sense.
    pub fn asked(&self) -> Result<Asked, Refusal> {
        self.checked().map_err(|refused| self.keep.blamed(refused))
    }

    fn checked(&self) -> Result<Asked, Refusal> {
        let found = self.place.find("rr", false)?;
        let message =
            |option, bytes: ByteCount| usage::within(option, &limits::MESSAGE_BYTES, bytes.0);
        let (request, response) =
            (message("--request", self.request)?, message("--response", self.response)?);
        let largest = u64::from(linerate_model::units::DatagramSize::MAX.bytes());
        if self.udp && request.max(response) > largest {
            return Err(usage::refusal(
                &["--udp"],
                "cannot use messages of this size with `--udp`",
                format!("a datagram carries at most {largest} bytes"),
                &["leave out `--udp`: TCP has no such limit"],
            ));
        }
        let outstanding = usage::within("--outstanding", &limits::OUTSTANDING, self.outstanding)?;
        let rate =
            self.rate.map(|r| usage::within("--rate", &limits::RATE_TPS, r.0)).transpose()?;
        let traffic = Traffic::Rr(RrPlan {
            transport: if self.udp { Transport::Udp } else { Transport::Tcp },
            // In range, so that no cast can cut.
            request: request as u32,
            response: response as u32,
            outstanding: outstanding as u32,
            rate,
        });
        let end = end(&self.span, None, None)?;
        let (direction, keep) = (Direction::Forward, self.keep.clone());
        asked(found, traffic, direction, end, &self.span, &self.sockets, keep)
    }
}
