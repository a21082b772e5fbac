//! `linerate udp`.

use clap::Args;
use linerate_model::plan::{Direction, Traffic};
use linerate_model::record::ErrorRecord;
use linerate_model::units::{BitRate, ByteCount, Nanos, Rate};
use serde::Deserialize;

use super::common::{Keep, Show, Sockets, Span, Way, asked, end};
use super::datagrams::Datagrams;
use super::search::SearchArgs;
use super::target::Where;
use super::value::{Count, RateOrMax};
use super::{Asked, Measure};
use crate::from_text::some;
use crate::help;
use crate::usage::{self, Refusal};

/// To another host when no rate is asked for: what nearly every path carries.
const DEFAULT_RATE: u64 = 100_000_000;

/// Where a search for a knee begins, bit/s.
const LEAST_KNEE: u64 = 1_000_000;

/// Datagrams: rate, loss by place, jitter, delay variation, CPU and what limits them.
///
/// UDP has no congestion control: a flood harms whoever shares the path. So without `--rate` this
/// sends 100 Mbit/s to another host, and as fast as it can only where no packet leaves this machine
/// or nobody answers: `--local`, loopback addresses and `--send-only`. The rate used is printed.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(default)]
#[command(after_help = help::udp())]
pub struct UdpArgs {
    #[command(flatten)]
    #[serde(flatten)]
    place: Where,
    /// Rate of each direction, over all streams: 10M, 1.5G (bit/s of payload), 100kpps (datagrams
    /// per second) or max [default: 100M to another host, max on this machine and with --send-only].
    #[arg(short = 'b', long, value_name = "RATE", help_heading = "Traffic")]
    rate: Option<RateOrMax>,
    #[command(flatten)]
    #[serde(flatten)]
    datagrams: Datagrams,
    #[command(flatten)]
    #[serde(flatten)]
    way: Way,
    /// Send only: nobody has to answer. Counts what the kernel took and what the NIC sent.
    #[arg(long, alias = "discard", help_heading = "Where")]
    send_only: bool,
    #[command(flatten)]
    #[serde(flatten)]
    span: Span,
    /// End after exactly this many bytes of payload, each direction.
    #[arg(short = 'n', long, value_name = "BYTES", help_heading = "How long")]
    #[serde(deserialize_with = "some")]
    bytes: Option<ByteCount>,
    /// End after exactly this many datagrams, each direction.
    #[arg(short = 'k', long = "datagrams", value_name = "N", help_heading = "How long")]
    #[serde(rename = "datagrams")]
    count: Option<Count>,
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

impl UdpArgs {
    /// The same as a trial, which takes this long unless it was said.
    pub(crate) fn trial(&self, time: Nanos) -> Result<Asked, Refusal> {
        let mut trial = self.clone();
        if self.bytes.is_none() && self.count.is_none() {
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
        let mut found = self.place.find("udp", self.send_only)?;
        if self.send_only {
            self.check_send_only(direction)?;
        }
        let end = end(&self.span, self.bytes, self.count.map(|d| d.0))?;
        let mut notes = Vec::new();
        let rate = match self.rate {
            Some(RateOrMax(rate)) => rate,
            None if found.this_machine || self.send_only => None,
            None => {
                let rate = BitRate::new(DEFAULT_RATE).map(Rate::Bits);
                if let Some(rate) = rate {
                    notes.push(format!(
                        "sends {rate}, the default to another host, because UDP has no \
                         congestion control; choose with --rate 1G or --rate max"
                    ));
                }
                rate
            }
        };
        let (plan, size_from_mtu) = self.datagrams.plan(&mut found, rate)?;
        let (traffic, keep) = (Traffic::Udp(plan), self.keep.clone());
        let mut asked = asked(found, traffic, direction, end, &self.span, &self.sockets, keep)?;
        (asked.request.size_from_mtu, asked.notes) = (size_from_mtu, notes);
        Ok(asked)
    }

    /// A quick search for the highest rate of such datagrams on this path, up to the test's own.
    pub(crate) fn search(&self) -> Result<SearchArgs, ErrorRecord> {
        if self.send_only {
            return Err(usage::error(
                "cannot use `--at-knee` with `--send-only`",
                "nobody is there to say what arrives",
                &["leave out `--send-only` and run `linerate serve` there"],
            ));
        }
        let least = LEAST_KNEE.to_string();
        let mut words =
            vec!["linerate", "search", "--local", "--preset", "quick", "--min", least.as_str()];
        let max = match self.rate {
            Some(RateOrMax(Some(Rate::Bits(rate)))) if rate.bits_per_second() <= LEAST_KNEE => {
                return Err(usage::error(
                    "cannot use `--at-knee` at that rate",
                    "the search for the knee goes from 1 Mbit/s up to `--rate`",
                    &["a higher --rate", "--rate max"],
                ));
            }
            Some(RateOrMax(Some(Rate::Bits(rate)))) => Some(rate.bits_per_second().to_string()),
            Some(RateOrMax(Some(_))) => {
                let why = "a search is for a rate in bit/s";
                return Err(usage::error(
                    "cannot use `--at-knee` with datagrams per second",
                    why,
                    &["--rate 1G"],
                ));
            }
            _ => None,
        };
        words.extend(max.iter().flat_map(|rate| ["--max", rate.as_str()]));
        words.extend(self.way.reverse.then_some("--reverse"));
        words.extend(self.way.both.then_some("--both"));
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let Measure::Search(mut search) = Measure::from_words(&words)? else {
            return Err(usage::error(
                "cannot search for the knee",
                "its words are no search's",
                &[],
            ));
        };
        search.trials.place = self.place.clone();
        search.trials.datagrams = self.datagrams.clone();
        search.trials.sockets = self.sockets.clone();
        Ok(*search)
    }

    fn check_send_only(&self, direction: Direction) -> Result<(), Refusal> {
        if direction != Direction::Forward {
            return Err(usage::refusal(
                &["--send-only", "--reverse", "--both"],
                "cannot use `--send-only` with `--reverse` or `--both`",
                "there is no server that could send",
                &["leave out `--send-only` and run `linerate serve` there"],
            ));
        }
        if self.sockets.cpu.as_ref().is_some_and(|c| !c.remote.is_empty()) {
            return Err(usage::refusal(
                &["--cpu", "--send-only"],
                "cannot use `--cpu` for the server with `--send-only`",
                "nobody is there",
                &["give the cores of this end only: --cpu 2,3"],
            ));
        }
        Ok(())
    }
}
