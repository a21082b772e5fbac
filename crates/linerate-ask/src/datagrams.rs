//! What the datagrams of a test are like: shared by the verbs that send them.

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use linerate_model::limits;
use linerate_model::plan::{EngineChoice, IpVersion, UdpPlan};
use linerate_model::units::{DatagramSize, Nanos, Rate};
use serde::Deserialize;

use super::target::Found;
use super::value::Size;
use crate::from_text::text;
use crate::usage::{self, Refusal};

/// What Ethernet leaves of its 1500 bytes. Also the size over loopback, whose MTU of 65,536 would
/// measure memory copies that no network sees.
const fn ethernet_payload(ip: IpVersion) -> u32 {
    1_500 - ip.udp_overhead()
}

/// Size of datagrams and the way they are sent.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Traffic")]
pub struct Datagrams {
    /// Payload of each datagram in bytes, or mtu: the path's MTU less headers [default: mtu; over
    /// loopback 1472 on IPv4 and 1452 on IPv6, as on Ethernet].
    #[arg(short = 'l', long, value_name = "BYTES")]
    pub size: Option<Size>,
    /// System calls: gso cuts one buffer into many datagrams, mmsg hands over many at a time, send
    /// one; auto chooses by rate, size and burst.
    #[arg(long, value_name = "ENGINE", default_value = "auto",
        value_parser = PossibleValuesParser::new(["auto", "gso", "mmsg", "send"]).map(|n| engine(&n)))]
    pub engine: EngineChoice,
    /// Longest burst at the asked rate: datagrams that are due within it may leave at once.
    #[arg(long, value_name = "TIME", default_value = "100us")]
    #[serde(deserialize_with = "text")]
    pub burst: Nanos,
    /// Make no UDP checksums (IPv4 only).
    #[arg(long)]
    pub no_checksum: bool,
}

fn engine(name: &str) -> EngineChoice {
    [EngineChoice::Gso, EngineChoice::Mmsg, EngineChoice::Send]
        .into_iter()
        .find(|e| e.name() == name)
        .unwrap_or(EngineChoice::Auto)
}

impl Datagrams {
    /// The datagrams at this rate, and whether their size is a placeholder until the path's MTU is
    /// known.
    pub fn plan(&self, found: &mut Found, rate: Option<Rate>) -> Result<(UdpPlan, bool), Refusal> {
        self.check_checksum(found)?;
        let (size, size_from_mtu) = self.size(found)?;
        let plan = UdpPlan {
            size,
            rate,
            burst: self.burst,
            engine: self.engine,
            checksum: !self.no_checksum,
        };
        Ok((plan, size_from_mtu))
    }

    /// IPv6 has no checksum of its own, so RFC 8200 section 8.1 makes that of UDP a duty; without
    /// it the receiver drops the datagram.
    fn check_checksum(&self, found: &mut Found) -> Result<(), Refusal> {
        if !self.no_checksum {
            return Ok(());
        }
        if found.ip == Some(IpVersion::V6) {
            return Err(usage::refusal(
                &["--no-checksum"],
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

    fn size(&self, found: &Found) -> Result<(DatagramSize, bool), Refusal> {
        let ip = found.ip.unwrap_or(IpVersion::V4);
        let (bytes, from_mtu) = match self.size {
            Some(Size::Bytes(bytes)) => (bytes, false),
            Some(Size::Mtu) => (u64::from(ethernet_payload(ip)), true),
            None => (u64::from(ethernet_payload(ip)), !found.this_machine),
        };
        let bytes = usage::within("--size", &limits::DATAGRAM_BYTES, bytes)?;
        let size = u32::try_from(bytes).ok().and_then(DatagramSize::new);
        Ok((size.unwrap_or(DatagramSize::MAX), from_mtu))
    }
}
