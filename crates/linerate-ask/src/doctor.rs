//! `linerate doctor`.

use clap::Args;
use linerate_model::limits;
use linerate_model::plan::{Direction, End, RrPlan, TcpPlan, Traffic, Transport, UdpPlan};
use linerate_model::units::{BitRate, DatagramSize, Nanos, Rate};
use linerate_runner::client::Request;

use super::common::{Keep, Sockets, Span, asked};
use super::target::{Found, Where};
use super::trial::interval;
use crate::help;
use crate::usage::{self, Refusal};

/// What holds this host back on the way to another: what is set badly, why that matters, what changes it.
///
/// It changes nothing, unless a change is to be proven (`--prove`). With HOST it asks the server there with a
/// test of 0.3 s of single small requests for its facts and the round trip, and with one of requests that each fill a
/// packet for what the path takes; where the server's owner lets the key of --key-file control its host (`linerate serve
/// --allow-settings`), that host is looked at as closely as this one. Without HOST it looks at this host alone.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::doctor())]
pub struct DoctorArgs {
    /// Where to.
    #[command(flatten)]
    pub place: Where,
    /// What the path shall carry; findings are judged against it.
    #[arg(short = 'b', long, value_name = "RATE", help_heading = "Goal")]
    rate: Option<BitRate>,
    /// Make the change of this finding, such as offload.tso, and test without and with it in turn; needs
    /// --allow-settings and the server at HOST.
    #[arg(long, value_name = "ID", help_heading = "Proof")]
    pub prove: Option<String>,
    /// Let --prove change settings of this host; all are put back at the end, whatever happens, but
    /// for what --keep-if-better keeps.
    #[arg(long, requires = "prove", help_heading = "Proof")]
    allow_settings: bool,
    /// Then make the change for good, if the runs show that it helps.
    #[arg(long, requires = "prove", help_heading = "Proof")]
    pub keep_if_better: bool,
    /// Pairs of runs of --prove.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "prove", help_heading = "Proof",
        value_parser = clap::value_parser!(u32).range(3..=1_000))]
    pub pairs: u32,
    /// Length of each run of --prove.
    #[arg(
        short,
        long,
        value_name = "TIME",
        default_value = "1s",
        requires = "prove",
        help_heading = "Proof"
    )]
    pub time: Nanos,
    /// Print one JSON document.
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    /// Print every note with its reasons, and each check that could not be made.
    #[arg(short, long, conflicts_with = "json", help_heading = "Output")]
    pub verbose: bool,
}

/// What is asked of the doctor.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The other host; `None` looks at this one alone.
    pub place: Option<Found>,
    /// What the path shall carry, bit/s.
    pub rate_bps: Option<u64>,
}

/// Bytes a write and a read.
const BLOCK_BYTES: u32 = 128 << 10;
/// Single requests and their answers, for so long: enough for a median round trip.
pub const CONTACT: Nanos = Nanos(300_000_000);

impl DoctorArgs {
    /// What is asked, if it makes sense.
    ///
    /// # Errors
    /// When it does not.
    pub fn asked(&self) -> Result<Asked, Refusal> {
        let given = self.place.host.is_some() || self.place.local;
        let place = given.then(|| self.place.find("doctor", false)).transpose()?;
        if let (None, Some(option)) = (&place, self.place.way()) {
            return Err(usage::refusal(
                &[option],
                format!("cannot use `{option}` without a host"),
                "it says how a server is reached, and this host alone is looked at",
                &["linerate doctor HOST", "leave it out"],
            ));
        }
        if self.prove.is_some() && place.is_none() {
            return Err(usage::refusal(
                &["--prove"],
                "cannot prove a change without a host",
                "a change is tried by tests with a server",
                &["linerate doctor HOST --prove ID --allow-settings"],
            ));
        }
        if self.prove.is_some() && !self.allow_settings {
            return Err(usage::refusal(
                &["--prove"],
                "cannot use `--prove` without `--allow-settings`",
                "it changes a setting of this host, and puts it back",
                &["--allow-settings"],
            ));
        }
        usage::within("--time", &limits::DURATION_NS, self.time.0)?;
        Ok(Asked { place, rate_bps: self.rate.map(BitRate::bits_per_second) })
    }

    /// The test by which the far host reports of itself, and the path of its round trip and of packets with `request`
    /// bytes of TCP's.
    ///
    /// # Errors
    /// None that a user can cause.
    pub fn contact(&self, found: &Found, request: u32, time: Nanos) -> Result<Request, Refusal> {
        let message =
            RrPlan { transport: Transport::Tcp, request, response: 1, outstanding: 1, rate: None };
        self.test(found, Traffic::Rr(message), Direction::Forward, time)
    }

    /// A run of a proof: datagrams at the asked rate, or a byte stream as fast as it goes.
    ///
    /// # Errors
    /// When a time is out of range.
    pub fn run(&self, found: &Found, way: Direction, datagrams: bool) -> Result<Request, Refusal> {
        if !datagrams {
            return self.test(found, Traffic::Tcp(TcpPlan::new(BLOCK_BYTES)), way, self.time);
        }
        // No flood to another host that nobody asked for, and at a low rate every setting is good enough.
        if self.rate.is_none() && !found.this_machine {
            return Err(usage::refusal(
                &["--prove"],
                "cannot prove what a change is worth to datagrams without a rate",
                "it shows where the path is to carry as much as it can",
                &["--rate RATE: what the path shall carry"],
            ));
        }
        let size = DatagramSize::new(1_472).unwrap_or(DatagramSize::MAX);
        let udp = UdpPlan { rate: self.rate.map(Rate::Bits), ..UdpPlan::new(size) };
        let mut request = self.test(found, Traffic::Udp(udp), way, self.time)?;
        request.size_from_mtu = true;
        Ok(request)
    }

    fn test(
        &self,
        found: &Found,
        traffic: Traffic,
        way: Direction,
        time: Nanos,
    ) -> Result<Request, Refusal> {
        let span = Span { time: Some(time), warmup: Nanos(0), interval: interval(time) };
        let sockets = Sockets { streams: 1, window: None, cpu: None, dscp: None };
        let end = End::Time(time);
        let asked = asked(found.clone(), traffic, way, end, &span, &sockets, Keep::default())?;
        Ok(asked.request)
    }
}
