//! What a command line asks for, as a plan.

use linerate_model::limits;
use linerate_model::plan::{
    Direction, End, EngineChoice, RrPlan, TcpPlan, TestPlan, Traffic, Transport, UdpPlan,
};
use linerate_model::units::{BitRate, DatagramSize, Nanos, Rate};

use super::{Buffers, Line, Test, Way};

/// Of UDP where no size is named, and the socket's buffer has room for it, over IPv4.
const UDP_BYTES: u32 = 65_507;
/// The smallest buffer of a socket that sends.
const LEAST_BUFFER: u32 = 4_608;
/// Between bursts where no time is named, in nanoseconds.
const PAUSE_NS: u64 = 1_000_000;
/// Of TCP where neither the user nor the system names one.
const BLOCK_BYTES: u32 = 16_384;
const SECOND_NS: u64 = 1_000_000_000;

/// Of a call whose size nobody named: that of the socket's buffer, as far as one call may go.
fn block(buffer: Option<u32>) -> u32 {
    buffer.unwrap_or(BLOCK_BYTES).min(limits::BLOCK_BYTES.max as u32)
}

impl Line {
    /// Bytes of a send call here, which are those of the socket's buffer unless they are named.
    pub fn send_size(&self, defaults: Buffers) -> u32 {
        // The kernel doubles what is asked of it, and gives no less than this (`SOCK_MIN_SNDBUF`, include/net/sock.h).
        let granted = self.buffers[0].0.filter(|bytes| *bytes > 0);
        let granted = granted.map(|bytes| bytes.saturating_mul(2).max(LEAST_BUFFER));
        self.send_sizes.0.unwrap_or_else(|| match self.udp {
            true => granted.or(defaults.udp_send).unwrap_or(UDP_BYTES).min(UDP_BYTES),
            false => block(granted.or(defaults.tcp_send)),
        })
    }

    fn end(&self) -> End {
        let units = self.length.unsigned_abs();
        match (self.length, self.way) {
            (1.., _) => End::Time(Nanos(units.saturating_mul(SECOND_NS))),
            // Until a signal comes.
            (0, Way::Asks) => End::Datagrams(limits::DATAGRAMS.max),
            (0, _) => End::Bytes(limits::BYTES.max),
            (_, Way::Asks) => End::Datagrams(units),
            (_, _) => End::Bytes(units),
        }
    }

    pub(super) fn plan(&self, defaults: Buffers) -> Result<TestPlan, String> {
        let end = self.end();
        let whole = match end {
            End::Time(time) => time.0,
            _ => u64::MAX,
        };
        let asked = self.interim_s.map(|seconds| (seconds * 1e9) as u64);
        let (least, most) = (limits::INTERVAL_NS.min, limits::INTERVAL_NS.max);
        let [here, _] = self.buffers;
        // What the system gives, and not what linerate would take: the kernel doubles what is asked of it.
        let system = defaults.udp_send.max(defaults.udp_receive).map(|bytes| bytes / 2);
        let system = system.filter(|_| self.udp);
        Ok(TestPlan {
            traffic: self.traffic(defaults)?,
            direction: match self.way {
                Way::Receives => Direction::Reverse,
                Way::Sends | Way::Asks => Direction::Forward,
            },
            streams: 1,
            end,
            warmup: Nanos(0),
            interval: Nanos(asked.unwrap_or(whole).clamp(least, most)),
            window: here.0.max(here.1).or(system),
            client_cpus: self.cores.0.into_iter().collect(),
            server_cpus: vec![],
            dscp: self.services.0.map(|service| service >> 2).filter(|dscp| *dscp > 0),
        })
    }

    fn traffic(&self, defaults: Buffers) -> Result<Traffic, String> {
        if self.way == Way::Asks {
            let (request, response) = self.sizes.unwrap_or((1, 1));
            return Ok(Traffic::Rr(RrPlan {
                transport: if self.udp { Transport::Udp } else { Transport::Tcp },
                request,
                response,
                outstanding: self.burst.saturating_add(1),
                rate: self.requests_a_second()?,
            }));
        }
        let receives = self.way == Way::Receives;
        let size = match (receives, self.receive_sizes.1) {
            (true, Some(named)) => named,
            (true, None) if !self.udp => block(defaults.tcp_receive),
            _ => self.send_size(defaults),
        };
        // netperf paces what it sends itself, and receives as it comes.
        let rate = if receives { None } else { self.rate(size)? };
        Ok(if self.udp {
            // Of what it receives the server decides.
            let size = if receives { UDP_BYTES } else { size };
            Traffic::Udp(UdpPlan {
                size: DatagramSize::new(size)
                    .filter(|size| size.bytes() > 0)
                    .ok_or_else(|| format!("send_data: data send error: Message too long (datagrams of {size} bytes do not exist)"))?,
                rate: rate.map(Rate::Bits),
                burst: Nanos(100_000),
                engine: EngineChoice::Auto,
                checksum: true,
            })
        } else {
            Traffic::Tcp(TcpPlan {
                block: size,
                mss: self.mss,
                congestion: self.congestion.0.clone(),
                nodelay: self.nodelay,
                rate,
                discard: false,
                zerocopy: self.test == Test::TcpSendfile,
            })
        })
    }

    /// Of `-b` and `-w`.
    fn requests_a_second(&self) -> Result<Option<u64>, String> {
        let Some(burst) = self.pace.0 else { return Ok(None) };
        if self.connections {
            return Err("-b and -w: connections are made as fast as they can be".into());
        }
        let pause_ns = u128::from(self.pace.1.unwrap_or(PAUSE_NS).max(1));
        let all = u128::from(burst) * u128::from(SECOND_NS);
        // Less than half a percent is lost in whole numbers of more.
        if all % pause_ns > 0 && all / pause_ns < 100 {
            return Err("-b and -w: that is no whole number of requests a second".into());
        }
        let rate = u64::try_from((all + pause_ns / 2) / pause_ns);
        rate.map(Some).map_err(|_| "-b and -w: no such rate".into())
    }

    /// Of `-b` and `-w`, and of `-q`. A time alone paces nothing.
    fn rate(&self, size: u32) -> Result<Option<BitRate>, String> {
        let most = self.most_a_second.and_then(|bytes| BitRate::new(u64::from(bytes) * 8));
        let Some(burst) = self.pace.0 else { return Ok(most) };
        let pause_ns = u128::from(self.pace.1.unwrap_or(PAUSE_NS).max(1));
        let bits = u128::from(burst) * u128::from(size) * 8 * u128::from(SECOND_NS) / pause_ns;
        let rate = u64::try_from(bits).ok().and_then(BitRate::new);
        let rate = rate.ok_or("-b and -w: no such rate")?;
        Ok(Some(most.map_or(rate, |most| most.min(rate))))
    }
}
