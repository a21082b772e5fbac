//! `linerate udp`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use linerate_model::limits;
use linerate_model::plan::{Direction, EngineChoice, IpVersion, Traffic, UdpPlan};
use linerate_model::record::ErrorRecord;
use linerate_model::units::{BitRate, ByteCount, DatagramSize, Nanos, Rate};

use super::Asked;
use super::common::{OutputArgs, Parts, Sockets, Span, Way, end};
use super::target::{Found, Where};
use super::value::{Count, RateOrMax, Size};
use crate::{help, usage};

/// To another host when no rate is asked for: what nearly every path carries.
const DEFAULT_RATE: u64 = 100_000_000;

/// What Ethernet leaves of its 1500 octets. Also the size over loopback, whose MTU of 65,536 would
/// measure memory copies that no network sees.
const fn ethernet_payload(ip: IpVersion) -> u32 {
    1_500 - ip.udp_overhead()
}

/// Datagrams: rate, loss by place, jitter, delay variation, CPU and what limits them.
///
/// UDP has no congestion control: a flood harms whoever shares the path. So without `--rate` this
/// sends 100 Mbit/s to another host, and as fast as it can only where no packet leaves this machine
/// or nobody answers: `--local`, loopback addresses and `--discard`. The rate used is printed.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::udp())]
pub struct UdpArgs {
    #[command(flatten)]
    place: Where,
    /// Rate of each direction, over all streams: 10M, 1.5G (bit/s of payload), 100kpps (datagrams
    /// per second) or max [default: 100M to another host, max on this machine and with --discard].
    #[arg(short = 'b', long, value_name = "RATE", help_heading = "Traffic")]
    rate: Option<RateOrMax>,
    /// Payload of each datagram in bytes, or mtu: the path's MTU less headers [default: mtu; over
    /// loopback 1472 on IPv4 and 1452 on IPv6, as on Ethernet].
    #[arg(short = 'l', long, value_name = "BYTES", help_heading = "Traffic")]
    size: Option<Size>,
    #[command(flatten)]
    way: Way,
    /// Send only: nobody has to answer. Counts what the kernel took and what the device sent.
    #[arg(long, help_heading = "Where")]
    discard: bool,
    /// System calls: gso cuts one buffer into many datagrams, mmsg hands over many at a time, send
    /// one; auto chooses by rate, size and burst.
    #[arg(long, value_name = "ENGINE", default_value = "auto", help_heading = "Traffic",
        value_parser = PossibleValuesParser::new(["auto", "gso", "mmsg", "send"]).map(|n| engine(&n)))]
    engine: EngineChoice,
    /// Longest burst at the asked rate: datagrams that are due within it may leave at once.
    #[arg(long, value_name = "TIME", default_value = "100us", help_heading = "Traffic")]
    burst: Nanos,
    /// Make no UDP checksums (IPv4 only).
    #[arg(long, help_heading = "Traffic")]
    no_checksum: bool,
    #[command(flatten)]
    span: Span,
    /// End after exactly this many bytes of payload, each direction.
    #[arg(short = 'n', long, value_name = "BYTES", help_heading = "How long")]
    bytes: Option<ByteCount>,
    /// End after exactly this many datagrams, each direction.
    #[arg(short = 'k', long, value_name = "N", help_heading = "How long")]
    datagrams: Option<Count>,
    #[command(flatten)]
    sockets: Sockets,
    /// How the result is shown.
    #[command(flatten)]
    pub output: OutputArgs,
}

fn engine(name: &str) -> EngineChoice {
    [EngineChoice::Gso, EngineChoice::Mmsg, EngineChoice::Send]
        .into_iter()
        .find(|e| e.name() == name)
        .unwrap_or(EngineChoice::Auto)
}

impl UdpArgs {
    /// The test, if it makes sense.
    pub fn asked(&self) -> Result<Asked, ErrorRecord> {
        let direction = self.way.direction()?;
        let mut found = self.place.find("udp", self.discard)?;
        if self.discard {
            self.check_discard(direction)?;
        }
        self.check_checksum(&mut found)?;
        let end = end(&self.span, self.bytes, self.datagrams.map(|d| d.0))?;
        let (size, size_from_mtu) = self.size(&found)?;
        let mut notes = Vec::new();
        let rate = match self.rate {
            Some(RateOrMax(rate)) => rate,
            None if found.this_machine || self.discard => None,
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
        let traffic = Traffic::Udp(UdpPlan {
            size,
            rate,
            burst: self.burst,
            engine: self.engine,
            checksum: !self.no_checksum,
        });
        Parts {
            found,
            traffic,
            direction,
            end,
            span: &self.span,
            sockets: &self.sockets,
            size_from_mtu,
            notes,
        }
        .asked()
    }

    fn check_discard(&self, direction: Direction) -> Result<(), ErrorRecord> {
        if direction != Direction::Forward {
            return Err(usage::error(
                "cannot use `--discard` with `--reverse` or `--both`",
                "nobody is at the far end who could send",
                &["leave out `--discard` and run `linerate serve` there"],
            ));
        }
        if self.sockets.cpu.as_ref().is_some_and(|c| !c.remote.is_empty()) {
            return Err(usage::error(
                "cannot use `--cpu` for the far end with `--discard`",
                "nobody is there",
                &["give the cores of this end only: --cpu 2,3"],
            ));
        }
        Ok(())
    }

    /// IPv6 has no checksum of its own, so RFC 8200 section 8.1 makes that of UDP a duty; without
    /// it the receiver drops the datagram.
    fn check_checksum(&self, found: &mut Found) -> Result<(), ErrorRecord> {
        if !self.no_checksum {
            return Ok(());
        }
        if found.ip == Some(IpVersion::V6) {
            return Err(usage::error(
                "cannot use `--no-checksum` on IPv6",
                "IPv6 has no header checksum of its own, so a receiver drops UDP without one \
                 (RFC 8200, section 8.1)",
                &["use it with IPv4: -4 --no-checksum", "leave it out"],
            ));
        }
        // A name may have both addresses; only one of them will do.
        found.ip = Some(IpVersion::V4);
        Ok(())
    }

    fn size(&self, found: &Found) -> Result<(DatagramSize, bool), ErrorRecord> {
        let ip = found.ip.unwrap_or(IpVersion::V4);
        let (octets, from_mtu) = match self.size {
            Some(Size::Octets(octets)) => (octets, false),
            Some(Size::Mtu) => (u64::from(ethernet_payload(ip)), true),
            None => (u64::from(ethernet_payload(ip)), !found.this_machine),
        };
        let octets = usage::within("--size", &limits::DATAGRAM_OCTETS, octets)?;
        let size = u32::try_from(octets).ok().and_then(DatagramSize::new);
        Ok((size.unwrap_or(DatagramSize::MAX), from_mtu))
    }
}
