//! What all trials of a sweep or a search share: where to, what the datagrams are like, sockets and
//! cores. The experiment itself gives rate, way and time of each.

use clap::Args;
use linerate_model::plan::{Direction, End, ONE_DATAGRAM, Traffic};
use linerate_model::record::ErrorRecord;
use linerate_model::units::{BitRate, DatagramSize, Nanos, Rate};

use super::Asked;
use super::common::{Keep, Names, Sockets, Span, asked};
use super::datagrams::Datagrams;
use super::target::Where;
use crate::usage;

/// Options of every verb that runs trials.
#[derive(Debug, Clone, Args)]
pub struct TrialArgs {
    /// Where to.
    #[command(flatten)]
    pub place: Where,
    /// What they are like.
    #[command(flatten)]
    pub datagrams: Datagrams,
    /// Sockets and cores.
    #[command(flatten)]
    pub sockets: Sockets,
    /// Traffic before the measured time of each trial, counted apart.
    #[arg(short = 'O', long, value_name = "TIME", default_value = "0", help_heading = "How long")]
    pub warmup: Nanos,
    /// By which name it is known.
    #[command(flatten)]
    pub names: Names,
}

/// Report interval of a trial of this length: a tenth, enough to see a rate that is not steady.
pub fn interval(time: Nanos) -> Nanos {
    // Shorter intervals measure the scheduler, longer ones show no more.
    Nanos((time.0 / 10).clamp(50_000_000, 1_000_000_000))
}

impl TrialArgs {
    /// The test that each trial is a variant of, one way and of length `time`, checked against the
    /// table of limits, and whether its packets never leave this machine.
    pub fn asked(&self, verb: &str, time: Nanos) -> Result<(Asked, bool), ErrorRecord> {
        let mut found = self.place.find(verb, false)?;
        let this_machine = found.this_machine;
        let (plan, size_from_mtu) = self.datagrams.plan(&mut found, None)?;
        let span = Span { time: Some(time), warmup: self.warmup, interval: interval(time) };
        let (traffic, end) = (Traffic::Udp(plan), End::Time(time));
        let keep = Keep { names: self.names.clone(), ..Keep::default() };
        let way = Direction::Forward;
        let mut asked = asked(found, traffic, way, end, &span, &self.sockets, keep)?;
        asked.request.size_from_mtu = size_from_mtu;
        // All trials are of one dialect.
        asked.request.elsewhere = false;
        Ok((asked, this_machine))
    }
}

/// Whether the slowest trial, of `time` at `bps` with datagrams of `size` (or the plan's), sends a datagram:
/// what cannot be measured is refused before the first trial.
pub fn slowest(
    asked: &Asked,
    option: &str,
    time: Nanos,
    bps: u64,
    size: Option<u64>,
) -> Result<(), ErrorRecord> {
    let mut plan = asked.request.plan.clone();
    plan.end = End::Time(time);
    if let Traffic::Udp(udp) = &mut plan.traffic {
        udp.rate = BitRate::new(bps).map(Rate::Bits);
        let size = size.and_then(|size| u32::try_from(size).ok()).and_then(DatagramSize::new);
        udp.size = size.unwrap_or(udp.size);
    }
    match plan.check() {
        Err(found) if found.name == ONE_DATAGRAM => Err(usage::too_slow(option, &found)),
        // The numbers of the plan were checked before.
        _ => Ok(()),
    }
}
